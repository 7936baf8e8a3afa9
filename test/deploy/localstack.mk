# LocalStack: serve one without Docker or token, deploy to one, run there. See
# docs/emulators.md.

LOCALSTACK ?= http://localhost:4566
LOCALSTACK_OUT := cdk.out/localstack
LOCALSTACK_PYTHON := .venv/localstack/bin/python

# The CDK command line remembers the account of a key; so this key is LocalStack's own.
LOCALSTACK_AWS := AWS_ENDPOINT_URL=$(LOCALSTACK) AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION=$(LOCALSTACK) \
  AWS_ACCESS_KEY_ID=localstack AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1 LOCKSTEP_S3_PATH_STYLE=true

.PHONY: localstack localstack-deploy localstack-run

localstack: $(LOCALSTACK_PYTHON) ## serve an open LocalStack, which needs no token, without Docker (see docs/emulators.md)
	@$(LOCALSTACK_PYTHON) test/deploy/emulators/localstack_main.py --listen $(LOCALSTACK)

localstack-deploy: $(NODE_MODULES) ## deploy the settings in cdk.json to LocalStack (LOCALSTACK=http://localhost:4566)
	@mkdir -p $(LOCALSTACK_OUT)
	@node test/deploy/localstack.cjs settings $(LOCALSTACK) > $(LOCALSTACK_OUT)/settings.json
	@$(MAKE) --no-print-directory build ARCH=$(SAM_ARCH) OUT=$(LOCALSTACK_OUT)
	@cd $(LOCALSTACK_OUT) && $(LOCALSTACK_AWS) $(CURDIR)/node_modules/.bin/cdk bootstrap aws://000000000000/us-east-1
	@$(LOCALSTACK_AWS) npx cdk deploy --output $(LOCALSTACK_OUT)/cdk.out --context dist=$(LOCALSTACK_OUT)/dist \
	  --context lockstep=@$(LOCALSTACK_OUT)/settings.json --outputs-file $(LOCALSTACK_OUT)/outputs.json --require-approval never

localstack-run: ## upload samples to what localstack-deploy has deployed, start a run there, and follow it
	@node test/deploy/localstack.cjs upload $(LOCALSTACK) $(LOCALSTACK_OUT)/outputs.json
	@$(LOCALSTACK_AWS) $(LOCALSTACK_OUT)/bin/lockstep run --stack lockstep --wait

$(LOCALSTACK_PYTHON): test/deploy/emulators/requirements-localstack.txt
	@test/venv localstack $<
	@touch $@

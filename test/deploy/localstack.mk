# LocalStack: serve one without Docker or token, deploy to one, run there. See
# docs/emulators.md.

LOCALSTACK ?= http://localhost:4566
LOCALSTACK_OUT := cdk.out/localstack
LOCALSTACK_PYTHON := .venv/localstack/bin/python

# What the CDK command line, Lockstep and LocalStack's users share. The CDK
# command line remembers the account of a key, and so the key is LocalStack's own.
LOCALSTACK_AWS := AWS_ENDPOINT_URL=$(LOCALSTACK) AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION=$(LOCALSTACK) \
  AWS_ACCESS_KEY_ID=localstack AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1 LOCKSTEP_S3_PATH_STYLE=true

# The settings of cdk.json. LocalStack's functions know where it is, and need to
# name buckets in paths.
LOCALSTACK_SETTINGS := const s = require("./cdk.json").context.lockstep; \
  s.functions = { ...s.functions, environment: { ...s.functions?.environment, LOCKSTEP_S3_PATH_STYLE: "true" } }; JSON.stringify(s)
LOCALSTACK_SOURCE := JSON.parse(require("$(abspath $(LOCALSTACK_OUT))/outputs.json").lockstep.WeatherRun).source

.PHONY: localstack localstack-deploy localstack-run

localstack: $(LOCALSTACK_PYTHON) ## serve the last LocalStack that needs no token, without Docker (see docs/emulators.md)
	@$(LOCALSTACK_PYTHON) test/deploy/emulators/localstack_main.py --listen $(LOCALSTACK)

localstack-deploy: $(NODE_MODULES) ## deploy the settings in cdk.json to LocalStack (LOCALSTACK=http://localhost:4566)
	@curl --silent --show-error --fail --output /dev/null $(LOCALSTACK)/_localstack/health || \
	  { echo "no LocalStack answers at $(LOCALSTACK): start one, or run make localstack; docs/emulators.md says how"; exit 1; }
	@$(MAKE) --no-print-directory build ARCH=$(SAM_ARCH) OUT=$(LOCALSTACK_OUT)
	@node --print '$(LOCALSTACK_SETTINGS)' > $(LOCALSTACK_OUT)/settings.json
	@cd $(LOCALSTACK_OUT) && $(LOCALSTACK_AWS) $(CURDIR)/node_modules/.bin/cdk bootstrap aws://000000000000/us-east-1
	@$(LOCALSTACK_AWS) npx cdk deploy --output $(LOCALSTACK_OUT)/cdk.out --context dist=$(LOCALSTACK_OUT)/dist \
	  --context lockstep=@$(LOCALSTACK_OUT)/settings.json --outputs-file $(LOCALSTACK_OUT)/outputs.json --require-approval never

localstack-run: ## upload samples to what localstack-deploy has deployed, start a run there, and follow it
	@test -f $(LOCALSTACK_OUT)/outputs.json || { echo "nothing is deployed: run make localstack-deploy"; exit 1; }
	@source=$$(node --print 'const s = $(LOCALSTACK_SOURCE); s.bucket + "/" + s.prefix'); \
	for file in $$(cd samples && find . -name '2012-0*.csv'); do \
	  curl --silent --show-error --fail --upload-file samples/$$file "$(LOCALSTACK)/$$source$${file#./}" || exit 1; \
	done
	@$(LOCALSTACK_AWS) $(LOCALSTACK_OUT)/bin/lockstep run --stack lockstep --wait

$(LOCALSTACK_PYTHON): test/deploy/emulators/requirements-localstack.txt
	@test/deploy/emulators/install localstack requirements-localstack.txt
	@touch $@

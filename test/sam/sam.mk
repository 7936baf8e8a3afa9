# The commands that invoke the functions with the AWS SAM command line, in
# containers of this machine's architecture. See docs/sam.md.

SAM_INSTALLED := .venv/sam/bin/sam
SAM ?= $(SAM_INSTALLED)
SAM_ARCH ?= $(if $(filter arm64 aarch64,$(shell uname -m)),arm64,x86_64)
SAM_OUT := cdk.out/sam
SAM_SOURCES := $(shell find cmd functions internal pkg samples infra -type f -not -name '*_test.go' -not -path '*/testdata/*') \
  go.mod go.sum cdk.json statemachine.asl.json machine.go

# The functions' environment, what is handed to one, and how SAM calls it.
ENV_VARS ?= test/sam/env.json
EVENT ?= events/$*.json
SAM_ID_acquire := AcquireFunction
SAM_ID_discover := DiscoverFunction
SAM_ID_process := ProcessFunction
SAM_ID_commit := CommitFunction
SAM_ID_release := ReleaseFunction

.PHONY: sam-s3 sam-test $(FUNCTIONS:%=sam-%)

sam-acquire: ## invoke a function with SAM in Docker; as well sam-discover, -process, -commit, -release (EVENT=…; see docs/sam.md)
$(FUNCTIONS:%=sam-%): sam-%: $(SAM_OUT)/manifest.json $(filter $(SAM_INSTALLED),$(SAM))
	@$(GO) run -buildvcs=false ./test/sam/template $(SAM_OUT) $(ENV_VARS)
	@SAM_CLI_TELEMETRY=0 $(SAM) local invoke --template $(SAM_OUT)/template.json $(SAM_ID_$*) --event $(EVENT) \
	  $(if $(ENV_VARS),--env-vars $(ENV_VARS)) --add-host host.docker.internal:host-gateway $(SAM_FLAGS)

sam-s3: ## serve an S3 whose buckets suit the events, for the functions that SAM invokes
	@$(GO) run -buildvcs=false ./test/sam/s3

sam-test: $(SAM_OUT)/manifest.json $(SAM_INSTALLED) ## take a run through the five functions with SAM, where there is a Docker or one can be started
	@$(GO) run -buildvcs=false ./test/sam/template $(SAM_OUT) test/sam/env.json
	test/sam/run $(SAM_OUT) $(abspath $(SAM_INSTALLED)) $(SAM_ARCH)

# CDK's output beside make synth's own: for this machine's architecture.
$(SAM_OUT)/manifest.json: $(SAM_SOURCES) | $(NODE_MODULES)
	@$(MAKE) --no-print-directory build ARCH=$(SAM_ARCH) OUT=$(SAM_OUT) >&2
	@npx cdk synth --quiet --output $(SAM_OUT) --context dist=$(SAM_OUT)/dist >&2

$(SAM_INSTALLED): test/sam/requirements.txt
	@test/venv sam $<
	@touch $@

# The commands of this project. `make` alone lists them.

GO ?= go

# The race detector needs a C compiler; without one the tests run without it.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

# Some packages wait for processes and servers of theirs: two for each core keep
# the cores busy.
PACKAGES := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))))

# Architecture of the Lambda functions: arm64 or x86_64, as Lambda names them.
ARCH ?= arm64
GOARCH_arm64 := arm64
GOARCH_x86_64 := amd64

FUNCTIONS := acquire discover process commit release
FUZZTIME ?= 10s
SOAK ?= 10m
WORLDS ?= 200
FIRST ?= $(shell date +%s)
FAULTS ?= 600
SCALE ?= 10000000

# Where build puts bin/ and dist/.
OUT ?= .

# Binaries depend on the source alone: no paths, no symbols, no commit.
BUILD := $(GO) build -buildvcs=false -trimpath -ldflags "-s -w"

# npm writes this file last.
NODE_MODULES := node_modules/.package-lock.json

.DEFAULT_GOAL := help
.PHONY: help run test lint build clean fuzz bench interop soak drill scale synth infra-test deploy-test

help: ## list these commands
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null || \
	 sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1	\2/p' $(MAKEFILE_LIST)

run: ## watch two runs take turns over real files, on this machine
	@$(GO) run -buildvcs=false ./cmd/lockstep demo

test: ## run all tests, and read the outputs with independent Parquet readers
	@$(if $(RACE),,echo "no C compiler found: testing without the race detector")
	$(GO) test $(RACE) -p $(PACKAGES) ./...
	@RACE=$(RACE) test/parquet/run

lint: ## go vet, staticcheck, gofmt, and whether go.mod is tidy
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@unformatted=$$(find . -name node_modules -prune -o -name .venv -prune -o -name '*.go' -print | xargs gofmt -l); test -z "$$unformatted" || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	@$(GO) mod tidy -diff || { echo "go.mod or go.sum is not tidy: run go mod tidy"; exit 1; }

build: ## build bin/lockstep, and dist/<function>/bootstrap for Lambda (ARCH=arm64 or x86_64)
	@test -n "$(GOARCH_$(ARCH))" || { echo "ARCH is '$(ARCH)'; it must be arm64 or x86_64"; exit 1; }
	$(BUILD) -o $(OUT)/bin/lockstep ./cmd/lockstep
	@for f in $(FUNCTIONS); do \
	  echo "dist/$$f/bootstrap ($(ARCH))"; \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH_$(ARCH)) $(BUILD) -tags lambda.norpc -o $(OUT)/dist/$$f/bootstrap ./functions/$$f || exit 1; \
	done

synth: build $(NODE_MODULES) ## turn the settings in cdk.json into CloudFormation, in cdk.out (ARCH=…)
	npx cdk synth --quiet

infra-test: build $(NODE_MODULES) ## check the stack: tests, cdk-nag, cfn-lint, two ASL validators (ARCH=…; minutes at first)
	test/deploy/run $(ARCH)

deploy-test: $(NODE_MODULES) ## deploy to three emulators, run there, and compare with our interpreter (minutes; see docs/emulators.md)
	test/deploy/emulators/run

$(NODE_MODULES): package-lock.json
	npm ci
	@touch $@

clean: ## remove what the other commands made
	rm -rf bin dist .venv cdk.out node_modules

fuzz: ## run each fuzz target for a moment (FUZZTIME=10s)
	@grep -rEo '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed 's/func //' | while IFS=: read -r file target; do \
	  echo "$$target"; \
	  $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done

bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . ./...

interop: ## run the contracts over S3 servers that others wrote (minutes; see docs/interop.md)
	cd test/interop && $(GO) vet ./... && $(GO) test -count=1 -timeout 60m -v ./...

soak: ## hold the lock to its promises under faults and kills (SOAK=10m)
	$(GO) test ./test/soak -count=1 -v -run Soak -soak $(SOAK) -timeout 30m

drill: ## let runs go wrong in every way, and hold the outcome to the promise (WORLDS=200; FIRST=seed; FAULTS=600, or 0 without the wrong programs)
	$(GO) test -count=1 -timeout 60m ./internal/step -run 'NothingIsLost|OracleFindsWrong' -v -drill.first=$(FIRST) -drill.worlds=$(WORLDS) -drill.faults=$(FAULTS)

scale: ## measure discovery and commits over ten million files (minutes; SCALE=10000000)
	$(GO) test ./test/scale -count=1 -v -scale $(SCALE) -timeout 2h

include test/sam/sam.mk
include test/deploy/localstack.mk

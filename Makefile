# `make` alone prints what there is. Everything runs under the Node that package-lock.json pins.

NODE := npm exec --offline -- node

.DEFAULT_GOAL := help
.PHONY: help run demo demo-loop test check bench proto docs

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

node_modules/.package-lock.json: package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

run: node_modules/.package-lock.json ## Start Sluice alone with the sample policies on :8080
	@PATH="$(CURDIR)/node_modules/.bin:$$PATH" exec node --disable-sigusr1 src/cli/sluice.ts standalone --policies deploy/policies

demo: node_modules/.package-lock.json ## Real Envoy and a demo service in front of it, traffic and refusals live
	@$(NODE) test/tools/install.ts envoy
	$(NODE) deploy/demo/demo.ts

demo-loop: node_modules/.package-lock.json ## An overload with and without a policy that finds the right rate
	@$(NODE) test/tools/install.ts envoy
	$(NODE) deploy/demo/loop.ts

test: node_modules/.package-lock.json ## Install what the tests need and run them all, real Envoy and Prometheus included
	$(NODE) test/tools/install.ts envoy grpcio go-tools h2load curl openssl prometheus go
	npm test -s

check: node_modules/.package-lock.json ## Format, lint, types, generated code and pages
	npm run -s check

bench: node_modules/.package-lock.json ## Ratios against no-op servers, one core each for server and load
	$(NODE) test/tools/install.ts h2load envoy go
	$(NODE) test/bench/grpc-go/build.ts
	$(NODE) test/bench/bench.ts

proto: node_modules/.package-lock.json ## Generate code from the protos
	$(NODE) proto/generate.ts

docs: node_modules/.package-lock.json ## Generate the reference pages
	npm run -s docs

# `make` alone prints what there is. Everything runs under the Node that package-lock.json pins.

NODE := npm exec --offline -- node

.DEFAULT_GOAL := help
.PHONY: help node run demo demo-loop test check bench proto docs

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

node_modules/.package-lock.json: package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Says in one line which Node is needed, where none that fits came with the packages or stands in the path.
node: node_modules/.package-lock.json
	@$(NODE) src/cli/sluice.js version >/dev/null

run: node ## Start Sluice alone with the sample policies on :8080
	@PATH="$(CURDIR)/node_modules/.bin:$$PATH" exec node --disable-sigusr1 src/cli/sluice.ts standalone --policies deploy/policies

demo: node ## Real Envoy and a demo service in front of it, traffic and refusals live
	@$(NODE) test/tools/install.ts envoy
	$(NODE) deploy/demo/demo.ts

demo-loop: node ## An overload with and without a policy that finds the right rate
	@$(NODE) test/tools/install.ts envoy
	$(NODE) deploy/demo/loop.ts

test: node ## Install what the tests need and run them all, real Envoy and Prometheus included
	$(NODE) test/tools/install.ts envoy grpcio go-tools h2load curl openssl prometheus go
	npm test -s

check: node ## Format, lint, types, generated code and pages
	npm run -s check

bench: node ## Ratios against no-op servers, one core each for server and load
	$(NODE) test/tools/install.ts h2load envoy go
	$(NODE) test/bench/grpc-go/build.ts
	$(NODE) test/bench/bench.ts

proto: node ## Generate code from the protos
	$(NODE) proto/generate.ts

docs: node ## Generate the reference pages
	npm run -s docs

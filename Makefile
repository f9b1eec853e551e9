# `make demo` and `make test` do all their own set-up; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
# The Python to build with: any of these, or yours with `make install PYTHON=/path/to/python3.12`.
PYTHON ?=
SUPPORTED := 3.10 3.11 3.12
STAMP := $(VENV)/.installed
# Processes that share the tests; each has a Spark of about 2 GB.
WORKERS ?= 2

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install lint format test test-views-full test-kills demo lock lock-connectors clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with the `headwater` command in it

$(STAMP): $(LOCK) pyproject.toml
	@found=""; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.12 python3.11 python3.10 python3 python); do \
	  version=$$("$$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  case " $(SUPPORTED) " in *" $$version "*) found=$$candidate; break;; esac; \
	  seen="$${seen:+$$seen, }$$candidate is Python $$version"; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Headwater needs Python 3.10, 3.11 or 3.12 ($${seen:-no Python found$(if $(PYTHON), at $(PYTHON))})." >&2; \
	  echo "Install one of them, or name it: make install PYTHON=/path/to/python3.12" >&2; \
	  exit 2; \
	fi; \
	if [ -x $(BIN)/python ] && [ "$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" != "$$version" ]; then \
	  rm -rf $(VENV); \
	fi; \
	echo "Making $(VENV) with Python $$version ($$found)"; \
	"$$found" -m venv $(VENV)
	$(BIN)/python -m pip install --require-hashes -r $(LOCK)
	$(BIN)/python -m pip install --no-deps --no-build-isolation --quiet -e .
	@touch $@

lint: install ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## let ruff put the code in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: install ## all tests; ARGS="-k delta" to choose, WORKERS=0 for one process
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope $(ARGS)

test-views-full: install ## every shape of view, 100 random cycles in Delta, and the workloads at a larger scale (hours)
	HEADWATER_VIEWS_CYCLES=$(or $(CYCLES),100) HEADWATER_TPCH_SCALE=$(or $(SCALE),0.01) \
	  $(BIN)/python -m pytest -o timeout=0 -n $(WORKERS) --dist loadscope tests/views $(ARGS)

test-kills: install ## what is killed while it works, KILLS=6 times in each test instead of twice
	HEADWATER_KILLS=$(or $(KILLS),6) $(BIN)/python -m pytest -n $(WORKERS) --dist loadscope tests/faults $(ARGS)

demo: install ## run the demo project end to end
	$(BIN)/headwater demo

lock: ## resolve the Python dependencies again (needs uv)
	uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.10 --upgrade \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --quiet -o $(LOCK)

lock-connectors: install ## hash the connectors' jars again
	$(BIN)/python tools/lock_connectors.py

clean: ## remove what can be made again (not the cache of connectors)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

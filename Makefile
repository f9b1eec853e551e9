# `make demo` and `make test` do all their own set-up; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# The Python to build with: any of these, or yours with `make install PYTHON=/path/to/python3.12`.
PYTHON ?=
SUPPORTED := 3.10 3.11 3.12
# Processes that share the tests; each has a Spark of about 2 GB.
WORKERS ?= 2
# How long `make soak` runs.
MINUTES ?= 5
COMPILE := uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
  --custom-compile-command "make lock" --quiet

.PHONY: help install lint format test-fast test test-full soak demo lock lock-connectors clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.dev ## make .venv with the `headwater` command and the developer's tools in it

# The first supported Python of this machine, or the one that was asked for.
define find_python
	found=""; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.12 python3.11 python3.10 python3 python); do \
	  version=$$("$$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  case " $(SUPPORTED) " in *" $$version "*) found=$$candidate; break;; esac; \
	  seen="$${seen:+$$seen, }$$candidate is Python $$version"; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Headwater needs Python 3.10, 3.11 or 3.12 ($${seen:-no Python found$(if $(PYTHON), at $(PYTHON))})." >&2; \
	  echo "Install one of them, or name it: make $(or $(firstword $(MAKECMDGOALS)),install) PYTHON=/path/to/python3.12" >&2; \
	  exit 2; \
	fi
endef

$(VENV)/.dev: requirements/dev.lock pyproject.toml
	@$(find_python); "$$found" tools/environment.py dev

# What runs the demo, and no more; an environment with the developer's tools has it all.
$(VENV)/.demo: requirements/demo.lock pyproject.toml
	@if [ $(VENV)/.dev -nt requirements/dev.lock ] && [ $(VENV)/.dev -nt pyproject.toml ]; then touch $@; exit; fi; \
	$(find_python); "$$found" tools/environment.py demo

lint: install ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## let ruff put the code in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test-fast: install ## what needs no Spark, at each save; ARGS="-k plan" to choose
	$(BIN)/python -m pytest --tier fast -n $(WORKERS) --dist loadscope $(ARGS)

test: install ## every capability once in every format, under 30 minutes; ARGS="-k delta" to choose, WORKERS=0 for one process
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope $(ARGS)

test-full: install ## all tests at full size, hours; PART=views for a folder of tests/
	$(BIN)/python -m pytest --tier full -o timeout=0 -n $(WORKERS) --dist loadscope $(addprefix tests/,$(PART)) $(ARGS)

soak: install ## ingest with views and maintenance for MINUTES=5, or hours; SOAK="--format iceberg" for another format
	$(BIN)/python bench/soak.py --minutes $(MINUTES) $(SOAK)

demo: $(VENV)/.demo ## run the demo project end to end
	@$(BIN)/headwater demo

lock: ## resolve the Python dependencies again (needs uv)
	$(COMPILE) --upgrade --all-extras --group dev pyproject.toml -o requirements/dev.lock
	$(COMPILE) -c requirements/dev.lock --extra postgres --group demo pyproject.toml -o requirements/demo.lock
	echo uv | $(COMPILE) --upgrade - -o requirements/uv.lock

lock-connectors: install ## hash the connectors' jars again
	$(BIN)/python tools/lock_connectors.py

clean: ## remove what can be made again (not the cache of connectors)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

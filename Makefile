# The front door: `make up` and `make test`. Each target does what it needs first; Python 3.11+ and Java 17+ are enough.

PYTHON ?= python3
BIN := .venv/bin
# Of tests without Spark: each has a stack of its own, some 3 GB, and mostly waits for it. Spark takes both processors of a
# small machine, so what needs it comes after that, in one process. With ARGS (files, -k …) there is one for all.
WORKERS ?= 2
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install up down test browser bench lint fmt lock clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(INSTALLED) ## Install the locked dependencies into .venv

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Headwater needs Python 3.11 or later, found " + sys.version.split()[0]) if sys.version_info < (3, 11) else 0'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing the locked dependencies into .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

up: install ## Start everything with the demo moving; Ctrl-C stops it
	@$(BIN)/headwater up --demo

down: install ## Stop what `make up` started
	@$(BIN)/headwater down

test: lint browser ## Run all the tests; ARGS are pytest's
ifeq ($(ARGS),)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not spark and not alone"
	@$(BIN)/python -m pytest -m "spark or alone"
else
	@$(BIN)/python -m pytest $(ARGS)
endif

browser: ## Install a browser for the tests, where there is none
	@tools/install_browser

bench: install ## Run the benchmarks (see docs/benchmarks.md)
	@$(BIN)/headwater bench capture
	@$(BIN)/headwater bench views
	@$(BIN)/headwater bench freshness
	@$(BIN)/headwater bench sinks
	@$(BIN)/headwater bench rebuild
	@$(BIN)/headwater bench delivery
	@$(BIN)/headwater bench alerts
	@$(BIN)/headwater bench news

lint: install ## Check style, types and the direction of imports
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > .import-linter.out 2>&1 || { cat .import-linter.out; exit 1; }

fmt: install ## Format the code
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

lock: install ## Resolve the dependencies and the servers anew (needs uv and mvn)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --quiet --upgrade -o requirements.lock
	$(BIN)/python tools/lock_artifacts.py

clean: ## Remove .venv and the demo's data
	@test ! -x $(BIN)/headwater || $(BIN)/headwater down --reset --yes
	rm -rf .venv .headwater

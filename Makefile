# Every target sets up what it needs in .venv; only python3 (3.11+), make and a package registry are assumed.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# pytest-xdist: two processes; each Numba thread pool then has one core to itself.
TEST_OPTIONS ?= -n 2 --dist loadfile
# What `make test-seeds` sweeps: shifts of every seed, and processors that Numba compiles for.
SEEDS ?= 1 2 3 4 5 6 7 8 9 10
CPUS ?= native
# Marks of which `make test-all` skips no test.
REQUIRE ?= realdata browser ray

.PHONY: help setup demo test test-all test-seeds check bench docs clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/pip.done:
	@$(PYTHON) -c 'import sys; sys.exit("permrank needs Python 3.11 or newer; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@echo "setting up .venv"
	@$(PYTHON) -m venv .venv
	@$(PIP) install --upgrade "pip>=25.1"
	@touch $@

.venv/setup.done: .venv/pip.done pyproject.toml
	@$(PIP) install --editable .
	@touch $@

.venv/%.done: .venv/setup.done
	@echo "installing what '$*' needs"
	@$(PIP) install --group $*
	@touch $@

setup: .venv/setup.done ## install permrank into .venv, and compile ahead what its defaults need
	@$(BIN)/permrank warm

demo: .venv/setup.done ## run the main job, offline, on simulated data
	@$(BIN)/permrank demo

test: .venv/test.done ## run the tests; what needs real data, Chromium or Ray is skipped without
	@$(BIN)/python -m pytest $(TEST_OPTIONS)

test-all: .venv/test.done .venv/ray.done docs ## run the tests, and fail without real data, Chromium or Ray
	@PERMRANK_REQUIRE="$(REQUIRE)" $(BIN)/python -m pytest $(TEST_OPTIONS)

test-seeds: .venv/test.done ## run the tests that learn once for each of SEEDS and CPUS (an hour)
	@$(BIN)/python tests/sweep.py --seeds $(SEEDS) --processors $(CPUS) -- $(TEST_OPTIONS)

check: .venv/check.done ## lint, formatting, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: .venv/setup.done ## run the benchmarks (minutes; some need PERMRANK_DATA)
	@$(BIN)/python benchmarks/run.py

docs: .venv/docs.done ## build the documentation into docs/_build
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean: ## remove everything that was built
	rm -rf .venv .venv-* build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything that a developer or a user of a fresh clone needs: `make demo`, `make test`.
# Needs Python >= 3.10 and make. PYTHON chooses another interpreter, ARGS is handed to pytest.
PYTHON ?= python3
ARGS ?=
# Worker processes of pytest; auto is a few more than there are cores.
WORKERS ?= auto

# The tests that `make test` runs: those that need neither a testbed nor a corpus, nor long.
# The markers are explained in pyproject.toml.
QUICK := not testbed and not corpus and not slow
PYTEST := .venv/bin/python -m pytest --numprocesses $(WORKERS) --dist loadgroup

# The modules of the tests, too, are compiled once, not by each process of pytest again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMP := .venv/.installed
DOCS_STAMP := .venv/.installed-docs
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo docs test test-all soak fuzz check package options format bench clean testbed-up testbed-down testbed-status

help:
	@echo 'make demo     run a real workflow over three sites of this machine'
	@echo 'make test     run the tests that need no root, in minutes (ARGS="-k store" chooses some)'
	@echo 'make test-all run all tests, also those of real clusters and those that take long'
	@echo 'make soak     random runs under random faults, each audited (ARGS="--minutes 60 --seed 1")'
	@echo 'make fuzz     mutated documents of all formats (ARGS="--count 10000 --seed 1 --formats dax")'
	@echo 'make ro-crate validate exported RO-Crates with the validator of their community'
	@echo 'make check    formatting, lint, types, import directions, the oldest Python of launcher and agent'
	@echo 'make docs     build the site of the documentation in build/docs/site'
	@echo 'make package  install wfrun by pip and by pipx from PyPI, as a user does, and run it'
	@echo 'make options  write what is derived from the options of a run (wfrun/engine/settings.py)'
	@echo 'make format   format the code'
	@echo 'make bench    measure, side by side with other tools'
	@echo 'make testbed-up, testbed-down, testbed-status'
	@echo '             real clusters on this machine, as root on Debian: docs/testbed.md'
	@echo 'make clean    remove what these made, except wfrun-runs/'

$(STAMP): pyproject.toml constraints.txt
	@PYTHON='$(PYTHON)' sh tools/make_venv.sh
	$(PIP) setuptools
	$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(PIP) --no-build-isolation -e '.[docs]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

test: $(STAMP)
	$(PYTEST) -m '$(QUICK)' $(ARGS)

test-all: $(STAMP)
	$(PYTEST) $(ARGS)

soak: $(STAMP)
	@$(BIN)/python -m tests.soak $(ARGS)

fuzz: $(STAMP)
	@$(BIN)/python -m tests.fuzz $(ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_imports.py
	$(BIN)/python tools/check_foreign_numbers.py
	$(BIN)/python tools/write_options.py --check
	$(BIN)/vermin --quiet --no-tips --violations -t=3.6- wfrun/sites/node/*/*.py wfrun/sites/remote/agent.py wfrun/malleable.py

docs: $(DOCS_STAMP)
	@$(BIN)/python -m tools.docs_site

package:
	@PYTHON='$(PYTHON)' sh tools/check_package.sh

options: $(STAMP)
	$(BIN)/python tools/write_options.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The validator wants an older rich than wfrun.
.venv-ro-crate/.installed:
	$(PYTHON) -m venv .venv-ro-crate
	.venv-ro-crate/bin/python -m pip --disable-pip-version-check install --quiet 'roc-validator==0.13.*' 'rocrate==0.16.*'
	@touch $@

ro-crate: $(STAMP) .venv-ro-crate/.installed
	$(BIN)/python -m pytest -m slow tests/runners/experiments/test_export_ro_crate.py $(ARGS)

bench: $(STAMP)
	@for script in bench/*.py; do $(BIN)/python $$script || exit 1; done

testbed-up testbed-down testbed-status: $(STAMP)
	@$(BIN)/python -m tests.testbed $(ARGS) $(@:testbed-%=%)

clean:
	rm -rf .venv .venv-ro-crate bench/.venv-peers build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find wfrun tests bench examples tools -name __pycache__ -prune -exec rm -rf {} +

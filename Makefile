# The whole interface of a developer. `make help` lists it.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check format reference fresh clean

help:  ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

demo: $(VENV)/demo.stamp  ## Set up, then run real pipelines once and kill a scheduler on the way
	$(BIN)/turnout demo

test: $(VENV)/test.stamp  ## Set up, then run the whole test suite; it starts every server it needs
	$(BIN)/python -m pytest

check: $(VENV)/test.stamp  ## Lint, formatting, types, architecture, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/make_reference.py --check

format: $(VENV)/test.stamp  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: $(VENV)/test.stamp  ## Write the generated pages of docs/reference
	$(BIN)/python scripts/make_reference.py

fresh:  ## Run the demo in a fresh clone, with a virtual environment of its own
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && git clone --quiet . "$$folder/turnout" \
		&& $(MAKE) -C "$$folder/turnout" demo PYTHON="$(PYTHON)" VENV=.venv

clean:  ## Remove the virtual environment and the caches
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Turnout needs Python 3.11 or later: add PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

# A stamp is older than pyproject.toml when the dependencies may have changed.
$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[local,examples]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

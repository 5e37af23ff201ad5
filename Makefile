# The whole developer interface. Needs only Python 3.11 or later with venv, and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# `make test ARGS="-k fleet"` hands options on to pytest.
ARGS ?=

.PHONY: help demo test test-faults test-chaos chaos test-outage test-big test-property check format bench up clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.demo ## Run the main job once, on throwaway servers: about half a minute
	$(BIN)/turnout demo

# As many tests at a time as there are cores, each with servers of its own; more than four gain little.
test: $(VENV)/.test ## Run the whole test suite; it starts every server that it needs
	$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal $(ARGS)

test-faults: $(VENV)/.test ## Kill and stop a scheduler at every point between two statements, not at a third of them
	TURNOUT_TEST_FAULTS_EVERY=1 $(BIN)/python -m pytest tests/chaos/test_fault_points.py $(ARGS)

test-chaos: $(VENV)/.test ## Thousands of tasks under three schedulers that are killed and frozen all the time
	TURNOUT_TEST_CHAOS_RUNS=50 $(BIN)/python -m pytest tests/chaos/test_limits_under_fire.py $(ARGS)

chaos: $(VENV)/.test ## Break everything at random under a whole platform: ACTS=100 times, over RUNS=20 runs, by SEED=
	TURNOUT_TEST_CHAOS_ACTS=$(or $(ACTS),100) TURNOUT_TEST_CHAOS_RUNS=$(or $(RUNS),20) TURNOUT_TEST_CHAOS_SEED=$(or $(SEED),0) \
		$(BIN)/python -m pytest --capture=no tests/chaos/test_everything_breaks.py $(ARGS)

test-outage: $(VENV)/.test ## Take the control plane away for three minutes under two hundred running tasks
	TURNOUT_TEST_AWAY_S=180 TURNOUT_TEST_AWAY_TASKS=200 \
		$(BIN)/python -m pytest tests/acceptance/test_network_cuts.py -k control_plane $(ARGS)

test-big: $(VENV)/.test ## Explain every statement of the loop among a million finished task instances
	TURNOUT_TEST_FINISHED_TASKS=1000000 $(BIN)/python -m pytest --timeout=1200 tests/integration/metadata/test_explain.py $(ARGS)

test-property: $(VENV)/.test ## Test the law of scheduling by random examples, other ones each time: EXAMPLES=500 of them
	TURNOUT_TEST_EXAMPLES=$(or $(EXAMPLES),500) $(BIN)/python -m pytest tests/property --timeout=0 $(ARGS)

check: $(VENV)/.test ## Lint, format, types, arrows between the rooms, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/make_reference.py --check

format: $(VENV)/.test ## Format the code and write the generated pages
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python scripts/make_reference.py

bench: $(VENV)/.test ## Measure throughput and latency
	$(BIN)/python -m benchmarks.latency
	$(BIN)/python -m benchmarks.throughput

up: $(VENV)/.demo ## Run everything on this machine until Ctrl-C
	$(BIN)/turnout up

clean: ## Delete the virtual environment and what tools leave behind
	rm -rf $(VENV) build turnout.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Turnout needs Python 3.11 or later: make PYTHON=/path/to/python3")'
	$(PYTHON) -m venv $(VENV)

# The stamps say what is installed; they are older than pyproject.toml when it asks for something else.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "Installing Turnout and what it needs into $(VENV): a minute or two, once."
	$(BIN)/python -m pip install --quiet --editable '.[local,examples]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "Installing Turnout and what its tests need into $(VENV): a minute or two, once."
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/.demo

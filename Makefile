# The whole contributor interface. Each target installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test chaos test-agents check bench clean

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Scrubjay needs Python 3.11 or newer; call make with PYTHON=python3.12 or so" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: $(VENV)/installed  ## run a small fleet of scripted agents, look at it, check it
	@scripts/demo

test: $(VENV)/installed  ## every module, and one case of every promise; ARGS="tests/tape -k seal"
	@scripts/install-test-tools
	@scripts/run-tests test $(ARGS)

chaos: $(VENV)/installed  ## the promises under kills, full disks, races and broken links; TIER=night for nightly size
	@scripts/install-test-tools
	@TIER=$(TIER) scripts/run-tests chaos $(ARGS)

test-agents: $(VENV)/installed  ## real agents, against a stub model; ARGS="-k codex"
	@scripts/install-agents
	@scripts/run-tests agents $(ARGS)

check: $(VENV)/installed  ## style and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/pyright

bench: $(VENV)/installed  ## speed and size beside other recorders; ARGS="recording --runs 3"
	@scripts/install-peers
	@$(BIN)/python -m benchmarks $(ARGS)

clean:
	@rm -rf $(VENV) .venv-mcp1 .venv-peers .agents .pytest_cache .ruff_cache .hypothesis benchmarks/results

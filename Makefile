# The whole contributor interface. Each target installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Filling a small disk needs a mount; where we are not root, a user namespace lends us one.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo unshare --map-root-user --mount)

.PHONY: demo test test-agents check bench chaos clean

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Scrubjay needs Python 3.11 or newer; call make with PYTHON=python3.12 or so" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: $(VENV)/installed  ## run a small fleet of scripted agents, look at it, check it
	@scripts/demo

test: $(VENV)/installed  ## everything that must hold, at the size of a pull request
	@scripts/install-test-tools
	@scripts/install-agents
	@$(AS_ROOT) $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not alone and not agents"
	@$(AS_ROOT) $(BIN)/pytest -m alone

test-agents: $(VENV)/installed  ## real agents, each of which must be there, with a stub for the model
	@scripts/install-agents
	@SCRUBJAY_AGENTS=required $(BIN)/pytest tests/real_agents $(ARGS)

check: $(VENV)/installed  ## style and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/pyright

bench: $(VENV)/installed  ## speed and size beside other recorders; ARGS="recording --runs 3"
	@scripts/install-peers
	@$(BIN)/python -m benchmarks $(ARGS)

chaos: $(VENV)/installed  ## the same promises at nightly size
	@scripts/install-test-tools
	@SCRUBJAY_TIER=N $(AS_ROOT) $(BIN)/pytest --timeout=3600 tests/chaos tests/tape tests/keeper tests/replay tests/screen tests/store tests/wire

clean:
	@rm -rf $(VENV) .venv-mcp1 .venv-peers .agents .pytest_cache .ruff_cache .hypothesis benchmarks/results

# Two commands matter: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV   ?= .venv
KAFKA  ?= 4.4.0
BIN    := $(VENV)/bin
PYTEST_ARGS ?=
# of make fuzz, for all targets together
FUZZ_SECONDS ?= 3600

.PHONY: demo demo-drain test check bench bench-proxy bench-drain chaos interop fuzz generate format clean tools

demo: $(VENV)/.runtime tools
	@$(BIN)/shareproxy demo --kafka $(KAFKA)

# a backlog, 2 then 6 workers, one killed: the lag falls to 0 and nothing is lost
demo-drain: $(VENV)/.runtime tools
	@$(BIN)/shareproxy demo --drain --kafka $(KAFKA)

test: $(VENV)/.dev tools
	$(BIN)/coverage erase
ifeq ($(PYTEST_ARGS),)
	$(BIN)/python -m tests.side_by_side
else
	$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
endif
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m shareproxy.protocol.generate --check

bench: $(VENV)/.dev tools
	$(BIN)/python -m benchmarks

# the proxy beside a bare relay and Envoy
bench-proxy: $(VENV)/.dev tools
	$(BIN)/python -m benchmarks.proxy

# share consumers, sinks and workers beside others
bench-drain: $(VENV)/.dev tools
	$(BIN)/python -m benchmarks.drain

# half an hour of broken workers, brokers and lines, with an account of every offset
chaos: $(VENV)/.dev tools
	$(BIN)/python -m benchmarks.drain_chaos

# clients of other people through the proxy; writes docs/interop.md. Fewer: make interop CLIENT=… CLUSTER=… CASE=…
interop: $(VENV)/.dev tools
	$(BIN)/python -m tests.interop.table

fuzz: $(VENV)/.dev
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

generate: $(VENV)/.dev
	$(BIN)/python -m shareproxy.protocol.generate

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# says what to install when Java or Maven is missing, before anything long starts
tools: $(VENV)/.runtime
	@$(BIN)/python -m shareproxy.testing.tools

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "shareproxy needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* dist

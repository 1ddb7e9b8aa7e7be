# The commands to remember. Each does all the set-up that it needs, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test browser check lint types layers format bench setup

setup: $(STAMP)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[postgresql,mysql,redis]" --group dev
	@touch $(STAMP)

# Web and workers of the example, on SQLite, until Ctrl-C.
demo: $(STAMP)
	$(BIN)/flask --app example_app seed
	$(BIN)/flask --app example_app solid dev

# With the databases that are there: SOLID_TEST_POSTGRESQL_URL and SOLID_TEST_MYSQL_URL, else a local server.
test: $(STAMP)
	$(BIN)/python -m pytest -n 4 --ignore=tests/browser $(ARGS)

# Pages in a real Chromium, which has to be installed: apt-get install chromium.
browser: $(STAMP)
	$(BIN)/python -m pytest -n 2 tests/browser $(ARGS)

check: lint types layers test browser

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@! grep -rn "time\.sleep" tests || (echo "tests wait for what they expect, they do not sleep" && exit 1)

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: $(STAMP)
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

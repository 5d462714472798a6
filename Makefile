# Manyhands: `make` alone lists what can be made. Each target does its own set-up.

# The system's Python, if it is new enough: version managers compile theirs without optimization, and
# everything here takes half as long again with that.
PYTHON ?= $(shell /usr/bin/python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	2> /dev/null && echo /usr/bin/python3 || echo python3)
T ?=
PORT ?=
WORKERS ?= 3
STORIES ?= 4
SEED ?=
CASES ?= 20
REQUESTS ?= 1000000
RESULTS ?= 1000000

VENV := .venv
BIN := $(VENV)/bin
MANAGE := $(BIN)/python manage.py
OPENAPI := docs/reference/openapi.yaml
# The files of tests with one of these marks: collecting all others takes half a minute.
marked = $$(grep -rlE 'mark\.($(1))\b' tests --include='test_*.py'
# The files list every package, also those that others require; `make check` verifies it.
INSTALL := $(BIN)/python -m pip install --quiet --quiet --require-hashes --no-deps --no-compile
# All cores compile modules faster than pip, which uses one.  As with pip, a module that cannot be
# compiled is no error: a package may have modules for other versions of Python.
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
DOCS := $(wildcard *.md docs/*.md docs/*/*.md client/README.md)

export PYTHONPATH := $(CURDIR):$(CURDIR)/client
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Compiled modules are kept: every process that a test starts reads them.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-run demo demo-trust screenshots run test test-story test-long test-fuzz test-api test-docs test-planted mutate check audit fmt messages docs bench bench-large bench-pages clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.stamp-dev ## .venv with everything in it; a second call is instant
	@echo "Ready: $(BIN)/python manage.py help"

setup-run: $(VENV)/.stamp-run ## .venv with what a server needs, without tests and checks
	@echo "Ready: $(BIN)/python manage.py help"

demo: $(VENV)/.stamp-run ## a project, three volunteers, seventeen primes: about a minute
	@$(BIN)/python -m demo

demo-trust: $(VENV)/.stamp-run ## ten simulated hosts, two of them false: whom the server believes
	@$(BIN)/python -m demo.trust_show

screenshots: $(VENV)/.stamp-dev ## pictures of the main pages in docs/screenshots, of a simulated project: four minutes
	@$(BIN)/python -m demo.pictures

run: $(VENV)/.stamp-run ## the server and all daemons, until Ctrl-C; PORT=8001 listens there
	@$(MANAGE) serve --sample-work $(if $(PORT),--port $(PORT))

test: $(VENV)/.stamp-dev ## the tests, as before a commit; T=tests/pure for one floor
ifneq ($(T),)
	@$(BIN)/pytest $(T)
else
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup --ignore=tests/house -m "not (stock_client or lengthy or long or fuzz)"
endif

test-story: $(VENV)/.stamp-dev ## the stories with unmodified BOINC clients, and other long ones
	@$(BIN)/pytest $(call marked,stock_client|lengthy)) -m "stock_client or lengthy" \
		-n $(STORIES) --dist loadgroup --durations=40 --durations-min=15

test-long: $(VENV)/.stamp-dev ## machines that try to break it: under an hour; SEED=17 repeats one
	@LONG_SEED=$(SEED) $(BIN)/pytest tests/long -m long -n $(WORKERS) --dist loadgroup --no-header

test-fuzz: $(VENV)/.stamp-dev ## a million mutated requests: half an hour; REQUESTS=20000 sends fewer, SEED=17 repeats one
	@mkdir -p var/fuzz && FUZZ_REQUESTS=$(REQUESTS) FUZZ_SEED=$(SEED) FUZZ_FAULTS=$(CURDIR)/var/fuzz \
		FUZZ_REPORT=$(CURDIR)/var/fuzz/report.json $(BIN)/pytest tests/fuzz -m fuzz --no-header

test-api: $(VENV)/.stamp-dev ## every corner of the API, thousands of requests: some minutes; CASES=20 an operation
	@API_CASES=$(CASES) $(BIN)/pytest tests/faces/api/test_api_random.py -s --no-header

test-docs: $(VENV)/.stamp-dev ## the consoles of the docs, typed beside a real project: some minutes
	@$(BIN)/pytest tests/story/test_consoles.py -n $(STORIES) --no-header

test-planted: $(VENV)/.stamp-dev ## bugs planted one by one: which random test finds each, and when
	@$(BIN)/python -m tests.long.planted

mutate: $(VENV)/.stamp-dev ## switch every rule off in turn, and see which test notices; at most 30 minutes
	@$(BIN)/python -m tests.mutate

check: $(VENV)/.stamp-dev ## every static check: form, lint, types, contracts, migrations, docs
	@echo "ruff format" && $(BIN)/ruff format --check --quiet || { echo "Hint: make fmt"; exit 1; }
	@echo "ruff check" && $(BIN)/ruff check --quiet
	@echo "pip check" && { $(BIN)/python -m pip check > $(VENV)/packages.txt || { cat $(VENV)/packages.txt; exit 1; }; }
	@echo "mypy" && $(BIN)/mypy --no-error-summary
	@echo "lint-imports" && $(BIN)/lint-imports --no-cache --no-logo > $(VENV)/contracts.txt \
		|| { cat $(VENV)/contracts.txt; exit 1; }
	@echo "manage.py check" && $(MANAGE) check --fail-level WARNING > /dev/null
	@echo "makemigrations --check" && $(MANAGE) makemigrations --check --dry-run
	@echo "cog --check" && { test -z "$(DOCS)" || $(BIN)/cog --check $(DOCS) > $(VENV)/docs.txt; } \
		|| { cat $(VENV)/docs.txt; echo "Hint: make docs"; exit 1; }
	@echo "openapi.yaml" && $(MANAGE) spectacular --validate --fail-on-warn --file $(VENV)/openapi.yaml \
		&& diff -u $(OPENAPI) $(VENV)/openapi.yaml || { echo "Hint: make docs"; exit 1; }
	@echo "house rules" && $(BIN)/pytest tests/house -n 2 -q --no-header
	@echo "All checks passed."

audit: $(VENV)/.stamp-venv ## known vulnerabilities of the pinned packages, if their database can be reached
	@$(BIN)/python .ci/audit

fmt: $(VENV)/.stamp-dev ## put code into form, mend what can be mended
	@$(BIN)/ruff format --quiet && $(BIN)/ruff check --fix

messages: $(VENV)/.stamp-dev ## texts of the volunteers' pages into django.po, and django.mo from it; needs gettext
	@cd scheduler/web && $(CURDIR)/$(BIN)/django-admin makemessages --all --no-obsolete --no-wrap --add-location file
	@cd scheduler/web && $(CURDIR)/$(BIN)/django-admin compilemessages

docs: $(VENV)/.stamp-dev ## write the generated parts of the docs anew
	@test -z "$(DOCS)" || $(BIN)/cog -r $(DOCS)
	@$(MANAGE) spectacular --validate --fail-on-warn --file $(OPENAPI)

bench: $(VENV)/.stamp-run ## what is measured, beside pgbench and the peer: under 5 minutes
	@$(BIN)/python -m bench

bench-pages: $(VENV)/.stamp-dev ## server time and statements of every page with a million results; RESULTS=10000000
	@$(BIN)/python -m bench.pages --results $(RESULTS)

bench-large: $(VENV)/.stamp-run ## the same on large backlogs, up to 10 million results: 25 minutes
	@$(BIN)/python -m bench --large

clean: ## remove what tools left behind; var/ and .venv stay
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage htmlcov
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# Set-up: a stamp says which requirements are installed, so that a second call does nothing.

$(VENV)/.stamp-venv:
	@command -v $(PYTHON) > /dev/null || { echo "There is no $(PYTHON)." \
		"Hint: apt install python3, or make PYTHON=/path/to/python3.11."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Manyhands needs Python 3.11 or later, and $(PYTHON) is `$(PYTHON) -V`." \
		"Hint: make PYTHON=python3.11."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2> /dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: its venv module is missing." \
		"Hint: apt install python3-venv."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@for packages in $(VENV)/lib/python3*/site-packages; do \
		echo "$(CURDIR)/client" > $$packages/volunteer.pth; done
	@touch $@

$(VENV)/.stamp-run: requirements.txt | $(VENV)/.stamp-venv
	@echo "Installing what Manyhands needs into $(VENV); the first time takes up to a minute."
	@$(INSTALL) -r requirements.txt
	@$(COMPILE)
	@touch $@

$(VENV)/.stamp-dev: requirements-dev.txt | $(VENV)/.stamp-run
	@echo "Installing what its tests and checks need into $(VENV)."
	@$(INSTALL) -r requirements-dev.txt
	@$(COMPILE)
	@touch $@

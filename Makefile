PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# What `make test` leaves to `make test-all`: all that is marked, but for a few of each mark.
QUICK := not (slow or calibration or browser or faults) or sample
# Compiled tests are kept, whatever the environment says: without them, half of the collection is compiling.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n auto --dist loadfile
# `make test ROOM=watch` runs the tests of one folder.
ROOM ?=

.PHONY: demo test test-all doctest lint check docs install bench release clean

demo: $(STAMP)
	$(BIN)/toposcope demo --out demo-run

test: $(STAMP)
	$(PYTEST) -m "$(QUICK)" tests/$(ROOM)

test-all: $(STAMP) doctest
	$(PYTEST) -m "not ($(QUICK))"

doctest: $(STAMP)
	$(PYTEST) --doctest-modules src

# Seconds: style alone.
lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks docs action release
	$(BIN)/ruff format --check src tests benchmarks docs action release

# Types and imports, too; mypy and import-linter keep what they found in .mypy_cache and .import_linter_cache.
check: lint
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site: every script of the gallery runs, a warning is an error, and nothing is read from a network. All pages
# are written: the search forgets what people type (docs/_ext/searched.py) for a page that is not.
docs: $(STAMP)
	MPLBACKEND=agg $(BIN)/python -m sphinx --fail-on-warning --nitpicky --write-all -b html docs build/docs
	@echo "open build/docs/index.html"

bench: $(STAMP)
	$(BIN)/python -m benchmarks.kernels --quick

# Wheel, source archive, hashes, components and notes in dist/, checked in new environments; PYTHONS names which.
PYTHONS ?= $(PYTHON)
release: $(STAMP)
	$(BIN)/python release/make.py $(foreach one,$(PYTHONS),--python $(one))

install: $(STAMP)

# torch first and by its exact version: any looser request fetches gigabytes of GPU libraries.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep -m1 '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -e '.[dev]' -c constraints.txt
	touch $@

clean:
	rm -rf $(VENV) demo-run build dist docs/auto_gallery docs/generated

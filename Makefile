# make demo   sets up a virtual environment and runs the main job on generated data
# make test   lint, types and tests
# make browser  what the browser tests of `make test` need, where it can be installed (root and apt-get)
# make docs   the site, in build/site (gallery included; warnings are errors)
# make fuzz MINUTES=10   random fits against independent oracles; findings become scripts
# make test-wheel        the built wheel in a clean environment, from another folder
# make test-minimum      the tests with the lowest versions that pyproject.toml allows
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo docs linkcheck test browser test-wheel test-minimum fuzz lint types check bench clean
MINUTES ?= 10

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/aidlearn demo

$(VENV)/.docs-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	touch $@

docs: $(VENV)/.docs-installed
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -b html docs build/site
	@echo "The site is in build/site: open build/site/index.html"

linkcheck: $(VENV)/.docs-installed
	$(BIN)/python -m sphinx -b linkcheck -D plot_gallery=0 docs build/linkcheck

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

test: lint types
	SCIPY_ARRAY_API=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

browser:
	.ci/browser

bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python -m benchmarks.lad

fuzz: $(VENV)/.installed
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzz --minutes $(MINUTES)

test-wheel:
	rm -rf build/wheel && mkdir -p build/wheel
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet "$$(ls build/wheel/aidlearn-*.whl)[s3vm,cli,parquet]"
	cd build/wheel && env -u PYTHONPATH OPENBLAS_NUM_THREADS=1 venv/bin/python $(CURDIR)/tests/wheel_check.py
	@echo "The wheel works."

test-minimum:
	rm -rf build/minimum && mkdir -p build/minimum
	$(PYTHON) -m venv build/minimum/venv
	$(PYTHON) tests/minimum.py > build/minimum/requirements.txt
	build/minimum/venv/bin/python -m pip install --quiet -r build/minimum/requirements.txt
	build/minimum/venv/bin/python -m pip install --quiet --no-deps .
	SCIPY_ARRAY_API=1 OPENBLAS_NUM_THREADS=1 env -u PYTHONPATH build/minimum/venv/bin/python -m pytest tests -W ignore::DeprecationWarning --ignore=tests/bench --ignore=tests/report/test_browser.py

clean:
	rm -rf fuzz-findings $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Every target that needs Python sets up .venv by itself; only Python 3.11+, make and pip are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
BENCHMARKS := any_data wide search busy clustering_quality peers mixed explore missing missing_speed outliers denoising starts speed fashion memory scaling time_to_loss \
    out_of_core processes processes_dask cost_model large_ways \
    images deep_price deep_denoising deep_collapse deep_authors deep_sharing \
    photos photos_real photos_fill

.DEFAULT_GOAL := help
.PHONY: install demo reproduce test test-minimum quality coverage fuzz lint bench bench-full docs clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(READY)  ## make .venv and install tensorae with all its extras

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[all]"
	touch $@

demo: $(READY)  ## a first look at the penguins, a photograph made clean; pages and pictures in demo/
	$(BIN)/python -m examples.demo_penguins

reproduce: $(READY)  ## all figures of the paper, into results/ (half an hour; ARGS=--quick: minutes)
	$(BIN)/python -m paper $(ARGS)

test: $(READY)  ## run the tests, docstring examples included, in parallel; slow ones: make quality
	$(BIN)/python -m pytest

quality: $(READY)  ## quality of results on fixed seeds, the gallery, several processes (minutes)
	$(BIN)/python -m pytest -m quality

coverage: $(READY)  ## the tests with the share of lines and branches of src that they run; pages in htmlcov/
	$(BIN)/python -m pytest --cov=tensorae --cov-branch --cov-report=term:skip-covered --cov-report=html --cov-fail-under=92

test-minimum: .venv-minimum/.installed  ## the tests with the lowest supported versions of the dependencies
	.venv-minimum/bin/python -m pytest -W default

.venv-minimum/.installed: pyproject.toml constraints-minimum.txt
	test -x .venv-minimum/bin/python || $(PYTHON) -m venv .venv-minimum
	.venv-minimum/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-minimum.txt \
	    --editable ".[plots,datasets,tables]" pytest pytest-xdist hypothesis polars mlxtend safetensors hatchling
	touch $@

fuzz: $(READY)  ## random files, checkpoints, tables and command lines (minutes; FUZZ_SEED=, FUZZ_TRIALS=)
	FUZZ_TRIALS=$${FUZZ_TRIALS:-1000} FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)} \
	    $(BIN)/python -m pytest tests/fuzz

lint: $(READY)  ## check style (ruff) and types (mypy)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## see every benchmark run, small; figures mean little (minutes)
	set -e; for name in $(BENCHMARKS) page; do \
	    echo "== $$name"; \
	    $(BIN)/python benchmarks/$$name.py --quick; \
	done

bench-full: $(READY)  ## all benchmarks, and the page docs/benchmarks from them (hours, 6 GB of disk)
	set -e; for name in $(BENCHMARKS) page; do \
	    echo "== $$name"; \
	    $(BIN)/python benchmarks/$$name.py; \
	done

docs: $(READY)  ## build the documentation into docs/_build/html; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:  ## remove .venv, caches and everything the other targets made
	rm -rf $(VENV) .venv-minimum htmlcov .coverage build dist demo results docs/_build docs/generated docs/gallery
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

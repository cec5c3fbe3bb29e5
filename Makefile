# Everything starts from a bare machine with Python 3.11 and a C++ compiler: each target makes .venv if there is none.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Stamped by what it was installed from, so that a changed constraint or native source reinstalls.
READY := $(VENV)/.ready
PIP = $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
# Where PyTorch's wheel asks for no Triton; one that does names the version that it goes with.
TRITON := 3.6.0

.PHONY: demo test test-all lint lit pytest soak docs wheel clean

demo: $(READY)
	$(BIN)/python -m benchmarks.demo

test: lint lit pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lit: $(READY)
	$(BIN)/lit -sv lit_tests

pytest: $(READY)
	$(BIN)/python -m pytest tests -n 2 --dist=loadfile

# All of PyTorch's databases of operators, modules and optimizers, of which `make pytest` runs a fixed part.
test-all: test
	BASCULE_OPERATORS_PART=1/1 BASCULE_DATABASES_PART=1/1 $(BIN)/python -m pytest tests/operators tests/databases -n 2

# Fresh seeds of every generator in tests/generators, and of hypothesis; what differs is written to soak_failures.
soak: $(READY)
	$(BIN)/python -m tests.generators
	BASCULE_HYPOTHESIS=soak $(BIN)/python -m pytest tests/properties tests/dialect/fusion tests/dialect/analysis/memory

# Wheels, in dist, tested in clean environments on every Python at hand.
wheel: $(READY)
	$(BIN)/python -m tests.packaging

docs: $(READY)
	$(BIN)/python -m bascule.dialect.tools.reference --write docs/dialect.md

$(READY): pyproject.toml constraints.txt CMakeLists.txt $(wildcard runtime/native/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(BIN)/pip -qq show triton || $(PIP) triton==$(TRITON)
	$(PIP) scikit-build-core cmake ninja nanobind
	$(PIP) --no-build-isolation -e '.[test,models,gpu]'
	touch $@

clean:
	rm -rf $(VENV) build dist

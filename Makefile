# Everything starts from a bare machine with Python 3.11 and a C++ compiler: each target makes .venv if there is none.
PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints/newest.txt
BIN := $(VENV)/bin
# Stamped by what it was installed from, so that a changed constraint or native source reinstalls.
READY := $(VENV)/.ready
# Where PyTorch's wheel asks for no Triton; one that does names the version that it goes with.
TRITON := 3.6.0

# Three tries, each within 15 minutes: pip waits for a silent server and calls again, but gives up where a download breaks off. What came
# whole stays in its cache.
PIP = install() { for try in 1 2 3; do \
	timeout 900 $(BIN)/pip install --quiet --disable-pip-version-check --retries 10 --timeout 60 -c $(CONSTRAINTS) "$$@" && return; \
	done; echo "make: could not install $$* into $(VENV) in three tries; pip's reason stands above" >&2; return 1; }; install

# A file is one worker's. One that dies, or hangs for 15 minutes, is replaced; its file would kill the next ones too: twice is enough.
WORKERS := -n 2 --dist=loadfile --max-worker-restart=2

.PHONY: demo test test-all test-oldest smoke lint lit pytest soak docs wheel clean

demo: $(READY)
	$(BIN)/python -m benchmarks.demo

test: lint lit pytest

# The core on the oldest PyTorch and Triton that pyproject.toml takes, in an environment of its own.
test-oldest:
	$(MAKE) VENV=.venv-oldest CONSTRAINTS=constraints/oldest.txt demo lit smoke

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lit: $(READY)
	$(BIN)/lit -sv lit_tests

pytest: $(READY)
	$(BIN)/python -m pytest tests --few-cases $(WORKERS)

# All cases of all tests. `make pytest` runs a fixed part of them: of a function with many cases the first two and a fourth of the rest, of PyTorch's
# databases of operators, modules and optimizers, and of what is drawn with fixed seeds, as tests/parts.py says.
WHOLE := BASCULE_HYPOTHESIS=whole $(foreach name,OPERATORS DATABASES GENERATORS,BASCULE_$(name)_PART=1/1)
test-all: lint lit
	$(WHOLE) $(BIN)/python -m pytest tests $(WORKERS)

# Of each file below the folders that PyTorch's versions differ for, every sixth test.
SMOKE := aliasing cache compiled compiler cudagraphs debugging entry export frontend lowering/triton/kernels models ranks reporting runtime targets tools wrapper
smoke: $(READY)
	$(BIN)/python -m pytest $(SMOKE:%=tests/%) --every=6 $(WORKERS)

# Fresh seeds of every generator in tests/generators, and of hypothesis; what differs is written to soak_failures.
soak: $(READY)
	$(BIN)/python -m tests.generators
	BASCULE_HYPOTHESIS=soak $(BIN)/python -m pytest tests/properties tests/dialect/fusion tests/dialect/analysis/memory

# Wheels, in dist, tested in clean environments on every Python at hand.
wheel: $(READY)
	$(BIN)/python -m tests.packaging

docs: $(READY)
	$(BIN)/python -m bascule.dialect.tools.reference --write docs/dialect.md

# Each environment has its own build folder, for editable installs build again there.
$(READY): pyproject.toml $(wildcard constraints/*.txt) CMakeLists.txt $(wildcard runtime/native/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(BIN)/pip -qq show triton || { $(PIP) triton==$(TRITON); }
	$(PIP) scikit-build-core cmake ninja nanobind
	$(PIP) --no-build-isolation -C build-dir='build/$(VENV:.%=%)/{wheel_tag}' -e '.[test,models,gpu]'
	touch $@

clean:
	rm -rf .venv .venv-oldest build dist

# Everything below works on a fresh machine with Python >= 3.11, make and a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS ?= 2

# One core per test process: numerical libraries would otherwise fight for the same two.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-all test-rest lint browser docs bench lock dist sbom clean

demo: $(VENV)/.core  ## set up, then run the main job: hospitals learn one classifier
	$(BIN)/fedgeom demo

test: $(VENV)/.all lint  ## set up, then run the checks and tests that everybody runs, in ten minutes
	$(BIN)/python -m pytest -n $(JOBS) -m "not full and not deployment"
	$(BIN)/python -m pytest tests/deploy -m "deployment and not full"  # alone: its processes need the cores

test-all: test test-rest  ## everything: what make test runs, and what takes longer or needs files of data

# What make test leaves out. Tests that draw their cases run again, with more of them.
test-rest: export FEDGEOM_TESTS := full
test-rest: $(VENV)/.all
	$(BIN)/python -m pytest -n $(JOBS) -m "(full or deeper or hypothesis) and not deployment"
	$(BIN)/python -m pytest tests/deploy tests/engines/flower -m "deployment and full"

lint: $(VENV)/.all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

browser: $(VENV)/.all  ## the studio and the reports in the system's Chromium (apt-get install chromium)
	$(PIP) install -c constraints.txt --group browser
	$(BIN)/python -m pytest tests/studio -m browser -rs

docs: $(VENV)/.docs  ## write the reference of the public names, and build the site into build/site; nothing is loaded
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/build_site.py

bench: $(VENV)/.all  ## run all benchmarks in their quick form: what, ratio, goal, met or not
	$(BIN)/python benchmarks/bench.py

# The tested versions with hashes of all their files, for all platforms. torch is not among them (constraints.txt).
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11.7 --generate-hashes --no-annotate --upgrade \
	--default-index https://pypi.org/simple --custom-compile-command "make lock"
RUN := $(addprefix --extra ,bio nats xclp topology privacy scanpy studio)

lock: $(VENV)/.all  ## write locks/ anew, from what is installed here: run it after make test-all has passed
	mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable | grep -vE "^torch==|@" > build/tested.txt
	$(COMPILE) -c build/tested.txt $(RUN) -o locks/run.txt pyproject.toml
	$(COMPILE) -c build/tested.txt $(RUN) --group docs --group dev -o locks/test.txt pyproject.toml
	$(COMPILE) -c build/tested.txt -o locks/tools.txt locks/tools.in

dist: build/tools  ## build the wheel into dist/, by tools whose hashes are known
	build/tools/bin/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist .

sbom: build/tools  ## write dist/sbom.json (CycloneDX): what sites and coordinators install, with hashes
	mkdir -p dist
	build/tools/bin/cyclonedx-py requirements locks/run.txt --pyproject pyproject.toml --output-reproducible -o dist/sbom.json

build/tools: locks/tools.txt
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r locks/tools.txt
	touch $@

clean:
	rm -rf $(VENV) build dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "fedgeom needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt src/fedgeom/version.py
	$(PIP) install -c constraints.txt -e .
	touch $@

$(VENV)/.docs: $(VENV)/.core Makefile
	$(PIP) install -c constraints.txt -e . --group docs
	touch $@

$(VENV)/.all: $(VENV)/.core Makefile
	$(PIP) install -c constraints.txt -e ".[bio,excel,onnx,flower,nats,xclp,topology,torch,privacy,scanpy,studio]" --group docs --group dev
	touch $@

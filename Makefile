# What CONTRIBUTING.md describes. Everything is made below this directory: .venv, target, dist, demo-data.
# Each target can be run alone, twice in a row, and from a clean clone.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := help

# The first Python that is new enough; override with `make PYTHON=/path/to/python3 ...`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
CARGO ?= cargo
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST_SOURCES := $(shell find rust python/src protos benches -type f -not -name '*.py' -not -name '*.pyc' 2>/dev/null) \
	Cargo.toml Cargo.lock python/Cargo.toml pyproject.toml
PYTHON_SOURCES := $(shell find python/glaive -name '*.py' -o -name '*.pyi' -o -name py.typed 2>/dev/null)

# install-extras <extra>: the packages of an extra of pyproject.toml, without building this one.
extras = $(BIN)/python .ci/extras.py $(1) | $(BIN)/pip install --quiet --requirement /dev/stdin

.PHONY: help
help:
	@echo 'make demo    build the wheel, write and read the flights of 2013 as Lance tables in demo-data/'
	@echo 'make test    build what is missing, cargo test, pytest'
	@echo 'make soak    2,000 random nested tables, both ways with pylance; 500 writers killed at random moments'
	@echo 'make old     both ways with old versions of pylance: GLAIVE_OLD_PYLANCE=old/bin/python:...'
	@echo 'make lint    cargo fmt, clippy, ruff, mypy'
	@echo 'make wheel   the release wheel in dist/, tried in an empty environment'
	@echo 'make bench   cargo bench'
	@echo 'make fuzz    a million mutated files'
	@echo 'make bench-compare   glaive, pylance, Parquet and Vortex on the same data; ARGS="--only scan-text" picks'
	@echo 'make matrix  every cell of the matrix of types, nestings, nulls, sizes and keys, both ways with pylance'
	@echo 'make bench-memory    peak memory of scans of a table of 5 GB'
	@echo 'make clean   remove everything that was built'

.PHONY: demo
demo: $(VENV)/.demo-deps $(VENV)/.wheel-installed
	@$(BIN)/python demo/flights.py demo-data

.PHONY: test
test: $(VENV)/.installed $(VENV)/.dev-deps
	$(CARGO) test --workspace
	$(BIN)/python -m pytest -n 2

.PHONY: soak
soak: $(VENV)/.installed $(VENV)/.dev-deps
	GLAIVE_NESTED_TABLES=2000 $(BIN)/python -m pytest -n 2 tests/test_nested.py
	GLAIVE_KILLS=500 $(BIN)/python -m pytest -rP tests/test_durability.py -k killed_writers

# About 20 minutes. GLAIVE_MATRIX=3/20 takes every twentieth table from number 3 on.
.PHONY: matrix
matrix: $(VENV)/.installed $(VENV)/.dev-deps
	GLAIVE_MATRIX=$${GLAIVE_MATRIX:-0/1} $(BIN)/python -m pytest -n 2 -q tests/test_cells.py

# GLAIVE_OLD_PYLANCE names the interpreters that have them, separated by colons.
.PHONY: old
old: $(VENV)/.installed $(VENV)/.dev-deps
	@[[ -n "$${GLAIVE_OLD_PYLANCE:-}" ]] || \
		{ echo 'make: set GLAIVE_OLD_PYLANCE to interpreters with an old pylance, such as old/bin/python' >&2; exit 1; }
	$(BIN)/python -m pytest tests/test_old_pylance.py

.PHONY: lint
lint: cargo-found $(VENV)/.dev-deps
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || \
		{ echo 'make: rustfmt or clippy is missing: run `rustup component add rustfmt clippy`' >&2; exit 1; }
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

.PHONY: wheel
wheel: dist/.wheel
	.ci/check-wheel dist/glaive-*.whl

# A million mutated files; a failing one is named by its seed. The limit of memory catches allocations on a file's word.
.PHONY: fuzz
fuzz: cargo-found
	ulimit -v 6000000; GLAIVE_FUZZ_INPUTS=$${GLAIVE_FUZZ_INPUTS:-1000000} \
		$(CARGO) test -p glaive-file --test main fuzz -- --nocapture

.PHONY: bench
bench: cargo-found
	$(CARGO) bench

# The release wheel is what users get, so it is what is compared. Data stay in target/bench-data.
.PHONY: bench-compare
bench-compare: $(VENV)/.bench-deps $(VENV)/.wheel-installed
	@$(BIN)/python benches/compare --json target/bench-data/result.json $(ARGS)

.PHONY: bench-memory
bench-memory: $(VENV)/.bench-deps $(VENV)/.wheel-installed
	@$(BIN)/python benches/memory $(ARGS)

.PHONY: clean
clean:
	rm -rf $(VENV) target dist demo-data python/glaive/_glaive.abi3.so

# --- Tools ----------------------------------------------------------------------------------------------------

.PHONY: cargo-found
cargo-found:
	@command -v $(CARGO) >/dev/null || \
		{ echo 'make: cargo is missing: install Rust from https://rustup.rs' >&2; exit 1; }

.PHONY: python-found
python-found:
	@[[ -n '$(PYTHON)' ]] && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo 'make: Python 3.11 or later is missing: install it (https://www.python.org/downloads, or `apt install python3 python3-venv`) or name one: `make PYTHON=/path/to/python3 ...`' >&2; exit 1; }

# --- Environment ----------------------------------------------------------------------------------------------

$(VENV)/.created: | python-found
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo 'make: the venv module is missing: run `apt install python3-venv`' >&2; exit 1; }
	@touch $@

$(VENV)/.maturin: $(VENV)/.created
	$(BIN)/pip install --quiet 'maturin>=1.9,<2'
	@touch $@

$(VENV)/.demo-deps: pyproject.toml $(VENV)/.created
	$(call extras,demo)
	@touch $@

$(VENV)/.bench-deps: pyproject.toml $(VENV)/.created
	$(call extras,bench)
	@touch $@

$(VENV)/.dev-deps: pyproject.toml $(VENV)/.created
	$(call extras,dev)
	@touch $@

# --- Build ----------------------------------------------------------------------------------------------------

# Something up to date is installed: the development build here (it shares its artefacts with `cargo test`), or
# the release wheel below.
$(VENV)/.installed: $(RUST_SOURCES) $(PYTHON_SOURCES) $(VENV)/.maturin | cargo-found
	$(BIN)/maturin develop
	@rm -f $(VENV)/.wheel-installed
	@touch $@

dist/.wheel: $(RUST_SOURCES) $(PYTHON_SOURCES) README.md LICENSE $(VENV)/.maturin | cargo-found
	@rm -f dist/glaive-*.whl
	$(BIN)/maturin build --release --out dist
	@touch $@

# The editable install would shadow the wheel's own files, so it goes first.
$(VENV)/.wheel-installed: dist/.wheel
	@$(BIN)/pip uninstall --quiet --yes glaive 2>/dev/null || true
	@rm -f python/glaive/_glaive.abi3.so
	$(BIN)/pip install --quiet --force-reinstall --no-deps dist/glaive-*.whl
	$(BIN)/pip install --quiet dist/glaive-*.whl
	@touch $@ $(VENV)/.installed

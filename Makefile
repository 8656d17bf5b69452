# The two commands: `make book` and `make test`. Needs Python 3.11 or newer and make, nothing else.
#
# If a virtual environment (or a conda environment other than base) is active, it is used; otherwise
# .venv is made here (tools/setup). MODEL=name chooses the model of the chapters (environment
# variable LNATTN_MODEL), for every command.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# What a user gives is taken as it stands, never as make's or the shell's code: recipes read it from
# the environment. What is given must not be blank. It is given to make, as in `make serve PORT=8001`:
# variables of such names that somebody's shell exports are theirs, and not heeded.
GIVEN := MODEL CHAPTER RUN ARGS PORT CUDA NAME MODULE
define taken
ifeq ($$(origin $(1)),command line)
  override $(1) := $$(value $(1))
  ifeq ($$(strip $$($(1))),)
    $$(error $(1) is blank: give it a value, or leave it out)
  endif
  export $(1)
else ifneq ($(1),CUDA) # of which only `yes` is heeded, wherever it stands
  ifneq ($$(and $$(filter environment,$$(origin $(1))),$$(filter $$(MAKECMDGOALS),$$(USERS_OF_$(1))),$$(value $(1))),)
    $$(info [make] the variable $(1) of your shell is not heeded: give it to make, as in make $$(MAKECMDGOALS) $(1)=...)
  endif
  unexport $(1)
  override undefine $(1)
endif
endef
USERS_OF_MODEL := book execute lab
USERS_OF_CHAPTER := execute
USERS_OF_RUN := embed
USERS_OF_ARGS := claims test test-all test-experiments mutants benchmark lab
USERS_OF_PORT := serve
USERS_OF_NAME := new-chapter
USERS_OF_MODULE := mutants
$(foreach name,$(GIVEN),$(eval $(call taken,$(name))))
# chapter=06 would otherwise run all of them.
SMALL := model chapter run args port cuda name module
$(foreach one,$(SMALL),$(if $(filter command,$(origin $(one))),$(error $(one)= is not known: write it in capitals)))

ENVDIR := .venv
ifdef VIRTUAL_ENV
  ENVDIR := $(value VIRTUAL_ENV)
else ifdef CONDA_PREFIX
  ifneq ($(CONDA_DEFAULT_ENV),base)
    ENVDIR := $(value CONDA_PREFIX)
  endif
endif
export ENVDIR
EXTRAS := book,test
export EXTRAS
PY = "$$ENVDIR/bin/python"

ifdef MODEL
  export LNATTN_MODEL := $(MODEL)
endif

.PHONY: help setup place book publish rehearsal test test-all test-experiments mutants serve lab execute claims freeze-claims freeze-extent attest new-chapter embed twice links benchmark screenshots paper check lock clean

help:
	@echo "make setup                install what is needed, and do no more (every command does so first)"
	@echo "make book                 build the book (only what changed) into _build/html"
	@echo "make test                 run the tests, but for those of whole books, chapters and pages"
	@echo "make test-all             run these, too"
	@echo "make test-experiments     run the tests of experiments/, which made the frozen results"
	@echo "make mutants MODULE=attention   put mistakes into one module, and list those that no test notices"
	@echo "make serve                show the built book at http://127.0.0.1:8000 (PORT=8001: elsewhere)"
	@echo "make lab                  open the chapters in JupyterLab, to run and change them (ARGS: its own)"
	@echo "make execute MODEL=name   run every chapter again, on a model of your choice"
	@echo "make execute MODEL=name CHAPTER=06   run one chapter; writes a notebook with its outputs"
	@echo "make publish              build what is published: GPT-2's edition and the embedded one, in _build/site"
	@echo "make rehearsal            the same without a network, with a stand-in for GPT-2, in _build/rehearsal"
	@echo "make claims               print the papers' claims beside what the last build found"
	@echo "make freeze-claims        take the claims of the last build as those to compare with"
	@echo "make attest               write what the last build found here, with a hash of its verdicts, to be sent"
	@echo "make freeze-extent        take the pages, claims, figures and bytes of what is built as those to compare with"
	@echo "make embed RUN=folder     take a finished training run into data, as book-gpt2 or book-llama"
	@echo "make twice                build two copies from nothing and compare their numbers"
	@echo "make links                follow every outgoing link of the book"
	@echo "make benchmark            measure the fast paths against the papers' algorithms"
	@echo "make paper                the main path as a PDF and an EPUB, in _build/paper (needs Chromium)"
	@echo "make screenshots          take the README's pictures of the built book (needs Chromium)"
	@echo "make check                ruff, yamllint, biome: style; mypy: types"
	@echo "make lock                 pin the installed versions in constraints.txt"
	@echo "make new-chapter NAME=two-layers   begin a chapter: notebook, module, test, line of the contents"
	@echo "make clean                delete what was built, but not .venv"

setup:
	@tools/setup

# Sphinx ends in a traceback where it cannot write, before it asks any extension.
place:
	@mkdir -p _build 2>/dev/null && test -w _build || { \
	  echo "$$PWD/_build cannot be written; copy the clone to a folder of your own, or build elsewhere:" \
	    "jupyter-book build . --path-output FOLDER" >&2; exit 2; }

# As jupyter-book build does it in any book; what this one needs is an extension of Sphinx.
book: setup place
	@"$$ENVDIR/bin/jupyter-book" build .

publish: setup
	@$(PY) -m booksite.publish

rehearsal: setup
	@$(PY) tools/rehearsal.py

execute: setup
ifdef CHAPTER
	@$(PY) -m booksite.build --chapter "$$CHAPTER"
else
	@$(PY) -m booksite.build --force
endif

lab: EXTRAS := book,test,lab
# As root, as in a container, JupyterLab starts only if it is told to.
lab: setup
	@set -f; test "$$(id -u)" != 0 || set -- --allow-root; \
	  JUPYTER_CONFIG_PATH="$$PWD/tools/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	  "$$ENVDIR/bin/jupyter" lab notebooks "$$@" $${ARGS:-}

claims: setup
	@set -f; $(PY) -m lnattn_book.claims $${ARGS:-}

freeze-claims: setup
	@$(PY) -m lnattn_book.claims --freeze

freeze-extent: setup
	@$(PY) -m booksite.extent

attest: setup
	@$(PY) tools/attest.py

new-chapter: setup
	@$(PY) tools/new_chapter.py "$${NAME:-}"

embed: setup
	@test -n "$${RUN:-}" || { echo "give RUN=folder, of a finished training run" >&2; exit 2; }
	@$(PY) -m experiments.book_model embed "$$RUN"

twice: setup
	@$(PY) tools/twice.py

links: setup place
	@"$$ENVDIR/bin/jupyter-book" build . --builder linkcheck

# A process of tests for each core, so one thread for each process: more wait for one another.
test test-all test-experiments: export OMP_NUM_THREADS ?= 1
test test-all test-experiments: export OPENBLAS_NUM_THREADS ?= 1
test test-all test-experiments: export MKL_NUM_THREADS ?= 1
test test-all test-experiments: export NUMBA_NUM_THREADS ?= 1
PYTEST = $(PY) -m pytest --numprocesses auto --maxprocesses 3 --dist loadfile \
	  --no-loadscope-reorder --durations 15 --durations-min 3
# What ARGS name is run, whatever its marks.
test: export DEFAULT := -m not(whole)
test: setup
	@set -f; $(PYTEST) $${ARGS:-$$DEFAULT}

test-all: setup
	@set -f; $(PYTEST) $${ARGS:-}

test-experiments: setup
	@set -f; $(PY) -m pytest --numprocesses auto --maxprocesses 2 --dist loadfile experiments/tests $${ARGS:-}

# Takes seconds for each of hundreds of mistakes: ARGS="--sample 40" tries so many of them.
mutants: EXTRAS := $(EXTRAS),mutants
mutants: export OMP_NUM_THREADS := 1
mutants: export NUMBA_NUM_THREADS := 1
mutants: setup
	@set -f; $(PY) tools/mutants.py $${ARGS:-} $${MODULE:+"$$MODULE"}

# The linter of JavaScript and CSS; npm keeps it after the first time.
BIOME := @biomejs/biome@2.6.8
check: setup
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) tools/chapter_style.py
	@$(PY) -m yamllint --strict .
	@if npx --yes $(BIOME) --version >/dev/null 2>&1; then npx --yes $(BIOME) lint --error-on-warnings; \
	  else echo "[check] JavaScript and CSS were not linted: npx (of Node.js) cannot fetch $(BIOME)"; fi
	@$(PY) -m mypy

serve: setup
	@$(PY) -m booksite.serve --port "$${PORT:-8000}"

benchmark: setup
	@set -f; $(PY) benchmarks/run_all.py $${ARGS:-}

paper: setup
	@$(PY) tools/paper.py

screenshots: setup
	@$(PY) tools/screenshots.py

# To be run with the oldest Python there is support for: a pin may need a newer one than 3.11.2.
lock: setup
	@rm -rf _build/lock && python3 -m venv _build/lock
	@_build/lock/bin/python -m pip install --quiet '.[$(EXTRAS),lab]'
	@{ echo "# The versions that the book was last built and tested with (pip install -c this-file)."; \
	  echo "# Local labels (+cpu) are left out, so that any build of the same version will do."; \
	  _build/lock/bin/python -m pip freeze --exclude lnattn | sed 's/+[^ ]*$$//'; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf _build .pytest_cache .ruff_cache .mypy_cache .hypothesis

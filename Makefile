# Two commands do all the set-up from an empty clone: `make demo` and `make test`.
# No GPU, no container engine, no model hub. Variables you may set:
#   PYTHON  interpreter the virtual environment is made with (3.10 or newer)
#   TORCH   the torch requirement; give a local wheel or a CUDA build here if you have one
#   EXTRAS  optional dependency groups to install
#   COLBERT the colbert-ai requirement, installed without its dependencies (scoring needs none of them); empty to leave it out
PYTHON ?= python3
TORCH  ?= torch==2.13.0
EXTRAS ?= dev,lab,pdf,coref
COLBERT ?= colbert-ai>=0.2.22,<0.3
VENV   := .venv
BIN    := $(VENV)/bin
HERE   := $(shell pwd | cksum | cut -d' ' -f1)
STAMP  := $(VENV)/.installed-$(HERE)# a moved folder needs a new environment

.PHONY: help venv demo test lab sync notebooks unit slow hooks clean
help:            ## this list
	@grep -E '^[a-z]+: .*##|^[a-z]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

venv: $(STAMP)   ## create .venv with everything the other targets need
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and f"sci-rag needs Python 3.10 or newer, this is {v[0]}.{v[1]}; give another with: make venv PYTHON=python3.11")'
	@head -3 $(BIN)/pip 2>/dev/null | grep -qF -e '$(CURDIR)/$(VENV)/' -e '$(realpath .)/$(VENV)/' || rm -rf $(VENV)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	$(if $(COLBERT),$(BIN)/pip install --quiet --disable-pip-version-check --no-deps '$(COLBERT)')
	@touch $(STAMP)

demo: venv       ## the main job: documents in, searched, evaluated, an executed report out
	$(BIN)/sci-rag demo

lab: venv        ## JupyterLab on the first tutorial
	$(BIN)/sci-rag lab

test: venv sync notebooks unit   ## the gate: export and README in sync, notebooks run, pytest passes

sync: venv       ## fail if sci_rag/ or README.md is not what the notebooks say
	.ci/sync

notebooks: venv  ## run every notebook but the ablations
	SCI_RAG_PROGRESS=false $(BIN)/nbdev-test

unit: venv       ## pytest without the slow tests
	SCI_RAG_PROGRESS=false $(BIN)/pytest -m "not slow"

slow: venv       ## the slow tests (SciFact, kill tests)
	SCI_RAG_PROGRESS=false $(BIN)/pytest -m slow

hooks: venv      ## git hooks: clean notebooks, merge them cell by cell
	$(BIN)/nbdev-install-hooks

clean:           ## remove the environment, the embedded database and caches
	rm -rf $(VENV) .sci_rag .pytest_cache .hypothesis *.egg-info build dist

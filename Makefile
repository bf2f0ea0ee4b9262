# How a checkout of ds4watch is run, tested and measured. `make help` lists the targets.
# Virtual environments are made once, and anew when their lock file has changed.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PY := .venv/bin/python
GPUS := $(shell nvidia-smi -L 2>/dev/null | grep -c '^GPU')
IS_ROOT := $(filter 0,$(shell id -u))
VLLM_LOCK := $(if $(filter-out 0,$(GPUS)),requirements-vllm-cuda.lock,requirements-vllm.lock)

# the checkout's path is part of the key: a moved virtual environment does not work
key = $(shell { pwd; cat $(1); } | sha256sum | cut -c1-12)
RUN_READY := .venv/.run-$(call key,requirements.lock pyproject.toml)
DEV_READY := .venv/.dev-$(call key,requirements-dev.lock pyproject.toml)
# an interpreter that has vLLM already is taken as it is
VLLM_READY := $(if $(DS4WATCH_VLLM_PYTHON),,.venv-vllm/.ready-$(call key,$(VLLM_LOCK)))

# who may not install what vLLM needs of Debian tests without it
TEST_VLLM := $(if $(IS_ROOT)$(filter-out 0,$(GPUS))$(shell .ci/has-numa && echo yes),$(VLLM_READY))

RAY_READY := .venv-ray/.ready-$(call key,requirements-ray.lock)

.PHONY: help run vllm ray test test-fast test-long bench lint clean distclean

help: ## list the targets
	@sed -nE 's/^([a-z%-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

run: $(RUN_READY) $(if $(SIM),,$(VLLM_READY)) ## run ds4watch with two small vLLM workers; SIM=1: simulated ones; ARGS=… for `ds4watch up`
	@exec .venv/bin/ds4watch up $(if $(SIM),--sim) $(ARGS)

vllm: $(VLLM_READY) ## make .venv-vllm; PIP_ARGS=… goes to pip

ray: $(RAY_READY) ## make .venv-ray, for the test of the Ray backend

test: $(DEV_READY) $(TEST_VLLM) $(RAY_READY) ## all checks and tests, on the real vLLM too
	@.ci/packages
	$(MAKE) lint
	DS4WATCH_REQUIRE_ALL=$(if $(IS_ROOT),1) $(PY) -m pytest -n 2 --dist loadscope $(ARGS)

test-fast: $(DEV_READY) ## the unit tests, within a minute
	@.ci/packages --name
	$(PY) -m pytest -q -n auto --dist loadscope -m "not vllm and not slow" $(or $(ARGS),tests/unit)

test-long: $(DEV_READY) $(TEST_VLLM) $(RAY_READY) ## all tests, with thousands of generated examples for each property
	@DS4WATCH_REQUIRE_ALL=$(if $(IS_ROOT),1) $(PY) -m pytest --hypothesis-profile=long --timeout=1800 $(ARGS)

bench: $(DEV_READY) ## measure everything
	@for file in benchmarks/bench_*.py; do
	  name=$$(basename "$$file" .py)
	  echo "== $$name"
	  $(PY) -m "benchmarks.$$name"
	done

bench-%: $(DEV_READY) ## measure one thing: bench-parse, bench-gateway, bench-scrape, bench-storage, bench-query, bench-reaction, bench-replay, bench-reach, bench-compress, bench-batching, bench-anomaly, bench-provision
	@$(PY) -m benchmarks.bench_$* $(ARGS)

lint: $(DEV_READY) ## style, types, layers, dead code
	@.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/vulture

clean: ## remove caches and build results
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environments too
	@rm -rf .venv .venv-peers .venv-ray .venv-vllm

define make_venv
$(PY) -m pip --version >/dev/null 2>&1 || { python=$$(.ci/python); "$$python" -m venv --clear .venv; }
endef

$(RUN_READY):
	@$(make_venv)
	$(PY) -m pip install -r requirements.lock
	$(PY) -m pip install --no-deps -e .
	rm -f .venv/.run-*
	touch $@

# the development lock holds all of requirements.lock
$(DEV_READY):
	@$(make_venv)
	$(PY) -m pip install -r requirements-dev.lock
	$(PY) -m pip install --no-deps -e .
	rm -f .venv/.run-* .venv/.dev-*
	touch $(RUN_READY) $@

$(RAY_READY):
	@python=$$(.ci/python)
	"$$python" -m venv --clear .venv-ray
	.venv-ray/bin/python -m pip install --no-deps -r requirements-ray.lock
	touch $@

ifneq ($(VLLM_READY),)
$(VLLM_READY):
	@.ci/vllm $(VLLM_LOCK) $(PIP_ARGS)
	touch $@
endif

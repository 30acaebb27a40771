# The one door: demo, test, lint, fix, bench. CI calls the same.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test soak mutants lint fix bench docs clean

demo: $(READY)
	@$(BIN)/coterie demo

test: lint
	@$(BIN)/python -m pytest -q -n 3

soak: $(READY)
	@COTERIE_SOAK=1 COTERIE_SOAK_RUNS=20 COTERIE_GIT_KILLS=0 $(BIN)/python -m pytest -q -n 3 -o timeout=20000 tests/crash \
		tests/acceptance tests/taskboard/test_many.py tests/lead/test_hand_edits.py \
		tests/worktrees/test_killed.py tests/console/test_damaged.py

mutants: $(READY)
	@$(BIN)/python scripts/mutants.py

lint: $(READY)
	@$(BIN)/ruff check src tests scripts bench
	@$(BIN)/ruff format --check src tests scripts bench
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/lengths.py

fix: $(READY)
	@$(BIN)/ruff check --fix src tests scripts bench
	@$(BIN)/ruff format src tests scripts bench

bench: $(READY)
	@$(BIN)/python bench/claims.py
	@$(BIN)/python bench/startup.py
	@$(BIN)/python bench/commands.py

docs: $(READY)
	@$(BIN)/python scripts/docs.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache

$(READY): pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $(PYTHON) $(VENV)
	@touch $(READY)

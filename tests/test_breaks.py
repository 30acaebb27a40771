"""The breaks of `make mutants` are not run here, only that each still finds the one place that it breaks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


def test_each_break_finds_one_place_and_says_something_of_its_own(mutants: ModuleType) -> None:
    for each in mutants.BREAKS:
        text = (ROOT / "src" / "coterie" / each.file).read_text()
        assert text.count(each.old) == 1, f"{each.says}: {text.count(each.old)} places in {each.file}"
        assert each.old != each.new
    assert len({each.says for each in mutants.BREAKS}) == len(mutants.BREAKS)


def test_each_break_names_tests_that_are_there(mutants: ModuleType) -> None:
    for each in mutants.BREAKS:
        if not each.tests.startswith("crash: "):
            paths = [word for word in each.tests.split() if word.startswith("tests/")]
            assert paths and all((ROOT / path.partition("::")[0]).exists() for path in paths), each.says

"""Changes to the text of modules."""

from __future__ import annotations

import pytest

from coterie.demo.sample import sample_files
from coterie.demo.surgery import homes, moved, register, rewired, smallest_edit, union, unregister

SETTINGS = sample_files()["shopfront/settings.py"]
INIT = sample_files()["shopfront/__init__.py"]
CONCERNS = ("paths", "logs", "money", "flags", "mail")


@pytest.mark.parametrize("concern", CONCERNS)
def test_a_section_moves_once_with_the_imports_it_needs(concern: str) -> None:
    found = moved(SETTINGS, concern)
    assert found is not None
    module, left = found
    compile(module, concern, "exec")
    assert f"def check_{concern}()" in module and f"def check_{concern}()" not in left
    assert moved(left, concern) is None
    assert homes(left)[f"check_{concern}"] == concern
    assert len(left.splitlines()) + len(module.splitlines()) > len(SETTINGS.splitlines())


def test_a_name_is_imported_from_where_it_lives() -> None:
    text = (
        '"""A module."""\n\nimport os\n\nfrom shopfront import CONCERNS\nfrom shopfront.settings import A, b\n\nx = 1\n'
    )
    new = rewired(text, {"A": "money", "b": "flags"})
    assert (
        "from shopfront import CONCERNS\nfrom shopfront.flags import b\nfrom shopfront.money import A\n\nx = 1" in new
    )
    assert rewired(new, {}) == new
    assert rewired(text, {"b": "flags"}).count("settings") == 1


def test_a_concern_is_registered_once() -> None:
    new = register(INIT, "paths", "logs")
    assert '    "paths",\n    "logs",\n    "settings",\n' in new
    assert register(new, "logs") == new
    assert unregister(new, "settings").count("settings") == 0


def test_both_sides_of_a_conflict_stay() -> None:
    ours, theirs = '    "a",\n    "b",\n', '    "c",\n    "b",\n'
    marked = f"x = (\n<<<<<<< HEAD\n{ours}||||||| base\n    'old',\n=======\n{theirs}>>>>>>> other\n)\n"
    assert union(marked) == 'x = (\n    "a",\n    "b",\n    "c",\n)\n'
    assert union("a\n=======\nb\n") == "a\n=======\nb\n"
    assert union("") == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nx\nc\n"),
        ("a\na\na\n", "a\na\n"),
        ("a\nb\n", "a\nb\nc\n"),
        ("x\n", "y\n"),
        ("a\n)\nb\n)\n", "a\n)\nb\n1\n)\n"),
    ],
)
def test_an_edit_matches_once_and_leads_to_what_is_wanted(old: str, new: str) -> None:
    before, after = smallest_edit(old, new)
    assert old.count(before) == 1
    assert old.replace(before, after) == new

"""Each outside library has one door, and state is written by one room: read off the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "coterie"
DOORS = {
    "anthropic": "teammates/anthropic_model.py",
    "dotenv": "console/sources.py",
    "filelock": "files/locks.py",
    "genai_prices": "teammates/prices.py",
    "git": "worktrees/git.py",
}
WRITERS = {
    "demo/sample/__init__.py": "lays out the sample repository, which is no state of ours",
    "teammates/output.py": "streams what a command prints into output/, as it comes",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("library", "door"), DOORS.items())
def test_a_library_is_imported_behind_its_one_door(library: str, door: str) -> None:
    found = set()
    for name, tree in sources():
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(each.split(".")[0] == library for each in names):
                found.add(name)
    assert found == {door}


def writes(node: ast.AST) -> bool:
    """Whether a node opens a file for writing."""
    if isinstance(node, ast.Attribute) and node.attr in ("O_WRONLY", "O_RDWR"):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = getattr(node.func, "value", None)
    if name in ("write_text", "write_bytes") and isinstance(node.func, ast.Attribute):
        return getattr(owner, "id", "") != "files"
    modes = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return name in ("open", "fdopen") and any(set(mode) & set("wax+") and len(mode) <= 3 for mode in modes)


def test_only_the_files_room_opens_state_for_writing() -> None:
    found = {
        name
        for name, tree in sources()
        if not name.startswith("files/") and any(writes(node) for node in ast.walk(tree))
    }
    assert found - {"console/door.py"} == set(WRITERS), "console/door.py opens /dev/null where a pipe was closed"

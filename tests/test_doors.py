"""Each outside library has one door, and state is written by one room: read off the source."""

from __future__ import annotations

import ast
import functools
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
    "tree_sitter": "teammates/permissions/shell.py",
    "tree_sitter_bash": "teammates/permissions/shell.py",
}
WRITERS = {
    "demo/sample/__init__.py": "lays out the sample repository, which is no state of ours",
    "teammates/output.py": "streams what a command prints into output/, as it comes",
}


@functools.cache
def sources() -> list[tuple[str, ast.Module]]:
    paths = sorted(SOURCE.rglob("*.py"))
    return [(str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


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


GIT_DOOR = "worktrees/git.py"
OPTIONS_END = ("END", "--end-of-options", "--")
NO_OPERANDS = {"add", "clean", "commit-tree", "git", "hash-object", "ls-files", "status", "update-index", "worktree"}
"""Commands whose operands are read from standard input, or stand after `--` or a flag that takes them."""


def test_git_is_run_in_one_way_and_gitpython_builds_no_option() -> None:
    """Of gitpython only `execute` with a whole argument list is used: its keyword arguments become options of git."""
    ways, argument_lists = [], set()
    for name, module in sources():
        for node in ast.walk(module):
            if isinstance(node, ast.List) and node.elts and getattr(node.elts[0], "value", "") == "git":
                argument_lists.add(name)
            if name != GIT_DOOR or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = ast.unparse(node.func.value)
            if owner.endswith("_runner") or owner.startswith(("gitpython", "runner")):
                ways.append((node.func.attr, len(node.args), {each.arg for each in node.keywords}))
    rooms = {name for name in argument_lists if not name.startswith("demo/")}  # which lays out a repository of its own
    assert rooms == {GIT_DOOR, "worktrees/repository.py"}, "the latter gives its lists to `execute` of the former"
    assert sorted(ways, key=str) == [
        ("Git", 1, set()),  # with a folder
        ("Git", 1, set()),
        ("execute", 1, {"istream", "as_process", "start_new_session"}),
    ]


def git_calls() -> Iterator[tuple[str, list[ast.expr]]]:
    """The argument lists that the runner is called with, as far as they stand in the source."""
    for name, module in sources():
        if name.startswith(("worktrees/", "console/", "lead/")):
            for node in ast.walk(module):
                of_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                if of_call and node.func.attr in ("run", "call") and "git" in ast.unparse(node.func.value):  # type: ignore[attr-defined]
                    yield name, node.args  # type: ignore[attr-defined]
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "argv":
                    yield name, getattr(node.value, "elts", [])


def test_what_comes_from_outside_never_stands_where_git_looks_for_an_option() -> None:
    looked_at = 0
    for name, arguments in git_calls():
        words = [each.value if isinstance(each, ast.Constant) else None for each in arguments]
        if not words or words[0] is None or words[0] in NO_OPERANDS or words[0].startswith("-"):
            continue
        looked_at += 1
        for number, each in enumerate(arguments[1:], 1):
            text = ast.unparse(each)
            text = text[2:] if isinstance(each, ast.JoinedStr) else text
            before = [ast.unparse(other).strip("'\"") for other in arguments[:number]]
            after_flag = before[-1] in ("-m", "--reason")
            if isinstance(each, ast.Constant) or text.startswith("--") or text in OPTIONS_END or after_flag:
                continue
            if text in ("*flags", "format"):  # constants with names
                continue
            assert any(other in OPTIONS_END for other in before), f"{name}: {ast.unparse(arguments[0])} … {text}"
    assert looked_at > 40

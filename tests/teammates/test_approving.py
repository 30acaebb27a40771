"""Who decides on a task's plans."""

from __future__ import annotations

import fnmatch
import itertools
from typing import Literal

import pytest

from coterie.teammates.approving import approver, may_meet
from coterie.teammates.settings import TeamSettings

Who = Literal["lead", "human"]
HUMANS: dict[str, Who] = {"auth/**": "human", "docs/**": "lead"}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ((), "human"),
        (("src/a.py",), "lead"),
        (("auth/login.py",), "human"),
        (("auth",), "human"),
        (("auth/",), "human"),
        (("**/login.py",), "human"),
        (("a*/x.py",), "human"),
        (("[a]uth/x.py",), "human"),
        (("????/x.py",), "human"),
        (("**",), "human"),
        (("src/a.py", "auth/x.py"), "human"),
        (("author/x.py",), "lead"),
    ],
)
def test_a_task_that_could_touch_a_path_of_the_humans_is_decided_by_the_human(
    scope: tuple[str, ...], expected: str
) -> None:
    assert approver(TeamSettings(approver_paths=HUMANS), scope) == expected


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ((), "human"),
        (("docs/a.md",), "lead"),
        (("docs/**",), "lead"),
        (("docs/a.md", "src/a.py"), "human"),
        (("d*",), "human"),
    ],
)
def test_the_lead_decides_by_its_paths_only_where_the_whole_scope_lies_in_them(
    scope: tuple[str, ...], expected: str
) -> None:
    assert approver(TeamSettings(approver="human", approver_paths={"docs/**": "lead"}), scope) == expected


def test_without_paths_the_setting_decides_whatever_the_scope() -> None:
    assert {approver(TeamSettings(), scope) for scope in ((), ("a",), ("**",))} == {"lead"}
    assert {approver(TeamSettings(approver="human"), scope) for scope in ((), ("a",), ("**",))} == {"human"}


def test_two_globs_that_match_one_path_are_always_said_to_meet() -> None:
    globs = ["".join(each) for size in (1, 2, 3) for each in itertools.product("a/*?", repeat=size)]
    paths = ["".join(each) for size in (1, 2, 3) for each in itertools.product("ab/", repeat=size)]
    matched = {glob: {path for path in paths if fnmatch.fnmatchcase(path, glob)} for glob in globs}
    missed = [(a, b) for a in globs for b in globs if matched[a] & matched[b] and not may_meet(a, b)]
    assert missed == []
    assert not may_meet("src/a.py", "src/b.py")
    assert not may_meet("src/*.py", "docs/*")

"""Who decides on a task's plans: the settings, and the paths that the task expects to touch."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Literal

from coterie.teammates.settings import TeamSettings

__all__ = ["approver", "may_meet"]


def approver(settings: TeamSettings, scope: Sequence[str]) -> Literal["lead", "human"]:
    """Who decides on the plans of a task with this scope.

    `human` wherever the scope could touch a path of the human's; a task that does not say what it touches could touch
    anything. `lead` by a path of the lead's only where the whole scope lies in such paths, else `settings.approver`.
    """
    paths = settings.approver_paths
    humans = [pattern for pattern, who in paths.items() if who == "human"]
    leads = [pattern for pattern, who in paths.items() if who == "lead"]
    if any(may_meet(each, pattern) for each in scope or ("*",) for pattern in humans):
        return "human"
    if scope and all(any(each == pattern or fnmatch.fnmatchcase(each, pattern) for pattern in leads) for each in scope):
        return "lead"
    return settings.approver


def may_meet(one: str, other: str) -> bool:
    """Whether some path could match both globs. A glob stands for what lies below it, too: `auth` touches `auth/a.py`.

    A star crosses folders, a class in brackets is any one character: where that is too wide it says yes, never no.
    """
    return any(_meet(_pieces(a), _pieces(b)) for a in (one, f"{one.rstrip('/')}/*") for b in (other, f"{other}/*"))


def _pieces(glob: str) -> list[str]:
    """The glob as single characters, `?` for any one and `*` for any number of them."""
    glob = re.sub(r"\*\*/", "*", glob)  # no folder at all, too
    return re.findall(r"\*|.", re.sub(r"\[[^\]]+\]", "?", re.sub(r"\*+", "*", glob)), re.DOTALL)


def _meet(one: list[str], other: list[str]) -> bool:
    places = {(0, 0)}
    seen: set[tuple[int, int]] = set()
    while places:
        a, b = place = places.pop()
        if place in seen:
            continue
        seen.add(place)
        if place == (len(one), len(other)):
            return True
        x, y = one[a : a + 1], other[b : b + 1]
        if x == ["*"]:
            places.add((a + 1, b))
        if y == ["*"]:
            places.add((a, b + 1))
        if x and y and (x == y or {"*", "?"} & {*x, *y}):
            places.add((a if x == ["*"] else a + 1, b if y == ["*"] else b + 1))
    return False

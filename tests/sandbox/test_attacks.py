"""Hostile commands against the real sandbox: each attack with its refusal, and nothing of the person's is changed."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

import pytest
from tests.sandbox.ground import ATTACKS, Ground, Listeners, digest

NAMES = [
    node.name
    for node in ast.parse(ATTACKS.read_text()).body
    if isinstance(node, ast.FunctionDef) and any(getattr(each, "id", "") == "attack" for each in node.decorator_list)
]


class Attacked:
    """What came of all attacks, made by one command."""

    def __init__(self, ground: Ground, listeners: Listeners) -> None:
        theirs = (ground.home, ground.ben)
        # the refs, objects and worktree entries of the team, and its own files, are what a run writes
        ours = tuple(str(ground.repository / each) for each in (".coterie/main/output",))
        before = digest(*theirs, but=ours)
        place = ground.place(**listeners.told)
        self.done = ground.run(["python3", "-I", "-c", ATTACKS.read_text(), place], timeout_s=30)
        self.came = listeners.came()
        after = digest(*theirs, but=ours)
        self.changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        self.what: dict[str, str] = {}
        if self.done.exit_code == 0:
            self.what = json.loads(self.done.text.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def attacked(ground: Ground) -> Iterator[Attacked]:
    listeners = Listeners(ground.folder / "sockets")
    try:
        yield Attacked(ground, listeners)
    finally:
        listeners.close()


def test_all_attacks_were_made(attacked: Attacked) -> None:
    assert attacked.done.exit_code == 0, attacked.done.text
    assert sorted(attacked.what) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_refused_to(attacked: Attacked, name: str) -> None:
    assert attacked.what.get(name, "not made").startswith("refused: "), attacked.what.get(name)


def test_nobody_who_listens_on_the_machine_was_reached(attacked: Attacked) -> None:
    assert attacked.came == []


def test_checkout_index_refs_settings_hooks_reflogs_home_and_other_worktrees_are_byte_identical(
    attacked: Attacked,
) -> None:
    assert attacked.changed == []

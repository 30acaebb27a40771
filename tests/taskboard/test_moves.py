"""The table of moves, against the one that the documentation shows, and against the board itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from coterie.taskboard import MOVES, Assignment, Board, IllegalMove, Move, NotCurrent, Status, Task, TaskRefused
from coterie.taskboard.moves import target

P, A, S, C, F, X = (
    Status.PENDING,
    Status.IN_PROGRESS,
    Status.SUBMITTED,
    Status.COMPLETED,
    Status.FAILED,
    Status.CANCELLED,
)

if TYPE_CHECKING:
    from conftest import Team
ALLOWED = {(P, A), (A, S), (S, C), (S, A), (S, P), (A, P), (A, F), (S, F), (P, X), (A, X), (S, X), (F, P), (X, P)}
"""Every change of status there is. What is missing here must not be possible."""


def test_the_table_has_exactly_the_documented_changes_of_status() -> None:
    found = {(before, after) for row in MOVES.values() for before, after in row.items() if before is not after}
    assert found == ALLOWED


def test_the_table_has_a_row_for_every_move() -> None:
    assert set(MOVES) == set(Move)


@pytest.mark.parametrize(("move", "status"), list(itertools.product(Move, Status)))
def test_every_pair_of_move_and_status_is_in_the_table_or_refused(team: Team, move: Move, status: Status) -> None:
    task = team.in_status(status)
    if status in MOVES[move]:
        assert target(move, task) is MOVES[move][status]
    else:
        with pytest.raises(IllegalMove, match=f"{task.id} is {status}: it cannot be"):
            target(move, task)


Call = Callable[[Board, Task], Task | None]
W = Assignment(worktree="/elsewhere", branch="b", base="b1")
CALLS: dict[str, tuple[Call, dict[Status, Status]]] = {
    "claim": (lambda b, t: b.claim(owner="eve", instance="eve#1") or b.get(t.id), {P: A}),
    "bind": (lambda b, t: b.bind(t.id, t.epoch, W), {A: A}),
    "submit": (lambda b, t: b.submit(t.id, t.epoch, by="ada", summary="", commit="c2"), {A: S}),
    "set_merging": (lambda b, t: b.set_merging(t.id, t.epoch, "m2"), {S: S}),
    "unbind": (lambda b, t: b.unbind(t.id, t.epoch, by="queue", reason="red base"), {S: S}),
    "complete": (lambda b, t: b.complete(t.id, t.epoch, merged_commit="m2"), {S: C}),
    "give_back": (lambda b, t: b.give_back(t.id, t.epoch, reason="red", base="b2", owner_available=True), {S: A}),
    "give_back, owner gone": (
        lambda b, t: b.give_back(t.id, t.epoch, reason="red", base="b2", owner_available=False),
        {S: P},
    ),
    "release": (lambda b, t: b.release(t.id, t.epoch, by="runtime", reason="gone"), {A: P, S: P}),
    "park": (lambda b, t: b.park(t.id, t.epoch, by="ada", reason="later", blocked_by=["T1"]), {A: P}),
    "give_up": (lambda b, t: b.give_up(t.id, t.epoch, by="ada", reason="cannot"), {A: P}),
    "want release": (lambda b, t: b.want(t.id, move="release", by="human", reason="mine"), {A: A, S: P}),
    "want cancel": (lambda b, t: b.want(t.id, move="cancel", by="human", reason="no"), {P: X, A: A, S: X}),
    "carry_out": (lambda b, t: b.carry_out(t.id, t.epoch, by="runtime"), {}),
    "retry": (lambda b, t: b.retry(t.id, by="human", reason="again"), {F: P, X: P}),
    "update": (
        lambda b, t: b.update(t.id, by="lead", description="new"),
        {P: P, A: A, S: S, F: F, X: X},
    ),
    "update edges": (lambda b, t: b.update(t.id, by="lead", add_blocked_by=["T1"]), {P: P, F: F, X: X}),
}


@pytest.mark.parametrize(("name", "status"), list(itertools.product(CALLS, Status)))
def test_every_call_in_every_status_moves_as_documented_or_changes_nothing(
    team: Team, name: str, status: Status
) -> None:
    (other,) = team.create("other", role="nobody").values()
    assert other == "T1"
    task = team.in_status(status)
    before = team.path(task.id).read_bytes()
    call, moves = CALLS[name]
    if status in moves:
        after = call(team.board, task)
        assert after is not None
        assert after.status is moves[status]
        assert after == team.board.get(task.id)
        assert after.rev == task.rev + 1
        assert len(after.history) == len(task.history) + 1
        assert (after.history[-1].from_, after.history[-1].to) == (status, after.status)
        if after.status not in (A, S):
            assert (after.claim, after.assignment, after.wanted) == (None, None, None)
    elif name == "claim":
        found = call(team.board, task)
        assert found == task
        assert team.path(task.id).read_bytes() == before
    else:
        with pytest.raises((IllegalMove, NotCurrent, TaskRefused)):
            call(team.board, task)
        assert team.path(task.id).read_bytes() == before


EPOCH_CALLS = [
    name for name, (_, moves) in CALLS.items() if name.split()[0] not in ("claim", "want", "retry", "update")
]


@pytest.mark.parametrize("off", [-1, 1])
@pytest.mark.parametrize("name", EPOCH_CALLS)
def test_an_effect_of_another_epoch_is_refused_and_the_owner_is_unaffected(team: Team, name: str, off: int) -> None:
    team.create("other", role="nobody")
    call, moves = CALLS[name]
    status = S if S in moves else A
    task = team.in_status(status)
    before = team.path(task.id).read_bytes()
    with pytest.raises(NotCurrent):
        call(team.board, task.model_copy(update={"epoch": task.epoch + off}))
    assert team.path(task.id).read_bytes() == before


@pytest.mark.parametrize("name", ["bind", "submit", "park", "give_up", "release"])
def test_nothing_of_a_wanted_epoch_has_an_effect_but_its_end(team: Team, name: str) -> None:
    team.create("other", role="nobody")
    task = team.in_status(A)
    team.board.want(task.id, move="cancel", by="human", reason="stop")
    assert not team.board.is_current(task.id, task.epoch)
    if name == "release":  # the host gives it back without having looked: what was wanted happens
        assert CALLS[name][0](team.board, task).status is X  # type: ignore[union-attr]
        return
    with pytest.raises(NotCurrent, match="human wants it back: stop"):
        CALLS[name][0](team.board, task)
    assert team.board.carry_out(task.id, task.epoch, by="runtime").status is X


@pytest.mark.parametrize("name", ["submit", "park", "give_up"])
def test_only_the_owner_hands_its_work_in_or_back(team: Team, name: str) -> None:
    team.create("other", role="nobody")
    task = team.in_status(A)
    board = team.board
    calls: dict[str, Callable[[str], Task]] = {
        "submit": lambda by: board.submit(task.id, 1, by=by, summary="", commit="c"),
        "park": lambda by: board.park(task.id, 1, by=by, reason="", blocked_by=["T1"]),
        "give_up": lambda by: board.give_up(task.id, 1, by=by, reason=""),
    }
    for by in ("bob", "ada#2", "lead", "ad"):
        with pytest.raises(NotCurrent, match="owned by ada#1"):
            calls[name](by)
    assert calls[name]("ada#1").rev == task.rev + 1

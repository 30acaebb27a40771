"""The graph of blocked_by, and the order in which ready tasks are claimed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.taskboard import Cycle, NewTask, Status, Task, UnknownTask, find_circle, ready_order
from coterie.taskboard.index import Index
from coterie.taskboard.task import encode

if TYPE_CHECKING:
    from conftest import Team


def make(id: int, *, blocked_by: tuple[int, ...] = (), priority: int = 5, status: Status = Status.PENDING) -> Task:
    return Task(
        schema_=1,
        id=f"T{id}",
        subject="s",
        status=status,
        blocked_by=tuple(f"T{each}" for each in blocked_by),
        priority=priority,
        epoch=0,
        rev=1,
    )


def test_a_circle_is_named_from_its_first_member_back_to_it() -> None:
    assert find_circle({"a": ["b"], "b": ["c"], "c": ["b"], "d": []}) == ("b", "c", "b")
    assert find_circle({"a": ["a"]}) == ("a", "a")
    assert find_circle({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) is None


def test_a_chain_of_10000_is_walked_without_recursion() -> None:
    edges = {str(each): [str(each + 1)] for each in range(10_000)}
    assert find_circle(edges) is None
    edges["10000"] = ["0"]
    circle = find_circle(edges)
    assert circle is not None
    assert len(circle) == 10_002


@pytest.mark.parametrize("size", [2, 50])
def test_a_circle_within_a_batch_is_refused_named_and_nothing_is_written(team: Team, size: int) -> None:
    refs = [f"r{each}" for each in range(size)]
    specs = [NewTask(ref=ref, subject=ref, blocked_by=(refs[(place + 1) % size],)) for place, ref in enumerate(refs)]
    with pytest.raises(Cycle) as caught:
        team.board.create(specs, by="lead")
    assert set(caught.value.circle) == set(refs)
    assert len(caught.value.circle) == size + 1
    assert " -> ".join(refs) in str(caught.value)
    assert list(team.tasks.iterdir()) == []


@pytest.mark.parametrize("size", [2, 50])
def test_an_edge_that_would_close_a_circle_is_refused_and_named(team: Team, size: int) -> None:
    ids = list(team.chain(*[f"r{each}" for each in range(size)]).values())
    before = team.path(ids[0]).read_bytes()
    with pytest.raises(Cycle) as caught:
        team.board.update(ids[0], by="lead", add_blocked_by=[ids[-1]])
    assert caught.value.circle == (ids[0], *reversed(ids))
    assert team.path(ids[0]).read_bytes() == before


def test_a_task_cannot_wait_for_itself(team: Team) -> None:
    with pytest.raises(Cycle, match="a -> a"):
        team.board.create([NewTask(ref="a", subject="s", blocked_by=("a",))], by="lead")
    team.create("b")
    with pytest.raises(Cycle, match="T1 -> T1"):
        team.board.update("T1", by="lead", add_blocked_by=["T1"])


def test_an_unknown_blocker_is_refused_at_creation_and_at_update(team: Team) -> None:
    with pytest.raises(UnknownTask, match="'T7', which is neither a ref of this batch"):
        team.create("a", blocked_by=("T7",))
    with pytest.raises(UnknownTask, match="neither a ref"):
        team.create("a", blocked_by=("../T1",))
    assert list(team.tasks.iterdir()) == []
    team.create("a")
    with pytest.raises(UnknownTask, match="no task T7"):
        team.board.update("T1", by="lead", add_blocked_by=["T7"])
    with pytest.raises(UnknownTask, match="not a task id"):
        team.board.update("T1", by="lead", add_blocked_by=["T1/../T2"])


def test_a_ref_of_the_batch_wins_over_an_id_of_the_board(team: Team) -> None:
    team.create("a")
    made = team.board.create(
        [NewTask(ref="T1", subject="new"), NewTask(ref="b", subject="b", blocked_by=("T1",))], by="lead"
    )
    assert made == {"T1": "T2", "b": "T3"}
    assert team.board.get("T3").blocked_by == ("T2",)


def test_priority_comes_first_then_the_longest_chain_then_the_number() -> None:
    tasks = [
        make(1),
        make(2),
        make(3, blocked_by=(2,)),
        make(4, blocked_by=(3,)),
        make(5, priority=10),
        make(6, priority=0),
        make(10),
        make(11, status=Status.COMPLETED),
        make(12, blocked_by=(11,)),
    ]
    assert [task.id for task in ready_order(tasks)] == ["T5", "T2", "T1", "T10", "T12", "T6"]


def order_of(index: Index) -> list[str]:
    taken = []
    while (best := index.take_best(None)) is not None:
        taken.append(best)
    for each in taken:
        index.offer(each)
    return list(dict.fromkeys(taken))  # what was offered twice comes twice


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), size=st.integers(1, 14), steps=st.integers(1, 60))
def test_the_index_has_the_order_of_the_plain_rule_after_any_changes(seed: int, size: int, steps: int) -> None:
    rng = random.Random(seed)
    tasks: dict[str, Task] = {}
    index = Index()
    for _ in range(steps):
        number = rng.randint(1, size)
        task = make(
            number,
            blocked_by=tuple(rng.sample(range(1, number), rng.randint(0, min(3, number - 1)))),
            priority=rng.choice([0, 5, 5, 5, 10]),
            status=rng.choice([*Status, Status.PENDING, Status.PENDING]),
        )
        if task.status in (Status.IN_PROGRESS, Status.SUBMITTED):
            task = task.model_copy(update={"status": Status.FAILED})
        if rng.random() < 0.1 and task.id in tasks:
            del tasks[task.id]
            index.forget(task.id)
        elif rng.random() < 0.1:
            tasks[task.id] = task
            index.learn_all([(task, encode(task))])
        else:
            tasks[task.id] = task
            index.learn(task, encode(task))
        assert order_of(index) == [each.id for each in ready_order(tasks.values())]


def test_a_circle_made_by_hand_does_not_hang_the_index() -> None:
    index = Index()
    for task in (make(1, blocked_by=(2,)), make(2, blocked_by=(1,)), make(3)):
        index.learn(task, b"")
    index.learn(make(1, blocked_by=(2, 3)), b"")
    assert order_of(index) == ["T3"]

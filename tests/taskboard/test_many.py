"""Many at once: 32 threads in 4 processes on one board of 1,000 tasks, while somebody keeps looking.

And the same while processes are killed and replaced, of which `COTERIE_SOAK=1` makes 8 processes of 8 threads on 2,000
tasks and 1,000 kills.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.taskboard import Assignment, NewTask, Status, Task, read_tasks

if TYPE_CHECKING:
    from conftest import Team

SCRIPT = Path(__file__).parent / "crowd.py"
TASKS, PROCESSES, THREADS = 1000, 4, 8

NURSERY = Path(__file__).parent / "nursery.py"
SOAK = os.environ.get("COTERIE_SOAK") == "1"
CHILDREN, CHILD_THREADS, CHILD_TASKS, KILLS, SECONDS = (8, 8, 2000, 1000, 1.2) if SOAK else (4, 4, 120, 25, 0.2)


def test_of_32_threads_that_want_the_last_task_one_gets_it(team: Team) -> None:
    team.create("last")
    start = threading.Barrier(32)
    got: list[Task | None] = []

    def claim(owner: str) -> None:
        start.wait(timeout=30)
        got.append(team.board.claim(owner=owner, instance=f"{owner}#1"))

    threads = [threading.Thread(target=claim, args=(f"m{each}",)) for each in range(32)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    (task,) = [each for each in got if each is not None]
    assert len(got) == 32
    assert task == team.board.get("T1")


MANY = """
import os, sys
from pathlib import Path
from coterie import files
from coterie.taskboard import Board
root = Path(sys.argv[1])
files.promise(files.Durability.PROCESS)
children = []
for number in range(50):
    child = os.fork()
    if child == 0:
        board, mine = Board(root, process=f"p{number}"), []
        while (task := board.claim(owner=f"m{number}-{len(mine)}", instance=f"m{number}-{len(mine)}#1")) is not None:
            mine.append(f"{task.id} {task.claim.owner}\\n")
        (root / f"out{number}").write_text("".join(mine))
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(each, 0)[1] != 0 for each in children))
"""


def test_of_50_processes_that_claim_at_once_no_two_own_a_task_and_none_starves(team: Team) -> None:
    count = 200 if SOAK else 70
    team.create(*[f"r{each}" for each in range(count)])
    done = subprocess.run([sys.executable, "-c", MANY, str(team.root)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    told = sorted(line.split() for path in team.root.glob("out*") for line in path.read_text().splitlines())
    stored = sorted([task.id, task.claim.owner] for task in read_tasks(team.tasks) if task.claim is not None)
    assert told == stored and len(told) == len({task for task, _ in told}) == count
    assert {task.epoch for task in read_tasks(team.tasks)} == {1}


def test_a_dependant_that_is_created_together_with_its_blocker_is_never_claimed_first(team: Team) -> None:
    """Whoever claims is at it all the time, and would take the dependant if it could: it has the higher priority."""
    done = threading.Event()
    order: list[str] = []

    def claim(name: str) -> None:
        board = team.open(process=name)
        while True:
            last = done.is_set()
            task = board.claim(owner=name, instance=f"{name}#1")
            if task is None:
                if last:
                    return
                continue
            order.append(task.subject)
            board.bind(task.id, task.epoch, Assignment(worktree="/w", branch=task.id, base="b"))
            board.submit(task.id, task.epoch, by=name, summary="", commit="c")
            board.complete(task.id, task.epoch, merged_commit="m")

    crew = [threading.Thread(target=claim, args=(f"m{each}",)) for each in range(3)]
    for each in crew:
        each.start()
    for number in range(15):
        team.board.create(
            [
                NewTask(ref="child", subject=f"child{number}", blocked_by=("parent",), priority=10),
                NewTask(ref="parent", subject=f"parent{number}"),
            ],
            by="lead",
        )
    done.set()
    for each in crew:
        each.join()
    assert len(order) == len(set(order)) == 30
    assert all(order.index(f"parent{number}") < order.index(f"child{number}") for number in range(15))


def test_every_task_is_done_once_by_a_crowd_and_no_reader_ever_sees_a_broken_file(team: Team, tmp_path: Path) -> None:
    specs = [
        NewTask(ref=f"r{n}", subject="s", blocked_by=(f"r{(n - 100) // 5 * 5}",) if n >= 105 else ())
        for n in range(1, TASKS + 1)
    ]
    team.board.create(specs, by="lead")
    crowd = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(team.root), f"p{each}", str(THREADS), str(tmp_path / f"out{each}")],
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in range(PROCESSES)
    ]
    unreadable: list[str] = []
    looks = 0
    end = time.monotonic() + 90
    try:
        while any(each.poll() is None for each in crowd):
            found = read_tasks(team.tasks, report=unreadable.append, settle=0.0)
            assert len(found) == TASKS
            assert time.monotonic() < end, "the crowd does not come to an end"
            looks += 1
            with contextlib.suppress(subprocess.TimeoutExpired):  # leave the crowd most of the processor
                crowd[0].wait(timeout=0.15)
    finally:
        for each in crowd:
            each.kill()
    errors = [each.communicate(timeout=60)[1] for each in crowd]
    assert [each.returncode for each in crowd] == [0] * PROCESSES, errors
    assert errors == [""] * PROCESSES, "nothing was repaired or set aside"
    assert unreadable == []
    assert looks > 5

    claims = Counter(
        (task, epoch)
        for each in range(PROCESSES)
        for task, epoch, _ in map(json.loads, (tmp_path / f"out{each}").read_text().splitlines())
    )
    assert set(claims.values()) == {1}, "no epoch of a task belongs to two"
    tasks = read_tasks(team.tasks)
    assert {(task.id, epoch) for task in tasks for epoch in range(1, task.epoch + 1)} == set(claims)
    at = {task.id: task.history[-1].at for task in tasks}
    for task in tasks:
        number = int(task.id[1:])
        assert task.status is (Status.COMPLETED if number % 5 == 0 else Status.IN_PROGRESS)
        assert task.epoch == (2 if number % 7 == 0 else 1)
        assert task.rev == len(task.history)
        first_claim = next(change.at for change in task.history if change.to is Status.IN_PROGRESS)
        assert all(at[blocker] <= first_claim for blocker in task.blocked_by), "claimed before its blocker was done"
        if task.result is not None:
            assert task.result.commit == f"{task.id}-{task.epoch}", "no stale effect came through"
    assert len({task.queued for task in tasks}) == TASKS // 5 + 1
    assert not (team.tasks / "bad").exists()


@pytest.mark.timeout(7200 if SOAK else 300)
def test_nothing_is_done_twice_or_lost_where_processes_are_killed_at_random(team: Team, tmp_path: Path) -> None:
    specs = [
        NewTask(ref=f"r{n}", subject="s", blocked_by=(f"r{n - 20}",) if n > 20 and n % 5 == 0 else ())
        for n in range(1, CHILD_TASKS + 1)
    ]
    team.board.create(specs, by="lead")
    out = tmp_path / "out"
    out.mkdir()
    words = [str(each) for each in (NURSERY, team.root, out, CHILDREN, CHILD_THREADS, KILLS, SECONDS)]
    nursery = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    unreadable: list[str] = []
    try:
        while nursery.poll() is None:
            assert len(read_tasks(team.tasks, report=unreadable.append, settle=0.0)) >= CHILD_TASKS
            with contextlib.suppress(subprocess.TimeoutExpired):
                nursery.wait(timeout=0.1)
    finally:
        (out / "stop").touch()  # for children that a nursery which failed has left
        nursery.terminate()
        said, errors = nursery.communicate(timeout=60)
    assert (nursery.returncode, errors) == (0, ""), "no child failed, nothing was repaired or set aside"
    assert int(said) == KILLS
    assert unreadable == []

    tasks = {task.id: task for task in read_tasks(team.tasks)}
    told = Counter(
        (what, task, epoch)
        for path in out.glob("*.log")
        for what, task, epoch, _ in map(json.loads, path.read_bytes().splitlines())
    )
    owners = {
        (task, epoch): owner
        for path in out.glob("*.log")
        for what, task, epoch, owner in map(json.loads, path.read_bytes().splitlines())
        if what == "claimed"
    }
    assert set(told.values()) == {1}, "no epoch of a task was given to two, and nothing done in it twice"
    assert sum(what == "claimed" for what, _, _ in told) > CHILD_TASKS // 2
    for task in tasks.values():
        moves = [(str(each.from_), str(each.to), each.epoch) for each in task.history]
        assert len(set(moves) - {move for move in moves if move[0] == move[1]}) == len(
            [move for move in moves if move[0] != move[1]]
        ), f"{task.id} was moved the same way twice in one epoch: {moves}"
        claims = [each for each in task.history if (each.from_, each.to) == (Status.PENDING, Status.IN_PROGRESS)]
        assert [each.epoch for each in claims] == list(range(1, task.epoch + 1))
        assert (task.rev, task.status) == (len(task.history), Status.COMPLETED)
        for each in claims:
            assert owners.get((task.id, each.epoch), each.by) == each.by
        assert task.result is not None and task.result.commit == f"{task.id}-{task.epoch}"
    lost = [
        (what, id, epoch)
        for what, id, epoch in told
        if not any(
            each.epoch == epoch and str(each.to) == {"claimed": "in_progress", "released": "pending"}.get(what, what)
            for each in tasks[id].history
        )
    ]
    assert lost == [], "what was acknowledged is in the history"
    assert all(tasks[id].epoch == epoch for what, id, epoch in told if what in ("submitted", "completed"))
    assert not (team.tasks / "bad").exists()

"""`coterie why` says what stands in the way of a task, and the command that moves it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie import files
from coterie.mailbox import Note
from coterie.taskboard import NewTask
from coterie.teammates.roster import Status

Coterie = Callable[..., tuple[int, str, str]]


@pytest.fixture
def runs(rooms: Any) -> Iterator[None]:
    """A process runs the team, by its lock."""
    info = {"schema": 1, "process": "p", "started": files.now(), **files.process_mark(os.getpid())}
    lock = files.hold(rooms.root / "processes" / "lead.lock", info)
    yield
    lock.release()


@pytest.fixture
def why(coterie: Coterie) -> Callable[[str], tuple[str, str]]:
    """All reasons as one text, and what is next."""

    def ask(task: str) -> tuple[str, str]:
        view = json.loads(coterie("why", task, "--json")[1])
        return "\n".join(each["text"] for each in view["reasons"]), view["next"]

    return ask


Why = Callable[[str], tuple[str, str]]


def approve(rooms: Any) -> None:
    rooms.requests.decide("R1", by="human", by_instance="human", approve=True)


def test_an_owner_who_works_is_left_alone(rooms: Any, runs: None, why: Why) -> None:
    approve(rooms)
    rooms.roster.update("ada", "ada#1", status=Status.WORKING, reason="on T1")
    reasons, step = why("T1")
    assert "ada (working: on T1) works on it, in epoch 1" in reasons
    assert step == "nothing: it goes on by itself"


def test_an_owner_who_waits_without_a_result_needs_word_or_to_be_relieved(rooms: Any, runs: None, why: Why) -> None:
    approve(rooms)
    rooms.roster.update("ada", "ada#1", status=Status.WAITING, reason="no result")
    reasons, step = why("T1")
    assert "ada (waiting: no result) owns it" in reasons and "waits for word" in reasons
    assert step.startswith("coterie say ada TEXT") and "coterie task release T1" in step
    assert why("T2")[1] == step  # what moves the task that it waits for moves it too
    rooms.mail.send(Note(text="go on"), sender="human", sender_instance="human", to="ada")
    rooms.roster.update("lead", "lead#1", status=Status.WORKING)
    assert why("T1")[1] == "nothing: it goes on by itself"  # the word is on its way


@pytest.mark.parametrize("status", [Status.STOPPED, Status.FAILED])
def test_an_owner_whose_life_has_ended_has_to_let_go(rooms: Any, runs: None, why: Why, status: Status) -> None:
    rooms.roster.update("ada", "ada#1", status=status, reason="RuntimeError: boom")
    reasons, step = why("T1")
    assert f"ada#1 ({status}: RuntimeError: boom) owned T1 and is gone" in reasons
    assert step == "coterie task release T1"


def test_an_owner_is_resumed_where_nothing_runs(rooms: Any, why: Why) -> None:
    for status, reason in ((Status.FAILED, "boom"), (Status.STOPPED, "")):
        rooms.roster.update("ada", "ada#1", status=status, reason=reason)
        reasons, step = why("T1")
        assert "is gone" in reasons and "no process runs the team main" in reasons
        assert step == "coterie resume --team main"


def test_a_ready_task_that_nobody_can_claim_says_whom_to_tell(rooms: Any, runs: None, why: Why) -> None:
    rooms.roster.update("lead", "lead#1", status=Status.IDLE, reason="waits for the team")
    reasons, step = why("T4")
    assert "no teammate of the role cook lives" in reasons
    assert step == 'coterie say lead "spawn a teammate of the role cook for T4"'
    rooms.roster.update("lead", "lead#1", status=Status.WORKING)
    assert why("T4")[1] == "nothing: it goes on by itself"  # the lead may be about to


def test_a_ready_task_behind_stuck_teammates_names_what_frees_one(rooms: Any, runs: None, why: Why) -> None:
    rooms.board.create([NewTask(ref="g", subject="Anybody's")], by="human")
    reasons, step = why("T7")
    assert "goes to the next teammate that is free: ada (waiting: plan)" in reasons
    assert step == "coterie review R1"


def test_a_stalled_team_is_said_to_be_so(rooms: Any, runs: None, why: Why) -> None:
    rooms.roster.update("lead", "lead#1", status=Status.IDLE, reason="waits for the team")
    rooms.requests.decide("R1", by="human", by_instance="human", approve=False, feedback="no")
    rooms.roster.update("ada", "ada#1", status=Status.IDLE, reason="")
    reasons, step = why("T1")
    assert "its plan R1 (revision 1) is rejected: no" in reasons
    assert "coterie say" in step and "T1" in step


def test_a_queue_that_waits_for_its_branch_names_the_checkout(
    rooms: Any, repository: Path, runs: None, why: Why
) -> None:
    approve(rooms)
    rooms.board.submit("T1", 1, by="ada#1", summary="done", commit="1" * 40)
    subprocess.run(["git", "switch", "-q", "-c", "coterie/main/integration"], cwd=repository, check=True)
    reasons, step = why("T1")
    assert "the merge queue waits" in reasons and str(repository) in reasons and "git switch" in step
    subprocess.run(["git", "switch", "-q", "trunk"], cwd=repository, check=True)
    reasons, step = why("T1")
    assert "waits in the merge queue, as the next" in reasons and step == "nothing: it goes on by itself"
    rooms.board.unbind("T1", 1, by="queue", reason="set aside: true is red anyway")
    reasons, step = why("T1")
    assert "set aside: true is red anyway" in reasons and step.startswith("coterie task add")

"""The audit of whole runs: nothing is wrong after one, in the middle of one, or when a killed one was resumed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.crew import crew
from tests.acceptance.loopback import coterie, environment, served, started
from tests.teammates.stage import Stage

from coterie.demo.validity import problem
from coterie.lead.audit import Fault, audit
from coterie.lead.audit.conversations import faults
from coterie.lead.audit.sight import Sight, Told
from coterie.teammates.journal import Answered, Delivered, Finished, Opened, Record, messages
from coterie.teammates.roster import MemberRecord

TASKS: list[dict[str, Any]] = [
    {"ref": "base", "subject": "Base", "description": "write base.txt base\nrun echo more >> base.txt"},
    {"ref": "a", "subject": "A", "description": "write a.txt a", "blocked_by": ["base"], "requires_plan": True},
    {"ref": "b", "subject": "B", "description": "write b.txt b\nwrite one.txt b", "blocked_by": ["base"]},
    {"ref": "c", "subject": "C", "description": "write c.txt c\nwrite one.txt c", "blocked_by": ["base"]},
]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Stage(tmp_path)


def test_a_team_is_without_fault_at_every_question_of_a_run_and_after_it(stage: Stage) -> None:
    """With plans, a conflict that is returned, several members: looked at over and over while it works."""
    found: list[Fault] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            found.extend(audit(stage.root))

    stage.create()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        outcome = stage.go(crew(TASKS, ("ada", "ben")))
    finally:
        over.set()
        watcher.join(60)
    assert outcome.exit_code == 0
    assert found == []
    assert audit(stage.root) == []


def test_a_killed_run_leaves_what_a_start_repairs_and_nothing_else(stage: Stage, tmp_path: Path) -> None:
    fifo = stage.fifo("began")
    tasks = [{"ref": "a", "subject": "A", "description": "write a.txt a\nrun test -e ~/once && exit 0; touch "
              f"~/once; echo began > {fifo}; sleep 600"}]  # fmt: skip
    with served(crew(tasks, ("ada",))) as server:
        env = environment(server.url, tmp_path / "state")
        with started(stage.repository, env, "run", "a change") as process:
            assert fifo.read_text() == "began\n"
            assert audit(stage.root) == [], "a command that runs, and its open call, are no fault while the host lives"
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)
            left = audit(stage.root)
            assert {"open-call", "dead-host"} <= {fault.rule for fault in left} and all(f.repairable for f in left)
            again = coterie(stage.repository, env, "resume")
    assert again.returncode == 0, again.stdout + again.stderr
    assert audit(stage.root) == []


# ------------------------------------------------------------------------------------ the validator of conversations


def opened(text: str) -> Record:
    return Opened(
        instance="ada#1", number=1, reason="r", task=None, epoch=None, system="s", tools=[], model="m", opening=text
    )


def answered(*calls: str) -> Record:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "so"}]
    blocks += [{"type": "tool_use", "id": call, "name": "bash", "input": {}} for call in calls]
    return Answered(
        instance="ada#1", turn=1, answer_id="a", content=blocks, stop_reason="x", model="m", usage={}, usd=0.0
    )


def result(call: str) -> Record:
    return Finished(instance="ada#1", call=call, tool="bash", text="ok", is_error=False)


MAIL = Delivered(instance="ada#1", turn=1, ids=["0000000001-ada"], kinds=["note"], text="mail")


@pytest.mark.parametrize(
    "records",
    [
        [opened("go"), answered("1"), result("1")],
        [opened("go"), answered("1", "2"), result("2"), result("1"), MAIL],
        [opened("go"), answered(), MAIL],
        [opened(""), MAIL],
        [opened("go"), answered("1"), MAIL],
        [opened("go"), answered("1", "2"), result("2"), MAIL],
        [opened("go"), answered(), answered(), MAIL],
        [opened("go"), answered("1"), answered("2"), result("2")],
        [opened(""), answered(), MAIL],
    ],
)
def test_a_conversation_is_wrong_exactly_where_a_server_would_refuse_its_request(records: list[Record]) -> None:
    numbered = [record.model_copy(update={"seq": number}) for number, record in enumerate(records, 1)]
    sight = Sight(Path("/nowhere"))
    sight.members["ada"] = MemberRecord(name="ada", instance="ada#1", model="m")
    sight.journals["ada"] = Told(numbered, 0, None)
    request = {"model": "m", "max_tokens": 1, "messages": messages(numbered)}
    assert bool(list(faults(sight))) == bool(problem(request)), problem(request)

"""What is done by hand to the files of a team while its host runs."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.crew import crew, is_lead, texts
from tests.console.test_damaged import spoil
from tests.teammates.stage import Stage

from coterie import files
from coterie.lead.audit import audit
from coterie.mailbox import Note
from coterie.teammates.model import Answer, ModelRequest

SOAK = bool(os.environ.get("COTERIE_SOAK"))
WAYS = ("symlink", "FIFO", "folder", "cut", "NUL", "empty", "gone")  # the last: of what is never deleted


def wait_for(there: Callable[[], bool], what: str) -> None:
    """Until something is on disk."""
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end, what
        threading.Event().wait(0.05)


def test_a_file_damaged_while_everybody_waits_is_restored_and_said_without_a_mutation(stage: Stage) -> None:
    runs, gate = stage.fifo("runs"), stage.fifo("gate")
    tasks: list[dict[str, Any]] = [
        {"ref": "a", "subject": "A", "description": f"run echo runs > {runs}; cat {gate} > a.txt"},
        {"ref": "b", "subject": "B", "description": "write b.txt b", "blocked_by": ["a"]},
    ]
    with stage.running(crew(tasks, ("ada",))) as outcome:
        assert runs.read_text() == "runs\n"
        path = stage.root / "tasks" / "T2.json"
        before = path.read_bytes()
        path.write_bytes(b"{")
        try:
            bad = stage.root / "tasks" / "bad" / "T2.json"
            wait_for(lambda: bad.exists() and path.read_bytes() == before, "nobody looks at the files")
        finally:
            open_gate(gate)
    assert outcome[0].exit_code == 0
    assert stage.merged("b.txt") == "b\n"
    said = [each["text"] for each in stage.events("repair") if each["text"].startswith("T2")]
    assert len(said) == 1 and "could not be read" in said[0] and "last content restored" in said[0]


BOARD = ("tasks/T1.json", "tasks/T2.json", "requests/R1.json")
NEVER_DELETED = ("team.json", *(f"members/{name}/member.json" for name in ("lead", "ada", "ben")))
RECORDS = (*BOARD, *NEVER_DELETED)
JOURNALS = tuple(f"members/{name}/journal.jsonl" for name in ("lead", "ada"))


def open_gate(gate: Path) -> None:
    """Let the command go on, if it is still there."""
    with contextlib.suppress(OSError):
        handle = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        os.write(handle, b"a\n")
        os.close(handle)


@pytest.mark.parametrize("first", range(len(WAYS)) if SOAK else (0, 3))
def test_whatever_is_done_to_the_files_of_a_team_that_runs_it_comes_to_the_same_end(stage: Stage, first: int) -> None:
    """ada works, ben and the lead wait: every record and journal is spoiled under them, each in the next way."""
    runs, gate = stage.fifo("runs"), stage.fifo("gate")
    tasks: list[dict[str, Any]] = [
        {"ref": "a", "subject": "A", "description": f"run echo runs > {runs}; cat {gate} > a.txt"},
        {"ref": "b", "subject": "B", "description": "write b.txt b", "blocked_by": ["a"]},
    ]
    ways = dict(zip((*RECORDS, *JOURNALS), itertools.islice(itertools.cycle(WAYS), first, None), strict=False))
    ways |= {name: "FIFO" for name, way in ways.items() if way == "gone" and name in BOARD}  # that is taken over
    script = crew(tasks, ("ada", "ben"))
    heard: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            heard.append(texts(request))
        return script(request)

    with stage.running(respond) as outcome:
        assert runs.read_text() == "runs\n"
        try:
            team = stage.team
            team.requests.ask_question(sender="lead", sender_instance="lead#1", text="which colour?")
            wait_for(lambda: bool(team.mail.waiting("human")), "the host does not see the question")
            wait_for(lambda: [stage.member(name)["status"] for name in ("lead", "ben")] == ["idle"] * 2, "no rest")
            lost, _ = (
                team.mail.send(Note(text=text), sender="human", sender_instance=None, to="ada")
                for text in ("this one is spoiled", "and this one is not")
            )
            message = stage.root / "mail" / "ada" / "new" / f"{lost.id}.json"
            before = {name: (stage.root / name).read_bytes() for name in RECORDS}
            damage(message, WAYS[first % 6])
            for name, way in ways.items():
                damage(stage.root / name, way)
            for name, content in before.items():
                wait_for(lambda path=stage.root / name, content=content: holds(path, content), f"{name}: {ways[name]}")
        finally:
            open_gate(gate)
    assert outcome[0].exit_code == 0, outcome[0].summary
    assert (stage.merged("a.txt"), stage.merged("b.txt")) == ("a\n", "b\n")
    assert [stage.task(name)["epoch"] for name in ("T1", "T2")] == [1, 1]
    said = [each["text"] for each in stage.events() if each["kind"] in ("repair", "warning")]
    for name, way in ways.items():
        path = stage.root / name
        aside = [path.name] if way != "gone" else []
        assert [each.name for each in (path.parent / "bad").glob(f"{path.name}*")] == aside, name
        assert any(str(path) in each or each.startswith(f"{path.stem} ") for each in said), name
    assert len(said) == len(set(said)), "what is said is said once"
    assert not any("failed" in each or "dead" in each for each in said), said
    assert "and this one is not" in (stage.root / "members/ada/journal.jsonl").read_text()
    assert any('kind="report"' in each and "handing in" in each for each in heard), "the report arrived"
    assert audit(stage.root) == []


def damage(path: Path, way: str) -> None:
    match way:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case _:
            spoil(path, way)


def holds(path: Path, content: bytes) -> bool:
    try:
        return not path.is_symlink() and path.read_bytes() == content
    except OSError:
        return False


def test_a_member_that_a_person_makes_another_life_of_gives_its_task_to_that_one(stage: Stage) -> None:
    runs = stage.fifo("runs")
    task = {"ref": "a", "subject": "A", "description": f"run test -e half || (echo > half; echo > {runs}; sleep 600)"}
    with stage.running(crew([task], ("ada",))) as outcome:
        assert runs.read_text() == "\n"
        edited = {**stage.member("ada"), "instance": "ada#7", "status": "idle", "task": None, "epoch": None}
        files.write_json(stage.root / "members/ada/member.json", edited)
        stage.team.mail.send(Note(text="stop that"), sender="human", sender_instance=None, to="ada", urgent=True)
    assert outcome[0].exit_code == 0, outcome[0].summary
    assert (stage.task()["status"], stage.task()["epoch"], stage.task()["losses"]) == ("completed", 2, 1)
    assert stage.task()["history"][-1]["to"] == "completed" and stage.member("ada")["instance"] == "ada#7"
    assert audit(stage.root) == []

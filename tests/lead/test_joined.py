"""What the lead's host makes of other host processes: dead by proof alone, silent by its own clock alone."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import git
from tests.acceptance.crew import crew
from tests.teammates.stage import Stage

from coterie import files
from coterie.errors import Refused
from coterie.lead import audit
from coterie.lead.overtake import Silence, take_over
from coterie.lead.recovery import bury, dead_processes, recover
from coterie.mailbox import Bell, Note
from coterie.taskboard import Assignment, NewTask
from coterie.teammates.processes import boot_id, is_alive, process
from coterie.teammates.team import Team

PROCESS = "0123456789ab"
COMMAND = f"cleo#1.{secrets.token_hex(6)}"  # as a real one: no other test, on any core, has it


@contextmanager
def foreign(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A living process that is none of ours, in a session of its own."""
    child = subprocess.Popen(["sleep", "1234573"], start_new_session=True, env={**os.environ, **environment})
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def joined_team(stage: Stage) -> Team:
    """A team in which cleo joined with the process PROCESS, holds T1, and has unread mail."""
    team = stage.create()
    team.keeper.create_integration(team.record.base.commit)
    team.roster.spawn("lead", model="m")
    cleo = team.roster.spawn("cleo", model="m", joined=PROCESS)
    team.board.create([NewTask(ref="a", subject="A")], by="lead")
    team.board.claim(owner="cleo", instance=cleo.instance)
    team.mail.send(Note(text="hello"), sender="lead", sender_instance="lead#1", to="cleo")
    return team


def lock_of(team: Team, **info: Any) -> Path:
    path: Path = team.root / "processes" / f"{PROCESS}.lock"
    files.write_json(path, {"schema": 1, "process": PROCESS, "started": files.now(), **info})
    return path


@pytest.mark.parametrize("forged", ["pid reused", "other boot", "other start", "nothing inside", "no file"])
def test_a_process_whose_lock_is_free_is_dead_whatever_its_file_says(stage: Stage, forged: str) -> None:
    team = joined_team(stage)
    with foreign() as other:
        mark = files.process_mark(other.pid)
        match forged:
            case "pid reused":
                path = lock_of(team, **mark)
            case "other boot":
                path = lock_of(team, **mark | {"boot": "another"})
            case "other start":
                path = lock_of(team, **mark | {"start": 1})
            case "nothing inside":
                path = lock_of(team)
                path.write_bytes(b"")
            case _:
                path = team.root / "processes" / f"{PROCESS}.lock"
        assert dead_processes(team) == [PROCESS]
        recover(team)
        assert other.poll() is None, "who has that pid now is left alone"
    cleo, task = stage.member("cleo"), stage.task()
    assert (cleo["status"], cleo["task"]) == ("failed", None) and "is dead" in cleo["reason"]
    assert (task["status"], task["epoch"], task["losses"], task["claim"]) == ("pending", 1, 1, None)
    assert not path.exists() and dead_processes(team) == []
    told = [each for each in stage.mail("lead") if each["kind"] == "event"]
    assert {each["body"]["event"] for each in told} == {"undelivered", "member-failed"}
    before = (stage.task(), stage.mail("lead"))
    recover(team)
    bury(team, PROCESS)
    assert (stage.task(), stage.mail("lead")) == before, "twice is once"


@pytest.mark.parametrize("forged", ["a dead pid", "other boot", "nothing inside"])
def test_a_process_that_holds_its_lock_lives_whatever_its_file_says(stage: Stage, forged: str) -> None:
    team = joined_team(stage)
    path = team.root / "processes" / f"{PROCESS}.lock"
    kept = files.hold(path, {})
    text = {"a dead pid": json.dumps({"pid": 999_999_999, "start": 1, "boot": boot_id()}), "nothing inside": ""}
    path.write_text(text.get(forged, json.dumps({"pid": os.getpid(), "start": 1, "boot": "another"})))
    with foreign(COTERIE_COMMAND=COMMAND) as command:
        found = process(command.pid)
        assert found is not None
        journal = team.roster.folder("cleo") / "journal.jsonl"
        _journal_started(journal, command_id=COMMAND, pid=command.pid, start=found.start, boot=boot_id())
        recover(team)
        assert command.poll() is None, "its commands run on"
        assert stage.member("cleo")["status"] == "starting"
        assert (stage.task()["status"], stage.task()["epoch"]) == ("in_progress", 1)
        assert team.mail.has_mail("cleo") and dead_processes(team) == []
        kept.release()
        assert dead_processes(team) == [PROCESS]
        bury(team, PROCESS)
        assert not is_alive(command.pid, found.start), "and are ended with the claim"
    assert stage.task()["status"] == "pending" and not team.mail.has_mail("cleo")
    assert "undelivered" in {each["body"].get("event") for each in stage.mail("lead")}


def _journal_started(journal: Path, **mark: Any) -> None:
    from coterie.teammates.journal import Journal, Started

    Journal(journal).append(Started(instance="cleo#1", call="c", tool="bash", key="k", process=mark))


def test_checks_that_a_dead_host_left_running_are_ended_and_namesakes_are_not(stage: Stage) -> None:
    team = stage.create()
    team.keeper.create_integration(team.record.base.commit)
    lock_of(team, pid=999_999_999, start=1, boot=boot_id())
    with foreign(COTERIE_COMMAND="queue.c1") as check, foreign() as other:
        marks = []
        for pid, start in ((check.pid, None), (other.pid, 1)):
            found = process(pid)
            assert found is not None
            mark = {"command_id": f"queue.c{len(marks) + 1}", "pid": pid, "start": start or found.start}
            marks.append(json.dumps({**mark, "boot": boot_id()}))
        path = team.root / "processes" / f"{PROCESS}.commands"
        path.write_text("\n".join([*marks, '{"command_id": "queue.c3", "pi']))
        found = [each for each in audit(stage.root) if each.rule == "left-process"]
        assert len(found) == 1 and str(check.pid) in found[0].found
        recover(team)
        assert check.wait(20) is not None and other.poll() is None
    assert not path.exists() and not [each for each in audit(stage.root) if each.rule in ("left-process", "dead-host")]


def test_a_check_is_written_down_before_it_begins(stage: Stage) -> None:
    runs, go = stage.fifo("runs"), stage.fifo("go")
    task = {"ref": "a", "subject": "A", "description": "write a.txt a", "checks": [f"echo runs > {runs}; read < {go}"]}
    with stage.running(crew([task], ("ada",))) as outcome:
        assert runs.read_text() == "runs\n"
        (written,) = (stage.root / "processes").glob("*.commands")
        seen = written.read_text()
        go.write_text("go\n")
    assert outcome[0].exit_code == 0
    assert json.loads(seen.splitlines()[0])["command_id"].startswith("queue.")
    assert not list((stage.root / "processes").glob("*.commands"))


def test_only_time_in_which_somebody_asked_counts_as_silence(tmp_path: Path) -> None:
    now = [0.0]
    silence = Silence(tmp_path, clock=_steps(now, [0.5, 3600.0, 0.5]))
    files.write_json(tmp_path / "p1.port", {"schema": 1, "port": 9})  # nobody answers there
    silence.ask(["p1"])
    assert silence.of("p1") == 0.5
    silence.ask(["p1"])
    assert silence.of("p1") == 2.5, "the observer itself was stopped for an hour: that was not the other's silence"
    with Bell(tmp_path, "p1"):
        silence.ask(["p1"])
        assert silence.of("p1") == 0.0
    assert silence.of("p2") == 0.0 == silence.of(None)


def _steps(now: list[float], steps: list[float]) -> Callable[[], float]:
    """A clock that has moved on by the next step at every second look: an `ask` looks twice."""
    looks = iter(range(1_000_000))

    def clock() -> float:
        if next(looks) % 2:
            now[0] += steps.pop(0)
        return now[0]

    return clock


def test_every_late_effect_of_a_host_that_was_overtaken_is_refused_and_its_commit_stays_on_its_branch(
    stage: Stage,
) -> None:
    team = joined_team(stage)
    opened = team.keeper.open("cleo", task="T1", epoch=1, base=team.keeper.tip())
    bound = Assignment(worktree=str(opened.path), branch=opened.branch, base=opened.base)
    team.board.bind("T1", 1, bound)
    (opened.path / "half.txt").write_text("half\n")
    made = {"sender": "cleo", "sender_instance": "cleo#1", "to": "human", "task": "T1", "epoch": 1}
    plan = team.requests.submit_plan(**made, text="a plan")
    task = team.board.want("T1", move="release", by="human", reason="it hangs")
    assert take_over(team, task, why="it answers nothing") and not take_over(team, task, why="twice")
    assert stage.rescued("half.txt") == ["half\n"] and (opened.path / "half.txt").exists(), "left as it lies"
    assert stage.member("cleo")["status"] == "starting", "its life goes on"
    team.roster.spawn("ada", model="m")
    assert team.board.claim(owner="ada", instance="ada#1") is not None
    at = (stage.task(), git(stage.repository, "rev-parse", "coterie/main/integration"))

    commit = team.keeper.commit(
        "cleo", task="T1", epoch=1, base=opened.base, message="late", author="cleo"
    )  # what it was doing when it was stopped
    late: list[Callable[[], Any]] = [
        lambda: team.board.submit("T1", 1, by="cleo", summary="late", commit=commit),
        lambda: team.board.bind("T1", 1, bound),
        lambda: team.board.park("T1", 1, by="cleo", reason="late", blocked_by=["T1"]),
        lambda: team.board.give_up("T1", 1, by="cleo", reason="late"),
        lambda: team.board.carry_out("T1", 1, by="cleo"),
        lambda: team.board.release("T1", 1, by="runtime", reason="late"),
        lambda: team.board.set_merging("T1", 1, commit),
        lambda: team.board.complete("T1", 1, merged_commit=commit),
        lambda: team.requests.submit_plan(**made, text="another plan"),
        lambda: team.requests.decide(plan.id, by="human", by_instance="human", approve=True),
    ]
    for number, effect in enumerate(late):
        with pytest.raises(Refused):
            effect()
            pytest.fail(f"effect {number} was let through")
    assert (stage.task(), git(stage.repository, "rev-parse", "coterie/main/integration")) == at
    assert git(stage.repository, "rev-parse", opened.branch).strip() == commit and team.board.queue() == []

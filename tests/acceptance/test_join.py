"""A teammate in a second terminal: it works like the others, and whatever ends its process loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.crew import crew, is_lead
from tests.acceptance.loopback import coterie, environment, pipe, served, started
from tests.acceptance.test_steering import read, wait_for

from coterie import files
from coterie.lead import audit
from coterie.mailbox import ring_others
from coterie.teammates.journal import Finished, Started, read_journal
from coterie.teammates.model import Answer, ModelRequest

SOAK = bool(os.environ.get("COTERIE_SOAK"))  # all of the cases that differ in one number only

Look = Callable[..., str]


class Held:
    """A crew whose lead does not begin before it is let: until then nobody can find the run stalled."""

    def __init__(self, tasks: list[dict[str, Any]], mates: tuple[str, ...] = ()) -> None:
        self.crew = crew(tasks, mates)
        self.asked: list[str] = []
        self.models: dict[str, str] = {}
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, request: ModelRequest) -> Answer:
        self.asked.append(request.user_id)
        self.models[request.user_id] = request.model
        if is_lead(request) and len(request.messages) == 1:
            self.begun.set()
            assert self.go_on.wait(60)
        return self.crew(request)


class Ground:
    """What the tests look at: files of the team, as anybody could."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.root = repository / ".coterie" / "main"

    def member(self, name: str) -> dict[str, Any]:
        return read(self.root / "members" / name / "member.json")

    def task(self, name: str = "T1") -> dict[str, Any]:
        return read(self.root / "tasks" / f"{name}.json")

    def joined(self, name: str) -> dict[str, Any]:
        """The record of a member once it is there."""
        return wait_for(lambda: self.member(name))  # type: ignore[no-any-return]

    def events(self, text: str) -> list[dict[str, Any]]:
        lines = (self.root / "events.jsonl").read_text().splitlines()
        return [each for each in map(json.loads, lines) if text in each["text"]]

    def owners(self, name: str = "T1") -> list[str]:
        return [each["by"] for each in self.task(name)["history"] if each["reason"] == "claimed"]


@pytest.fixture
def ground(repository: Path) -> Ground:
    return Ground(repository)


@contextmanager
def in_a_command(
    repository: Path, ground: Ground, held: Held, env: dict[str, str], fifo: Path, *words: str
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """A run, and cleo who has joined it and is in the middle of the command that says so through the pipe."""
    with started(repository, env, "run", "a change") as run:
        assert held.begun.wait(60)
        with started(repository, env, "join", "--name", "cleo", *words) as join:
            ground.joined("cleo")
            held.go_on.set()
            assert fifo.read_text() == "runs\n"
            yield run, join


def said(process: subprocess.Popen[str], seconds: float = 90) -> str:
    out, _ = process.communicate(timeout=seconds)
    return out


def test_a_joined_teammate_plans_works_and_hands_in_and_leaves_when_the_team_has_finished(
    repository: Path, ground: Ground, look: Look, tmp_path: Path
) -> None:
    tasks = [
        {"ref": "a", "subject": "A", "description": "write a.txt a", "requires_plan": True, "role": "docs"},
        {"ref": "b", "subject": "B", "description": "run cat a.txt > c.txt", "blocked_by": ["a"]},
    ]
    held = Held(tasks)
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change", "--checks", "true") as run:
            assert held.begun.wait(60)
            words = ("--role", "docs", "--model", "claude-haiku-4-5", "--output-format", "json")
            with started(repository, env, "join", "--name", "cleo", *words) as join:
                record = ground.joined("cleo")
                lock = read(ground.root / "processes" / f"{record['process']}.lock")
                assert lock["pid"] == join.pid and lock["start"] and lock["boot"]
                held.go_on.set()
                end = json.loads(said(join).splitlines()[-1])
                assert join.returncode == 0 == end["exit"] and end["member"] == "cleo", end
            out = said(run)
            assert run.returncode == 0, out
        assert "cleo" in out and "joins the team" in out and "claims T1" in out, "the run shows what it does"
    assert look("show", "coterie/main/integration:c.txt") == "a\n"
    assert {ground.task(each)["status"] for each in ("T1", "T2")} == {"completed"}
    assert ground.owners("T1") == ["cleo"] == ground.owners("T2")
    assert ground.member("cleo")["status"] == "stopped" and ground.member("cleo")["tokens"]["output"] > 0
    report = read(ground.root / "report.json")
    assert report["tokens"] >= sum(ground.member("cleo")["tokens"].values()), "what it costs is the team's"
    assert not list((ground.root / "processes").glob(f"{record['process']}.*"))
    assert held.models["main/cleo#1"] == "claude-haiku-4-5" != held.models["main/lead#1"]
    assert set(held.models) == {"main/lead#1", "main/cleo#1"}


def test_what_the_team_has_spent_stops_a_joined_teammate_too(repository: Path, ground: Ground, tmp_path: Path) -> None:
    held = Held([{"ref": "a", "subject": "A", "description": "write a.txt a"}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change", "--max-tokens", "1000") as run:
            assert held.begun.wait(60)
            with started(repository, env, "join", "--name", "cleo") as join:
                ground.joined("cleo")
                held.go_on.set()
                out = said(join)
                assert join.returncode == 7 and "1000 tokens" in out, out
            out = said(run)
            assert run.returncode == 7 and "1000 tokens" in out, out
    assert ground.member("lead")["tokens"]["cache_write"] > 1000 and "main/cleo#1" not in held.asked
    assert ground.task()["status"] == "pending"


def test_who_cannot_join_is_told_why(repository: Path, ground: Ground, tmp_path: Path) -> None:
    held = Held([{"ref": "a", "subject": "A", "description": "write a.txt a"}], ("ada",))
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")

        def refused(name: str, code: int, *words: str, **more: str) -> None:
            done = coterie(repository, env | more, "join", "--name", name)
            assert done.returncode == code and all(each in done.stderr for each in words), (name, done.stderr)
            assert "Traceback" not in done.stderr

        refused("cleo", 2, "there is no team")
        with started(repository, env, "run", "a change", "--teammates", "2") as run:
            assert held.begun.wait(60)
            refused("lead", 2, "--name", "reserved")
            refused("Cleo!", 2, "--name", "not a name")
            refused("cleo", 6, "ANTHROPIC_API_KEY", ANTHROPIC_API_KEY="")
            assert not list((ground.root / "members").glob("cleo")), "nothing is made before everything is looked at"
            with started(repository, env, "join", "--name", "cleo") as join:
                ground.joined("cleo")
                refused("cleo", 1, "cleo#1", "on the team already")
                with started(repository, env, "join", "--name", "dan") as other:
                    ground.joined("dan")
                    refused("eve", 1, "2 teammates of at most 2")
                    other.send_signal(signal.SIGINT)
                    assert "dan#1 has left" in said(other) and other.returncode == 130
                held.go_on.set()
                said(join)
            assert run.wait(60) == 0, said(run)
        refused("cleo", 1, "has ended")
        assert coterie(repository, env, "task", "add", "more").returncode == 0
        refused("cleo", 1, "coterie resume --team main")


def test_a_joined_process_that_is_killed_is_seen_and_its_task_goes_to_another(
    repository: Path, ground: Ground, look: Look, tmp_path: Path
) -> None:
    fifo = pipe(tmp_path, "runs")
    command = f"test $(basename $PWD) = ada || {{ echo half > half.txt; echo runs > {fifo}; exec sleep 1234571; }}"
    held = Held([{"ref": "a", "subject": "A", "description": f"run {command}\nwrite a.txt a"}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with in_a_command(repository, ground, held, env, fifo) as (run, join):
            assert coterie(repository, env, "say", "cleo", "never read").returncode == 0
            with started(repository, env, "join", "--name", "ada") as ada:
                ground.joined("ada")
                os.kill(join.pid, signal.SIGKILL)
                wait_for(lambda: ground.member("cleo")["status"] == "failed")
                assert (
                    "sleep 1234571" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
                )
                gone = coterie(repository, env, "say", "cleo", "hello")
                assert gone.returncode != 0 and "cleo#1 has stopped" in gone.stderr
                assert said(ada) and ada.returncode == 0
            out = said(run)
            assert run.returncode == 0, out
    task = ground.task()
    assert (task["status"], task["epoch"], task["losses"], ground.owners()) == ("completed", 2, 1, ["cleo", "ada"])
    assert f"pid {join.pid}" in ground.member("cleo")["reason"]
    refs = look("for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue").split()
    assert any(look("show", f"{ref}:half.txt") == "half\n" for ref in refs if "T1-e1" in ref)
    records = read_journal(ground.root / "members" / "cleo" / "journal.jsonl")[0]
    begun = {each.call for each in records if isinstance(each, Started)}
    answered = [each.call for each in records if isinstance(each, Finished)]
    assert begun and sorted(begun) == sorted(answered), "each call has one answer"
    assert audit(ground.root) == []
    told = [each for each in (ground.root / "mail" / "human" / "new").iterdir() if "before it read" in each.read_text()]
    assert len(told) == 1, "who wrote to it is told that it was never read"
    assert not list((ground.root / "processes").glob("*.port"))


def test_work_that_a_killed_process_handed_in_is_merged_all_the_same(
    repository: Path, ground: Ground, look: Look, tmp_path: Path
) -> None:
    fifo, go = pipe(tmp_path, "checks"), pipe(tmp_path, "go")
    held = Held(
        [{"ref": "a", "subject": "A", "description": "write a.txt a", "checks": [f"echo > {fifo}; read < {go}"]}]
    )
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as run:
            assert held.begun.wait(60)
            with started(repository, env, "join", "--name", "cleo") as join:
                ground.joined("cleo")
                held.go_on.set()
                fifo.read_text()
                os.kill(join.pid, signal.SIGKILL)
                wait_for(lambda: ground.events("is gone"))  # the last thing that is done about it
                assert ground.member("cleo")["status"] == "failed" and ground.task()["status"] == "submitted"
                go.write_text("on\n")
            out = said(run)
            assert run.returncode == 0, out
    assert ground.task()["epoch"] == 1 and look("show", "coterie/main/integration:a.txt") == "a\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM] if SOAK else [signal.SIGTERM])
def test_a_signal_ends_a_joined_teammate_in_order_and_its_task_goes_to_another(
    repository: Path, ground: Ground, tmp_path: Path, number: signal.Signals
) -> None:
    fifo = pipe(tmp_path, "runs")
    command = f"test $(basename $PWD) = ada || {{ echo half > half.txt; echo runs > {fifo}; sleep 600; }}"
    held = Held([{"ref": "a", "subject": "A", "description": f"run {command}\nwrite a.txt a"}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with in_a_command(repository, ground, held, env, fifo) as (run, join):
            with started(repository, env, "join", "--name", "ada") as ada:
                ground.joined("ada")
                join.send_signal(number)
                out = said(join)
                assert join.returncode == 128 + number and "cleo#1 has left" in out and "Traceback" not in out
                assert ground.member("cleo")["status"] == "stopped"
                assert said(ada) and ada.returncode == 0
            assert run.wait(60) == 0
    assert (ground.task()["epoch"], ground.task()["losses"], ground.owners()) == (2, 1, ["cleo", "ada"])


def test_a_person_ends_a_joined_teammate_and_its_name_begins_a_next_life(
    repository: Path, ground: Ground, tmp_path: Path
) -> None:
    held = Held([{"ref": "a", "subject": "A", "description": "write a.txt a"}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as run:
            assert held.begun.wait(60)
            with started(repository, env, "join", "--name", "cleo") as join:
                wait_for(lambda: ground.member("cleo").get("status") == "idle")
                team = json.loads(coterie(repository, env, "team", "--json").stdout)
                row = next(each for each in team["members"] if each["name"] == "cleo")
                assert (row["joined"], row["pid"], row["answers"]) == (True, join.pid, True)
                assert coterie(repository, env, "stop", "cleo").returncode == 0
                out = said(join)
                assert join.returncode == 0 and "shutdown R1" in out, out
                assert ground.member("cleo")["status"] == "stopped"
            with started(repository, env, "join", "--name", "cleo") as again:
                wait_for(lambda: ground.member("cleo")["instance"] == "cleo#2")
                held.go_on.set()
                said(again)
                assert again.returncode == 0 == run.wait(60)
    assert ground.task()["status"] == "completed"


def test_a_run_that_is_stopped_stops_its_joined_teammates_too(
    repository: Path, ground: Ground, look: Look, tmp_path: Path
) -> None:
    held = Held([{"ref": "a", "subject": "A", "description": "write a.txt a", "requires_plan": True}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change", "--approver", "human") as run:
            assert held.begun.wait(60)
            with started(repository, env, "join", "--name", "cleo") as join:
                ground.joined("cleo")
                held.go_on.set()
                wait_for(lambda: (ground.root / "requests" / "R1.json").exists())
                run.send_signal(signal.SIGINT)
                out = said(join)
                assert join.returncode == 7 and "the run was stopped" in out, out
                said(run)
                assert run.returncode == 130
    assert ground.task()["status"] == "pending" and ground.member("cleo")["status"] == "stopped"


def test_a_joined_teammate_without_a_lead_finishes_what_it_has_and_goes_on_after_a_resume(
    repository: Path, ground: Ground, look: Look, tmp_path: Path
) -> None:
    fifo, go = pipe(tmp_path, "runs"), pipe(tmp_path, "go")
    tasks = [
        {"ref": "a", "subject": "A", "description": f"run echo runs > {fifo}; read < {go}\nwrite a.txt a"},
        {"ref": "b", "subject": "B", "description": "write b.txt b"},
    ]
    held = Held(tasks)
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as run:
            assert held.begun.wait(60)
            with started(repository, env, "join", "--name", "cleo") as join:
                ground.joined("cleo")
                held.go_on.set()
                fifo.read_text()
                os.kill(run.pid, signal.SIGKILL)
                wait_for(lambda: ground.events("the lead's host is gone"))
                go.write_text("on\n")
                wait_for(lambda: ground.task("T1")["status"] == "submitted")
                wait_for(lambda: ground.member("cleo")["status"] == "waiting")
                assert ground.task("T2")["status"] == "pending"
                with started(repository, env, "resume") as again:
                    out = said(again)
                    assert again.returncode == 0, out
                assert said(join) and join.returncode == 0
    assert [ground.task(each)["epoch"] for each in ("T1", "T2")] == [1, 1], "resume left what it held alone"
    assert look("show", "coterie/main/integration:b.txt") == "b\n"


def test_a_joined_teammate_without_a_lead_claims_nothing(repository: Path, ground: Ground, tmp_path: Path) -> None:
    held = Held([{"ref": "a", "subject": "A", "description": "write a.txt a"}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as run:
            assert held.begun.wait(60)
            with started(repository, env, "join", "--name", "cleo") as join:
                wait_for(lambda: ground.member("cleo").get("status") == "idle")
                os.kill(run.pid, signal.SIGKILL)
                assert coterie(repository, env, "task", "add", "early", "-d", "write early.txt x").returncode == 0
                wait_for(lambda: "the lead's host is gone" in ground.member("cleo")["reason"])
                repairs = files.hold(ground.root / "processes" / "lead.lock", {"process": "0123456789ab"})
                ring_others(ground.root / "processes")  # somebody repairs: that is no lead either
                assert coterie(repository, env, "task", "add", "also", "-d", "write also.txt x").returncode == 0
                repairs.release()
                assert ground.task("T1")["epoch"] == 0 == ground.task("T2")["epoch"]
                held.go_on.set()
                with started(repository, env, "resume", "--approver", "human") as again:
                    plan = wait_for(lambda: read(ground.root / "requests" / "R1.json"))
                    assert (plan["from"], plan["to"]) == ("cleo", "human"), "what the resume changed is in force for it"
                    assert coterie(repository, env, "approve", "R1").returncode == 0
                    out = said(again)
                    assert again.returncode == 0, out
                assert said(join) and join.returncode == 0
    assert ground.owners("T1") == ["cleo"] == ground.owners("T2")


def test_a_joined_teammate_whose_lead_stays_away_ends_with_7(repository: Path, ground: Ground, tmp_path: Path) -> None:
    held = Held([{"ref": "a", "subject": "A", "description": "write a.txt a", "requires_plan": True}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state") | {"COTERIE_ORPHAN_TIMEOUT": "1"}
        with started(repository, env, "run", "a change", "--approver", "human") as run:
            assert held.begun.wait(60)
            with started(repository, env, "join", "--name", "cleo") as join:
                ground.joined("cleo")
                held.go_on.set()
                wait_for(lambda: (ground.root / "requests" / "R1.json").exists())
                os.kill(run.pid, signal.SIGKILL)
                out = said(join)
                assert join.returncode == 7 and "lead's host has been gone for 1 s" in out, out
    assert ground.member("cleo")["status"] == "stopped" and ground.task()["status"] == "pending"
    assert not list((ground.root / "processes").glob(f"{ground.member('cleo')['process']}.*"))

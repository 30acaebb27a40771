"""A run that is killed or interrupted goes on to the end that an undisturbed one has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.crew import Respond, crew
from tests.acceptance.loopback import coterie, environment, pipe, served, started

from coterie.teammates.journal import Answered, Delivered, Finished, read_journal
from coterie.teammates.model import Answer, ModelRequest

SOAK = bool(os.environ.get("COTERIE_SOAK"))  # all of the cases that differ in one number only
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]

Look = Callable[..., str]

TASKS: list[dict[str, Any]] = [
    {"ref": "base", "subject": "Base", "description": "write base.txt base\nrun echo more >> base.txt"},
    {"ref": "a", "subject": "A", "description": "write a.txt a", "blocked_by": ["base"], "requires_plan": True},
    {"ref": "b", "subject": "B", "description": "write b.txt b", "blocked_by": ["base"]},
    {"ref": "c", "subject": "C", "description": "run cat a.txt b.txt base.txt > c.txt", "blocked_by": ["a", "b"]},
]


class At:
    """Does something when the crew is asked for the nth time, before the answer is sent."""

    def __init__(self, respond: Respond, number: int) -> None:
        self.respond = respond
        self.number = number
        self.asked = 0
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self._guard = threading.Lock()

    def __call__(self, request: ModelRequest) -> Answer:
        with self._guard:
            self.asked += 1
            hit = self.asked == self.number
        if hit:
            self.reached.set()
            self.go_on.wait(60)
        return self.respond(request)


def check_journals(root: Path) -> None:
    """Every call has one result, and no message was delivered in two turns."""
    delivered: Counter[str] = Counter()
    for path in (root / "members").glob("*/journal.jsonl"):
        records = read_journal(path)[0]
        delivered.update(each for record in records if isinstance(record, Delivered) for each in record.ids)
        calls = [
            block["id"]
            for record in records
            if isinstance(record, Answered)
            for block in record.content
            if block["type"] == "tool_use"
        ]
        results = [record.call for record in records if isinstance(record, Finished)]
        assert sorted(calls) == sorted(results), "every call has exactly one result"
    assert set(delivered.values()) <= {1}, "no message is in two turns"


def check_end(repository: Path, look: Look, merges: int = 4) -> None:
    """The board, the branch, the journals and the mail of a run that has ended well."""
    root = repository / ".coterie" / "main"
    names = look("ls-tree", "--name-only", "coterie/main/integration").split()
    assert names == ["a.txt", "b.txt", "base.txt", "c.txt", "one.txt", "two.txt"]
    assert look("show", "coterie/main/integration:c.txt") == "a\nb\nbase\nmore\n"
    trailers = look(
        "log", "--first-parent", "--format=%(trailers:key=Coterie-Task,valueonly)", "coterie/main/integration"
    )
    assert sorted(trailers.split()) == ["T1", "T2", "T3", "T4"], "each task merged once"
    tasks = [json.loads(path.read_text()) for path in (root / "tasks").glob("T*.json")]
    assert len(tasks) == 4 and {task["status"] for task in tasks} == {"completed"}
    assert [task["epoch"] for task in tasks] == [1] * merges, "no assignment was made twice"
    check_journals(root)
    assert not list((root / "mail").glob("*/tmp/*"))
    assert not list(root.rglob(".*.tmp"))


@pytest.mark.parametrize("number", [1, 7, 13] if SOAK else [7])
def test_a_run_that_was_killed_is_resumed_to_the_same_end(
    repository: Path, look: Look, tmp_path: Path, number: int
) -> None:
    at = At(crew(TASKS, ("ada", "ben")), number)
    with served(at) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as process:
            assert at.reached.wait(60)
            os.kill(process.pid, signal.SIGKILL)
            at.go_on.set()
            process.communicate(timeout=30)
            again = coterie(repository, env, "resume")
            assert again.returncode == 0, again.stdout + again.stderr
            check_end(repository, look)
            assert not server.refused, server.refused
            finished = coterie(repository, env, "resume")
            assert finished.returncode == 0 and "has ended" in finished.stdout + finished.stderr


@pytest.mark.parametrize(("number", "code"), SIGNALS if SOAK else SIGNALS[:1])
def test_a_signal_stops_in_order_says_how_to_resume_and_resume_goes_on(
    repository: Path, look: Look, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    at = At(crew(TASKS, ("ada", "ben")), 6)
    with served(at) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as process:
            assert at.reached.wait(60)
            process.send_signal(number)
            out, _ = process.communicate(timeout=30)
            at.go_on.set()
            assert process.returncode == code, out
            assert "coterie resume" in out and "Traceback" not in out
            again = coterie(repository, env, "resume")
            assert again.returncode == 0, again.stdout + again.stderr
            check_end(repository, look)


def test_a_second_run_of_the_same_team_is_refused_and_names_the_first(repository: Path, tmp_path: Path) -> None:
    at = At(crew(TASKS, ("ada", "ben")), 3)
    with served(at) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as process:
            assert at.reached.wait(60)
            second = coterie(repository, env, "resume")
            assert second.returncode == 4 and str(process.pid) in second.stderr, second.stderr
            third = coterie(repository, env, "run", "another")
            assert third.returncode == 2 and "resume" in third.stderr and "--team" in third.stderr
            at.go_on.set()
            process.communicate(timeout=60)
            assert process.returncode == 0


def test_a_command_that_runs_when_the_host_is_killed_does_not_outlive_it(repository: Path, tmp_path: Path) -> None:
    fifo = pipe(tmp_path, "fifo")
    tasks = [
        {"ref": "a", "subject": "A", "description": f"run echo started > {fifo}; setsid sleep 1234567 & sleep 1234567"}
    ]
    with served(crew(tasks, ("ada",))) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as process:
            assert fifo.read_text() == "started\n"
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)
            left = "sleep 1234567"
            gone = threading.Event()
            for _ in range(300):
                if left not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout:
                    gone.set()
                    break
                threading.Event().wait(0.05)
            assert gone.is_set()


def test_an_interrupted_command_is_not_run_again_by_itself(repository: Path, look: Look, tmp_path: Path) -> None:
    fifo = pipe(tmp_path, "fifo")
    command = f"test -e ~/once && exit 0; touch ~/once; echo started > {fifo}; sleep 600"
    tasks = [{"ref": "a", "subject": "A", "description": f"write a.txt a\nrun {command}"}]
    with served(crew(tasks, ("ada",))) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as process:
            assert fifo.read_text() == "started\n"
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)
        again = coterie(repository, env, "resume")
        assert again.returncode == 0, again.stdout + again.stderr
    records = read_journal(repository / ".coterie/main/members/ada/journal.jsonl")[0]
    bash = [record.text for record in records if isinstance(record, Finished) and record.tool == "bash"]
    assert bash[0].startswith("interrupted: it may have taken effect") and bash[1].startswith("exit code: 0")

"""A host that is alive and does not answer: shown, overtaken, and without effect when it wakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.loopback import coterie, environment, pipe, served, started
from tests.acceptance.test_join import Ground, Held, ground, in_a_command, said
from tests.acceptance.test_steering import wait_for

from coterie import files

SOAK = bool(os.environ.get("COTERIE_SOAK"))  # all of the cases that differ in one number only

__all__ = ["ground"]  # a fixture

Look = Callable[..., str]


@contextmanager
def stopped(process: subprocess.Popen[str], root: Path) -> Iterator[None]:
    """Stopped by SIGSTOP, as a debugger would, at a moment at which it has no lock; it goes on after the block."""
    os.kill(process.pid, signal.SIGSTOP)
    while files.holder(root / "lock") == process.pid:
        os.kill(process.pid, signal.SIGCONT)
        threading.Event().wait(0.01)
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def late_work(tmp_path: Path) -> tuple[Path, str]:
    """A command that says through the first pipe that it runs and waits at another for ever; ada is done at once."""
    fifo, go = pipe(tmp_path, "runs"), pipe(tmp_path, "go")
    wait = f"echo late > late.txt; echo runs > {fifo}; read < {go}; echo later > later.txt"
    return fifo, f"test $(basename $PWD) = ada && echo good > good.txt || {{ {wait}; }}"


@pytest.mark.parametrize("way", ["the lead's host", "the person"] if SOAK else ["the person"])
def test_a_host_that_is_paused_in_a_tool_call_is_overtaken_and_nothing_of_it_is_merged(
    repository: Path, ground: Ground, look: Look, tmp_path: Path, way: str
) -> None:
    fifo, command = late_work(tmp_path)
    held = Held([{"ref": "a", "subject": "A", "description": f"run {command}"}])
    limit = "2" if way == "the lead's host" else "3600"
    with served(held) as server:
        env = environment(server.url, tmp_path / "state") | {"COTERIE_HUNG_AFTER": limit}
        with in_a_command(repository, ground, held, env, fifo) as (run, join):
            with started(repository, env, "join", "--name", "ada") as ada:
                wait_for(lambda: ground.member("ada").get("status") == "idle")
                with stopped(join, ground.root):
                    assert f"pid {join.pid}" in coterie(repository, env, "team").stdout
                    view = json.loads(coterie(repository, env, "board", "--json").stdout)
                    assert view["silent"] == [
                        {"pid": join.pid, "process": ground.member("cleo")["process"], "members": ["cleo"]}
                    ]
                    why = json.loads(coterie(repository, env, "why", "T1", "--json").stdout)
                    assert why["next"] == "coterie task release T1 --now"
                    assert "does not answer" in json.dumps(why["reasons"])
                    if way == "the lead's host":
                        taken = coterie(repository, env, "task", "release", "T1", "-m", "it hangs")
                    else:
                        team = json.loads((ground.root / "team.json").read_text())
                        team["settings"]["hung_after"] = 2.0  # what this command reads; the run has its own
                        (ground.root / "team.json").write_text(json.dumps(team))
                        taken = coterie(repository, env, "task", "release", "T1", "-m", "it hangs", "--now")
                        assert "answered nothing for 2 s" in " ".join(taken.stdout.split())
                    assert taken.returncode == 0, taken.stderr
                    wait_for(lambda: ground.task()["status"] == "completed")
                    assert ground.owners() == ["cleo", "ada"]
                    assert ground.member("cleo")["status"] == "working", "its life goes on: only its task is lost"
                    asked = held.asked.count("main/cleo#1")
                    assert Path(ground.member("cleo")["worktree"]).joinpath("late.txt").exists(), "left as it lies"
                assert said(join) and join.returncode == 0, "it wakes, finds that all is over, and leaves"
                assert held.asked.count("main/cleo#1") == asked, "nobody is asked about a task that is lost"
                assert said(ada) and ada.returncode == 0
            out = said(run)
            assert run.returncode == 0, out
    task = ground.task()
    assert (task["epoch"], task["losses"]) == (2, 1)
    assert look("ls-tree", "-r", "--name-only", "coterie/main/integration").split() == [
        "good.txt",
        "one.txt",
        "two.txt",
    ]
    refs = look("for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue").split()
    assert any(look("show", f"{ref}:late.txt") == "late\n" for ref in refs)
    reasons = [each["reason"] for each in task["history"]]
    assert any("snapshot refs/coterie/main/rescue/" in each for each in reasons)


def test_a_paused_host_of_the_lead_is_overtaken_too_and_merges_only_what_is_current_when_it_wakes(
    repository: Path, ground: Ground, look: Look, tmp_path: Path
) -> None:
    fifo, command = late_work(tmp_path)
    held = Held([{"ref": "a", "subject": "A", "description": f"run {command}"}], ("cleo",))
    with served(held) as server:
        env = environment(server.url, tmp_path / "state") | {"COTERIE_HUNG_AFTER": "2"}
        with started(repository, env, "run", "a change") as run:
            assert held.begun.wait(60)
            held.go_on.set()
            assert fifo.read_text() == "runs\n"
            with started(repository, env, "join", "--name", "ada") as ada:
                wait_for(lambda: ground.member("ada").get("status") == "idle")
                with stopped(run, ground.root):
                    taken = coterie(repository, env, "task", "release", "T1", "--now")
                    assert taken.returncode == 0 and f"pid {run.pid}" in " ".join(taken.stdout.split()), taken.stderr
                    wait_for(lambda: ground.task()["status"] == "submitted")
                    assert ground.owners() == ["cleo", "ada"]
                    asked = held.asked.count("main/cleo#1")
                assert said(ada) and ada.returncode == 0
            out = said(run)
            assert run.returncode == 0, out
    assert held.asked.count("main/cleo#1") == asked
    assert look("ls-tree", "-r", "--name-only", "coterie/main/integration").split() == [
        "good.txt",
        "one.txt",
        "two.txt",
    ]


def test_a_task_of_a_dead_host_is_taken_back_now_and_its_owner_goes_on_with_another_epoch_after_a_resume(
    repository: Path, ground: Ground, look: Look, tmp_path: Path
) -> None:
    fifo = pipe(tmp_path, "runs")
    command = f"test -e half.txt && exit 0; echo half > half.txt; echo runs > {fifo}; sleep 600"
    held = Held([{"ref": "a", "subject": "A", "description": f"run {command}\nwrite a.txt a"}], ("ada",))
    held.go_on.set()
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as run:
            assert fifo.read_text() == "runs\n"
            os.kill(run.pid, signal.SIGKILL)
            run.wait(30)
        taken = coterie(repository, env, "task", "release", "T1", "--now")
        assert taken.returncode == 0 and "is dead" in taken.stdout, taken.stderr
        assert (ground.task()["status"], ground.task()["losses"]) == ("pending", 1)
        again = coterie(repository, env, "resume")
        assert again.returncode == 0, again.stdout + again.stderr
    assert (ground.task()["epoch"], ground.member("ada")["instance"]) == (2, "ada#1")
    names = look("ls-tree", "-r", "--name-only", "coterie/main/integration").split()
    assert names == ["a.txt", "half.txt", "one.txt", "two.txt"], "the next owner was given the work of the dead host"
    refs = look("for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue").split()
    assert any("half.txt" in look("ls-tree", "-r", "--name-only", ref) for ref in refs)


def test_a_host_that_answers_again_in_time_hands_its_task_over_itself(
    repository: Path, ground: Ground, tmp_path: Path
) -> None:
    fifo = pipe(tmp_path, "runs")
    command = f"test $(basename $PWD) = ada || {{ echo runs > {fifo}; sleep 600; }}"
    held = Held([{"ref": "a", "subject": "A", "description": f"write a.txt a\nrun {command}", "role": "first"}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state") | {"COTERIE_HUNG_AFTER": "3600"}
        with in_a_command(repository, ground, held, env, fifo, "--role", "first") as (run, join):
            with stopped(join, ground.root), started(repository, env, "task", "release", "T1", "--now") as asks:
                assert asks.stdout is not None
                assert any("does not answer" in line for line in asks.stdout), "it says what it waits for"
                assert ground.task()["status"] == "in_progress", "and takes nothing before the time is over"
                os.kill(join.pid, signal.SIGCONT)
                assert "T1 is" in said(asks) and asks.returncode == 0
            run.send_signal(signal.SIGINT)
            said(join)
            said(run)
    back = next(each for each in ground.task()["history"] if (each["from"], each["to"]) == ("in_progress", "pending"))
    assert back["by"] == "cleo", "the owner's host made the move"


def test_a_hung_teammate_that_is_stopped_now_is_killed_and_its_life_ends(
    repository: Path, ground: Ground, tmp_path: Path
) -> None:
    fifo = pipe(tmp_path, "runs")
    command = f"test $(basename $PWD) = ada || {{ echo runs > {fifo}; sleep 600; }}"
    held = Held([{"ref": "a", "subject": "A", "description": f"write a.txt a\nrun {command}"}])
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with in_a_command(repository, ground, held, env, fifo) as (run, join):
            os.kill(join.pid, signal.SIGSTOP)
            done = coterie(repository, env, "stop", "cleo", "--now")
            assert done.returncode == 0 and f"pid {join.pid}" in done.stdout and "killed" in done.stdout
            assert join.wait(30) == -signal.SIGKILL
            wait_for(lambda: ground.member("cleo")["status"] == "failed")
            with started(repository, env, "join", "--name", "ada") as ada:
                assert said(ada) and ada.returncode == 0
            assert run.wait(60) == 0
    assert ground.owners() == ["cleo", "ada"]


def test_a_hung_host_that_has_the_teams_lock_is_named_and_killed_by_stop_now(
    repository: Path, ground: Ground, tmp_path: Path
) -> None:
    held = Held([{"ref": "a", "subject": "A", "description": "write a.txt a"}])
    code = (
        "import os, signal, sys; from pathlib import Path; from coterie import files; root = Path(sys.argv[1])\n"
        "mark = {'schema': 1, 'process': files.token(), **files.process_mark(os.getpid())}\n"
        "kept = files.hold(root / 'processes' / f'{files.token()}.lock', mark)\n"
        "with files.locked(root / 'lock'): print('locked', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with served(held) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as run:
            assert held.begun.wait(60)
            words = [sys.executable, "-c", code, str(ground.root)]
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as hung:
                assert hung.stdout is not None and hung.stdout.readline() == "locked\n"
                done = coterie(repository, env, "stop", "--now")
                assert done.returncode == 0 and f"pid {hung.pid} had the team's lock" in done.stdout, done.stderr
                assert hung.wait(30) == -signal.SIGKILL
            held.go_on.set()
            out = said(run)
            assert run.returncode == 7 and "coterie resume" in out, out

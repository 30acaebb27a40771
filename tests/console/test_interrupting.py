"""Ctrl-C, SIGTERM, SIGHUP and a reader that is gone: what is done stays, the code says which it was, resume goes on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie import files
from coterie.console import shapes
from coterie.demo import Reply, Server
from coterie.teammates.processes import is_alive, process

from .test_running import KEY, act, called, coterie, git, said, script

RUN = (sys.executable, "-m", "coterie", "run", "add two", "--base-url")


@pytest.fixture
def waits() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def slow(waits: threading.Event) -> Iterator[Server]:
    """ada's model says nothing until `waits` is set."""

    def respond(request: dict[str, Any]) -> Reply:
        reply = script(request)
        stalls = "/ada#" in request["metadata"]["user_id"] and not waits.is_set()
        return reply.model_copy(update={"stall": waits}) if stalls else reply

    with Server(respond) as server:
        yield server


@contextlib.contextmanager
def running(*words: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "ANTHROPIC_API_KEY": KEY}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(words, env=env, **given | more) as child:
        try:
            yield child
        finally:
            child.kill()


def until(stream: Any, text: str) -> str:
    """What the stream says up to the line with `text`."""
    seen = ""
    for line in stream:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"{text!r} was never said:\n{seen}")


def resumed_to_the_end(repository: Path) -> None:
    done = coterie("resume", "--output-format", "json", ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 0, done.stdout + done.stderr
    end = shapes.EndView.model_validate_json(done.stdout)
    assert end.tasks == shapes.TaskCounts(completed=1, failed=0, cancelled=0, open=0)
    assert end.integration.commit == git(repository, "rev-parse", "coterie/main/integration").strip()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 143)])
def test_once_it_stops_in_order_and_says_how_to_go_on(
    repository: Path, slow: Server, waits: threading.Event, number: signal.Signals, code: int
) -> None:
    with running(*RUN, slow.url) as run:
        until(run.stdout, "claims T1")
        run.send_signal(number)
        out, err = run.communicate(timeout=45)
    assert run.returncode == code, out + err
    assert out.rstrip().endswith(f"stopped: interrupted by {number.name}. `coterie resume --team main` goes on")
    assert err == "coterie: stopping in order; once more stops at once\n"
    assert files.read_json(repository / ".coterie" / "main" / "team.json")["ended"] is None
    refused = coterie("run", "something else", ANTHROPIC_API_KEY=KEY)
    assert refused.returncode == 2 and "resume" in refused.stderr and "--team" in refused.stderr
    waits.set()
    resumed_to_the_end(repository)


def test_twice_it_stops_at_once_in_a_long_tool_call_and_resume_tells_that_it_was_interrupted(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command cannot be ended, since whoever would end it is stopped: a stop in order has to wait for it."""
    fifo = repository.parent / "pipes" / "fifo"
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    monkeypatch.setenv("COTERIE_SANDBOX_READ_ONLY", str(fifo.parent))
    told: list[str] = []

    def respond(request: dict[str, Any]) -> Reply:
        if "/ada#" not in request["metadata"]["user_id"] or "submit_plan" not in called(request):
            return script(request)
        if "bash" not in called(request):
            return act("bash", command=f"echo runs > {fifo}; sleep 1000", timeout_s=500)
        told.append(said(request))
        return script(request)

    with Server(respond) as server:
        with running(*RUN, server.url) as run:
            assert fifo.read_text() == "runs\n"
            journal = (repository / ".coterie/main/members/ada/journal.jsonl").read_text().splitlines()
            started = [record for record in map(json.loads, journal) if record.get("process")]
            command = process(started[-1]["process"]["pid"])
            warden = process(command.parent) if command is not None else None
            assert command is not None and warden is not None
            keepers = [warden.parent, command.parent]
            marks = {pid: files.process_mark(pid)["start"] for pid in keepers}
            for pid in keepers:
                os.kill(pid, signal.SIGSTOP)
            run.send_signal(signal.SIGINT)
            until(run.stderr, "once more stops at once")
            run.send_signal(signal.SIGINT)
            assert run.wait(20) == 130
            assert run.stderr is not None
            assert run.stderr.readline() == (
                "coterie: stopped at once, nothing is lost: coterie resume --team main goes on\n"
            )
            for pid in keepers:
                os.kill(pid, signal.SIGCONT)
        assert told == []
        resumed_to_the_end(repository)
        assert "interrupted: it may have taken effect, inspect first" in told[0]
    assert not any(is_alive(pid, start) for pid, start in marks.items())


WAITS = """
import os, sys
from coterie.__main__ import main
def hear(event, arguments):
    if event == "open" and str(arguments[0]).endswith("/main/lock"):
        os.write(1, b"waits\\n")
sys.addaudithook(hear)
sys.argv[1:] = ["task", "add", "another"]
sys.exit(main())
"""


def test_a_command_that_waits_for_the_teams_lock_ends_at_once_and_has_done_nothing(rooms: Any) -> None:
    tasks = sorted((rooms.root / "tasks").iterdir())
    with files.locked(rooms.root / "lock"), running(sys.executable, "-c", WAITS) as waiting:
        until(waiting.stdout, "waits")
        waiting.send_signal(signal.SIGINT)
        code = waiting.wait(20)
        assert waiting.stderr is not None
        said = waiting.stderr.read()
    assert code == 130 and "Traceback" not in said and len(said.splitlines()) <= 1, said
    assert sorted((rooms.root / "tasks").iterdir()) == tasks


def test_a_terminal_that_goes_away_stops_the_run_in_order(repository: Path, slow: Server) -> None:
    mine, theirs = pty.openpty()

    def take_the_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    given = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    words = (*RUN, slow.url, "--splits", "auto")
    with running(*words, **given, text=False, preexec_fn=take_the_terminal) as run:
        os.close(theirs)
        seen = b""
        while b"claims T1" not in seen:
            seen += os.read(mine, 65536)
        os.close(mine)
        assert run.wait(45) == 143
    report = files.read_json(repository / ".coterie" / "main" / "report.json")
    assert (report["exit"], report["summary"]) == (143, "interrupted by SIGHUP")


def test_under_nohup_the_run_goes_on_when_the_terminal_goes_away(
    repository: Path, slow: Server, waits: threading.Event
) -> None:
    with running("nohup", *RUN, slow.url) as run:
        until(run.stdout, "claims T1")
        run.send_signal(signal.SIGHUP)
        waits.set()
        assert run.wait(45) == 0


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_where_nothing_can_be_written_the_run_goes_on_without_a_traceback(repository: Path, output: str) -> None:
    with Server(script) as server, Path("/dev/full").open("w") as full:
        with running(*RUN, server.url, "--output-format", output, stdout=full) as run:
            assert run.stderr is not None
            assert (run.stderr.read(), run.wait(45)) == ("", 0)
    assert files.read_json(repository / ".coterie" / "main" / "team.json")["ended"]["exit"] == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(rooms: Any, closed: str) -> None:
    words = f"{sys.executable} -m coterie show T1 {closed}"
    done = subprocess.run(words, shell=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_demo_that_was_interrupted_says_its_own_command(repository: Path) -> None:
    place = repository.parent / "sample"
    with running(sys.executable, "-m", "coterie", "demo", "--keep", str(place)) as run:
        until(run.stdout, "claims T1")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=45)
    assert run.returncode == 130, out + err
    assert f"`coterie demo --keep {place}` goes on" in out and "coterie resume" not in out

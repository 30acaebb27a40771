"""A machine that runs out of room: everybody pauses, nothing is damaged, and all goes on when there is room again."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.crew import crew, is_lead
from tests.teammates.stage import Stage

from coterie import files
from coterie.teammates.model import Answer, ModelRequest

TASKS: list[dict[str, Any]] = [
    {"ref": "a", "subject": "A", "description": "write a.txt a\nrun echo more >> a.txt"},
    {"ref": "b", "subject": "B", "description": "write b.txt b", "blocked_by": ["a"], "requires_plan": True},
]


class Lack:
    """Makes calls of `os` fail on the files of a team, while it is on."""

    def __init__(self, root: Path, number: int) -> None:
        self.on = threading.Event()
        self.met = threading.Event()
        self._root = str(root)
        self._number = number

    def of_path(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *more: Any, **named: Any) -> Any:
            self._fail(os.fspath(path) if not isinstance(path, int) else str(Path(f"/proc/self/fd/{path}").readlink()))
            return real(path, *more, **named)

        return call

    def of_opened(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, flags: int, *more: Any, **named: Any) -> Any:
            self._fail(os.fspath(path))
            return real(path, flags, *more, **named)

        return call

    def _fail(self, path: str) -> None:
        if self.on.is_set() and path.startswith(self._root):
            self.met.set()
            raise OSError(self._number, os.strerror(self._number), path)


@pytest.fixture(params=["write", "fsync", "replace", "open"])
def lack(request: pytest.FixtureRequest, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lack]:
    name = request.param
    found = Lack(stage.root, errno.EMFILE if name == "open" else errno.ENOSPC)
    wrap = found.of_opened if name == "open" else found.of_path
    monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    yield found
    found.on.clear()


def whole(stage: Stage) -> None:
    """The work is merged, each piece once, and every file can be read."""
    assert stage.merged("a.txt") == "a\nmore\n" and stage.merged("b.txt") == "b\n"
    for name in ("T1", "T2"):
        task = stage.task(name)
        assert task["status"] == "completed" and task["epoch"] == 1
        assert [(step["from"], step["to"]) for step in task["history"]].count(("in_progress", "submitted")) == 1
    assert not list(stage.root.rglob("bad/*")) and not list(stage.root.rglob("*.tmp"))
    for path in stage.root.rglob("*.json"):
        json.loads(path.read_text())
    for path in stage.root.rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            json.loads(line)


def told(stage: Stage, what: str) -> threading.Event:
    """An event that is set once the run has said so."""
    heard = threading.Event()
    before = stage.watch

    def watch(event: dict[str, Any]) -> None:
        before(event)
        if what in event["text"]:
            heard.set()

    stage.watch = watch
    return heard


@pytest.mark.parametrize("call", [0, 4])
def test_a_team_without_room_pauses_and_goes_on_to_the_same_end(stage: Stage, lack: Lack, call: int) -> None:
    paused = told(stage, "paused")
    script = crew(TASKS, ("ada",))
    calls: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        calls.append(request.user_id)
        if len(calls) == call + 1:
            lack.on.set()
        return script(request)

    with stage.running(respond) as outcome:
        assert lack.met.wait(30)
        assert paused.wait(30)
        lack.on.clear()
    assert outcome[0].exit_code == 0, outcome[0].summary
    whole(stage)


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "no space left"), (errno.EROFS, "Read-only"), (errno.EIO, "/.coterie/main/")]
)
def test_a_team_whose_files_stay_unusable_stops_in_order_with_5_and_can_be_resumed(
    stage: Stage, number: int, said: str
) -> None:
    script = crew(TASKS, ("ada",))
    lack = Lack(stage.root, number)

    def respond(request: ModelRequest) -> Answer:
        if not is_lead(request):
            lack.on.set()
        return script(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", lack.of_path(os.write))
        outcome = stage.go(respond, stall_timeout=0.5)
    assert outcome.exit_code == 5 and said in outcome.summary
    assert stage.go(script).exit_code == 0
    whole(stage)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
def test_a_disk_that_is_really_full_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", small], check=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(small / "state"))
    try:
        stage = Stage(small)
        paused = told(stage, "paused")
        script = crew(TASKS, ("ada",))
        filler = small / "filler"

        def respond(request: ModelRequest) -> Answer:
            if not is_lead(request) and not paused.is_set() and not filler.exists():
                with filler.open("wb") as full, pytest.raises(OSError, match="No space"):
                    while True:
                        full.write(bytes(4096))
                        full.flush()
            return script(request)

        with stage.running(respond) as outcome:
            assert paused.wait(60)
            filler.unlink()
        assert outcome[0].exit_code == 0, outcome[0].summary
        whole(stage)
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_lack_is_found_behind_the_error_that_it_caused() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "x", "/a/file")
        except OSError as error:
            raise RuntimeError("so it failed") from error
    except RuntimeError as error:
        assert files.shortage(error) == "no space left on the disk (/a/file)"
    assert files.shortage(OSError(errno.EACCES, "x")) is None

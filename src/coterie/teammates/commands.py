"""Commands of a host: run to the end or in the background, limited, cancelled, recorded before they begin."""

from __future__ import annotations

import os
import secrets
import select
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from coterie.errors import Refused
from coterie.teammates.cancel import Cancel
from coterie.teammates.launcher import CommandNotStarted, Ended, Launched, Launcher, ProcessMark
from coterie.teammates.leftovers import find_leftovers, kill_leftovers
from coterie.teammates.output import Output, check_output_id
from coterie.teammates.sandbox import Sandbox, environment

__all__ = [
    "CommandNotStarted",
    "Commands",
    "Finished",
    "ProcessMark",
    "Progress",
    "find_leftovers",
    "kill_leftovers",
]

_GRACE_S = 10.0  # how long a warden may take to end a tree before the host does it
_CHUNK = 1 << 16


class Finished(BaseModel):
    """A command that has ended, and nothing of it runs any more (what could not be ended was reported)."""

    model_config = ConfigDict(frozen=True)

    command_id: str
    exit_code: int | None  # 128 + n if signal n ended it; None if it was ended by its limit or by a cancel
    timed_out: bool
    cancelled: str | None  # why it was ended before its time, None if it was not
    text: str  # what it printed, readable, both ends of it if it was more than 30 KB
    output_id: str | None  # where the whole output is kept, None if `text` is all there was
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0


class Progress(BaseModel):
    """How a background command stands."""

    model_config = ConfigDict(frozen=True)

    command_id: str
    owner: str
    text: str  # so far, as in `Finished`
    output_id: str | None
    finished: Finished | None  # None while it runs


def _ignore(_: object) -> None:
    pass


class _Run:
    """One command from its launch to its end. `stop` may be called from any thread."""

    def __init__(self, launched: Launched, output: Output, owner: str, report: Callable[[str], object]) -> None:
        self.command_id = launched.mark.command_id
        self.owner = owner
        self.output = output
        self.finished: Finished | None = None
        self.over = threading.Event()
        self._launched = launched
        self._report = report
        self._why: str | None = None
        self._limit: float | None = None  # monotonic: past it the warden has failed, and the host acts itself

    def stop(self, why: str) -> None:
        """Have it ended; the first reason counts. Does not wait."""
        if self._why is None and not self.over.is_set():
            self._why = why
            self._set_limit(_GRACE_S)
            self._launched.kill()

    def _set_limit(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        self._limit = limit if self._limit is None else min(self._limit, limit)

    def go(self, timeout_s: float | None) -> Finished:
        """Let it run; return when it has ended and everything it printed was taken."""
        begun = time.monotonic()
        try:
            if timeout_s is not None:
                self._set_limit(timeout_s + _GRACE_S)
            self._launched.go(timeout_s)
            ended = self._watch()
            self._drain()
            self.output.finish()
            self.finished = self._result(ended, time.monotonic() - begun)
            return self.finished
        finally:
            self._launched.close()
            self.over.set()

    def _watch(self) -> Ended:
        channel, output = self._launched.channel, self._launched.output
        watched: list[Any] = [channel, output]
        while True:
            # a stop sets the limit while this sleeps, so no sleep is longer than what a stop may be late by
            left = 1.0 if self._limit is None else min(1.0, self._limit - time.monotonic())
            ready, _, _ = select.select(watched, [], [], max(0.0, left))
            if output in ready:
                if data := os.read(output, _CHUNK):
                    self.output.feed(data)
                else:
                    watched.remove(output)  # it closed what it prints to, and may run on
            if channel in ready and (ended := self._launched.ended()):
                return self._lost() if ended.lost else ended
            if self._limit is not None and time.monotonic() >= self._limit:
                return self._forced()

    def _lost(self) -> Ended:
        if self._why is None:
            self._why = "the process that watched it was killed"
        left = self._launched.end_by_force()
        # what fell out of its tree carries its mark
        kill_leftovers([self._launched.mark], unproved=lambda mark, reason: self._report(reason))
        return Ended(None, timed_out=False, killed=True, left=tuple(left))

    def _forced(self) -> Ended:
        self._report(f"command {self.command_id}: its warden does not answer; ended by force")
        return Ended(None, timed_out=self._why is None, killed=True, left=tuple(self._launched.end_by_force()))

    def _drain(self) -> None:
        """Take what is still in the pipe, and wait for nobody who holds it."""
        os.set_blocking(self._launched.output, False)
        try:
            for _ in range(64):
                if not (data := os.read(self._launched.output, _CHUNK)):
                    return
                self.output.feed(data)
        except BlockingIOError:
            return

    def _result(self, ended: Ended, seconds: float) -> Finished:
        if ended.left:
            pids = ", ".join(map(str, ended.left))
            self._report(f"command {self.command_id}: could not be ended whole, still there: {pids}")
        return Finished(
            command_id=self.command_id,
            exit_code=ended.exit_code,
            timed_out=ended.timed_out,
            cancelled=(self._why or "the process that starts commands was killed")
            if ended.killed and not ended.timed_out
            else None,
            text=self.output.text(),
            output_id=self.output.id,
            seconds=round(seconds, 3),
        )


class Commands:
    """Runs the commands of one host, all through one spawner process. Safe between threads.

    The output of a command is readable text; more than 30 KB of it are kept in `output_dir/<id>`. `ceiling` are the
    folders above which a command's git must not look for a repository. `report(sentence)` hears what a person should
    know: what could not be ended, what had to be forced. Use it as a context manager, or `close` it.
    """

    def __init__(
        self,
        output_dir: Path,
        *,
        sandbox: Sandbox,
        ceiling: Sequence[Path] = (),
        report: Callable[[str], object] = _ignore,
        base: Mapping[str, str] | None = None,
    ) -> None:
        self.output_dir = output_dir
        self.sandbox = sandbox
        self._ceiling = tuple(ceiling)
        self._report = report
        self._base = base  # the environment to choose from; None: this process's
        self._launcher = Launcher()
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}  # running ones, and ended background ones until their owner's are stopped
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path,
        timeout_s: float | None,
        owner: str = "",
        env: Mapping[str, str] | None = None,
        command_id: str | None = None,
        writable: bool = True,
        check: bool = False,
        keep_output: bool = False,
        started: Callable[[ProcessMark], object] = _ignore,
        cancel: Cancel | None = None,
        on_output: Callable[[str], object] | None = None,
    ) -> Finished:
        """Run `command` in `cwd` and wait until nothing of it runs: at its end, at `timeout_s` seconds, or at `cancel`.

        A string goes to `bash -c` (`sh` if there is none), a list is run as it is. `started` is called before the
        command begins; if it raises, or this process dies in it, the command never does. A command without
        `command_id` gets one that begins with `<owner>.`. `writable`: whether it may write in `cwd`. `check`: it is a
        check, which may have the network where others have none. `keep_output`: also a short output gets its file.
        `on_output` hears the readable text in this thread as it comes.

        A command that cannot be found or run ends with 127 or 126 and says so in its text, as in a shell. Raises
        `Refused` (no such folder, a NUL, `writable=False` that the sandbox cannot keep) and `CommandNotStarted`.
        """
        cancel = cancel or Cancel()
        if cancel.is_set():
            return Finished(
                command_id=self._id(command_id, owner), exit_code=None, timed_out=False,
                cancelled=cancel.reason or "cancelled", text="", output_id=None, seconds=0.0,
            )  # fmt: skip
        run = self._launch(command, cwd, owner, env, command_id, writable, check, keep_output, on_output, started)
        remove = cancel.on(lambda: run.stop(cancel.reason or "cancelled"))
        try:
            return run.go(timeout_s)
        finally:
            remove()
            self._forget(run)

    def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path,
        timeout_s: float | None,
        owner: str,
        env: Mapping[str, str] | None = None,
        command_id: str | None = None,
        writable: bool = True,
        check: bool = False,
        keep_output: bool = False,
        started: Callable[[ProcessMark], object] = _ignore,
        on_output: Callable[[str], object] | None = None,
        on_finished: Callable[[Finished], object] = _ignore,
    ) -> str:
        """As `run`, in the background: returns the command's id at once, and calls back in a thread of its own."""
        run = self._launch(command, cwd, owner, env, command_id, writable, check, keep_output, on_output, started)
        name = f"command {run.command_id}"
        threading.Thread(target=lambda: on_finished(run.go(timeout_s)), name=name, daemon=True).start()
        return run.command_id

    def progress(self, command_id: str) -> Progress:
        """How a command stands. Raises `Refused` for one that is unknown, or was forgotten with its owner's."""
        run = self._find(command_id)
        return Progress(
            command_id=run.command_id,
            owner=run.owner,
            text=run.finished.text if run.finished else run.output.text(),
            output_id=run.output.id,
            finished=run.finished,
        )

    def running(self, owner: str | None = None) -> tuple[str, ...]:
        """The ids of the commands that run now: of one owner, or of all."""
        with self._lock:
            runs = tuple(self._runs.values())
        return tuple(run.command_id for run in runs if not run.over.is_set() and (owner is None or owner == run.owner))

    def stop(self, command_id: str, why: str = "stopped") -> Progress:
        """End a command's whole tree and wait until it is gone. One that has ended stays as it ended."""
        run = self._find(command_id)
        self._stop([run], why)
        return self.progress(command_id)

    def stop_all(self, owner: str, why: str = "stopped") -> None:
        """End every command of `owner`, wait until they are gone, and forget them."""
        with self._lock:
            runs = [run for run in self._runs.values() if run.owner == owner]
        self._stop(runs, why)
        for run in runs:
            self._forget(run)

    def close(self) -> None:
        """End every command and the spawner. Nothing can be run afterwards."""
        with self._lock:
            self._closed = True
            runs = list(self._runs.values())
        self._stop(runs, "the host ends")
        self._launcher.close()

    def _stop(self, runs: Iterable[_Run], why: str) -> None:
        runs = list(runs)
        for run in runs:
            run.stop(why)
        limit = time.monotonic() + 2 * _GRACE_S
        for run in runs:
            if not run.over.wait(max(0.0, limit - time.monotonic())):
                self._report(f"command {run.command_id}: does not end")

    def _launch(
        self,
        command: str | Sequence[str],
        cwd: Path,
        owner: str,
        env: Mapping[str, str] | None,
        command_id: str | None,
        writable: bool,
        check: bool,
        keep_output: bool,
        on_output: Callable[[str], object] | None,
        started: Callable[[ProcessMark], object],
    ) -> _Run:
        """A command behind its gate, recorded by `started`."""
        command_id = self._id(command_id, owner)
        built = environment(command_id, ceiling=self._ceiling, extra=env, base=self._base)
        argv = _argv(command, built["PATH"])
        if not cwd.is_dir():
            raise Refused(f"there is no folder {cwd}")
        boxed = self.sandbox.wrap(argv, cwd=cwd, env=built, writable=writable, check=check)
        launched = self._launcher.launch(command_id, boxed, cwd=cwd)
        try:
            output = Output(self.output_dir, command_id, keep=keep_output, on_text=on_output)
            run = _Run(launched, output, owner, self._report)
            with self._lock:
                if self._closed:
                    raise Refused("the host ends: no command is started any more")
                if command_id in self._runs:
                    raise Refused(f"a command {command_id} runs already")
                self._runs[command_id] = run
            try:
                started(launched.mark)
            except BaseException:
                self._forget(run)
                output.finish()
                raise
            return run
        except BaseException:
            launched.close()
            raise

    def _id(self, command_id: str | None, owner: str) -> str:
        return check_output_id(command_id or f"{owner or 'command'}.{secrets.token_hex(6)}")

    def _find(self, command_id: str) -> _Run:
        with self._lock:
            if run := self._runs.get(command_id):
                return run
            known = ", ".join(self._runs) or "none"
        raise Refused(f"there is no command {command_id[:80]!r}. There are: {known}")

    def _forget(self, run: _Run) -> None:
        with self._lock:
            self._runs.pop(run.command_id, None)


def _argv(command: str | Sequence[str], path: str) -> list[str]:
    if isinstance(command, str):
        if not command.strip():
            raise Refused("the command is empty")
        shell = shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"
        command = [shell, "-c", command]
    if not command or any("\0" in each for each in command):
        raise Refused("a command is at least one word, and has no NUL in it")
    return list(command)

"""The host's side of the spawner: start it, ask it for a command, talk with the command's warden."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from coterie.errors import EnvironmentFault
from coterie.teammates.processes import descendants, end_tree, process
from coterie.teammates.sandbox import Boxed
from coterie.teammates.spawner import BOOTSTRAP

__all__ = ["CommandNotStarted", "Ended", "Launched", "Launcher", "ProcessMark"]

_ANSWER_S = 30.0  # how long a loaded machine may take to fork a process


class CommandNotStarted(EnvironmentFault):
    """The command could not be started: the machine has no room for another process."""


class ProcessMark(BaseModel):
    """What tells a command's process from every other, also after the host died or the machine was restarted."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    command_id: str
    pid: int
    start: int  # clock ticks since boot, from /proc (macOS: seconds since 1970)
    boot: str  # the boot's id


@dataclass(frozen=True)
class Ended:
    """How a command ended, in its warden's words."""

    exit_code: int | None  # as a shell has it; None if it was ended from outside
    timed_out: bool
    killed: bool
    left: tuple[int, ...] = ()  # pids that could not be ended
    lost: bool = False  # the warden was killed before it could say anything


class Launched:
    """A command that waits for `go`, or runs, or has ended. Closing it ends it.

    `kill` may be called from any thread and never blocks; the rest belongs to one thread.
    """

    def __init__(self, mark: ProcessMark, warden: int, output: int, channel: socket.socket, begun: bytes) -> None:
        self.mark = mark
        self.output = output  # what the command prints
        self.channel = channel  # readable when `ended` has something to say
        self._warden = warden
        self._begun = begun
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def go(self, timeout_s: float | None) -> None:
        """Open the gate. The time limit counts from now."""
        self._say({"go": timeout_s})

    def kill(self) -> None:
        """End the whole tree."""
        self._say({"kill": True})

    def _say(self, what: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):  # gone or full of the same: it ends anyway
            self.channel.send(json.dumps(what).encode() + b"\n", socket.MSG_DONTWAIT)

    def ended(self) -> Ended | None:
        """How it ended, once `channel` is readable; None if only a part of the answer is there."""
        try:
            data = self.channel.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            return Ended(None, timed_out=False, killed=False, lost=True)
        self._begun += data
        if b"\n" not in self._begun:
            return None
        said = json.loads(self._begun)
        code = said["exit"]
        return Ended(
            exit_code=128 - code if code is not None and code < 0 else code,
            timed_out=said["timed_out"],
            killed=said["killed"],
            left=tuple(said["left"]),
        )

    def end_by_force(self) -> list[int]:
        """End warden and tree without the warden's help. Returns the pids that are still there."""

        def tree() -> dict[int, Any]:
            warden = process(self._warden)
            main = process(self.mark.pid)
            roots = {}
            if warden is not None and not warden.dead:
                roots[self._warden] = warden
            if main is not None and not main.dead and main.start == self.mark.start:
                roots[self.mark.pid] = main
            return descendants(roots) | roots

        return end_tree(tree)

    def close(self) -> None:
        """Let go of it; if it still runs, its warden sees that and ends it."""
        with self._lock:
            self.channel.close()
            if self.output >= 0:
                os.close(self.output)
                self.output = -1


class Launcher:
    """One spawner process, started when it is first needed and again if it was killed. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spawner: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def launch(self, command_id: str, boxed: Boxed, *, cwd: Path) -> Launched:
        """Prepare a command behind its gate. Raises `CommandNotStarted`."""
        said: dict[str, Any] = {
            "argv": boxed.argv,
            "cwd": str(cwd),
            "env": boxed.env,
            "files": [base64.b64encode(each).decode() for each in boxed.files],
            "limits": dict(boxed.limits),
        }
        output, written = os.pipe()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                try:
                    self._ask([written, theirs.fileno()])
                finally:
                    os.close(written)
            ours.settimeout(_ANSWER_S)
            ours.sendall(json.dumps(said).encode() + b"\n")
            answer = b""
            while b"\n" not in answer:
                data = ours.recv(1 << 16)
                if not data:
                    raise CommandNotStarted
                answer += data
            line, _, rest = answer.partition(b"\n")
            said = json.loads(line)
            if "error" in said:
                raise CommandNotStarted(f"the command could not be started: {said['error']}")
            ours.settimeout(None)
            mark = ProcessMark(command_id=command_id, pid=said["pid"], start=said["start"], boot=said["boot"])
            return Launched(mark, said["warden"], output, ours, rest)
        except BaseException as error:
            ours.close()
            os.close(output)
            if isinstance(error, OSError):
                raise CommandNotStarted(f"the command could not be started: {error}") from None
            raise

    def _ask(self, descriptors: list[int]) -> None:
        with self._lock:
            for attempt in (1, 2):
                if self._socket is None or self._spawner is None or self._spawner.poll() is not None:
                    self._start()
                assert self._socket is not None
                try:
                    socket.send_fds(self._socket, [b"+"], descriptors)
                    return
                except OSError:
                    if attempt == 2:
                        raise
                    self._stop()

    def _start(self) -> None:
        self._stop()
        ours, theirs = socket.socketpair()
        folder = str(Path(__file__).resolve().parent)
        with theirs:
            self._spawner = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOTSTRAP, folder, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._spawner is not None:
            try:
                self._spawner.wait(15)
            except subprocess.TimeoutExpired:  # something cannot be ended; recovery will name it
                self._spawner.kill()
                self._spawner.wait()
            self._spawner = None

    @property
    def pid(self) -> int | None:
        """The spawner's pid, None while there is none."""
        return self._spawner.pid if self._spawner else None

    def close(self) -> None:
        """End the spawner, and with it every command."""
        with self._lock:
            self._stop()

"""The parent of one command: starts it at a word of the host, and ends its whole tree. See `spawner` for the picture.

The host and a warden exchange one JSON object a line:

    host    {"argv", "cwd", "env", "files", "limits"}    {"go": seconds or null}    {"kill": true}, at any time
    warden  {"pid", "start", "boot", "warden"} or {"error"}      {"exit", "timed_out", "killed", "left": [pids]}

`files` are contents in base64: unnamed files that the command finds open from descriptor FIRST_FILE on, so that they
stand in no argument and no folder. `limits` are those of `resource`, by name. `exit` is None if the command was ended
by its limit or by the host, and negative for a signal of its own making.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

from coterie.teammates.processes import LINUX, Process, boot_id, descendants, end_tree, process

__all__ = ["FIRST_FILE", "be", "become_reaper", "child_events", "drain", "warden"]

LINGER_S = 0.1  # what a command's children get to finish by themselves (`cmd > >(tee log)`) once it has ended

FIRST_FILE = 3

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_reaper() -> None:
    """Be the parent of every descendant whose parent dies (Linux; elsewhere nothing)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def child_events() -> int:
    """A descriptor that becomes readable whenever a child has ended or was stopped."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def drain(descriptor: int) -> None:
    """Take what a descriptor of `child_events` holds."""
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


def be(act: Callable[..., None], *given: Any) -> NoReturn:
    """Be a forked child: do it, and leave without the parent's clean-up."""
    code = 1
    try:
        act(*given)
        code = 0
    finally:
        os._exit(code)


class _Lines:
    """JSON objects, one a line, from a socket that is also waited on with `select`."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._begun = b""

    def read(self) -> list[dict[str, Any]] | None:
        """What one read brings, which may be nothing yet; None when the other side is gone."""
        try:
            data = self._end.recv(1 << 16)
        except ConnectionError:
            return None
        if not data:
            return None
        *lines, self._begun = (self._begun + data).split(b"\n")
        return [json.loads(line) for line in lines]


def warden(output: int, host: socket.socket, life: int) -> None:
    """Start one command, watch it, end its tree, say how it went. Leaves by an error if something was left."""
    become_reaper()
    children = child_events()
    lines = _Lines(host)
    said: list[dict[str, Any]] = []
    while not said:
        more = lines.read()
        if more is None:
            return
        said += more
    gate, opened = os.pipe()
    try:
        main = os.fork()
    except OSError as error:
        _tell(host, {"error": f"cannot fork: {os.strerror(error.errno or 0)}"})
        return
    if main == 0:
        os.close(opened)
        signal.set_wakeup_fd(-1)
        be(command, said[0], output, gate)
    os.close(output)
    os.close(gate)
    status: int | None = None

    def reap() -> bool:
        nonlocal status
        while True:
            try:
                pid, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not LINUX  # there, no child left means that nothing of the tree is
            if pid == 0:
                return True
            if pid == main:
                status = ended

    def tree() -> dict[int, Process]:
        if not reap():
            return {}
        return descendants([os.getpid()] if LINUX or status is None else [os.getpid(), main])

    def pause(seconds: float) -> None:
        select.select([children], [], [], seconds)
        drain(children)

    started = process(main)
    boot = boot_id()
    _tell(host, {"pid": main, "start": started.start if started else 0, "boot": boot, "warden": os.getpid()})
    watched: list[Any] = [host, life, children]
    deadline: float | None = None
    killed = timed_out = False
    said = said[1:]
    while status is None and not killed and not timed_out:
        for each in said:
            if "kill" in each:
                killed = True
            elif "go" in each and not killed:  # both may have come in one piece
                deadline = None if each["go"] is None else time.monotonic() + each["go"]
                os.write(opened, b"g")
        said = []
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(watched, [], [], 0 if killed else wait)
        if host in ready:
            more = lines.read()
            killed = killed or more is None
            said = more or []
        killed = killed or life in ready
        if children in ready:
            drain(children)
            reap()
        timed_out = not killed and status is None and deadline is not None and time.monotonic() >= deadline
    if status is not None and reap():
        linger = time.monotonic() + LINGER_S
        while reap() and (left_s := linger - time.monotonic()) > 0:
            pause(left_s)
    code = os.waitstatus_to_exitcode(status) if status is not None and not timed_out and not killed else None
    left = end_tree(tree, pause=pause)
    _tell(host, {"exit": code, "timed_out": timed_out, "killed": killed, "left": left})
    if left:
        raise SystemExit(1)


def _tell(host: socket.socket, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the host is gone, and what it was to hear with it
        host.sendall(json.dumps(what).encode() + b"\n")


def command(request: dict[str, Any], output: int, gate: int) -> None:
    """Become the command, once the gate opens: own session, no terminal, no input, no descriptor but output."""
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if not os.read(gate, 1):
        return
    os.closerange(3, 1 << 16)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        for content in request["files"]:  # everything above 2 is closed, so they get the numbers in order
            handle = os.memfd_create("given", 0)
            data = memoryview(base64.b64decode(content))
            while data:
                data = data[os.write(handle, data) :]
            os.lseek(handle, 0, os.SEEK_SET)
        for name, most in request["limits"].items():
            which = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))
        os.chdir(request["cwd"])
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except (OSError, ValueError) as error:
        os.write(2, f"cannot run {request['argv'][0]!r} in {request['cwd']!r}: {error}\n".encode(errors="replace"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)

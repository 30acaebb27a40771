"""Whether a command of a team started this process: what decides and steers is for people, outside of them."""

from __future__ import annotations

import os
from pathlib import Path

from coterie.teammates.processes import LINUX, process
from coterie.teammates.spawner import BOOTSTRAP

__all__ = ["command_above"]

MARK = "COTERIE_COMMAND"
_SPAWNER = BOOTSTRAP.splitlines()[0].encode()


def command_above() -> str | None:
    """In words, what shows that this process was started by a command of some team; None if nothing does.

    Two proofs. The mark that each command gets in its environment, in this process or one above it. And the process
    that starts commands, above this one: it is told by its own arguments, and as it and each command's warden take in
    what loses its parent, neither an emptied environment nor setsid nor a double fork leads out from under it.

    Not promised: anything about a command that killed its warden and the spawner first, or that hid them from itself in
    a process namespace of its own: a sandbox keeps it from both.
    Without /proc (macOS) the mark in this process alone is looked at.
    """
    if command := os.environ.get(MARK):
        return f"{MARK}={command[:80]}"
    if not LINUX:
        return None
    pid, seen = os.getppid(), set[int]()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        if _SPAWNER in _read(pid, "cmdline").split(b"\n")[0].split(b"\0"):
            return f"pid {pid} above it starts the commands of a team"
        for entry in _read(pid, "environ").split(b"\0"):
            if entry.startswith(f"{MARK}=".encode()):
                return f"{entry.decode('utf-8', 'replace')[:100]} in pid {pid} above it"
        found = process(pid)
        pid = found.parent if found is not None else 0
    return None


def _read(pid: int, name: str) -> bytes:
    """What /proc says of a process; nothing where it is gone, or another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

"""The process table, and how a tree of processes is ended. Standard library only: the spawner uses it too."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

__all__ = ["Process", "boot_id", "descendants", "end_tree", "is_alive", "process", "processes", "send_signal"]

PATIENCE_S = 5.0  # how long a killed tree may take to vanish before its pids are told as left

LINUX = sys.platform == "linux"


class Process(NamedTuple):
    """A line of the process table. `start` counts clock ticks since boot (macOS: seconds since 1970)."""

    parent: int
    group: int
    session: int
    start: int
    dead: bool  # it has ended and waits for its parent to ask


def boot_id() -> str:
    """What tells this boot of the machine from every other, so that pids are comparable at all."""
    if LINUX:
        return _read("/proc/sys/kernel/random/boot_id").decode().strip()
    return _ask("sysctl", "-n", "kern.boottime")


def process(pid: int) -> Process | None:
    """The process `pid`, or None if there is none."""
    if not LINUX:
        return processes().get(pid)
    try:
        # the name in parentheses may hold spaces and parentheses itself
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Process(int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0] in b"ZX")


def processes() -> dict[int, Process]:
    """Every process that can be seen now, by pid."""
    if LINUX:
        with os.scandir("/proc") as entries:
            found = {int(each.name): process(int(each.name)) for each in entries if each.name.isdigit()}
        return {pid: each for pid, each in found.items() if each}
    table: dict[int, Process] = {}
    for line in _ask("ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart=").splitlines():
        pid, parent, group, state, started = line.split(None, 4)
        start = int(time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y")))
        table[int(pid)] = Process(int(parent), int(group), int(group), start, "Z" in state)
    return table


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 4096)
    finally:
        os.close(handle)


def _ask(*argv: str) -> str:
    import subprocess  # only where there is no /proc: it is slow to import

    return subprocess.run(argv, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, capture_output=True,
                          text=True, check=False).stdout.strip()  # fmt: skip


def is_alive(pid: int, start: int) -> bool:
    """Whether the process that had this pid and start still runs. A namesake that came later does not count."""
    found = process(pid)
    return found is not None and found.start == start and not found.dead


def descendants(roots: Iterable[int], table: dict[int, Process] | None = None) -> dict[int, Process]:
    """What runs below `roots`, without them. Where there are no subreapers: also what shares a group with them."""
    table = processes() if table is None else table
    children: dict[int, list[int]] = {}
    for pid, each in table.items():
        children.setdefault(each.parent, []).append(pid)
        if not LINUX and each.group != pid:
            children.setdefault(each.group, []).append(pid)
    roots = set(roots)
    found: dict[int, Process] = {}
    queue = list(roots)
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in found and pid not in roots:
                found[pid] = table[pid]
                queue.append(pid)
    return {pid: each for pid, each in found.items() if not each.dead}


def send_signal(pid: int, start: int, number: int) -> None:
    """Signal the process with this pid and start, and no later one that was given the same pid."""
    try:
        if sys.platform != "linux":
            os.kill(pid, number)
            return
        handle = os.pidfd_open(pid)
        try:
            found = process(pid)
            if found is not None and found.start == start:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except (ProcessLookupError, PermissionError):
        pass  # gone, which is what was wanted; or another user's, which the caller finds still alive


def end_tree(
    find: Callable[[], dict[int, Process]],
    *,
    patience_s: float = PATIENCE_S,
    pause: Callable[[float], object] = time.sleep,
) -> list[int]:
    """Stop, then kill, everything that `find` finds, again and again until it finds nothing.

    Stopped first, because a tree that is killed one by one can fork faster than it dies. Returns the pids that were
    still there after `patience_s` seconds; `pause(seconds)` waits between two looks and may end early.
    """
    give_up = time.monotonic() + patience_s
    delay = 0.001
    while tree := find():
        stopped: set[tuple[int, int]] = set()
        for _ in range(50):
            new = {(pid, each.start) for pid, each in tree.items()} - stopped
            if not new:
                break
            for pid, start in new:
                send_signal(pid, start, signal.SIGSTOP)
            stopped |= new
            tree = find()
        for pid, start in stopped:
            send_signal(pid, start, signal.SIGKILL)
        if time.monotonic() > give_up:
            return sorted(find())
        pause(delay)
        delay = min(delay * 2, 0.05)
    return []

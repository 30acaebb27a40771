"""What the commands of a dead host left running: found by proof, ended whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from coterie.teammates.launcher import ProcessMark
from coterie.teammates.processes import LINUX, Process, boot_id, descendants, end_tree, processes

__all__ = ["find_leftovers", "kill_leftovers"]


_SETTLE_S = 0.02  # a process that was just becoming another program had no environment to be read


def kill_leftovers(
    marks: Iterable[ProcessMark], *, unproved: Callable[[ProcessMark, str], object] = lambda mark, reason: None
) -> list[ProcessMark]:
    """End whatever still runs of the commands that `marks` name; the marks of which something did. Safe to run again.

    A process is theirs if pid, start time and boot are those of a mark, if the environment it was started with carries
    the id of one, or if it is below such a process; nothing else is touched, and never this process or one above it.
    `unproved(mark, reason)` is called for what could not be ended, and for what sits in the session of a command
    without being provably of it. Not promised: to find a process that emptied its environment and left its session
    before its whole family died.
    """
    boot = boot_id()
    ours = [mark for mark in marks if mark.boot == boot]  # nothing survives a restart of the machine
    if not ours:
        return []
    spared = _above()
    seen: dict[int, ProcessMark] = {}

    def find() -> dict[int, Process]:
        found = _running(ours, spared)
        seen.update({pid: mark for pid, (_, mark) in found.items()})
        return {pid: each for pid, (each, _) in found.items()}

    end_tree(find)
    time.sleep(_SETTLE_S)
    left = end_tree(find)
    for pid in left:
        unproved(seen[pid], f"command {seen[pid].command_id}: process {pid} cannot be ended")
    for pid, each in processes().items():
        for mark in ours:
            if each.session == mark.pid and each.start >= mark.start and not each.dead and pid not in left:
                unproved(mark, f"command {mark.command_id}: process {pid} is in its session, not provably its own")
    return [mark for mark in ours if any(seen[pid] is mark for pid in seen if pid not in left)]


def find_leftovers(marks: Iterable[ProcessMark]) -> list[tuple[ProcessMark, list[int]]]:
    """What `kill_leftovers` would end, by the same proof: the marks of which something runs, with its pids."""
    boot = boot_id()
    ours = [mark for mark in marks if mark.boot == boot]
    pids: dict[str, list[int]] = {}
    for pid, (_, mark) in sorted(_running(ours, _above()).items() if ours else ()):
        pids.setdefault(mark.command_id, []).append(pid)
    by_id = {mark.command_id: mark for mark in ours}
    return [(by_id[command], found) for command, found in pids.items()]


def _running(ours: list[ProcessMark], spared: set[int]) -> dict[int, tuple[Process, ProcessMark]]:
    """The processes that are provably of these marks, by pid."""
    by_id = {mark.command_id: mark for mark in ours}
    table = processes()
    roots: dict[int, ProcessMark] = {}
    for mark in ours:
        if mark.pid in table and table[mark.pid].start == mark.start:
            roots[mark.pid] = mark
    for pid in table:
        if marked := by_id.get(_command_of(pid)):
            roots[pid] = marked
    found: dict[int, tuple[Process, ProcessMark]] = {}
    for root, mark in roots.items():
        for pid, each in (descendants([root], table) | {root: table[root]}).items():
            if not each.dead and pid not in spared:
                found[pid] = (each, mark)
    return found


def _command_of(pid: int) -> str:
    """The command id in the environment that `pid` was started with; empty if there is none to be read."""
    if not LINUX:
        return ""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    for entry in environ.split(b"\0"):
        if entry.startswith(b"COTERIE_COMMAND="):
            return entry.partition(b"=")[2].decode("utf-8", "replace")
    return ""


def _above() -> set[int]:
    """This process and every one above it."""
    table = processes()
    above = set()
    pid = os.getpid()
    while pid in table and pid not in above:
        above.add(pid)
        pid = table[pid].parent
    return above

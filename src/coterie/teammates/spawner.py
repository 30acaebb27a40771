"""The process that starts commands for a host, and watches that they end.

    host ──socket──> spawner ──fork──> warden ──fork──> the command, in a session of its own
      └───────────────socket───────────┘ └─ everything the command leaves behind is the warden's child

Why not from the host itself: a host has many threads, and a fork of such a process may only exec. The spawner has one
thread, imports nothing but the standard library, and starts with an empty environment, so that what a command finds
in the `/proc` entries of its parents is empty too.

What is promised, on Linux:

* A warden is the reaper of its descendants (`PR_SET_CHILD_SUBREAPER`): neither `setsid` nor `nohup` nor a double fork
  takes a process out of its tree. The tree is stopped and killed whole when the command ends, at its time limit,
  when the host says so, when the host is gone and when the spawner is gone: both are seen as the end of a pipe.
* A command waits at a gate until the host said go, so that the host can write down first what it starts. Whoever dies
  before that leaves nothing running.
* If a warden is killed, its tree is handed to the spawner, which ends it. A warden that was stopped is continued.

Not promised: that a process which is stuck in the kernel, or runs as another user, can be ended (its pid is told); nor
that anything is left to watch if one command kills warden, spawner and host at the same instant. The mark in a
command's environment is for that case. Without `/proc` and subreapers (macOS) a tree is the process group: best effort.

The host sends the spawner one byte with two descriptors: where the output goes, and the warden's end of a socket. All
the rest is between host and warden.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import Any

from coterie.teammates.processes import PATIENCE_S, Process, descendants, end_tree, processes
from coterie.teammates.warden import be, become_reaper, child_events, drain, warden

__all__ = ["BOOTSTRAP", "serve"]

_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

# `python -I -S -c BOOTSTRAP <folder of this file> <descriptor>`. The packages above this module are stood in for, so
# that importing it runs none of their code: the spawner is there within milliseconds and holds nothing of the host.
BOOTSTRAP = """\
# the spawner of coterie
import sys, types
for name in ("coterie", "coterie.teammates"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1]]
from coterie.teammates.spawner import serve
serve(int(sys.argv[2]))
"""


def serve(descriptor: int) -> None:
    """Fork a warden for each byte that the host sends; end everything when the host is gone."""
    host = socket.socket(fileno=descriptor)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C is the host's to handle
    become_reaper()
    children = child_events()
    life, held_open = os.pipe()  # wardens read: it ends when this process does
    wardens: set[int] = set()

    def tree() -> dict[int, Process]:
        _reap_wardens(wardens)
        return descendants([os.getpid()])

    def orphans() -> dict[int, Process]:
        _reap_wardens(wardens)
        table = processes()
        below = descendants([os.getpid()], table)
        kept = descendants(wardens, table)
        return {pid: each for pid, each in below.items() if pid not in kept and pid not in wardens}

    watched: list[Any] = [host, children]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if children in ready:
            drain(children)
            if _reap_wardens(wardens):
                end_tree(orphans)
        if host in ready:
            said, descriptors, _, _ = socket.recv_fds(host, 1, 2, _CLOEXEC)
            if not said:
                break
            try:
                pid = os.fork() if len(descriptors) == 2 else -1
            except OSError:
                pid = -1  # the host sees its socket close
            if pid == 0:
                os.close(held_open)
                host.close()
                signal.set_wakeup_fd(-1)
                be(warden, descriptors[0], socket.socket(fileno=descriptors[1]), life)
            if pid > 0:
                wardens.add(pid)
            for each in descriptors:
                os.close(each)
    os.close(held_open)
    give_up = time.monotonic() + PATIENCE_S
    while wardens and time.monotonic() < give_up:  # each has seen the end of two pipes and ends its own tree
        _reap_wardens(wardens)
        select.select([children], [], [], 0.05)
        drain(children)
    end_tree(tree)


def _reap_wardens(wardens: set[int]) -> bool:
    """Take what ended off the list, continue what was stopped. True if a warden died before its tree was ended."""
    killed = False
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return killed
        if pid == 0:
            return killed
        if not os.WIFSTOPPED(status):
            killed = killed or (pid in wardens and status != 0)
            wardens.discard(pid)
        elif pid in wardens:
            os.kill(pid, signal.SIGCONT)  # its command stopped it, and would outlive its limit

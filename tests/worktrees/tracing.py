"""Runs a program and kills it, with all it started, just before its n-th change of the file system. Linux only.

usage: tracing.py N LOG PROGRAM ARGUMENT …    N: which change; 0: none, only count. To LOG goes a line with the count.
Ends as the program ends; with 75 if it was killed, with 76 where the system does not let one process trace another.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from pathlib import Path

TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
OPTIONS = 1 | 2 | 4 | 8 | 16 | 0x100000  # good syscall stops; fork, vfork, clone, exec; all die with the tracer
KILLED, REFUSED = 75, 76
# by machine: calls that change names; those that open, with the place of their flags; write; ftruncate
CALLS = {
    "x86_64": ({82, 264, 316, 83, 258, 84, 87, 263, 86, 265, 88, 266, 77}, {2: 1, 257: 2}, 1),
    "aarch64": ({38, 276, 34, 35, 37, 36, 46}, {56: 2}, 64),
}

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Info(ctypes.Structure):
    """struct ptrace_syscall_info at the entry of a call."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("ip", ctypes.c_uint64),
        ("sp", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
        ("more", ctypes.c_uint64),
    )


def changes(pid: int) -> bool:
    """Whether the call that `pid` is about to make changes files."""
    info = Info()
    size = libc.ptrace(GET_SYSCALL_INFO, pid, ctypes.sizeof(info), ctypes.addressof(info))
    if size <= 0 or info.op != 1:
        return False
    names, opens, write = CALLS[platform.machine()]
    if info.number in opens:
        return bool(info.arguments[opens[info.number]] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if info.number == write:
        try:
            place = str(Path(f"/proc/{pid}/fd/{info.arguments[0]}").readlink())
        except OSError:
            return False
        return info.arguments[0] > 2 and place.startswith("/") and not place.startswith("/dev/")
    return info.number in names


def trace(argv: list[str], at: int, log: str) -> int:
    child = os.fork()
    if child == 0:
        if libc.ptrace(TRACEME, 0, None, None) != 0:
            os._exit(REFUSED)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execv(argv[0], argv)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status) or libc.ptrace(SETOPTIONS, child, None, OPTIONS) != 0:
        return REFUSED
    count, known = 0, {child}
    libc.ptrace(SYSCALL, child, None, None)
    while True:
        pid, status = os.waitpid(-1, 0x40000000)  # __WALL
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            known.discard(pid)
            if pid == child:
                with Path(log).open("a", encoding="utf-8") as file:
                    file.write(f"{count}\n")
                return os.waitstatus_to_exitcode(status)
            continue
        sent = 0
        stop = os.WSTOPSIG(status)
        if stop == signal.SIGTRAP | 0x80:
            if changes(pid):
                count += 1
                if count == at:
                    for each in known:
                        os.kill(each, signal.SIGKILL)
                    return KILLED
        elif pid not in known:
            known.add(pid)  # it begins with a stop that is nobody's signal
        elif stop not in (signal.SIGTRAP, signal.SIGSTOP):
            sent = stop
        libc.ptrace(SYSCALL, pid, None, sent)


if __name__ == "__main__":
    sys.exit(trace(sys.argv[3:], int(sys.argv[1]), sys.argv[2]))

"""The filter of system calls, as the kernel takes it: a list of BPF instructions, eight bytes each.

seccomp(2), "Filters"; the numbers of the calls are those of asm/unistd_64.h and asm-generic/unistd.h. A call that the
filter refuses fails with an error, so that programs go on without it; a call of a foreign architecture ends the
process, since its numbers mean other calls.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

__all__ = ["program"]

_ALLOW = 0x7FFF0000  # SECCOMP_RET_ALLOW
_ERRNO = 0x00050000  # SECCOMP_RET_ERRNO, the number in the lower half
_KILL = 0x80000000  # SECCOMP_RET_KILL_PROCESS
_LOAD, _EQUAL, _ATLEAST, _ANY, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NR, _ARCH, _FIRST = 0, 4, 16  # offsets in struct seccomp_data; an argument's lower half comes first

_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_CLONE_NEWUSER = 0x10000000
_X32 = 0x40000000


@dataclass(frozen=True)
class _Machine:
    audit: int  # AUDIT_ARCH_*
    socket: int
    clone: int
    unshare: int
    keys: tuple[int, int, int]  # add_key, request_key, keyctl
    io_uring: tuple[int, int, int] = (425, 426, 427)  # setup, enter, register
    clone3: int = 435
    x32: bool = False


_MACHINES = {
    "x86_64": _Machine(audit=0xC000003E, socket=41, clone=56, unshare=272, keys=(248, 249, 250), x32=True),
    "aarch64": _Machine(audit=0xC00000B7, socket=198, clone=220, unshare=97, keys=(217, 218, 219)),
}


def program(*, unix_sockets: bool, namespaces: bool, internet: bool = True, machine: str | None = None) -> bytes:
    """The filter for a machine, this one's if None; empty where its numbers are not known.

    Always refused: io_uring, which does what other calls do past every filter (ENOSYS, as on a kernel without it), and
    the kernel's keys, which no namespace keeps apart (EPERM).
    unix_sockets: False refuses `socket(AF_UNIX, …)` (EPERM); a pair of connected sockets can be had all the same.
    internet: False refuses sockets of the internet's families, for where no namespace of the network is.
    namespaces: False also refuses new user namespaces, for where nothing else does.
    """
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    refused = _ERRNO | errno.EPERM
    missing = _ERRNO | errno.ENOSYS
    code = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, known.audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NR)]
    if known.x32:
        code += [(_ATLEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for number in known.io_uring:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, missing)]
    for number in known.keys:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refused)]
    closed = [] if unix_sockets else [_AF_UNIX]
    for family in closed if internet else [*closed, _AF_INET, _AF_INET6]:
        # not the right call, or not the right family: go on, with the number loaded again
        code += [(_EQUAL, 0, 4, known.socket), (_LOAD, 0, 0, _FIRST), (_EQUAL, 0, 1, family)]
        code += [(_RETURN, 0, 0, refused), (_LOAD, 0, 0, _NR)]
    if not namespaces:
        code += [(_EQUAL, 0, 1, known.clone3), (_RETURN, 0, 0, missing)]  # its flags lie in memory: not to be read here
        code += [(_EQUAL, 1, 0, known.clone), (_EQUAL, 0, 3, known.unshare), (_LOAD, 0, 0, _FIRST)]
        code += [(_ANY, 0, 1, _CLONE_NEWUSER), (_RETURN, 0, 0, refused)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *each) for each in code)

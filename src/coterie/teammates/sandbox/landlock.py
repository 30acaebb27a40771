"""What stands in where bubblewrap cannot run: Landlock, by a program that shuts itself in and becomes the command.

Rights are only ever given to whole folders, and to nothing else of the process: so this is a part of the boundary and
never all of it. `UNCOVERED` says what is missing, and every view repeats it.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from coterie.teammates.sandbox.boundary import Boxed, Level
from coterie.teammates.sandbox.gitview import GitViews
from coterie.teammates.sandbox.rules import Rules
from coterie.teammates.sandbox.seccomp import program
from coterie.teammates.sandbox.toolchains import SYSTEM_FILES, SYSTEM_FOLDERS, toolchains

__all__ = ["Landlock", "abi", "uncovered"]

UNCOVERED = (
    "modes, owners and times of your files can be changed, their names and sizes be seen, other processes be seen in "
    "/proc, git's settings be read as they are, and a worktree's .git be rewritten (no work is done in it then)"
)
_OLDER = "your processes can be signalled and abstract unix sockets be reached"  # before version 6
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

# landlock(7), linux/landlock.h. Run by this Python with the standard library alone; ctypes and no library, since the
# three calls have no names in libc.
_SHIM = r"""
import base64, ctypes, json, os, struct, sys
given = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def call(what, *arguments):
    result = libc.syscall(*arguments) if what != "prctl" else libc.prctl(*arguments)
    if result < 0:
        sys.exit(f"the sandbox cannot be made: {what}: {os.strerror(ctypes.get_errno())}")
    return result
version = given["abi"]
files = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
net = 3 if version >= 4 and not given["network"] else 0
scoped = 3 if version >= 6 else 0
ruleset = struct.pack("QQQ", files, net, scoped)[: 8 if version < 4 else 16 if version < 6 else 24]
reading = 1 | 4 | 8  # execute, read a file, list a folder
only_files = 1 | 2 | 4 | (1 << 14) | (1 << 15)
for capability in range(64):
    libc.prctl(24, capability, 0, 0, 0)  # root's; refused where there is none to drop
libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24))
call("prctl", 38, 1, 0, 0, 0)  # no new privileges: nor does a program of root's bring any back
handle = call("landlock_create_ruleset", 444, ruleset, ctypes.c_size_t(len(ruleset)), 0)
for paths, rights in ((given["read"], reading), (given["write"], files)):
    for path in paths:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = rights & files & (only_files if not os.path.isdir(path) else files)
        call("landlock_add_rule", 445, handle, 1, struct.pack("=Qi", allowed, opened), 0)
        os.close(opened)
call("landlock_restrict_self", 446, handle, 0)
os.close(handle)
code = base64.b64decode(given["filter"])
if code:
    held = ctypes.create_string_buffer(code)
    call("prctl", 22, 2, struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(held)), 0, 0)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    print(f"cannot run {sys.argv[2]!r}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""


def abi() -> int:
    """The version of Landlock that this kernel has; 0 if none."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(444, None, ctypes.c_size_t(0), 1)))
    except (OSError, AttributeError):
        return 0


class Landlock:
    """Commands shut in by Landlock: never more than a part of the boundary."""

    read_only_possible = True

    def __init__(self, version: int, rules: Rules, views: GitViews, *, detail: str = "") -> None:
        self.level = Level.PARTIAL
        self.detail = detail
        self.rules = rules
        self._version = version
        self._views = views

    def wrap(self, argv: list[str], *, cwd: Path, env: Mapping[str, str], writable: bool, check: bool) -> Boxed:
        seen, space = self._views.space_of(cwd)
        rules = self.rules
        tools = toolchains(env["PATH"], home=rules.home, hidden=rules.hidden, closed=rules.closed)
        network = rules.has_network(check=check)
        reads = [*SYSTEM_FOLDERS, *(f"/etc/{name}" for name in SYSTEM_FILES), "/proc", "/etc/resolv.conf"]
        reads += [str(each) for each in (*tools.roots.values(), *rules.read_only, seen.common_dir, *seen.alternates)]
        writes = [str(each) for each in (space.temporary, space.home)] + [*_DEVICES, "/dev/shm"]
        (writes if writable else reads).append(str(cwd))
        filter_ = program(unix_sockets=rules.unix_sockets, namespaces=False, internet=network)
        given = {
            "abi": self._version,
            "network": network,
            "read": reads,
            "write": writes,
            "filter": base64.b64encode(filter_).decode(),
        }
        shim = [os.path.realpath(sys.executable), "-I", "-S", "-c", _SHIM, json.dumps(given), *argv]
        inner = tools.variables | dict(env) | {"HOME": str(space.home), "TMPDIR": str(space.temporary)}
        inner["GIT_CONFIG_NOSYSTEM"] = "1"  # it may hold what is secret, and git fails where it cannot read it
        return Boxed(shim, inner, (), rules.limits.of_process())


def uncovered(version: int) -> str:
    """What Landlock of this version does not keep, in words."""
    return UNCOVERED if version >= 6 else f"{UNCOVERED}; {_OLDER}"

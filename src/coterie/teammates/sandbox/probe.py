"""Whether the boundary holds, found out by trying from inside what it has to refuse. Nothing is assumed."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import CoterieError
from coterie.teammates.commands import Commands
from coterie.teammates.sandbox.boundary import Level, NoSandbox, Sandbox
from coterie.teammates.sandbox.bubblewrap import Bubblewrap
from coterie.teammates.sandbox.environment import environment
from coterie.teammates.sandbox.gitview import GitViews
from coterie.teammates.sandbox.landlock import Landlock, abi, uncovered
from coterie.teammates.sandbox.rules import Rules
from coterie.teammates.sandbox.seatbelt import PROGRAM, Seatbelt
from coterie.worktrees import Git, View

__all__ = ["Found", "attempt", "find"]

PATIENCE = 30.0  # seconds: what takes longer has failed

# Run inside: prints what it could do of what it must not be able to, and what it could not of what it has to.
_INSIDE = r"""
import ctypes, errno, json, os, socket, sys
given = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
broken = []
def must_fail(what, act):
    try:
        act()
    except OSError:
        return
    broken.append("it " + what)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def write(path):
    with open(path, "w") as file:
        file.write("x")
def read(path):
    with open(path) as file:
        file.read()
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as end:
        end.settimeout(5)
        end.connect(address)
def remount():
    for place in given["read_only"]:
        if libc.mount(None, place.encode(), None, 32 | 4096, None) == 0:
            return
    raise OSError("refused")
def unshare():
    if os.fork() == 0:
        os._exit(0 if libc.unshare(0x10000000) == 0 else 1)
    if os.wait()[1] != 0:
        raise OSError("refused")
must_fail("wrote outside", lambda: write(given["outside"] + "/written"))
must_fail("read a file outside", lambda: read(given["secret"]))
must_fail("wrote where it may only read", lambda: write(given["read_only"][0] + "/written"))
must_fail("mounted something anew", remount)
must_fail("wrote after that where it may only read", lambda: write(given["read_only"][0] + "/written"))
must_fail("made a user namespace", unshare)
must_fail("signalled the host's process", lambda: os.kill(given["pid"], 0))
must_fail("used io_uring", lambda: call(425, 8, ctypes.create_string_buffer(256)))
if given["tcp"]:
    must_fail("connected to the host's loopback", lambda: connect(socket.AF_INET, ("127.0.0.1", given["tcp"])))
if given["unix"]:
    must_fail("connected to a unix socket of the host", lambda: connect(socket.AF_UNIX, "\0" + given["unix"]))
with open("/proc/self/status") as file:
    capable = [line.split()[1] for line in file if line.startswith(("CapEff", "CapPrm"))]
if any(int(each, 16) for each in capable):
    broken.append("it has capabilities")
names = set()
for each in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{each}/environ", "rb") as file:
            names |= {entry.partition(b"=")[0].decode() for entry in file.read().split(b"\\0") if entry}
    except OSError:
        pass
if more := sorted(names - set(given["names"])):
    broken.append("it read of the host's environment: " + ", ".join(more[:3]))
lacking = []
for place in (given["worktree"], os.environ.get("TMPDIR", "/tmp")):
    try:
        write(place + "/written")
    except OSError as error:
        lacking.append(f"writing in {place}: {error}")
try:
    socket.socketpair()[0].close()
except OSError as error:
    lacking.append(f"a pair of sockets: {error}")
print("\n" + json.dumps([broken, lacking]))
"""


@dataclass(frozen=True)
class Found:
    """The strongest boundary that can be had on this machine, at the level that was found by trying."""

    level: Level
    detail: str  # for people: what holds, or why nothing does and what to do
    bwrap: str | None = None  # where bubblewrap is
    disable_userns: bool = True  # whether it can keep commands from making user namespaces
    landlock: int = 0  # the version of Landlock that stands in for it
    seatbelt: bool = False  # it is a Mac's

    def sandbox(self, rules: Rules, views: GitViews) -> Sandbox:
        """The boundary itself, for the worktrees of one repository."""
        if self.seatbelt:
            return Seatbelt(rules, views, detail=self.detail)
        if self.landlock:
            return Landlock(self.landlock, rules, views, detail=self.detail)
        if self.bwrap is None:
            return NoSandbox(self.detail)
        return Bubblewrap(
            self.bwrap, rules, views, level=self.level, detail=self.detail, disable_userns=self.disable_userns
        )


def find(rules: Rules, *, path: str | None = None) -> Found:
    """What can be had here for such rules. Never silently a weaker one than before.

    path: where bubblewrap is looked for, PATH if None. What was tried once by this process is not tried again.
    """
    if sys.platform == "darwin" and Path(PROGRAM).exists():
        return _seatbelt()
    if sys.platform != "linux":
        return Found(Level.NONE, f"no sandbox: there is none for {sys.platform} yet")
    bwrap = shutil.which("bwrap", path=path)
    if bwrap is None:
        how = "Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap"
        return _landlock(f"bubblewrap is not installed ({how})")
    return _bubblewrap(bwrap, rules.network == "on", rules.unix_sockets)


@functools.cache
def _seatbelt() -> Found:  # pragma: no cover - there was no Mac to run it on
    """At most a part: what was never run on a Mac by us is not called whole, whatever the attempts say."""
    level, what = attempt(Seatbelt, Rules())
    if level is Level.NONE:
        return Found(Level.NONE, f"no sandbox: sandbox-exec does not work here ({what})")
    more = f"; {what}" if what else ""
    return Found(
        Level.PARTIAL, f"the sandbox holds in part only: its profile for macOS is untested{more}", seatbelt=True
    )


@functools.cache
def _landlock(why: str) -> Found:
    """What is left where bubblewrap does not run."""
    version = abi()
    level, what = attempt(functools.partial(Landlock, version), Rules()) if version else (Level.NONE, "")
    if level is Level.NONE:
        return Found(Level.NONE, f"no sandbox: {why}")
    more = f"; {what}" if what else ""
    detail = f"the sandbox holds in part only: {why}. Landlock stands in, where {uncovered(version)}{more}"
    return Found(Level.PARTIAL, detail, landlock=version)


@functools.cache
def _bubblewrap(bwrap: str, network: bool, unix_sockets: bool) -> Found:
    rules = Rules(network="on" if network else "off", unix_sockets=unix_sockets)
    reasons = []
    for disable_userns in (True, False):  # before 0.8 it does not know how to
        level, what = attempt(functools.partial(Bubblewrap, bwrap, disable_userns=disable_userns), rules)
        if level is Level.FULL:
            detail = "sandbox: commands reach their worktree, and nothing else of yours"
            return Found(level, detail, bwrap, disable_userns)
        if level is Level.PARTIAL:
            return Found(level, f"the sandbox holds in part only: {what}", bwrap, disable_userns)
        reasons.append(what)
    return _landlock(f"bubblewrap does not work here ({reasons[0]}){_cure()}")


def attempt(make: Callable[[Rules, GitViews], Sandbox], rules: Rules) -> tuple[Level, str]:
    """Try the sandbox that `make` makes, in a worktree of a repository that is made up for it: what came of it, and
    what it does not keep, or why it does not work."""
    unix, tcp = socket.socket(socket.AF_UNIX), socket.socket()
    with tempfile.TemporaryDirectory(prefix="coterie-probe-") as name, unix, tcp:
        scratch = Path(name).resolve()
        worktree, outside, read_only = scratch / "trees" / "probe", scratch / "outside", scratch / "read-only"
        for each in (worktree, outside, read_only):
            each.mkdir(parents=True)
        (outside / "secret").touch()
        tcp.bind(("127.0.0.1", 0))
        unix.bind(f"\0{scratch.name}")
        tcp.listen(1)
        unix.listen(1)
        roots = (read_only, *(() if sys.base_prefix == "/usr" else (Path(sys.base_prefix).resolve(),)))
        rules = dataclasses.replace(rules, read_only=roots)
        env = environment("probe")
        networked = rules.network == "on"
        given = {
            "outside": str(outside),
            "secret": str(outside / "secret"),
            "read_only": [str(read_only)],
            "worktree": str(worktree),
            "pid": os.getpid(),
            "tcp": None if networked else tcp.getsockname()[1],
            "unix": None if networked and rules.unix_sockets else scratch.name,
            "names": [*env, "HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"],
        }
        try:
            with Commands(scratch / "output", sandbox=make(rules, _Scratch(worktree, scratch / "git"))) as commands:
                done = commands.run(_attempts(given), cwd=worktree, timeout_s=PATIENCE)
            said = done.text.strip().splitlines() or [""]
            broken, lacking = json.loads(said[-1]) if done.exit_code == 0 else ([], said[-1:])
        except (CoterieError, OSError, ValueError) as error:
            broken, lacking = [], [str(error)]
        if (outside / "written").exists() or (read_only / "written").exists():
            broken = [*broken, "a file outside was written"]
    if lacking:
        return Level.NONE, "; ".join(lacking)[:500]
    return (Level.PARTIAL if broken else Level.FULL), "; ".join(broken)[:500]


def _attempts(given: Mapping[str, object]) -> list[str]:
    """The command that tries: this Python, with the standard library alone."""
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", _INSIDE, json.dumps(given)]


class _Scratch(GitViews):
    """The view of a repository that has nothing in it."""

    def __init__(self, worktree: Path, common: Path) -> None:
        super().__init__(Git(common), lambda path: None)
        metadata = common / "worktrees" / "probe"
        for each in (common / "objects", common / "refs", metadata):
            each.mkdir(parents=True)
        for place in (common / "HEAD", metadata / "HEAD", metadata / "commondir", metadata / "gitdir"):
            place.touch()
        (worktree / ".git").touch()
        self._view = View(
            worktree=worktree,
            metadata=metadata,
            common_dir=common,
            shown=(common / "HEAD", common / "refs"),
            alternates=(),
            config=b"",
            own_config=None,
        )

    def of(self, worktree: Path) -> View:
        return self._view

    def settings(self) -> bytes:
        return b""

    def ignored(self) -> bytes:
        return b""


def _cure() -> str:
    """What a person can do where namespaces are refused, as far as the kernel says why."""

    def said(name: str) -> str:
        try:
            return Path("/proc/sys", name).read_text().strip()
        except OSError:
            return ""

    if said("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            ". AppArmor keeps it from making user namespaces: give it a profile, or "
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if said("kernel/unprivileged_userns_clone") == "0":
        return ". User namespaces are off: sysctl -w kernel.unprivileged_userns_clone=1"
    if said("user/max_user_namespaces") == "0":
        return ". User namespaces are off: sysctl -w user.max_user_namespaces=10000"
    if any(Path(each).exists() for each in ("/.dockerenv", "/run/.containerenv")):
        return (
            ". This is a container, which has to allow namespaces and a new /proc: docker run --security-opt "
            "seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
        )
    return ""

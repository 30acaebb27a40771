"""The boundary on macOS: a profile for sandbox-exec. Written from its documentation and UNTESTED: no Mac was there.

It is never reported as full: see `probe`. sandbox-exec is deprecated by Apple and still there; its language is that of
the profiles in /System/Library/Sandbox/Profiles. Later rules win over earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from coterie.errors import Refused
from coterie.teammates.sandbox.boundary import Boxed, Level
from coterie.teammates.sandbox.gitview import GitViews
from coterie.teammates.sandbox.rules import Rules
from coterie.teammates.sandbox.toolchains import toolchains

__all__ = ["PROGRAM", "Seatbelt", "profile"]

PROGRAM = "/usr/bin/sandbox-exec"
_SYSTEM = (
    *("/bin", "/sbin", "/usr", "/System", "/Library/Apple", "/Library/Developer", "/private/etc/ssl"),
    *("/private/var/db/timezone", "/private/var/select", "/private/etc/hosts", "/private/etc/passwd"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/fd")


def profile(*, reads: Iterable[Path], writes: Iterable[Path], closed: Iterable[Path], network: bool) -> str:
    """The profile: everything is refused but what stands here. closed: in what may be written, what may not."""
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow ipc-posix-sem)",
        '(allow file-read-metadata (literal "/"))',
        f"(allow file-read* {_places([*map(Path, _SYSTEM), *map(Path, _DEVICES), *reads])})",
        f"(allow file-read* file-write* {_places(writes)})",
        f"(allow file-write-data {_places(map(Path, _DEVICES))})",
    ]
    if network:
        lines += ["(allow network-outbound (remote ip))", "(allow network-inbound (local ip))", "(allow network-bind)"]
        lines.append('(allow mach-lookup (global-name "com.apple.dnssd.service"))')
    if refused := list(closed):
        lines.append(f"(deny file-write* {_places(refused)})")
    return "\n".join(lines) + "\n"


def _places(paths: Iterable[Path]) -> str:
    """Paths as the profile's language has them. Raises `Refused` for one that it cannot hold."""
    found = []
    for path in paths:
        text = str(path)
        if any(ord(each) < 32 for each in text):
            raise Refused(f"{text!r} has a control character in it: no sandbox can be made for it")
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        found.append(f'(subpath "{escaped}")')
    return " ".join(found)


class Seatbelt:
    """Commands under sandbox-exec. Not covered: a process table of their own, the end of a tree by the kernel."""

    level = Level.PARTIAL
    read_only_possible = True

    def __init__(self, rules: Rules, views: GitViews, *, detail: str = "") -> None:
        self.detail = detail
        self.rules = rules
        self._views = views

    def wrap(self, argv: list[str], *, cwd: Path, env: Mapping[str, str], writable: bool, check: bool) -> Boxed:
        seen, space = self._views.space_of(cwd)
        rules = self.rules
        tools = toolchains(env["PATH"], home=rules.home, hidden=rules.hidden, closed=rules.closed)
        reads = [*tools.roots.values(), *rules.read_only, seen.common_dir, *seen.alternates]
        writes = [space.home, space.temporary]
        (writes if writable else reads).append(cwd)
        text = profile(
            reads=[each.resolve() for each in reads],
            writes=[each.resolve() for each in writes],
            closed=[cwd.resolve() / ".git"],
            network=rules.has_network(check=check),
        )
        inner = tools.variables | dict(env) | {"HOME": str(space.home), "TMPDIR": str(space.temporary)}
        return Boxed([PROGRAM, "-p", text, *argv], inner, (), rules.limits.of_process())

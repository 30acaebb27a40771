"""The boundary on Linux: bubblewrap, from an empty environment, with everything that is not named left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from coterie.errors import Refused
from coterie.teammates.sandbox.boundary import Boxed, Level
from coterie.teammates.sandbox.gitview import IGNORED, GitViews, front_of_git
from coterie.teammates.sandbox.rules import Rules
from coterie.teammates.sandbox.seccomp import program
from coterie.teammates.sandbox.shown import shown_folders, shown_settings
from coterie.teammates.sandbox.toolchains import SYSTEM_FOLDERS, Toolchains, showable, toolchains, veiled
from coterie.teammates.warden import FIRST_FILE

__all__ = ["HOME", "Bubblewrap"]

HOME = "/run/coterie/home"
PROGRAMS = "/run/coterie/bin"
_SHARED_MEMORY = 1 << 30  # bytes that /dev/shm may hold
_CA_FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")

# Inside, so that only what runs in this sandbox is counted (dash calls it -p, bash -u). Then what the command's
# children get to finish by themselves once it has ended: the end of bubblewrap ends them all.
_RUN = """\
most=$1
shift
[ "$most" = 0 ] || ulimit -p "$most" 2>/dev/null || ulimit -u "$most" 2>/dev/null
"$@"
code=$?
for each in 1 2 3 4 5; do
    set -- /proc/[0-9]*
    [ $# -gt 2 ] || break
    sleep 0.02
done
exit $code
"""


class Bubblewrap:
    """Commands behind namespaces: `wrap` says how. Safe between threads as long as a worktree is used by one.

    cwd has to be a worktree that `views` knows. `disable_userns`: False for a bubblewrap that is too old to know it,
    where the filter of system calls does that instead. Not promised: anything against a fault of the kernel.
    """

    read_only_possible = True

    def __init__(
        self,
        bwrap: str,
        rules: Rules,
        views: GitViews,
        *,
        level: Level = Level.FULL,
        detail: str = "",
        disable_userns: bool = True,
    ) -> None:
        self.level = level
        self.detail = detail
        self.rules = rules
        self._bwrap = bwrap
        self._views = views
        self._disable_userns = disable_userns
        self._toolchains: dict[str, Toolchains] = {}
        self._system = _system()

    def wrap(self, argv: list[str], *, cwd: Path, env: Mapping[str, str], writable: bool, check: bool) -> Boxed:
        seen, space = self._views.space_of(cwd)
        self._views.lay_out(seen, space)
        inner = dict(env)
        tools = self._tools(inner["PATH"])
        given: list[bytes] = []

        def data(content: bytes) -> str:
            given.append(content)
            return str(FIRST_FILE + len(given) - 1)

        mounts = [("--ro-bind", str(real), str(root)) for root, real in tools.roots.items()]
        for root in (*self.rules.read_only, *self._certificates(inner)):
            mounts.append(("--ro-bind", str(root.resolve()), str(root)))
        for path, name in self._views.borrowed(seen):
            mounts.append(("--ro-bind", str(path), name))
        metadata = space.git / "metadata"
        mounts += [("--ro-bind", str(each), str(each)) for each in seen.shown]
        mounts.append(("--bind", str(space.git / "objects"), str(seen.objects)))
        mounts.append(("--ro-bind-data", data(seen.config), str(seen.common_dir / "config")))
        mounts.append(("--bind", str(metadata), str(seen.metadata)))
        for name in ("HEAD", "commondir", "gitdir"):
            mounts.append(("--ro-bind", str(seen.metadata / name), str(seen.metadata / name)))
        mounts.append(("--bind" if writable else "--ro-bind", str(cwd), str(cwd)))
        mounts.append(("--ro-bind-data", data(seen.link), str(cwd / ".git")))
        mounts.append(("--ro-bind-data", data(self._views.settings()), "/etc/gitconfig"))
        mounts.append(("--ro-bind-data", data(self._views.ignored()), IGNORED))
        network = self.rules.has_network(check=check)
        if network:
            mounts.append(("--ro-bind-data", data(_resolver()), "/etc/resolv.conf"))
        front = front_of_git(seen, inner["PATH"])
        if front is not None:
            inner["PATH"] = f"{PROGRAMS}{os.pathsep}{inner['PATH']}"
        inner |= {"HOME": HOME, "TMPDIR": "/tmp"}
        inner = tools.variables | inner

        options = [*_NAMESPACES, *(("--disable-userns",) if self._disable_userns else ())]
        options += ["--share-net"] if network else []
        options += [*self._system, "--ro-bind", str(shown_settings(space.root.parent)), "/etc"]
        for folder in shown_folders():
            options += ["--ro-bind", str(folder), str(folder)]
        options += ["--bind", str(space.temporary), "/tmp", "--bind", str(space.home), HOME]
        firsts = _firsts(target for _, _, target in mounts)
        space.hold(firsts)
        for name in firsts:
            options += ["--tmpfs", f"/tmp/{name}"]
        veils = veiled((*self.rules.hidden, *self.rules.closed))
        for veil in veils:  # before what of it is shown
            options += ["--tmpfs", str(veil)]
        for mount in mounts:
            options += mount
        if front is not None:
            options += ["--perms", "0755", "--ro-bind-data", data(front), f"{PROGRAMS}/git"]
        # /proc too: as root one could write to /proc/sys, which is the machine's and knows no namespace of users
        options += ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]
        for place in (*(f"/tmp/{name}" for name in firsts), *map(str, veils)):
            options += ["--remount-ro", place]
        filter_ = program(unix_sockets=not network or self.rules.unix_sockets, namespaces=self._disable_userns)
        options += ["--seccomp", data(filter_)] if filter_ else []
        options += ["--chdir", str(cwd)]
        for name, value in inner.items():
            options += ["--setenv", name, value]
        most = str(self.rules.limits.processes)
        said = b"".join(os.fsencode(each) + b"\0" for each in options)
        command = [self._bwrap, "--args", data(said), "--", "/bin/sh", "-c", _RUN, "sh", most, *argv]
        # of the outer process only the mark by which what is left of a dead host is found
        outer = {name: env[name] for name in ("COTERIE_COMMAND",) if name in env}
        return Boxed(command, outer, tuple(given), self.rules.limits.of_process())

    def _certificates(self, env: Mapping[str, str]) -> list[Path]:
        """What variables name as certificates, where it is not of the system."""
        rules = self.rules
        found = (Path(env[name]) for name in _CA_FILES if env.get(name, "").startswith("/"))
        return [path for path in found if showable(path, hidden=rules.hidden, closed=rules.closed)]

    def _tools(self, path: str) -> Toolchains:
        if path not in self._toolchains:
            rules = self.rules
            self._toolchains[path] = toolchains(path, home=rules.home, hidden=rules.hidden, closed=rules.closed)
        return self._toolchains[path]


_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net"),
    *("--hostname", "coterie", "--cap-drop", "ALL", "--new-session", "--die-with-parent"),
)


def _system() -> list[str]:
    """The options for what every command finds: the system's programs, a device folder and a process table."""
    options: list[str] = []
    for folder in SYSTEM_FOLDERS:
        if Path(folder).is_symlink():
            options += ["--symlink", str(Path(folder).readlink()), folder]
        elif Path(folder).is_dir():
            options += ["--ro-bind", folder, folder]
    options += ["--proc", "/proc", "--dev", "/dev"]
    options += ["--size", str(_SHARED_MEMORY), "--perms", "1777", "--tmpfs", "/dev/shm"]
    return [*options, "--symlink", "/tmp", "/var/tmp"]


def _firsts(targets: Iterable[str]) -> list[str]:
    """The names in /tmp below which something is mounted."""
    found: dict[str, None] = {}
    for target in targets:
        parts = Path(target).parts
        if parts[:2] == ("/", "tmp") and len(parts) > 2:
            found[parts[2]] = None
        elif parts[:3] == ("/", "var", "tmp"):
            raise Refused(f"{target} lies in /var/tmp, which commands have of their own: move it")
    return list(found)


def _resolver() -> bytes:
    try:
        return Path("/etc/resolv.conf").read_bytes()
    except OSError:
        return b""

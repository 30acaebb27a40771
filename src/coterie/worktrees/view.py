"""What a command may see of the repository: no more of git's folder than git needs, and settings without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie.worktrees.git import Git, Where

__all__ = ["View", "ignored_by_person", "public", "settings_of", "view"]

SHOWN = ("HEAD", "info", "packed-refs", "refs", "shallow")
"""What of the common directory is shown as it is, besides the objects. Not shown: the person's index, hooks, reflogs,
FETCH_HEAD and submodules, and the metadata of other worktrees."""

MOST_IGNORED = 1 << 20  # bytes
_LEFT_OUT = frozenset({"alias", "credential", "github", "imap", "include", "includeif", "sendemail"})
_NAMES = frozenset({"core.fsmonitor"})  # starts a process that stays
_SECRET_NAMES = re.compile(
    r"(?i).*(password|passwd|secret|token|apikey|extraheader|cookie|askpass|sshcommand|sslkey|sslcert|proxyauth).*"
)
_USERINFO = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s]*@", re.IGNORECASE)
_QUERY = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://[^\s?#]*)[?#]\S*", re.IGNORECASE)


class View(BaseModel):
    """The parts of a repository that the commands of one worktree see."""

    model_config = ConfigDict(frozen=True)

    worktree: Path
    metadata: Path  # the worktree's own, in the common directory
    common_dir: Path
    shown: tuple[Path, ...]
    alternates: tuple[Path, ...]  # further folders of objects, which the repository borrows from
    config: bytes
    own_config: bytes | None  # config.worktree of this worktree

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"

    @property
    def link(self) -> bytes:
        """What the worktree's `.git` has to say."""
        return b"gitdir: " + os.fsencode(self.metadata) + b"\n"


def view(git: Git, where: Where) -> View:
    """The view of the worktree at `where`. Raises `GitError` where its settings cannot be read."""
    common = git.common_dir
    own = where.metadata / "config.worktree"
    return View(
        worktree=where.path,
        metadata=where.metadata,
        common_dir=common,
        shown=tuple(each for each in (common / name for name in SHOWN) if each.exists()),
        alternates=tuple(_alternates(common / "objects", set())),
        config=public(_parsed(git.run("config", f"--file={common / 'config'}", "--list", "-z"))),
        own_config=public(_parsed(git.run("config", f"--file={own}", "--list", "-z"))) if own.is_file() else None,
    )


def settings_of(git: Git) -> bytes:
    """The person's own and the system's settings as one file, without secrets: what their checkout goes by."""
    there_or_not = (0, 1, 128)
    system = git.call("config", "--system", "--includes", "--list", "-z", ok=there_or_not)
    own = git.call("config", "--global", "--includes", "--list", "-z", ok=there_or_not)
    return public(entry for code, said in (system, own) if code == 0 for entry in _parsed(said))


def ignored_by_person(git: Git) -> bytes:
    """What the person's own file of ignored names says: what it names is no part of a commit."""
    code, said = git.call("config", "--type=path", "--get", "core.excludesFile", ok=(0, 1, 128))
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME", "/"), ".config"))
    path = Path(said) if code == 0 and said else settings / "git" / "ignore"
    try:
        return path.read_bytes()[:MOST_IGNORED] if path.is_file() else b""
    except OSError:
        return b""


def _parsed(said: str) -> list[tuple[str, str | None]]:
    """The entries that `git config --list -z` prints; a name without a value has None."""
    entries = (each.partition("\n") for each in said.split("\0") if each)
    return [(key, value if line else None) for key, line, value in entries]


def public(entries: Iterable[tuple[str, str | None]]) -> bytes:
    """Settings as a file of git's, without what may be a secret: whole sections and names are left out, and
    user, password and query of every URL, in names too."""
    lines: list[str] = []
    for key, value in entries:
        section, _, rest = key.partition(".")
        middle, _, name = rest.rpartition(".")
        if section in _LEFT_OUT or key in _NAMES or _SECRET_NAMES.fullmatch(name):
            continue
        middle = _bare(middle)
        lines.append(f'[{section} "{_escaped(middle)}"]' if middle else f"[{section}]")
        if value is None:
            lines.append(f"\t{name}")
        else:
            text = _escaped(_bare(value)).replace("\n", "\\n").replace("\t", "\\t")
            lines.append(f'\t{name} = "{text}"')
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _bare(text: str) -> str:
    """`text` with the URLs in it without name, password and query."""
    return _QUERY.sub(r"\g<scheme>", _USERINFO.sub(r"\g<scheme>", text))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _alternates(objects: Path, seen: set[Path]) -> Iterator[Path]:
    """Folders of objects that `objects` borrows from, theirs too."""
    try:
        lines = (objects / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        path = Path(os.path.normpath(objects / line)) if line and not line.startswith("#") else None
        if path is not None and path not in seen and path.is_dir():
            seen.add(path)
            yield path
            yield from _alternates(path, seen)

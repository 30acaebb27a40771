"""What a command's git works on: the real objects, refs and settings to read, an index and new objects of its own.

    in the sandbox                                   what it is
    <worktree>/.git                                  read-only, as it has to be
    <common>/refs, packed-refs, info, HEAD, shallow  the repository's, read-only
    <common>/config                                  a copy without secrets, read-only
    <common>/objects                                 private; borrows from the real ones, which lie read-only elsewhere
    <common>/worktrees/<name>                        private; HEAD, commondir and gitdir in it are read-only

So `status`, `diff`, `add`, `restore` and `checkout -- FILE` work, `commit`, `stash` and `branch` cannot move a ref, and
nothing that git writes is seen outside: the runtime commits the files of the worktree with an index of its own. That
is done by what is mounted where, and not by `GIT_INDEX_FILE` and `GIT_OBJECT_DIRECTORY`, since those would also lead
astray every git that a test suite runs in repositories which it makes itself.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from coterie import files
from coterie.errors import Refused
from coterie.teammates.sandbox.space import Space, remove
from coterie.worktrees import Git, View, Where, ignored_by_person, settings_of, view

__all__ = ["BORROWED", "IGNORED", "GitViews", "front_of_git"]

BORROWED = "/run/coterie/objects"
"""Where the real objects lie for a command, the first of them without a number."""
IGNORED = "/run/coterie/ignored"
_GIT = "git"  # is looked for, and never run by us
_FRONT = Path(__file__).with_name("git.sh")
_KEPT = ("HEAD", "commondir", "gitdir")


class GitViews:
    """The views of a repository's worktrees, each made anew when what it shows has changed."""

    def __init__(self, git: Git, where: Callable[[Path], Where | None]) -> None:
        self._git = git
        self._where = where
        self._views: dict[Path, tuple[object, View]] = {}
        self._indexes: dict[Path, object] = {}
        self._settings: bytes | None = None
        self._ignored: bytes | None = None

    def settings(self) -> bytes:
        """The person's settings of git without secrets, which lead to `ignored`; read once."""
        if self._settings is None:
            self._settings = settings_of(self._git) + f"[core]\n\texcludesFile = {IGNORED}\n".encode()
        return self._settings

    def ignored(self) -> bytes:
        """The person's own file of names that git ignores; read once."""
        if self._ignored is None:
            self._ignored = ignored_by_person(self._git)
        return self._ignored

    def of(self, worktree: Path) -> View:
        """The view of a worktree. Raises `Refused` where it is none that git knows, or its `.git` was changed."""
        where = self._where(worktree)
        if where is None:
            raise Refused(f"{worktree} is not a worktree that git knows: no command is run in it")
        looked = tuple(files.file_mark(each) for each in self._looked_at(where))
        known = self._views.get(worktree)
        if known is None or known[0] != looked:
            known = (looked, view(self._git, where))
            self._views[worktree] = known
        link = worktree / ".git"
        if link.is_symlink() or not link.is_file():
            raise Refused(f"{link} was changed: it has to be git's file that leads to {where.metadata}")
        return known[1]

    def _looked_at(self, where: Where) -> Iterator[Path]:
        common = self._git.common_dir
        yield from (common / "config", where.metadata / "config.worktree", common / "objects" / "info" / "alternates")
        yield from (common / "packed-refs", common / "shallow")

    def lay_out(self, seen: View, space: Space) -> None:
        """Have the private index and objects ready: the index is copied again after the runtime wrote its own."""
        objects, metadata = space.git / "objects", space.git / "metadata"
        if not objects.is_dir():
            for each in (objects / "info", objects / "pack", metadata):
                each.mkdir(parents=True, exist_ok=True, mode=0o700)
            lines = "".join(f"{name}\n" for _, name in self.borrowed(seen))
            files.write_copy(objects / "info" / "alternates", lines.encode())
            if seen.own_config is not None:
                files.write_copy(metadata / "config.worktree", seen.own_config)
            self._indexes.pop(seen.worktree, None)
        for name in _KEPT:  # mounted on, so that they cannot be replaced from inside; here for the first command
            if not (metadata / name).is_file() or (metadata / name).is_symlink():
                space.put(seen.metadata / name, f"metadata/{name}")
        own = seen.metadata / "index"
        mark = files.file_mark(own)
        if mark is not None and self._indexes.get(seen.worktree) != mark:
            space.put(own, "metadata/index")
            left = metadata / "index.lock"  # of a git that was ended with its command
            if os.path.lexists(left):
                remove(left) if left.is_dir() and not left.is_symlink() else left.unlink()
            self._indexes[seen.worktree] = mark

    def space_of(self, worktree: Path) -> tuple[View, Space]:
        """The view of a worktree, and the private folders of its commands, ready for its assignment. As `of`."""
        seen, space = self.of(worktree), Space(worktree)
        space.prepare(_key_of(seen))
        return seen, space

    @staticmethod
    def borrowed(seen: View) -> list[tuple[Path, str]]:
        """The real folders of objects, and where each lies for a command."""
        real = (seen.objects, *seen.alternates)
        return [(path, BORROWED + (str(number) if number else "")) for number, path in enumerate(real)]


def front_of_git(seen: View, path: str) -> bytes | None:
    """The `git` that stands before the real one in PATH; None where there is no git."""
    real = shutil.which(_GIT, path=path)
    if real is None:
        return None
    text = _FRONT.read_text(encoding="utf-8")
    for word, value in (("@REAL@", real), ("@METADATA@", str(seen.metadata))):
        text = text.replace(word, shlex.quote(value) if word == "@REAL@" else re.sub(r'(["$`\\])', r"\\\1", value))
    return text.encode("utf-8", "surrogateescape")


def _key_of(seen: View) -> str:
    """What a worktree is at: a branch is that of one assignment, else the commit. The private space lives as long."""
    try:
        return (seen.metadata / "HEAD").read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        raise Refused(f"{seen.metadata}/HEAD cannot be read: no command is run there") from None

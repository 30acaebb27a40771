"""What is a worktree's alone among its commands: home, temporary files, and git's index and objects."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from coterie import files

__all__ = ["Space"]

FOLDER = ".private"
"""Beside the worktrees of a team; no member can have this name."""


class Space:
    """The private folders of the commands that run in one worktree: they live as long as an assignment.

    Nothing in it is state: it is made anew when `key` changes, and whatever commands leave in it is only ever seen by
    commands of the same worktree. Nothing outside of it is written through it: a name that a command may have
    replaced by a link is replaced itself, never followed.
    """

    def __init__(self, worktree: Path) -> None:
        self.root = worktree.parent / FOLDER / worktree.name
        self.home = self.root / "home"
        self.temporary = self.root / "tmp"
        self.git = self.root / "git"
        self._key = self.root / "for"

    def prepare(self, key: str) -> bool:
        """Have it ready for an assignment; True if it was made anew, and nothing of an earlier one is left."""
        if self._said() == key:
            return False
        if os.path.lexists(self.root):
            remove(self.root)
        for each in (self.home, self.temporary, self.git):
            each.mkdir(parents=True, mode=0o700)
        files.write_copy(self._key, key.encode("utf-8", "surrogateescape"))
        return True

    def _said(self) -> str | None:
        try:
            return self._key.read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return None

    def hold(self, names: Iterable[str]) -> None:
        """Have folders in the temporary one, on which something is mounted for every command of this worktree.

        A link in their place would lead the mount elsewhere. What is mounted on cannot be replaced from inside, so it
        is enough that they are folders before.
        """
        for name in names:
            path = self.temporary / name
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(path.lstat().st_mode):
                    continue
                path.unlink()
            path.mkdir(mode=0o700)

    def put(self, source: Path, name: str) -> None:
        """Copy a file, with its times, to `name` in git's folder; what is there is replaced."""
        fresh = self.root / f"{files.token()}.copy"
        shutil.copy2(source, fresh)
        target = self.git / name
        if target.is_dir() and not target.is_symlink():
            remove(target)
        fresh.replace(target)


def remove(path: Path) -> None:
    """Delete a tree, also where its owner took the right to do so from some of its folders. Follows no link."""

    def allow(act: object, name: str, error: object) -> None:
        with contextlib.suppress(OSError):
            Path(name).parent.chmod(0o700)
            if stat.S_ISDIR(Path(name).lstat().st_mode):
                Path(name).chmod(0o700)

    shutil.rmtree(path, onerror=allow)
    if os.path.lexists(path):
        shutil.rmtree(path)

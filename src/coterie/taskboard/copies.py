"""`last/T7`: the last content of each task's file, so that a process that never saw it can put it back.

The task's file is the truth. A copy is looked at only where that file cannot be read, or is behind a revision that
`changes` says was there: a fresh process (a command in a second terminal, a host after a restart) has no other way to
know what stood there, and taking the older content over would do work twice that is done. A copy is replaced whole
but not forced to the disk: after a power loss it may be old or missing, which shows in its revision, and then
nothing is put back from it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from coterie import files
from coterie.taskboard.task import SCHEMA, Task, parse

__all__ = ["Copies"]


class Copies:
    """The copies of one board, for who holds the team's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Make the folder."""
        with contextlib.suppress(OSError):
            files.make_folder(self.folder)

    def keep(self, task: str, data: bytes) -> None:
        """Keep what has just been stored. A copy that cannot be written fails nothing: the file itself is in place."""
        with contextlib.suppress(OSError):
            files.write_copy(self.folder / task, data)

    def find(self, path: Path) -> tuple[Task, bytes] | None:
        """The last content of the task's file `path`, if there is a copy of it that can be read."""
        try:
            data = files.read_bytes(self.folder / path.stem)
            found = parse(data, path)
        except (FileNotFoundError, files.Unreadable):
            return None
        return (found, data) if found.schema_ <= SCHEMA else None

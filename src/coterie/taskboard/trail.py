"""The file `changes`: what an index has to read again.

Two kinds of line. `T7` is written before T7's file is replaced: whoever reads it looks at the file again. `T7 9 2` is
written after: revision 9, epoch 2 were in place, so that a file which is behind them later was put back by hand.
No decision about a task rests on it beyond that, and nothing is lost with it: a fresh process reads all tasks anyway.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from coterie import files
from coterie.taskboard.task import is_id

__all__ = ["Lines", "Trail"]

_TAIL = 64
_NUMBER = re.compile(r"[0-9]{1,12}")


@dataclass
class Lines:
    """What was read: the ids named, in order, and the highest (rev, epoch) known to have been in place."""

    ids: dict[str, None] = field(default_factory=dict)
    placed: dict[str, tuple[int, int]] = field(default_factory=dict)
    damaged: bool = False


class Trail:
    """A place in the `changes` file. Only who holds the team's lock may write, or move the place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0
        self._tail = b""  # what stood just before the place, to recognise another file of the same size
        self._identity: tuple[int, int] | None = None
        self._own = b""

    def read(self, *, all_of_it: bool = False, stay: bool = False) -> Lines | None:
        """The lines after the place, or from the start; None if this is not the file that the place is in.

        stay: look only; the place does not move.
        """
        at, tail, identity = (0, b"", None) if all_of_it else (self._at, self._tail, self._identity)
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            if at:
                return None
            if not stay:
                self._at, self._tail, self._identity = 0, b"", None
            return Lines()
        except OSError:
            return None
        try:
            found = os.fstat(handle)
            same = identity in (None, (found.st_dev, found.st_ino)) and found.st_size >= at
            if not same or os.pread(handle, len(tail), at - len(tail)) != tail:
                return None
            data = _rest(handle, at) if found.st_size > at else b""
        finally:
            os.close(handle)
        whole = data[: data.rfind(b"\n") + 1]
        if not stay:
            self._at = at + len(whole)
            self._tail = (tail + whole)[-_TAIL:]
            self._identity = (found.st_dev, found.st_ino)
            self._own = b""
        return _lines(whole)

    def announce(self, ids: Iterable[str]) -> None:
        """Say that the files of these tasks are about to change. Under the lock, before they do."""
        self._add("".join(f"{task}\n" for task in ids).encode())

    def confirm(self, placed: Iterable[tuple[str, int, int]]) -> None:
        """Say which (id, rev, epoch) are in place. Under the lock, after they are."""
        self._add("".join(f"{task} {rev} {epoch}\n" for task, rev, epoch in placed).encode())

    def skip_own(self) -> None:
        """Move the place past the lines just added: what they name has been taken into the index."""
        self._at += len(self._own)
        self._tail = (self._tail + self._own)[-_TAIL:]
        self._own = b""

    def _add(self, lines: bytes) -> None:
        files.append(self.path, lines)
        self._own += lines


def _rest(handle: int, at: int) -> bytes:
    parts = []
    while part := os.pread(handle, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _lines(data: bytes) -> Lines:
    lines = Lines()
    for raw in data.decode("utf-8", "replace").splitlines():
        parts = raw.split(" ")
        if not is_id(parts[0]):
            lines.damaged = True
        elif len(parts) == 1:
            lines.ids[parts[0]] = None
        elif len(parts) == 3 and all(_NUMBER.fullmatch(part) for part in parts[1:]):
            rev, epoch = lines.placed.get(parts[0], (0, 0))
            lines.ids[parts[0]] = None
            lines.placed[parts[0]] = (max(rev, int(parts[1])), max(epoch, int(parts[2])))
        else:
            lines.damaged = True
    return lines

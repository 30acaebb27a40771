"""The file `changes`: what an index has to read again.

Two kinds of line. `T7` is written before T7's file is replaced: whoever reads it looks at the file again. `T7 9 2` is
written after: revision 9, epoch 2 were in place, so that a file which is behind them later was put back by hand.
No decision about a task rests on it beyond that, and nothing is lost with it: a fresh process reads all tasks anyway.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

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


class _Place(NamedTuple):
    """An offset in bytes, what stands just before it, and the file (device, inode) it is in, if there was one."""

    at: int = 0
    tail: bytes = b""
    identity: tuple[int, int] | None = None

    def after(self, data: bytes, identity: tuple[int, int] | None) -> _Place:
        return _Place(self.at + len(data), (self.tail + data)[-_TAIL:], identity)


class Trail:
    """A place in the `changes` file: everything before it has been taken into the index.

    `read`, `announce`, `confirm` and `caught_up` are for who holds the team's lock; `peek` is for anybody.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = _Place()
        self._end = _Place()  # runs ahead of the place until `caught_up`

    def read(self, *, all_of_it: bool = False) -> Lines | None:
        """The lines after the place, or from the start; None if this is not the file that the place is in."""
        found = self._read(_Place() if all_of_it else self._place)
        if found is None:
            return None
        self._end, data = found
        return _lines(data)

    def peek(self) -> Lines | None:
        """The lines after the place, without moving it. Who looks at these tasks and at the index misses nothing."""
        found = self._read(self._place)
        return None if found is None else _lines(found[1])

    def announce(self, ids: Iterable[str]) -> None:
        """Say that the files of these tasks are about to change. Before they do."""
        self._add("".join(f"{task}\n" for task in ids))

    def confirm(self, placed: Iterable[tuple[str, int, int]]) -> None:
        """Say which (id, rev, epoch) are in place. After they are."""
        self._add("".join(f"{task} {rev} {epoch}\n" for task, rev, epoch in placed))

    def caught_up(self) -> None:
        """The index knows all that was read and written: the place moves to the end."""
        self._place = self._end

    def _add(self, lines: str) -> None:
        if lines:
            files.append(self.path, lines.encode(), durable=False)  # whoever starts after a power loss reads all
            self._end = self._end.after(lines.encode(), self._end.identity)

    def _read(self, place: _Place) -> tuple[_Place, bytes] | None:
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None if place.at else (_Place(), b"")
        except OSError:
            return None
        try:
            found = os.fstat(handle)
            identity = (found.st_dev, found.st_ino)
            if not stat.S_ISREG(found.st_mode):
                return None
            if place.identity not in (None, identity) or found.st_size < place.at:
                return None
            if os.pread(handle, len(place.tail), place.at - len(place.tail)) != place.tail:
                return None
            parts = []
            at = place.at
            while part := os.pread(handle, 1 << 20, at):
                parts.append(part)
                at += len(part)
        finally:
            os.close(handle)
        data = b"".join(parts)
        whole = data[: data.rfind(b"\n") + 1]
        return place.after(whole, identity), whole


def _lines(data: bytes) -> Lines:
    lines = Lines()
    for raw in data.decode("utf-8", "replace").splitlines():
        task, *numbers = raw.split(" ")
        if not is_id(task) or len(numbers) not in (0, 2) or not all(map(_NUMBER.fullmatch, numbers)):
            lines.damaged = True
            continue
        lines.ids[task] = None
        if numbers:
            rev, epoch = lines.placed.get(task, (0, 0))
            lines.placed[task] = (max(rev, int(numbers[0])), max(epoch, int(numbers[1])))
    return lines

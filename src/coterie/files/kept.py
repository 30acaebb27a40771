"""Records that a process goes on with although somebody spoiled their file."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from coterie.errors import NewerSchema
from coterie.files.locks import locked
from coterie.files.records import Unreadable
from coterie.files.writing import set_aside, write_json

Kind = TypeVar("Kind")


class Kept(Generic[Kind]):
    """State files that are never deleted, one record each, and what this process last read or wrote of each.

    While a file cannot be read or is gone, that stands in for it; a `sweep` puts it back. Of a file that this process
    has never read it knows nothing: then the errors of `read` come through, and nothing is put in its place.
    read: a record from its file, or `Unreadable`, `FileNotFoundError`. encode: the record as it is stored.
    lock: the lock that writers of these files hold. report: told of every file that was put back.
    settle: seconds a file is left alone first, since editors truncate in place.
    """

    def __init__(
        self,
        read: Callable[[Path], Kind],
        encode: Callable[[Kind], Mapping[str, Any]],
        *,
        lock: Path,
        report: Callable[[str], None],
        settle: float = 2.0,
    ) -> None:
        self._read = read
        self._encode = encode
        self._lock = lock
        self._report = report
        self._settle = settle
        self._guard = threading.Lock()
        self._known: dict[Path, Kind] = {}
        self._missed: dict[Path, float] = {}  # files that stood in need, and since when (monotonic)
        self._writes = 0

    def paths(self) -> list[Path]:
        """The files of which this process knows a record."""
        with self._guard:
            return list(self._known)

    def get(self, path: Path) -> Kind:
        """The record as its file says now, or as it was last known. Takes no lock and changes nothing."""
        writes = self._writes
        try:
            value = self._read(path)
        except (Unreadable, FileNotFoundError):
            with self._guard:
                if path not in self._known:
                    raise
                self._missed.setdefault(path, time.monotonic())
                return self._known[path]
        with self._guard:
            if writes == self._writes:  # else it may be older than what was written meanwhile
                self._known[path] = value
            self._missed.pop(path, None)
        return value

    def put(self, path: Path, value: Kind, *, instead: str = "the last record is put back") -> None:
        """Store a record. What lies there and cannot be read is set aside and said; the caller holds the lock.

        instead: what stands in its place then, in words.
        """
        self._set_aside(path, instead)
        write_json(path, self._encode(value))
        with self._guard:
            self._writes += 1
            self._known[path] = value
            self._missed.pop(path, None)

    def let_settle(self, path: Path) -> None:
        """Give a file that cannot be read its time, before the lock is taken to change it."""
        end = time.monotonic() + self._settle
        while path in self._known and time.monotonic() < end:
            try:
                self._read(path)
            except Unreadable:
                time.sleep(0.05)
            except FileNotFoundError:
                return
            else:
                return

    def sweep(self, whose: Callable[[Kind], bool] = lambda value: True) -> None:
        """Look at every known file, and put back what has been missed for `settle` seconds. Never waits for that.

        whose: the records that are this process's to put back. Of others it knows only what it read last.
        """
        for path in self.paths():
            with contextlib.suppress(NewerSchema):
                self.get(path)
        now = time.monotonic()
        with self._guard:
            due = [
                path for path, since in self._missed.items() if now - since >= self._settle and whose(self._known[path])
            ]
        for path in due:
            with locked(self._lock):
                value = self.get(path)
                if whose(value):  # still: what it rests on may have changed before the lock was ours
                    self.put(path, value)

    def _set_aside(self, path: Path, instead: str) -> None:
        try:
            self._read(path)
        except FileNotFoundError:
            if path in self._known:
                self._report(f"{path} is gone: {instead}")
        except Unreadable as error:
            self._report(f"{error}: it is in {set_aside(path, stays=True)} now, {instead}")

"""The order of one box, and which keys were used in it: `mail/<name>/ledger`, a line per message, appended.

A line is written before its message is delivered, both under the team's lock. So a message without a line exists only
where somebody took the ledger away, and a line without a message is a send that never ended: nobody was told that it
had worked. The files decide, the ledger only says where to look; without it everything is read again.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from coterie import files

PLACES = ("new", "cur", "bad", "tmp")


class Ledger:
    """What this process knows of a box. Every method is called under the team's lock."""

    def __init__(self, box: Path) -> None:
        self._box = box
        self._path = box / "ledger"
        self._clear()

    def _clear(self) -> None:
        self._file: tuple[int, int] | None = None  # device and inode of what was read
        self._offset = 0
        self._torn = False
        self._last = 0
        self._keys: dict[str, str] = {}

    def catch_up(self) -> None:
        """Read what other processes have added; everything, where the ledger is another one or shorter than it was."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            found = None
        same = found is not None and (found.st_dev, found.st_ino) == self._file and found.st_size >= self._offset
        if not same:
            self.read_again()
        elif found is not None and found.st_size > self._offset:
            self._read_lines()

    def read_again(self) -> None:
        """Read the ledger from its beginning, and every message that it does not name."""
        self._clear()
        named = set(self._read_lines())
        for place in PLACES:
            for path in _listed(self._box / place):
                identifier = path.name.partition(".")[0]
                number = identifier.partition("-")[0]
                if not number.isdecimal() or identifier in named:
                    continue
                self._last = max(self._last, int(number))
                try:
                    key = files.read_json(path).get("made_by")
                except (files.Unreadable, FileNotFoundError):
                    continue
                if isinstance(key, str):
                    self._keys[key] = identifier

    def _read_lines(self) -> list[str]:
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            return []
        with os.fdopen(handle, "rb") as opened:
            self._file = (found.st_dev, found.st_ino)
            opened.seek(self._offset)
            data = opened.read()
        whole, _, rest = data.rpartition(b"\n")
        self._torn = bool(rest)
        named = []
        if whole:
            self._offset += len(whole) + 1
            for line in whole.split(b"\n"):
                entry = _parse(line)
                if entry is None:
                    continue
                seq, identifier, key = entry
                named.append(identifier)
                self._last = max(self._last, seq)
                if key is not None:
                    self._keys[key] = identifier
        return named

    def next_seq(self) -> int:
        return self._last + 1

    def find(self, key: str) -> str | None:
        """The id of the last message that was to be sent for `key`. Whether it is there, its file says."""
        return self._keys.get(key)

    def add(self, seq: int, identifier: str, key: str | None) -> None:
        """Append a line. What a torn one would hide is kept apart from it by a newline of its own."""
        line = json.dumps([seq, identifier, key]).encode() + b"\n"
        files.append(self._path, b"\n" + line if self._torn else line)
        self._torn = False
        self._read_lines()


def _parse(line: bytes) -> tuple[int, str, str | None] | None:
    try:
        seq, identifier, key = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    if type(seq) is int and isinstance(identifier, str) and (key is None or isinstance(key, str)):
        return seq, identifier, key
    return None


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []

"""Records as bytes and back, and the strict reading of files. Nothing here takes a lock or changes anything."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.files.below import kind_of
from coterie.files.room import shortage
from coterie.files.shown import as_json

LIMIT = 1024 * 1024


class Unreadable(CoterieError):
    """A state file cannot be read as what it should be."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def encode(data: Mapping[str, Any]) -> bytes:
    """A record as a person can read it: indented, keys in the given order, UTF-8, a newline at the end."""
    return (as_json(data, indent=2, allow_nan=False) + "\n").encode()


def decode(data: bytes, path: Path) -> dict[str, Any]:
    """The object in `data`, read strictly: UTF-8, one object, no duplicate keys, no NaN. Raises `Unreadable`."""
    if not data.strip(b"\x00 \t\r\n"):
        raise Unreadable(
            path, f"expected a JSON object, found {'blank or NUL bytes only' if data else 'an empty file'}"
        )
    twice: list[_Twice] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(found)
        if len(value) != len(found):
            twice.append(value := _Twice(found))
        return value

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"expected UTF-8, found another byte at {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(path, f"expected a JSON object, found: {error}") from None
    if twice:
        raise Unreadable(path, f"expected a JSON object, found the key {_path_of(twice, value)!r} twice")
    if not isinstance(value, dict):
        raise Unreadable(path, f"expected a JSON object, found {type(value).__name__}")
    return value


class _Twice(dict[str, Any]):
    """An object in which a key stands twice: `key`."""

    def __init__(self, found: list[tuple[str, Any]]) -> None:
        super().__init__(found)
        keys = [key for key, _ in found]
        self.key = next(key for key in keys if keys.count(key) > 1)


def _path_of(twice: list[_Twice], value: Any) -> str:
    """Where one of these stands in `value`, as `claim.owner`; empty if nowhere."""
    if any(value is each for each in twice):
        return str(value.key)
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((f"{key}.{rest}" for key, each in parts if (rest := _path_of(twice, each))), "")


def _constant(name: str) -> Any:
    raise ValueError(f"{name}, which is no JSON number")


def file_mark(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is changed, without reading it; None where there is none. No decision rests on it: it
    says only whether the file has to be read again."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read_bytes(path: Path, *, limit: int = LIMIT) -> bytes:
    """The content of a regular file of at most `limit` bytes. Anything else is `Unreadable`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        if shortage(error) or error.errno == errno.EIO:
            raise  # the machine's trouble, not the file's: it is not set aside for that
        kind = "a symbolic link" if path.is_symlink() else str(error.strerror)
        raise Unreadable(path, f"expected a regular file, found {kind}") from None
    try:
        return read_open(handle, path, limit=limit)
    finally:
        os.close(handle)


def read_open(handle: int, path: Path, *, limit: int = LIMIT) -> bytes:
    """The same of an open file. path: what it is called in an error."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(path, f"expected a regular file, found {kind_of(found.st_mode)}")
    if found.st_size > limit:
        raise Unreadable(path, f"expected at most {limit} bytes, found {found.st_size}")
    parts = []
    left = limit + 1
    while left > 0 and (part := os.read(handle, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise Unreadable(path, f"expected at most {limit} bytes, found more")
    return b"".join(parts)


def expect_regular(path: Path) -> None:
    """Raise `Unreadable` for anything but a regular file, `FileNotFoundError` where nothing is. Opens nothing."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise Unreadable(path, f"expected a regular file, found {kind_of(mode)}")


def read_json(path: Path, *, limit: int = LIMIT, settle: float = 0.0) -> dict[str, Any]:
    """The object in a state file. Takes no lock and changes nothing.

    settle: seconds during which an unreadable file is read again, since editors truncate in place before they write.
    Raises `Unreadable`, or `FileNotFoundError`.
    """
    end = time.monotonic() + settle
    while True:
        try:
            return decode(read_bytes(path, limit=limit), path)
        except Unreadable:
            if time.monotonic() >= end:
                raise
            time.sleep(0.05)

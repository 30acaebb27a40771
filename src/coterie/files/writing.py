"""Writing: whole or not at all, and durable once the call has returned."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import threading
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from coterie.files.names import token
from coterie.files.records import encode
from coterie.files.redaction import redacted_bytes

_numbers = itertools.count(1)
_TEMP = re.compile(r"\..+\.(?P<token>[0-9a-f]{12})-\d+\.tmp")


class _Pending(threading.local):
    """The directories whose fsync the current thread still owes, and how deep it is inside `locked()`."""

    def __init__(self) -> None:
        self.depth = 0
        self.folders: set[Path] = set()


pending = _Pending()


class Durability(StrEnum):
    """Which deaths a write survives once it is acknowledged."""

    POWER = "power"  # also a power loss: every write is fsynced, and so is its directory
    PROCESS = "process"  # kill -9 of every process: the page cache lives, so nothing is fsynced


class _Promise:
    """What this process promises. One for the whole process: its teams lie on one machine, and share its fate."""

    durability = Durability.POWER


def promise(durability: Durability) -> None:
    """From now on every write of this process survives this kind of death, and the weaker one."""
    _Promise.durability = durability


def survives() -> Durability:
    """What this process promises of its writes."""
    return _Promise.durability


def sync(handle: int) -> None:
    """fsync, where a power loss is to be survived."""
    if _Promise.durability is Durability.POWER:
        os.fsync(handle)


def sync_folder(folder: Path) -> None:
    if _Promise.durability is not Durability.POWER:
        return
    if pending.depth:
        pending.folders.add(folder)
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put(
    path: Path, data: bytes, flags: int, *, durable: bool = True, mode: int | None = None, as_is: bool = False
) -> None:
    """Write `data` whole and fsync it, without the secrets of this process unless it is to be written `as_is`.

    The one place that opens a state file for writing.
    """
    data = data if as_is else redacted_bytes(data)
    # without waiting: somebody may have laid a pipe there
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o644)
    try:
        if mode is not None:
            os.fchmod(handle, mode)
        start = os.fstat(handle).st_size if flags & os.O_APPEND else 0
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(handle, view) :]
            if durable:
                sync(handle)
        except OSError:
            if flags & os.O_APPEND:  # a full disk must not leave half a line in front of the next one
                os.ftruncate(handle, start)
            raise
    finally:
        os.close(handle)


def temp_name(name: str) -> str:
    """A name for the temp file of `name`: it says which process writes, so that a dead one's is known as such."""
    return f".{name[:180]}.{token()}-{next(_numbers)}.tmp"


def temp_owner(name: str) -> str | None:
    """The process (its token) whose temp file has this name; None for any other file."""
    found = _TEMP.fullmatch(name)
    return found["token"] if found is not None else None


def write_bytes(path: Path, data: bytes, *, as_is: bool = False) -> None:
    """Replace the content of `path`: temp file beside it, fsync, rename, fsync of the folder. as_is: see `append`."""
    deliver(path.with_name(temp_name(path.name)), path, data, as_is=as_is)


def write_copy(path: Path, data: bytes) -> None:
    """Replace the content of a copy of what is stored elsewhere: whole or not at all, but not forced to the disk."""
    deliver(path.with_name(temp_name(path.name)), path, data, durable=False)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Replace the content of `path` by a record."""
    write_bytes(path, encode(data))


def deliver(temp: Path, final: Path, data: bytes, *, durable: bool = True, as_is: bool = False) -> None:
    """Write `temp` whole, then rename it to `final` (which may be in another directory of the same file system)."""
    try:
        put(temp, data, os.O_EXCL, durable=durable, as_is=as_is)
        temp.replace(final)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise
    if durable:
        sync_folder(final.parent)


def deliver_below(temp: Path, folder: int, name: str, data: bytes, *, mode: int | None = None) -> None:
    """Write `temp` whole, then rename it to `name` in an open folder of the same file system, wherever that is now.

    A link that has that name is replaced, never followed. mode: its permissions, before it has the name.
    """
    try:
        put(temp, data, os.O_EXCL, mode=mode, as_is=True)  # somebody's work, and no record of ours
        os.rename(temp, name, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise
    if _Promise.durability is Durability.POWER:
        os.fsync(folder)


def append(path: Path, line: bytes, *, durable: bool = True, as_is: bool = False) -> None:
    """Add one line (with its newline) at the end. On an error nothing of it stays.

    What is no regular file is moved to `bad/` first, and a new file begun: what was there before is not known here.
    durable: False where a power loss may take the line, since nothing rests on it. as_is: secrets are the caller's to
    take out, since the line has a checksum.
    """
    fresh = not _is_regular(path)
    if fresh and os.path.lexists(path):
        with contextlib.suppress(FileNotFoundError):  # another process has just done so
            set_aside(path)
    put(path, line, os.O_APPEND, durable=durable, as_is=as_is)
    if fresh and durable:
        sync_folder(path.parent)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def truncate(path: Path, size: int) -> None:
    """Cut a torn tail off: the file keeps its first `size` bytes."""
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, size)
        sync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> Path:
    """`path` as a folder, made durable with its missing parents."""
    missing = [path, *path.parents]
    missing = list(itertools.takewhile(lambda each: not each.exists(), missing))
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)
    return path


def move(source: Path, target: Path) -> None:
    """Rename; both directories are made durable."""
    source.rename(target)
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def remove(path: Path) -> None:
    """Delete a file if it is there. Only for intents, temp files and ports: facts are never deleted."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


def set_aside(path: Path, *, stays: bool = False) -> Path:
    """Move a file that cannot be used to `bad/` beside it, under a name that is free. Says where it is now.

    stays: the caller is about to replace it, and a kill in between must not leave its name empty; so it keeps both
    names until then. A folder, and what cannot have two names, is moved all the same.
    """
    folder = make_folder(path.parent / "bad")
    for number in itertools.count():
        target = folder / (path.name if not number else f"{path.name}.{number}")
        if not target.exists() and not target.is_symlink():
            if stays:
                with contextlib.suppress(OSError):
                    os.link(path, target, follow_symlinks=False)
                    sync_folder(folder)
                    return target
            move(path, target)
            return target
    raise AssertionError("unreachable")

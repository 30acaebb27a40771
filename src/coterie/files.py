"""The only code that writes state.

Two kinds of death are planned for. After `kill -9` the page cache lives, so order and atomic renames are enough; after
a power loss only what was fsynced is there. Everything here promises both on a local journaling file system, once
the call has returned:

* `write_json`, `write_bytes`: readers see the old content or the new, never a part.
* `deliver`, `move`: a file is at one place or the other.
* `append`: a whole line or, after a crash, a torn last one that the reader has to recognise.

Inside `locked()` the fsync of directories is put off until the lock is released, and done before `locked()` returns:
nobody waits for a disk that is not theirs, and nothing is acknowledged early. Network file systems promise nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import stat
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import filelock

from coterie.errors import CoterieError, Refused

__all__ = [
    "RESERVED",
    "Held",
    "Hold",
    "LockTimeout",
    "Unreadable",
    "append",
    "check_name",
    "clean",
    "decode",
    "deliver",
    "encode",
    "held",
    "hold",
    "locked",
    "make_folder",
    "move",
    "now",
    "process_mark",
    "read_bytes",
    "read_info",
    "read_json",
    "remove",
    "set_aside",
    "token",
    "truncate",
    "write_bytes",
    "write_json",
]

LIMIT = 1024 * 1024
RESERVED = frozenset({"lead", "human", "queue", "runtime"})
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


class Unreadable(CoterieError):
    """A state file cannot be read as what it should be."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class LockTimeout(CoterieError):
    """A lock was not free in time."""


class Held(CoterieError):
    """A lock that is held for a life belongs to another process. `info` is what its holder wrote into it."""

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        super().__init__(
            f"{path} is held by pid {info.get('pid', 'unknown')} (started {info.get('started', 'unknown')})"
        )
        self.info = info


class Waits(Protocol):
    """What a wait listens to, so that it can be ended early."""

    def is_set(self) -> bool: ...


# ---------------------------------------------------------------- names, times, text


_tokens: dict[int, str] = {}
_numbers = itertools.count(1)


def token() -> str:
    """A random id of this process (12 hex digits): the same for its life, another after a fork."""
    return _tokens.setdefault(os.getpid(), secrets.token_hex(6))


def now() -> str:
    """The wall clock as ISO 8601 UTC with milliseconds. For people: no decision rests on it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_name(name: str, *, reserved: bool = False) -> str:
    """`name` itself if it can name a team or a member, else `Refused`. `reserved` allows lead, human, queue, runtime."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(
            f"not a name: {clean(str(name), 60)!r}. A name is a lower-case letter, then up to 31 of a-z 0-9 -"
        )
    if name in RESERVED and not reserved:
        raise Refused(f"the name {name!r} is reserved ({', '.join(sorted(RESERVED))}): take another")
    return name


def clean(text: str, cap: int = 2000) -> str:
    """`text` as it may be shown on a terminal: no control or direction characters (newline and tab stay), capped."""
    text = _CONTROL.sub("", text[: cap * 2])
    return text if len(text) <= cap else text[: cap - 1] + "…"


def process_mark(pid: int) -> dict[str, Any]:
    """What tells one process from a later one of the same number: pid, start time (clock ticks), boot id."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return {"pid": pid, "start": int(fields[19]), "boot": boot}
    except (OSError, IndexError, ValueError):
        return {"pid": pid, "start": None, "boot": None}


# ---------------------------------------------------------------- encoding


def encode(data: Mapping[str, Any]) -> bytes:
    """A record as a person can read it: indented, keys in the given order, UTF-8, a newline at the end."""
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def decode(data: bytes, path: Path) -> dict[str, Any]:
    """The object in `data`, read strictly: UTF-8, one object, no duplicate keys, no NaN. Raises `Unreadable`."""
    if not data.strip(b"\x00 \t\r\n"):
        raise Unreadable(
            path, f"expected a JSON object, found {'blank or NUL bytes only' if data else 'an empty file'}"
        )
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"expected UTF-8, found another byte at {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(path, f"expected a JSON object, found: {error}") from None
    if not isinstance(value, dict):
        raise Unreadable(path, f"expected a JSON object, found {type(value).__name__}")
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} twice")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name}, which is no JSON number")


# ---------------------------------------------------------------- reading


def read_bytes(path: Path, *, limit: int = LIMIT) -> bytes:
    """The content of a regular file of at most `limit` bytes. Anything else is `Unreadable`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        kind = "a symbolic link" if path.is_symlink() else str(error.strerror)
        raise Unreadable(path, f"expected a regular file, found {kind}") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(path, "expected a regular file, found a folder, FIFO or device")
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
    finally:
        os.close(handle)


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


# ---------------------------------------------------------------- writing


class _Pending(threading.local):
    """The directories whose fsync the current thread still owes, and how deep it is inside `locked()`."""

    def __init__(self) -> None:
        self.depth = 0
        self.folders: set[Path] = set()


_pending = _Pending()


def _sync_folder(folder: Path) -> None:
    if _pending.depth:
        _pending.folders.add(folder)
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put(path: Path, data: bytes, flags: int) -> None:
    """Write `data` whole and fsync it. The one place that opens a state file for writing."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o644)
    try:
        start = os.fstat(handle).st_size if flags & os.O_APPEND else 0
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        except OSError:
            if flags & os.O_APPEND:  # a full disk must not leave half a line in front of the next one
                os.ftruncate(handle, start)
            raise
    finally:
        os.close(handle)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the content of `path`: temp file beside it, fsync, rename, fsync of the directory."""
    temp = path.with_name(f".{path.name}.{token()}-{next(_numbers)}.tmp")
    deliver(temp, path, data)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Replace the content of `path` by a record."""
    write_bytes(path, encode(data))


def deliver(temp: Path, final: Path, data: bytes) -> None:
    """Write `temp` whole, then rename it to `final` (which may be in another directory of the same file system)."""
    try:
        _put(temp, data, os.O_EXCL)
        temp.replace(final)
    except BaseException:
        with contextlib.suppress(OSError):
            temp.unlink()
        raise
    _sync_folder(final.parent)


def append(path: Path, line: bytes) -> None:
    """Add one line (with its newline) at the end. On an error nothing of it stays."""
    fresh = not path.exists()
    _put(path, line, os.O_APPEND)
    if fresh:
        _sync_folder(path.parent)


def truncate(path: Path, size: int) -> None:
    """Cut a torn tail off: the file keeps its first `size` bytes."""
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, size)
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> Path:
    """`path` as a folder, made durable with its missing parents."""
    missing = [path, *path.parents]
    missing = list(itertools.takewhile(lambda each: not each.exists(), missing))
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        _sync_folder(each.parent)
    return path


def move(source: Path, target: Path) -> None:
    """Rename; both directories are made durable."""
    source.rename(target)
    _sync_folder(target.parent)
    if source.parent != target.parent:
        _sync_folder(source.parent)


def remove(path: Path) -> None:
    """Delete a file if it is there. Only for intents, temp files and ports: facts are never deleted."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        _sync_folder(path.parent)


def set_aside(path: Path) -> Path:
    """Move a file that cannot be used to `bad/` beside it, under a name that is free. Says where it is now."""
    folder = make_folder(path.parent / "bad")
    for number in itertools.count():
        target = folder / (path.name if not number else f"{path.name}.{number}")
        if not target.exists() and not target.is_symlink():
            move(path, target)
            return target
    raise AssertionError("unreachable")


# ---------------------------------------------------------------- locks


class _FairLock:
    """A lock between threads that is handed over in the order of asking; reentrant."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner: int | None = None
        self._depth = 0
        self._waiting: deque[threading.Event] = deque()

    def acquire(self, end: float, cancel: Waits | None) -> bool:
        me = threading.get_ident()
        with self._guard:
            if self._owner == me or (self._owner is None and not self._waiting):
                self._owner = me
                self._depth += 1
                return True
            mine = threading.Event()
            self._waiting.append(mine)
        while not mine.wait(min(0.2, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end or (cancel is not None and cancel.is_set()):
                break
        with self._guard:
            if not mine.is_set():
                self._waiting.remove(mine)
                return False
            self._owner = me  # handed over: release() left the lock to us alone
            self._depth = 1
            return True

    def release(self) -> bool:
        """True where this was the outermost hold."""
        with self._guard:
            self._depth -= 1
            return self._depth == 0

    def hand_over(self) -> None:
        with self._guard:
            if self._waiting:
                self._owner = -1
                self._waiting.popleft().set()
            else:
                self._owner = None

    @property
    def depth(self) -> int:
        return self._depth


_locks: dict[str, tuple[_FairLock, filelock.FileLock]] = {}
_locks_guard = threading.Lock()


def _lock_of(path: Path) -> tuple[_FairLock, filelock.FileLock]:
    key = f"{os.getpid()}:{path}"
    with _locks_guard:
        if key not in _locks:
            between = filelock.FileLock(path, fallback_to_soft=False, preserve_lock_file=True, poll_interval=0.002)
            _locks[key] = (_FairLock(), between)
        return _locks[key]


@contextlib.contextmanager
def locked(path: Path, *, timeout: float = 30.0, cancel: Waits | None = None) -> Iterator[None]:
    """Hold the lock at `path` against all threads of all processes. A thread may nest it.

    timeout: seconds for both waits together. Raises `LockTimeout` past it, or when `cancel` is set meanwhile.
    On the way out the directories written to are fsynced after the unlock: what the caller does next may rest on them.
    """
    threads, processes = _lock_of(path)
    end = time.monotonic() + timeout
    if not threads.acquire(end, cancel):
        raise LockTimeout(f"the lock {path} was not free within {timeout:g} s: another thread of this process holds it")
    try:
        if threads.depth == 1:
            try:
                processes.acquire(
                    timeout=max(0.0, end - time.monotonic()),
                    cancel_check=cancel.is_set if cancel is not None else None,
                )
            except filelock.Timeout:
                raise LockTimeout(
                    f"the lock {path} was not free within {timeout:g} s: another process holds it"
                ) from None
        _pending.depth += 1
        try:
            yield
        finally:
            _pending.depth -= 1
            if threads.depth == 1:
                processes.release()
    finally:
        if threads.release():
            threads.hand_over()
        if not _pending.depth and _pending.folders:
            folders, _pending.folders = _pending.folders, set()
            for folder in folders:
                _sync_folder(folder)


class Hold:
    """A lock that a process keeps for its life. The operating system lets go of it when the process dies."""

    def __init__(self, path: Path, lock: filelock.FileLock) -> None:
        self.path = path
        self._lock = lock

    def release(self) -> None:
        """Let go; by the thread that took it."""
        self._lock.release()


def hold(path: Path, info: Mapping[str, Any], *, patience: float = 1.0) -> Hold:
    """Take the lock at `path` for life and write `info` into it; `Held` if a living process has it.

    patience: seconds, since somebody who asks `held()` has it for an instant.
    """
    lock = filelock.FileLock(path, fallback_to_soft=False, preserve_lock_file=True, poll_interval=0.02)
    try:
        lock.acquire(timeout=patience)
    except filelock.Timeout:
        raise Held(path, read_info(path)) from None
    _put(path, encode(info), os.O_TRUNC)
    return Hold(path, lock)


def held(path: Path) -> bool:
    """Whether a living process holds `path`. False proves that process dead, whatever became of its pid."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not filelock.lock_descriptor(handle, blocking=False)
    finally:
        os.close(handle)


def read_info(path: Path) -> dict[str, Any]:
    """What the holder wrote into its lock; empty if it cannot be read."""
    try:
        return read_json(path)
    except (Unreadable, FileNotFoundError):
        return {}

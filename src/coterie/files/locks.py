"""Locks between threads and processes, and locks that are held for a life."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import filelock

from coterie.errors import CoterieError
from coterie.files.names import process_mark
from coterie.files.records import Unreadable, encode, expect_regular, read_json
from coterie.files.writing import pending, put, remove, sync_folder


class LockTimeout(CoterieError):
    """A lock was not free in time. `pid`: of the process that holds it, where that is known."""

    def __init__(self, message: str | None = None, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


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


FIRST, LAST = 0.002, 0.02  # seconds between two tries of the lock between processes, at first and in the end

_locks: dict[str, tuple[_FairLock, filelock.FileLock]] = {}
_locks_guard = threading.Lock()


def _lock_of(path: Path) -> tuple[_FairLock, filelock.FileLock]:
    key = f"{os.getpid()}:{path}"
    with _locks_guard:
        if key not in _locks:
            between = filelock.FileLock(path, fallback_to_soft=False, preserve_lock_file=True)
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
                _wait_for(processes, end, cancel)
            except filelock.Timeout:
                pid = holder(path)
                who = f"process {pid}" if pid is not None else "another process"
                raise LockTimeout(
                    f"the lock {path} was not free within {timeout:g} s: {who} holds it. If it hangs, kill it, or "
                    "use coterie stop --now",
                    pid,
                ) from None
            except OSError:  # a folder or a link lies there: say that
                expect_regular(path)
                raise
        pending.depth += 1
        try:
            yield
        finally:
            pending.depth -= 1
            if threads.depth == 1:
                processes.release()
    finally:
        if threads.release():
            threads.hand_over()
        if not pending.depth and pending.folders:
            folders, pending.folders = pending.folders, set()
            for folder in folders:
                sync_folder(folder)


def _wait_for(lock: filelock.FileLock, end: float, cancel: Waits | None) -> None:
    """Try more and more seldom: many processes that wait would else take the processor from the one that has the lock.

    Raises `filelock.Timeout`.
    """
    pause = FIRST
    while True:
        left = max(0.0, end - time.monotonic())
        check = cancel.is_set if cancel is not None else None
        try:
            lock.acquire(timeout=min(left, 4 * pause), poll_interval=pause, cancel_check=check)
            return
        except filelock.Timeout:
            if time.monotonic() >= end or (cancel is not None and cancel.is_set()):
                raise
        pause = min(2 * pause, LAST)


class Hold:
    """A lock that a process keeps for its life. The operating system lets go of it when the process dies."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    def release(self) -> None:
        """Let go."""
        os.close(self._handle)


def hold(path: Path, info: Mapping[str, Any], *, patience: float = 1.0) -> Hold:
    """Take the lock at `path` for life and write `info` into it; `Held` if a living process has it.

    patience: seconds, since somebody who asks `held()` has it for an instant.
    """
    end = time.monotonic() + patience
    while True:
        handle = _open(path, os.O_CREAT)
        try:
            taken = filelock.lock_descriptor(handle, blocking=False)
            if taken and _is_at(handle, path):
                put(path, encode(info), os.O_TRUNC)
                return Hold(path, handle)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # somebody has it, or took its file away for that of a dead process just now
        if time.monotonic() >= end:
            raise Held(path, read_info(path))
        time.sleep(0.02)


def _open(path: Path, flags: int = 0) -> int:
    """A lock's file. `Unreadable` for what is no regular file: who holds it cannot be told."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o644)
    except FileNotFoundError:
        raise
    except OSError:
        expect_regular(path)
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        expect_regular(path)
    return handle


def _is_at(handle: int, path: Path) -> bool:
    """Whether the open file is still what lies at `path`."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def held(path: Path) -> bool:
    """Whether a living process holds `path`. False proves that process dead, whatever became of its pid."""
    try:
        handle = _open(path)
    except FileNotFoundError:
        return False
    try:
        return not filelock.lock_descriptor(handle, blocking=False)
    finally:
        os.close(handle)


def living_holder(path: Path) -> dict[str, Any] | None:
    """What the holder of a lock for life wrote into it, if that very process runs; None if not.

    Takes no lock, so that looking gets in nobody's way: it goes by pid, start time and boot, and is not a proof of
    death where there is no /proc. For what is decided by it there is `held`.
    """
    info = read_info(path)
    pid = info.get("pid")
    if type(pid) is not int or pid <= 0:
        return None
    mark = process_mark(pid)
    return info if mark["start"] is not None and all(info.get(key) == mark[key] for key in mark) else None


def drop_lock(path: Path) -> bool:
    """Remove the lock of a process that is dead; False if a living one has it. Whoever takes it meanwhile sees that."""
    try:
        handle = _open(path)
    except FileNotFoundError:
        return True
    try:
        if not filelock.lock_descriptor(handle, blocking=False):
            return False
        if _is_at(handle, path):
            remove(path)
        return True
    finally:
        os.close(handle)


def holder(path: Path) -> int | None:
    """The pid of the process that has the lock at `path` now, as the kernel says it; None where it does not."""
    try:
        found = path.stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF; with -> after the number, one that waits
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == place and words[4].isdecimal():
            return int(words[4]) or None
    return None


def read_info(path: Path) -> dict[str, Any]:
    """What the holder wrote into its lock; empty if it cannot be read."""
    try:
        return read_json(path)
    except (Unreadable, FileNotFoundError):
        return {}

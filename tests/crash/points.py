"""Where a process dies: just before its Nth change of state, or in the middle of its Nth write to a file that grows.

What counts: opening for writing, rename, remove, mkdir, rmdir, link, symlink, truncate (told by an audit hook), write
(wrapped in the child), and the start of a program that may change something. With `every`, fsync and close too: a kill
before one of these leaves the same on disk as a kill before the next change, so they are taken in the soak alone.
Nothing is synced for real: after SIGKILL the page cache lives, and the order of the calls is looked at by `Order`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

CHANGES = frozenset(
    f"os.{name}" for name in ("rename", "remove", "mkdir", "rmdir", "link", "symlink", "truncate", "chmod")
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
READING = frozenset(
    [
        "cat-file",
        "check-attr",
        "config",
        "diff",
        "diff-tree",
        "for-each-ref",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "rev-list",
        "rev-parse",
        "show",
        "show-ref",
        "status",
        "version",
    ]
)
"""Commands of git that change nothing: no point of their own."""


class Died(AssertionError):
    """A child failed by itself. The text is its traceback."""


@dataclass
class Watch:
    """Counts the changes below `root`; at number `at` the process ends as by kill -9. Installed in a child only.

    torn: count only writes that add to a file, and die when half of the bytes are written.
    """

    root: str
    at: int = 0
    torn: bool = False
    every: bool = False
    count: int = 0
    on: bool = True
    files: dict[int, tuple[str, int]] = field(default_factory=dict)  # descriptor -> path, flags

    def install(self) -> None:
        opened, wrote, synced, closed = os.open, os.write, os.fsync, os.close

        def open_(path: Any, flags: int, *more: Any, **named: Any) -> int:
            handle = opened(path, flags, *more, **named)
            if self.ours(path) and flags & WRITING and not _is_lock(path, flags):
                self.files[handle] = (os.fspath(path), flags)
            return handle

        def write(handle: int, data: Any) -> int:
            if handle in self.files:
                self.change()
                if self.torn and self.files[handle][1] & os.O_APPEND and self.tick():
                    wrote(handle, bytes(data)[: len(data) // 2])
                    _die()
            return wrote(handle, data)

        def fsync(handle: int) -> None:
            if self.every:
                self.change()

        def close(handle: int) -> None:
            if self.files.pop(handle, None) is not None and self.every:
                self.change()
            closed(handle)

        del synced
        os.open, os.write, os.fsync, os.close = open_, write, fsync, close  # type: ignore[assignment]
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES:
            if self.ours(arguments[0]) or arguments[-1] != -1:  # relative to a folder that is open
                self.change()
        elif event == "open":
            path, _, flags = arguments
            if self.ours(path) and flags & WRITING and not _is_lock(path, flags):
                self.change()
        elif event == "subprocess.Popen" and _may_change(arguments[1]):
            self.change()

    def ours(self, path: Any) -> bool:
        return not isinstance(path, int) and os.fsdecode(path).startswith(self.root)

    def change(self) -> None:
        if not self.torn and self.tick():
            _die()

    def tick(self) -> bool:
        self.count += self.on
        return self.on and self.count == self.at


def _is_lock(path: Any, flags: int) -> bool:
    """A lock file is opened without changing anything, unless its holder writes into it."""
    return os.fsdecode(path).endswith("lock") and not flags & os.O_TRUNC


def _may_change(argv: Any) -> bool:
    words = [os.fsdecode(each) for each in argv]
    if "git" not in words:
        return True
    rest = words[words.index("git") + 1 :]
    while rest and rest[0] in ("-c", "-C"):
        rest = rest[2:]
    return not rest or (rest[0] not in READING and rest[:2] != ["worktree", "list"])


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


# ---------------------------------------------------------------- children


Acknowledge = Callable[[str], None]


@dataclass(frozen=True)
class Life:
    """What became of a child: whether it was killed, what it had acknowledged by then, how many points it passed."""

    killed: bool
    acknowledged: list[str]
    count: int


def live(act: Callable[[Acknowledge], None], root: Path, *, at: int, torn: bool = False, every: bool = False) -> Life:
    """Run `act` in a forked child that dies at its point number `at`. Raises `Died` if it fails by itself."""
    watch = Watch(str(root), at, torn, every)

    def work(say: Callable[[Any], None]) -> None:
        watch.install()
        act(lambda key: say(["acknowledged", key]))
        watch.on = False
        say(["count", watch.count])

    said, status = _fork(work)
    count = next((number for kind, number in said if kind == "count"), 0)
    keys = [key for kind, key in said if kind == "acknowledged"]
    return Life(killed=os.WIFSIGNALED(status), acknowledged=keys, count=count)


def forked(work: Callable[[], Any]) -> Any:
    """What `work` answers in a child of its own (as JSON). Raises `Died` with its traceback if it fails."""
    said, status = _fork(lambda say: say(["answer", work()]))
    assert os.WIFEXITED(status), f"the child was killed: {status}"
    return said[-1][1]


def _fork(work: Callable[[Callable[[Any], None]], None]) -> tuple[list[Any], int]:
    assert threading.active_count() == 1, "only a process with one thread is forked"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code, wrote = 0, os.write
        try:
            os.close(read)
            work(lambda line: wrote(write, json.dumps(line).encode() + b"\n") and None)
        except BaseException:
            code = 3
            wrote(write, json.dumps(["fault", traceback.format_exc()]).encode() + b"\n")
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        lines = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    fault = next((text for kind, text in lines if kind == "fault"), None)
    if fault is not None:
        raise Died(fault)
    return lines, status


# ---------------------------------------------------------------- the order of calls, which is what a power cut sees


class Order:
    """Looks in a child at the order of writes and fsyncs: what a power cut would leave behind must never be less than
    what was acknowledged, and no name may lead to content that is not on the disk yet."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.faults: list[str] = []
        self._files: dict[int, str] = {}
        self._folders: dict[int, str] = {}
        self._unwritten: set[str] = set()  # files whose content is not synced
        self._unnamed: dict[str, str] = {}  # folder -> what happened in it since it was synced

    def install(self) -> None:
        opened, wrote, closed = os.open, os.write, os.close

        def open_(path: Any, flags: int, *more: Any, **named: Any) -> int:
            fresh = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            handle = opened(path, flags, *more, **named)
            name = os.fspath(path)
            if self._counts(name):
                if flags & WRITING and not _is_lock(name, flags):
                    self._files[handle] = name
                    if fresh and not name.endswith(".tmp") and "/tmp/" not in name[len(self.root) :]:
                        self._unnamed[os.path.dirname(name)] = f"{name} was made"  # noqa: PTH120
                else:
                    self._folders[handle] = name
            return handle

        def write(handle: int, data: Any) -> int:
            if handle in self._files:
                self._unwritten.add(self._files[handle])
            return wrote(handle, data)

        def fsync(handle: int) -> None:
            self._unwritten.discard(self._files.get(handle, ""))
            self._unnamed.pop(self._folders.get(handle, ""), None)

        def close(handle: int) -> None:
            self._files.pop(handle, None)
            self._folders.pop(handle, None)
            closed(handle)

        os.open, os.write, os.fsync, os.close = open_, write, fsync, close  # type: ignore[assignment]
        sys.addaudithook(self.hear)

    def _counts(self, name: str) -> bool:
        """Nothing rests on what was said, on what an index reads again, and on the second copy of a task."""
        return name.startswith(self.root) and not name.endswith(("events.jsonl", "/changes")) and "/last" not in name

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename":
            source, target = os.fspath(arguments[0]), os.fspath(arguments[1])
            if source in self._unwritten:
                self.faults.append(f"{source} was renamed to {target} before its content was synced")
            if self._counts(target):
                self._unnamed[os.path.dirname(target)] = f"{target} was put in place"  # noqa: PTH120
        elif event == "os.mkdir" and self._counts(os.fspath(arguments[0])):
            path = os.fspath(arguments[0])
            if not os.path.isdir(path):  # noqa: PTH112
                self._unnamed[os.path.dirname(path)] = f"{path} was made"  # noqa: PTH120

    def acknowledged(self, key: str) -> None:
        """From here on the caller relies on it."""
        self.faults += [f"{key} was acknowledged before {name} was synced" for name in sorted(self._unwritten)]
        for folder, what in sorted(self._unnamed.items()):
            self.faults.append(f"{key} was acknowledged before {folder} was synced, where {what}")


def ordered(act: Callable[[Acknowledge], None], root: Path) -> list[str]:
    """What is wrong with the order of the writes of `act`, run to its end in a child."""

    def work() -> list[str]:
        order = Order(root)
        order.install()
        act(order.acknowledged)
        return order.faults

    found: list[str] = forked(work)
    return found


@contextmanager
def quiet_threads() -> Iterator[None]:
    """Wait, after the block, until the threads that it began have ended."""
    yield
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)

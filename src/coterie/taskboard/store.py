"""The board's files under the team's lock.

Every mutation: lock, read what others changed, finish what dead processes began, read the task's file again (the file
decides, never the index), announce it in `changes`, replace the file, unlock.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path

from coterie import files
from coterie.taskboard.graph import find_circle
from coterie.taskboard.intents import Intents
from coterie.taskboard.reading import read_one
from coterie.taskboard.shelf import Shelf, Unsettled
from coterie.taskboard.task import Task, is_id, number, parse
from coterie.taskboard.trail import Lines, Trail

__all__ = ["SETTLE", "Store"]

_Mark = tuple[int, int, int]

SETTLE = 2.0
"""Seconds during which an unreadable file is read again before it is set aside: editors truncate in place."""


class Store:
    """Tasks in `<root>/tasks`, for the threads of one process. Other processes may have the same folder open."""

    def __init__(
        self,
        root: Path,
        *,
        on_change: Callable[[list[str]], None],
        report: Callable[[str], None],
        patience: float = SETTLE,
    ) -> None:
        self.root = root
        self.patience = patience
        self.trail = Trail(root / "changes")
        self.shelf = Shelf(root / "tasks", self.trail)
        self.loaded = False
        self._intents = Intents(root / "intents")
        self._on_change = on_change
        self._report = report
        self._noticed: set[str] = set()
        self._marks: dict[str, tuple[_Mark | None, bool]] = {}
        """What a file looked like when a sweep read it, and whether the sweep before saw the same."""
        self._damaged: dict[str, float] = {}
        """Files that a sweep found unreadable, and since when."""

    @contextlib.contextmanager
    def changing(self) -> Iterator[Shelf]:
        """Hold the team's lock with the index in step. Raises `NewerSchema` if a newer version wrote here.

        After the unlock it says what changed. A file that could not be read is then read again for `patience`
        seconds and set aside if it stays so; do not call it with the team's lock held, or that wait is everybody's.
        """
        with self._locked():
            self._catch_up()
            yield self.shelf
            self.trail.caught_up()
        if self.shelf.unreadable:
            self.settle()

    def settle(self) -> None:
        """Read what is unreadable again for `patience` seconds, without the lock; set aside what stays so.

        Where this process has seen the content that was there before, it is restored.
        """
        end = time.monotonic() + self.patience
        left = set(self.shelf.unreadable)
        never = threading.Event()
        while left and time.monotonic() < end:
            never.wait(0.05)
            left = {task for task in left if not self._is_readable(task)}
        self._set_aside(left)

    def sweep(self) -> None:
        """Find what was done to the files by hand while nobody mutates, and settle it as a mutation would.

        Takes the lock only where something has to be done, and never waits: what is unreadable is set aside by the
        first sweep that finds it so for `patience` seconds. Sizes and times only say what to read again.
        """
        lines = self.trail.peek() if self.loaded else None
        if lines is None or lines.ids or lines.damaged:
            with self._locked():
                self._catch_up()
        now = time.monotonic()
        unreadable = self._look_again()
        self._damaged = {task: self._damaged.get(task, now) for task in unreadable}
        left = {task for task, since in self._damaged.items() if now - since >= self.patience}
        if left or self._noticed:
            for task in left:
                del self._damaged[task]
            self._set_aside(left)

    def _look_again(self) -> set[str]:
        """Notice which files are not as the index has them; those that cannot be read are returned."""
        entries = self.shelf.index.entries
        marks = _marks(self.shelf.folder)
        self._noticed.update(set(entries) - set(marks))
        unreadable: set[str] = set()
        for task, mark in marks.items():
            if self._marks.get(task) == (mark, True):
                continue
            path = self.shelf.path(task)
            entry = entries.get(task)
            try:
                data = files.read_bytes(path)
                if entry is not None and data == entry.data:  # read twice before a mark is trusted: clocks are coarse
                    self._marks[task] = (mark, self._marks.get(task, (None, False))[0] == mark)
                    continue
                parse(data, path)
                self._noticed.add(task)
            except FileNotFoundError:
                self._noticed.add(task)
            except files.Unreadable:
                unreadable.add(task)
        return unreadable

    def _set_aside(self, left: Set[str]) -> None:
        """Come in step, and set aside those of `left` that are still unreadable."""
        with self._locked():
            self._catch_up()
            for task in sorted(left, key=number):
                with contextlib.suppress(Unsettled):
                    self.shelf.look(task)
                if task in self.shelf.unreadable:
                    self.shelf.set_aside(task)
            self.trail.caught_up()

    def create(self, tasks: Sequence[Task], made_by: str | None) -> None:
        """Store new tasks under the lock: all, or after a crash all by whoever takes the lock next."""
        if len(tasks) == 1:
            self.shelf.put(tasks[0])
        elif tasks:
            intent = self._intents.write(tasks, made_by)
            self.shelf.put_new(tasks)
            self._intents.finish(intent)

    def notice(self, ids: Iterable[str]) -> None:
        """Somebody saw these to differ from the index: the next mutation looks at them again."""
        if self.loaded:
            self._noticed.update(ids)

    def notice_edits(self) -> bool:
        """Read every file, without the lock, and notice what nobody announced. Whether there was anything."""
        entries = self.shelf.index.entries
        for task in self.shelf.ids():
            entry = entries.get(task)
            with contextlib.suppress(FileNotFoundError, files.Unreadable):
                if entry is not None and files.read_bytes(self.shelf.path(task)) == entry.data:
                    continue
            self._noticed.add(task)
        return bool(self._noticed)

    def _is_readable(self, task: str) -> bool:
        try:
            read_one(self.shelf.path(task))
        except FileNotFoundError:
            return True
        except files.Unreadable:
            return False
        return True

    # -- keeping up ---------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        files.make_folder(self.shelf.folder)
        self.shelf.copies.prepare()
        lines = self.trail.read() if self.loaded else None
        if lines is None or lines.damaged or not self._learn(lines):
            self.loaded = False
            self.shelf.look_at_all(self.trail.read(all_of_it=True) or Lines())
            self._noticed.clear()
            self._look_at_edges()
            self.loaded = True
        while self._noticed:
            with contextlib.suppress(Unsettled):
                self.shelf.look(self._noticed.pop())
            self._look_at_edges()
        self._finish_intents()
        self.trail.caught_up()
        self._expect_known_schema()

    def _learn(self, lines: Lines) -> bool:
        """Read again what is named; False if a name is in neither index nor folder: then nothing is sure."""
        self.shelf.learn_placed(lines)
        for task in lines.ids:
            if task not in self.shelf.index.entries and not self.shelf.path(task).exists():
                return False
            with contextlib.suppress(Unsettled):
                self.shelf.look(task, announced=True)
        return True

    def _finish_intents(self) -> None:
        for intent in self._intents.left(self.shelf.say):
            fresh = [task for task in intent.tasks if not self._was_here(task.id)]
            self.shelf.put_new(fresh)
            self._intents.finish(intent.path)
            self.shelf.say(
                f"a batch of {files.counted(len(intent.tasks), 'task')} was left half written by a process that died: "
                f"what was missing ({files.counted(len(fresh), 'task')}) is written now ({intent.path.name})"
            )

    def _was_here(self, task: str) -> bool:
        path = self.shelf.path(task)
        return path.exists() or path.is_symlink() or any(path.parent.glob(f"bad/{path.name}*"))

    def _expect_known_schema(self) -> None:
        for task in list(self.shelf.newer):
            with contextlib.suppress(Unsettled):
                self.shelf.look(task)
        self.shelf.expect_known_schema()

    def _look_at_edges(self) -> None:
        entries = self.shelf.index.entries
        ordered = sorted(entries.values(), key=lambda entry: number(entry.id))
        for entry in ordered:
            for blocker in entry.blocked_by:
                if blocker not in entries and blocker not in self.shelf.unreadable:
                    self.shelf.say(f"{entry.id} is blocked by {blocker}, which is not on the board")
        circle = find_circle({entry.id: entry.blocked_by for entry in ordered})
        if circle:
            self.shelf.say(f"these tasks wait for one another, so none can start: {' -> '.join(circle)}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """The team's lock; after it, what was changed and repaired is said, even if the mutation was refused."""
        changed: list[str] = []
        words: list[str] = []
        try:
            with files.locked(self.root / "lock"):
                try:
                    yield
                finally:
                    changed, self.shelf.changed = self.shelf.changed, []
                    words, self.shelf.words = self.shelf.words, []
        finally:
            for text in words:
                self._report(text)
            if changed:
                self._on_change(list(dict.fromkeys(changed)))


def _marks(folder: Path) -> dict[str, _Mark]:
    """The task files by id, each with its size, time of change and inode."""
    found: dict[str, _Mark] = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for each in entries:
            if each.name.endswith(".json") and is_id(each.name[:-5]):
                with contextlib.suppress(FileNotFoundError):
                    status = each.stat(follow_symlinks=False)
                    found[each.name[:-5]] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return found

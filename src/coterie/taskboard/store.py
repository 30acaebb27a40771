"""The board's files under the team's lock.

Every mutation: lock, read what others changed, finish what dead processes began, read the task's file again (the file
decides, never the index), announce it in `changes`, replace the file, unlock.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from coterie import files
from coterie.taskboard.graph import find_circle
from coterie.taskboard.intents import Intents
from coterie.taskboard.reading import read_one
from coterie.taskboard.shelf import Shelf, Unsettled
from coterie.taskboard.task import Task, number
from coterie.taskboard.trail import Lines, Trail

__all__ = ["SETTLE", "Store"]

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
        with self._locked():
            self._catch_up()
            for task in sorted(left & set(self.shelf.unreadable), key=number):
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
                f"a batch of {len(intent.tasks)} tasks was left half written by a process that died: "
                f"the missing {len(fresh)} are written, it is whole now ({intent.path.name})"
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

"""The half of a board that only looks: no lock, no file moved, the files decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie import files
from coterie.errors import DamagedError
from coterie.taskboard.errors import UnknownTask
from coterie.taskboard.reading import Row, read_one, read_raw, rows
from coterie.taskboard.shelf import differing
from coterie.taskboard.store import Store
from coterie.taskboard.task import Status, Task, check_id, number

__all__ = ["Looking"]


class Looking:
    """What is on the board, for any thread at any time. An answer was true at some moment of the call."""

    def __init__(self, store: Store, report: Callable[[str], None]) -> None:
        self._store = store
        self._report = report

    def get(self, id: str) -> Task:
        """The task. `UnknownTask`, or `DamagedError` if its file stays unreadable."""
        try:
            return read_one(self._store.shelf.path(check_id(id)), settle=self._store.patience)
        except FileNotFoundError:
            raise UnknownTask(self._store.shelf.unknown(id), see="board") from None
        except files.Unreadable as error:
            raise DamagedError(f"{id} cannot be read: {error}") from None

    def tasks(self) -> list[Task]:
        """All tasks, by number. Unreadable ones are left out and reported."""
        found = read_raw(self._store.shelf.folder, report=self._report, settle=min(0.3, self._store.patience))
        self._store.notice(differing(self._store.shelf, found))
        return [task for task, _ in found]

    def view(self) -> list[Row]:
        """All tasks, by number, with what keeps each from being ready."""
        return rows(self.tasks())

    def is_current(self, id: str, epoch: int) -> bool:
        """Whether `(id, epoch)` may have effects. An unknown or damaged task has none that is current."""
        try:
            return self.get(id).current(epoch)
        except (UnknownTask, DamagedError):
            return False

    def held_by(self, owner: str) -> Task | None:
        """The task that `owner` holds."""
        held = (task for task in self._among(lambda: self._store.shelf.index.holding(owner)) if task.held)
        return next((task for task in held if task.claim is not None and task.claim.owner == owner), None)

    def queue(self) -> list[Task]:
        """The submitted tasks in the order in which they were handed in."""
        found = [task for task in self._among(self._store.shelf.index.submitted) if task.status is Status.SUBMITTED]
        return sorted(found, key=lambda task: (task.queued or 0, number(task.id)))

    def _among(self, remembered: Callable[[], Iterable[str]]) -> list[Task]:
        """The tasks that the index names and those that changed since, as their files say now; else all tasks."""
        store = self._store
        if not store.loaded:
            return self.tasks()
        lines = store.trail.peek()  # before the index is asked: what it learns meanwhile is in both
        if lines is None or lines.damaged:
            return self.tasks()
        found = []
        for id in {**lines.ids, **dict.fromkeys(remembered())}:
            try:
                found.append(read_one(store.shelf.path(id), settle=store.patience))
            except FileNotFoundError:
                continue
            except files.Unreadable as error:
                self._report(str(error))
        return found

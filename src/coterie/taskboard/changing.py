"""How a mutation of the board is made: under the lock, on the file as it is, once per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from coterie.taskboard.errors import Cycle, TaskRefused, UnknownTask
from coterie.taskboard.looking import Looking
from coterie.taskboard.shelf import Unsettled
from coterie.taskboard.store import Store
from coterie.taskboard.task import Task, check_id

__all__ = ["Changing"]

_T = TypeVar("_T")


class Changing(Looking):
    """What all mutations share."""

    def __init__(self, store: Store, report: Callable[[str], None]) -> None:
        super().__init__(store, report)
        self._shelf = store.shelf

    def _locked(self, act: Callable[[], _T], *, of: str | None = None) -> _T:
        """`act` under the lock; once more if the file of task `of` had to be settled first."""
        try:
            with self._store.changing():
                return act()
        except Unsettled:
            self._store.settle()
        try:
            with self._store.changing():
                return act()
        except Unsettled:
            raise TaskRefused(f"{of} cannot be read just now: somebody is writing to its file. Try again") from None

    def _change(self, id: str, made_by: str | None, act: Callable[[Task], Task]) -> Task:
        check_id(id)

        def change() -> Task:
            task = self._shelf.read(id)
            if task.made(made_by):
                return task
            after = act(task)
            return task if after is task else self._shelf.put(after)

        return self._locked(change, of=id)

    def _first_held(self, owner: str, ids: Iterable[str]) -> Task | None:
        for each in ids:
            try:
                task = self._shelf.read(each)
            except (Unsettled, UnknownTask):
                continue
            if task.held and task.claim is not None and task.claim.owner == owner:
                return task
        return None

    def _expect_blockers(self, task: Task, blockers: Sequence[str]) -> None:
        """`UnknownTask` or `Cycle` unless `task` may wait for `blockers`."""
        entries = self._shelf.index.entries
        for each in blockers:
            if check_id(each) not in entries:
                raise UnknownTask(self._shelf.unknown(each), see="board")
            if each == task.id:
                raise Cycle((each, each))
            path = self._shelf.index.path(each, task.id)
            if path is not None:
                raise Cycle((task.id, *path))

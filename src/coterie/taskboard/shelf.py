"""The task files and the index over them, for who holds the team's lock: each look brings the two in step.

What a person did to a file is taken over; what goes back behind a revision already seen, by this process or by the one
that said so in `changes`, is set aside and the last content restored. Where nobody has that content the file is set
aside all the same: taken over, it would have work done again that is done. Nothing is deleted, and everything of the
kind is said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from coterie import files
from coterie.errors import NewerSchema
from coterie.taskboard.copies import Copies
from coterie.taskboard.errors import UnknownTask
from coterie.taskboard.index import Entry, Index
from coterie.taskboard.task import SCHEMA, Change, Status, Task, encode, is_id, is_newer, number, parse
from coterie.taskboard.trail import Lines, Trail

__all__ = ["Shelf", "Unsettled"]


class Unsettled(Exception):
    """A task's file cannot be read just now. Never leaves this room: the caller settles it without the lock."""


class Shelf:
    """Every method but `path`, `ids` and `unknown` is for who holds the team's lock."""

    def __init__(self, folder: Path, trail: Trail) -> None:
        self.folder = folder
        self.trail = trail
        self.copies = Copies(folder.parent / "last")
        self.index = Index()
        self.newer: set[str] = set()
        """Tasks that a newer version of this program wrote."""
        self.unreadable: dict[str, str] = {}
        """Tasks whose file cannot be read, and why."""
        self.changed: list[str] = []
        self.words: list[str] = []
        self._placed: dict[str, tuple[int, int]] = {}
        self._told: set[str] = set()

    def path(self, task: str) -> Path:
        """Where a task is stored."""
        return self.folder / f"{task}.json"

    def ids(self) -> list[str]:
        """The tasks that have a file."""
        return [path.stem for path in self.folder.iterdir() if path.suffix == ".json" and is_id(path.stem)]

    def unknown(self, task: str) -> str:
        """Why there is no such task, in words."""
        aside = sorted(path.name for path in self.folder.glob(f"bad/{task}.json*"))
        if aside:
            return f"{task} could not be read and was set aside as tasks/bad/{aside[-1]}: a person has to look at it"
        return f"there is no task {task}"

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, task: str) -> Task:
        """The task as its file says now. Raises `UnknownTask`, `NewerSchema`, or `Unsettled` if unreadable."""
        try:
            found = self.look(task)
        finally:
            self.expect_known_schema()
        if found is None:
            raise UnknownTask(self.unknown(task), see="board")
        return found

    def expect_known_schema(self) -> None:
        """Raise `NewerSchema` if a newer version wrote any task: what it means by the others is not known here."""
        if self.newer:
            first = min(self.newer, key=number)
            raise NewerSchema(
                f"{self.path(first)} was written by a newer Coterie (this one knows schema {SCHEMA}): "
                "the board can only be read here. Upgrade to change it."
            )

    def is_completed(self, task: str) -> bool:
        """Whether the file of this blocker says completed. An unknown or unreadable one is not."""
        entry = self.index.entries.get(task)
        with contextlib.suppress(FileNotFoundError, files.Unreadable):
            if entry is not None and self._is_as_known(entry, files.read_bytes(self.path(task))):
                return entry.status is Status.COMPLETED
        with contextlib.suppress(Unsettled):
            found = self.look(task)
            return found is not None and found.status is Status.COMPLETED
        return False

    def look(self, task: str, *, announced: bool = False) -> Task | None:
        """Bring the index in step with one file; None if there is none. Raises `Unsettled`.

        announced: whether `changes` explains a difference; without that, a person made it.
        """
        entry = self.index.entries.get(task)
        try:
            parsed, data = self._load(task)
        except FileNotFoundError:
            self.drop(task, quietly=announced)
            return None
        if entry is not None and self._is_as_known(entry, data):
            return parsed
        seen = self._seen(task)
        if parsed.schema_ > SCHEMA:
            self.index.learn(parsed, data)
        elif self._is_behind(parsed, seen):
            return self._put_back(parsed, data)
        elif announced or entry is None:
            self.index.learn(parsed, data)
            if not announced:
                self._announce(task)
            self._confirm([(parsed, data)])
        else:
            return self._take_over(parsed, entry)
        return parsed

    def look_at_all(self, explained: Lines) -> None:
        """Bring the index in step with the whole folder, and with all that `changes` says."""
        self.learn_placed(explained)
        names = set(self.ids())
        fresh: list[tuple[Task, bytes]] = []
        behind: list[tuple[Task, bytes]] = []
        for task in names:
            with contextlib.suppress(Unsettled, FileNotFoundError):
                if task in self.index.entries:
                    self.look(task, announced=task in explained.ids)
                    continue
                found, data = self._load(task)
                put_back = found.schema_ <= SCHEMA and self._is_behind(found, self._seen(task))
                (behind if put_back else fresh).append((found, data))
        for task in set(self.index.entries) - names:
            self.drop(task, quietly=task in explained.ids)
        self.index.learn_all(fresh)
        self._confirm(fresh)
        for found, data in behind:
            self._put_back(found, data)
        self.index.highest = max([self.index.highest, *self._numbers_set_aside()])

    def learn_placed(self, lines: Lines) -> None:
        """Take in which revisions and epochs were in place."""
        for task, (rev, epoch) in lines.placed.items():
            old_rev, old_epoch = self._placed.get(task, (0, 0))
            self._placed[task] = (max(rev, old_rev), max(epoch, old_epoch))
            self.index.highest = max(self.index.highest, number(task))

    def next_number(self) -> int:
        """The first number that no task has or had, those in `bad/` included."""
        found = self.index.highest + 1
        while self.path(f"T{found}").exists() or self.path(f"T{found}").is_symlink():
            found += 1
        return found

    def _numbers_set_aside(self) -> Iterator[int]:
        for path in self.folder.glob("bad/T*.json*"):
            task = path.name.split(".", 1)[0]
            if is_id(task):
                yield number(task)

    def _load(self, task: str) -> tuple[Task, bytes]:
        path = self.path(task)
        try:
            data = files.read_bytes(path)
            try:
                parsed = parse(data, path)
            except files.Unreadable:
                if is_newer(data, path):
                    self._note_newer(task)
                    raise Unsettled(task) from None
                raise
        except files.Unreadable as error:
            self.unreadable.setdefault(task, error.reason)
            raise Unsettled(task) from None
        if parsed.schema_ > SCHEMA:
            self._note_newer(task)
        else:
            self.newer.discard(task)
        self.unreadable.pop(task, None)
        return parsed, data

    def _note_newer(self, task: str) -> None:
        self.newer.add(task)
        self.unreadable.pop(task, None)
        self.say(f"{task} was written by a newer Coterie: the board can only be read here. Upgrade to change it")

    def _seen(self, task: str) -> tuple[int, int]:
        rev, epoch = self._placed.get(task, (0, 0))
        entry = self.index.entries.get(task)
        return (max(rev, entry.rev), max(epoch, entry.epoch)) if entry is not None else (rev, epoch)

    def _is_as_known(self, entry: Entry, data: bytes) -> bool:
        return data == entry.data and (entry.rev, entry.epoch) >= self._placed.get(entry.id, (0, 0))

    @staticmethod
    def _is_behind(task: Task, seen: tuple[int, int]) -> bool:
        return task.rev < seen[0] or task.epoch < seen[1]

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, task: Task) -> Task:
        """Store one task that was read under this same lock. Returns it."""
        self.expect_known_schema()
        data = encode(task)
        self.trail.announce([task.id])
        files.write_bytes(self.path(task.id), data)
        self.copies.keep(task.id, data)  # before the trail says that it is in place
        self.index.learn(task, data)
        self.trail.confirm([(task.id, task.rev, task.epoch)])
        self.unreadable.pop(task.id, None)
        self.changed.append(task.id)
        return task

    def put_new(self, tasks: Sequence[Task]) -> None:
        """Store a batch of tasks that have no file yet. What makes it all or nothing is the caller's intent."""
        contents = [(task, encode(task)) for task in tasks]
        self.trail.announce(task.id for task in tasks)
        for task, data in contents:
            files.write_bytes(self.path(task.id), data)
            self.copies.keep(task.id, data)
        self.index.learn_all(contents)
        self.trail.confirm((task.id, task.rev, task.epoch) for task in tasks)
        self.changed.extend(task.id for task in tasks)

    def _confirm(self, found: Sequence[tuple[Task, bytes]]) -> None:
        """Finish what who wrote these did not come to: the copy, and the line that says that they are in place."""
        missing = [
            (task, data)
            for task, data in found
            if task.schema_ <= SCHEMA and (task.rev, task.epoch) != self._placed.get(task.id)
        ]
        for task, data in missing:
            self.copies.keep(task.id, data)
        lines = Lines(placed={task.id: (task.rev, task.epoch) for task, _ in missing})
        self.learn_placed(lines)
        self.trail.confirm((task, *numbers) for task, numbers in lines.placed.items())

    # -- what a person did to a file ----------------------------------------------------------------------------

    def drop(self, task: str, *, quietly: bool = False) -> None:
        """Its file is gone."""
        self.unreadable.pop(task, None)
        self.newer.discard(task)
        if task in self.index.entries:
            self.index.forget(task)
            if not quietly:
                self.say(f"the file of {task} is gone: whoever is blocked by it stays blocked")
                self._announce(task)

    def set_aside(self, task: str) -> None:
        """Its file stayed unreadable: to `bad/`; where what was there before is known, that comes back."""
        reason = self.unreadable.pop(task)
        last = self._last(task)
        where = self._replace(task, last)
        if last is not None:
            self.say(f"{task} could not be read ({reason}): set aside as {where}, the last content restored")
        else:
            self.say(f"{task} could not be read ({reason}): set aside as {where}. A person has to look at it")

    def _last(self, task: str) -> bytes | None:
        """What was there last, if this process or the copy has it."""
        seen = self._seen(task)
        entry = self.index.entries.get(task)
        if entry is not None and (entry.rev, entry.epoch) == seen:
            return entry.data
        copy = self.copies.find(self.path(task))
        return copy[1] if copy is not None and not self._is_behind(copy[0], seen) else None

    def _replace(self, task: str, last: bytes | None) -> Path:
        """The file to `bad/`, and `last` in its place if there is any. Returns where the file is now."""
        self._announce(task)
        where = files.set_aside(self.path(task), stays=last is not None)
        self.index.highest = max(self.index.highest, number(task))
        if last is not None:
            files.write_bytes(self.path(task), last)
            restored = parse(last, self.path(task))
            self.index.learn(restored, last)
            self._confirm([(restored, last)])
        else:
            self.drop(task, quietly=True)
        return where

    def _take_over(self, task: Task, entry: Entry) -> Task:
        self.say(f"{task.id} was edited by hand: taken over", always=True)
        return self.put(_settled(task, entry.status, (task.rev, task.epoch), "edited by hand"))

    def _put_back(self, task: Task, data: bytes) -> Task | None:
        """An older content than was there: the last one comes back, or the task is off the board; never taken over."""
        copy = self.copies.find(self.path(task.id))
        last, (rev, epoch) = self._last(task.id), self._seen(task.id)
        if last is None and copy is not None and copy[1] == data:
            return self._lift(task)
        where = self._replace(task.id, last)
        what = (
            f"{task.id} was put back to revision {task.rev}, epoch {task.epoch}, though revision {rev}, epoch {epoch} "
        )
        if last is not None:
            self.say(f"{what}was there: the edit is set aside as {where}, the last content restored", always=True)
            return parse(last, self.path(task.id))
        self.say(
            f"{what}was there, and nobody has that content: set aside as {where}, off the board, since what is done "
            f'would be done again. To go on from it, give it "rev": {rev + 1} and "epoch": {epoch} and move it to '
            f"{self.path(task.id)}",
            always=True,
        )
        return None

    def _lift(self, task: Task) -> Task:
        """The file is as it was last written, only `changes` says more: it gets numbers above that."""
        rev, epoch = self._seen(task.id)
        self.say(f"{task.id} is at revision {task.rev}, though {self.trail.path.name} says {rev}: goes on above that")
        return self.put(_settled(task, task.status, (max(task.rev, rev), max(task.epoch, epoch)), "goes on"))

    def _announce(self, task: str) -> None:
        self.trail.announce([task])
        self.changed.append(task)

    def say(self, text: str, *, always: bool = False) -> None:
        """Report something, after the unlock; once in the life of this process, unless `always`."""
        if always or text not in self._told:
            self.words.append(text)
        self._told.add(text)


def _settled(task: Task, before: Status, numbers: tuple[int, int], reason: str) -> Task:
    """`task` as a person left it, as a revision of its own, without what its status does not allow."""
    rev, epoch = numbers
    fields: dict[str, object] = {"rev": rev + 1, "epoch": epoch}
    if task.status not in (Status.IN_PROGRESS, Status.SUBMITTED):
        fields |= {"claim": None, "assignment": None, "wanted": None, "merging": None}
    change = Change(at=files.now(), from_=before, to=task.status, by="human", epoch=epoch, reason=reason)
    return task.model_copy(update={**fields, "history": (*task.history, change)})


def differing(shelf: Shelf, found: Iterable[tuple[Task, bytes]]) -> Iterator[str]:
    """Which of these, read without the lock, cannot be explained by what the index knows."""
    for task, data in found:
        entry = shelf.index.entries.get(task.id)
        if entry is None or task.rev < entry.rev or (task.rev == entry.rev and data != entry.data):
            yield task.id

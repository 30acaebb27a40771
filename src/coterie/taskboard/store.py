"""The files of the board, and the index over them, kept in step under the team's lock.

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
from coterie.errors import NewerSchema
from coterie.taskboard.errors import UnknownTask
from coterie.taskboard.graph import find_circle
from coterie.taskboard.index import Entry, Index
from coterie.taskboard.intents import Intents
from coterie.taskboard.task import SCHEMA, Change, Status, Task, encode, is_id, is_newer, number, parse
from coterie.taskboard.trail import Lines, Trail

__all__ = ["Store", "Unsettled"]

SETTLE = 2.0
"""Seconds during which an unreadable file is read again before it is set aside."""


class Unsettled(Exception):
    """A task's file cannot be read just now. Never leaves this room: the caller settles it outside the lock."""


class Store:
    """Tasks in `<root>/tasks`, for the threads of one process. Other processes may have the same folder open."""

    def __init__(self, root: Path, *, on_change: Callable[[list[str]], None], report: Callable[[str], None]) -> None:
        self.root = root
        self.folder = root / "tasks"
        self.index = Index()
        self.trail = Trail(root / "changes")
        self.noticed: set[str] = set()
        """Ids whose file somebody saw to differ from the index: read again by the next mutation."""
        self.loaded = False
        self._intents = Intents(root / "intents")
        self._on_change = on_change
        self._report = report
        self._placed: dict[str, tuple[int, int]] = {}
        self._newer: set[str] = set()
        self._unreadable: dict[str, str] = {}
        self._told: set[str] = set()
        self._changed: list[str] = []
        self._words: list[str] = []

    # -- under the lock -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the team's lock with the index up to date. Raises `NewerSchema` if a newer version wrote here.

        After the unlock it says what changed. A file that could not be read is then read again for up to 2 s and
        set aside if it stays so; do not call it with the team's lock held, or that wait is everybody's.
        """
        files.make_folder(self.folder)
        changed: list[str] = []
        words: list[str] = []
        try:
            with files.locked(self.root / "lock"):
                try:
                    self._catch_up()
                    self._finish_intents()
                    for task in list(self._newer):
                        with contextlib.suppress(Unsettled):
                            self._look(task)
                    if self._newer:
                        raise NewerSchema(
                            f"{self.path(min(self._newer, key=number))} was written by a newer Coterie (known is "
                            f"schema {SCHEMA}): the board is read-only here. Upgrade to change it."
                        )
                    yield
                finally:
                    changed, self._changed = self._changed, []
                    words, self._words = self._words, []
                    unreadable = list(self._unreadable)
        finally:
            self._speak(changed, words)
        if unreadable:
            self.settle(unreadable)

    def path(self, task: str) -> Path:
        return self.folder / f"{task}.json"

    def read(self, task: str) -> Task:
        """The task as its file says now. Raises `UnknownTask`, or `Unsettled` where the file cannot be read."""
        found = self._look(task)
        if found is None:
            raise UnknownTask(self.unknown(task))
        return found

    def is_completed(self, task: str) -> bool:
        """Whether the file of this blocker says completed. An unknown or unreadable one is not."""
        try:
            data = files.read_bytes(self.path(task))
        except (FileNotFoundError, files.Unreadable):
            data = b""
        entry = self.index.entries.get(task)
        if entry is None or data != entry.data:
            with contextlib.suppress(Unsettled):
                self._look(task)
            entry = self.index.entries.get(task) if task not in self._unreadable else None
        return entry is not None and entry.status is Status.COMPLETED

    def unknown(self, task: str) -> str:
        """Why there is no such task, and which there are."""
        aside = sorted(path.name for path in self.folder.glob(f"bad/{task}.json*"))
        if aside:
            return f"{task} could not be read and was set aside as tasks/bad/{aside[-1]}. A person has to look at it."
        return f"there is no task {task}. There are {len(self.index.entries)} tasks; list_tasks names them."

    def put(self, task: Task) -> Task:
        """Store one changed task. The caller has read it under this same lock."""
        self.put_all([task])
        return task

    def put_all(self, tasks: Sequence[Task], *, made_by: str | None = None) -> None:
        """Store several tasks: all, or after a crash all by whoever takes the lock next."""
        contents = [(task, encode(task)) for task in tasks]
        self.trail.announce(task.id for task in tasks)
        intent = self._intents.write(tasks, made_by) if len(tasks) > 1 else None
        for task, data in contents:
            files.write_bytes(self.path(task.id), data)
        if intent is not None:
            self._intents.finish(intent)
            self.index.learn_all(contents)
        else:
            for task, data in contents:
                self.index.learn(task, data)
        self.trail.confirm((task.id, task.rev, task.epoch) for task in tasks)
        self.trail.skip_own()
        for task in tasks:
            self._unreadable.pop(task.id, None)
            self._changed.append(task.id)

    def next_number(self) -> int:
        """The first number that no task has or had, whatever is in `bad/`."""
        found = self.index.highest + 1
        while self.path(f"T{found}").exists() or self.path(f"T{found}").is_symlink():
            found += 1
        return found

    def notice(self, found: Iterable[tuple[Task, bytes]]) -> None:
        """Somebody read these without the lock: where one differs from the index, the next mutation looks again."""
        if not self.loaded:
            return
        entries = self.index.entries
        for task, data in found:
            entry = entries.get(task.id)
            if entry is None or (task.rev == entry.rev and data != entry.data) or task.rev < entry.rev:
                self.noticed.add(task.id)

    def find_hand_edits(self) -> bool:
        """Under the lock: read every file again. Whether any differed; it is taken over then."""
        before = len(self._words)
        ids = {path.stem for path in self.folder.iterdir() if path.suffix == ".json" and is_id(path.stem)}
        for task in ids | set(self.index.entries):
            entry = self.index.entries.get(task)
            with contextlib.suppress(FileNotFoundError, files.Unreadable):
                if entry is not None and files.read_bytes(self.path(task)) == entry.data:
                    continue
            with contextlib.suppress(Unsettled):
                self._look(task)
        return len(self._words) > before

    # -- keeping up ---------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        lines = self.trail.read() if self.loaded else None
        if lines is None or lines.damaged:
            self._read_all()
            return
        self._learn_placed(lines)
        for task in lines.ids:
            if task not in self.index.entries and not self.path(task).exists():
                self._read_all()  # a name that nothing here explains
                return
            with contextlib.suppress(Unsettled):
                self._look(task, announced=True)
        while self.noticed:
            with contextlib.suppress(Unsettled):
                self._look(self.noticed.pop())

    def _read_all(self) -> None:
        first, self.loaded = not self.loaded, False
        lines = self.trail.read(all_of_it=True) or Lines()
        self._learn_placed(lines)
        names = [path for path in self.folder.iterdir() if is_id(path.stem) and path.suffix == ".json"]
        found: list[tuple[Task, bytes]] = []
        for path in names:
            if not first and path.stem in self.index.entries:
                with contextlib.suppress(Unsettled):
                    self._look(path.stem, announced=path.stem in lines.ids)
            else:
                with contextlib.suppress(Unsettled, FileNotFoundError):
                    found.append(self._load(path.stem))
        for gone in set(self.index.entries) - {path.stem for path in names}:
            self._drop(gone)
        self.index.learn_all(found)
        for task, _ in found:
            placed = self._placed.get(task.id)
            if placed is not None and self._is_behind(task, placed):
                self._lift(task, placed)
        self.index.highest = max([self.index.highest, *map(number, lines.ids), *self._numbers_set_aside()])
        self.noticed.clear()
        self.loaded = True
        self._look_at_edges()

    def _numbers_set_aside(self) -> Iterator[int]:
        for path in self.folder.glob("bad/T*.json*"):
            task = path.name.split(".", 1)[0]
            if is_id(task):
                yield number(task)

    def _learn_placed(self, lines: Lines) -> None:
        for task, (rev, epoch) in lines.placed.items():
            old_rev, old_epoch = self._placed.get(task, (0, 0))
            self._placed[task] = (max(rev, old_rev), max(epoch, old_epoch))
            self.index.highest = max(self.index.highest, number(task))

    def _load(self, task: str) -> tuple[Task, bytes]:
        path = self.path(task)
        try:
            data = files.read_bytes(path)
            parsed = parse(data, path)
        except files.Unreadable as error:
            if self._says_newer(path):
                self._newer.add(task)
                self._say(f"{path} was written by a newer Coterie: this version only reads the board", once=True)
            else:
                self._unreadable.setdefault(task, error.reason)
            raise Unsettled(task) from None
        if parsed.schema_ > SCHEMA:
            self._newer.add(task)
        else:
            self._newer.discard(task)
        self._unreadable.pop(task, None)
        return parsed, data

    def _says_newer(self, path: Path) -> bool:
        try:
            return is_newer(files.read_bytes(path), path)
        except (files.Unreadable, FileNotFoundError):
            return False

    def _look(self, task: str, *, announced: bool = False) -> Task | None:
        """Bring the index in step with one file; what a person did to it is taken over or put back."""
        entry = self.index.entries.get(task)
        try:
            parsed, data = self._load(task)
        except FileNotFoundError:
            self._drop(task, quietly=announced)
            return None
        if entry is not None and data == entry.data:
            return parsed
        seen = self._seen(task, entry)
        if parsed.schema_ > SCHEMA:
            self.index.learn(parsed, data)
        elif self._is_behind(parsed, seen):
            if entry is not None and (entry.rev, entry.epoch) == seen:
                return self._put_back(entry)
            return self._lift(parsed, seen)
        elif announced or entry is None:
            self.index.learn(parsed, data)
            if not announced:
                self._announce(task)
                self._look_at_edges()
        else:
            return self._take_over(parsed, entry)
        return parsed

    def _seen(self, task: str, entry: Entry | None) -> tuple[int, int]:
        rev, epoch = self._placed.get(task, (0, 0))
        return (max(rev, entry.rev), max(epoch, entry.epoch)) if entry is not None else (rev, epoch)

    @staticmethod
    def _is_behind(task: Task, seen: tuple[int, int]) -> bool:
        return task.rev < seen[0] or task.epoch < seen[1]

    # -- what a person did to a file ----------------------------------------------------------------------------

    def _take_over(self, task: Task, entry: Entry) -> Task:
        self._say(f"{task.id} was edited by hand: taken over")
        task = self.put(_settled(task, entry.status, rev=task.rev, epoch=task.epoch, reason="edited by hand"))
        self._look_at_edges()
        return task

    def _lift(self, task: Task, seen: tuple[int, int]) -> Task:
        """An older content whose newer one is not known here: taken over, but no number is used twice."""
        self._say(f"{task.id} was put back by hand to revision {task.rev}, after {seen[0]}: taken over as a new one")
        return self.put(
            _settled(
                task, task.status, rev=max(task.rev, seen[0]), epoch=max(task.epoch, seen[1]), reason="put back by hand"
            )
        )

    def _put_back(self, entry: Entry) -> Task:
        where = files.set_aside(self.path(entry.id))
        self._restore(entry)
        self._say(
            f"{entry.id} was edited by hand from an older revision than {entry.rev}: "
            f"the edit is set aside as {where}, the last content restored"
        )
        return parse(entry.data, self.path(entry.id))

    def _restore(self, entry: Entry) -> None:
        self.trail.announce([entry.id])
        files.write_bytes(self.path(entry.id), entry.data)
        self.trail.skip_own()
        self._changed.append(entry.id)

    def _drop(self, task: str, *, quietly: bool = False) -> None:
        self._unreadable.pop(task, None)
        self._newer.discard(task)
        if task in self.index.entries:
            self.index.forget(task)
            if not quietly:
                self._say(f"the file of {task} is gone: whoever is blocked by it stays blocked")
                self._announce(task)

    def _announce(self, task: str) -> None:
        self.trail.announce([task])
        self.trail.skip_own()
        self._changed.append(task)

    def settle(self, tasks: Iterable[str]) -> None:
        """Read these files again for up to 2 s, without the lock; then set aside what still cannot be read.

        Where this process has seen the content that was there before, it is restored.
        """
        end = time.monotonic() + SETTLE
        left = set(tasks)
        while left and time.monotonic() < end:
            threading.Event().wait(0.05)
            left = {task for task in left if not self._readable(task)}
        with files.locked(self.root / "lock"):
            self._catch_up()
            for task in sorted(self._unreadable, key=number):
                with contextlib.suppress(Unsettled):
                    self._look(task)
                    continue
                if task in left:
                    self._set_aside(task)
            changed, self._changed = self._changed, []
            words, self._words = self._words, []
        self._speak(changed, words)

    def _readable(self, task: str) -> bool:
        path = self.path(task)
        try:
            parse(files.read_bytes(path), path)
        except FileNotFoundError:
            return True
        except files.Unreadable:
            return False
        return True

    def _set_aside(self, task: str) -> None:
        reason = self._unreadable.pop(task)
        entry = self.index.entries.get(task)
        self.trail.announce([task])
        where = files.set_aside(self.path(task))
        if entry is not None:
            self._restore(entry)
            self._say(f"{task} could not be read ({reason}): set aside as {where}, the last content restored")
        else:
            self.trail.skip_own()
            self.index.highest = max(self.index.highest, number(task))
            self._changed.append(task)
            self._say(f"{task} could not be read ({reason}): set aside as {where}. A person has to look at it")

    def _finish_intents(self) -> None:
        for intent in self._intents.left(self._say):
            fresh = [
                task
                for task in intent.tasks
                if not self.path(task.id).exists() and not any(self.folder.glob(f"bad/{task.id}.json*"))
            ]
            self.trail.announce(task.id for task in fresh)
            contents = [(task, encode(task)) for task in fresh]
            for task, data in contents:
                files.write_bytes(self.path(task.id), data)
            self._intents.finish(intent.path)
            self.index.learn_all(contents)
            self.trail.skip_own()
            self._changed.extend(task.id for task in fresh)
            self._say(
                f"a batch of {len(intent.tasks)} tasks was left half written by a dead process: "
                f"{len(fresh)} more written, it is whole now"
            )

    def _look_at_edges(self) -> None:
        entries = self.index.entries
        for entry in entries.values():
            for blocker in entry.blocked_by:
                if blocker not in entries and blocker not in self._unreadable:
                    self._say(f"{entry.id} is blocked by {blocker}, which is not on the board", once=True)
        circle = find_circle({entry.id: entry.blocked_by for entry in entries.values()})
        if circle:
            self._say(f"these tasks wait for one another: {' -> '.join(circle)}", once=True)

    def _say(self, text: str, *, once: bool = False) -> None:
        if not (once and text in self._told):
            self._words.append(text)
        self._told.add(text)

    def _speak(self, changed: list[str], words: list[str]) -> None:
        for text in words:
            self._report(text)
        if changed:
            self._on_change(list(dict.fromkeys(changed)))


def _settled(task: Task, before: Status, *, rev: int, epoch: int, reason: str) -> Task:
    """`task` as a person left it, with what its status does not allow taken out, as a revision of its own."""
    fields: dict[str, object] = {"rev": rev + 1, "epoch": epoch}
    if task.status not in (Status.IN_PROGRESS, Status.SUBMITTED):
        fields |= {"claim": None, "assignment": None, "wanted": None, "merging": None}
    change = Change(at=files.now(), from_=before, to=task.status, by="human", epoch=epoch, reason=reason, made_by=None)
    return task.model_copy(update={**fields, "history": (*task.history, change)})

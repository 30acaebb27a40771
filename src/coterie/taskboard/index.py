"""What a process remembers of the board: who holds what, what is ready, in which order. Memory only, no files.

The index only says where to look: whoever acts on a task reads its file again, and the file decides.
Taking the best ready task costs O(log n), a status change O(dependants), reading everything in O(tasks + edges).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Set
from dataclasses import dataclass

from coterie.taskboard.graph import chains
from coterie.taskboard.task import Status, Task, number

__all__ = ["Entry", "Index"]

Key = tuple[int, int, int]
Bucket = tuple[str | None, str | None]
_WAITS = frozenset({Status.PENDING})


@dataclass(frozen=True, slots=True)
class Entry:
    """One task as last seen: what its order and its readiness depend on, and the content of its file."""

    id: str
    status: Status
    blocked_by: tuple[str, ...]
    priority: int
    bucket: Bucket  # role and split: what a claim may have to pass over as a whole
    rev: int
    epoch: int
    holder: str | None
    data: bytes


class Index:
    """Not safe between threads by itself: changed only by who holds the team's lock."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.highest = 0
        """The highest number an id ever had, as far as was seen."""
        self.highest_queued = 0
        self.created: dict[str, list[str]] = {}
        """Key of a creating call -> the ids it made, in order."""
        self.claimed: dict[str, str] = {}
        """Key of a claiming call -> the id it claimed."""
        self._holding: dict[str, set[str]] = {}
        self._submitted: set[str] = set()
        self._dependants: dict[str, set[str]] = {}
        self._open: dict[str, int] = {}
        self._length: dict[str, int] = {}
        self._heaps: dict[Bucket, list[tuple[Key, str]]] = {}

    # -- looking ------------------------------------------------------------------------------------------------

    def holding(self, owner: str) -> tuple[str, ...]:
        """The tasks that `owner` holds; more than one only after a hand edit."""
        return tuple(self._holding.get(owner, ()))

    def submitted(self) -> tuple[str, ...]:
        """The tasks that wait in the merge queue."""
        return tuple(self._submitted)

    def is_ready(self, task: str) -> bool:
        """Whether it is pending and everything that blocks it is completed."""
        entry = self.entries.get(task)
        return entry is not None and entry.status is Status.PENDING and not self._open.get(task)

    def key(self, task: str) -> Key:
        """What ready tasks are ordered by: the smallest is claimed first."""
        return (-self.entries[task].priority, -self._length.get(task, 0), number(task))

    def take_best(self, role: str | None, *, without: Set[Bucket] = frozenset()) -> str | None:
        """Take the best ready task that `role` may do out of the order; `offer` puts it back.

        A task without a role is for everybody. Buckets in `without` are passed over.
        """
        best: tuple[Key, str] | None = None
        for bucket in list(self._heaps):
            if bucket[0] in (None, role) and bucket not in without:
                head = self._head(bucket)
                if head is not None and (best is None or head < best):
                    best = head
        if best is None:
            return None
        heapq.heappop(self._heaps[self.entries[best[1]].bucket])
        return best[1]

    def _head(self, bucket: Bucket) -> tuple[Key, str] | None:
        heap = self._heaps[bucket]
        while heap:
            key, task = heap[0]
            if self.is_ready(task) and self.entries[task].bucket == bucket and self.key(task) == key:
                return heap[0]
            heapq.heappop(heap)  # left over from an earlier state
        del self._heaps[bucket]
        return None

    def buckets(self) -> frozenset[Bucket]:
        """The buckets that may have something ready."""
        return frozenset(self._heaps)

    def path(self, start: str, end: str) -> tuple[str, ...] | None:
        """A way from `start` to `end`, each waiting for the next; None if there is none."""
        came_from = {start: start}
        stack = [start]
        while stack:
            task = stack.pop()
            if task == end:
                way = [task]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return tuple(reversed(way))
            for blocker in self.entries[task].blocked_by if task in self.entries else ():
                if blocker not in came_from:
                    came_from[blocker] = task
                    stack.append(blocker)
        return None

    def offer(self, task: str) -> None:
        """Put a task into the order, if it is ready."""
        if self.is_ready(task):
            heapq.heappush(self._heaps.setdefault(self.entries[task].bucket, []), (self.key(task), task))

    # -- learning -----------------------------------------------------------------------------------------------

    def learn(self, task: Task, data: bytes) -> None:
        """Take in one task as its file says it is."""
        old = self.entries.get(task.id)
        entry = self._enter(task, data)
        if old is None or (old.status is Status.COMPLETED) != (entry.status is Status.COMPLETED):
            step = -1 if entry.status is Status.COMPLETED else 1
            for each in self._dependants.get(task.id, ()):
                if old is not None or step < 0:  # an unknown blocker already counted as open
                    self._open[each] += step
                    self.offer(each)
        self._rewire(old, entry)
        if old is None or entry.status is not Status.COMPLETED:
            self._measure(task.id)
        waited = old is not None and old.status is Status.PENDING
        if waited or entry.status is Status.PENDING:
            blockers = {*entry.blocked_by, *(old.blocked_by if old else ())}
            if not (waited and entry.status is Status.PENDING and old and old.blocked_by == entry.blocked_by):
                for blocker in blockers:
                    self._measure(blocker)
        self.offer(task.id)

    def learn_all(self, tasks: Iterable[tuple[Task, bytes]]) -> None:
        """Take in many tasks at once: the chains are measured once, at the end."""
        for task, data in tasks:
            old = self.entries.get(task.id)
            self._rewire(old, self._enter(task, data))
        for entry in self.entries.values():
            self._open[entry.id] = self._count_open(entry)
        waiting = {entry.id for entry in self.entries.values() if entry.status in _WAITS}
        self._length = chains(waiting, self._dependants)
        self._heaps.clear()
        for task_id in waiting:
            self.offer(task_id)

    def forget(self, task: str) -> None:
        """Its file is not there any more: who waits for it is blocked by something unknown."""
        entry = self.entries.pop(task, None)
        if entry is None:
            return
        self._submitted.discard(task)
        self._let_go(entry)
        for blocker in entry.blocked_by:
            self._dependants.get(blocker, set()).discard(task)
            self._measure(blocker)
        if entry.status is Status.COMPLETED:
            for each in self._dependants.get(task, ()):
                self._open[each] += 1

    def _enter(self, task: Task, data: bytes) -> Entry:
        entry = Entry(
            task.id,
            task.status,
            tuple(dict.fromkeys(task.blocked_by)),
            task.priority,
            (task.role, task.split),
            task.rev,
            task.epoch,
            task.claim.owner if task.claim and task.held else None,
            data,
        )
        old = self.entries.get(task.id)
        self.entries[task.id] = entry
        self.highest = max(self.highest, number(task.id))
        self.highest_queued = max(self.highest_queued, task.queued or 0)
        if old is not None:
            self._let_go(old)
        elif task.made_by:
            made = self.created.setdefault(task.made_by, [])
            if task.id not in made:
                made.append(task.id)
                made.sort(key=number)
        if entry.holder is not None:
            self._holding.setdefault(entry.holder, set()).add(task.id)
        if task.status is Status.SUBMITTED:
            self._submitted.add(task.id)
        else:
            self._submitted.discard(task.id)
        for change in task.history:
            if change.made_by and change.to is Status.IN_PROGRESS and change.from_ is Status.PENDING:
                self.claimed[change.made_by] = task.id
        return entry

    def _let_go(self, entry: Entry) -> None:
        if entry.holder is not None:
            held = self._holding.get(entry.holder, set())
            held.discard(entry.id)
            if not held:
                self._holding.pop(entry.holder, None)

    def _rewire(self, old: Entry | None, entry: Entry) -> None:
        before = set(old.blocked_by) if old else set()
        after = set(entry.blocked_by)
        for blocker in before - after:
            self._dependants[blocker].discard(entry.id)
        for blocker in after - before:
            self._dependants.setdefault(blocker, set()).add(entry.id)
        self._dependants.setdefault(entry.id, set())
        if old is None or before != after:
            self._open[entry.id] = self._count_open(entry)

    def _count_open(self, entry: Entry) -> int:
        return sum(
            1
            for blocker in entry.blocked_by
            if blocker not in self.entries or self.entries[blocker].status is not Status.COMPLETED
        )

    def _measure(self, task: str) -> None:
        """Measure the chain behind a task again, and what that changes for those it waits for itself."""
        stack = [task]
        while stack:
            each = stack.pop()
            entry = self.entries.get(each)
            if entry is not None and entry.status is Status.COMPLETED:
                continue  # nothing waits for it: without this, each claim would visit every sibling
            lengths = (
                self._length.get(other, 0) + 1
                for other in self._dependants.get(each, ())
                if other in self.entries and self.entries[other].status in _WAITS
            )
            found = min(max(lengths, default=0), len(self.entries))  # a circle made by hand must not count for ever
            if found != self._length.get(each, 0):
                self._length[each] = found
                if entry is not None:
                    self.offer(each)
                    if entry.status in _WAITS:
                        stack.extend(entry.blocked_by)

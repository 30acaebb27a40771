"""Looking at a board: no lock is taken and no file moved, so it can be done at any time by anybody."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from coterie import files
from coterie.taskboard.task import Status, Task, is_id, number, parse

__all__ = ["Row", "list_ids", "read_one", "read_raw", "read_tasks", "rows"]


GAPS = 10_000
"""At most so many numbers that a listing does not have are looked for."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One task as a board shows it. `why` says in words what is in the way of it; empty if nothing is."""

    task: Task
    ready: bool
    open_blockers: tuple[str, ...]
    why: str


def read_one(path: Path, *, settle: float = 0.0) -> Task:
    """The task in one file. Raises `FileNotFoundError`, or `files.Unreadable` if it is so for `settle` seconds."""
    end = time.monotonic() + settle
    while True:
        try:
            return parse(files.read_bytes(path), path)
        except files.Unreadable:
            if time.monotonic() >= end:
                raise
            time.sleep(0.05)


def read_tasks(folder: Path, *, report: Callable[[str], None] | None = None, settle: float = 0.3) -> list[Task]:
    """All tasks in `folder` (a team's `tasks`), by number. What cannot be read is left out and reported.

    settle: seconds during which unreadable files are read again, since editors truncate in place.
    Each task is as it was at some moment of the call; together they need not be one moment's board.
    """
    return [task for task, _ in read_raw(folder, report=report, settle=settle)]


def list_ids(folder: Path) -> list[str]:
    """The tasks that may have a file in `folder`; one that is named here may be gone, none that is there is left out.

    A listing alone does not promise that: where a file is replaced meanwhile, tmpfs gives it a new place in the folder,
    past the end of a listing that has begun. Numbers have no gaps but those of files set aside or removed.
    """
    try:
        with os.scandir(folder) as found:
            ids = {each.name[:-5] for each in found if each.name.endswith(".json") and is_id(each.name[:-5])}
    except FileNotFoundError:
        return []
    highest = max(map(number, ids), default=0)
    if highest - len(ids) <= GAPS:  # else a person has written a file with a number far away
        ids.update(f"T{each}" for each in range(1, highest))
    while (folder / f"T{highest + 1}.json").exists():
        highest += 1
        ids.add(f"T{highest}")
    return list(ids)


def read_raw(
    folder: Path, *, report: Callable[[str], None] | None = None, settle: float = 0.3
) -> list[tuple[Task, bytes]]:
    """As `read_tasks`, each with the content of its file."""
    left = [folder / f"{id}.json" for id in list_ids(folder)]
    tasks: list[tuple[Task, bytes]] = []
    end = time.monotonic() + settle
    while True:
        failed: list[files.Unreadable] = []
        for path in left:
            try:
                data = files.read_bytes(path)
                tasks.append((parse(data, path), data))
            except FileNotFoundError:
                continue  # set aside meanwhile
            except files.Unreadable as error:
                failed.append(error)
        if not failed or time.monotonic() >= end:
            break
        left = [error.path for error in failed]
        time.sleep(0.05)
    if report is not None:
        for each in failed:
            report(str(each))
    return sorted(tasks, key=lambda each: number(each[0].id))


def rows(tasks: Iterable[Task]) -> list[Row]:
    """What a board shows of these tasks, in their order."""
    tasks = list(tasks)
    known = {task.id: task for task in tasks}
    return [_row(task, known) for task in tasks]


def _row(task: Task, known: dict[str, Task]) -> Row:
    open_blockers = tuple(
        each
        for each in dict.fromkeys(task.blocked_by)
        if each not in known or known[each].status is not Status.COMPLETED
    )
    ready = task.status is Status.PENDING and not open_blockers
    return Row(task=task, ready=ready, open_blockers=open_blockers, why=_why(task, open_blockers, known))


def _why(task: Task, open_blockers: tuple[str, ...], known: dict[str, Task]) -> str:
    if task.wanted is not None:
        return f"{task.wanted.move} wanted by {task.wanted.by}: {task.wanted.reason}"
    if task.status in (Status.FAILED, Status.CANCELLED):
        return task.history[-1].reason if task.history else ""
    if task.status is not Status.PENDING or not open_blockers:
        return ""
    return "; ".join(_blocker(each, known.get(each)) for each in open_blockers)


def _blocker(task: str, found: Task | None) -> str:
    if found is None:
        return f"{task} is not on the board (unreadable or unknown): repair it, or unblock this task"
    if found.status in (Status.FAILED, Status.CANCELLED):
        return f"{task} {found.status}: retry it, or unblock this task"
    return f"waits for {task} ({found.status})"

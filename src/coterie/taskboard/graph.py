"""The graph of `blocked_by`, as pure functions on `id -> the ids it waits for`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from coterie.taskboard.task import Status, Task, number

__all__ = ["chains", "dependants", "find_circle", "ready_order"]

Edges = Mapping[str, Sequence[str]]


def dependants(edges: Edges) -> dict[str, list[str]]:
    """The edges turned round: `id -> the ids that wait for it`."""
    turned: dict[str, list[str]] = {task: [] for task in edges}
    for task, blockers in edges.items():
        for blocker in dict.fromkeys(blockers):
            turned.setdefault(blocker, []).append(task)
    return turned


def find_circle(edges: Edges, starts: Iterable[str] | None = None) -> tuple[str, ...] | None:
    """A circle that can be reached from `starts` (all, if not given), first and last id the same; or None.

    Takes time in the number of tasks and edges reached; depth is not limited by recursion.
    """
    done: set[str] = set()
    for start in edges if starts is None else starts:
        path: list[str] = []
        on_path: dict[str, int] = {}
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            task, leaving = stack.pop()
            if leaving:
                path.pop()
                del on_path[task]
                done.add(task)
            elif task in on_path:
                return (*path[on_path[task] :], task)
            elif task not in done:
                on_path[task] = len(path)
                path.append(task)
                stack.append((task, True))
                stack.extend((blocker, False) for blocker in reversed(edges.get(task, ())))
    return None


def chains(waiting: Set[str], turned: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """For each id in `turned`: how many tasks the longest chain of waiting dependants behind it has.

    waiting: the ids that wait (pending). An edge that closes a circle counts as not there.
    """
    length: dict[str, int] = {}
    open_: set[str] = set()
    for start in turned:
        stack = [(start, False)]
        while stack:
            task, leaving = stack.pop()
            if leaving:
                behind = (length.get(each, -1) + 1 for each in turned.get(task, ()) if each in waiting)
                length[task] = max(behind, default=0)
            elif task not in open_:
                open_.add(task)
                stack.append((task, True))
                stack.extend((each, False) for each in turned.get(task, ()) if each not in open_)
    return length


def ready_order(tasks: Iterable[Task]) -> list[Task]:
    """The ready tasks in the order in which they are claimed: priority (10 first), longest chain, id."""
    tasks = list(tasks)
    completed = {task.id for task in tasks if task.status is Status.COMPLETED}
    waiting = {task.id for task in tasks if task.status is Status.PENDING}
    length = chains(waiting, dependants({task.id: task.blocked_by for task in tasks}))
    ready = [task for task in tasks if task.id in waiting and completed.issuperset(task.blocked_by)]
    return sorted(ready, key=lambda task: (-task.priority, -length[task.id], number(task.id)))

"""Rules on tasks and requests: owners, blockers, circles, decisions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from coterie import files
from coterie.lead.audit.fault import AGAIN, Fault
from coterie.lead.audit.sight import Sight
from coterie.mailbox import RequestStatus, unsound
from coterie.taskboard import Change, Status, Task, find_circle, number

__all__ = ["faults"]

OWNED = (Status.IN_PROGRESS, Status.SUBMITTED)
CLAIMED = (*OWNED, Status.COMPLETED)
_CONFIRMED = re.compile(rb"(T[1-9][0-9]{0,8}) ([0-9]{1,12}) [0-9]{1,12}")


def faults(sight: Sight) -> Iterator[Fault]:
    yield from _owners(sight)
    yield from _blockers(sight)
    yield from _decisions(sight)


def _owners(sight: Sight) -> Iterator[Fault]:
    held: dict[str, list[str]] = defaultdict(list)
    for task in sight.tasks.values():
        where, claim = f"tasks/{task.id}.json", task.claim
        if task.status not in OWNED:
            left = [each for each in ("claim", "assignment", "wanted", "merging") if getattr(task, each) is not None]
            if left:
                text = f"{task.id} is {task.status} and has {', '.join(left)} all the same"
                yield Fault(rule="stray-claim", where=where, found=text, cure=f"set {', '.join(left)} to null in it")
            continue
        if claim is None:
            continue  # such a file is refused when it is read
        if claim.instance.partition("#")[0] != claim.owner:
            text = f"{task.id} is owned by {claim.owner} in the life {claim.instance}, which is another member's"
            yield Fault(rule="stray-claim", where=where, found=text, cure=f"coterie task release {task.id}")
        if task.held:
            held[claim.owner].append(task.id)
        if task.status is Status.IN_PROGRESS and not sight.lives(claim.instance):
            text = f"{task.id} is in progress and its owner {claim.instance} is gone"
            yield Fault(rule="no-owner", where=where, found=text, cure=AGAIN, repairable=True)
    for owner, tasks in held.items():
        if len(tasks) > 1:
            text = f"{owner} holds {' and '.join(tasks)}, and may hold one task"
            cure = f"coterie task release {tasks[-1]}"
            yield Fault(rule="holds-two", where=f"tasks/{tasks[-1]}.json", found=text, cure=cure)


def _blockers(sight: Sight) -> Iterator[Fault]:
    placed = _placed(sight)
    for task in sight.tasks.values():
        where = f"tasks/{task.id}.json"
        for each in dict.fromkeys(task.blocked_by):
            blocker = sight.tasks.get(each)
            if blocker is None:
                if not any(fault.where == f"tasks/{each}.json" for fault in sight.faults):
                    text = f"{task.id} is blocked by {each}, which is not on the board, so it can never start"
                    cure = f"put {each} back from tasks/bad, or coterie task unblock {task.id} {each}"
                    yield Fault(rule="unknown-blocker", where=where, found=text, cure=cure)
            elif task.status in CLAIMED and (early := _claimed_early(task, blocker, placed)) is not None:
                cure = f"see what {task.id} was built on: coterie show {task.id}"
                yield Fault(rule="open-blocker", where=where, found=early, cure=cure)
    edges = {task.id: task.blocked_by for task in sorted(sight.tasks.values(), key=lambda each: number(each.id))}
    if (circle := find_circle(edges)) is not None:
        text = f"these tasks wait for one another, so none can start: {' -> '.join(circle)}"
        cure = f"coterie task unblock {circle[0]} {circle[1]}"
        yield Fault(rule="cycle", where=f"tasks/{circle[0]}.json", found=text, cure=cure)


def _claimed_early(task: Task, blocker: Task, placed: dict[tuple[str, int], int]) -> str | None:
    """Why the blocker was open when the task was claimed last. Edges do not change while a task is claimed."""
    if blocker.status is not Status.COMPLETED:
        return f"{task.id} is {task.status}, and its blocker {blocker.id} is {blocker.status}"
    claimed, done = _step(task, Status.PENDING, Status.IN_PROGRESS), _step(blocker, None, Status.COMPLETED)
    if claimed is None or done is None:
        return None
    lines = (placed.get((task.id, claimed[0])), placed.get((blocker.id, done[0])))
    # the order in which both were written stands in `changes`; the wall clock only where that is gone
    early = lines[0] < lines[1] if None not in lines else claimed[1].at < done[1].at  # type: ignore[operator]
    return f"{task.id} was claimed before its blocker {blocker.id} was completed" if early else None


def _step(task: Task, before: Status | None, after: Status) -> tuple[int, Change] | None:
    """The last entry of that kind, and the revision that it made: every revision adds one."""
    for index in range(len(task.history) - 1, -1, -1):
        change = task.history[index]
        if change.to is after and change.from_ != after and (before is None or change.from_ is before):
            return task.rev - (len(task.history) - 1 - index), change
    return None


def _placed(sight: Sight) -> dict[tuple[str, int], int]:
    """(task, revision) -> which line of `changes` says that it was in place; the first that does."""
    try:
        data = files.read_bytes(sight.root / "changes", limit=1 << 28)
    except (FileNotFoundError, files.Unreadable):
        return {}
    found: dict[tuple[str, int], int] = {}
    for index, line in enumerate(data.splitlines()):
        if match := _CONFIRMED.fullmatch(line):
            found.setdefault((match[1].decode(), int(match[2])), index)
    return found


def _decisions(sight: Sight) -> Iterator[Fault]:
    for request in sight.requests.values():
        where = f"requests/{request.id}.json"
        if request.status is RequestStatus.APPROVED and not request.soundly_approved:
            rule = "own-decision" if request.text_is_whole else "changed-text"
            cure = f"coterie reject {request.id} -m REASON, or put the file back as it was: it opens no gate"
            yield Fault(rule=rule, where=where, found=unsound(request), cure=cure)

"""Rules on worktrees: bound, or clean and detached; a task in progress has its own, on its branch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coterie.errors import CoterieError
from coterie.lead.audit.fault import AGAIN, Fault
from coterie.lead.audit.sight import Sight
from coterie.taskboard import Status, Task
from coterie.worktrees import Keeper, NotBound, Worktree, branch_of

__all__ = ["bindings", "faults"]

READERS = ("queue", "lead")  # detached at what they read, and set anew before each use


def faults(sight: Sight) -> Iterator[Fault]:
    if sight.record is None:
        return
    keeper = sight.team().keeper
    bound = bindings(sight, keeper.team)
    working = [task for task in sight.tasks.values() if task.status is Status.IN_PROGRESS and task.claim is not None]
    assigned = {task.claim.owner for task in working if task.claim is not None and task.assignment is not None}
    for tree in keeper.survey():
        where, cure = str(tree.path), AGAIN
        if not tree.whole:
            if tree.name not in assigned and (tree.name not in bound or not sight.hosts):
                text = f"the worktree of {tree.name} is half made, or half gone: {tree.lacks}"
                yield Fault(rule="half-worktree", where=where, found=text, cure=cure, repairable=True)
            continue
        if tree.locks and not sight.hosts:
            text = f"git's {' and '.join(tree.locks)} was left by a git that died"
            yield Fault(rule="git-lock", where=where, found=text, cure=cure, repairable=True)
        if tree.name in READERS or None in bound.get(tree.name, ()):
            continue
        if tree.branch is not None:
            if tree.branch not in bound.get(tree.name, ()):
                text = f"it is on {tree.branch}, and {tree.name} holds no task on that branch"
                yield Fault(rule="loose-worktree", where=where, found=text, cure=cure, repairable=True)
        elif (dirty := _dirt(keeper, tree)) is not None:
            text = f"nothing is bound to it and it is not clean: {dirty}"
            yield Fault(rule="loose-worktree", where=where, found=text, cure=cure, repairable=True)
    for task in working:
        if task.assignment is not None and task.claim is not None and sight.lives(task.claim.instance):
            yield from _assignment(keeper, task, task.claim.owner)


def bindings(sight: Sight, team: str) -> dict[str, set[str | None]]:
    """Which branches a member's worktree may be on; None where it may be in any state, since it is being opened."""
    bound: dict[str, set[str | None]] = {}
    for task in sight.tasks.values():
        if task.held and task.claim is not None and sight.lives(task.claim.instance):
            mine = bound.setdefault(task.claim.owner, set())
            mine.add(branch_of(team, task.id, task.epoch))
            if task.assignment is None:
                mine.add(None)
    for member in sight.members.values():
        if member.task is not None and member.epoch is not None and not member.status.over:
            # its stretch is not over, or it had no time yet to put the worktree at rest
            bound.setdefault(member.name, set()).update((branch_of(team, member.task, member.epoch), None))
    return bound


def _dirt(keeper: Keeper, tree: Worktree) -> str | None:
    try:
        changed = keeper.changed(tree.name)
    except CoterieError as error:
        return str(error)
    return ", ".join(changed[:5]) + (" …" if len(changed) > 5 else "") if changed else None


def _assignment(keeper: Keeper, task: Task, owner: str) -> Iterator[Fault]:
    assert task.assignment is not None
    path = Path(task.assignment.worktree)
    try:
        keeper.check(owner, task=task.id, epoch=task.epoch, path=path, branch=task.assignment.branch)
    except NotBound as error:
        gone = path == keeper.path(owner) and keeper.where(owner) is None
        cure = f"git -C {path} switch {task.assignment.branch}, or coterie task release {task.id}"
        if gone:
            cure = "coterie resume builds it again from its branch; what was not committed in it is lost"
        text = f"{task.id} is in progress: {error}"
        yield Fault(rule="assignment-worktree", where=str(path), found=text, cure=cure, repairable=gone)

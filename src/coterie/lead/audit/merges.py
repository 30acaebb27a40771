"""Rules on the integration branch: what is completed is on it exactly once, and nothing else is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from coterie import files
from coterie.errors import CoterieError
from coterie.lead.audit.fault import AGAIN, Fault
from coterie.lead.audit.sight import Sight
from coterie.taskboard import Status, Task
from coterie.worktrees import GitError, Merged

__all__ = ["faults"]


def faults(sight: Sight) -> Iterator[Fault]:
    if sight.record is None:
        return
    team = sight.team()
    ref = team.keeper.integration
    if team.merger.git.resolve(ref) is None:
        done = [task for task in sight.tasks.values() if _merged_commit(task) is not None]
        if done:
            last = max(done, key=lambda task: task.queued or 0)
            text = f"the integration branch is gone, and {files.counted(len(done), 'task')} had been merged into it"
            cure = f"git reflog, or git update-ref {ref} {_merged_commit(last)}"
            yield Fault(rule="no-branch", where=ref, found=text, cure=cure)
        return
    try:
        line = team.merger.log(sight.record.base.commit)
    except GitError as error:
        cure = "fetch the missing commits into this repository, or restore them from a clone"
        yield Fault(rule="git", where=sight.record.base.commit, found=str(error), cure=cure)
        return
    except CoterieError:
        return  # it was deleted meanwhile: the next look says so
    by_task: dict[str, list[Merged]] = defaultdict(list)
    for each in line:
        by_task[each.task].append(each)
    for task in sight.tasks.values():
        yield from _task(task, by_task.get(task.id, []), ref, hosted=bool(sight.hosts))
    for name, merged in by_task.items():
        if name not in sight.tasks and not any(fault.where == f"tasks/{name}.json" for fault in sight.faults):
            text = f"{merged[0].commit[:12]} merged {name}, and there is no such task"
            yield Fault(rule="unknown-merge", where=merged[0].commit, found=text, cure=f"put tasks/{name}.json back")


def _merged_commit(task: Task) -> str | None:
    return task.result.merged_commit if task.status is Status.COMPLETED and task.result is not None else None


def _task(task: Task, merged: list[Merged], ref: str, *, hosted: bool) -> Iterator[Fault]:
    where = f"tasks/{task.id}.json"
    commits = [each.commit for each in merged]
    shown = " and ".join(each[:12] for each in commits)
    if len(merged) > 1:
        cure = f"revert the later one on {ref}"
        yield Fault(rule="merged-twice", where=where, found=f"{task.id} was merged as {shown}", cure=cure)
    if task.status is Status.COMPLETED:
        said = _merged_commit(task)
        if said is None and (task.result is None or not task.result.no_change):
            text = f"{task.id} is completed, and neither merged nor handed in as no change"
            yield Fault(rule="not-merged", where=where, found=text, cure=f"add a task that does {task.id} again")
        elif said is None and merged:
            text = f"{task.id} is completed as no change, and {shown} merged it"
            yield Fault(rule="not-merged", where=where, found=text, cure=f"coterie diff {task.id} shows which is true")
        elif said is not None and said not in commits:
            text = f"{task.id} is completed as {said[:12]}, which is not on the first-parent line of {ref}"
            cure = f"if {said[:12]} is known to git, merge it into {ref}; else add a task that does {task.id} again"
            yield Fault(rule="not-merged", where=where, found=text, cure=cure)
    elif merged and (task.status, task.epoch) == (Status.SUBMITTED, merged[-1].epoch):
        text = f"{task.id} was merged as {shown}, and is not completed"
        yield Fault(rule="not-completed", where=where, found=text, cure=AGAIN, repairable=True)
    elif merged:
        text = f"{task.id} is {task.status}, and {shown} merged it"
        yield Fault(rule="merged-early", where=where, found=text, cure=f"revert {shown} on {ref}, or cancel {task.id}")
    elif task.merging is not None and task.status is Status.SUBMITTED and not hosted:
        text = f"{task.id} says that it is being merged as {task.merging[:12]}, and nobody merges it"
        yield Fault(rule="not-merging", where=where, found=text, cure=AGAIN, repairable=True)

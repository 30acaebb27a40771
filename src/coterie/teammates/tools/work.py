"""Plans, handing in, giving back, proposing."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from coterie.errors import Refused
from coterie.mailbox import send_owed
from coterie.taskboard import Assignment, NewTask
from coterie.taskboard import Status as TaskStatus
from coterie.teammates.approving import approver
from coterie.teammates.gate import PlanState
from coterie.teammates.outcomes import send_outcome
from coterie.teammates.tool import Arguments, Call, Effect, Tool, ToolResult

__all__ = [
    "GIVE_UP",
    "PARK",
    "PROPOSE_TASKS",
    "SUBMIT_PLAN",
    "SUBMIT_WORK",
    "SYNC",
    "NewTasks",
    "create",
    "with_snapshot",
]

PLAN_CAP = 64 * 1024
REASON_CAP = 4000  # characters: the history keeps 7000, and where the work lies must not be cut off


class SubmitPlan(Arguments):
    """Show what you mean to do: which files change, how, how it is checked. Where a plan is required nothing may
    change before it is approved; your turn ends here and the decision wakes you."""

    plan: str = Field(min_length=1)


def _submit_plan(member: Any, given: SubmitPlan, call: Call) -> ToolResult:
    task = member.current()
    if task.status is not TaskStatus.IN_PROGRESS:
        raise Refused(f"{task.id} is {task.status}: there is nothing to plan")
    size = len(given.plan.encode())
    if size > PLAN_CAP:
        raise Refused(f"expected a plan of at most {PLAN_CAP} bytes, found {size}: say less")
    team = member.team
    request = team.requests.submit_plan(
        sender=member.name,
        sender_instance=member.instance,
        to=approver(member.runtime.settings, task.scope),
        task=task.id,
        epoch=task.epoch,
        text=given.plan,
        made_by=call.key,
    )
    send_owed(team.requests, team.mail, request)
    member.say(
        "plan",
        f"plan {request.id} for {task.id}, revision {request.revision}: {given.plan}",
        task=task.id,
        request=request.id,
        revision=request.revision,
    )
    answer = {"request": request.id, "revision": request.revision, "status": str(request.status)}
    return ToolResult(json.dumps(answer), ends=task.requires_plan)


class SubmitWork(Arguments):
    """Hand in your worktree for your task. The runtime commits it; the merge queue merges and checks it and tells you
    what becomes of it. Run the checks first. `no_change` where nothing needs to change: say why in the summary."""

    summary: str = Field(min_length=1)
    no_change: bool | None = None


def _done_before(member: Any, call: Call) -> Any:
    """The task in whose history this very call stands already: it acted, and only its result was lost."""
    if not call.again:
        return None
    opened = member.journal.conversation()[0]
    task = member.team.board.get(opened.task) if opened.task is not None else None
    return task if task is not None and any(each.made_by == call.key for each in task.history) else None


def _submit_work(member: Any, given: SubmitWork, call: Call) -> ToolResult:
    if (before := _done_before(member, call)) is not None:
        return _handed_in(before)
    task = member.current()
    team = member.team
    if task.status is TaskStatus.SUBMITTED:
        raise Refused(f"{task.id} is handed in already")
    if member.plan_state() not in (PlanState.NOT_NEEDED, PlanState.APPROVED):
        raise Refused(f"{task.id} needs an approved plan before work is handed in")
    member.at_boundary()
    member.directory()  # fails closed where the worktree is not the assignment's
    member.runtime.commands.stop_all(member.instance)
    assert task.assignment is not None
    commit = team.keeper.commit(
        member.name,
        task=task.id,
        epoch=task.epoch,
        base=task.assignment.base,
        message=f"{task.subject}\n\n{given.summary}",
        author=member.name,
    )
    if commit is None and not given.no_change:
        raise Refused("nothing is changed in your worktree: if that is right, say so with no_change and why")
    if commit is not None and given.no_change:
        raise Refused("no_change was said, but your worktree has changes: undo them, or hand them in")
    task = team.board.submit(
        task.id,
        task.epoch,
        by=member.name,
        summary=given.summary,
        commit=commit,
        no_change=bool(given.no_change),
        made_by=call.key,
    )
    member.say("task", f"hands in {task.id}: {given.summary}", task=task.id, commit=commit)
    return _handed_in(task)


def _handed_in(task: Any) -> ToolResult:
    commit = task.result.commit if task.result is not None else None
    answer = {"status": str(task.status), "task": task.id, "epoch": task.epoch, "commit": commit}
    return ToolResult(json.dumps(answer), ends=True)


class GiveUp(Arguments):
    """You cannot do this task: hand it back with the reason. It counts as an attempt; your work is kept."""

    reason: str = Field(min_length=1)


def with_snapshot(reason: str, kept: str | None) -> str:
    """The reason for the history, cut so that where the work lies always follows: the next owner goes by that."""
    return reason[:REASON_CAP] + (f", snapshot {kept}" if kept is not None else "")


def _give_up(member: Any, given: GiveUp, call: Call) -> ToolResult:
    if (before := _done_before(member, call)) is not None:
        send_outcome(member.team, before)
        return ToolResult(f"{before.id} was given up", ends=True)
    task = _in_progress(member)
    kept = member.let_go(task)
    after = member.team.board.give_up(
        task.id, task.epoch, by=member.name, reason=with_snapshot(given.reason, kept), made_by=call.key
    )
    member.say("task", f"gives up {task.id}: {given.reason}", task=task.id)
    send_outcome(member.team, after)
    return ToolResult(f"{task.id} is {after.status} again", ends=True)


class Park(Arguments):
    """Something else has to be done first: hand the task back until those tasks are completed. Your work is kept."""

    reason: str = Field(min_length=1)
    blocked_by: list[str] = Field(min_length=1, description="ids of tasks; at least one still open")


def _park(member: Any, given: Park, call: Call) -> ToolResult:
    if (before := _done_before(member, call)) is not None:
        return ToolResult(f"{before.id} was parked", ends=True)
    task = _in_progress(member)
    kept = member.let_go(task)
    member.team.board.park(
        task.id,
        task.epoch,
        by=member.name,
        reason=with_snapshot(given.reason, kept),
        blocked_by=given.blocked_by,
        made_by=call.key,
    )
    member.say("task", f"parks {task.id} behind {', '.join(given.blocked_by)}: {given.reason}", task=task.id)
    return ToolResult(f"{task.id} is parked behind {', '.join(given.blocked_by)}", ends=True)


def _in_progress(member: Any) -> Any:
    task = member.current()
    if task.status is not TaskStatus.IN_PROGRESS:
        raise Refused(f"{task.id} is {task.status}: it is out of your hands")
    return task


class NewTasks(Arguments):
    """Tasks, written to the board all or none."""

    tasks: list[NewTask] = Field(min_length=1, strict=False)


def create(member: Any, tasks: list[NewTask], call: Call, *, split: str | None, plans: str) -> dict[str, str]:
    """Put tasks on the board; a repeated call returns the ids of the first.

    plans: who says which tasks need a plan; under `all` and `none` the model has no say, whoever it is.
    """
    if plans != "lead":
        tasks = [each.model_copy(update={"requires_plan": plans == "all"}) for each in tasks]
    created: dict[str, str] = member.team.board.create(
        tasks, by=member.name, made_by=call.key, split=split, requires_plan_default=plans == "all"
    )
    for ref, task in created.items():
        subject = next(each.subject for each in tasks if each.ref == ref)
        member.say("task", f"creates {task}: {subject}", task=task)
    return created


class ProposeTasks(NewTasks):
    """Propose tasks that your work showed to be needed. The lead decides; they can be claimed once it approves."""


def _propose(member: Any, given: ProposeTasks, call: Call) -> str:
    team = member.team
    team.board.expect_creatable(given.tasks)  # nobody is asked about tasks that cannot be
    request = team.requests.propose_split(
        sender=member.name,
        sender_instance=member.instance,
        to="lead",
        text=graph_text(given.tasks),
        made_by=call.key,
    )
    created = create(member, given.tasks, call, split=request.id, plans=member.runtime.settings.plans_in_force)
    send_owed(team.requests, team.mail, request)
    announce_split(member, request)
    return json.dumps({"created": created, "request": request.id})


def announce_split(member: Any, request: Any) -> None:
    """Tell whoever watches that tasks wait for a yes."""
    member.say("plan", f"split {request.id} waits for {request.to}:\n{request.text}", request=request.id)


def graph_text(tasks: list[NewTask]) -> str:
    """A batch of tasks as a person reads it."""
    lines = []
    for task in tasks:
        after = f" (after {', '.join(task.blocked_by)})" if task.blocked_by else ""
        lines.append(f"- {task.ref}: {task.subject}{after}")
        if task.description:
            lines.append(f"  {task.description}")
    return "\n".join(lines)


class Sync(Arguments):
    """Merge what the team has merged meanwhile into your worktree. Conflicts are marked in the files."""


def _sync(member: Any, given: Sync, call: Call) -> str:
    task = _in_progress(member)
    team = member.team
    member.directory()
    tip = team.keeper.tip()
    bound = task.assignment
    if not team.keeper.needs_merge(member.name, tip):
        if bound.base != tip:  # merged just before a kill: only the record of it is missing
            bound = Assignment(worktree=bound.worktree, branch=bound.branch, base=tip)
            team.board.bind(task.id, task.epoch, bound, made_by=call.key)
        return f"your worktree has all of {tip[:12]} already"
    conflicts = team.keeper.merge_in(member.name, task=task.id, epoch=task.epoch, commit=tip)
    team.board.bind(
        task.id, task.epoch, Assignment(worktree=bound.worktree, branch=bound.branch, base=tip), made_by=call.key
    )
    if conflicts:
        return f"merged {tip[:12]} with conflicts, marked in: {', '.join(conflicts)}. Resolve them before you submit"
    return f"merged {tip[:12]} without conflicts"


SUBMIT_PLAN = Tool("submit_plan", Effect.COORDINATES, SubmitPlan, _submit_plan)
SUBMIT_WORK = Tool("submit_work", Effect.COORDINATES, SubmitWork, _submit_work)
GIVE_UP = Tool("give_up", Effect.COORDINATES, GiveUp, _give_up)
PARK = Tool("park", Effect.COORDINATES, Park, _park)
PROPOSE_TASKS = Tool("propose_tasks", Effect.COORDINATES, ProposeTasks, _propose)
SYNC = Tool("sync", Effect.CHANGES, Sync, _sync)

"""The tools of the lead: it splits, decides, steers and finishes. It changes no file."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field

from coterie.errors import Refused
from coterie.files import check_name
from coterie.mailbox import Note, RequestKind, send_owed
from coterie.teammates.approving import approver
from coterie.teammates.outcomes import left_blocked
from coterie.teammates.settings import TeamSettings
from coterie.teammates.tool import Arguments, Call, Effect, Tool, ToolResult, toolbox
from coterie.teammates.tools import BASH, GET_TASK, GLOB, GREP, LIST_TASKS, READ_FILE, NewTasks
from coterie.teammates.tools.work import announce_split, create, graph_text

__all__ = ["LEAD_COMMANDS", "LEAD_TOOLS"]


class CreateTasks(NewTasks):
    """Put tasks on the board, all or none. `blocked_by` names refs of this batch or ids of the board: what must be
    merged first. A task should be small, proved by its own checks, and touch files that no parallel task touches."""


def _create(member: Any, given: CreateTasks, call: Call) -> str:
    settings: TeamSettings = member.runtime.settings
    plans = settings.plans_in_force
    tasks = given.tasks
    request = None
    if settings.splits == "human":
        member.team.board.expect_creatable(tasks)  # nobody is asked about tasks that cannot be
        request = member.team.requests.propose_split(
            sender=member.name,
            sender_instance=member.instance,
            to="human",
            text=graph_text(tasks),
            made_by=call.key,
        )
    created = create(member, tasks, call, split=request.id if request else None, plans=plans)
    if request is not None:
        send_owed(member.team.requests, member.team.mail, request)
        announce_split(member, request)
    return json.dumps({"created": created, "request": request.id if request else None})


class UpdateTask(Arguments):
    """Change a task. Edges change only while it is not claimed."""

    task_id: str
    add_blocked_by: list[str] | None = None
    remove_blocked_by: list[str] | None = None
    description: str | None = None
    priority: int | None = Field(default=None, ge=0, le=10)
    requires_plan: bool | None = None
    checks: list[str] | None = None


def _update(member: Any, given: UpdateTask, call: Call) -> str:
    settings: TeamSettings = member.runtime.settings
    before = member.team.board.get(given.task_id)
    may_lower = settings.plans_in_force == "lead" and approver(settings, before.scope) != "human"
    task = member.team.board.update(
        given.task_id,
        by=member.name,
        add_blocked_by=given.add_blocked_by or (),
        remove_blocked_by=given.remove_blocked_by or (),
        description=given.description,
        priority=given.priority,
        requires_plan=given.requires_plan,
        checks=given.checks,
        may_lower_plan=may_lower,  # … and it was never claimed, which the board looks at under its lock
        made_by=call.key,
    )
    if not task.made(call.key):
        return f"{task.id} is as you want it already: nothing was changed"
    member.say("task", f"changes {task.id}", task=task.id)
    return f"{task.id} is changed (blocked by: {', '.join(task.blocked_by) or 'nothing'})"


class CancelTask(Arguments):
    """A task is not wanted any more. Work in hand is kept as a snapshot."""

    task_id: str
    reason: str = Field(min_length=1)


class ReleaseTask(Arguments):
    """Take a task back from its owner, for another to claim. Work in hand is kept as a snapshot."""

    task_id: str
    reason: str = Field(min_length=1)


class RetryTask(Arguments):
    """Open a failed or cancelled task again."""

    task_id: str
    reason: str = Field(min_length=1)


def _want(move: Literal["cancel", "release"]) -> Any:
    def act(member: Any, given: CancelTask | ReleaseTask, call: Call) -> str:
        task = member.team.board.want(given.task_id, move=move, by=member.name, reason=given.reason, made_by=call.key)
        member.say("task", f"wants {task.id} {move}ed: {given.reason}", task=task.id)
        if task.wanted is not None:
            return f"{task.id}: its owner is told, the work is kept, then it is {move}ed"
        return f"{task.id} is {task.status}" + (left_blocked(member.team, task) if move == "cancel" else "")

    return act


def _retry(member: Any, given: RetryTask, call: Call) -> str:
    task = member.team.board.retry(given.task_id, by=member.name, reason=given.reason, made_by=call.key)
    member.say("task", f"opens {task.id} again: {given.reason}", task=task.id)
    return f"{task.id} is {task.status}"


class SpawnTeammate(Arguments):
    """Start a teammate. It claims ready tasks by itself; `role` limits it to tasks of that role."""

    name: str = Field(description="a lower-case letter, then up to 31 of a-z 0-9 -")
    role: str | None = None
    model: str | None = None
    prompt: str | None = Field(default=None, description="what it should know for all its tasks")


def _spawn(member: Any, given: SpawnTeammate, call: Call) -> str:
    check_name(given.name)
    settings: TeamSettings = member.runtime.settings
    if settings.max_usd is not None and given.model and not member.runtime.model.knows_price(given.model):
        raise Refused(
            f"the price of {given.model} is not known, so the budget of {settings.max_usd} dollars could not be kept: "
            f"leave the model out, it is then {settings.model}"
        )
    record = member.team.roster.spawn(
        given.name,
        role=given.role,
        model=given.model or settings.model,
        prompt=given.prompt or "",
        most=settings.teammates,
        made_by=call.key,
    )
    member.say("member", f"spawns {record.instance}", spawned=record.name)
    member.team.bell.ring()
    return json.dumps({"name": record.name, "instance": record.instance})


class Review(Arguments):
    """Decide on a plan or a proposal that is addressed to you. A rejection says what to change."""

    request_id: str
    decision: Literal["approve", "reject"]
    feedback: str | None = None


def _review(member: Any, given: Review, call: Call) -> str:
    asked = member.team.requests.get(given.request_id)
    if asked.kind is RequestKind.PLAN and asked.open and asked.task is not None and given.decision == "approve":
        settings: TeamSettings = member.runtime.settings
        if approver(settings, member.team.board.get(asked.task).scope) == "human":
            raise Refused(f"the human decides on {asked.id} now: that was changed after it was submitted")
    request = member.team.requests.decide(
        given.request_id,
        by=member.name,
        by_instance=member.instance,
        approve=given.decision == "approve",
        feedback=given.feedback or "",
        made_by=call.key,
    )
    send_owed(member.team.requests, member.team.mail, request)
    said = f": {given.feedback}" if given.feedback else ""
    member.say("decision", f"{request.status} {request.id}{said}", request=request.id, task=request.task)
    return json.dumps({"request": request.id, "status": str(request.status)})


class RequestShutdown(Arguments):
    """Ask a teammate to end its life; past the deadline it is ended. Its work is kept."""

    name: str
    reason: str | None = None
    deadline_s: float | None = Field(default=None, ge=0, le=3600, strict=False)


def _shutdown(member: Any, given: RequestShutdown, call: Call) -> str:
    instance = member.team.roster.instance_of(given.name)
    if instance is None or given.name in ("lead", "human"):
        raise Refused(f"{given.name[:60]!r} is no living teammate: nobody was asked")
    deadline = given.deadline_s if given.deadline_s is not None else member.runtime.settings.shutdown_timeout
    request = member.team.requests.ask_shutdown(
        sender=member.name,
        sender_instance=member.instance,
        to=given.name,
        to_instance=instance,
        reason=given.reason or "",
        deadline_s=max(deadline, 0.01),  # at once
        made_by=call.key,
    )
    send_owed(member.team.requests, member.team.mail, request)
    return json.dumps({"request": request.id, "status": str(request.status)})


class LeadMessage(Arguments):
    """Tell a member, or the human, something. `urgent` ends the command it runs, so that it is read at once."""

    to: str
    text: str
    urgent: bool | None = None


def _send(member: Any, given: LeadMessage, call: Call) -> str:
    if given.to == member.name:
        raise Refused("that is you: nothing was sent")
    member.send(Note(text=given.text), given.to, made_by=call.key, urgent=bool(given.urgent))
    return f"sent to {given.to}"


class AskHuman(Arguments):
    """Ask the person who started the run. The answer arrives as mail; go on with what does not depend on it."""

    question: str = Field(min_length=1)


def _ask(member: Any, given: AskHuman, call: Call) -> str:
    request = member.team.requests.ask_question(
        sender=member.name, sender_instance=member.instance, to="human", text=given.question, made_by=call.key
    )
    send_owed(member.team.requests, member.team.mail, request)
    member.say("message", f"asks: {given.question}", request=request.id, to="human")
    return json.dumps({"request": request.id, "status": str(request.status)})


class ListTeam(Arguments):
    """Who is on the team: name, instance, status, reason, task."""


def _team(member: Any, given: ListTeam, call: Call) -> str:
    rows = [
        {
            "name": each.name,
            "instance": each.instance,
            "status": str(each.status),
            "reason": each.reason,
            "task": each.task,
        }
        for each in member.team.roster.all()
    ]
    return json.dumps(rows, ensure_ascii=False)


class Finish(Arguments):
    """The goal is reached, or cannot be: end the run. Refused while work is open or the checks are red."""

    summary: str = Field(min_length=1)


def _finish(member: Any, given: Finish, call: Call) -> ToolResult:
    exit_code = member.ending.finish(given.summary, cancel=call.cancel)
    return ToolResult(f"the run ends ({'done' if exit_code == 0 else f'exit code {exit_code}'})", ends=True)


LEAD_COMMANDS = toolbox(BASH)
"""What the lead has besides where its commands can be kept from writing."""
LEAD_TOOLS = toolbox(
    Tool("create_tasks", Effect.COORDINATES, CreateTasks, _create),
    Tool("update_task", Effect.COORDINATES, UpdateTask, _update),
    Tool("cancel_task", Effect.COORDINATES, CancelTask, _want("cancel")),
    Tool("release_task", Effect.COORDINATES, ReleaseTask, _want("release")),
    Tool("retry_task", Effect.COORDINATES, RetryTask, _retry),
    Tool("spawn_teammate", Effect.COORDINATES, SpawnTeammate, _spawn),
    Tool("review", Effect.COORDINATES, Review, _review),
    Tool("request_shutdown", Effect.COORDINATES, RequestShutdown, _shutdown),
    Tool("send_message", Effect.COORDINATES, LeadMessage, _send),
    Tool("ask_human", Effect.COORDINATES, AskHuman, _ask),
    Tool("list_team", Effect.READS, ListTeam, _team),
    LIST_TASKS,
    GET_TASK,
    READ_FILE,
    GLOB,
    GREP,
    Tool("finish", Effect.COORDINATES, Finish, _finish),
)

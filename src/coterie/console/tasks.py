"""`coterie task …`: the person's hand on the board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from coterie import files, lead
from coterie.console.paint import Paper
from coterie.console.reading import normal
from coterie.console.steer import HUMAN, open_team, tell
from coterie.errors import UsageError
from coterie.taskboard import NewTask, Status, Task
from coterie.teammates.outcomes import send_outcome

if TYPE_CHECKING:
    from coterie.teammates.team import Team


def add(fields: dict[str, Any], name: str | None) -> int:
    """Put one task on the board."""
    team = open_team(name)
    fields["blocked_by"] = [_id(each) for each in fields.get("blocked_by", ())]
    for key in ("blocked_by", "checks", "scope"):
        fields[key] = tuple(fields.get(key, ()))
    try:
        new = NewTask(ref="new", **fields)
    except ValueError as error:
        raise UsageError(_first_fault(error)) from None
    plans = team.record.settings.plans_in_force
    made = team.board.create([new], by=HUMAN, requires_plan_default=plans == "all")
    _reopen(team)
    task = made["new"]
    tell(team, "task", f"creates {task}: {new.subject}", task=task)
    return 0


def edit(identifier: str, fields: dict[str, Any], name: str | None) -> int:
    """Change a task. The human may also lower the need for a plan."""
    if not fields:
        raise UsageError("nothing to change: say what, for example --priority 8")
    team = open_team(name)
    try:
        task = team.board.update(_id(identifier), by=HUMAN, may_lower_plan=True, **fields)
    except ValueError as error:
        raise UsageError(_first_fault(error)) from None
    tell(team, "task", f"changes {task.id}: {', '.join(fields)}", task=task.id)
    return 0


def take(
    identifier: str, move: Literal["cancel", "release"], reason: str, name: str | None, *, now: bool = False
) -> int:
    """Cancel a task, or take it back from its owner. now: return when that is done, by whoever can do it."""
    team = open_team(name)
    done = {"cancel": "cancelled", "release": "released"}[move]
    task = team.board.want(_id(identifier), move=move, by=HUMAN, reason=reason or "the person asked for it")
    send_outcome(team, task)
    if task.wanted is not None:
        text = f"{task.id} is to be {done}: its owner is told, the work is kept, then it is {done}"
    else:
        text = f"{task.id} is {task.status}"
    tell(team, "task", text + (f": {reason}" if reason else ""), task=task.id)
    if now and task.wanted is not None:
        Paper().prose(lead.take_now(team, task.id, task.epoch, tell=lambda text: Paper().prose(text)))
    return 0


def retry(identifier: str, reason: str, name: str | None) -> int:
    """Open a failed or cancelled task again."""
    team = open_team(name)
    task = team.board.retry(_id(identifier), by=HUMAN, reason=reason or "the person asked for it")
    _reopen(team)
    tell(team, "task", f"opens {task.id} again", task=task.id)
    return 0


def rewire(identifier: str, name: str | None, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> int:
    """Change what a task waits for."""
    team = open_team(name)
    task: Task = team.board.update(
        _id(identifier),
        by=HUMAN,
        add_blocked_by=[_id(each) for each in add],
        remove_blocked_by=[_id(each) for each in remove],
    )
    tell(team, "task", f"{task.id} waits for {', '.join(task.blocked_by) or 'nothing'}", task=task.id)
    return 0


def _reopen(team: Team) -> None:
    """A team that had ended has work again."""
    with files.locked(team.root / "lock"):
        is_open = any(task.status is Status.PENDING for task in team.board.tasks())
        if team.record.ended is not None and is_open:
            team.change(ended=None)


def _id(text: str) -> str:
    return normal(text, "T")


def _first_fault(error: ValueError) -> str:
    """What is wrong with a task, in a line."""
    faults = getattr(error, "errors", None)
    if faults is None:
        return str(error)
    first = faults(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "the task"
    return f"{field}: {first['msg']}"

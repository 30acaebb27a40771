"""What a new or an edited task looks like: pure functions from what is asked for to records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from coterie import files
from coterie.taskboard.acts import changed
from coterie.taskboard.errors import Cycle, TaskRefused, UnknownTask
from coterie.taskboard.graph import find_circle
from coterie.taskboard.moves import Move, target
from coterie.taskboard.task import SCHEMA, Change, NewTask, Status, Task, encode, is_id, storable

__all__ = ["created", "edited"]


def created(
    specs: Sequence[NewTask],
    first: int,
    *,
    on_board: Callable[[str], bool],
    by: str,
    made_by: str | None,
    split: str | None,
    requires_plan_default: bool,
) -> tuple[list[Task], dict[str, str]]:
    """The records of a batch, numbered from `first`, and ref -> id. Refused as a whole if anything is wrong."""
    named: dict[str, str] = {}
    for place, spec in enumerate(specs):
        if spec.ref in named:
            raise TaskRefused(f"the ref {spec.ref!r} stands for two tasks of this batch: give each its own")
        named[spec.ref] = f"T{first + place}"
    edges = {named[spec.ref]: _resolved(spec, named, on_board) for spec in specs}
    circle = find_circle(edges)
    if circle:
        ref_of = {task: ref for ref, task in named.items()}
        raise Cycle(tuple(ref_of.get(task, task) for task in circle))
    at = files.now()
    by = storable(by.partition("#")[0], 200)
    change = Change(at=at, from_=None, to=Status.PENDING, by=by, epoch=0, reason="created", made_by=made_by)
    tasks = [
        Task(
            schema_=SCHEMA,
            id=named[spec.ref],
            subject=spec.subject,
            description=spec.description,
            status=Status.PENDING,
            blocked_by=edges[named[spec.ref]],
            priority=spec.priority,
            role=spec.role,
            requires_plan=requires_plan_default if spec.requires_plan is None else spec.requires_plan,
            checks=spec.checks,
            scope=spec.scope,
            split=split,
            epoch=0,
            history=(change,),
            made_by=made_by,
            created_at=at,
            created_by=by,
            rev=1,
        )
        for spec in specs
    ]
    return tasks, named


def _resolved(spec: NewTask, named: Mapping[str, str], on_board: Callable[[str], bool]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for each in spec.blocked_by:
        task = named.get(each, each)
        if task == named[spec.ref]:
            raise Cycle((spec.ref, spec.ref))
        if task not in named.values() and not (is_id(task) and on_board(task)):
            raise UnknownTask(
                f"{spec.ref!r} is blocked by {files.clean(each, 60)!r}, which is neither a ref of this batch "
                f"({', '.join(list(named)[:20])}) nor a task of the board",
                see="board",
            )
        found[task] = None
    return tuple(found)


def edited(
    task: Task,
    *,
    by: str,
    add_blocked_by: Sequence[str],
    remove_blocked_by: Sequence[str],
    fields: Mapping[str, Any],
    may_lower_plan: bool,
    made_by: str | None,
) -> Task:
    """`task` with other content. Where nothing would change, `task` itself.

    fields: subject, description, priority, requires_plan, checks; None leaves one as it is.
    """
    to = target(Move.EDIT, task)
    wanted = {name: value for name, value in fields.items() if value is not None}
    try:
        checked = NewTask.model_validate({"ref": task.id, "subject": task.subject, **wanted}, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TaskRefused(f"{task.id}, {where}: {first['msg']}") from None
    update: dict[str, Any] = {name: getattr(checked, name) for name in wanted}
    if update.get("requires_plan") is False and task.requires_plan:
        if not may_lower_plan:
            raise TaskRefused(f"{task.id} requires a plan, and {by} may not take that away")
        if by != "human" and task.epoch > 0:
            raise TaskRefused(f"{task.id} requires a plan and was claimed before: only the human takes that away")
    if add_blocked_by or remove_blocked_by:
        missing = [each for each in remove_blocked_by if each not in task.blocked_by]
        if missing:
            raise TaskRefused(
                f"{task.id} is not blocked by {', '.join(missing)}: its blocked_by is {list(task.blocked_by)}"
            )
        kept = [each for each in task.blocked_by if each not in remove_blocked_by]
        update["blocked_by"] = tuple(dict.fromkeys((*kept, *add_blocked_by)))
    update = {name: value for name, value in update.items() if value != getattr(task, name)}
    if not update:
        return task
    after = changed(task, to, by=by, reason=f"changed {', '.join(update)}", made_by=made_by, **update)
    encode(after)  # too large is refused before anything is announced
    return after

"""Looking at the board."""

from __future__ import annotations

import json
from typing import Any

from coterie.taskboard import encode
from coterie.teammates.tool import Arguments, Call, Effect, Tool

__all__ = ["GET_TASK", "LIST_TASKS", "row"]


def row(each: Any) -> dict[str, Any]:
    """One line of the board as a model or a program reads it."""
    task = each.task
    return {
        "id": task.id,
        "subject": task.subject,
        "status": str(task.status),
        "ready": each.ready,
        "blocked_by": list(each.open_blockers),
        "owner": task.claim.owner if task.claim is not None else None,
        "epoch": task.epoch,
    }


class ListTasks(Arguments):
    """The whole board: id, subject, status, whether it is ready, what it is blocked by, owner, epoch."""


def _list(member: Any, given: ListTasks, call: Call) -> str:
    return json.dumps([row(each) for each in member.team.board.view()], ensure_ascii=False)


class GetTask(Arguments):
    """Everything about one task, its history included."""

    task_id: str


def _get(member: Any, given: GetTask, call: Call) -> str:
    return encode(member.team.board.get(given.task_id)).decode()


LIST_TASKS = Tool("list_tasks", Effect.READS, ListTasks, _list)
GET_TASK = Tool("get_task", Effect.READS, GetTask, _get)

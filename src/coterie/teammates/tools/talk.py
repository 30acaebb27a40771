"""Messages, the list of what is to do, and the answer to a shutdown."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from coterie import files
from coterie.errors import Refused
from coterie.mailbox import Note, RequestStatus, send_owed
from coterie.teammates.tool import Arguments, Call, Effect, Tool, ToolResult

__all__ = ["ANSWER_SHUTDOWN", "SEND_MESSAGE", "TODO_WRITE"]


class SendMessage(Arguments):
    """Tell a member something it has to know (a name on the team, `lead` or `human`). It is read at its next turn."""

    to: str
    text: str


def _send(member: Any, given: SendMessage, call: Call) -> str:
    if given.to == member.name:
        raise Refused("that is you: nothing was sent")
    member.send(Note(text=given.text), given.to, made_by=call.key)
    return f"sent to {given.to}"


class TodoItem(Arguments):
    """One thing to do."""

    text: str = Field(min_length=1, max_length=500)
    status: Literal["pending", "in_progress", "completed"]


class TodoWrite(Arguments):
    """Replace your list of what is to do. Others see it."""

    items: list[TodoItem] = Field(max_length=50)


def _todo(member: Any, given: TodoWrite, call: Call) -> str:
    member.update(todo=[item.model_dump() for item in given.items])
    done = sum(item.status == "completed" for item in given.items)
    return f"the list has {files.counted(len(given.items), 'item')}, {done} completed"


class AnswerShutdown(Arguments):
    """Answer a request to shut down. Accepting ends your life after this turn; your work is kept."""

    request_id: str
    accept: bool
    reason: str | None = None


def _answer(member: Any, given: AnswerShutdown, call: Call) -> ToolResult:
    request = member.team.requests.get(given.request_id)
    if request.kind != "shutdown" or request.to != member.name or request.to_instance != member.instance:
        raise Refused(f"{given.request_id} is no shutdown request to {member.instance}")
    if given.accept:
        # the end of the life is the answer: it is recorded when the worktree is safe
        return ToolResult(f"accepted: your life ends after this turn ({given.request_id})", ends=True)
    settled = member.team.requests.settle_shutdown(
        given.request_id,
        status=RequestStatus.DECLINED,
        by=member.name,
        by_instance=member.instance,
        reason=given.reason or "",
        made_by=call.key,
    )
    send_owed(member.team.requests, member.team.mail, settled)
    return ToolResult(f"declined {given.request_id}")


SEND_MESSAGE = Tool("send_message", Effect.COORDINATES, SendMessage, _send)
TODO_WRITE = Tool("todo_write", Effect.COORDINATES, TodoWrite, _todo)
ANSWER_SHUTDOWN = Tool("answer_shutdown", Effect.COORDINATES, AnswerShutdown, _answer)

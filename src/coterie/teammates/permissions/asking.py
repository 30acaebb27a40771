"""Asking a person for leave: a request of kind permission, and the wait for its answer. Silence means no."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING

from coterie import files
from coterie.errors import Refused
from coterie.mailbox import AlreadyDecided, Request, RequestKind, RequestRefused, Requests, send_owed
from coterie.teammates.gate import Leave
from coterie.teammates.roster import Status
from coterie.teammates.tool import Arguments, Call, Tool

if TYPE_CHECKING:
    from coterie.teammates.member import Member

__all__ = ["StillAsked", "ask", "call_text", "leave_of"]

POLL = 2.0  # seconds: the slow net under the bell
SHOWN = 40_000  # bytes of the arguments that stand in a request: its text has a cap

Assignment = tuple[str, int] | None


class StillAsked(Exception):
    """The team stops in order while a person is asked. The call has no result: it is gone on with after that."""


def call_text(tool: Tool, arguments: Arguments, assignment: Assignment) -> str:
    """What a person is asked about, and what their answer counts for: this call, word for word, for this assignment.

    What cannot be seen on a screen is spelled out, and the sum over the arguments as they are stands at the end.
    """
    given = arguments.model_dump(mode="json", exclude_none=True)
    whole = json.dumps([tool.name, given, assignment], sort_keys=True, ensure_ascii=True)
    lines = [tool.name + (f" for {assignment[0]} (epoch {assignment[1]})" if assignment is not None else "")]
    for name, value in given.items():
        text = _visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=True))
        # a line of an argument is set in, so that none can pass for one of ours
        lines.append(f"{name}: {text}" if "\n" not in text else "\n    ".join([f"{name}:", *text.split("\n")]))
    shown = files.redacted("\n".join(lines)).encode()  # as it will lie on disk
    if len(shown) > SHOWN:
        shown = shown[:SHOWN] + f"\n(… and {len(shown) - SHOWN} bytes more, which are not shown)".encode()
    sum_of_all = hashlib.sha256(whole.encode()).hexdigest()
    return f"{shown.decode('utf-8', 'ignore')}\nsha256 of this call: {sum_of_all}"


def _visible(text: str) -> str:
    """What has no shape of its own, such as a control or a direction character, as its number."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def leave_of(requests: Requests, key: str, text: str) -> Leave:
    """What was said of the call of this key, if it is the one that was asked about, to the letter."""
    request = requests.made_for(key)
    if request is None or request.kind is not RequestKind.PERMISSION:
        return Leave.NOT_ASKED
    if request.open:
        return Leave.WAITS
    return Leave.GIVEN if request.soundly_approved and request.text == text else Leave.REFUSED


def ask(member: Member, text: str, why: str, call: Call, assignment: Assignment) -> None:
    """Ask the person, or go on waiting where they were asked before a restart; returns once they have answered.

    Raises `Refused` where the answer is no: said, not given in time, or not wanted any more, since the call has to end
    for another reason. Whatever ends the wait closes the request, so that a late yes is told so. Raises `StillAsked`.
    """
    team = member.team
    task, epoch = assignment or (None, None)
    request = team.requests.ask_permission(
        sender=member.name,
        sender_instance=member.instance,
        to="human",
        text=text,
        deadline_s=member.runtime.settings.permission_timeout,
        task=task,
        epoch=epoch,
        reason=why,
        made_by=call.key,
    )
    if request.open:
        send_owed(team.requests, team.mail, request)
        member.say("plan", f"permission {request.id} waits for human: {text}", task=task, request=request.id)
        request = _wait(member, request, call)
    if leave_of(team.requests, call.key, text) is not Leave.GIVEN:
        feedback = f": {request.feedback}" if request.feedback else ""
        raise Refused(f"not permitted ({why}): {request.id} is {request.status} by {request.decided_by}{feedback}")


def _wait(member: Member, request: Request, call: Call) -> Request:
    """The request once it is decided."""
    team = member.team
    end = time.monotonic() + (request.deadline_s or 0.0)
    member.status(Status.WAITING, f"permission {request.id} waits for human")
    unhook = call.cancel.on(team.bell.ring)
    try:
        while True:
            seen = team.bell.count()
            now = team.requests.made_for(call.key)
            if now is not None and not now.open:  # none: somebody is writing to its file
                break
            if member.runtime.stop.wanted.is_set():
                raise StillAsked
            left = end - time.monotonic()
            if (over := _over(member, call)) is not None:
                now = _close(member, request, f"the call is not wanted any more: {over}")
            elif left <= 0:
                now = _close(member, request, f"nobody answered within {request.deadline_s:g} s, which means no")
            else:
                team.bell.wait(seen, min(left, POLL))
                continue
            break
    finally:
        unhook()
    member.status(Status.WORKING, f"on {request.task}" if request.task is not None else "")
    return now


def _over(member: Member, call: Call) -> str | None:
    """Why it is of no use to wait any more."""
    if call.cancel.is_set():
        return call.cancel.reason or "interrupted"
    if member.runtime.finished.is_set():
        return "the team has finished"
    for each in member.team.requests.all():
        if each.kind is RequestKind.SHUTDOWN and each.open and each.to_instance == member.instance:
            return f"{member.name} is asked to shut down ({each.id})"
    return None


def _close(member: Member, request: Request, reason: str) -> Request:
    """Say no in the runtime's name, unless somebody was quicker."""
    try:
        return member.team.requests.let_lapse(request.id, reason=reason)
    except AlreadyDecided:
        return member.team.requests.get(request.id)
    except RequestRefused:  # void: its assignment is over, and with it the question
        raise Refused(f"not executed: {reason}") from None

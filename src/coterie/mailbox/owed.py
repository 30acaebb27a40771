"""The mail that a request owes. One function sends it, right after a change and again in recovery."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.mailbox.box import Mailbox
from coterie.mailbox.errors import RecipientGone, UnknownRecipient
from coterie.mailbox.message import (
    Answer,
    Body,
    Decision,
    Message,
    Notice,
    ShutdownAnswer,
    ShutdownRequest,
)
from coterie.mailbox.request import Request, RequestKind, RequestStatus, Standing
from coterie.mailbox.requests import Requests
from coterie.mailbox.rules import unsound


@dataclass(frozen=True)
class Owed:
    """One message that has to exist. `made_by` is its key, so that it exists once."""

    made_by: str
    body: Body
    sender: str
    sender_instance: str | None
    to: str
    to_instance: str | None


def owed(request: Request, standing: Standing) -> list[Owed]:
    """What a request owes as it stands: its notice while it waits, its outcome once it has one, nothing if stale."""
    if standing in (Standing.SUPERSEDED, Standing.VOID):
        return []
    if request.kind is RequestKind.PERMISSION and not request.open:
        return []  # the call that it was asked for is answered, and waits for that
    if standing is Standing.UNSOUND:
        return [_unsound(request)]
    if request.open:
        return [] if request.history and request.history[0].by == request.to else [_notice(request)]
    return [_outcome(request)]


def send_owed(requests: Requests, mailbox: Mailbox, request: Request) -> list[Message]:
    """Send what a request owes *now*, whatever it was when the caller last saw it; what exists is not sent again.

    Returns the messages as they lie in the boxes. A recipient whose life has ended is owed nothing.
    """
    sent = []
    with requests.holding():  # no decision overtakes the mail of the one before it
        fresh = requests.get(request.id)
        for mail in owed(fresh, requests.standing(fresh)):
            try:
                message = mailbox.send(
                    mail.body,
                    sender=mail.sender,
                    sender_instance=mail.sender_instance,
                    to=mail.to,
                    to_instance=mail.to_instance,
                    made_by=mail.made_by,
                )
            except (RecipientGone, UnknownRecipient):
                continue
            sent.append(message)
    return sent


def _notice(request: Request) -> Owed:
    body: Body
    if request.kind is RequestKind.SHUTDOWN:
        body = ShutdownRequest(text=request.text, request=request.id, deadline_s=request.deadline_s or 60.0)
        name = "shutdown_request"
    else:
        body = Notice(
            text=request.text,
            request=request.id,
            request_kind=request.kind.value,
            task=request.task,
            epoch=request.epoch,
            revision=request.revision,
        )
        name = "notice"
    return Owed(f"{request.id}/{name}", body, request.sender, request.sender_instance, request.to, request.to_instance)


def _outcome(request: Request) -> Owed:
    body: Body
    text = request.feedback or ""
    name = "decision"
    if request.kind is RequestKind.SHUTDOWN:
        name = "shutdown_answer"
        accepted = request.status is not RequestStatus.DECLINED
        forced = request.status is RequestStatus.FORCED
        body = ShutdownAnswer(text=text, request=request.id, accepted=accepted, forced=forced)
    elif request.kind is RequestKind.QUESTION:
        name = "answer"
        body = Answer(text=text, request=request.id)
    else:
        if any(step.before is RequestStatus.APPROVED for step in request.history):
            name = "revoked"  # the approval had its own mail
        body = Decision(
            text=text,
            request=request.id,
            request_kind=request.kind.value,
            decision="approved" if request.status is RequestStatus.APPROVED else "rejected",
            task=request.task,
            epoch=request.epoch,
            revision=request.revision,
        )
    decider = request.decided_by or "runtime"
    instance = request.history[-1].instance if request.history and request.decided_by else None
    asker_life = None if request.sender == "human" else request.sender_instance
    return Owed(f"{request.id}/{name}", body, decider, instance, request.sender, asker_life)


def _unsound(request: Request) -> Owed:
    """The asker learns that it has to ask again: for it this is a no, whatever the file says."""
    body = Decision(
        text=f"{unsound(request)}. Submit it again",
        request=request.id,
        request_kind=request.kind.value,
        decision="rejected",
        task=request.task,
        epoch=request.epoch,
        revision=request.revision,
    )
    asker_life = None if request.sender == "human" else request.sender_instance
    return Owed(f"{request.id}/unsound", body, "runtime", None, request.sender, asker_life)

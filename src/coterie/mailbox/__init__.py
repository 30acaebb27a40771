"""The mailbox: messages between members, and the requests that wait for somebody's decision."""

from __future__ import annotations

from coterie.mailbox.bell import Bell, ring_others
from coterie.mailbox.box import Mailbox, Recipient
from coterie.mailbox.envelope import item, render, render_all, wrapped
from coterie.mailbox.errors import (
    AlreadyDecided,
    MailRefused,
    NotYours,
    RecipientGone,
    RequestRefused,
    Superseded,
    TooLong,
    UnknownRecipient,
    UnknownRequest,
    Void,
)
from coterie.mailbox.message import (
    Answer,
    Body,
    Decision,
    Event,
    Message,
    Note,
    Notice,
    Report,
    Returned,
    ShutdownAnswer,
    ShutdownRequest,
)
from coterie.mailbox.message import parse as parse_message
from coterie.mailbox.owed import Owed, owed, send_owed
from coterie.mailbox.request import Request, RequestKind, RequestStatus, Standing, Step
from coterie.mailbox.request import parse as parse_request
from coterie.mailbox.requests import Requests
from coterie.mailbox.rules import unsound

__all__ = [
    "AlreadyDecided",
    "Answer",
    "Bell",
    "Body",
    "Decision",
    "Event",
    "MailRefused",
    "Mailbox",
    "Message",
    "NotYours",
    "Note",
    "Notice",
    "Owed",
    "Recipient",
    "RecipientGone",
    "Report",
    "Request",
    "RequestKind",
    "RequestRefused",
    "RequestStatus",
    "Requests",
    "Returned",
    "ShutdownAnswer",
    "ShutdownRequest",
    "Standing",
    "Step",
    "Superseded",
    "TooLong",
    "UnknownRecipient",
    "UnknownRequest",
    "Void",
    "item",
    "owed",
    "parse_message",
    "parse_request",
    "render",
    "render_all",
    "ring_others",
    "send_owed",
    "unsound",
    "wrapped",
]

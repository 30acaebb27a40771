"""What the mailbox refuses. Each text says what was expected, what was found and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import Refused, Unknown

if TYPE_CHECKING:
    from coterie.mailbox.request import Request


class MailRefused(Refused):
    """The message cannot be sent."""


class UnknownRecipient(MailRefused, Unknown):
    """Nobody of that name is in the team."""


class RecipientGone(MailRefused):
    """The life that the message is meant for has ended."""


class TooLong(MailRefused):
    """The text is over the cap."""


class RequestRefused(Refused):
    """The request cannot be made, decided, answered or settled. `request` is what is recorded, if anything is."""

    def __init__(self, message: str | None = None, request: Request | None = None, *, see: str | None = None) -> None:
        super().__init__(message, see=see or (request.id if request is not None else None))
        self.request = request


class UnknownRequest(RequestRefused, Unknown):
    """No request has this id."""


class AlreadyDecided(RequestRefused):
    """The request was decided before: the first decision counts, and `request` carries it."""


class Superseded(RequestRefused):
    """A later revision has taken the place of this one."""


class Void(RequestRefused):
    """The request belongs to an assignment or a life that is not the current one."""


class NotYours(RequestRefused):
    """Somebody else decides on this request."""

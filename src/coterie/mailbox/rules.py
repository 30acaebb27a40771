"""What stands against a decision, each as a sentence for whoever tried. Pure: everything needed is passed in."""

from __future__ import annotations

import math
from collections.abc import Collection

from coterie.mailbox.errors import AlreadyDecided, NotYours, RequestRefused, Superseded, TooLong, Void
from coterie.mailbox.request import MOVES, Decider, Request, RequestKind, RequestStatus, Standing

_LONGEST_DEADLINE = 24 * 3600.0  # seconds
_VERB = {
    RequestKind.PLAN: "review it with approve or reject",
    RequestKind.SPLIT: "review it with approve or reject",
    RequestKind.PERMISSION: "review it with approve or reject",
    RequestKind.SHUTDOWN: "only the one who is asked answers it",
    RequestKind.QUESTION: "answer it in words",
}


def refuse_wrong_kind(request: Request, kinds: Collection[RequestKind]) -> None:
    """A question is not approved, and a plan is not answered."""
    if request.kind not in kinds:
        raise RequestRefused(f"{request.id} is a {request.kind}: {_VERB[request.kind]}", request)


def parts_of(request: Request, by: str, by_instance: str | None) -> frozenset[Decider]:
    """In what part `by` acts on a request. Raises `NotYours` where there is none."""
    if by == request.sender:
        raise NotYours(f"nobody decides on their own request: {request.id} waits for {request.to}", request)
    parts = set()
    if by == request.to:
        if request.to_instance is not None and by_instance != request.to_instance:
            raise Void(f"{request.id} is meant for {request.to_instance}, not for {by_instance or by}", request)
        parts.add(Decider.ADDRESSEE)
    if by == "human":
        parts.add(Decider.HUMAN)
    if by == "runtime":
        parts.add(Decider.RUNTIME)
    if not parts:
        raise NotYours(f"{request.id} is addressed to {request.to}: {by} does not decide on it", request)
    return frozenset(parts)


def refuse_stale(request: Request, standing: Standing, later: str | None) -> None:
    """A superseded or void request is not decided any more."""
    if standing is Standing.SUPERSEDED:
        raise Superseded(f"{request.id} (revision {request.revision}) is superseded by {later}: look at that", request)
    if standing is Standing.VOID:
        raise Void(void(request), request)


def void(request: Request) -> str:
    """Why a request is void."""
    if request.task is not None:
        return f"{request.task} in epoch {request.epoch} is not the current assignment (any more): nothing is to decide"
    gone = request.to_instance if request.kind is RequestKind.SHUTDOWN else request.sender_instance
    return f"{gone} has ended: nothing is to decide"


def unsound(request: Request) -> str:
    """Why an approval counts for nothing."""
    if not request.text_is_whole:
        return (
            f"{request.id} says approved, but its text is not the one that was submitted: the approval does not count"
        )
    return (
        f"{request.id} says approved by {request.decided_by}, but only {request.to} or the human may: "
        "the approval does not count"
    )


def refuse_decided(request: Request) -> None:
    """The first decision counts."""
    if not request.open:
        why = f": {request.feedback}" if request.decided_by == "runtime" and request.feedback else ""
        raise AlreadyDecided(
            f"{request.id} is already {request.status}, by {request.decided_by} at {request.decided_at}{why}", request
        )


def refuse_move(request: Request, after: RequestStatus, parts: frozenset[Decider]) -> None:
    """The table of moves, and that an approval is one of the text that was submitted."""
    allowed = MOVES.get((request.kind, request.status, after), frozenset())
    if not allowed & parts:
        refuse_decided(request)
        if allowed:
            raise NotYours(f"{request.id} waits for {request.to}: it is not yours to make it {after}", request)
        raise RequestRefused(f"a {request.kind} that is {request.status} cannot become {after}", request)
    if after is RequestStatus.APPROVED and not request.text_is_whole:
        raise RequestRefused(
            f"the text of {request.id} was changed after it was submitted: reject it and have it submitted again",
            request,
        )


def checked_text(text: str, cap: int) -> str:
    """`text` itself if a file can hold it and it is at most `cap` bytes."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise RequestRefused("the text is not valid Unicode: write it again without broken characters") from None
    if size > cap:
        raise TooLong(f"the text is too long: at most {cap} bytes, found {size}. Shorten it")
    return text


def checked_deadline(seconds: float) -> float:
    """`seconds` itself if it is a time that somebody can be waited for."""
    if not (math.isfinite(seconds) and 0 < seconds <= _LONGEST_DEADLINE):
        raise RequestRefused(f"expected a deadline of 0 to {_LONGEST_DEADLINE:g} seconds, found {seconds:g}")
    return float(seconds)

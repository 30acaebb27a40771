"""The whole table of a request's moves: every kind, every pair of statuses, every part somebody can act in."""

from __future__ import annotations

import itertools

import pytest

from coterie.mailbox import Request, RequestKind, RequestRefused, RequestStatus
from coterie.mailbox.request import OPENING, Decider, digest
from coterie.mailbox.rules import refuse_move

ALLOWED = {
    "plan submitted approved": "addressee human",
    "plan submitted rejected": "addressee human",
    "plan approved rejected": "human",
    "split submitted approved": "addressee human",
    "split submitted rejected": "addressee human",
    "permission submitted approved": "addressee human",
    "permission submitted rejected": "addressee human runtime",
    "permission approved rejected": "human",
    "shutdown requested acknowledged": "addressee runtime",
    "shutdown requested declined": "addressee",
    "shutdown requested forced": "runtime",
    "question asked answered": "addressee human",
}


def request(kind: RequestKind, status: RequestStatus) -> Request:
    return Request(
        id="R1", kind=kind, sender="ada", to="lead", digest=digest("x"), text="x", status=status, decided_by="lead"
    )


@pytest.mark.parametrize("kind", RequestKind)
def test_every_move_that_is_not_in_the_table_is_refused(kind: RequestKind) -> None:
    for before, after, part in itertools.product(RequestStatus, RequestStatus, Decider):
        allowed = part in ALLOWED.get(f"{kind} {before} {after}", "").split()
        try:
            refuse_move(request(kind, before), after, frozenset({part}))
        except RequestRefused:
            assert not allowed, (kind, before, after, part)
        else:
            assert allowed, (kind, before, after, part)


def test_every_kind_opens_in_a_status_that_it_can_leave() -> None:
    for kind in RequestKind:
        assert any(move.startswith(f"{kind} {OPENING[kind]} ") for move in ALLOWED)


def test_nothing_that_only_time_does_ever_approves() -> None:
    for kind, before in itertools.product(RequestKind, RequestStatus):
        for after in (RequestStatus.APPROVED, RequestStatus.ANSWERED):
            with pytest.raises(RequestRefused):
                refuse_move(request(kind, before), after, frozenset({Decider.RUNTIME}))

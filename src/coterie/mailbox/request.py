"""Requests: what waits for somebody's yes or no, how its status may move, and the record as a file."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coterie import files
from coterie.errors import NewerSchema
from coterie.mailbox.message import Epoch, Instance, Key, Name, RequestId, TaskId, first_fault

SCHEMA = 1


class RequestKind(StrEnum):
    """What is asked for."""

    PLAN = "plan"  # may I do this for my assignment?
    SHUTDOWN = "shutdown"  # will you end?
    SPLIT = "split"  # may these tasks be on the board?
    PERMISSION = "permission"  # may I run this command?
    QUESTION = "question"  # what do you want?


class RequestStatus(StrEnum):
    """What is stored. *Superseded*, *void* and *unsound* never are: they are computed when somebody looks."""

    SUBMITTED = "submitted"  # a plan, a split or a permission waits
    APPROVED = "approved"  # yes
    REJECTED = "rejected"  # no; for a permission also: nobody answered in time
    REQUESTED = "requested"  # a shutdown waits
    ACKNOWLEDGED = "acknowledged"  # the life ends in order
    DECLINED = "declined"  # it goes on
    FORCED = "forced"  # it did not answer, or not end, in time
    ASKED = "asked"  # a question waits
    ANSWERED = "answered"  # `feedback` is the answer


class Standing(StrEnum):
    """What a request is worth now: its status, or one of the three that are computed."""

    SUBMITTED = "submitted"
    APPROVED = "approved"
    REJECTED = "rejected"
    REQUESTED = "requested"
    ACKNOWLEDGED = "acknowledged"
    DECLINED = "declined"
    FORCED = "forced"
    ASKED = "asked"
    ANSWERED = "answered"
    SUPERSEDED = "superseded"  # a later revision has taken its place
    VOID = "void"  # its assignment or its life is not the current one
    UNSOUND = "unsound"  # it says approved, but not by somebody who may, or not on the text that was submitted


class Decider(StrEnum):
    """In what part somebody moves a request."""

    ADDRESSEE = "addressee"  # whom `to` names
    HUMAN = "human"  # always
    RUNTIME = "runtime"  # only what follows from a clock or an ended thread


_K, _S, _D = RequestKind, RequestStatus, Decider
_DECIDES = frozenset({_D.ADDRESSEE, _D.HUMAN})

OPENING = {
    _K.PLAN: _S.SUBMITTED,
    _K.SPLIT: _S.SUBMITTED,
    _K.PERMISSION: _S.SUBMITTED,
    _K.SHUTDOWN: _S.REQUESTED,
    _K.QUESTION: _S.ASKED,
}
MOVES: dict[tuple[RequestKind, RequestStatus, RequestStatus], frozenset[Decider]] = {
    (_K.PLAN, _S.SUBMITTED, _S.APPROVED): _DECIDES,
    (_K.PLAN, _S.SUBMITTED, _S.REJECTED): _DECIDES,
    (_K.PLAN, _S.APPROVED, _S.REJECTED): frozenset({_D.HUMAN}),  # revoked
    (_K.SPLIT, _S.SUBMITTED, _S.APPROVED): _DECIDES,
    (_K.SPLIT, _S.SUBMITTED, _S.REJECTED): _DECIDES,
    (_K.PERMISSION, _S.SUBMITTED, _S.APPROVED): _DECIDES,
    (_K.PERMISSION, _S.SUBMITTED, _S.REJECTED): _DECIDES | {_D.RUNTIME},  # silence means no
    (_K.PERMISSION, _S.APPROVED, _S.REJECTED): frozenset({_D.HUMAN}),  # revoked
    (_K.SHUTDOWN, _S.REQUESTED, _S.ACKNOWLEDGED): frozenset({_D.ADDRESSEE, _D.RUNTIME}),
    (_K.SHUTDOWN, _S.REQUESTED, _S.DECLINED): frozenset({_D.ADDRESSEE}),
    (_K.SHUTDOWN, _S.REQUESTED, _S.FORCED): frozenset({_D.RUNTIME}),
    (_K.QUESTION, _S.ASKED, _S.ANSWERED): _DECIDES,
}
"""Every move there is, and who may make it. Every other pair is refused."""


class Step(BaseModel):
    """One entry of a request's history."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", validate_by_name=True, validate_by_alias=True)

    at: str
    before: RequestStatus | None = Field(alias="from", strict=False)
    after: RequestStatus = Field(alias="to", strict=False)
    by: Name
    instance: Instance | None = None  # the life that acted
    reason: str = ""
    made_by: Key | None = None


class Request(BaseModel):
    """Something that waits for somebody's decision. Frozen; a change is a copy with `rev` one higher."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", validate_by_name=True, validate_by_alias=True)

    schema_version: int = Field(SCHEMA, alias="schema")
    id: RequestId
    kind: RequestKind = Field(strict=False)
    sender: Name = Field(alias="from")
    sender_instance: Instance | None = Field(None, alias="from_instance")
    to: Name
    to_instance: Instance | None = None
    task: TaskId | None = None
    epoch: Epoch | None = None
    revision: Annotated[int, Field(ge=1)] = 1
    digest: str  # sha256 of `text`, in hex: what was decided on is what was read
    text: str
    status: RequestStatus = Field(strict=False)
    decided_by: Name | None = None
    decided_at: str | None = None
    feedback: str | None = None  # for a question: the answer
    deadline_s: Annotated[float, Field(gt=0)] | None = None  # on the deciding host's monotonic clock, from its start
    made_by: Key | None = None
    rev: Annotated[int, Field(ge=1)] = 1
    history: tuple[Step, ...] = Field((), strict=False)

    @property
    def open(self) -> bool:
        """Whether nobody has decided yet."""
        return self.status == OPENING[self.kind]

    @property
    def text_is_whole(self) -> bool:
        """Whether the text is the one that was submitted."""
        return self.digest == digest(self.text)

    @property
    def soundly_approved(self) -> bool:
        """Whether it says approved, and by somebody who may: never its author, and on the text that was submitted."""
        return (
            self.status is RequestStatus.APPROVED
            and self.decided_by in {self.to, "human"} - {self.sender}
            and self.text_is_whole
        )

    def moved(self, after: RequestStatus, *, by: str, instance: str | None, text: str, made_by: str | None) -> Request:
        """The request after a decision. Whether it is allowed, others have checked."""
        at = files.now()
        step = Step(
            at=at, before=self.status, after=after, by=by, instance=instance, reason=text[:2000], made_by=made_by
        )
        change = {
            "status": after,
            "decided_by": by,
            "decided_at": at,
            "feedback": text,
            "rev": self.rev + 1,
            "history": (*self.history, step),
        }
        return self.model_copy(update=change)


def digest(text: str) -> str:
    """The sha256 of a text's UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def encode(request: Request) -> bytes:
    """A request as a file, keys in the order of the fields; fields that are not known come last."""
    return files.encode(request.model_dump(mode="json", by_alias=True))


def parse(data: dict[str, Any], path: Path) -> Request:
    """The request in a file's object. `path` names it: `<id>.json`.

    Raises `files.Unreadable` with the path to the field, `NewerSchema` for a record of a newer Coterie.
    """
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerSchema(f"{path}: expected schema {SCHEMA}, found {schema}: upgrade Coterie to go on with this team")
    try:
        request = Request.model_validate(data)
    except ValidationError as error:
        raise files.Unreadable(path, first_fault(error)) from None
    if path.name != f"{request.id}.json":
        raise files.Unreadable(path, f"field id: expected the id of the file's name, found {request.id!r}")
    if not any(request.status in (before, after) for kind, before, after in MOVES if kind is request.kind):
        raise files.Unreadable(path, f"field status: a {request.kind} is never {request.status}")
    return request

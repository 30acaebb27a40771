"""Messages: what they say (a body per kind), the envelope around it, and both as a file.

The envelope is stamped by the runtime from the identity of the sending thread. Nothing in it comes from what a model
wrote, and no body can change it: prose approves nothing. Text is kept exactly as it was given; it is stripped of
control characters only where it is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from coterie import files
from coterie.errors import NewerSchema

SCHEMA = 1
CAP = 64 * 1024  # bytes of one body's text

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
Instance = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}(#[1-9][0-9]{0,8})?$")]
MessageId = Annotated[str, StringConstraints(pattern=r"^[0-9]{10}-[a-z][a-z0-9-]{0,31}$")]
RequestId = Annotated[str, StringConstraints(pattern=r"^R[1-9][0-9]{0,11}$")]
TaskId = Annotated[str, StringConstraints(pattern=r"^T[1-9][0-9]{0,11}$")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Epoch = Annotated[int, Field(ge=1)]


class _Record(BaseModel):
    """Frozen and strict. A message is written once and only moved after that: unknown fields stay in the file."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", validate_by_name=True, validate_by_alias=True)


class Body(_Record):
    """What a message says. `text` is prose and has no effect whatever it claims."""

    text: str


class Note(Body):
    """Something one member, or the person, tells another."""


class Report(Body):
    """The last text of a stretch."""

    task: TaskId | None = None
    epoch: Epoch | None = None
    failed: bool = False  # what a lead must hear at once, not with its next batch


class Returned(Body):
    """Submitted work that comes back to its owner; `text` is the reason."""

    task: TaskId
    epoch: Epoch
    returns: int
    files: tuple[str, ...] = Field((), strict=False)  # in conflict, as git names them
    output: str | None = None  # of the check that failed, capped by the sender
    base: str | None = None  # the commit that was merged into the worktree


class Notice(Body):
    """A request waits for the recipient; `text` is its full text."""

    request: RequestId
    request_kind: str
    task: TaskId | None = None
    epoch: Epoch | None = None
    revision: int = 1


class Decision(Body):
    """A request was decided; `text` is the feedback, maybe empty."""

    request: RequestId
    request_kind: str
    decision: Literal["approved", "rejected"]
    task: TaskId | None = None
    epoch: Epoch | None = None
    revision: int = 1


class ShutdownRequest(Body):
    """The recipient's life is asked to end; `text` is the reason, maybe empty."""

    request: RequestId
    deadline_s: float


class ShutdownAnswer(Body):
    """What became of a shutdown; `forced` where nobody answered in time."""

    request: RequestId
    accepted: bool
    forced: bool = False


class Answer(Body):
    """The answer to a question."""

    request: RequestId


class Event(Body):
    """Something happened. `wakes` where an idle recipient should not wait for other mail to learn of it."""

    event: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    task: TaskId | None = None
    wakes: bool = False


class Envelope(_Record):
    """What every message has."""

    schema_version: int = Field(SCHEMA, alias="schema")
    id: MessageId  # unique in the team; sorts by `seq` within the recipient's box
    kind: str
    sender: Name = Field(alias="from")
    sender_instance: Instance | None = Field(None, alias="from_instance")
    to: Name
    to_instance: Instance | None = None  # the life it is meant for; no other life receives it
    sent_at: str  # for people; the order is that of `seq`
    seq: Annotated[int, Field(ge=1)]  # drawn under the team's lock: its place in the recipient's box
    in_reply_to: MessageId | None = None
    urgent: bool = False
    made_by: Key | None = None  # what owes it; a second one with the same key is never made


class NoteMessage(Envelope):
    kind: Literal["note"] = "note"
    body: Note


class ReportMessage(Envelope):
    kind: Literal["report"] = "report"
    body: Report


class ReturnedMessage(Envelope):
    kind: Literal["returned"] = "returned"
    body: Returned


class NoticeMessage(Envelope):
    kind: Literal["notice"] = "notice"
    body: Notice


class DecisionMessage(Envelope):
    kind: Literal["decision"] = "decision"
    body: Decision


class ShutdownRequestMessage(Envelope):
    kind: Literal["shutdown_request"] = "shutdown_request"
    body: ShutdownRequest


class ShutdownAnswerMessage(Envelope):
    kind: Literal["shutdown_answer"] = "shutdown_answer"
    body: ShutdownAnswer


class AnswerMessage(Envelope):
    kind: Literal["answer"] = "answer"
    body: Answer


class EventMessage(Envelope):
    kind: Literal["event"] = "event"
    body: Event


Message = (
    NoteMessage
    | ReportMessage
    | ReturnedMessage
    | NoticeMessage
    | DecisionMessage
    | ShutdownRequestMessage
    | ShutdownAnswerMessage
    | AnswerMessage
    | EventMessage
)
_ANY: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])
_KIND_OF: dict[type[Body], str] = {
    Note: "note",
    Report: "report",
    Returned: "returned",
    Notice: "notice",
    Decision: "decision",
    ShutdownRequest: "shutdown_request",
    ShutdownAnswer: "shutdown_answer",
    Answer: "answer",
    Event: "event",
}


def stamp(body: Body, **envelope: Any) -> Message:
    """The message around `body`. The keywords are the envelope's fields, by name in code or in the file."""
    return _ANY.validate_python({**envelope, "kind": _KIND_OF[type(body)], "body": body})


def encode(message: Message) -> bytes:
    """A message as a file, keys in the order of the fields."""
    return files.encode(message.model_dump(by_alias=True))


def parse(data: dict[str, Any], path: Path) -> Message:
    """The message in a file's object. `path` names it: `<id>.json`.

    Raises `files.Unreadable` with the path to the field, `NewerSchema` for a record of a newer Coterie.
    """
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerSchema(f"{path}: expected schema {SCHEMA}, found {schema}: upgrade Coterie to go on with this team")
    try:
        message = _ANY.validate_python(data)
    except ValidationError as error:
        raise files.Unreadable(path, first_fault(error)) from None
    if path.name != f"{message.id}.json":
        raise files.Unreadable(path, f"expected the id of the file's name, found {message.id!r}")
    return message


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong with a record, with the path to the field."""
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"field {'.'.join(str(part) for part in fault['loc']) or '(all)'}: {fault['msg']}"

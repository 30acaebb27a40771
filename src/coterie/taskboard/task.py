"""The nouns of the board, and how a task is stored: one frozen record, `encode` and `parse`.

A field that this version does not know is kept when the record is written again.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from coterie import files
from coterie.taskboard.errors import TaskRefused, UnknownTask

SCHEMA = 1
LIMIT = 1024 * 1024
"""The largest task file, in bytes."""
REASON_CAP = 8000
"""The longest reason in a history entry, in characters."""

_ID = re.compile(r"T[1-9][0-9]{0,8}")
_OLD_REASON_CAP = 200
_OUTSIDE = re.compile(r"^\s*$|^[\s/~]|\s$|(^|/)\.{0,2}/|(^|/)\.{1,2}$|^[A-Za-z]:|[\\\x00-\x1f\x7f]")
"""What no path inside a repository looks like: empty, absolute, a home, with empty, . or .. parts, or not for POSIX."""


class Status(StrEnum):
    """Where a task stands. Ready and blocked are computed, never stored."""

    PENDING = "pending"  # nobody owns it
    IN_PROGRESS = "in_progress"  # its owner works on it
    SUBMITTED = "submitted"  # handed in, waits in the merge queue
    COMPLETED = "completed"  # merged and tested
    FAILED = "failed"  # given up; a retry brings it back
    CANCELLED = "cancelled"  # no longer wanted; a retry brings it back


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True, validate_by_name=True, validate_by_alias=True)


class Claim(_Record):
    """Who owns a task. `process` is the id of the host process; its lock proves whether it lives."""

    owner: str
    instance: str
    process: str
    at: str


class Assignment(_Record):
    """Where the owner works: a worktree's path, the branch on it, the commit it started from."""

    worktree: str
    branch: str
    base: str


class Wanted(_Record):
    """Somebody takes the task from its live owner; from now on nothing else of this epoch has an effect."""

    move: Literal["release", "cancel"]
    by: str
    reason: str


class Evidence(_Record):
    """One command that was run on one commit. `output` names the kept output, `seconds` is how long it took."""

    command: str
    exit_code: int
    commit: str
    output: str | None = None
    seconds: float = 0.0


class Result(_Record):
    """What was handed in, and what became of it."""

    summary: str
    commit: str | None = None
    merged_commit: str | None = None
    no_change: bool = False
    evidence: tuple[Evidence, ...] = ()


class Change(_Record):
    """One entry of a task's history. `from_` and `to` are equal where the status stayed."""

    at: str
    from_: Status | None = Field(alias="from")
    to: Status
    by: str
    epoch: int
    reason: str = ""
    made_by: str | None = None


class Task(_Record):
    """A unit of work: one file on the board."""

    schema_: int = Field(alias="schema", ge=1)
    id: str
    subject: str
    description: str = ""
    status: Status
    blocked_by: tuple[str, ...] = ()
    priority: int = Field(default=5, ge=0, le=10)  # 10 first
    role: str | None = None
    requires_plan: bool = False
    checks: tuple[str, ...] = ()  # commands that must pass
    scope: tuple[str, ...] = ()  # path globs it expects to change
    split: str | None = None  # the request that must be approved first
    returns: int = Field(default=0, ge=0)
    attempts: int = Field(default=0, ge=0)
    losses: int = Field(default=0, ge=0)
    epoch: int = Field(ge=0)
    claim: Claim | None = None
    assignment: Assignment | None = None
    wanted: Wanted | None = None
    queued: int | None = None
    merging: str | None = None  # the commit that the merge queue is about to make the tip
    result: Result | None = None
    history: tuple[Change, ...] = ()
    made_by: str | None = None
    created_at: str = ""
    created_by: str = ""
    rev: int = Field(ge=1)

    @property
    def held(self) -> bool:
        """Whether its owner holds it. A submitted task whose binding has ended is held by nobody."""
        if self.status is Status.SUBMITTED:
            return self.assignment is not None
        return self.status is Status.IN_PROGRESS

    def current(self, epoch: int) -> bool:
        """Whether `(task, epoch)` may still have effects."""
        return self.status in (Status.IN_PROGRESS, Status.SUBMITTED) and self.epoch == epoch and self.wanted is None

    def made(self, key: str | None) -> bool:
        """Whether the call with this key is in the history."""
        return key is not None and any(change.made_by == key for change in self.history)


def _inside(glob: str) -> str:
    if _OUTSIDE.search(glob):
        raise ValueError(
            f"{glob[:100]!r} is no path of the repository. "
            "Expected a path or glob relative to its root, with / and without . or .. parts, such as src/shop/*.py"
        )
    return glob


Short = Annotated[str, Field(min_length=1, max_length=4096)]
Glob = Annotated[str, Field(max_length=4096), AfterValidator(_inside)]


class NewTask(BaseModel):
    """What is asked for when a task is created. `blocked_by` names refs of the same batch or ids of the board.

    `subject` is cut at 200 characters and loses its control characters; anything else too large is refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ref: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    subject: str
    description: str = Field(default="", max_length=65536)
    blocked_by: tuple[str, ...] = Field(default=(), max_length=1000)
    requires_plan: bool | None = None
    checks: tuple[Short, ...] = Field(default=(), max_length=50)
    role: str | None = Field(default=None, min_length=1, max_length=64)
    priority: int = Field(default=5, ge=0, le=10)
    scope: tuple[Glob, ...] = Field(default=(), max_length=200)

    @field_validator("subject")
    @classmethod
    def _one_short_line(cls, text: str) -> str:
        return one_line(text)


def one_line(text: str, cap: int = 200) -> str:
    """`text` as a subject: one line of at most `cap` characters. ValueError if nothing is left of it."""
    line = " ".join(files.clean(text, cap * 20).split())
    if not line:
        raise ValueError("expected at least one visible character")
    return line if len(line) <= cap else line[: cap - 1] + "…"


def storable(text: str, cap: int = REASON_CAP) -> str:
    """`text` cut at `cap` characters, with what UTF-8 cannot say replaced."""
    text = text if len(text) <= cap else text[: cap - 1] + "…"
    return text.encode("utf-8", "replace").decode()


def check_id(task: str) -> str:
    """`task` itself if it is an id, else `UnknownTask`: no id can lead to a path outside the board."""
    if not isinstance(task, str) or not _ID.fullmatch(task):
        raise UnknownTask(f"not a task id: {files.clean(str(task), 60)!r}. Expected T and a number, such as T7")
    return task


def is_id(text: str) -> bool:
    """Whether `text` has the form of a task's id."""
    return _ID.fullmatch(text) is not None


def number(task: str) -> int:
    """The number in an id: 7 for T7."""
    return int(task[1:])


def encode(task: Task) -> bytes:
    """The record as it is stored: indented JSON, the fields in their order, unknown ones after them.

    Where it would be larger than `LIMIT`, the reasons of all but the last three history entries are cut to 200
    characters. Raises `TaskRefused` if that is not enough.
    """
    data = _dump(task)
    if len(data) > LIMIT:
        *old, x, y, z = task.history
        old = [change.model_copy(update={"reason": storable(change.reason, _OLD_REASON_CAP)}) for change in old]
        data = _dump(task.model_copy(update={"history": (*old, x, y, z)}))
        if len(data) > LIMIT:
            raise TaskRefused(f"{task.id} would be {len(data)} bytes, expected at most {LIMIT}: say it shorter")
    return data


def _dump(task: Task) -> bytes:
    return files.escaped(task.model_dump_json(by_alias=True, indent=2)).encode() + b"\n"


def parse(data: bytes, path: Path) -> Task:
    """The task in `data`, the content of the file `path`. The opposite of `encode`.

    Raises `files.Unreadable` naming the field that is wrong. A record of a higher schema is read as far as its
    fields are those known here; `Task.schema_` says so.
    """
    found = files.decode(data, path)
    try:
        task = Task.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the record"
        schema = found.get("schema")
        newer = f" (schema {schema}, known is {SCHEMA})" if isinstance(schema, int) and schema > SCHEMA else ""
        raise files.Unreadable(path, f"{where}: {first['msg']}{newer}") from None
    if task.id != path.stem:
        raise files.Unreadable(path, f"id: expected {path.stem}, the file's name, found {files.clean(task.id, 60)!r}")
    if task.status in (Status.IN_PROGRESS, Status.SUBMITTED) and task.claim is None:
        raise files.Unreadable(path, f"claim: expected an owner, since status is {task.status}, found null")
    return task


def is_newer(data: bytes, path: Path) -> bool:
    """Whether `data` says that it has a higher schema than this version knows, whatever else is in it."""
    try:
        schema = files.decode(data, path).get("schema")
    except files.Unreadable:
        return False
    return isinstance(schema, int) and schema > SCHEMA

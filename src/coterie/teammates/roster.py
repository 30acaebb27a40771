"""Who is on the team: one member.json each, and the lives that a name has had."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coterie import files
from coterie.errors import CoterieError, NewerSchema, Refused, Unknown
from coterie.teammates.journal import Answered, Record, Spent

__all__ = [
    "HUMAN",
    "MemberRecord",
    "Roster",
    "Status",
    "Tokens",
    "UnknownMember",
    "billed",
    "dollars",
    "parse_member",
    "read_member",
]

HUMAN = "human"


class UnknownMember(Unknown):
    """No member of that name."""


class Status(StrEnum):
    """What a member is doing."""

    STARTING = "starting"  # spawned, its thread does not run yet
    WORKING = "working"  # in a stretch
    WAITING = "waiting"  # for a decision, for the queue, or for somebody to say what is next
    IDLE = "idle"  # nothing to do
    STOPPING = "stopping"  # its life is being ended
    STOPPED = "stopped"  # its life has ended in order
    FAILED = "failed"  # its life has ended by a fault of ours

    @property
    def over(self) -> bool:
        return self in (Status.STOPPED, Status.FAILED)


class Tokens(BaseModel):
    """Tokens that a member's model calls were billed for."""

    model_config = ConfigDict(frozen=True)

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


def dollars(usd: float | None, more: float | None) -> float | None:
    """The sum of two amounts, in whole millionths as each is; None where one of them is not known."""
    return None if usd is None or more is None else round(usd + more, 6)


def billed(records: Iterable[Record]) -> tuple[Tokens, float | None]:
    """Tokens and dollars of all calls in these records; dollars None where a price is not known."""
    sums = dict.fromkeys(Tokens.model_fields, 0)
    usd: float | None = 0.0
    for record in records:
        if isinstance(record, Answered | Spent):
            usd = dollars(usd, record.usd)
            for key in sums:
                sums[key] += record.usage.get(key, record.usage.get(f"{key}_tokens", 0))
    return Tokens(**sums), usd


class MemberRecord(BaseModel):
    """member.json: one member in its latest life."""

    model_config = ConfigDict(frozen=True, extra="allow")

    schema_: Literal[1] = Field(default=1, alias="schema")
    name: str
    instance: str = Field(pattern=r"^[a-z][a-z0-9-]{0,31}#[1-9][0-9]{0,8}$", description="name#life, as in ada#2")
    role: str | None = Field(default=None, description="what a task's role has to be for this member to claim it")
    model: str
    prompt: str = Field(default="", description="what the lead told this member at spawning, for all its tasks")
    status: Status = Status.STARTING
    reason: str = ""
    since: str = ""
    task: str | None = None
    epoch: int | None = None
    worktree: str | None = None
    todo: list[dict[str, str]] = Field(default_factory=list)
    turn: int = 0
    tokens: Tokens = Tokens()
    usd: float | None = Field(default=0.0, description="dollars; null where a model's price is not known")
    process: str | None = Field(default=None, description="id of the host process")
    joined: bool = Field(default=False, description="it has a host process of its own, and its life ends with that")
    made_by: str | None = None

    @property
    def life(self) -> int:
        return int(self.instance.rpartition("#")[2])

    def encode(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


def parse_member(data: dict[str, Any], path: Path) -> MemberRecord:
    """The member in `data`, as it stands in `members/<name>/member.json`. Unknown fields are kept.

    Raises `NewerSchema`, or `Unreadable` with the path to the field that is wrong.
    """
    name = path.parent.name
    if isinstance(schema := data.get("schema"), int) and schema > 1:
        raise NewerSchema(f"member {name} was written by a newer Coterie (schema {schema}, known is 1): upgrade")
    if "schema" not in data:
        raise files.Unreadable(path, "field schema: expected 1, found nothing")
    try:
        record = MemberRecord.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise files.Unreadable(path, f"field {where}: {first['msg']}") from None
    if record.name != name or record.instance.partition("#")[0] != name:
        raise files.Unreadable(path, f"field instance: expected a life of {name}, found {record.instance}")
    return record


def read_member(path: Path) -> MemberRecord:
    """The member that a file says. Raises as `parse_member` does, or `FileNotFoundError`."""
    return parse_member(files.read_json(path), path)


class Roster:
    """The members of one team, as their files say. Every change is made under the team's lock.

    A file that cannot be read now, or is gone, says what this process last read of it or wrote: nobody's life ends, and
    no mail is refused, because an editor is at it. `sweep` puts that back. report: told of each that was put back.
    """

    def __init__(
        self,
        root: Path,
        *,
        on_change: Callable[[], None] = lambda: None,
        report: Callable[[str], None] = lambda text: None,
        settle: float = 2.0,
    ) -> None:
        self.root = root
        self._lock = root / "lock"
        self._on_change = on_change
        self._settle = settle
        self._kept = files.Kept(read_member, MemberRecord.encode, lock=self._lock, report=report, settle=settle)

    def folder(self, name: str) -> Path:
        return self.root / "members" / name

    def get(self, name: str) -> MemberRecord:
        """The member as it is now. Takes no lock. Raises `UnknownMember`, `Unreadable`, `NewerSchema`."""
        try:
            return self._kept.get(self.folder(name) / "member.json")
        except FileNotFoundError:
            known = ", ".join(each.name for each in self.all()) or "nobody yet"
            raise UnknownMember(f"no member is called {files.clean(name, 60)!r}. On the team: {known}") from None

    def all(self) -> list[MemberRecord]:
        """Every member that was ever spawned, the lead first, then by name."""
        found = []
        for path in {*(self.root / "members").glob("*/member.json"), *self._kept.paths()}:
            try:
                found.append(self._kept.get(path))
            except (CoterieError, FileNotFoundError):
                continue  # the audit reports it; the others go on
        return sorted(found, key=lambda each: (each.name != "lead", each.name))

    def living(self) -> list[MemberRecord]:
        return [each for each in self.all() if not each.status.over]

    def instance_of(self, name: str) -> str | None:
        """The living instance of `name`; None if it is unknown or its life has ended. The human is always there."""
        if name == HUMAN:
            return HUMAN
        try:
            record = self.get(name)
        except CoterieError:
            return None
        return None if record.status.over else record.instance

    def spawn(
        self,
        name: str,
        *,
        model: str,
        role: str | None = None,
        prompt: str = "",
        most: int | None = None,
        joined: str | None = None,
        made_by: str | None = None,
    ) -> MemberRecord:
        """Start the next life of `name`. Refused while it lives, or when `most` teammates live already.

        joined: the id of the host process that runs this life and no other; without it, the lead's host does.
        A repeated `made_by` returns the life that was made the first time.
        """
        files.check_name(name, reserved=name == "lead")
        with files.locked(self._lock):
            try:
                before: MemberRecord | None = self.get(name)
            except UnknownMember:
                before = None
            if before is not None and made_by is not None and before.made_by == made_by:
                return before
            if before is not None and name != "lead" and not self._is_sound(name):
                raise Refused(
                    f"the record of {name} cannot be read, so which life is next is not known: take another name"
                )
            if before is not None and not before.status.over:
                raise Refused(f"{name} is on the team already ({before.instance}, {before.status}): take another name")
            if before is not None and before.joined and before.process != joined and self._owed(before.process):
                raise Refused(f"what {before.instance} left is still being put away: try again in a moment")
            others = [each for each in self.living() if each.name != "lead"]
            if most is not None and len(others) >= most:
                have = files.counted(len(others), "teammate")
                raise Refused(f"the team has {have} of at most {most}: stop one first, or use those")
            life = before.life + 1 if before is not None else 1
            record = MemberRecord(
                name=name,
                instance=f"{name}#{life}",
                role=role,
                model=model,
                prompt=prompt,
                since=files.now(),
                process=joined,
                joined=joined is not None,
                made_by=made_by,
            )
            for each in ("tmp", "new", "cur"):
                files.make_folder(self.root / "mail" / name / each)
            files.make_folder(self.folder(name))
            self._write(record)
        self._on_change()
        return record

    def _is_sound(self, name: str) -> bool:
        """Whether the file of a member can be read: who only remembers it may have missed a life of another process."""
        try:
            read_member(self.folder(name) / "member.json")
        except (files.Unreadable, FileNotFoundError):
            return False
        return True

    def _owed(self, process: str | None) -> bool:
        """Whether a host process is still leaving, or what it left is being put away: its lock goes last."""
        return (self.root / "processes" / f"{process}.lock").exists()

    def update(self, name: str, instance: str, **changes: Any) -> MemberRecord:
        """Change fields of a living member. Refused if `instance` is no longer the latest life of that name."""
        self._kept.let_settle(self.folder(name) / "member.json")
        with files.locked(self._lock):
            before = self.get(name)
            if before.instance != instance:
                raise Refused(f"{instance} is over: {name} is {before.instance} now")
            after = before.model_copy(update=changes)
            if after.status != before.status or after.reason != before.reason:
                after = after.model_copy(update={"since": files.now()})
            if after == before:
                return before
            self._write(after)
        if after.status != before.status:
            self._on_change()
        return after

    def end_unknown(self, record: MemberRecord) -> None:
        """End a life of which nobody can read the record any more: it is replaced by one that says so.

        Nothing is done where it can be read after all, once it had its time to settle.
        """
        path = self.folder(record.name) / "member.json"
        with contextlib.suppress(files.Unreadable, FileNotFoundError):
            files.read_json(path, settle=self._settle)
        with files.locked(self._lock):
            try:
                self.get(record.name)
            except (UnknownMember, files.Unreadable):
                self._kept.put(path, record, instead=f"{record.instance} is over")

    def sweep(self, process: str) -> None:
        """Put back the records of this host's members whose files have been unreadable or gone for a while.

        Not that of a life that is over: a process that joined may have begun the next one, which this one has not read.
        A restart tells which life it was, from what the team left.
        """
        self._kept.sweep(lambda record: not record.status.over and (not record.joined or record.process == process))

    def _write(self, record: MemberRecord) -> None:
        self._kept.put(self.folder(record.name) / "member.json", record)

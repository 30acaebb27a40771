"""Who is on the team: one member.json each, and the lives that a name has had."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coterie import files
from coterie.errors import CoterieError, NewerSchema, Refused, Unknown

__all__ = ["HUMAN", "MemberRecord", "Roster", "Status", "Tokens", "UnknownMember", "dollars", "parse_member"]

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
    try:
        record = MemberRecord.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise files.Unreadable(path, f"field {where}: {first['msg']}") from None
    if record.name != name or record.instance.partition("#")[0] != name:
        raise files.Unreadable(path, f"field instance: expected a life of {name}, found {record.instance}")
    return record


class Roster:
    """The members of one team, as their files say. Every change is made under the team's lock.

    report: told of a record that was set aside because it could not be read.
    """

    def __init__(
        self,
        root: Path,
        *,
        on_change: Callable[[], None] = lambda: None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.root = root
        self._lock = root / "lock"
        self._on_change = on_change
        self._report = report
        self._written: dict[str, MemberRecord] = {}  # what this process wrote last, should a file be spoiled

    def folder(self, name: str) -> Path:
        return self.root / "members" / name

    def get(self, name: str) -> MemberRecord:
        """The member as it is now. Takes no lock. Raises `UnknownMember`, `Unreadable`, `NewerSchema`."""
        path = self.folder(name) / "member.json"
        try:
            return parse_member(files.read_json(path), path)
        except FileNotFoundError:
            known = ", ".join(each.name for each in self.all()) or "nobody yet"
            raise UnknownMember(f"no member is called {files.clean(name, 60)!r}. On the team: {known}") from None

    def all(self) -> list[MemberRecord]:
        """Every member that was ever spawned, the lead first, then by name."""
        found = []
        for path in sorted((self.root / "members").glob("*/member.json")):
            try:
                found.append(parse_member(files.read_json(path), path))
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

    def _owed(self, process: str | None) -> bool:
        """Whether a host process is still leaving, or what it left is being put away: its lock goes last."""
        return (self.root / "processes" / f"{process}.lock").exists()

    def update(self, name: str, instance: str, **changes: Any) -> MemberRecord:
        """Change fields of a living member. Refused if `instance` is no longer the latest life of that name."""
        with files.locked(self._lock):
            before = self._take(name)
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

    def _take(self, name: str) -> MemberRecord:
        """The member as it is, under the lock. A spoiled file is set aside for what this process wrote last."""
        try:
            return self.get(name)
        except files.Unreadable as error:
            if name not in self._written:
                raise
            path = self.folder(name) / "member.json"
            self._report(f"{error}: it is in {files.set_aside(path)} now, the last record is restored")
            files.write_json(path, self._written[name].encode())
            return self._written[name]

    def _write(self, record: MemberRecord) -> None:
        files.write_json(self.folder(record.name) / "member.json", record.encode())
        self._written[record.name] = record

"""Everything the rules look at, read once. No lock is taken and no file is moved."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from coterie import files
from coterie.errors import NewerSchema, UsageError
from coterie.lead.audit.fault import Fault
from coterie.lead.opening import open_team
from coterie.mailbox import Request, parse_request
from coterie.taskboard import Task, is_newer, read_one
from coterie.teammates.journal import Record, whole_records
from coterie.teammates.roster import MemberRecord, read_member
from coterie.teammates.team import Team, TeamRecord

__all__ = ["Sight", "Told", "look", "names"]

_TASK = re.compile(r"T[1-9][0-9]{0,8}\.json")
_REQUEST = re.compile(r"R[1-9][0-9]{0,11}\.json")
UPGRADE = "upgrade Coterie to change this team; looking at it goes on to work"

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Told:
    """A journal as it was read: its whole records, torn bytes at its end, and what is wrong before that."""

    records: list[Record]
    torn: int
    fault: str | None


@dataclass
class Sight:
    """A team as it was at one look."""

    root: Path
    record: TeamRecord | None = None
    tasks: dict[str, Task] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    members: dict[str, MemberRecord] = field(default_factory=dict)
    journals: dict[str, Told] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The host processes that live, by id: what each wrote into its lock."""
    running: bool = False
    """Whether the host that runs the team lives, or has just begun to put right what an earlier one left."""
    faults: list[Fault] = field(default_factory=list)
    """What could not be read."""
    rooms: Team | None = None
    """The team as somebody opened it; without, it is opened when a rule asks git."""

    def team(self) -> Team:
        """The rooms of the team, opened at most once: a rule uses their git, which reads anew each time.

        Raises `UsageError` outside of a git repository, `EnvironmentFault` without git.
        """
        if self.rooms is None:
            self.rooms = open_team(self.root)
        return self.rooms

    def place(self, path: Path) -> str:
        """A path as a fault names it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def is_hosted(self, name: str) -> bool:
        """Whether the host of a member lives."""
        record = self.members.get(name)
        return record is not None and record.process in self.hosts

    def lives(self, instance: str) -> bool:
        """Whether the life of an instance goes on, or can be resumed."""
        record = self.members.get(instance.partition("#")[0])
        return record is not None and record.instance == instance and not record.status.over


def names(folder: Path, sight: Sight) -> list[str]:
    """What lies in a folder, in order; what is no folder is a fault."""
    try:
        with os.scandir(folder) as found:
            return sorted(each.name for each in found)
    except FileNotFoundError:
        return []
    except OSError as error:
        said = f"expected a folder, found something that cannot be listed ({error.strerror})"
        cure = "move it aside, put the folder back, then coterie resume"
        sight.faults.append(Fault(rule="unreadable", where=sight.place(folder), found=said, cure=cure))
        return []


def look(root: Path, team: Team | None = None) -> Sight:
    """One look at the team at `root`. team: its rooms, where the caller has them open."""
    sight = Sight(root, rooms=team)
    for name in names(root / "processes", sight):
        path = root / "processes" / name
        if name.endswith(".lock") and name != "lead.lock" and (info := files.living_holder(path)) is not None:
            sight.hosts[name.removesuffix(".lock")] = info
    lead = files.living_holder(root / "processes" / "lead.lock")
    sight.running = lead is not None and lead.get("process") in sight.hosts
    sight.record = _read(sight, root / "team.json", lambda path: TeamRecord.read(path.parent), _MOVE_BACK)
    for name, path in _matching(sight, "tasks", _TASK):
        if (task := _read(sight, path, _task, _SET_ASIDE, repairable=True)) is not None:
            sight.tasks[name] = task
    for name, path in _matching(sight, "requests", _REQUEST):
        if (request := _read(sight, path, _request, _SET_ASIDE, repairable=True)) is not None:
            sight.requests[name] = request
    for name in names(root / "members", sight):
        path = root / "members" / name / "member.json"
        if os.path.lexists(path) and (member := _read(sight, path, read_member, _ENDED, repairable=True)) is not None:
            sight.members[name] = member
        if os.path.lexists(path := path.with_name("journal.jsonl")):
            sight.journals[name] = Told(*whole_records(path))
    return sight


_SET_ASIDE = "a start moves it to bad/ and goes on without it; repair it there and put it back, or do it anew"
_ENDED = (
    "repair it by hand, or put back a copy of it: its fields are in docs/on-disk.md. A start moves it to bad/ and ends "
    "that member's life"
)
_MOVE_BACK = "repair it by hand, or put back a copy of it; its fields are in docs/on-disk.md"


def _matching(sight: Sight, folder: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, Path]]:
    for name in names(sight.root / folder, sight):
        if pattern.fullmatch(name):
            yield name.removesuffix(".json"), sight.root / folder / name


def _task(path: Path) -> Task:
    try:
        task = read_one(path)
    except files.Unreadable:
        if is_newer(files.read_bytes(path), path):
            raise NewerSchema(f"{path.name} was written by a newer Coterie") from None
        raise
    if task.schema_ > 1:
        raise NewerSchema(f"it has schema {task.schema_}, known is 1")
    return task


def _request(path: Path) -> Request:
    return parse_request(files.read_json(path), path)


def _read(
    sight: Sight, path: Path, read: Callable[[Path], Kind], cure: str, *, repairable: bool = False
) -> Kind | None:
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except NewerSchema as error:
        sight.faults.append(Fault(rule="newer-schema", where=sight.place(path), found=str(error), cure=UPGRADE))
    except files.Unreadable as error:
        where = sight.place(path)
        fault = Fault(rule="unreadable", where=where, found=error.reason, cure=cure, repairable=repairable)
        sight.faults.append(fault)
    except UsageError as error:
        sight.faults.append(Fault(rule="unreadable", where=sight.place(path), found=str(error), cure=cure))
    return None

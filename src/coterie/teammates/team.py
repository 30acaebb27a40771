"""A team as a process holds it: the rooms, wired to one another by functions."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from coterie import files
from coterie.errors import NewerSchema, UsageError
from coterie.mailbox import Bell, Mailbox, Requests
from coterie.taskboard import Board
from coterie.teammates.cancel import Cancel
from coterie.teammates.commands import Commands
from coterie.teammates.events import Events
from coterie.teammates.model import Model
from coterie.teammates.permissions import Rules
from coterie.teammates.roster import Roster, Tokens, dollars
from coterie.teammates.settings import TeamSettings
from coterie.worktrees import Keeper, Merger, Repository

__all__ = ["Base", "Ending", "Kept", "Runtime", "Stop", "Team", "TeamRecord"]


class Base(BaseModel):
    """Where the team's work starts from."""

    model_config = ConfigDict(frozen=True)

    branch: str | None = Field(description="full ref name; null where HEAD was detached")
    commit: str


class Ending(BaseModel):
    """How the run ended."""

    model_config = ConfigDict(frozen=True)

    at: str
    exit: int
    summary: str = ""


class Kept(BaseModel):
    """What keeps the commands of the team in."""

    model_config = ConfigDict(frozen=True)

    level: Literal["full", "partial", "none"] = Field(description="full: all that was tried from inside was refused")
    detail: str = Field(description="for people: what holds, or why nothing does")


class TeamRecord(BaseModel):
    """team.json."""

    model_config = ConfigDict(frozen=True, extra="allow")

    schema_: Literal[1] = Field(default=1, alias="schema")
    team: str
    goal: str
    base: Base
    settings: TeamSettings
    worktrees_root: str
    created_at: str
    base_checked: bool = Field(default=False, description="the checks were run on the base: tasks may be claimed")
    sandbox: Kept | None = Field(default=None, description="as the lead's host found it by trying; null: it never ran")
    ended: Ending | None = None

    def encode(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)

    def write(self, root: Path) -> None:
        files.write_json(root / "team.json", self.encode())

    @classmethod
    def read(cls, root: Path) -> TeamRecord:
        """The record of the team at `root`. Raises `UsageError` if there is none, `NewerSchema`, or `Unreadable`."""
        try:
            return read_team(root / "team.json", settle=2.0)
        except FileNotFoundError:
            raise UsageError(f"there is no team {root.name!r} here: `coterie run GOAL` starts one") from None


def read_team(path: Path, *, settle: float = 0.0) -> TeamRecord:
    """The record in a team.json. Raises `FileNotFoundError`, `NewerSchema`, `Unreadable` if it is so for `settle` s."""
    record = files.read_json(path, settle=settle)
    if isinstance(schema := record.get("schema"), int) and schema > 1:
        raise NewerSchema(f"{path} has schema {schema}, known is 1: upgrade Coterie")
    if schema != 1:
        raise files.Unreadable(path, f"field schema: expected 1, found {schema!r}")
    try:
        return TeamRecord.model_validate(record)
    except ValueError as error:
        raise files.Unreadable(path, str(error)) from None


@dataclass(frozen=True)
class Team:
    """The rooms of one team. Everything in it may be used from any thread."""

    root: Path  # <repo>/.coterie/<team>
    name: str
    process: str  # id of this host process
    repository: Repository
    board: Board
    mail: Mailbox
    requests: Requests
    roster: Roster
    keeper: Keeper
    merger: Merger
    bell: Bell
    events: Events
    kept: files.Kept[TeamRecord]  # team.json

    @property
    def record(self) -> TeamRecord:
        """team.json as it is now; while it cannot be read, as this process knew it last."""
        return self.kept.get(self.root / "team.json")

    def change(self, **changes: Any) -> None:
        """Change fields of team.json, under the team's lock."""
        with files.locked(self.root / "lock"):
            self.kept.put(self.root / "team.json", self.record.model_copy(update=changes))

    def sweep(self) -> None:
        """Put right what a person or a disk did to the files of tasks, requests, members and team.json meanwhile.

        For the lead's host, now and then: it waits for nothing but the team's lock. Raises what the board raises.
        """
        self.kept.sweep()
        self.roster.sweep(self.process)
        self.requests.sweep()
        self.board.sweep()


class Stop:
    """The whole team stops in order: no model call, claim, check or merge begins; no life ends."""

    def __init__(self) -> None:
        self.wanted = Cancel()  # tools, checks and waits end
        self.at_once = Cancel()  # model calls end too
        self.exit_code = 0
        self._guard = threading.RLock()  # a signal handler may call while the main thread is just here

    def __call__(self, reason: str, exit_code: int, *, drop_calls: bool = False) -> None:
        """Stop. The first reason counts; a later `drop_calls` still ends the model calls."""
        with self._guard:
            if not self.wanted.is_set():
                self.exit_code = exit_code
        self.wanted.set(reason)
        if drop_calls:
            self.at_once.set(reason)


@dataclass(frozen=True)
class Runtime:
    """A team with what a host process needs to run members."""

    team: Team
    settings: TeamSettings
    model: Model
    commands: Commands
    stop: Stop = field(default_factory=Stop)
    finished: Cancel = field(default_factory=Cancel)  # the goal is reached or given up: every life ends
    claims_open: threading.Event = field(default_factory=threading.Event)  # set once the base has been checked
    hold_claims: Callable[[], str] = lambda: ""  # why nothing may be claimed now all the same; empty: it may
    instructions: str = ""  # AGENTS.md or CLAUDE.md of the repository

    @functools.cached_property
    def rules(self) -> Rules:
        """The permission rules of the settings. Raises `UsageError` for one that is none."""
        return Rules.of(self.settings.allow, self.settings.ask, self.settings.deny)

    def why_no_claims(self) -> str:
        """Why no task may be claimed now; empty if one may."""
        return self.hold_claims() if self.claims_open.is_set() else "waits until the base is checked"

    def spent(self) -> tuple[Tokens, float | None]:
        """Tokens and dollars of all members in all lives; dollars None where a price is not known."""
        tokens: dict[str, int] = dict.fromkeys(Tokens.model_fields, 0)
        usd: float | None = 0.0
        for record in self.team.roster.all():
            for key in tokens:
                tokens[key] += getattr(record.tokens, key)
            usd = dollars(usd, record.usd)
        return Tokens(**tokens), usd

    def over_budget(self) -> str | None:
        """What budget is used up, in words; None while there is room for another call."""
        tokens, usd = self.spent()
        most: Any = self.settings.max_usd
        if most is not None and usd is None:
            return (
                f"the price of a model in use is not known, so the budget of ${most:g} cannot be kept: use max_tokens"
            )
        if most is not None and usd is not None and usd >= most:
            return f"the budget of ${most:g} is used up (${usd:.4f} spent)"
        if self.settings.max_tokens is not None and tokens.total >= self.settings.max_tokens:
            return f"the budget of {self.settings.max_tokens} tokens is used up ({tokens.total} spent)"
        return None

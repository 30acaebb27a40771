"""Where a team is, found by looking at plain files only: cheap, without git, and nothing is changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie import files
from coterie.errors import CoterieError, NewerSchema, UsageError

BANNER = "no sandbox: commands of the team can reach everything that you can"
SCHEMA = 1


@dataclass(frozen=True)
class Checkout:
    """Where somebody stands."""

    here: Path  # the top of the checkout they stand in, maybe a linked worktree
    main: Path  # the top of the main checkout, which .coterie lies in


def checkout(start: Path) -> Checkout:
    """The checkout around `start`. Raises `UsageError` outside of a repository."""
    start = start.resolve()
    for folder in (start, *start.parents):
        entry = folder / ".git"
        if entry.is_dir():
            return Checkout(folder, folder)
        if entry.is_file():
            return Checkout(folder, _main_of(folder, entry))
    raise UsageError(f"{start} is not inside a git repository: go to one, or make one with git init")


def _main_of(folder: Path, entry: Path) -> Path:
    """The main checkout of the linked worktree at `folder`; a submodule is a checkout of its own."""
    try:
        match = re.fullmatch(r"gitdir: (.+)\n?", entry.read_text(encoding="utf-8", errors="surrogateescape"))
        if match is None:
            return folder
        private = folder / match[1]
        common = (private / "commondir").read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return folder
    shared = (private / common).resolve()
    return shared.parent if shared.name == ".git" else folder


def find_team(start: Path, name: str | None, *, running: bool = True) -> Path:
    """The folder of a team: of that name, else the first unfinished one, else the latest.

    running: of several unfinished ones, one that a host runs comes first; False: one that none does, to be resumed.
    Raises `UsageError` saying what there is and what to do.
    """
    home = checkout(start).main / ".coterie"
    known = sorted((path.parent for path in home.glob("*/team.json")), key=lambda each: _order(each.name))
    names = ", ".join(each.name for each in known)
    if name is not None:
        name = team_name(name)
        if any(each.name == name for each in known):
            return home / name
        raise UsageError(f"there is no team {name!r} here: " + (f"teams are {names}" if names else _START))
    if not known:
        raise UsageError(f"there is no team in {home.parent}: {_START}")
    records = [(each, _peek(each)) for each in known]
    unfinished = [each for each, record in records if record.get("ended") is None]
    if len(unfinished) > 1:
        runs = [files.living_holder(each / "processes" / "lead.lock") is not None for each in unfinished]
        unfinished = [
            each for each, runs_now in zip(unfinished, runs, strict=True) if runs_now is running
        ] or unfinished
    if unfinished:
        return unfinished[0]
    return max(records, key=lambda pair: str(pair[1].get("created_at", "")))[0]


_START = "coterie run GOAL starts one"


def team_name(name: str) -> str:
    """`name` itself if it can name a team, else `UsageError`."""
    try:
        return files.check_name(name)
    except CoterieError as error:
        raise UsageError(f"--team: {error}") from None


def _order(name: str) -> tuple[str, int]:
    """main, main-2, main-10, other."""
    head, _, tail = name.rpartition("-")
    return (head, int(tail)) if head and tail.isdecimal() else (name, 0)


def _peek(root: Path) -> dict[str, Any]:
    try:
        return files.read_json(root / "team.json")
    except (CoterieError, FileNotFoundError):
        return {}


def sandbox_of(root: Path) -> str:
    """What keeps the commands of a team in, as its hosts found it: `full`, `partial: …` or `none`.

    The weakest of the hosts that live; where none does, what the lead's host found last. A team that never ran counts
    as none.
    """
    found = [_peek(root).get("sandbox")]
    marks = [files.living_holder(path) for path in sorted((root / "processes").glob("*.lock"))]
    living = [mark["sandbox"] for mark in marks if mark is not None and "sandbox" in mark]
    return min((_level(each) for each in living or found), key=_strength)


def _level(kept: Any) -> str:
    level = kept.get("level") if isinstance(kept, dict) else None
    if level == "partial":
        return f"partial: {files.clean(str(kept.get('detail', '')), 600)}"
    return "full" if level == "full" else "none"


def _strength(level: str) -> int:
    return ("none", "partial", "full").index(level.partition(":")[0])


def banner(sandbox: str) -> tuple[str, str]:
    """What every view says of the sandbox, and its style."""
    match sandbox.partition(": "):
        case ("full", _, _):
            return "sandbox: full", "dim"
        case ("partial", _, what):
            return what, "yellow"
    return BANNER, "yellow"


def team_record(root: Path) -> dict[str, Any]:
    """team.json as it is. Raises `files.Unreadable`; `NewerSchema` where it is of a newer Coterie."""
    try:
        record = files.read_json(root / "team.json", settle=0.5)
    except FileNotFoundError:
        raise UsageError(f"there is no team {root.name!r} here: {_START}") from None
    schema = record.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerSchema(f"{root / 'team.json'} has schema {schema}, known is {SCHEMA}: upgrade Coterie")
    return record

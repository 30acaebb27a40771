"""The sandbox of a team's commands: by its settings, as it was found by trying, refused where it does not hold."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from coterie.errors import EnvironmentFault
from coterie.teammates.sandbox import Level, Limits, Rules, Sandbox
from coterie.teammates.sandbox.gitview import GitViews
from coterie.teammates.sandbox.probe import Found, find
from coterie.teammates.sandbox.toolchains import bare, check_roots, veiled
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Kept, Team
from coterie.worktrees import Repository, checkouts, state_folder

__all__ = ["expect_boundary", "find_boundary", "kept", "sandbox_of", "say_boundary"]


def find_boundary(settings: TeamSettings, repository: Repository) -> Found:
    """What this machine has for commands under these settings. Raises `UsageError` for a root that may not be shown.

    Never full where home or the repository lies in a system's folder and cannot be covered there.
    """
    rules = _rules(settings, repository)
    found = find(rules)
    seen = bare(rules.hidden) if found.bwrap else [*bare(rules.hidden), *veiled(rules.hidden)]
    if not seen or found.level is Level.NONE:
        return found
    said = f"{seen[0]} lies among the system's programs, which commands see whole: move it"
    detail = f"the sandbox holds in part only: {said}" if found.level is Level.FULL else f"{found.detail}; {said}"
    return dataclasses.replace(found, level=Level.PARTIAL, detail=detail)


def expect_boundary(found: Found, *, unsafe: bool) -> None:
    """Raise `EnvironmentFault` below full, with cause and cure, unless a person took that upon themselves."""
    if found.level is not Level.FULL and not unsafe:
        raise EnvironmentFault(f"{found.detail}. To run all the same: --unsafe-no-sandbox")


def sandbox_of(found: Found, team: Team, settings: TeamSettings) -> Sandbox:
    """The sandbox for the worktrees of a team."""
    keeper = team.keeper
    return found.sandbox(
        _rules(settings, team.repository, worktrees=keeper.root),
        GitViews(keeper.git, lambda path: keeper.where(path.name) if keeper.path(path.name) == path else None),
    )


def say_boundary(team: Team, sandbox: Sandbox, **fields: Any) -> None:
    """Say once for every host what keeps its commands in."""
    team.events.say("run" if sandbox.level is Level.FULL else "warning", sandbox.detail, **fields)


def kept(found: Found) -> Kept:
    """What is written down of it, for views."""
    return Kept(level=found.level.value, detail=found.detail)


def _rules(settings: TeamSettings, repository: Repository, *, worktrees: Path | None = None) -> Rules:
    home = Path.home()
    places = [home, repository.root, repository.common_dir, *(() if worktrees is None else (worktrees,))]
    system = [Path(each) for each in ("/dev", "/proc", "/run", "/sys", "/tmp", "/etc")]
    hidden = tuple(dict.fromkeys(each.resolve() for each in (*places, *system)))
    # the person's other checkouts too, and the worktrees of other members, teams and repositories
    closed = [repository.common_dir, *(each.path for each in checkouts(repository)), state_folder()]
    closed += [Path(os.devnull).parent, *(() if worktrees is None else (worktrees.parent,))]
    return Rules(
        network=settings.network,
        unix_sockets=settings.unix_sockets,
        read_only=tuple(check_roots(settings.sandbox_read_only, hidden=hidden)),
        limits=Limits(
            file_mb=settings.max_file_mb,
            memory_mb=settings.max_memory_mb,
            processes=settings.max_processes,
            files=settings.max_open_files,
        ),
        hidden=hidden,
        closed=tuple(dict.fromkeys(each.resolve() for each in closed)),
        home=home,
    )

"""`coterie land`: the tested work comes to the person's branch. Computed, then said, and only onto a clean checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from coterie import lead, worktrees
from coterie.console import places
from coterie.console.options import interactive
from coterie.console.paint import Paper, block, one_line
from coterie.errors import Refused
from coterie.teammates.commands import Commands
from coterie.teammates.sandbox import NoSandbox
from coterie.worktrees import LandingKind

if TYPE_CHECKING:
    from coterie.teammates.team import Team


def land(name: str | None, *, yes: bool) -> int:
    """Say what would be done, ask in a terminal, do it. `Refused` for conflicts, red checks, a checkout with changes.

    The branch that the team started from gets the work, in the checkout that is on it; where the team started from no
    branch, it is the one that is checked out here. A merge commit is made where that branch has moved, and the team's
    checks are run on it first.
    """
    team: Team = lead.open_team(places.find_team(Path.cwd(), name))
    repository = worktrees.find_repository(Path.cwd())
    landing = worktrees.plan_land(repository, team.name, target=team.record.base.branch)
    paper = Paper()
    target = landing.target.removeprefix("refs/heads/")
    match landing.kind:
        case LandingKind.UP_TO_DATE:
            paper.prose(f"{target} has all the work of the team {team.name} already")
            return 0
        case LandingKind.CONFLICT:
            names = "\n".join(landing.files)
            paper.say(f"conflicts with {target} in:\n{block(names)}")
            raise Refused(f"the work conflicts with {target} in {len(landing.files)} files: nothing was changed")
        case LandingKind.FAST_FORWARD:
            what = f"{target} goes forward from {landing.old[:12]} to {(landing.new or '')[:12]}"
        case LandingKind.MERGE:
            checks = team.record.settings.checks
            after = f" after {len(checks)} checks on it" if checks else ""
            what = f"{target} has moved: it gets the merge commit {(landing.new or '')[:12]}{after}"
    paper.prose(what)
    if interactive() and not yes:
        sys.stdout.write("go on? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            paper.say("nothing was changed")
            return 1
    worktrees.land(repository, landing, check=lambda commit: _red(team, commit))
    paper.say(f"landed on {target}")
    team.events.say("run", f"landed on {target} as {landing.new}", member="human", outside=True)
    return 0


def _red(team: Team, commit: str) -> str | None:
    """What of the team's checks is red on `commit`; None if all is green. In a worktree of its own."""
    settings = team.record.settings
    if not settings.checks:
        return None
    path = team.keeper.reader("land", commit)
    ceiling = [Path(team.record.worktrees_root)]
    with Commands(team.root / "output", sandbox=NoSandbox(), ceiling=ceiling) as commands:
        for command in settings.checks:
            done = commands.run(
                command, cwd=path, timeout_s=settings.check_timeout, owner="land", env=settings.environment
            )
            if done.exit_code != 0:
                return f"{command} (exit code {done.exit_code}): {one_line(done.text[-1500:])}"
    return None

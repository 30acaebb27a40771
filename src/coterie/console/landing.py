"""`coterie land`: the tested work comes to the person's branch. Computed, then said, and only onto a clean checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from coterie import lead, worktrees
from coterie.console import places, shapes
from coterie.console.options import interactive
from coterie.console.paint import Paper, one_line, print_json
from coterie.console.steer import open_team
from coterie.errors import Refused, UsageError
from coterie.files import counted
from coterie.teammates.commands import Commands
from coterie.worktrees import Landing, LandingKind

if TYPE_CHECKING:
    from coterie.teammates.team import Team


def land(name: str | None, as_json: bool, *, yes: bool) -> int:
    """Say what would be done, ask in a terminal, do it. `Refused` for conflicts, red checks, a checkout with changes.

    The branch that the team started from gets the work, in the checkout that is on it; where the team started from no
    branch, it is the one that is checked out here. A merge commit is made where that branch has moved, and the team's
    checks are run on it first. Without a terminal, or where one object is to be printed, nobody is asked: what would
    be done is said, and `UsageError` raised unless `yes`.
    """
    team = open_team(name)
    repository = worktrees.find_repository(Path.cwd())
    landing = worktrees.plan_land(repository, team.name, target=team.record.base.branch)
    view = _view(team, landing)
    paper = Paper()
    if not as_json:
        _print(paper, view)
    if landing.kind is LandingKind.UP_TO_DATE:
        return _say(view, as_json)
    if landing.kind is LandingKind.CONFLICT:
        _say(view, as_json)
        what = counted(len(landing.files), "file")
        raise Refused(f"the work conflicts with {view.target} in {what}: nothing was changed")
    if not yes and (as_json or not interactive()):
        _say(view, as_json)
        raise UsageError("nothing was changed: nobody can be asked here, so give --yes to land it")
    if not yes and not _agreed():
        paper.say("nothing was changed")
        return 1
    worktrees.land(repository, landing, check=lambda commit: _red(team, commit))
    short = (landing.new or "")[:12]
    if not as_json:
        paper.prose(f"landed: {view.target} is at {short}")
    team.events.say("run", f"landed on {view.target} as {short}", member="human", commit=landing.new, outside=True)
    return _say(view.model_copy(update={"landed": True}), as_json)


def _view(team: Team, landing: Landing) -> shapes.LandView:
    return shapes.LandView(
        team=team.name,
        sandbox=places.sandbox_of(team.root),
        kind=landing.kind.value,
        target=landing.target.removeprefix("refs/heads/"),
        old=landing.old,
        new=landing.new,
        commits=[shapes.Commit(commit=commit, subject=subject) for commit, subject in landing.commits],
        files=list(landing.files or landing.changed),
        checks=list(team.record.settings.checks) if landing.kind is LandingKind.MERGE else [],
        landed=False,
    )


def _say(view: shapes.LandView, as_json: bool) -> int:
    if as_json:
        print_json(view.model_dump(mode="json"), indent=1)
    return 0


def _print(paper: Paper, view: shapes.LandView) -> None:
    old, new = view.old[:12], (view.new or "")[:12]
    match view.kind:
        case "up-to-date":
            paper.prose(f"{view.target} has all the work of the team {view.team} already")
            return
        case "conflict":
            paper.prose(f"conflicts with {view.target} in:")
            for each in view.files:
                paper.say(f"  {one_line(each)}")
            return
        case "fast-forward":
            paper.prose(f"{view.target} goes forward from {old} to {new}:")
        case "merge":
            after = f", after {counted(len(view.checks), 'check')} on it" if view.checks else ""
            paper.prose(f"{view.target} has moved since: it goes from {old} to the merge commit {new}{after}:")
    for commit in view.commits:
        paper.prose(f"{commit.commit[:12]} {one_line(commit.subject)}", first="  ", rest="    ")
    what = f"{counted(len(view.commits), 'commit')}, {counted(len(view.files), 'file')} changed"
    paper.prose(f"{what} (coterie diff shows them)")


def _agreed() -> bool:
    sys.stdout.write("land it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _red(team: Team, commit: str) -> str | None:
    """What of the team's checks is red on `commit`; None if all is green. In a worktree of its own."""
    settings = team.record.settings
    if not settings.checks:
        return None
    boundary = lead.find_boundary(settings, team.repository)
    said = team.record.sandbox
    lead.expect_boundary(boundary, unsafe=said is not None and said.level != "full")  # as weak as it was allowed to be
    path = team.keeper.reader("land", commit)
    ceiling = [Path(team.record.worktrees_root)]
    sandbox = lead.sandbox_of(boundary, team, settings)
    with Commands(team.root / "output", sandbox=sandbox, ceiling=ceiling) as commands:
        for command in settings.checks:
            done = commands.run(
                command, cwd=path, timeout_s=settings.check_timeout, owner="land", check=True, env=settings.environment
            )
            if done.exit_code != 0:
                return f"{command} (exit code {done.exit_code}): {one_line(done.text[-1500:])}"
    return None

"""`coterie diff`: what was changed, wherever the change lies now. Only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from coterie import lead, worktrees
from coterie.console import places, shapes
from coterie.console.reading import Reading
from coterie.errors import Refused
from coterie.taskboard import Status, Task

if TYPE_CHECKING:
    from coterie.teammates.team import Team

What = Literal["merged", "handed in", "in hand", "kept", "nothing"]


def diff(reading: Reading, identifier: str | None) -> shapes.DiffView:
    """The change of a task, or all that was merged since the base. Raises `UsageError` for an unknown task."""
    task = reading.task(identifier) if identifier is not None else None
    team: Team = lead.open_team(reading.root)
    if task is None:
        text = team.merger.diff(team.record.base.commit)
        what: What = "merged" if text else "nothing"
        note = "" if text else f"nothing is merged into {team.keeper.integration.removeprefix('refs/heads/')} yet"
    else:
        what, note, text = _of_task(reading, team, task)
    return shapes.DiffView(
        team=reading.name,
        sandbox=places.sandbox_of(reading.root),
        task=task.id if task is not None else None,
        what=what,
        note=note,
        diff=text,
    )


def _of_task(reading: Reading, team: Team, task: Task) -> tuple[What, str, str]:
    merged = task.result.merged_commit if task.result is not None else None
    if merged is not None:
        return (
            "merged",
            "",
            team.merger.git.run(
                "diff", "--no-ext-diff", "--no-textconv", "--end-of-options", f"{merged}^1", merged, "--"
            ),
        )
    if task.status is Status.COMPLETED:
        return "nothing", f"{task.id} was completed without a change", ""
    if task.status is Status.IN_PROGRESS:
        return _in_hand(reading, team, task)
    text = _of_branch(team, task)
    if task.status is Status.SUBMITTED:
        said = f"{task.id} is handed in and not merged yet"
        return "handed in", said if text else f"{said}: it changes nothing", text
    if text:
        return "kept", f"{task.id} is {task.status}: this is what the branch of epoch {task.epoch} has", text
    return "nothing", f"there is no work on {task.id}: it is {reading.state(task)}", ""


def _of_branch(team: Team, task: Task) -> str:
    """What the branch of the task's latest assignment has; nothing where there is none."""
    try:
        return team.merger.diff(team.keeper.tip(), task=task.id, epoch=task.epoch)
    except Refused:
        return ""


def _in_hand(reading: Reading, team: Team, task: Task) -> tuple[What, str, str]:
    """What lies in the owner's worktree, committed or not, against what it began from."""
    owner = task.claim.owner if task.claim is not None else "nobody"
    place = task.assignment
    where = team.keeper.where(owner) if place is not None else None
    if place is None or where is None or str(where.path) != place.worktree:
        return "nothing", f"there is no work on {task.id}: {owner} has claimed it and has no worktree for it yet", ""
    text = worktrees.work_in_hand(team.merger.git, where, branch=place.branch, base=place.base)
    if text is None:
        return "nothing", f"the worktree of {owner} is not on the branch {place.branch} now: look again", ""
    if not text:
        return "nothing", f"there is no work on {task.id} yet: {owner} has changed nothing in {place.worktree}", ""
    return "in hand", f"work in hand of {owner} on {task.id} (epoch {task.epoch}): not submitted", text

"""Bringing the integration branch to the user's branch: computed first, said, and only onto a clean checkout."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from coterie.errors import Refused
from coterie.worktrees.git import Git, Repository, Where
from coterie.worktrees.joining import merge_tree
from coterie.worktrees.places import integration_ref

__all__ = ["Landing", "LandingKind", "land", "plan_land"]


class LandingKind(StrEnum):
    """How the integration branch comes to the target."""

    UP_TO_DATE = "up-to-date"  # the target has all of it
    FAST_FORWARD = "fast-forward"  # the target has not moved
    MERGE = "merge"  # the target moved: a merge commit, checked
    CONFLICT = "conflict"


class Landing(BaseModel):
    """What landing would do."""

    model_config = ConfigDict(frozen=True)

    kind: LandingKind
    target: str  # full ref name of the branch that is checked out
    old: str
    new: str | None  # the commit that the target becomes; None for a conflict
    files: tuple[str, ...] = ()  # in conflict


def plan_land(repository: Repository, team: str) -> Landing:
    """What `land` would do. Changes nothing but adds, for a merge, a commit that nothing points to."""
    git = Git(repository.common_dir)
    if repository.branch is None:
        raise Refused("HEAD is detached: switch to the branch that shall get the work")
    tip = git.resolve(integration_ref(team))
    old = git.resolve(repository.branch)
    if tip is None or old is None:
        raise Refused(f"there is no {integration_ref(team)}: nothing to land")
    if repository.branch == integration_ref(team) or git.is_ancestor(tip, old):
        return Landing(kind=LandingKind.UP_TO_DATE, target=repository.branch, old=old, new=old)
    if git.is_ancestor(old, tip):
        return Landing(kind=LandingKind.FAST_FORWARD, target=repository.branch, old=old, new=tip)
    tree, names, _ = merge_tree(git, old, tip)
    if names:
        return Landing(kind=LandingKind.CONFLICT, target=repository.branch, old=old, new=None, files=names)
    message = f"Merge the work of the team {team}"
    new = git.run("commit-tree", tree, "-p", old, "-p", tip, "-m", message)
    return Landing(kind=LandingKind.MERGE, target=repository.branch, old=old, new=new)


def land(repository: Repository, landing: Landing, *, check: Callable[[str], str | None] = lambda commit: None) -> None:
    """Do what was planned. Refused on a checkout with changes, a branch that moved meanwhile, or red checks.

    check: run on a merge commit before anything moves; answers what is red, or None.
    """
    git = Git(repository.common_dir)
    if landing.new is None:
        raise Refused(f"conflicts in {', '.join(landing.files)}: nothing was changed")
    if landing.kind is LandingKind.UP_TO_DATE:
        return
    where = Where(metadata=repository.common_dir, path=repository.root)
    dirty = git.run("status", "--porcelain", "--untracked-files=normal", where=where)
    if dirty:
        names = ", ".join(line[3:] for line in dirty.split("\n")[:10])
        raise Refused(f"the checkout has changes ({names}): commit or stash them first. Nothing was changed")
    if landing.kind is LandingKind.MERGE and (red := check(landing.new)) is not None:
        raise Refused(f"the checks are red on the merge with {landing.target}: {red}")
    if git.resolve(landing.target) != landing.old:
        raise Refused(f"{landing.target} moved meanwhile: try again")
    # two-way: files of the checkout are updated first, refused by git where one would be overwritten
    git.run("read-tree", "-m", "-u", landing.old, landing.new, where=where, timeout=600)
    git.run("update-ref", "-m", "coterie land", landing.target, landing.new, landing.old, where=where)

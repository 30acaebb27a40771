"""Bringing the integration branch to the person's branch: computed first, said, and only onto a clean checkout.

That branch is the one the team started from, wherever one stands; the checkout is the one that is on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie.errors import Refused
from coterie.worktrees.git import END, ZERO, Git, GitError, Where
from coterie.worktrees.joining import merge_tree
from coterie.worktrees.places import integration_ref
from coterie.worktrees.registry import holders
from coterie.worktrees.repository import Repository
from coterie.worktrees.trees import NO_SUBMODULES

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
    mark: str  # the ref that says which landing was begun
    target: str  # full ref name of the branch that gets the work
    old: str
    new: str | None  # the commit that the target becomes; None for a conflict
    files: tuple[str, ...] = ()  # in conflict
    commits: tuple[tuple[str, str], ...] = ()  # what comes, the oldest first: commit, subject; one for each merge
    changed: tuple[str, ...] = ()  # the files of the target that will differ


def plan_land(repository: Repository, team: str, *, target: str | None = None) -> Landing:
    """What `land` would do. Changes nothing but adds, for a merge, a commit that nothing points to.

    target: the branch that gets the work, full ref name; without one it is that of the checkout where one stands.
    Raises `Refused` where there is none, and unless exactly one checkout is on it.
    """
    git = Git(repository.common_dir)
    target = target or repository.branch
    mark = f"refs/coterie/{team}/landing"
    if target is None:
        raise Refused("HEAD is detached: switch to the branch that shall get the work")
    tip = git.resolve(integration_ref(team))
    if tip is None:
        raise Refused(f"there is no {integration_ref(team)}: nothing to land")
    old = git.resolve(target)
    if old is None:
        raise Refused(f"the branch {_short(target)} that gets the work is gone: make it again, then land")
    if target == integration_ref(team) or git.is_ancestor(tip, old):
        return Landing(mark=mark, kind=LandingKind.UP_TO_DATE, target=target, old=old, new=old)
    _checkout(repository, target)
    if git.is_ancestor(old, tip):
        return _said(git, Landing(mark=mark, kind=LandingKind.FAST_FORWARD, target=target, old=old, new=tip), tip)
    tree, names, _ = merge_tree(git, old, tip)
    if names:
        return Landing(mark=mark, kind=LandingKind.CONFLICT, target=target, old=old, new=None, files=names)
    new = git.commit_tree(tree, [old, tip], f"Merge the work of the team {team}\n")
    return _said(git, Landing(mark=mark, kind=LandingKind.MERGE, target=target, old=old, new=new), tip)


def _checkout(repository: Repository, target: str) -> Where:
    """The one checkout that is on the branch that gets the work."""
    found = holders(repository, target)
    if not found:
        raise Refused(
            f"{_short(target)} is checked out nowhere: switch a checkout to it, then land. Nothing was changed"
        )
    if len(found) > 1:
        places = ", ".join(str(each.path) for each in found)
        raise Refused(
            f"{_short(target)} is checked out more than once ({places}): leave it in one. Nothing was changed"
        )
    return found[0]


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _said(git: Git, landing: Landing, tip: str) -> Landing:
    """With the commits and files that come."""
    assert landing.new is not None
    line = git.run("log", "--first-parent", "--reverse", "-z", "--format=%H%n%s", END, f"{landing.old}..{tip}", "--")
    pairs = (each.partition("\n") for each in line.split("\0") if each)
    names = git.run("diff-tree", "-r", "--no-renames", "--name-only", "-z", END, landing.old, landing.new)
    return landing.model_copy(
        update={
            "commits": tuple((commit, subject) for commit, _, subject in pairs),
            "changed": tuple(each for each in names.split("\0") if each),
        }
    )


def land(
    repository: Repository,
    landing: Landing,
    *,
    check: Callable[[str], str | None] = lambda commit: None,
    patience: float = 10.0,
) -> None:
    """Do what was planned. Refused on a checkout with changes, a branch that moved meanwhile, or red checks.

    check: run on a merge commit before anything moves; answers what is red, or None.
    patience: seconds to wait for another git of the person's.
    """
    git = Git(repository.common_dir)
    if landing.new is None:
        raise Refused(f"conflicts in {', '.join(landing.files)}: nothing was changed")
    if landing.kind is LandingKind.UP_TO_DATE:
        return
    where = _checkout(repository, landing.target)
    if _half_landed(git, where, landing):
        _move(git, where, landing)
        return
    if _half_written(git, where, landing):
        _wait_for(where.metadata / "index.lock", patience)
        git.run("read-tree", "--reset", "-u", END, landing.new, where=where, timeout=600)
        _move(git, where, landing)
        return
    _refuse_changes(git, where)
    if landing.kind is LandingKind.MERGE:
        if (red := check(landing.new)) is not None:
            raise Refused(f"the checks are red on the merge with {landing.target}: {red}")
        _refuse_changes(git, where)  # checks take minutes
    _refuse_moved(git, where, landing)
    if taken := _in_the_way(git, where, landing.old, landing.new):
        raise Refused(f"ignored files of yours would be overwritten ({taken}): move them away. Nothing was changed")
    _wait_for(where.metadata / "index.lock", patience)
    tree = git.run("rev-parse", "--verify", END, f"{landing.new}^{{tree}}")
    begun = git.commit_tree(tree, [landing.old], "landing")
    git.update_ref(landing.mark, begun, git.resolve(landing.mark) or ZERO)
    # two-way: files of the checkout are updated first, refused by git where one would be overwritten
    git.run("read-tree", "-m", "-u", END, landing.old, landing.new, where=where, timeout=600)
    try:
        _move(git, where, landing)
    except GitError as error:
        git.run("read-tree", "-m", "-u", END, landing.new, landing.old, where=where, timeout=600)
        raise Refused(f"{landing.target} moved meanwhile: try again. Nothing was changed ({error})") from None


def _move(git: Git, where: Where, landing: Landing) -> None:
    assert landing.new is not None
    git.run("update-ref", "-m", "coterie land", END, landing.target, landing.new, landing.old, where=where)


def _refuse_changes(git: Git, where: Where) -> None:
    if dirty := _changes(git, where):
        names = ", ".join(line[3:] for line in dirty[:10])
        raise Refused(
            f"the checkout {where.path} has changes ({names}): commit or stash them first. Nothing was changed"
        )


def _refuse_moved(git: Git, where: Where, landing: Landing) -> None:
    if git.call("symbolic-ref", "--quiet", "HEAD", where=where, ok=(0, 1))[1] != landing.target:
        raise Refused(f"{landing.target} is not checked out any more: try again. Nothing was changed")
    if git.resolve(landing.target) != landing.old:
        raise Refused(f"{landing.target} moved meanwhile: try again. Nothing was changed")


def _half_landed(git: Git, where: Where, landing: Landing) -> bool:
    """Whether a landing was killed after the files and before the branch: all that is left is to move that."""
    assert landing.new is not None
    ok = (0, 1)
    if git.call("diff-index", "--cached", "--quiet", END, landing.new, "--", where=where, ok=ok)[0] != 0:
        return False
    if git.call("diff-index", "--cached", "--quiet", END, landing.old, "--", where=where, ok=ok)[0] == 0:
        return False  # a commit that changes no file
    _refuse_moved(git, where, landing)
    return all(line[1] == " " for line in _changes(git, where))


def _half_written(git: Git, where: Where, landing: Landing) -> bool:
    """Whether a landing was killed while it wrote the files: the checkout was clean then, and all that differs in it
    now is what that landing writes, whole or cut off."""
    assert landing.new is not None
    tree = git.run("rev-parse", "--verify", END, f"{landing.new}^{{tree}}")
    if git.call("log", "-1", "--format=%T %P", END, landing.mark, "--", ok=(0, 128))[1] != f"{tree} {landing.old}":
        return False
    _refuse_moved(git, where, landing)
    flags = ("--porcelain", "-z", "--no-renames", "--untracked-files=all", NO_SUBMODULES)
    lines = git.run("status", *flags, "--", ".", ":(exclude).coterie", where=where).split("\0")
    names = [line[3:] for line in lines if line]
    return bool(names) and all(_is_written(git, where, landing.new, name) for name in names)


def _is_written(git: Git, where: Where, commit: str, name: str) -> bool:
    """Whether a file is as the commit has it, as far as it goes."""
    path = where.path / name
    code, text = git.call("cat-file", "--filters", END, f"{commit}:{name}", where=where, ok=(0, 128))
    if code != 0 or not os.path.lexists(path):
        return not os.path.lexists(path)  # removed, whether that came first or was all
    found = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    return os.fsencode(text).startswith(found.removesuffix(b"\n"))


def _changes(git: Git, where: Where) -> list[str]:
    """Lines of `git status`; `.coterie` does not count, whatever the repository's ignore rules say of it."""
    flags = ("--porcelain", "-z", "--no-renames", "--untracked-files=normal", NO_SUBMODULES)
    said = git.run("status", *flags, "--", ".", ":(exclude).coterie", where=where)
    return [line for line in said.split("\0") if line]


def _wait_for(lock: Path, patience: float) -> None:
    """Wait until another git of the person's is done. Raises `Refused` naming its lock after `patience` seconds."""
    end = time.monotonic() + patience
    while os.path.lexists(lock):
        if time.monotonic() > end:
            raise Refused(f"another git holds {lock}: end it, or remove that file if none runs. Nothing was changed")
        time.sleep(0.05)


def _in_the_way(git: Git, where: Where, old: str, new: str) -> str:
    """Untracked files of the checkout where the landing would write: git takes ignored ones for worthless."""
    added = git.run("diff-tree", "-r", "--no-renames", "--diff-filter=A", "--name-only", "-z", END, old, new)
    tracked = set(git.run("ls-tree", "-r", "--name-only", "-z", END, old).split("\0"))
    found: set[str] = set()
    for name in filter(None, added.split("\0")):
        there = [part for part in (Path(name), *Path(name).parents[:-1]) if os.path.lexists(where.path / part)]
        for part in there:
            path = where.path / part
            if path.is_symlink() or not path.is_dir():
                found.add(str(part))
            elif part == Path(name):
                found |= {str(each.relative_to(where.path)) for each in path.rglob("*") if not each.is_dir()}
    return ", ".join(sorted(found - tracked)[:10])

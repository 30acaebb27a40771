"""What a run adds to a repository: the ignored folder, refs of its own, and a place for worktrees outside."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from coterie import files
from coterie.errors import EnvironmentFault, UsageError
from coterie.worktrees.git import END, Git
from coterie.worktrees.registry import checkouts, holders
from coterie.worktrees.repository import Repository, init_empty
from coterie.worktrees.trees import NO_SUBMODULES

__all__ = [
    "branch_of",
    "integration_ref",
    "prepare",
    "refuse_foreign_state",
    "state_folder",
    "state_root",
    "uncommitted",
]

EXCLUDED = "/.coterie/"


def integration_ref(team: str) -> str:
    """The branch where tested work gathers, as a full ref name."""
    return f"refs/heads/coterie/{team}/integration"


def branch_of(team: str, task: str, epoch: int) -> str:
    """The branch of an assignment, short."""
    return f"coterie/{team}/{task}/e{epoch}"


def uncommitted(repository: Repository, branch: str | None) -> list[str]:
    """The files that differ from HEAD in the person's checkout, untracked ones too: no part of a run. Changes nothing.

    branch: of the checkout that is looked at, a full ref name; without one, or where none has it, it is that around
    where one stands.
    """
    where = next(iter(holders(repository, branch) if branch is not None else ()), repository.here)
    said = Git(repository.common_dir).run(
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        NO_SUBMODULES,
        where=where,
        timeout=600,
    )
    return [each[3:] for each in said.split("\0") if each]


def state_folder() -> Path:
    """The user's folder for the worktrees of all repositories. Creates nothing."""
    state = Path(os.environ.get("XDG_STATE_HOME") or "")
    if not state.is_absolute():  # the XDG specification: such a value is to be ignored
        state = Path.home() / ".local" / "state"
    return state / "coterie"


def state_root(repository: Repository, override: Path | None = None) -> Path:
    """The folder for all worktrees of a repository: one of its own in the user's state folder, or in `override`.

    Creates nothing. Raises `UsageError` where it would lie in a checkout, `EnvironmentFault` naming the folder where
    nothing can be written.
    """
    if override is not None:
        place, said = override.expanduser().resolve(), "worktrees_root"
    else:
        place, said = state_folder(), "the state folder"
    resolved = place.resolve()
    around = next((each.path for each in checkouts(repository) if resolved.is_relative_to(each.path.resolve())), None)
    if around is not None:
        raise UsageError(
            f"{said} {place} lies in the checkout {around}, test runners would find the wrong files: "
            "set worktrees_root to a folder outside"
        )
    there = next(each for each in (place, *place.parents) if os.path.lexists(each))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise EnvironmentFault(f"{there} is no folder that can be written: worktrees are kept in {place}")
    # of its own: two repositories may have the same worktrees_root, and the same names in it
    mark = hashlib.sha256(os.fsencode(repository.common_dir)).hexdigest()[:10]
    return place / f"{repository.root.name}-{mark}"


def refuse_foreign_state(repository: Repository) -> None:
    """Raise `UsageError` where `.coterie` is none that a run made here: a link, a file, or what a commit brought.

    A cloned repository must not bring a board, decisions or settings of somebody's choice.
    """
    home = repository.root / ".coterie"
    if home.is_symlink() or (home.exists() and not home.is_dir()):
        raise UsageError(f"{home} is a link or a file: a run keeps its state in a folder there, move it away")
    if Git(repository.common_dir).run("ls-tree", END, repository.head, "--", ".coterie"):
        raise UsageError(f"{home} is part of the repository's commits: take it out first (git rm -r --cached .coterie)")


def prepare(repository: Repository, team: str) -> None:
    """Refuse what stands in the way, then exclude `.coterie` and lay the decoy that `git clean` passes over.

    Raises `UsageError` naming a branch that has one of our names. Safe to run again.
    """
    git = Git(repository.common_dir)
    for ref in ("refs/heads/coterie", f"refs/heads/coterie/{team}"):
        if git.resolve(ref) is not None:
            name = ref.removeprefix("refs/heads/")
            raise UsageError(f"the branch {name!r} exists, so no branch can be below it: rename it (git branch -m)")
    taken = git.run("for-each-ref", "--count=1", "--format=%(refname)", END, f"refs/heads/coterie/{team}/")
    if taken:
        raise UsageError(f"the branch {taken.removeprefix('refs/heads/')!r} exists already: take another --team name")
    refuse_foreign_state(repository)
    exclude = (repository.common_dir / "info" / "exclude").resolve()
    lines = exclude.read_text(encoding="utf-8", errors="surrogateescape").split("\n") if exclude.exists() else []
    if EXCLUDED not in lines:
        files.make_folder(exclude.parent)
        text = "\n".join(lines)
        text += "" if not text or text.endswith("\n") else "\n"
        files.write_bytes(exclude, (text + EXCLUDED + "\n").encode("utf-8", "surrogateescape"))
    home = files.make_folder(repository.root / ".coterie")
    if not all((home / ".git" / each).exists() for each in ("HEAD", "config", "objects", "refs")):
        init_empty(home)

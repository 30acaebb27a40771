"""What a run adds to a repository: the ignored folder, refs of its own, and a place for worktrees outside."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from coterie import files
from coterie.errors import UsageError
from coterie.worktrees.git import Git, Repository, init_empty

__all__ = ["branch_of", "integration_ref", "prepare", "state_root"]

EXCLUDED = "/.coterie/"


def integration_ref(team: str) -> str:
    """The branch where tested work gathers, as a full ref name."""
    return f"refs/heads/coterie/{team}/integration"


def branch_of(team: str, task: str, epoch: int) -> str:
    """The branch of an assignment, short."""
    return f"coterie/{team}/{task}/e{epoch}"


def state_root(repository: Repository, override: Path | None = None) -> Path:
    """The folder for all worktrees of a repository: in the user's state folder, or in `override`."""
    if override is not None:
        chosen = override.expanduser().resolve()
        if chosen == repository.root or chosen.is_relative_to(repository.root):
            raise UsageError(f"worktrees_root {chosen} lies in the checkout: test runners would find the wrong files")
        return chosen
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    mark = hashlib.sha256(os.fsencode(repository.common_dir)).hexdigest()[:10]
    return Path(state) / "coterie" / f"{repository.root.name}-{mark}"


def prepare(repository: Repository, team: str) -> None:
    """Refuse what stands in the way, then exclude `.coterie` and lay the decoy that `git clean` passes over.

    Raises `UsageError` naming a branch that has one of our names. Safe to run again.
    """
    git = Git(repository.common_dir)
    for ref in ("refs/heads/coterie", f"refs/heads/coterie/{team}"):
        if git.resolve(ref) is not None:
            name = ref.removeprefix("refs/heads/")
            raise UsageError(f"the branch {name!r} exists, so no branch can be below it: rename it (git branch -m)")
    taken = git.run("for-each-ref", "--count=1", "--format=%(refname)", f"refs/heads/coterie/{team}/")
    if taken:
        raise UsageError(f"the branch {taken.removeprefix('refs/heads/')!r} exists already: take another --team name")
    exclude = repository.common_dir / "info" / "exclude"
    lines = exclude.read_text(encoding="utf-8", errors="surrogateescape").split("\n") if exclude.exists() else []
    if EXCLUDED not in lines:
        files.make_folder(exclude.parent)
        text = "\n".join(lines)
        text += "" if not text or text.endswith("\n") else "\n"
        files.write_bytes(exclude, (text + EXCLUDED + "\n").encode("utf-8", "surrogateescape"))
    home = files.make_folder(repository.root / ".coterie")
    if not (home / ".git").exists():
        init_empty(home)

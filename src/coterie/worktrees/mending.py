"""Putting right what somebody wrote into a worktree's metadata, so that its files can still be kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from coterie import files
from coterie.worktrees.git import Git, Where, leads_to
from coterie.worktrees.locks import drop_locks
from coterie.worktrees.registry import reads

__all__ = ["lead_back", "mend", "mend_index"]


def lead_back(git: Git, where: Where, report: Callable[[str], None]) -> None:
    """Undo what leads a worktree to another repository."""
    if not leads_to(where.metadata, git.common_dir):
        files.write_bytes(where.metadata / "commondir", b"../..\n")
        report(f"{where.metadata}/commondir had been changed: it leads to the repository again")
    if reads(where.path / ".git") != f"gitdir: {where.metadata}":
        files.write_bytes(where.path / ".git", os.fsencode(f"gitdir: {where.metadata}\n"))
        report(f"{where.path}/.git had been changed: it leads to the repository again")


def mend(git: Git, where: Where, *, otherwise: Callable[[], str], report: Callable[[str], None]) -> None:
    """A HEAD that is a commit, and an index that can be read. No file of the worktree is changed.

    otherwise: says the commit to detach at where the worktree's own log knows none.
    """
    lead_back(git, where, report)
    if git.call("rev-parse", "--verify", "--quiet", "HEAD^{commit}", where=where, ok=(0, 1, 128))[0] != 0:
        commit = _last(git, where.metadata / "logs" / "HEAD") or otherwise()
        files.write_bytes(where.metadata / "HEAD", f"{commit}\n".encode())
        report(f"the HEAD of {where.path.name} led to no commit: it is detached at {commit[:12]}, the files stay")
    mend_index(git, where, report)


def mend_index(git: Git, where: Where, report: Callable[[str], None]) -> None:
    """An index that git can read: without it files that are tracked and ignored would count as deleted."""
    index = where.metadata / "index"
    if index.exists():
        if git.call("ls-files", "-z", "--", ".git", where=where, ok=(0, 128))[0] == 0:
            return
        index.unlink()
    drop_locks(where.metadata)
    git.run("read-tree", "HEAD", where=where)
    report(f"the index of {where.path.name} was gone or damaged: it is made again, the files stay")


def _last(git: Git, log: Path) -> str | None:
    """The last commit that a log of HEAD names and the repository still has."""
    for line in reversed(reads(log).split("\n")):
        fields = line.split(" ", 2)
        if len(fields) == 3 and git.resolve(fields[1]) is not None:
            return fields[1]
    return None

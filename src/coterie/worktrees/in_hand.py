"""What lies in a worktree, shown without touching it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from coterie.worktrees.git import END, Git, Where
from coterie.worktrees.registry import reads
from coterie.worktrees.trees import NO_SUBMODULES, hidden
from coterie.worktrees.waiting import refuse_pipes

__all__ = ["work_in_hand"]


def work_in_hand(git: Git, where: Where, *, branch: str, base: str) -> str | None:
    """The difference between `base` and the files in the worktree, untracked ones included, as git prints it.

    branch: what the worktree has to be on, with or without refs/heads/; None is answered if it is not. Nothing is
    written in the worktree, in its metadata or among the repository's objects: the index is a copy in the system's
    temporary folder. A repository inside the worktree is left out.
    """
    ref = f"refs/heads/{branch.removeprefix('refs/heads/')}"
    if reads(where.metadata / "HEAD") != f"ref: {ref}":
        return None
    refuse_pipes(where)
    with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
        index = Path(folder) / "index"
        if (own := where.metadata / "index").exists():
            shutil.copy2(own, index)  # with its time: what changed in the same second is told by it
        if unseen := [each for each in hidden(git, where, index) if os.path.lexists(where.path / each)]:
            listed = b"".join(os.fsencode(each) + b"\0" for each in unseen)
            for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
                git.run("update-index", flag, "-z", "--stdin", where=where, index=index, stdin=listed)
        others = git.run("ls-files", "--others", "--exclude-standard", "-z", where=where, index=index, timeout=600)
        names = [each for each in others.split("\0") if each and not each.endswith("/")]
        if names:
            # an entry whose blob nobody has: what is compared is the file
            blob = git.run("hash-object", "-t", "blob", "--stdin", stdin=b"")
            entries = b"".join(f"100644 {blob}\t".encode() + os.fsencode(each) + b"\0" for each in names)
            git.run("update-index", "-z", "--index-info", where=where, index=index, stdin=entries)
        flags = ("--no-ext-diff", "--no-textconv", NO_SUBMODULES)
        return git.run("diff", *flags, END, base, "--", where=where, index=index, timeout=600)

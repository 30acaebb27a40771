"""The files of a worktree as a tree object, without touching its index; snapshots of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie import files
from coterie.worktrees.errors import Unmergeable
from coterie.worktrees.git import END, ZERO, Git, Where
from coterie.worktrees.waiting import remove_pipes

__all__ = [
    "NO_SUBMODULES",
    "Snapshot",
    "clear_submodules",
    "drop_temporary",
    "hidden",
    "ignored",
    "snapshot",
    "tree_of",
]

GITLINK = "160000"
NO_SUBMODULES = "--ignore-submodules=dirty"  # git would run in them, with the programs that a teammate named there


class Snapshot(BaseModel):
    """A commit that keeps a worktree's uncommitted work."""

    model_config = ConfigDict(frozen=True)

    ref: str
    commit: str
    files: tuple[str, ...]  # what differs from the branch
    ignored: tuple[str, ...]  # what is there too, and was not kept


_numbers = itertools.count()


@contextlib.contextmanager
def _index(where: Where) -> Iterator[Path]:
    """A copy of the worktree's index, for one use."""
    path = where.metadata / f"coterie-{files.token()}-{next(_numbers)}.index"
    own = where.metadata / "index"
    try:
        if own.exists():
            # with its time: a file changed in the same second is told by being no older than the index
            shutil.copy2(own, path)
        yield path
    finally:
        for each in (path, path.with_name(path.name + ".lock")):
            each.unlink(missing_ok=True)


def drop_temporary(where: Where) -> None:
    """Indexes that a killed process left."""
    for path in where.metadata.glob("coterie-*.index*"):
        path.unlink(missing_ok=True)


def hidden(git: Git, where: Where, index: Path | None = None) -> list[str]:
    """Files whose changes the index is told not to see (assume-unchanged, skip-worktree)."""
    listed = git.run("ls-files", "-v", "-z", where=where, index=index)
    return [each[2:] for each in listed.split("\0") if each and (each[0] == "S" or each[0].islower())]


def tree_of(git: Git, where: Where, *, nested_as_files: bool) -> str:
    """The tree of everything in the worktree that is not ignored.

    A repository inside that is no submodule of the base is refused by name (`Unmergeable`), or with
    `nested_as_files` stored as plain files without its `.git`; so are files in a submodule that is not checked out.
    A submodule that is checked out counts as the commit it is at. git is never run in it: its settings are anybody's.
    """
    remove_pipes(where)
    with _index(where) as index:
        there = [each for each in hidden(git, where, index) if os.path.lexists(where.path / each)]
        if there:
            flags = ("--no-assume-unchanged", "--no-skip-worktree")
            for flag in flags:
                git.run("update-index", flag, "-z", "--stdin", where=where, index=index, stdin=_listed(there))
        known = _links(git.run("ls-tree", "-r", "-z", "HEAD", where=where))
        staged = _links(git.run("ls-files", "--stage", "-z", where=where, index=index))
        others = git.run("ls-files", "--others", "--exclude-standard", "-z", where=where, index=index, timeout=600)
        nested = {each.rstrip("/") for each in others.split("\0") if each.endswith("/")} | (staged - known)
        nested = {each for each in nested if os.path.lexists(where.path / each / ".git")}
        links = {each for each in known if (where.path / each).is_dir() and not (where.path / each).is_symlink()}
        checked_out = {each for each in links if os.path.lexists(where.path / each / ".git")}
        filled = {each for each in links - checked_out if any((where.path / each).iterdir())}
        if filled and not nested_as_files:
            names = ", ".join(sorted(filled))
            raise Unmergeable(f"there are files in the submodule {names}: they belong to another repository, move them")
        nested -= checked_out
        if nested and not nested_as_files:
            names = ", ".join(sorted(nested))
            raise Unmergeable(
                f"there is a git repository inside your worktree: {names}. Remove its .git, or move it away"
            )
        nested |= filled
        if gone := staged & nested:
            argv = ("update-index", "--force-remove", "-z", "--stdin")
            git.run(*argv, where=where, index=index, stdin=_listed(gone))
        paths = [".", *(f":(exclude,literal){each}" for each in sorted(nested | links))]
        argv = ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        git.run(*argv, where=where, index=index, timeout=600, stdin=_listed(paths))
        if checked_out:
            # unlike `git add` this reads their HEAD itself and starts no git in them
            argv = ("update-index", "--add", "-z", "--stdin")
            git.run(*argv, where=where, index=index, stdin=_listed(checked_out))
        for path in sorted(nested):
            # seen from its own top a repository's `.git` is passed over, as anybody's is
            inner = Where(metadata=where.metadata, path=where.path / path)
            tree = _plain(git, inner)
            git.run("read-tree", f"--prefix={path}/", END, tree, where=where, index=index)
        return git.run("write-tree", where=where, index=index)


def _plain(git: Git, where: Where) -> str:
    """A repository inside as a tree of plain files, with those inside of it."""
    path = where.metadata / f"coterie-{files.token()}-{next(_numbers)}.index"
    try:
        others = git.run("ls-files", "--others", "--exclude-standard", "-z", where=where, index=path, timeout=600)
        nested = sorted(each.rstrip("/") for each in others.split("\0") if each.endswith("/"))
        paths = [".", *(f":(exclude,literal){each}" for each in nested)]
        argv = ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        git.run(*argv, where=where, index=path, timeout=600, stdin=_listed(paths))
        for each in nested:
            tree = _plain(git, Where(metadata=where.metadata, path=where.path / each))
            git.run("read-tree", f"--prefix={each}/", END, tree, where=where, index=path)
        return git.run("write-tree", where=where, index=path)
    finally:
        for left in (path, path.with_name(path.name + ".lock")):
            left.unlink(missing_ok=True)


def _listed(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(each) + b"\0" for each in sorted(paths))


def clear_submodules(git: Git, where: Where) -> None:
    """Empty the folders of submodules that are not checked out: git passes over what lies in them."""
    for each in _links(git.run("ls-tree", "-r", "-z", "HEAD", where=where)):
        path = where.path / each
        if path.is_dir() and not path.is_symlink() and not os.path.lexists(path / ".git") and any(path.iterdir()):
            shutil.rmtree(path)
            path.mkdir()


def _links(listed: str) -> set[str]:
    """The paths of the gitlinks in what ls-files --stage or ls-tree prints."""
    return {line.split("\t", 1)[1] for line in listed.split("\0") if line.startswith(GITLINK)}


def ignored(git: Git, where: Where) -> tuple[str, ...]:
    """Ignored files and folders, at most 1000."""
    listed = git.run(
        "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", where=where, timeout=600
    )
    return tuple(each for each in listed.split("\0") if each)[:1000]


def snapshot(git: Git, where: Where, *, team: str, label: str) -> Snapshot | None:
    """Keep what is not committed under refs/coterie/<team>/rescue/<label>/<n>; None if the worktree is clean.

    What is kept already, on the same commit and under whichever label, is not kept twice: the answer is that one.
    """
    head = git.run("rev-parse", "HEAD", where=where)
    tree = tree_of(git, where, nested_as_files=True)
    if tree == git.run("rev-parse", "--verify", END, f"{head}^{{tree}}"):
        return None
    changed = git.run("diff-tree", "-r", "--name-only", "-z", "--no-ext-diff", END, head, tree)
    names = tuple(each for each in changed.split("\0") if each)
    left = ignored(git, where)
    listed = "\n".join(["Changed:", *names[:1000], "", "Ignored, not kept:", *left])
    refs = f"refs/coterie/{team}/rescue/"
    prefix = f"{refs}{label}/"
    kept = git.run("for-each-ref", "--format=%(refname) %(objectname) %(tree) %(parent)", END, refs)
    lines = [line.split(" ") for line in kept.split("\n") if line]
    for ref, commit, *content in lines:
        if content == [tree, head]:
            return Snapshot(ref=ref, commit=commit, files=names, ignored=left)
    commit = git.commit_tree(tree, [head], f"snapshot of {label}\n\n{listed[:60_000]}\n")
    numbers = [ref.removeprefix(prefix) for ref, *_ in lines if ref.startswith(prefix)]
    number = 1 + max((int(each) for each in numbers if each.isdecimal()), default=0)
    git.update_ref(f"{prefix}{number}", commit, ZERO)
    return Snapshot(ref=f"{prefix}{number}", commit=commit, files=names, ignored=left)

"""The files of a worktree as a tree object, without touching its index; snapshots of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie import files
from coterie.worktrees.errors import Unmergeable
from coterie.worktrees.git import ZERO, Git, Where

__all__ = ["Snapshot", "ignored", "snapshot", "tree_of"]

GITLINK = "160000"


class Snapshot(BaseModel):
    """A commit that keeps a worktree's uncommitted work."""

    model_config = ConfigDict(frozen=True)

    ref: str
    commit: str
    files: tuple[str, ...]  # what differs from the branch
    ignored: tuple[str, ...]  # what is there too, and was not kept


@contextlib.contextmanager
def _index(where: Where) -> Iterator[Path]:
    """A copy of the worktree's index, for one use."""
    path = where.metadata / f"coterie-{files.token()}-{id(where):x}.index"
    own = where.metadata / "index"
    try:
        if own.exists():
            path.write_bytes(own.read_bytes())
        yield path
    finally:
        for each in (path, path.with_name(path.name + ".lock")):
            each.unlink(missing_ok=True)


def tree_of(git: Git, where: Where, *, nested_as_files: bool) -> str:
    """The tree of everything in the worktree that is not ignored.

    A repository inside that is no submodule of the base is refused by name (`Unmergeable`), or with
    `nested_as_files` stored as plain files without its `.git`.
    """
    with _index(where) as index:
        git.run("add", "--all", "--", ".", where=where, index=index, timeout=600)
        links = _links(git.run("ls-files", "--stage", "-z", where=where, index=index))
        known = _links(git.run("ls-tree", "-r", "-z", "HEAD", where=where))
        nested = sorted(links - known)
        if nested and not nested_as_files:
            raise Unmergeable(
                f"there is a git repository inside your worktree: {', '.join(nested)}. Remove its .git, or move it away"
            )
        for path in nested:
            git.run("update-index", "--force-remove", "--", path, where=where, index=index)
            _add_plain(git, where, index, path)
        return git.run("write-tree", where=where, index=index)


def _links(listed: str) -> set[str]:
    """The paths of the gitlinks in what ls-files --stage or ls-tree prints."""
    return {line.split("\t", 1)[1] for line in listed.split("\0") if line.startswith(GITLINK)}


def _add_plain(git: Git, where: Where, index: Path, nested: str) -> None:
    for path in sorted((where.path / nested).rglob("*")):
        relative = path.relative_to(where.path)
        if ".git" in relative.parts or path.is_symlink() or not path.is_file():
            continue
        blob = git.run("hash-object", "-w", "--no-filters", "--", str(relative), where=where)
        mode = "100755" if path.stat().st_mode & 0o100 else "100644"
        git.run("update-index", "--add", "--cacheinfo", f"{mode},{blob},{relative}", where=where, index=index)


def ignored(git: Git, where: Where) -> tuple[str, ...]:
    """Ignored files and folders, at most 1000."""
    listed = git.run(
        "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", where=where, timeout=600
    )
    return tuple(each for each in listed.split("\0") if each)[:1000]


def snapshot(git: Git, where: Where, *, team: str, label: str) -> Snapshot | None:
    """Keep what is not committed under refs/coterie/<team>/rescue/<label>/<n>; None if the worktree is clean."""
    head = git.run("rev-parse", "HEAD", where=where)
    tree = tree_of(git, where, nested_as_files=True)
    if tree == git.run("rev-parse", f"{head}^{{tree}}"):
        return None
    changed = git.run("diff-tree", "-r", "--name-only", "-z", "--no-ext-diff", head, tree)
    names = tuple(each for each in changed.split("\0") if each)
    left = ignored(git, where)
    listed = "\n".join(["Changed:", *names[:1000], "", "Ignored, not kept:", *left])
    prefix = f"refs/coterie/{team}/rescue/{label}/"
    kept = git.run("for-each-ref", "--format=%(refname) %(objectname) %(tree)", prefix).split("\n")
    for line in kept:
        ref, _, rest = line.partition(" ")
        commit, _, its_tree = rest.partition(" ")
        if ref and its_tree == tree and git.resolve(f"{commit}^1") == head:
            return Snapshot(ref=ref, commit=commit, files=names, ignored=left)  # an interrupted call made it
    commit = git.run("commit-tree", tree, "-p", head, "-m", f"snapshot of {label}", "-m", listed[:60_000])
    number = 1 + max((int(each.split(" ")[0].rpartition("/")[2]) for each in kept if each), default=0)
    git.update_ref(f"{prefix}{number}", commit, ZERO)
    return Snapshot(ref=f"{prefix}{number}", commit=commit, files=names, ignored=left)

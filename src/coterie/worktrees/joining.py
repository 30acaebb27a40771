"""Merging a commit into the files of a worktree, without a commit: conflicts become marks in the files.

The outcome is written down first, as a commit under refs/coterie/<team>/joining/…: its tree is what the files become,
its second parent what was merged, its message the files in conflict. When the files are there, the ref is renamed to
…/joined/…; a kill in between is gone on with, never merged a second time.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie.worktrees.git import ZERO, Git, Where
from coterie.worktrees.trees import tree_of

__all__ = ["Joined", "conflict_marks", "join", "joined", "merge_tree"]

MARKS = (b"<<<<<<< ", b">>>>>>> ")


class Joined(BaseModel):
    """What was merged into a worktree last: the commit, and the files that conflicted."""

    model_config = ConfigDict(frozen=True)

    commit: str
    conflicts: tuple[str, ...]


def _ref(team: str, state: str, task: str, epoch: int) -> str:
    return f"refs/coterie/{team}/{state}/{task}/e{epoch}"


def joined(git: Git, *, team: str, task: str, epoch: int, state: str = "joined") -> Joined | None:
    """What was merged into the worktree of an assignment last; None if nothing was."""
    ref = _ref(team, state, task, epoch)
    code, said = git.call("log", "-1", "--format=%P%n%B", "--end-of-options", ref, "--", ok=(0, 128))
    if code != 0 or not said:
        return None
    parents, _, message = said.partition("\n")
    names = [line.removeprefix("conflict: ") for line in message.split("\n") if line.startswith("conflict: ")]
    return Joined(commit=parents.split(" ")[1], conflicts=tuple(names))


def join(git: Git, where: Where, *, team: str, task: str, epoch: int, commit: str) -> Joined:
    """Merge `commit` into the files of a worktree. Safe to run again after a kill."""
    done_ref, open_ref = _ref(team, "joined", task, epoch), _ref(team, "joining", task, epoch)
    done = joined(git, team=team, task=task, epoch=epoch)
    if done is not None and done.commit == commit:
        return done
    begun = joined(git, team=team, task=task, epoch=epoch, state="joining")
    if begun is None or begun.commit != commit:
        head = git.run("rev-parse", "HEAD", where=where)
        tree = tree_of(git, where, nested_as_files=True)
        parents = ["-p", head] + (["-p", done.commit] if done is not None else [])
        mine = git.run("commit-tree", tree, *parents, "-m", "work in hand")
        merged, conflicts, _ = merge_tree(git, mine, commit)
        message = "\n".join(f"conflict: {each}" for each in conflicts) or "no conflict"
        record = git.run("commit-tree", merged, "-p", mine, "-p", commit, "-m", message)
        git.update_ref(open_ref, record, git.resolve(open_ref) or ZERO)
    record = git.run("rev-parse", open_ref)
    git.run("read-tree", "--reset", "-u", f"{record}^1", where=where, timeout=600)  # exactly the work in hand
    git.run("read-tree", "-m", "-u", f"{record}^1", record, where=where, timeout=600)
    git.update_ref(done_ref, record, git.resolve(done_ref) or ZERO)
    git.delete_ref(open_ref, record)
    found = joined(git, team=team, task=task, epoch=epoch)
    assert found is not None
    return found


def merge_tree(git: Git, ours: str, theirs: str) -> tuple[str, tuple[str, ...], str]:
    """The merge of two commits as a tree, the files in conflict (marked in the tree), and what git says of them."""
    code, said = git.call(
        "merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs, ok=(0, 1), timeout=600
    )
    tree, _, rest = said.partition("\0")
    if code == 0:
        return tree, (), ""
    names, _, messages = rest.partition("\0\0")
    fields = messages.split("\0")
    texts = [field.strip() for field in fields if field.startswith(("CONFLICT", "Auto-merging")) or "CONFLICT" in field]
    return tree, tuple(dict.fromkeys(each for each in names.split("\0") if each)), "\n".join(texts)


def conflict_marks(root: Path, names: tuple[str, ...]) -> list[str]:
    """Those of the files that still have lines with conflict marks."""
    left = []
    for name in names:
        path = root / name
        if path.is_symlink() or not path.is_file():
            continue
        if any(line.startswith(MARKS) for line in path.read_bytes().split(b"\n")):
            left.append(name)
    return left

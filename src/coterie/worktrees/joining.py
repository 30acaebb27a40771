"""Merging a commit into the files of a worktree, without a commit: conflicts become marks in the files.

The outcome is written down first, as a commit under refs/coterie/<team>/joining/…: its tree is what the files become,
its second parent what was merged, its message the files in conflict. When the files are there, …/joined/… gets the same
commit; a kill in between is gone on with, never merged a second time. No ref is ever deleted: that would take the lock
on the packed refs, which the person's own git may hold too, and after a kill nobody could tell whose it was.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie import files
from coterie.worktrees.git import END, ZERO, Git, Where
from coterie.worktrees.trees import snapshot, tree_of

__all__ = ["Joined", "conflict_marks", "drop", "join", "joined", "joined_ref", "joining", "merge_tree", "rejoin"]
__all__ += ["undone"]

MARKS = (b"<<<<<<< ", b">>>>>>> ")
CONFLICT = "conflict: "


class Joined(BaseModel):
    """What was merged into a worktree last: the commit, and the files that conflicted."""

    model_config = ConfigDict(frozen=True)

    commit: str
    conflicts: tuple[str, ...]


def joined_ref(team: str, task: str, epoch: int, state: str = "joined") -> str:
    """The ref that says what was merged into the worktree of an assignment last."""
    return f"refs/coterie/{team}/{state}/{task}/e{epoch}"


def joined(git: Git, *, team: str, task: str, epoch: int, state: str = "joined") -> Joined | None:
    """What was merged into the worktree of an assignment last; None if nothing was."""
    ref = joined_ref(team, task, epoch, state)
    code, said = git.call("log", "-1", "--format=%P%n%B", END, ref, "--", ok=(0, 128))
    parents, _, message = said.partition("\n")
    merged = parents.split(" ")[1:]
    if code != 0 or not merged:
        return None
    lines = [line.removeprefix(CONFLICT) for line in message.split("\n") if line.startswith(CONFLICT)]
    return Joined(commit=merged[0], conflicts=tuple(json.loads(line) for line in lines))


def joining(git: Git, *, team: str, task: str, epoch: int) -> Joined | None:
    """What is being merged into the worktree, and the files may have half of; None if nothing is."""
    refs = (joined_ref(team, task, epoch, state) for state in ("joining", "joined"))
    begun, done = (git.resolve(ref) for ref in refs)
    return None if begun == done else joined(git, team=team, task=task, epoch=epoch, state="joining")


def join(git: Git, where: Where, *, team: str, task: str, epoch: int, commit: str) -> Joined:
    """Merge `commit` into the files of a worktree. Safe to run again after a kill.

    The files in conflict are those of this merge, and those of earlier ones that still have marks.
    """
    done_ref, open_ref = joined_ref(team, task, epoch), joined_ref(team, task, epoch, "joining")
    done = joined(git, team=team, task=task, epoch=epoch)
    begun = joining(git, team=team, task=task, epoch=epoch)
    if begun is not None and begun.commit != commit:
        done = join(git, where, team=team, task=task, epoch=epoch, commit=begun.commit)  # the files may be half there
        begun = None
    if begun is None and done is not None and (done.commit == commit or git.is_ancestor(commit, done.commit)):
        return done
    head = git.run("rev-parse", "HEAD", where=where)
    marked = done.conflicts if done is not None else ()
    if begun is not None:
        snapshot(git, where, team=team, label=f"{task}-e{epoch}-joining")  # it may be more than what the kill left
        if (
            git.run("rev-parse", "--verify", END, f"{open_ref}^1^1") != head
        ):  # the branch went on: merged anew, on top of what is there
            marked += begun.conflicts
            begun = None
    if begun is None:
        tree = tree_of(git, where, nested_as_files=True)
        parents = [head] + ([done.commit] if done is not None else [])
        mine = git.commit_tree(tree, parents, "work in hand")
        merged, conflicts, _ = merge_tree(git, mine, commit)
        names = dict.fromkeys([*conflicts, *conflict_marks(where.path, marked)])
        # json: a file's name may have newlines in it, or bytes that are no text
        message = "\n".join(CONFLICT + json.dumps(each) for each in names) or "no conflict"
        record = git.commit_tree(merged, [mine, commit], message)
        git.update_ref(open_ref, record, git.resolve(open_ref) or ZERO)
    record = git.run("rev-parse", "--verify", END, open_ref)
    # exactly the work in hand, whatever a kill left of the step after it; then what it becomes
    for tree in (f"{record}^1", record):
        git.run("read-tree", "--reset", "-u", END, tree, where=where, timeout=600)
    git.update_ref(done_ref, record, git.resolve(done_ref) or ZERO)
    found = joined(git, team=team, task=task, epoch=epoch)
    assert found is not None
    return found


def rejoin(git: Git, where: Where, *, team: str, task: str, epoch: int, head: str) -> None:
    """In files that are those of `head`: lay what was merged in and is not committed, as it was right after that.

    Without it the next commit would claim to have merged what its files do not have, and so undo it for everybody.
    """
    done = joined(git, team=team, task=task, epoch=epoch)
    if done is not None and not git.is_ancestor(done.commit, head):
        record = git.run("rev-parse", "--verify", END, joined_ref(team, task, epoch))
        git.run("read-tree", "--reset", "-u", END, record, where=where, timeout=600)
    begun = joining(git, team=team, task=task, epoch=epoch)
    if begun is not None:
        join(git, where, team=team, task=task, epoch=epoch, commit=begun.commit)


def drop(git: Git, *, team: str, task: str, epoch: int, keep: str | None = None) -> None:
    """Forget what was merged into the worktree last; keep: the state that it is written down as instead."""
    record = git.run("rev-parse", "--verify", END, joined_ref(team, task, epoch))
    nothing = git.commit_tree(git.run("rev-parse", "--verify", END, f"{record}^{{tree}}"), [], "forgotten")
    for state, commit in ((keep, record), ("joining", nothing), ("joined", nothing)):
        if state is not None:
            ref = joined_ref(team, task, epoch, state)
            git.update_ref(ref, commit, git.resolve(ref) or ZERO)


def undone(git: Git, *, team: str, task: str, epoch: int, tree: str, head: str) -> bool:
    """Whether nothing is left in `tree` of what was merged into the worktree last: as after a reset, checkout or stash.

    Where all that was merged conflicted, taking one's own side is an answer.
    """

    def differ(one: str, other: str) -> set[str]:
        names = git.run("diff-tree", "-r", "--no-renames", "--name-only", "-z", END, one, other)
        return {each for each in names.split("\0") if each}

    record = git.run("rev-parse", "--verify", END, joined_ref(team, task, epoch))
    merged = joined(git, team=team, task=task, epoch=epoch)
    brought = differ(f"{record}^1", record) - set(merged.conflicts if merged is not None else ())
    kept = brought - differ(tree, record)
    changed = differ(tree, f"{record}^1") & differ(tree, head)
    return bool(brought) and not kept and not brought & changed


def merge_tree(git: Git, ours: str, theirs: str) -> tuple[str, tuple[str, ...], str]:
    """The merge of two commits as a tree, the files in conflict (marked in the tree), and what git says of them."""
    argv = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", END, ours, theirs)
    found, attributes = git.call("cat-file", "blob", END, f"{ours}:.gitattributes", ok=(0, 128))
    with tempfile.NamedTemporaryFile() as file:  # without a worktree git does not see them
        if found == 0:
            file.write(os.fsencode(attributes + "\n"))
            file.flush()
        code, said = git.call(*argv, ok=(0, 1), timeout=600, attributes=Path(file.name) if found == 0 else None)
    tree, _, rest = said.partition("\0")
    if code == 0:
        return tree, (), ""
    fields = rest.split("\0")
    names = fields[: fields.index("")]
    fields = fields[len(names) + 1 :]
    texts = []
    while fields and fields[0].isdecimal():  # count, that many paths, kind, text
        count = int(fields[0])
        paths, (kind, text), fields = fields[1 : count + 1], fields[count + 1 : count + 3], fields[count + 3 :]
        if kind != "Auto-merging":
            texts.append(text.strip())
            names += paths if not names else []
    return tree, tuple(dict.fromkeys(names)) or ("(unknown)",), "\n".join(texts)


def conflict_marks(root: Path, names: tuple[str, ...]) -> list[str]:
    """Those of the files that still have lines with conflict marks."""
    left = []
    for name in names:
        try:
            handle = files.open_below(root, Path(name).parts)  # a folder of it may be a link to elsewhere by now
        except OSError:
            continue
        with os.fdopen(handle, "rb") as file:
            regular = stat.S_ISREG(os.fstat(handle).st_mode)
            if regular and any(line.startswith(MARKS) for line in file):
                left.append(name)
    return left

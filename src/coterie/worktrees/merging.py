"""The git part of the merge queue: compute a merge off to the side, commit it, move the branch, find it again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from coterie.errors import Refused
from coterie.worktrees.git import END, Git
from coterie.worktrees.joining import merge_tree
from coterie.worktrees.keeper import Keeper
from coterie.worktrees.places import branch_of

__all__ = ["Conflict", "Merge", "Merged", "Merger"]

SHOWN = 6000  # characters of one conflicted file


class Conflict(BaseModel):
    """A file that both sides changed."""

    model_config = ConfigDict(frozen=True)

    path: str


class Merge(BaseModel):
    """A merge that was computed and touches nothing."""

    model_config = ConfigDict(frozen=True)

    tree: str
    conflicts: tuple[Conflict, ...]
    output: str  # what git says, and both sides of each file in conflict


class Merged(BaseModel):
    """A commit of the queue on the integration branch."""

    model_config = ConfigDict(frozen=True)

    commit: str
    task: str
    epoch: int
    head: str
    plan: str
    subject: str
    author: str


class Merger:
    """Merges of one team."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.git: Git = keeper.git
        self.team = keeper.team

    def plan_merge(self, head: str, tip: str) -> Merge:
        """The merge of `head` into `tip`, or what conflicts. Nothing moves."""
        tree, names, said = merge_tree(self.git, tip, head)
        parts = [said] if said else []
        for name in names[:20]:
            code, text = self.git.call("cat-file", "blob", END, f"{tree}:{name}", ok=(0, 128))
            if code == 0 and "\0" not in text[:8000]:
                parts.append(f"--- {name} (both sides marked) ---\n{_around_marks(text)}")
        return Merge(tree=tree, conflicts=tuple(Conflict(path=name) for name in names), output="\n".join(parts))

    def commit_merge(
        self, merge: Merge, *, tip: str, head: str, message: str, trailers: Mapping[str, str], author: str
    ) -> str:
        """The merge as a commit on nothing yet: first parent `tip`, the trailers as its last paragraph."""
        if merge.conflicts:
            raise Refused("a merge with conflicts is not committed")
        last = "\n".join(f"{key}: {value}" for key, value in trailers.items())
        return self.git.commit_tree(merge.tree, [tip, head], f"{message.rstrip()}\n\n{last}\n", author=author)

    def checked_out(self) -> str | None:
        """Where somebody has the integration branch checked out, and what to do about it; None if nobody has."""
        ref = self.keeper.integration
        for entry in self.git.run("worktree", "list", "--porcelain", "-z").split("\0\0"):
            lines = entry.split("\0")
            if f"branch {ref}" in lines and not any(line.startswith("prunable") for line in lines):
                place = lines[0].removeprefix("worktree ")
                return f"{ref} is checked out in {place}: switch that to another branch, the queue goes on then"
        return None

    def advance(self, old: str, new: str) -> None:
        """Move the integration branch from `old` to `new`.

        Raises `GitError` if it is not at `old`, `Refused` if somebody has checked it out.
        """
        if (where := self.checked_out()) is not None:
            raise Refused(where)
        self.git.update_ref(self.keeper.integration, new, old)

    def find_merged(self, *, task: str, epoch: int, head: str, base: str) -> str | None:
        """The commit on the first-parent line `base..tip` that merged exactly this; None if there is none."""
        wanted = (task, epoch, head)
        return next((each.commit for each in self.log(base) if (each.task, each.epoch, each.head) == wanted), None)

    def log(self, base: str) -> list[Merged]:
        """What the queue has merged since `base`, oldest first, by the trailers of its commits."""
        # NUL is the one character that no message has
        format = "--format=%H%x00%P%x00%an%x00%B"
        said = self.git.run(
            "log", "--first-parent", "--reverse", "-z", format, END, f"{base}..{self.keeper.tip()}", "--"
        )
        fields = said.split("\0")
        found = []
        for commit, parents, author, body in zip(*(fields[number::4] for number in range(4)), strict=False):
            trailers = _trailers(body)
            if trailers.get("Coterie-Team") != self.team or not trailers.get("Coterie-Epoch", "").isdecimal():
                continue
            if parents.split(" ")[1:] != [trailers.get("Coterie-Head")]:
                continue  # not a commit of the queue: it merges the very head that it names
            found.append(
                Merged(
                    commit=commit,
                    task=trailers.get("Coterie-Task", ""),
                    epoch=int(trailers["Coterie-Epoch"]),
                    head=trailers.get("Coterie-Head", ""),
                    plan=trailers.get("Coterie-Plan", "none"),
                    subject=body.split("\n")[0],
                    author=author,
                )
            )
        return found

    def diff_of(self, commit: str) -> str:
        """What a commit of the queue changed."""
        return self.git.run("diff", "--no-ext-diff", "--no-textconv", END, f"{commit}^1", commit, "--")

    def diff(self, base: str, *, task: str | None = None, epoch: int | None = None) -> str:
        """What changed since `base`: on the integration branch, or on the branch of one assignment."""
        end = self.keeper.integration
        if task is not None and epoch is not None:
            end = f"refs/heads/{branch_of(self.team, task, epoch)}"
            if self.git.resolve(end) is None:
                raise Refused(f"{task} has no branch yet: nothing has been handed in")
        return self.git.run("diff", "--no-ext-diff", "--no-textconv", END, f"{base}...{end}", "--")


def _trailers(body: str) -> dict[str, str]:
    """The last paragraph of a message, if all of it is trailers."""
    last = re.split(r"\n{2,}", body.strip())[-1].split("\n")
    pairs = [line.partition(": ") for line in last]
    return {key: value for key, mark, value in pairs} if all(mark for _, mark, _ in pairs) else {}


def _around_marks(text: str) -> str:
    """The parts of a file that have conflict marks, with a few lines around them."""
    lines = text.split("\n")
    keep: set[int] = set()
    inside = False
    for number, line in enumerate(lines):
        inside = inside or line.startswith("<<<<<<< ")
        if inside:
            keep.update(range(max(0, number - 3), min(len(lines), number + 4)))
        if line.startswith(">>>>>>> "):
            inside = False
    return "\n".join(f"{number + 1}: {lines[number]}" for number in sorted(keep))[:SHOWN]

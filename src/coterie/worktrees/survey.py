"""Looking at a team's worktrees as they stand, by git's own registry. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie.worktrees.git import Git, Where
from coterie.worktrees.registry import Registry, reads
from coterie.worktrees.trees import NO_SUBMODULES
from coterie.worktrees.waiting import refuse_pipes

__all__ = ["Worktree", "changed", "survey"]

LOCKS = ("index.lock", "HEAD.lock")


class Worktree(BaseModel):
    """How one worktree of ours stands."""

    model_config = ConfigDict(frozen=True)

    name: str  # whose it is: a member, or queue
    path: Path
    branch: str | None  # short; None where HEAD is detached
    lacks: str  # what is not there of it, in words; empty where it is whole
    locks: tuple[str, ...]  # git's own locks in its metadata

    @property
    def whole(self) -> bool:
        return not self.lacks


def survey(registry: Registry, root: Path) -> Iterator[Worktree]:
    """The worktrees of the team whose worktrees lie in `root`. One that a person moved elsewhere is left out."""
    for metadata in registry.entries():
        leads_to = reads(metadata / "gitdir")
        path = Path(leads_to).parent if leads_to else None
        reason = reads(metadata / "locked")
        ours = reason.startswith(registry.reason(""))
        if path is None or path.parent not in (root, root.resolve()):
            if not ours or (path is not None and path.exists()):
                continue
            path = root / reason.removeprefix(registry.reason(""))
        head = reads(metadata / "HEAD")
        yield Worktree(
            name=path.name,
            path=path,
            branch=head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else None,
            lacks=_lacks(metadata, path, head),
            locks=tuple(each for each in LOCKS if (metadata / each).exists()),
        )


def _lacks(metadata: Path, path: Path, head: str) -> str:
    if not path.is_dir():
        return f"there is no folder {path}"
    if not (path / ".git").is_file():
        return f"{path}/.git is gone"
    if not head:
        return f"{metadata}/HEAD is gone"
    if not (metadata / "index").exists():
        return "it has no index, so its files were never all there"
    return ""


def changed(git: Git, where: Where) -> list[str]:
    """The files that differ from HEAD, untracked ones too, ignored ones not."""
    refuse_pipes(where)
    flags = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", NO_SUBMODULES)
    said = git.run("status", *flags, where=where, timeout=600)
    return [line[3:] for line in said.split("\0") if line]

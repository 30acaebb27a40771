"""Git's registry of worktrees, read as the small files it is: one folder of metadata for each worktree."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from coterie import files
from coterie.worktrees.git import Where, place_of
from coterie.worktrees.repository import Repository

__all__ = ["Registry", "checkouts", "drop_merge_state", "holders", "reads"]

_STATE: tuple[str, ...] = ("AUTO_MERGE", "CHERRY_PICK_HEAD", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "MERGE_RR")
_STATE += ("REBASE_HEAD", "REVERT_HEAD", "SQUASH_MSG")
_STATE += ("BISECT_HEAD", "BISECT_LOG", "BISECT_NAMES", "BISECT_START", "BISECT_TERMS")
_STATE_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")


class Registry:
    """The worktrees of a repository, and which of them are a team's."""

    def __init__(self, common_dir: Path, *, team: str, report: Callable[[str], None]) -> None:
        self.common_dir = common_dir
        self.team = team
        self._report = report

    def entries(self) -> Iterator[Path]:
        """The metadata folders, in order."""
        for metadata in sorted((self.common_dir / "worktrees").glob("*")):
            if metadata.is_dir() and not metadata.is_symlink():
                yield metadata

    def where(self, path: Path) -> Where | None:
        """The worktree at `path`; None if it is not there, or half there."""
        for metadata in self.entries():
            if _points_at(metadata, path) and (path / ".git").is_file() and (metadata / "HEAD").is_file():
                return Where(metadata=metadata, path=path)
        return None

    def reason(self, name: str) -> str:
        """What our entries are locked with."""
        return f"coterie {self.team}/{name}"

    def drop_halves(self, name: str, path: Path) -> None:
        """Remove entries of ours for a name that lead nowhere: a killed `worktree add`, a folder deleted by hand.

        An entry of ours that leads to another place, where a person moved the worktree, stays. Under the repository's
        lock only.
        """
        where = self.where(path)
        if where is not None and not _is_unborn(where):
            return
        for metadata in self.entries():
            locked, leads_to = reads(metadata / "locked"), place_of(metadata)
            ours = _points_at(metadata, path) or locked == self.reason(name)
            # git adds a number to a name that is taken; a kill may leave its files missing or empty
            named = metadata.name.startswith(name) and metadata.name[len(name) :].strip("0123456789") == ""
            unborn = named and leads_to is None and locked in ("", "initializing")
            moved = leads_to is not None and not _points_at(metadata, path) and leads_to.exists()
            if ours and moved:
                self._report(f"the worktree of {name} was moved to {leads_to}: it is left alone there")
            elif ours or unborn:
                shutil.rmtree(metadata)  # killed in between: what is left is unborn, or still ours
                self._report(f"removed the half-made or orphaned worktree entry {metadata.name} of {name}")


def _is_unborn(where: Where) -> bool:
    """Whether `git worktree add` was killed before it wrote which commit the worktree is at: there is no work in it."""
    unborn = not reads(where.metadata / "HEAD").strip("0") and not (where.metadata / "index").exists()
    return unborn and [each.name for each in where.path.iterdir()] == [".git"]


def checkouts(repository: Repository) -> Iterator[Where]:
    """All checkouts of a repository that are there, the main one first, ours among them."""
    yield Where(metadata=repository.common_dir, path=repository.root, ours=False)
    for metadata in Registry(repository.common_dir, team="", report=lambda text: None).entries():
        place = place_of(metadata)
        if place is not None and place.exists():
            yield Where(metadata=metadata, path=place, ours=False)


def holders(repository: Repository, ref: str) -> list[Where]:
    """The checkouts that are on `ref`."""
    return [each for each in checkouts(repository) if reads(each.metadata / "HEAD") == f"ref: {ref}"]


def drop_merge_state(where: Where) -> None:
    """Forget a merge, rebase or the like that somebody began in the worktree."""
    for name in _STATE:
        (where.metadata / name).unlink(missing_ok=True)
    for name in _STATE_FOLDERS:
        shutil.rmtree(where.metadata / name, ignore_errors=True)


def reads(path: Path) -> str:
    """What a small file says, without the white space around it; nothing where it cannot be read, or is no file."""
    try:
        return os.fsdecode(files.read_bytes(path)).strip()
    except (OSError, files.Unreadable):
        return ""


def _points_at(metadata: Path, path: Path) -> bool:
    """Whether a registry entry is that of the worktree at `path`."""
    said = reads(metadata / "gitdir")
    return bool(said) and Path(said) in (path / ".git", path.resolve() / ".git")

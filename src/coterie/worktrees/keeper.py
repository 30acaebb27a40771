"""The keeper of worktrees: one for each teammate, one for the queue, one for the lead. All outside the checkout.

Under the repository's lock only the short part runs (`worktree add --no-checkout --lock`). Every step looks at what is
there, so that each operation can be run again after a kill.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie import files
from coterie.errors import EnvironmentFault, Refused
from coterie.worktrees.errors import NotBound, Unmergeable
from coterie.worktrees.git import ZERO, Git, Repository, Where
from coterie.worktrees.joining import Joined, conflict_marks, join, joined
from coterie.worktrees.places import branch_of, integration_ref
from coterie.worktrees.trees import Snapshot, snapshot, tree_of

__all__ = ["Keeper", "Opened"]


class Opened(BaseModel):
    """A worktree that is bound to an assignment."""

    model_config = ConfigDict(frozen=True)

    path: Path
    branch: str
    base: str
    snapshot: Snapshot | None  # what lay in it before
    conflicts: tuple[str, ...]  # of the work that was carried over


class Keeper:
    """The worktrees of one team, below `root`. Two names may be worked on at once, one name by one thread.

    report: told in words what was repaired or could not be kept.
    """

    def __init__(
        self,
        repository: Repository,
        *,
        team: str,
        root: Path,
        repo_lock: Path,
        intents: Path,
        process: str,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        del intents, process  # every step here is run again by looking at what is there
        self.git = Git(repository.common_dir)
        self.team = team
        self.root = root
        self.integration = integration_ref(team)
        self._registry = repository.common_dir / "worktrees"
        self._repo_lock = repo_lock
        self._report = report
        self._joined: set[tuple[str, str]] = set()  # (branch head or join, base) known to be merged in

    # ------------------------------------------------------------ the integration branch

    def create_integration(self, base: str) -> str:
        """The integration branch at `base`, if it is not there yet; answers its tip."""
        if (tip := self.git.resolve(self.integration)) is not None:
            return tip
        self.git.update_ref(self.integration, base, ZERO)
        return base

    def tip(self) -> str:
        """The commit of the integration branch. Raises `Refused` where somebody deleted it."""
        tip = self.git.resolve(self.integration)
        if tip is None:
            raise Refused(
                f"{self.integration} is gone: restore it (git reflog, or the last merged_commit on the board)"
            )
        return tip

    # ------------------------------------------------------------ places

    def path(self, name: str) -> Path:
        """Where the worktree of a name is, or will be."""
        return self.root / name

    def where(self, name: str) -> Where | None:
        """The worktree of a name, by git's own registry; None if it is not there, or half there."""
        path = self.path(name)
        for metadata in sorted(self._registry.glob("*")):
            if _points_at(metadata, path) and (path / ".git").is_file() and (metadata / "HEAD").is_file():
                return Where(metadata=metadata, path=path)
        return None

    def check(self, name: str, *, task: str, epoch: int, path: Path, branch: str) -> None:
        """Raise `NotBound` unless task, epoch, branch, path, git's registry and the worktree's own files agree.

        Reads a few small files and starts no process: it runs at every tool call.
        """
        expected = branch_of(self.team, task, epoch)
        if branch != expected or path != self.path(name):
            raise NotBound(
                f"{task} in epoch {epoch} belongs to {expected} in {self.path(name)}, not {branch} in {path}"
            )
        where = self.where(name)
        if where is None:
            raise NotBound(f"{path} is not a worktree that git knows: it was removed or changed. Nothing is done in it")
        if (path / ".git").read_text().strip() != f"gitdir: {where.metadata}":
            raise NotBound(f"{path}/.git was changed: it has to lead to {where.metadata}")
        if (where.metadata / "HEAD").read_text().strip() != f"ref: refs/heads/{branch}":
            raise NotBound(f"{path} is not on the branch {branch}: nothing is done in it")
        if not path.is_dir() or path.is_symlink():
            raise NotBound(f"{path} is not a folder any more")

    def _need(self, name: str) -> Where:
        where = self.where(name)
        if where is None:
            raise NotBound(f"there is no worktree at {self.path(name)}")
        return where

    def _ensure(self, name: str, commit: str) -> Where:
        """The worktree of a name, made if it is not there. The short part is under the repository's lock."""
        if (where := self.where(name)) is not None:
            return where
        path = self.path(name)
        with files.locked(self._repo_lock):
            self._drop_halves(name)
            if path.exists() or path.is_symlink():
                aside = self._free(path.with_name(f"{path.name}.lost"))
                path.rename(aside)
                self._report(f"{path} was no worktree that git knows: what lay there is in {aside}")
            try:
                files.make_folder(self.root)
            except OSError as error:
                raise EnvironmentFault(f"{self.root}: {error.strerror}: worktrees are kept there") from None
            reason = f"coterie {self.team}/{name}"
            self.git.run(
                "worktree", "add", "--no-checkout", "--detach", "--lock", "--reason", reason, str(path), commit
            )
        where = self._need(name)
        self.git.run("read-tree", "--reset", "-u", commit, where=where, timeout=600)
        return where

    @staticmethod
    def _free(path: Path) -> Path:
        number = 1
        while (found := path.with_name(f"{path.name}-{number}")).exists():
            number += 1
        return found

    def _drop_halves(self, name: str) -> None:
        """Registry entries of ours for a name that lead nowhere: a killed `worktree add`, a folder deleted by hand."""
        path = self.path(name)
        for metadata in sorted(self._registry.glob("*")):
            ours = _points_at(metadata, path) or _reads(metadata / "locked") == f"coterie {self.team}/{name}"
            if ours and self.where(name) is None:
                shutil.rmtree(metadata)
                self._report(f"removed the half-made or orphaned worktree entry {metadata.name} of {name}")

    # ------------------------------------------------------------ an assignment

    def open(self, name: str, *, task: str, epoch: int, base: str, carry: str | None = None) -> Opened:
        """The worktree of `name` on the assignment's branch, which starts at `base`. Again: what is there.

        What lay in the worktree is snapshotted before the switch. carry: a snapshot whose work is merged in.
        """
        branch = branch_of(self.team, task, epoch)
        ref = f"refs/heads/{branch}"
        if not self.where(name) and self.git.resolve(ref) is not None:
            self._report(f"the worktree of {name} was not there: it is rebuilt from {branch}, uncommitted work is lost")
        where = self._ensure(name, base)
        if _reads(where.metadata / "HEAD") == f"ref: {ref}":
            return Opened(path=where.path, branch=branch, base=base, snapshot=None, conflicts=())
        kept = snapshot(self.git, where, team=self.team, label=f"{name}/before-{task}-e{epoch}")
        if self.git.resolve(ref) is None:
            self.git.update_ref(ref, base, ZERO)
        self._switch(where, "--no-guess", branch)
        conflicts: tuple[str, ...] = ()
        if carry is not None and self.git.resolve(carry) is not None:
            conflicts = join(self.git, where, team=self.team, task=task, epoch=epoch, commit=carry).conflicts
        return Opened(path=where.path, branch=branch, base=base, snapshot=kept, conflicts=conflicts)

    def _switch(self, where: Where, *argv: str) -> None:
        """Switch and leave nothing behind but ignored files. The caller has kept what lay there."""
        self.git.run("switch", "--quiet", "--discard-changes", *argv, where=where, timeout=600)
        self.git.run("clean", "-ffdq", where=where, timeout=600)

    def snapshot(self, name: str, *, label: str) -> Snapshot | None:
        """Keep what is not committed; None if the worktree is clean or not there."""
        where = self.where(name)
        return None if where is None else snapshot(self.git, where, team=self.team, label=label)

    def close(self, name: str) -> Snapshot | None:
        """End a binding: what is not committed is kept, then the worktree is clean and detached at the tip."""
        where = self.where(name)
        if where is None:
            return None
        kept = snapshot(self.git, where, team=self.team, label=f"{name}/closed")
        self._switch(where, "--detach", self.tip())
        return kept

    def commit(self, name: str, *, task: str, epoch: int, base: str, message: str, author: str) -> str | None:
        """Commit what lies in the worktree on the assignment's branch; answers the branch's commit.

        None if nothing differs from `base`. Parents are the branch and, where `base` was merged in, `base`. Refused:
        conflict marks left in files that conflicted, a repository inside (`Unmergeable`), a branch that moved.
        Again: the same commit.
        """
        where = self._need(name)
        ref = f"refs/heads/{branch_of(self.team, task, epoch)}"
        head = self.git.resolve(ref)
        if head is None:
            raise NotBound(f"{ref} is gone")
        merged = joined(self.git, team=self.team, task=task, epoch=epoch)
        if merged is not None and (left := conflict_marks(where.path, merged.conflicts)):
            raise Unmergeable(f"conflict marks are left in {', '.join(left)}: resolve them, then hand in again")
        tree = tree_of(self.git, where, nested_as_files=False)
        parents = [head]
        if merged is not None and not self.git.is_ancestor(merged.commit, head):
            parents.append(merged.commit)
        if tree != self._tree(head) or len(parents) > 1:
            flags = [part for parent in parents for part in ("-p", parent)]
            new = self.git.run("commit-tree", tree, *flags, "-m", message, author=author)
            self.git.update_ref(ref, new, head)
            self.git.run("read-tree", tree, where=where)
            head = new
        return None if self._tree(head) == self._tree(base) else head

    def _tree(self, commit: str) -> str:
        return self.git.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    # ------------------------------------------------------------ merging into a worktree

    def needs_merge(self, name: str, base: str) -> bool:
        """Whether the worktree does not have `base` yet, neither in its branch nor merged in."""
        where = self._need(name)
        head = _reads(where.metadata / "HEAD").removeprefix("ref: refs/heads/")
        parts = head.split("/")
        if len(parts) != 4:
            return False
        merged = joined(self.git, team=self.team, task=parts[2], epoch=int(parts[3][1:]))
        mine = [head_commit for head_commit in (self.git.resolve(f"refs/heads/{head}"),) if head_commit]
        mine += [merged.commit] if merged is not None else []
        for each in mine:
            if (each, base) in self._joined or each == base or self.git.is_ancestor(base, each):
                self._joined.add((each, base))
                return False
        return True

    def merge_in(self, name: str, *, task: str, epoch: int, commit: str) -> list[str]:
        """Merge `commit` into the files of the worktree; answers the files in conflict, which have marks now.

        Nothing is committed: the next `commit` gets `commit` as its second parent. Again: nothing happens twice.
        """
        where = self._need(name)
        return list(join(self.git, where, team=self.team, task=task, epoch=epoch, commit=commit).conflicts)

    def pending_marks(self, name: str, *, task: str, epoch: int) -> list[str]:
        """The files that conflicted and still have conflict marks."""
        merged: Joined | None = joined(self.git, team=self.team, task=task, epoch=epoch)
        return [] if merged is None else conflict_marks(self._need(name).path, merged.conflicts)

    # ------------------------------------------------------------ readers, healing

    def reader(self, name: str, commit: str) -> Path:
        """A detached worktree with exactly the files of `commit`, ignored ones of earlier commits removed too."""
        where = self._ensure(name, commit)
        self._drop_locks(where)
        self.git.run("switch", "--quiet", "--discard-changes", "--detach", commit, where=where, timeout=600)
        self.git.run("clean", "-ffdxq", where=where, timeout=600)
        return where.path

    def heal(self, names: Iterable[str]) -> None:
        """Put right what kills left: only entries of ours, and no other process runs this team."""
        with files.locked(self._repo_lock):
            for name in names:
                self._drop_halves(name)
        for name in names:
            if (where := self.where(name)) is not None:
                self._drop_locks(where)

    def _drop_locks(self, where: Where) -> None:
        for lock in (where.metadata / "index.lock", where.metadata / "HEAD.lock"):
            if lock.exists():
                with contextlib.suppress(FileNotFoundError):
                    lock.unlink()
                self._report(f"removed the stale {lock.name} of {where.path.name}")


def _reads(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""


def _points_at(metadata: Path, path: Path) -> bool:
    """Whether a registry entry is that of the worktree at `path`."""
    said = _reads(metadata / "gitdir")
    return bool(said) and Path(said) in (path / ".git", path.resolve() / ".git")

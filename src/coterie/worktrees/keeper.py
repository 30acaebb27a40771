"""The keeper of worktrees: one for each teammate, one for the queue, one for the lead. All outside the checkout.

Under the repository's lock only the short part runs (`worktree add --no-checkout --lock`). Every step looks at what is
there, so that each operation can be run again after a kill.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie import files
from coterie.errors import EnvironmentFault, Refused
from coterie.worktrees.errors import NotBound, Unmergeable
from coterie.worktrees.git import END, ZERO, Git, Where, leads_to
from coterie.worktrees.joining import Joined, conflict_marks, drop, join, joined, joined_ref, joining, rejoin, undone
from coterie.worktrees.locks import PATIENCE, drop_locks, drop_ref_locks
from coterie.worktrees.mending import lead_back, mend, mend_index
from coterie.worktrees.places import branch_of, integration_ref
from coterie.worktrees.registry import Registry, drop_merge_state, holders, reads
from coterie.worktrees.repository import Repository
from coterie.worktrees.survey import Worktree, changed, survey
from coterie.worktrees.trees import Snapshot, clear_submodules, drop_temporary, hidden, snapshot, tree_of
from coterie.worktrees.waiting import remove_pipes

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
        self.repository = repository
        self.git = Git(repository.common_dir)
        self.team = team
        self.root = root
        self.integration = integration_ref(team)
        self._registry = Registry(repository.common_dir, team=team, report=report)
        self._repo_lock = repo_lock
        self._report = report
        self._has: dict[str, tuple[object, ...]] = {}  # by name: refs, as they were when it had a base, and the base

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
        return self._registry.where(self.path(name))

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
        if reads(path / ".git") != f"gitdir: {where.metadata}":
            raise NotBound(f"{path}/.git was changed: it has to lead to {where.metadata}")
        if not leads_to(where.metadata, self.git.common_dir):
            raise NotBound(f"{where.metadata}/commondir was changed: it has to lead to {self.git.common_dir}")
        self._on_branch(where, branch)
        if not path.is_dir() or path.is_symlink():
            raise NotBound(f"{path} is not a folder any more")

    @staticmethod
    def _on_branch(where: Where, branch: str) -> None:
        if reads(where.metadata / "HEAD") != f"ref: refs/heads/{branch}":
            raise NotBound(f"{where.path} is not on the branch {branch}: nothing is done in it")

    def _need(self, name: str) -> Where:
        where = self.where(name)
        if where is None:
            raise NotBound(f"there is no worktree at {self.path(name)}")
        return where

    def _bound(self, name: str, task: str, epoch: int) -> Where:
        where = self._need(name)
        self._on_branch(where, branch_of(self.team, task, epoch))
        mend_index(self.git, where, self._report)
        return where

    def _ensure(self, name: str, commit: str) -> Where:
        """The worktree of a name, made if it is not there. The short part is under the repository's lock."""
        where = self.where(name)
        if where is None:
            path = self.path(name)
            with files.locked(self._repo_lock):
                self._registry.drop_halves(name, path)
                self._clear_place(path)
                reason = self._registry.reason(name)
                argv = ("--no-checkout", "--detach", "--lock", "--reason", reason, "--", str(path), commit)
                self.git.run("worktree", "add", *argv)
            where = self._need(name)
        lead_back(self.git, where, self._report)
        # git writes the index when all the files are there; one that an assignment had is mended, its files are work
        if not (where.metadata / "index").exists() and not reads(where.metadata / "HEAD").startswith("ref: "):
            self._drop_locks(where)
            self.git.run("read-tree", "--reset", "-u", END, commit, where=where, timeout=600)
        return self._mended(where)

    def _mended(self, where: Where) -> Where:
        mend(self.git, where, otherwise=self.tip, report=self._report)
        return where

    def _clear_place(self, path: Path) -> None:
        """Make room for a worktree. What lies there is moved aside, unless it is what a killed `worktree add` left."""
        try:
            files.make_folder(self.root)
            if path.is_dir() and not path.is_symlink() and [each.name for each in path.iterdir()] in ([], [".git"]):
                if (path / ".git").is_file():
                    (path / ".git").unlink()
                if not any(path.iterdir()):
                    path.rmdir()
            if os.path.lexists(path):
                aside = self._free(path.with_name(f"{path.name}.lost"))
                path.rename(aside)
                self._report(f"{path} was no worktree that git knows: what lay there is in {aside}")
        except OSError as error:
            raise EnvironmentFault(f"{error.filename or path}: {error.strerror}: worktrees are kept there") from None

    @staticmethod
    def _free(path: Path) -> Path:
        number = 1
        while os.path.lexists(found := path.with_name(f"{path.name}-{number}")):
            number += 1
        return found

    def survey(self) -> list[Worktree]:
        """How the worktrees of this team stand, whoever they belong to. Changes nothing."""
        return list(survey(self._registry, self.root))

    def changed(self, name: str) -> list[str]:
        """The files of a worktree that differ from its commit, untracked ones too. Changes nothing."""
        return changed(self.git, self._need(name))

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
        if reads(where.metadata / "HEAD") == f"ref: {ref}":  # mended: the branch is there
            marked = self.pending_marks(name, task=task, epoch=epoch)
            return Opened(path=where.path, branch=branch, base=base, snapshot=None, conflicts=tuple(marked))
        if elsewhere := [each for each in holders(self.repository, ref) if each.metadata != where.metadata]:
            place = elsewhere[0].path
            raise Refused(f"{branch} is checked out in {place}: switch that to another branch, {task} goes on then")
        kept = snapshot(self.git, where, team=self.team, label=f"{name}/before-{task}-e{epoch}")
        head = self.git.resolve(ref)
        if head is None:
            self.git.update_ref(ref, base, ZERO)
            head = base
        self._settle(where, head)
        rejoin(self.git, where, team=self.team, task=task, epoch=epoch, head=head)
        merged = joined(self.git, team=self.team, task=task, epoch=epoch)
        if merged is None and carry is not None and self.git.resolve(carry) is not None:
            merged = join(self.git, where, team=self.team, task=task, epoch=epoch, commit=carry)
        # last: a worktree that is on its branch is ready
        self.git.run("symbolic-ref", "-m", f"coterie: open {task}", END, "HEAD", ref, where=where)
        conflicts = merged.conflicts if merged is not None else ()
        return Opened(path=where.path, branch=branch, base=base, snapshot=kept, conflicts=conflicts)

    def _settle(self, where: Where, commit: str, *, ignored_too: bool = False) -> None:
        """Detached at `commit`, its files and nothing else but ignored ones. The caller has kept what lay there.

        Not by `git switch`: that refuses in the middle of a merge or rebase that somebody began.
        """
        self._drop_locks(where)
        drop_merge_state(where)
        remove_pipes(where)
        if hidden(self.git, where):
            (where.metadata / "index").unlink()
        self.git.run("read-tree", "--reset", "-u", END, commit, where=where, timeout=600)
        self.git.run("update-ref", "--no-deref", "-m", "coterie: detach", END, "HEAD", commit, where=where)
        self.git.run("clean", "-ffdxq" if ignored_too else "-ffdq", where=where, timeout=600)
        clear_submodules(self.git, where)

    def snapshot(self, name: str, *, label: str) -> Snapshot | None:
        """Keep what is not committed; None if the worktree is clean or not there."""
        where = self.where(name)
        return None if where is None else snapshot(self.git, self._mended(where), team=self.team, label=label)

    def close(self, name: str) -> Snapshot | None:
        """End a binding: what is not committed is kept, then the worktree is clean and detached at the tip."""
        where = self.where(name)
        if where is None:
            return None
        if not (where.metadata / "index").exists():  # of a killed `worktree add`: nothing was worked on in it
            where = self._ensure(name, self.tip())
        kept = snapshot(self.git, self._mended(where), team=self.team, label=f"{name}/closed")
        self._settle(where, self.tip())
        return kept

    def commit(self, name: str, *, task: str, epoch: int, base: str, message: str, author: str) -> str | None:
        """Commit what lies in the worktree on the assignment's branch; answers the branch's commit.

        None if nothing differs from `base`. Parents are the branch and, where `base` was merged in, `base`. Refused:
        conflict marks left in files that conflicted, a merge that was undone in the files, a repository inside
        (`Unmergeable`), a branch that moved. Again: the same commit.
        """
        where = self._bound(name, task, epoch)
        self._drop_locks(where)
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
            if undone(self.git, team=self.team, task=task, epoch=epoch, tree=tree, head=head):
                merged = self._forget(merged, task, epoch)
            if merged is not None:
                parents.append(merged.commit)
        if tree != self._tree(head) or len(parents) > 1:
            new = self.git.commit_tree(tree, parents, message, author=author)
            self.git.update_ref(ref, new, head)
            head = new
        self.git.run("read-tree", "--reset", END, head, where=where)  # what is the same keeps its times
        drop_merge_state(where)
        unchanged = {self._tree(base)}
        if merged is not None and merged.commit != base and self.git.is_ancestor(merged.commit, self.integration):
            unchanged.add(self._tree(merged.commit))
        return None if self._tree(head) in unchanged else head

    def _forget(self, merged: Joined, task: str, epoch: int) -> Joined | None:
        """What was merged in is not in the files any more. Work of the team's is merged again, the first time; what
        was carried over from an earlier attempt may be dropped."""
        if not self.git.is_ancestor(merged.commit, self.integration):
            drop(self.git, team=self.team, task=task, epoch=epoch)
            return None
        said = joined(self.git, team=self.team, task=task, epoch=epoch, state="undone")
        if said is not None and said.commit == merged.commit:
            return merged  # told already: it is meant
        drop(self.git, team=self.team, task=task, epoch=epoch, keep="undone")
        raise Unmergeable(
            f"the merge with {merged.commit[:12]} was undone in your files (a reset, checkout or stash?): handing this "
            "in would undo the work of others. It is merged again: look at your files, then hand in again"
        )

    def _tree(self, commit: str) -> str:
        return self.git.run("rev-parse", "--verify", END, f"{commit}^{{tree}}")

    # ------------------------------------------------------------ merging into a worktree

    def needs_merge(self, name: str, base: str) -> bool:
        """Whether the worktree does not have `base` yet, neither in its branch nor merged in; or is half merged.

        It is asked at every tool call: where neither ref has moved since the last no, no process is started. On a
        branch that is no assignment's the answer is no; `check` refuses that.
        """
        where = self._need(name)
        ref = reads(where.metadata / "HEAD").removeprefix("ref: ")
        found = re.fullmatch(rf"refs/heads/coterie/{re.escape(self.team)}/([^/]+)/e(\d+)", ref)
        if found is None:
            return False
        task, epoch = found[1], int(found[2])
        begun = joined_ref(self.team, task, epoch, "joining")
        looked = (base, ref, *(self._loose(each) for each in (ref, joined_ref(self.team, task, epoch), begun)))
        if self._has.get(name) == looked:
            return False
        if joining(self.git, team=self.team, task=task, epoch=epoch) is not None:
            return True
        merged = joined(self.git, team=self.team, task=task, epoch=epoch)
        mine = [self.git.resolve(ref), merged.commit if merged is not None else None]
        if any(each is not None and (each == base or self.git.is_ancestor(base, each)) for each in mine):
            self._has[name] = looked
            return False
        return True

    def _loose(self, ref: str) -> object:
        """A ref's own file, or when there is none what would tell that the packed ones changed."""
        if said := reads(self.git.common_dir / ref):
            return said
        packed = self.git.common_dir / "packed-refs"
        return (packed.stat().st_mtime_ns, packed.stat().st_ino) if packed.exists() else ""

    def merge_in(self, name: str, *, task: str, epoch: int, commit: str) -> list[str]:
        """Merge `commit` into the files of the worktree; answers the files in conflict, which have marks now.

        Nothing is committed: the next `commit` gets `commit` as its second parent. Again: nothing happens twice.
        """
        where = self._bound(name, task, epoch)
        self._drop_locks(where)
        return list(join(self.git, where, team=self.team, task=task, epoch=epoch, commit=commit).conflicts)

    def pending_marks(self, name: str, *, task: str, epoch: int) -> list[str]:
        """The files that conflicted and still have conflict marks."""
        merged: Joined | None = joined(self.git, team=self.team, task=task, epoch=epoch)
        return [] if merged is None else conflict_marks(self._need(name).path, merged.conflicts)

    # ------------------------------------------------------------ readers, healing

    def reader(self, name: str, commit: str) -> Path:
        """A detached worktree with exactly the files of `commit`, ignored ones of earlier commits removed too."""
        where = self._ensure(name, commit)
        self._settle(where, commit, ignored_too=True)
        return where.path

    def heal(self, names: Iterable[str], *, alone: bool = True) -> None:
        """Put right what kills left: only entries of ours.

        alone: whether no other host is alive that may be moving refs of this team at this moment. The worktrees of
        `names` are nobody's else.
        """
        names = tuple(names)
        for lock in drop_ref_locks(self.git.common_dir, self.team, patience=0.0 if alone else PATIENCE):
            self._report(f"removed the stale {lock}")
        with files.locked(self._repo_lock):
            for name in names:
                self._registry.drop_halves(name, self.path(name))
        for name in names:
            if (where := self.where(name)) is not None:
                lead_back(self.git, where, self._report)
                self._drop_locks(where)
                drop_temporary(where)

    def _drop_locks(self, where: Where) -> None:
        for lock in drop_locks(where.metadata):
            self._report(f"removed the stale {lock} of {where.path.name}")

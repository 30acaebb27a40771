"""The board of one team: who does what, what waits for what, and nothing twice.

Each mutation checks what it rests on (status, epoch, owner) in the store, under the team's lock, on the task's file as
it is at that moment. Reading takes no lock and moves no file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from coterie import files
from coterie.taskboard import acts
from coterie.taskboard.changing import Changing
from coterie.taskboard.creating import created, edited
from coterie.taskboard.errors import TaskRefused, UnknownTask
from coterie.taskboard.index import Bucket
from coterie.taskboard.moves import Move, target
from coterie.taskboard.shelf import Unsettled
from coterie.taskboard.store import SETTLE, Store
from coterie.taskboard.task import Assignment, Claim, Evidence, NewTask, Status, Task

__all__ = ["Board"]

_T = TypeVar("_T")


class Board(Changing):
    """The tasks of one team, for all threads of one process; any number of processes may use the same folder.

    root: the team's folder. process: the id of this host process, kept in claims. may_claim: asked for a ready task
    before it is claimed; its no for a task of a split counts for all tasks of that split in that claim.
    on_change: told the ids that changed, after the unlock. report: told in words what was repaired or set aside.
    settle: seconds for which a damaged file is read again, in case an editor is still writing it.

    A call with a `made_by` that the record already has changes nothing and returns the task as it is.
    Every mutation can raise `TaskRefused` (or one of its kinds), `NewerSchema`, `files.LockTimeout` and `OSError`;
    after any of them the board is as it was before, or as it would be after. No mutation may be made while
    the calling thread holds the team's lock and a file is damaged: the wait for it would be everybody's.
    """

    def __init__(
        self,
        root: Path,
        *,
        process: str,
        max_attempts: int = 3,
        max_returns: int = 3,
        may_claim: Callable[[Task], bool] = lambda task: True,
        on_change: Callable[[list[str]], None] = lambda ids: None,
        report: Callable[[str], None] = lambda text: None,
        settle: float = SETTLE,
    ) -> None:
        self.root = root
        self.process = process
        self.max_attempts = max_attempts
        self.max_returns = max_returns
        self._may_claim = may_claim
        super().__init__(Store(root, on_change=on_change, report=report, patience=settle), report)

    def settle(self) -> None:
        """Finish the batches that dead processes began, and set aside files that stay unreadable. Safe to run again."""
        self._locked(lambda: None)

    # -- creating and claiming ----------------------------------------------------------------------------------

    def create(
        self,
        specs: Sequence[NewTask],
        *,
        by: str,
        made_by: str | None = None,
        split: str | None = None,
        requires_plan_default: bool = False,
    ) -> dict[str, str]:
        """Put new tasks on the board, all or none. Returns ref -> id.

        `blocked_by` may name refs of this batch (they win) or ids of the board; anything unknown, and a circle,
        is refused. split: the request that has to be approved before they can be claimed.
        """

        def act() -> dict[str, str]:
            index = self._shelf.index
            if made_by is not None and made_by in index.created:
                ids = index.created[made_by]
                if len(ids) != len(specs):
                    raise TaskRefused(f"this call already made {', '.join(ids)}; some of it is not readable now")
                return {spec.ref: task for spec, task in zip(specs, ids, strict=True)}
            tasks, named = created(
                specs,
                self._shelf.next_number(),
                on_board=lambda task: task in index.entries,
                by=by,
                made_by=made_by,
                split=split,
                requires_plan_default=requires_plan_default,
            )
            if tasks:
                self._store.create(tasks, made_by)
            return named

        return self._locked(act)

    def expect_creatable(self, specs: Sequence[NewTask]) -> None:
        """Raise what `create` would raise for these now. Changes nothing."""

        def act() -> None:
            entries = self._shelf.index.entries
            first = self._shelf.next_number()
            created(
                specs,
                first,
                on_board=lambda task: task in entries,
                by="runtime",
                made_by=None,
                split=None,
                requires_plan_default=False,
            )

        self._locked(act)

    def claim(self, *, owner: str, instance: str, role: str | None = None, made_by: str | None = None) -> Task | None:
        """The next ready task becomes `owner`'s, in a new epoch; None if there is none for it.

        Priority 10 first, then the longest chain of tasks that wait for it, then the lowest number. A task with a
        role is only for claimers of that role. Refused while `owner` holds a task. With a `made_by` that claimed
        before, the task of that claim as it is now.
        """
        files.check_name(owner)
        if not instance.startswith(f"{owner}#"):
            raise TaskRefused(f"expected an instance of {owner}, such as {owner}#1, found {files.clean(instance, 60)}")

        def act() -> Task | None:
            index = self._shelf.index
            if made_by is not None and made_by in index.claimed:
                return self._shelf.read(index.claimed[made_by])
            held = self._first_held(owner, index.holding(owner))
            if held is not None:
                raise TaskRefused(f"{owner} holds {held.id} ({held.status}): a member holds at most one task")
            who = Claim(owner=owner, instance=instance, process=self.process, at=files.now())
            return self._claim_best(who, role, made_by)

        found = self._locked(act)
        if found is None and self._store.notice_edits():  # perhaps a person made something ready
            found = self._locked(act)
        return found

    def _claim_best(self, who: Claim, role: str | None, made_by: str | None) -> Task | None:
        index = self._shelf.index
        passed: dict[str, None] = {}
        shut: set[Bucket] = set()
        try:
            while (best := index.take_best(role, without=shut)) is not None:
                if best in passed:
                    continue  # offered twice
                passed[best] = None
                try:
                    task = self._shelf.read(best)
                except (Unsettled, UnknownTask):
                    continue
                blocked = not all(self._shelf.is_completed(each) for each in task.blocked_by)
                if task.status is not Status.PENDING or blocked or task.role not in (None, role):
                    continue
                if not self._may_claim(task):
                    if task.split is not None:
                        shut |= {bucket for bucket in index.buckets() if bucket[1] == task.split}
                    continue
                return self._shelf.put(acts.claim(task, who, made_by))
            return None
        finally:
            for each in passed:
                index.offer(each)

    def sweep(self) -> None:
        """Find what was done to the files by hand while nobody mutates: taken over, restored or set aside, and said.

        For a host's poll: cheap where nothing was done, and it waits for nothing but the lock. A damaged file is set
        aside by the first sweep after `settle` seconds. Raises what a mutation raises.
        """
        self._store.sweep()

    # -- the owner's host ---------------------------------------------------------------------------------------

    def bind(self, id: str, epoch: int, assignment: Assignment, made_by: str | None = None) -> Task:
        """Record the worktree, branch and base of a claim."""
        return self._change(id, made_by, lambda task: acts.bind(task, epoch, assignment, made_by))

    def submit(
        self,
        id: str,
        epoch: int,
        *,
        by: str,
        summary: str,
        commit: str | None,
        no_change: bool = False,
        made_by: str | None = None,
    ) -> Task:
        """Hand in `commit`, or none with `no_change`. Twice with the same is once. by: the owner."""
        return self._change(
            id,
            made_by,
            lambda task: acts.submit(
                task,
                epoch,
                by=by,
                summary=summary,
                commit=commit,
                no_change=no_change,
                queued=self._shelf.index.highest_queued + 1,
                made_by=made_by,
            ),
        )

    def park(
        self, id: str, epoch: int, *, by: str, reason: str, blocked_by: Sequence[str], made_by: str | None = None
    ) -> Task:
        """Hand it back until `blocked_by` (at least one task that is not completed) is done. by: the owner."""

        def act(task: Task) -> Task:
            self._expect_blockers(task, blocked_by)
            known = self._shelf.index.entries
            if all(known[each].status is Status.COMPLETED for each in blocked_by):
                raise TaskRefused("park needs at least one task in blocked_by that is not completed yet")
            return acts.park(task, epoch, by=by, reason=reason, blocked_by=blocked_by, made_by=made_by)

        return self._change(id, made_by, act)

    def give_up(self, id: str, epoch: int, *, by: str, reason: str, made_by: str | None = None) -> Task:
        """The owner cannot do it. Pending again, or failed once `max_attempts` owners gave up."""
        return self._change(
            id,
            made_by,
            lambda task: acts.give_up(
                task, epoch, by=by, reason=reason, max_attempts=self.max_attempts, made_by=made_by
            ),
        )

    # -- the merge queue ----------------------------------------------------------------------------------------

    def set_merging(
        self, id: str, epoch: int, commit: str | None, made_by: str | None = None, *, evidence: Sequence[Evidence] = ()
    ) -> Task:
        """Say that `commit` is about to become the tip, by what `evidence` shows, or (None) that it will not."""
        act = partial(acts.mark_merging, epoch=epoch, commit=commit, evidence=evidence, made_by=made_by)
        return self._change(id, made_by, act)

    def unbind(self, id: str, epoch: int, *, by: str, reason: str, made_by: str | None = None) -> Task:
        """End the binding of a submitted task: it stays in the queue, and its owner holds it no longer."""
        return self._change(id, made_by, lambda task: acts.unbind(task, epoch, by=by, reason=reason, made_by=made_by))

    def complete(
        self,
        id: str,
        epoch: int,
        *,
        merged_commit: str | None,
        evidence: Sequence[Evidence] = (),
        made_by: str | None = None,
    ) -> Task:
        """It is merged as `merged_commit` (None: no change) and its checks passed, as `evidence` shows."""
        return self._change(
            id,
            made_by,
            lambda task: acts.complete(task, epoch, merged_commit=merged_commit, evidence=evidence, made_by=made_by),
        )

    def give_back(
        self,
        id: str,
        epoch: int,
        *,
        reason: str,
        base: str | None,
        evidence: Sequence[Evidence] = (),
        counted: bool = True,
        owner_available: bool,
        made_by: str | None = None,
    ) -> Task:
        """Return a submitted task. Look at the status of what comes back.

        in_progress: with its owner again, same epoch, `assignment.base` is `base`. pending: the owner is not
        available, holds another task, or its binding had ended. failed: `max_returns` are used up. counted: whether
        it counts as a return.
        """

        def act(task: Task) -> Task:
            owner = task.claim.owner if task.claim else ""
            others = [each for each in self._shelf.index.holding(owner) if each != task.id]
            return acts.give_back(
                task,
                epoch,
                reason=reason,
                base=base,
                evidence=evidence,
                counted=counted,
                to_owner=owner_available and self._first_held(owner, others) is None,
                max_returns=self.max_returns,
                made_by=made_by,
            )

        return self._change(id, made_by, act)

    # -- the runtime, the lead, the human -----------------------------------------------------------------------

    def release(
        self,
        id: str,
        epoch: int,
        *,
        by: str,
        reason: str,
        kept: str | None = None,
        lost: bool = True,
        made_by: str | None = None,
    ) -> Task:
        """Put a task in hand back on the board, after its work was snapshotted; cancelled where that was wanted.

        kept: the snapshot of the work: as a commit id the next owner is told and given it, as a ref only told.
        lost: whether it counts as a loss.
        """
        return self._change(
            id,
            made_by,
            lambda task: acts.release(task, epoch, by=by, reason=reason, kept=kept, lost=lost, made_by=made_by),
        )

    def want(self, id: str, *, move: str, by: str, reason: str, made_by: str | None = None) -> Task:
        """Take a task, to `release` or to `cancel` it. Look at `wanted` of what comes back.

        Pending and submitted ones are moved at once (refused while being merged). For one in progress it is written
        down: nothing else of that epoch has an effect from now on, and its owner's host calls `carry_out`.
        """
        return self._change(id, made_by, lambda task: acts.want(task, move=move, by=by, reason=reason, made_by=made_by))

    def carry_out(self, id: str, epoch: int, *, by: str, kept: str | None = None, made_by: str | None = None) -> Task:
        """Make the wanted move, after the work was snapshotted: pending (a loss is counted) or cancelled."""
        return self._change(
            id,
            made_by,
            lambda task: acts.carry_out(task, epoch, by=by, kept=kept, made_by=made_by),
        )

    def retry(self, id: str, *, by: str, reason: str, made_by: str | None = None) -> Task:
        """A failed or cancelled task is pending again; returns, attempts and losses start at 0."""
        return self._change(id, made_by, lambda task: acts.retry(task, by=by, reason=reason, made_by=made_by))

    def update(
        self,
        id: str,
        *,
        by: str,
        add_blocked_by: Sequence[str] = (),
        remove_blocked_by: Sequence[str] = (),
        subject: str | None = None,
        description: str | None = None,
        priority: int | None = None,
        requires_plan: bool | None = None,
        checks: Sequence[str] | None = None,
        may_lower_plan: bool = False,
        made_by: str | None = None,
    ) -> Task:
        """Change what a task says, all of it or nothing; None leaves a field as it is.

        Edges change only while nobody owns it. may_lower_plan: whether `by` may take the need for a plan away at
        all; whoever is not the human may do so only before the first claim. Refused where nothing is asked for; what
        is so already is left as it is.
        """
        fields = {
            "subject": subject,
            "description": description,
            "priority": priority,
            "requires_plan": requires_plan,
            "checks": checks,
        }
        if not (add_blocked_by or remove_blocked_by) and all(value is None for value in fields.values()):
            raise TaskRefused(
                f"nothing to change in {files.clean(str(id), 60)}. Expected at least one of "
                f"{', '.join(('add_blocked_by', 'remove_blocked_by', *fields))}"
            )

        def act(task: Task) -> Task:
            if add_blocked_by or remove_blocked_by:
                target(Move.REWIRE, task)
                self._expect_blockers(task, add_blocked_by)
            return edited(
                task,
                by=by,
                add_blocked_by=add_blocked_by,
                remove_blocked_by=remove_blocked_by,
                fields=fields,
                may_lower_plan=may_lower_plan,
                made_by=made_by,
            )

        return self._change(id, made_by, act)

"""What each move makes of a task: pure functions from a record to the next one.

Nothing is read or written here. Whether the move is allowed (the table, the epoch, the owner) is decided here too, so
that the store can ask under its lock and no caller can forget to. Every act adds one history entry and one to `rev`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie import files
from coterie.taskboard.errors import IllegalMove, NotCurrent, TaskRefused
from coterie.taskboard.moves import Move, target
from coterie.taskboard.task import Assignment, Change, Claim, Evidence, Result, Status, Task, Wanted, storable

OUT_OF_HAND: dict[str, Any] = {"claim": None, "assignment": None, "wanted": None, "queued": None, "merging": None}


def changed(task: Task, to: Status, *, by: str, reason: str = "", made_by: str | None = None, **fields: Any) -> Task:
    """The next revision of `task`, with its history entry.

    by: a name or an instance; the history has the name, everywhere the same: the epoch and the claim tell the life.
    """
    change = Change(
        at=files.now(),
        from_=task.status,
        to=to,
        by=storable(by.partition("#")[0], 200),
        epoch=fields.get("epoch", task.epoch),
        reason=storable(reason),
        made_by=made_by,
    )
    return task.model_copy(update={**fields, "status": to, "history": (*task.history, change), "rev": task.rev + 1})


def expect_current(task: Task, epoch: int, *, by: str | None = None) -> None:
    """`NotCurrent` unless `(task, epoch)` may have effects, and `by` (a name or an instance) owns it where given."""
    if not task.current(epoch):
        wanted = f", and {task.wanted.by} wants it back: {task.wanted.reason}" if task.wanted else ""
        raise NotCurrent(
            f"epoch {epoch} of {task.id} is not current: it is {task.status} in epoch {task.epoch}{wanted}. "
            "Stop working on it; nothing more of this epoch counts."
        )
    if by is not None:
        expect_owner(task, by)


def expect_owner(task: Task, by: str) -> None:
    """`NotCurrent` unless `by` (a name or an instance) owns the task."""
    claim = task.claim
    if claim is None or by not in (claim.owner, claim.instance):
        owner = claim.instance if claim else "nobody"
        raise NotCurrent(f"{task.id} is owned by {owner}, not by {by}: only its owner can do this")


def claim(task: Task, who: Claim, made_by: str | None) -> Task:
    """A new epoch begins."""
    fields = {**OUT_OF_HAND, "claim": who, "epoch": task.epoch + 1}
    return changed(task, target(Move.CLAIM, task), by=who.owner, reason="claimed", made_by=made_by, **fields)


def bind(task: Task, epoch: int, assignment: Assignment, made_by: str | None) -> Task:
    """The claim gets its worktree. The same again changes nothing."""
    expect_current(task, epoch)
    to = target(Move.BIND, task)
    if task.assignment == assignment:
        return task
    by = task.claim.owner if task.claim else "runtime"
    reason = f"branch {assignment.branch} at {assignment.base} in {assignment.worktree}"
    return changed(task, to, by=by, reason=reason, made_by=made_by, assignment=assignment)


def submit(
    task: Task,
    epoch: int,
    *,
    by: str,
    summary: str,
    commit: str | None,
    no_change: bool,
    queued: int,
    made_by: str | None,
) -> Task:
    """Handed in, with a place in the queue. The same commit of the same epoch again changes nothing."""
    if (commit is None) != no_change:
        raise TaskRefused(
            f"{task.id}: expected a commit, or no_change and none; found commit {commit} with no_change {no_change}"
        )
    done = task.result
    handed_in = task.status in (Status.SUBMITTED, Status.COMPLETED) and task.epoch == epoch
    if handed_in and done is not None and (done.commit, done.no_change) == (commit, no_change):
        return task
    expect_current(task, epoch, by=by)
    to = target(Move.SUBMIT, task)
    if task.assignment is None:
        raise IllegalMove(f"{task.id} has no worktree yet: it is bound to one before work can be handed in")
    result = Result(summary=storable(summary), commit=commit, no_change=no_change)
    return changed(task, to, by=by, reason=summary, made_by=made_by, result=result, queued=queued, merging=None)


def mark_merging(
    task: Task, epoch: int, commit: str | None, *, evidence: Sequence[Evidence], made_by: str | None
) -> Task:
    """The queue is about to make `commit` the tip, or (None) is not any more. The same again changes nothing.

    What was run on it stands in the record before the tip moves: whoever completes the task after a crash has it.
    """
    expect_current(task, epoch)
    to = target(Move.MERGE, task)
    if task.merging == commit:
        return task
    reason = f"merging {commit}" if commit else "not merging any more"
    result = task.result and task.result.model_copy(update={"evidence": tuple(evidence)})
    return changed(task, to, by="queue", reason=reason, made_by=made_by, merging=commit, result=result)


def unbind(task: Task, epoch: int, *, by: str, reason: str, made_by: str | None) -> Task:
    """The submitted work stays in the queue, its owner does not hold it any more."""
    expect_current(task, epoch)
    to = target(Move.UNBIND, task)
    if task.assignment is None:
        return task
    return changed(task, to, by=by, reason=_with_work(task, reason), made_by=made_by, assignment=None)


def complete(
    task: Task, epoch: int, *, merged_commit: str | None, evidence: Sequence[Evidence], made_by: str | None
) -> Task:
    """Merged and tested, or tested and nothing to merge. The same again changes nothing."""
    done = task.result
    if task.status is Status.COMPLETED and task.epoch == epoch and done and done.merged_commit == merged_commit:
        return task
    expect_current(task, epoch)
    to = target(Move.COMPLETE, task)
    if done is None or (merged_commit is None) != done.no_change:
        raise TaskRefused(
            f"{task.id}: expected the merged commit unless no change was handed in, found {merged_commit}"
        )
    fields: dict[str, Any] = {**OUT_OF_HAND, "queued": task.queued}
    result = done.model_copy(update={"merged_commit": merged_commit, "evidence": tuple(evidence)})
    reason = f"merged as {merged_commit}" if merged_commit else "no change"
    return changed(task, to, by="queue", reason=reason, made_by=made_by, **fields, result=result)


def give_back(
    task: Task,
    epoch: int,
    *,
    reason: str,
    base: str | None,
    evidence: Sequence[Evidence],
    counted: bool,
    to_owner: bool,
    max_returns: int,
    made_by: str | None,
) -> Task:
    """The queue returns it: to its owner in the same epoch, to the board, or as failed once its returns are used up."""
    expect_current(task, epoch)
    fields: dict[str, Any] = {"queued": None, "merging": None}
    if task.result is not None:
        fields["result"] = task.result.model_copy(update={"evidence": tuple(evidence)})
    if counted and task.returns >= max_returns:
        to = target(Move.RETURN_AS_FAILED, task)
        before = files.counted(task.returns, "time")
        reason = f"{_with_work(task, reason)}; returned {before} already, of {max_returns} allowed"
        return changed(task, to, by="queue", reason=reason, made_by=made_by, **fields | OUT_OF_HAND)
    fields["returns"] = task.returns + (1 if counted else 0)
    if to_owner and task.assignment is not None:
        to = target(Move.RETURN, task)
        if base is not None:
            fields["assignment"] = task.assignment.model_copy(update={"base": base})
        return changed(task, to, by="queue", reason=reason, made_by=made_by, **fields)
    to = target(Move.RETURN_TO_BOARD, task)
    return changed(task, to, by="queue", reason=_with_work(task, reason), made_by=made_by, **fields | OUT_OF_HAND)


def release(task: Task, epoch: int, *, by: str, reason: str, kept: str | None, lost: bool, made_by: str | None) -> Task:
    """Back on the board. Where somebody wanted it cancelled, that is what happens."""
    if task.epoch == epoch and task.wanted is not None:
        return carry_out(task, epoch, by=by, kept=kept, made_by=made_by)
    expect_current(task, epoch)
    _expect_not_merging(task)
    losses = task.losses + (1 if lost else 0)
    reason = _with_work(task, reason, kept)
    to = target(Move.RELEASE, task)
    return changed(task, to, by=by, reason=reason, made_by=made_by, **OUT_OF_HAND, losses=losses)


def park(task: Task, epoch: int, *, by: str, reason: str, blocked_by: Sequence[str], made_by: str | None) -> Task:
    """Its owner hands it back until something else is done. No attempt is counted."""
    expect_current(task, epoch, by=by)
    to = target(Move.PARK, task)
    fields = {**OUT_OF_HAND, "blocked_by": tuple(dict.fromkeys((*task.blocked_by, *blocked_by)))}
    reason = f"{_with_work(task, reason)}; parked on {', '.join(blocked_by)}"
    return changed(task, to, by=by, reason=reason, made_by=made_by, **fields)


def give_up(task: Task, epoch: int, *, by: str, reason: str, max_attempts: int, made_by: str | None) -> Task:
    """Its owner cannot do it: the next one tries, or it has failed once its attempts are used up."""
    expect_current(task, epoch, by=by)
    attempts = task.attempts + 1
    to = target(Move.FAIL if attempts >= max_attempts else Move.GIVE_UP, task)
    reason = _with_work(task, reason)
    return changed(task, to, by=by, reason=reason, made_by=made_by, **OUT_OF_HAND, attempts=attempts)


def want(task: Task, *, move: str, by: str, reason: str, made_by: str | None) -> Task:
    """Take it: at once where nobody works on it, else by saying so to its owner's host."""
    if move not in ("release", "cancel"):
        raise TaskRefused(f"expected release or cancel, found {files.clean(str(move), 40)!r}")
    _expect_not_merging(task)
    if task.status is Status.IN_PROGRESS:
        to = target(Move.WANT, task)
        if task.wanted is not None and (task.wanted.move == move or move == "release"):
            return task  # the first stands, except that a cancel goes further than a release
        wanted = Wanted(move="cancel" if move == "cancel" else "release", by=by, reason=storable(reason))
        return changed(task, to, by=by, reason=f"{move} wanted: {reason}", made_by=made_by, wanted=wanted)
    if move == "cancel":
        return _cancelled(task, by=by, reason=reason, kept=None, made_by=made_by)
    to = target(Move.RELEASE, task)
    fields = {**OUT_OF_HAND, "losses": task.losses + 1}
    return changed(task, to, by=by, reason=_with_work(task, reason), made_by=made_by, **fields)


def carry_out(task: Task, epoch: int, *, by: str, kept: str | None, made_by: str | None) -> Task:
    """Make the move that is wanted. The work in hand has been snapshotted."""
    wanted = task.wanted
    if wanted is None or task.epoch != epoch:
        raise NotCurrent(f"nothing is wanted of epoch {epoch} of {task.id}: it is {task.status} in epoch {task.epoch}")
    reason = f"{wanted.reason} (wanted by {wanted.by})"
    if wanted.move == "cancel":
        return _cancelled(task, by=by, reason=reason, kept=kept, made_by=made_by)
    to = target(Move.RELEASE, task)
    reason = _with_work(task, reason, kept)
    return changed(task, to, by=by, reason=reason, made_by=made_by, **OUT_OF_HAND, losses=task.losses + 1)


def retry(task: Task, *, by: str, reason: str, made_by: str | None) -> Task:
    """Once more, with all counts at the start."""
    to = target(Move.RETRY, task)
    fields: dict[str, Any] = {**OUT_OF_HAND, "returns": 0, "attempts": 0, "losses": 0, "result": None}
    return changed(task, to, by=by, reason=reason, made_by=made_by, **fields)


def _cancelled(task: Task, *, by: str, reason: str, kept: str | None, made_by: str | None) -> Task:
    to = target(Move.CANCEL, task)
    reason = _with_work(task, reason, kept)
    return changed(task, to, by=by, reason=reason, made_by=made_by, **OUT_OF_HAND)


def _expect_not_merging(task: Task) -> None:
    if task.merging is not None:
        raise IllegalMove(f"{task.id} is being merged: use undo once it is completed")


def _with_work(task: Task, reason: str, kept: str | None = None) -> str:
    """The reason, and where the work of this epoch lies: the next owner is told."""
    notes = []
    if task.assignment is not None:
        notes.append(f"branch {task.assignment.branch}")
    if task.status is Status.SUBMITTED and task.result is not None and task.result.commit:
        notes.append(f"commit {task.result.commit}")
    if kept is not None:
        notes.append(f"snapshot {kept}")
    return f"{storable(reason, 7000)} ({', '.join(notes)})" if notes else reason

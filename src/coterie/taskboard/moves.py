"""The one table of moves. What does not stand here is refused."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from coterie.taskboard.errors import IllegalMove
from coterie.taskboard.task import Status, Task

__all__ = ["MOVES", "Move", "target"]


class Move(StrEnum):
    """What can be done to a task that exists; the value completes "it cannot be …"."""

    CLAIM = "claimed"
    BIND = "bound to a worktree"
    SUBMIT = "submitted"
    MERGE = "marked as being merged"
    UNBIND = "set aside in the queue"
    COMPLETE = "completed"
    RETURN = "returned to its owner"
    RETURN_TO_BOARD = "returned to the board"
    RETURN_AS_FAILED = "failed for its returns"
    RELEASE = "released"
    PARK = "parked"
    GIVE_UP = "given up"
    FAIL = "failed for its attempts"
    WANT = "taken from its owner"
    CANCEL = "cancelled"
    RETRY = "retried"
    EDIT = "changed"
    REWIRE = "given other blockers"


_PENDING, _WORKING, _SUBMITTED = Status.PENDING, Status.IN_PROGRESS, Status.SUBMITTED
_DONE, _FAILED, _CANCELLED = Status.COMPLETED, Status.FAILED, Status.CANCELLED

MOVES: Mapping[Move, Mapping[Status, Status]] = {
    # the owner's host, for its member
    Move.CLAIM: {_PENDING: _WORKING},
    Move.BIND: {_WORKING: _WORKING},
    Move.SUBMIT: {_WORKING: _SUBMITTED},
    Move.PARK: {_WORKING: _PENDING},
    Move.GIVE_UP: {_WORKING: _PENDING},
    Move.FAIL: {_WORKING: _FAILED},
    # the merge queue
    Move.MERGE: {_SUBMITTED: _SUBMITTED},
    Move.UNBIND: {_SUBMITTED: _SUBMITTED},
    Move.COMPLETE: {_SUBMITTED: _DONE},
    Move.RETURN: {_SUBMITTED: _WORKING},
    Move.RETURN_TO_BOARD: {_SUBMITTED: _PENDING},
    Move.RETURN_AS_FAILED: {_SUBMITTED: _FAILED},
    # the runtime, the lead, the human
    Move.WANT: {_WORKING: _WORKING},
    Move.RELEASE: {_WORKING: _PENDING, _SUBMITTED: _PENDING},
    Move.CANCEL: {_PENDING: _CANCELLED, _WORKING: _CANCELLED, _SUBMITTED: _CANCELLED},
    Move.RETRY: {_FAILED: _PENDING, _CANCELLED: _PENDING},
    Move.EDIT: {status: status for status in Status if status is not _DONE},
    Move.REWIRE: {_PENDING: _PENDING, _FAILED: _FAILED, _CANCELLED: _CANCELLED},
}
"""move -> {status before: status after}."""


def target(move: Move, task: Task) -> Status:
    """The status after `move`; `IllegalMove` if the table does not have it."""
    allowed = MOVES[move]
    if task.status not in allowed:
        raise IllegalMove(
            f"{task.id} is {task.status}: it cannot be {move}. Expected {' or '.join(allowed)}", see=task.id
        )
    return allowed[task.status]

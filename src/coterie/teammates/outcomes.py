"""What the lead is told of a task that came to its end: owed by the task's own record until it is sent."""

from __future__ import annotations

import contextlib

from coterie import files
from coterie.errors import CoterieError
from coterie.mailbox import Event
from coterie.taskboard import Status, Task
from coterie.teammates.team import Team

__all__ = ["left_blocked", "send_outcome"]

_ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


def send_outcome(team: Team, task: Task) -> None:
    """Tell the lead that a task is completed or has failed, or that others wait for one that was cancelled.

    Again: it is told already. A lead that is gone: nobody. What it cancelled itself, its tool has told it.
    """
    if task.status is Status.COMPLETED:
        commit = task.result.merged_commit if task.result is not None else None
        said = f"merged as {commit[:12]}" if commit else "no change"
        none_left = all(each.status in _ENDED for each in team.board.tasks())
        more = "\nNo task is open any more: call finish, or create what is missing." if none_left else ""
        body = Event(
            text=f"{task.id} is completed ({said}): {task.subject}{more}",
            event="task-completed",
            task=task.id,
            wakes=none_left,
        )
        key = f"{task.id}/e{task.epoch}/completed"
    elif task.status is Status.FAILED:
        last = next((each for each in reversed(task.history) if each.to == Status.FAILED), None)
        returned = last is not None and last.from_ == Status.SUBMITTED
        what, count = ("returned", task.returns) if returned else ("given up", task.attempts)
        times = f"{what} {files.counted(count, 'time')}"
        text = f"{task.id} has failed: {times}. Last reason: {last.reason if last is not None else 'not said'}"
        text += left_blocked(team, task)
        body = Event(text=text, event="task-failed", task=task.id, wakes=True)
        key = f"{task.id}/e{task.epoch}/failed"
    elif task.status is Status.CANCELLED and not _by_lead(task) and (blocked := left_blocked(team, task)):
        text = f"{task.id} is cancelled: {task.history[-1].reason if task.history else 'not said why'}{blocked}"
        body = Event(text=text, event="task-cancelled", task=task.id, wakes=True)
        times_cancelled = sum(each.to == Status.CANCELLED != each.from_ for each in task.history)
        key = f"{task.id}/cancelled{times_cancelled}"
    else:
        return
    with contextlib.suppress(CoterieError):
        team.mail.send(body, sender="queue", sender_instance=None, to="lead", made_by=key)


def _by_lead(task: Task) -> bool:
    return bool(task.history) and task.history[-1].by == "lead"


def left_blocked(team: Team, task: Task) -> str:
    """Which tasks stay blocked by one that will not be completed, as a line; empty if there is none."""
    left = [each.id for each in team.board.tasks() if each.status is Status.PENDING and task.id in each.blocked_by]
    if not left:
        return ""
    return f"\nBlocked by it: {', '.join(left)}. Retry it, cancel them, or take it out of their blocked_by."

"""Whether anything can still move, and what happens when nothing can."""

from __future__ import annotations

import contextlib
import hashlib
import time

from coterie.errors import CoterieError, Refused
from coterie.lead.checks import Ended
from coterie.lead.ending import OPEN, Ending, exit_code_of
from coterie.lead.integration import Queue
from coterie.lead.joined import Joined
from coterie.lead.lead import wakes
from coterie.mailbox import Event, RequestKind, Standing
from coterie.taskboard import Status as TaskStatus
from coterie.taskboard import Task
from coterie.teammates.member import Member
from coterie.teammates.roster import Status
from coterie.teammates.team import Runtime

__all__ = ["Stall"]

SETTLED = 0.6  # seconds without a ring before a stall is believed


class Stall:
    """Looks whether the run is stalled: wakes the lead once per state of the board, then ends the run."""

    def __init__(
        self, runtime: Runtime, queue: Queue, members: dict[str, Member], joined: Joined, *, interactive: bool
    ) -> None:
        self._runtime = runtime
        self._queue = queue
        self._members = members
        self._joined = joined
        self._interactive = interactive
        self._seen: tuple[int, float] = (-1, 0.0)  # the last ring, and when it was first seen
        self._told: str | None = None
        self._since: tuple[str, float] | None = None

    def look(self, rings: int) -> None:
        """One look. Nothing is believed before it has been quiet for a moment: somebody may be about to act."""
        now = time.monotonic()
        if rings != self._seen[0]:
            self._seen = (rings, now)
            return
        if now - self._seen[1] < SETTLED or self._runtime.finished.is_set() or not self._nothing_moves():
            return
        state = self._state()
        if self._tell(state):
            return
        if self._since is None or self._since[0] != state:
            self._since = (state, now)
        self._end(now - self._since[1])

    def _nothing_moves(self) -> bool:
        team = self._runtime.team
        living = [each for each in team.roster.living() if not self._joined.hung(each)]
        if self._queue.busy or not self._runtime.claims_open.is_set():
            return False
        if any(each.status in (Status.STARTING, Status.WORKING, Status.STOPPING) for each in living):
            return False
        if {each.name for each in living if not each.joined} - set(self._members) or any(
            not member.thread.is_alive() for member in self._members.values() if not member.over
        ):
            return False
        for each in living:
            waiting = team.mail.waiting(each.name)
            if any(wakes(mail) for mail in waiting) if each.name == "lead" else waiting:
                return False
        if self._queue.waiting() and self._queue.blocked is None:
            return False
        free = [each for each in living if each.name != "lead" and each.status is Status.IDLE]
        ready = [row.task for row in team.board.view() if row.ready and self._may_be_claimed(row.task)]
        return not any(task.role in (None, mate.role) for task in ready for mate in free)

    def _may_be_claimed(self, task: Task) -> bool:
        """A task of a split that nobody approved yet is ready by its edges, and still not claimed."""
        if task.split is None:
            return True
        try:
            return self._runtime.team.requests.get(task.split).soundly_approved
        except CoterieError:
            return False

    def _state(self) -> str:
        """A digest of what the lead could act on: it changes whenever a task or a request does."""
        team = self._runtime.team
        parts = [f"{task.id}:{task.rev}" for task in team.board.tasks()]
        parts += [f"{each.id}:{each.status}" for each in team.requests.all()]
        parts += [f"{each.instance}:{each.status}" for each in team.roster.all() if each.name != "lead"]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _tell(self, state: str) -> bool:
        """Wake the lead with what stands in the way; False if it was told this already."""
        if self._told == state:
            return False
        self._told = state
        team = self._runtime.team
        key = f"stall/{state}"
        before = team.bell.count()
        with contextlib.suppress(CoterieError):
            team.mail.send(
                Event(text=self._obstacles(), event="stalled", wakes=True),
                sender="runtime",
                sender_instance=None,
                to="lead",
                made_by=key,
            )
        return team.bell.count() != before  # a message of that key may be there since an earlier process

    def _obstacles(self) -> str:
        """What stands in the way, in words."""
        team = self._runtime.team
        rows = team.board.view()
        open_rows = [row for row in rows if row.task.status in OPEN]
        lines = []
        if not rows:
            lines.append("There is no task yet: create the tasks and spawn teammates.")
        elif not open_rows:
            failed = [row.task.id for row in rows if row.task.status is TaskStatus.FAILED]
            lines.append("No task is open any more: call finish, or create what is missing.")
            if failed:
                lines.append(f"Failed: {', '.join(failed)}.")
        for row in open_rows:
            lines.append(f"- {row.task.id} ({row.task.status}): {row.why or row.task.subject}")
        mates = [each for each in team.roster.all() if each.name != "lead"]
        if open_rows and not any(not each.status.over for each in mates):
            lines.append("No teammate lives: spawn one.")
        for each in mates:
            hung = "; its host process answers nothing: release_task takes its task" if self._joined.hung(each) else ""
            lines.append(f"- {each.name} is {each.status}: {each.reason}{hung}")
        for request in team.requests.all():
            if request.open:
                lines.append(f"- {request.id} ({request.kind} of {request.sender}) waits for {request.to}")
        return "Nothing moves.\n" + "\n".join(lines)

    def _end(self, quiet: float) -> None:
        """The lead knows and has changed nothing: finish, wait for the person, or stop in order."""
        runtime = self._runtime
        team = runtime.team
        tasks = team.board.tasks()
        if tasks and not any(task.status in OPEN for task in tasks) and exit_code_of(tasks) == 0:
            with contextlib.suppress(Refused, Ended):
                self._finish()
                return
        decisions = (RequestKind.PLAN, RequestKind.SPLIT, RequestKind.PERMISSION, RequestKind.QUESTION)
        stale = (Standing.SUPERSEDED, Standing.VOID)
        waiting = [  # also what waits for the lead: the human may always decide
            each
            for each in team.requests.all()
            if each.open and each.kind in decisions and team.requests.standing(each) not in stale
        ]
        if self._queue.blocked is not None:
            self._wait(self._queue.blocked, quiet, runtime.settings.stall_timeout, 7)
        elif waiting:
            ids = ", ".join(each.id for each in waiting)
            self._wait(f"waits for your decision on {ids} (coterie inbox)", quiet, runtime.settings.stall_timeout, 7)
        elif hung := [each.name for each in self._joined.members() if self._joined.hung(each)]:
            text = f"the host process of {', '.join(hung)} answers nothing (coterie team says which): kill it, or wait"
            self._wait(text, quiet, runtime.settings.stall_timeout, 7)
        else:
            self._wait(f"nothing moves any more.\n{self._obstacles()}", quiet, 0.0, 1)

    def _finish(self) -> None:
        Ending(self._runtime, self._queue.checks).finish(
            "All tasks are completed or cancelled and the checks are green; the lead did not say so itself.",
            cancel=self._runtime.stop.wanted,
        )

    def _wait(self, what: str, quiet: float, limit: float, exit_code: int) -> None:
        if quiet == 0.0:
            self._runtime.team.events.say("warning", what)
        if not self._interactive and quiet >= limit:
            self._runtime.stop(what, exit_code)

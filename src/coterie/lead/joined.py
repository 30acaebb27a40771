"""Teammates that run in host processes of their own, as the lead's host sees them: who lives, who answers."""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType
from typing import Self

from coterie import files
from coterie.errors import CoterieError
from coterie.lead.overtake import ASK, Silence, take_over
from coterie.lead.recovery import bury, dead_processes
from coterie.taskboard import Status as TaskStatus
from coterie.teammates.roster import MemberRecord
from coterie.teammates.team import Runtime

__all__ = ["Joined"]

TRY = 0.2  # seconds between two tries of the locks of joined processes


class Joined:
    """Watches the joined processes from a thread of its own, and does for dead and hung ones what they cannot.

    `look` is the run's: what it does to tasks and lives is done by that one thread.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._team = runtime.team
        self._runtime = runtime
        self._silence = Silence(runtime.team.root / "processes")
        self._dead: list[str] = []
        self._said: set[str] = set()  # instances that are known to be hung
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="joined", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(2 * ASK)

    def members(self) -> list[MemberRecord]:
        """The living members of other processes."""
        return [each for each in self._team.roster.living() if each.joined]

    def hung(self, member: MemberRecord) -> bool:
        """Whether its host process lives and has answered nothing for `hung_after`."""
        return member.joined and self._silence.of(member.process) >= self._runtime.settings.hung_after

    def remaining(self) -> bool:
        """Whether one of them still has a life to end, and can be waited for."""
        return any(not self.hung(each) for each in self.members())

    def stop(self) -> None:
        """The run stops in order: so do they."""
        path = self._team.root / "stop.json"
        wanted = self._runtime.stop
        with contextlib.suppress(CoterieError, OSError), files.locked(self._team.root / "lock"):
            if self.members():
                files.write_json(
                    path,
                    {
                        "schema": 1,
                        "at": files.now(),
                        "by": f"the lead's host: {wanted.wanted.reason}",
                        "process": self._team.process,
                        "now": wanted.at_once.is_set(),
                    },
                )
        self._team.bell.ring()

    def _live(self) -> None:
        asked = 0.0
        while not self._over.wait(TRY):
            try:
                dead = dead_processes(self._team)
                if dead and dead != self._dead:
                    self._team.bell.ring_here()
                self._dead = dead
                if time.monotonic() - asked >= ASK:
                    asked = time.monotonic()
                    members = self.members()
                    self._silence.ask(each.process for each in members if each.process is not None)
                    if any(self.hung(each) != (each.instance in self._said) for each in members):
                        self._team.bell.ring_here()
            except (CoterieError, OSError):
                continue  # a file that is being written is read again

    def look(self) -> None:
        """End the lives of dead processes, take from hung ones what somebody wants back."""
        dead, self._dead = self._dead, []
        for process in dead:
            with contextlib.suppress(CoterieError):  # what could not be done yet is found again
                bury(self._team, process)
        for member in self.members():
            hung = self.hung(member)
            if hung != (member.instance in self._said):
                self._say(member, hung=hung)
            if hung:
                self._take_from(member)

    def _say(self, member: MemberRecord, *, hung: bool) -> None:
        pid = files.read_info(self._team.root / "processes" / f"{member.process}.lock").get("pid")
        if hung:
            self._said.add(member.instance)
            text = f"the host process of {member.name} (pid {pid}) is alive and answers nothing"
            text += f": its task can be taken back (coterie task release {member.task})" if member.task else ""
            self._team.events.say("warning", text, member=member.name)
        else:
            self._said.discard(member.instance)
            self._team.events.say("repair", f"the host process of {member.name} answers again", member=member.name)

    def _take_from(self, member: MemberRecord) -> None:
        with contextlib.suppress(CoterieError):  # what could not be done yet is tried at the next look
            task = self._team.board.held_by(member.name)
            if task is not None and task.status is TaskStatus.IN_PROGRESS and task.wanted is not None:
                take_over(self._team, task, why=f"the host process of {member.name} answers nothing")

"""A teammate: claims a task, works in the worktree that is bound to it, hands in, and is told what becomes of it."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import ClassVar, Literal

from coterie.errors import CoterieError, Refused
from coterie.mailbox import Request, RequestKind, RequestStatus, item, send_owed, wrapped
from coterie.taskboard import Assignment, NotCurrent, Task
from coterie.taskboard import Status as TaskStatus
from coterie.teammates.gate import Holding, PlanState
from coterie.teammates.journal import Opened
from coterie.teammates.member import Member, prompt
from coterie.teammates.outcomes import send_outcome
from coterie.teammates.roster import MemberRecord, Status
from coterie.teammates.team import Runtime
from coterie.teammates.tools import TEAMMATE_TOOLS
from coterie.teammates.tools.work import with_snapshot

__all__ = ["Teammate"]

PROMPTS = Path(__file__).parent / "prompts"
HANDED_BACK = (TaskStatus.PENDING, TaskStatus.FAILED)
TOO_LATE = "the time to shut down is over"
_SNAPSHOT = re.compile(r"snapshot ([0-9a-f]{40})")


class Teammate(Member):
    """A member that changes files, in one worktree, for one assignment at a time."""

    role: ClassVar[Literal["lead", "teammate"]] = "teammate"

    def __init__(self, runtime: Runtime, record: MemberRecord) -> None:
        self.tools = TEAMMATE_TOOLS
        self._deadlines: dict[str, float] = {}
        self._unreported = True  # until it has been looked whether its last stretch was reported
        self._started_anew = True  # until it has been looked whether this life left an assignment in the middle
        super().__init__(runtime, record)

    # ------------------------------------------------------------ what there is to do

    def do_next(self) -> bool:
        """Shutdown, then what was taken from it, its mail, its own unfinished assignment, the next ready task."""
        self.report_what_was_left()
        if requests := self.shutdowns():
            self.shut_down(requests, forced=self.halt.reason == TOO_LATE)
            return True
        if self.runtime.finished.is_set():
            self.leave("the team has finished")
            return True
        task = self.mine()
        if task is not None and task.wanted is not None:
            self.hand_over(task)
            return True
        self.halt.clear()
        if task is not None and task.status is TaskStatus.IN_PROGRESS and task.assignment is None:
            self.bind(task)
            return True
        here = self.conversation_of(task)
        if here and self.loop.open():
            self.stretch()
            return True
        if self.team.mail.has_mail(self.name):
            self.take_mail(here)
            return True
        if task is not None and task.status is TaskStatus.IN_PROGRESS and not here:
            self.open_conversation("assignment", self.opening(task), task=task.id, epoch=task.epoch)
            return True
        if task is None:
            return self.claim()
        if self.take_up(task):
            return True
        if self.record.status is not Status.WAITING:
            self.status(Status.WAITING, self.waits_for(task))
        return False

    def mine(self) -> Task | None:
        """The task that this life of mine holds, by the board."""
        task = self.team.board.held_by(self.name)
        if task is None or task.claim is None or task.claim.instance != self.instance:
            return None
        return task

    def conversation_of(self, task: Task | None) -> bool:
        """Whether the latest conversation is about this assignment; with None: about mail outside of any."""
        records = self.journal.conversation()
        if not records or not isinstance(records[0], Opened):
            return False
        about = (task.id, task.epoch) if task is not None else (None, None)
        return (records[0].task, records[0].epoch) == about

    def claim(self) -> bool:
        """Take the next ready task, if there is one."""
        if self.record.task is not None:
            self.team.keeper.close(self.name)
            self.update(task=None, epoch=None)
        if why := self.runtime.why_no_claims():
            self.rest(why)
            return False
        task = self.team.board.claim(owner=self.name, instance=self.instance, role=self.record.role)
        if task is None:
            self.rest("no task is ready for it")
            return False
        self.say("task", f"claims {task.id} (epoch {task.epoch}): {task.subject}", task=task.id)
        return True

    def take_up(self, task: Task) -> bool:
        """After a restart: an assignment that was left without a result is handed over again, once."""
        anew, self._started_anew = self._started_anew, False
        middle = task.status is TaskStatus.IN_PROGRESS and self.plan_state() is not PlanState.SUBMITTED
        if anew and middle:
            self.loop.tell("unfinished", f"The run was started again. {task.id} is still yours and in progress: go on.")
        return anew and middle

    def report_what_was_left(self) -> None:
        """After a restart: a stretch that had come to its end is reported, if its report was not sent yet."""
        left, self._unreported = self._unreported, False
        if left and self.loop.last_answer() is not None and not self.loop.open():
            self.after_stretch()

    def rest(self, reason: str) -> None:
        if (self.record.status, self.record.reason) != (Status.IDLE, reason):
            self.status(Status.IDLE, reason)

    def bind(self, task: Task) -> None:
        """Open the worktree of a claim and write down what it is bound to."""
        tip = self.team.keeper.tip()
        carry = next(
            (
                found.group(1)
                for change in reversed(task.history)
                if change.epoch == task.epoch - 1 and change.reason and (found := _SNAPSHOT.search(change.reason))
            ),
            None,
        )
        opened = self.team.keeper.open(self.name, task=task.id, epoch=task.epoch, base=tip, carry=carry)
        bound = Assignment(worktree=str(opened.path), branch=opened.branch, base=opened.base)
        self.team.board.bind(task.id, task.epoch, bound)
        self.update(task=task.id, epoch=task.epoch, worktree=str(opened.path))

    def take_mail(self, here: bool) -> None:
        if not here:
            self.open_conversation("mail", "")
        self.stretch(mail=True)

    # ------------------------------------------------------------ a stretch and its end

    def stretch(self, mail: bool = False) -> None:
        """Turns until an answer without tool calls, then say what came of it."""
        self._started_anew = self._unreported = False
        self.status(Status.WORKING, "" if self.record.task is None else f"on {self.record.task}")
        if mail:
            self.loop.deliver()
            if not self.loop.open():
                return  # it had been delivered before a restart
        done = self.loop.run()
        self.runtime.commands.stop_all(self.instance)
        if done:
            self.after_stretch()

    def after_stretch(self) -> None:
        """Report; an assignment that is left in the middle is continued once with what is missing."""
        task = self.mine()
        here = task is not None and self.conversation_of(task)
        text = self.loop.report()
        if task is None or not here:
            opened = self.journal.conversation()[0]
            assert isinstance(opened, Opened)
            self.report(text or "(done)", task=opened.task, epoch=opened.epoch)
            return
        state = self.plan_state()
        if task.status is TaskStatus.IN_PROGRESS and task.wanted is None and state is not PlanState.SUBMITTED:
            if self.loop.told("unfinished") == 0:
                missing = (
                    "its plan: call submit_plan"
                    if state in (PlanState.MISSING, PlanState.REJECTED, PlanState.UNSOUND)
                    else "submit_work (or park or give_up, with the reason)"
                )
                self.loop.tell("unfinished", f"{task.id} is still yours and in progress. Missing is {missing}.")
                return
            self.report(f"no result on {task.id}: {text}", task=task.id, epoch=task.epoch, failed=True)
            self.status(Status.WAITING, "no result")
            return
        self.report(text or self.waits_for(task), task=task.id, epoch=task.epoch)
        self.status(Status.WAITING, self.waits_for(task))

    def waits_for(self, task: Task) -> str:
        if task.status is TaskStatus.SUBMITTED:
            return f"in the queue: {task.id}"
        plan = self.team.requests.plan_of(task.id, task.epoch)
        if plan is not None and self.plan_state() is PlanState.SUBMITTED:
            return f"plan {plan.id} waits for {plan.to}"
        return "no result"

    def stuck(self, reason: str) -> None:
        task = self.mine()
        self.tell_lead("stuck", f"{self.name} cannot go on: {reason}", made_by=f"{self.instance}/{self.turn}/stuck")
        if task is not None and task.status is TaskStatus.IN_PROGRESS:
            kept = self.let_go(task)
            self.team.board.give_up(task.id, task.epoch, by=self.name, reason=with_snapshot(reason, kept))
        else:  # only mail was to be read: what comes next begins anew
            here = task if task is not None and self.conversation_of(task) else None
            at = (here.id, here.epoch) if here is not None else (None, None)
            self.open_conversation("stuck", "", task=at[0], epoch=at[1])
        self.halt.set(reason)

    # ------------------------------------------------------------ what the gate asks

    def bound(self) -> Task | None:
        """The task of the current conversation, if it is still this life's assignment and not wanted back."""
        records = self.journal.conversation()
        opened = records[0] if records else None
        if not isinstance(opened, Opened) or opened.task is None:
            return None
        task = self.team.board.get(opened.task)
        claim = task.claim
        if task.epoch != opened.epoch or claim is None or claim.instance != self.instance or task.wanted is not None:
            return None
        return task

    def current(self) -> Task:
        """The same, or `Refused`."""
        task = self.bound()
        if task is None:
            raise Refused("you hold no task now: end your turn")
        return task

    def holding(self) -> Holding:
        records = self.journal.conversation()
        opened = records[0] if records else None
        if not isinstance(opened, Opened) or opened.task is None:
            return Holding.NOTHING
        task = self.bound()
        if task is None or task.assignment is None:
            return Holding.LOST
        if task.status is TaskStatus.SUBMITTED:
            return Holding.QUEUED
        if self.team.keeper.needs_merge(self.name, task.assignment.base):
            return Holding.UNJOINED
        return Holding.CURRENT

    def plan_state(self) -> PlanState:
        task = self.bound()
        if task is None or not task.requires_plan:
            return PlanState.NOT_NEEDED
        plan = self.team.requests.plan_of(task.id, task.epoch)
        if plan is None:
            return PlanState.MISSING
        if plan.status is RequestStatus.APPROVED:
            return PlanState.APPROVED if plan.soundly_approved else PlanState.UNSOUND
        return PlanState.SUBMITTED if plan.status is RequestStatus.SUBMITTED else PlanState.REJECTED

    def directory(self) -> Path:
        """The worktree of the assignment. Fails closed when task, epoch, branch, path and git disagree."""
        task = self.current()
        bound = task.assignment
        if bound is None:
            raise Refused(f"{task.id} is not bound to a worktree yet")
        path = Path(bound.worktree)
        self.team.keeper.check(self.name, task=task.id, epoch=task.epoch, path=path, branch=bound.branch)
        return path

    def at_boundary(self) -> None:
        """A returned task: merge what the queue saw into the worktree, before the model is told."""
        self.see_what_it_holds()  # nobody is asked about a task that is lost: this host may have slept for long
        task = self.bound()
        if task is None or task.assignment is None or task.status is not TaskStatus.IN_PROGRESS:
            return
        if self.team.keeper.where(self.name) is None:
            self.team.keeper.open(self.name, task=task.id, epoch=task.epoch, base=task.assignment.base)
            self.loop.tell("rebuilt", "Your directory was gone. It was rebuilt from your branch: look what is missing.")
        if self.team.keeper.needs_merge(self.name, task.assignment.base):
            conflicts = self.team.keeper.merge_in(
                self.name, task=task.id, epoch=task.epoch, commit=task.assignment.base
            )
            said = f", conflicts marked in {', '.join(conflicts)}" if conflicts else ""
            self.say("merge", f"the integration branch is merged into the worktree of {self.name}{said}", task=task.id)

    # ------------------------------------------------------------ giving a task back, ending

    def let_go(self, task: Task) -> str | None:
        """Keep what lies in the worktree: the snapshot's commit, for the task's history; None if it is clean."""
        self.runtime.commands.stop_all(self.instance)
        kept = self.team.keeper.snapshot(self.name, label=f"{task.id}-e{task.epoch}")
        return kept.commit if kept is not None else None

    def hand_over(self, task: Task) -> None:
        """Somebody wants the task: snapshot, then make the move that is wanted."""
        assert task.wanted is not None
        kept = self.let_go(task)
        with contextlib.suppress(NotCurrent):  # this host did not answer, and somebody else made the move
            send_outcome(self.team, self.team.board.carry_out(task.id, task.epoch, by=self.name, kept=kept))
            self.say("task", f"{task.id} is taken back: {task.wanted.reason}", task=task.id)
        self.team.keeper.close(self.name)
        self.update(task=None, epoch=None)
        self.halt.clear()

    def shutdowns(self) -> list[Request]:
        """The shutdowns that this life has to obey: those that wait, or were settled just before a crash."""
        obeyed = (RequestStatus.REQUESTED, RequestStatus.ACKNOWLEDGED, RequestStatus.FORCED)
        return [
            request
            for request in self.team.requests.all()
            if request.kind is RequestKind.SHUTDOWN
            and request.to_instance == self.instance
            and request.status in obeyed
        ]

    def shut_down(self, requests: list[Request], *, forced: bool) -> None:
        """End this life: the task goes back, the requests are answered, the worktree is kept as a snapshot."""
        self.give_back()
        status = RequestStatus.FORCED if forced else RequestStatus.ACKNOWLEDGED
        for request in requests:
            if request.open:
                self.team.requests.settle_shutdown(request.id, status=status, by="runtime")
        self.end_life(f"shutdown {requests[0].id}: {requests[0].text or 'asked for'}")
        for request in requests:
            send_owed(self.team.requests, self.team.mail, request)

    def give_back(self) -> None:
        """The task back to the board, the worktree clean and detached."""
        task = self.mine()
        if task is not None and task.status is TaskStatus.IN_PROGRESS:
            kept = self.let_go(task)
            reason = f"{self.name} stopped"
            self.team.board.release(task.id, task.epoch, by="runtime", reason=reason, kept=kept, lost=True)
        if self.record.worktree is not None:
            self.team.keeper.close(self.name)

    def leave(self, reason: str) -> None:
        """Give the task back and end the life."""
        self.give_back()
        self.end_life(reason)

    def look(self) -> None:
        """Also: a task that is wanted, a shutdown whose time is over."""
        for request in filter(lambda each: each.open, self.shutdowns()):
            since = self._deadlines.setdefault(request.id, time.monotonic())
            if time.monotonic() - since >= (request.deadline_s or 0):
                self.halt.set(TOO_LATE)
        with contextlib.suppress(CoterieError):
            self.see_what_it_holds()
        super().look()

    def see_what_it_holds(self) -> None:
        """End what it does where its task was taken from it: wanted back, or moved on while this host was silent."""
        if self.record.task is None or (self.record.status is not Status.WORKING and not self.dispatcher.acts):
            return
        task = self.team.board.get(self.record.task)
        lost = task.epoch != self.record.epoch or task.claim is None
        mine = any(  # it parked it or gave it up: its turn is carried to its end, and its report is sent
            each.epoch == self.record.epoch and each.by == self.name and each.to in HANDED_BACK for each in task.history
        )
        completed = task.status is TaskStatus.COMPLETED and task.epoch == self.record.epoch
        if task.wanted is not None or (lost and not completed and not mine):
            self.halt.set("the task was taken back")

    # ------------------------------------------------------------ what it is told

    def system(self) -> str:
        return prompt(
            PROMPTS,
            "teammate",
            name=self.name,
            team=self.team.name,
            charge=self.record.prompt or "(nothing in particular)",
            instructions=self.runtime.instructions or "(the repository has none)",
        )

    def opening(self, task: Task) -> str:
        """The first message of an assignment."""
        assert task.assignment is not None
        checks = [*task.checks, *[each for each in self.runtime.settings.checks if each not in task.checks]]
        lines = [
            f"# Task {task.id}: {task.subject}",
            f"epoch: {task.epoch}",
            f"directory: {task.assignment.worktree}",
            f"branch: {task.assignment.branch}",
            f"base: {task.assignment.base}",
            f"plan required: {'yes' if task.requires_plan else 'no'}",
            "checks:",
            *(item(check) for check in checks or ["(none)"]),
            "scope:",
            *(item(path) for path in task.scope or ["(not said)"]),
        ]
        lines += ["", wrapped("description", task.description, by=task.created_by)] if task.description else []
        before = [
            f"- {change.at} {change.from_} -> {change.to} by {change.by}: {change.reason}"
            for change in task.history
            if change.epoch and change.epoch < task.epoch and change.reason
        ]
        if before:
            lines += ["", "## Earlier attempts", wrapped("history", "\n".join(before))]
        return "\n".join(lines)

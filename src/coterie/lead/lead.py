"""The lead: an agent with other tools, woken by events, on the same loop as the teammates."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from coterie import files
from coterie.lead.ending import Ending
from coterie.lead.tools import LEAD_COMMANDS, LEAD_TOOLS
from coterie.mailbox import Message
from coterie.teammates.journal import Opened
from coterie.teammates.member import Member, prompt
from coterie.teammates.roster import MemberRecord, Status
from coterie.teammates.team import Runtime

__all__ = ["Lead", "wakes"]

PROMPTS = Path(__file__).parent / "prompts"
_WAKING = frozenset({"note", "notice", "decision", "answer", "shutdown_answer"})


def wakes(message: Message) -> bool:
    """Whether a message is worth a turn of its own: reports of what went well and plain events wait for the next."""
    body = message.body
    return message.kind in _WAKING or bool(getattr(body, "wakes", False)) or bool(getattr(body, "failed", False))


class Lead(Member):
    """The one member that splits the goal, decides and finishes."""

    role: ClassVar[Literal["lead", "teammate"]] = "lead"

    def __init__(self, runtime: Runtime, record: MemberRecord, ending: Ending) -> None:
        kept = runtime.commands.sandbox.read_only_possible
        self.tools = {**LEAD_TOOLS, **LEAD_COMMANDS} if kept else LEAD_TOOLS
        self.ending = ending
        self._directory: Path | None = None
        super().__init__(runtime, record)

    def do_next(self) -> bool:
        if self.runtime.finished.is_set():
            self.end_life("the team has finished")
            return True
        self.halt.clear()
        if not self.journal.conversation():
            self.open_conversation("start", self.opening())
            return True
        if self.loop.open() or any(wakes(each) for each in self.team.mail.waiting(self.name)):
            self.status(Status.WORKING)
            self.refresh()
            self.loop.deliver()
            self.loop.run()
            self.runtime.commands.stop_all(self.instance)
            return True
        if self.record.status is not Status.IDLE:
            self.status(Status.IDLE, "waits for the team")
        return False

    def refresh(self) -> None:
        """Bring the worktree that the lead reads to the integration tip."""
        self._directory = self.team.keeper.reader(self.name, self.team.keeper.tip())

    def directory(self) -> Path:
        if self._directory is None:
            self.refresh()
        assert self._directory is not None
        return self._directory

    def system(self) -> str:
        settings = self.runtime.settings
        plans = {
            "all": "Every task needs an approved plan.",
            "lead": "You say per task whether it needs an approved plan (requires_plan).",
            "none": "No task needs a plan.",
        }[settings.plans_in_force]
        approver = (
            "You decide on plans, with review."
            if settings.approver == "lead"
            else "The human decides on plans, not you."
        )
        split = (
            "The human approves each batch of tasks before it can be claimed."
            if settings.splits == "human"
            else "Tasks can be claimed as soon as they are created."
        )
        return prompt(
            PROMPTS,
            "lead",
            team=self.team.name,
            most=str(settings.teammates),
            plans=f"{plans} {approver} {split}",
            checks="\n".join(f"- {check}" for check in settings.checks) or "- (none are set)",
            instructions=self.runtime.instructions or "(the repository has none)",
        )

    def opening(self) -> str:
        """The goal, and what stands on disk now."""
        team = self.team
        roster = [f"- {each.instance}: {each.status}" for each in team.roster.all() if each.name != self.name]
        rows = [
            f"- {each.task.id} [{each.task.status}{', ready' if each.ready else ''}] {each.task.subject}"
            for each in team.board.view()
        ]
        waiting = [f"- {each.id}: {each.kind} of {each.sender}" for each in team.requests.open_for(self.name)]
        return "\n".join(
            [
                "# Goal",
                team.record.goal,
                "",
                "# Team",
                *(roster or ["(nobody yet)"]),
                f"At most {files.counted(self.runtime.settings.teammates, 'teammate')} at once.",
                "",
                "# Board",
                *(rows or ["(empty)"]),
                "",
                "# Open requests",
                *(waiting or ["(none)"]),
            ]
        )

    def opening_again(self, opened: Opened) -> str:
        """After a compaction: goal, team, board and requests come from disk again."""
        return self.opening()

    def stuck(self, reason: str) -> None:
        """Without a lead nobody splits or decides: stop in order, and a resume tries again."""
        self.runtime.stop(f"the lead cannot go on: {reason}", 1)

"""A host process whose members take their steps one after another in one thread, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.lead.checks import Checks
from coterie.lead.ending import Ending
from coterie.lead.integration import Queue
from coterie.lead.lead import Lead
from coterie.teammates.commands import Commands
from coterie.teammates.journal import Answered, read_journal
from coterie.teammates.member import Member
from coterie.teammates.model import Answer, ModelRequest, ScriptedModel
from coterie.teammates.sandbox import NoSandbox
from coterie.teammates.team import Runtime, Team
from coterie.teammates.teammate import Teammate

Respond = Callable[[ModelRequest], Answer]
STEPS = 60


class Host:
    """Runs the members called `names`, and the queue if it is among them, until nobody has anything to do.

    claims: whether an idle teammate may claim.
    """

    def __init__(self, team: Team, respond: Respond, names: Sequence[str], *, claims: bool = False) -> None:
        self.team = team
        self.names = names
        self.asked = 0
        commands = Commands(team.root / "output", sandbox=NoSandbox())
        self.runtime = Runtime(
            team=team, settings=team.record.settings, model=ScriptedModel(self._counted(respond)), commands=commands
        )
        if team.record.ended is not None:
            self.runtime.finished.set("finished")
        if claims:
            self.runtime.claims_open.set()
        checks = Checks(self.runtime)
        self.ending = Ending(self.runtime, checks)
        self.queue = Queue(self.runtime, checks)
        self.members: dict[str, Member] = {}

    def _counted(self, respond: Respond) -> Respond:
        def answer(request: ModelRequest) -> Answer:
            answered = respond(request)
            self.asked += 1
            return answered

        return answer

    def member(self, name: str) -> Member | None:
        """The member in its present life, its journal repaired; None if that life has ended."""
        record = self.team.roster.get(name)
        if record.status.over:
            return None
        known = self.members.get(name)
        if known is None or known.instance != record.instance:
            known = Lead(self.runtime, record, self.ending) if name == "lead" else Teammate(self.runtime, record)
            self.members[name] = known
            known.update(process=self.team.process)
            known.loop.repair()
        return known

    def drive(self) -> None:
        """Until nothing moves. No answer that was journaled is asked for again."""
        before = self._answers()
        for name in self.names:  # as at a start: journals are repaired before anybody does anything
            if name != "queue":
                self.member(name)
        for _ in range(STEPS):
            moved = "queue" in self.names and self.queue.step()
            for name in self.names:
                member = self.member(name) if name != "queue" else None
                moved = (member is not None and member.do_next()) or moved
            if not moved:
                assert self.asked == self._answers() - before, "the model was asked for what was answered before"
                return
        raise AssertionError(f"after {STEPS} rounds they still move")

    def _answers(self) -> int:
        journals = (self.team.root / "members").glob("*/journal.jsonl")
        return sum(isinstance(each, Answered) for path in journals for each in read_journal(path)[0])

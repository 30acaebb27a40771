"""Whether a call acts: the one place that gathers the facts, asks the gate, and a person where the gate says so."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.errors import CoterieError, Refused
from coterie.mailbox import RequestKind
from coterie.teammates import gate
from coterie.teammates.gate import Facts, Holding, Leave, PlanState, Ruling, Way
from coterie.teammates.permissions import Say
from coterie.teammates.permissions.asking import StillAsked, ask, call_text, leave_of
from coterie.teammates.tool import Arguments, Call, Effect, Tool

if TYPE_CHECKING:
    from coterie.teammates.member import Member

__all__ = ["Dispatcher", "StillAsked"]


@dataclasses.dataclass
class _Acting:
    """The call that is being made, as the gate last let it through."""

    tool: Tool
    call: Call
    text: str  # of the request for leave
    ruling: Ruling
    asked: bool = False  # a person


class Dispatcher:
    """Lets the calls of one member through, or not. `look` may be called from any thread, the rest is the member's."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._rules = member.runtime.rules
        self._acting: _Acting | None = None
        self._read_only: set[str] = set()  # commands that are kept from writing

    @property
    def acts(self) -> bool:
        """Whether a call is being made now, or waits for a person."""
        return self._acting is not None

    @contextlib.contextmanager
    def let_through(self, tool: Tool, arguments: Arguments, call: Call) -> Iterator[Call]:
        """The block is the act; it gets the call with what the gate says of it. Raises `Refused`, or `StillAsked`.

        What `look` can end is registered before the facts are read for the last time: a gate that closed before that
        refuses the act, and one that closes after it ends the act.
        """
        assignment = self._member.assignment()
        text = call_text(tool, arguments, assignment)
        acting = _Acting(tool, call, text, self._ruling(tool, arguments, call, text))
        self._acting = acting
        try:
            while True:
                before = acting.ruling
                acting.ruling = self._ruling(tool, arguments, call, text)
                if acting.ruling.way is Way.SHUT:
                    raise Refused(acting.ruling.why)
                if acting.ruling.way is Way.ASK:
                    acting.asked = True
                    ask(self._member, text, acting.ruling.why, call, assignment)
                elif acting.ruling == before:
                    break
            if tool.effect is Effect.CHANGES and call.cancel.is_set():
                raise Refused(f"not executed: {call.cancel.reason}")
            yield dataclasses.replace(call, read_only=acting.ruling.read_only)
        finally:
            self._acting = None

    def asked(self, key: str) -> bool:
        """Whether a person was asked for leave for the call of this key."""
        request = self._member.team.requests.made_for(key)
        return request is not None and request.kind is RequestKind.PERMISSION

    def kept_read_only(self, command_id: str) -> None:
        """Note that the sandbox keeps a command from writing, so that it may run on while the gate is shut."""
        self._read_only.add(command_id)

    # ------------------------------------------------------------ the facts

    def _ruling(self, tool: Tool, arguments: Arguments, call: Call, text: str) -> Ruling:
        """What the gate says now, by what stands on disk."""
        facts = self._facts(tool.effect, runs=tool.runs)
        if gate.way(facts).way is Way.SHUT:
            return gate.rule(facts)
        command, path = getattr(arguments, "command", None), getattr(arguments, "path", None)
        verdict = self._rules.verdict(
            tool.name,
            changes=tool.effect is Effect.CHANGES,
            command=command if tool.runs else None,
            path=path,
            root=self._root() if path is not None and self._rules.speak_of_paths else None,
        )
        leave = Leave.NOT_ASKED
        if verdict.say is Say.ASK:
            leave = leave_of(self._member.team.requests, call.key, text)
        return gate.rule(dataclasses.replace(facts, verdict=verdict, leave=leave))

    def _root(self) -> Path | None:
        """The worktree; None where there is none, which the tool itself tells."""
        try:
            return self._member.directory()
        except CoterieError:
            return None

    def _facts(self, effect: Effect, *, runs: bool) -> Facts:
        member, changes = self._member, effect is Effect.CHANGES
        return Facts(
            effect=effect,
            role=member.role,
            plan=member.plan_state() if changes else PlanState.NOT_NEEDED,
            holding=member.holding() if changes else Holding.NOTHING,
            runs=runs,
            read_only=member.runtime.commands.sandbox.read_only_possible,
        )

    # ------------------------------------------------------------ seen from another thread

    def look(self) -> None:
        """Something changed on disk: end what must not go on."""
        acting, member = self._acting, self._member
        leave = None
        if acting is not None and acting.asked:
            leave = leave_of(member.team.requests, acting.call.key, acting.text)
        if acting is not None and leave is Leave.REFUSED:
            acting.call.cancel.set("the leave for it was taken back")
        changing = acting if acting is not None and acting.tool.effect is Effect.CHANGES else None
        running = member.runtime.commands.running(member.instance)
        if changing is not None:
            now = self._way(runs=changing.tool.runs)
            if now.way is Way.SHUT or (now.read_only and not changing.ruling.read_only):
                changing.call.cancel.set(now.why)
        if running:
            now = self._way(runs=True)
            for command in running if now.way is Way.SHUT else set(running) - self._read_only if now.read_only else ():
                with contextlib.suppress(Refused):  # it has ended
                    member.runtime.commands.stop(command, now.why)

    def _way(self, *, runs: bool) -> Ruling:
        try:
            return gate.way(self._facts(Effect.CHANGES, runs=runs))
        except CoterieError as error:  # what it holds cannot be told: nothing is changed meanwhile
            return Ruling(Way.SHUT, str(error))

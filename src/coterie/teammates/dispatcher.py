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

_TAKEN_BACK = "the leave for it was taken back"


@dataclasses.dataclass
class _Acting:
    """The call that is being made, as the gate last let it through."""

    tool: Tool
    call: Call
    text: str  # of the request for leave
    ruling: Ruling


class Dispatcher:
    """Lets the calls of one member through, or not. `look` may be called from any thread, the rest is the member's."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._rules = member.runtime.rules
        self._acting: _Acting | None = None
        self._read_only: set[str] = set()  # commands that are kept from writing
        self._by_leave: dict[str, tuple[str, str]] = {}  # commands that a person allowed: the call's key, and its text

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

    def begins(self, command_id: str) -> None:
        """Note what a command of the call that is being made runs by, since it may run on when the call is over.

        One that the sandbox keeps from writing goes on while the gate is shut, and one that a person gave leave for no
        longer than that leave. Called before it begins; raises `Refused` where the call was ended before this.
        """
        acting = self._acting
        if acting is None:
            raise Refused("not executed: the call is over")
        if acting.ruling.read_only:
            self._read_only.add(command_id)
        if acting.ruling.by_leave:
            self._by_leave[command_id] = (acting.call.key, acting.text)
        if acting.call.cancel.is_set():  # after the note: who looks from now on finds the command itself
            raise Refused(f"not executed: {acting.call.cancel.reason}")

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
        if acting is not None and acting.ruling.by_leave and self._taken_back(acting.call.key, acting.text):
            acting.call.cancel.set(_TAKEN_BACK)
        changing = acting if acting is not None and acting.tool.effect is Effect.CHANGES else None
        running = member.runtime.commands.running(member.instance)
        if changing is not None:
            now = self._way(runs=changing.tool.runs)
            if now.way is Way.SHUT or (now.read_only and not changing.ruling.read_only):
                changing.call.cancel.set(now.why)
        for command in running:
            if command in self._by_leave and self._taken_back(*self._by_leave[command]):
                with contextlib.suppress(Refused):
                    member.runtime.commands.stop(command, _TAKEN_BACK)
        if running:
            now = self._way(runs=True)
            for command in running if now.way is Way.SHUT else set(running) - self._read_only if now.read_only else ():
                with contextlib.suppress(Refused):  # it has ended
                    member.runtime.commands.stop(command, now.why)

    def _taken_back(self, key: str, text: str) -> bool:
        return leave_of(self._member.team.requests, key, text) is Leave.REFUSED

    def _way(self, *, runs: bool) -> Ruling:
        try:
            return gate.way(self._facts(Effect.CHANGES, runs=runs))
        except CoterieError as error:  # what it holds cannot be told: nothing is changed meanwhile
            return Ruling(Way.SHUT, str(error))

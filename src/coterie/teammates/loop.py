"""The loop: `run` loops, `step` is one turn. A turn is one model call and the tool results that answer it.

Only here does an error become text for a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coterie import files
from coterie.errors import CoterieError, KeyOrBilling, Refused, UsageError
from coterie.mailbox import Message, render_all
from coterie.teammates.cancel import linked
from coterie.teammates.dispatcher import StillAsked
from coterie.teammates.journal import (
    Answered,
    Delivered,
    Finished,
    Journal,
    Record,
    Spent,
    Started,
    Told,
    messages,
    tool_calls,
    unanswered,
)
from coterie.teammates.model import (
    Answer,
    BadRequest,
    Cancelled,
    ModelRequest,
    Paused,
    PromptTooLong,
    UnknownModel,
    Wait,
)
from coterie.teammates.tool import BadArguments, Call, Tool, ToolResult, explained

if TYPE_CHECKING:
    from coterie.teammates.member import Member

__all__ = ["Loop"]

SAME_FAILURES = 3  # in a row are told to the lead
TOO_MANY_FAILURES = 10  # in a row end the stretch: what goes on like this only costs money
TODO_TURNS = 3
GO_ON = 5  # times in a row that an answer without an end, or whose calls are not run, is continued
RESULT_CAP = 120_000  # characters of one result: a tool has its own, smaller one; this keeps the conversation alive


class Loop:
    """The turns of one member. Everything it knows stands in the member's journal."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.journal: Journal = member.journal

    def run(self) -> bool:
        """A stretch. True if it came to its end; False if it was stopped, and can be gone on with."""
        while self.open():
            if not self.step():
                return False
        return True

    def step(self) -> bool:
        """One turn: deliver mail, ask, journal the answer, act. False if something stopped it."""
        self.deliver()
        answer = self.ask()
        if answer is None:
            return False
        self.act(self.note(answer))
        return not self.stopped()

    def open(self) -> bool:
        """Whether the conversation has something that the model has not answered yet."""
        ended = False
        waiting = False
        for record in self.journal.conversation():
            match record:
                case Answered():
                    ended = waiting = False
                case Finished():
                    ended = ended or record.ends
                    waiting = not ended
                case Told() | Delivered():
                    ended, waiting = False, True
                case _ if record.kind == "conversation":
                    waiting = bool(record.opening)
        return waiting

    def stopped(self) -> bool:
        return self.member.runtime.stop.wanted.is_set() or self.member.halt.is_set()

    # ------------------------------------------------------------ mail

    def deliver(self) -> None:
        """Bring what waits in the mailbox into the conversation, as one record."""
        self.member.at_boundary()

        def journal(mail: list[Message]) -> None:
            self.journal.append(
                Delivered(
                    instance=self.member.instance,
                    turn=self.member.turn + 1,
                    ids=[each.id for each in mail],
                    kinds=[each.kind for each in mail],
                    text=render_all(mail),
                )
            )

        self.member.team.mail.receive(
            self.member.name,
            instance=self.member.instance,
            seen=self.journal.seen,
            journal=journal,
            journal_undelivered=self.member.note_undelivered,
        )
        self.member.urgent.clear()

    def tell(self, reason: str, text: str) -> None:
        """Say something to the model, in the runtime's name."""
        self.journal.append(Told(instance=self.member.instance, reason=reason, text=text))

    # ------------------------------------------------------------ the model

    def ask(self) -> Answer | None:
        """The model's whole answer; None if the team or the member has to stop instead."""
        member, stop = self.member, self.member.runtime.stop
        room = member.runtime.settings.answer_tokens
        while not self.stopped():
            if spent := member.runtime.over_budget():
                stop(spent, 7)
                return None
            opened = self.journal.conversation()
            first = opened[0]
            assert first.kind == "conversation"
            request = ModelRequest(
                model=first.model,
                system=first.system,
                tools=tuple(first.tools),
                messages=tuple(messages(opened)),
                max_tokens=room,
                user_id=f"{member.team.name}/{member.instance}",
            )
            try:
                with linked(stop.at_once, member.halt) as cancel:
                    answer = member.runtime.model.ask(
                        request, cancel=cancel, on_text=member.show_text, on_wait=self.say_wait
                    )
            except Cancelled:
                return None
            except PromptTooLong as error:
                if not member.compact(str(error)):
                    return None
                continue
            except Paused as error:
                stop(f"the model's server asks to wait too long: {error}", 7)
                return None
            except (KeyOrBilling, UsageError) as error:
                if isinstance(error, UnknownModel) and first.model != member.runtime.settings.model:
                    raise  # the lead chose it for this member: that is no reason to stop everybody
                stop(str(error), error.exit_code)
                return None
            except BadRequest as error:
                member.stuck(f"the model's server refused the request: {error}")
                return None
            if answer.stop_reason == "max_tokens" and answer.calls and room == member.runtime.settings.answer_tokens:
                self.journal.append(
                    Spent(
                        instance=member.instance,
                        reason="cut off inside a tool call",
                        usage=answer.usage.model_dump(),
                        usd=None if answer.usd is None else float(answer.usd),
                    )
                )
                room *= 2
                continue
            return answer
        return None

    def say_wait(self, wait: Wait) -> None:
        self.member.say("warning", f"waits {wait.seconds:.0f} s for the model's server: {wait.reason}")

    def note(self, answer: Answer) -> Answered:
        """Journal the answer: from here on it is never asked for again."""
        noted = self.journal.append(
            Answered(
                instance=self.member.instance,
                turn=self.member.turn + 1,
                answer_id=answer.id,
                content=list(answer.content) or [{"type": "text", "text": "(an empty answer)"}],
                stop_reason=answer.stop_reason or "unknown",
                model=answer.model,
                usage=answer.usage.model_dump(),
                usd=None if answer.usd is None else float(answer.usd),
                broken=dict(answer.broken),
            )
        )
        assert isinstance(noted, Answered)
        self.member.count(noted)
        return noted

    # ------------------------------------------------------------ the tools

    def act(self, answer: Answered) -> None:
        """Run the calls of an answer in order, then say what the turn still has to be told."""
        calls = [block for block in answer.content if block.get("type") == "tool_use"]
        hopeless = self.not_run() >= GO_ON
        for index, block in enumerate(calls):
            if answer.stop_reason == "max_tokens":
                text = "not run: your answer was cut off at its limit. Make smaller calls"
                self.result(block, ToolResult(text, is_error=True, ends=hopeless))
            elif answer.stop_reason != "tool_use":
                text = f"not run: the answer ended with {answer.stop_reason}"
                self.result(block, ToolResult(text, is_error=True, ends=hopeless))
            elif why := self.interruption():
                self.result(block, ToolResult(f"not executed: {why}", True))
            elif not self.perform(answer, index, block):
                return
        if not calls and answer.stop_reason in ("max_tokens", "pause_turn") and self.told("go on") < GO_ON:
            self.tell("go on", "Your answer was cut off at its limit: go on from there.")
        elif calls and self.open():
            self.remind()

    def interruption(self) -> str | None:
        """Why the rest of a turn is not executed."""
        for cancel in (self.member.runtime.stop.wanted, self.member.halt, self.member.urgent):
            if cancel.is_set():
                return cancel.reason
        return None

    def perform(self, answer: Answered, index: int, block: dict[str, Any], again: bool = False) -> bool:
        """One call: let through, journaled as started, acted, journaled with its result.

        False if a person still decides about it, since the team stops."""
        member = self.member
        key = self.key(answer, index)

        def started(process: dict[str, Any] | None = None) -> None:
            self.journal.append(
                Started(instance=member.instance, call=block["id"], tool=block["name"], key=key, process=process)
            )

        try:
            if (said := answer.broken.get(block["id"])) is not None:
                raise BadArguments(f"{block['name']}: the arguments are not JSON: {said[:200]}")
            tool = self.tool(block["name"])
            arguments = tool.parse(block["input"])
            with linked(member.runtime.stop.wanted, member.halt, member.urgent) as cancel:
                call = Call(block["id"], key, cancel, again, started)
                with member.dispatcher.let_through(tool, arguments, call) as call:
                    if not again:
                        started()
                    given = tool.act(member, arguments, call)
            result = ToolResult(given) if isinstance(given, str) else given
        except StillAsked:
            return False
        except Exception as error:
            if files.shortage(error):
                raise  # no result: it is done again once there is room, as after a restart
            if isinstance(error, CoterieError):
                result = ToolResult(explained(error, member.tools), is_error=True)
            else:  # a fault in a tool is the tool's: the teammate lives
                result = ToolResult(f"{block['name']} failed: {type(error).__name__}: {error}", is_error=True)
                member.say("warning", f"the tool {block['name']} failed: {type(error).__name__}: {error}")
        if result.is_error and self.same_failures(block, result) >= TOO_MANY_FAILURES:
            ended = f"(this very call has failed {TOO_MANY_FAILURES} times in a row: your turn ends here)"
            result = ToolResult(f"{result.text}\n{ended}", is_error=True, ends=True)
        self.result(block, result)
        if result.is_error:
            self.tell_of_repeats(block, key)
        return True

    def tool(self, name: str) -> Tool:
        try:
            return self.member.tools[name]
        except KeyError:
            raise Refused(f"there is no tool {name[:80]!r}. Yours: {', '.join(sorted(self.member.tools))}") from None

    def result(self, block: dict[str, Any], result: ToolResult) -> None:
        about = {"instance": self.member.instance, "call": block["id"], "tool": block["name"]}
        told = {"text": _capped(result.text), "is_error": result.is_error, "ends": result.ends}
        self.journal.append(Finished(**about, **told, seen=dict(result.seen)))
        self.member.show_call(block, result)

    def repair(self) -> None:
        """Answer the calls that an earlier process left open. Only appends."""
        answer, calls = unanswered(self.journal.conversation())
        if answer is None:
            return
        records = self.journal.conversation()
        started = {each.call for each in records if isinstance(each, Started) and each.seq > answer.seq}
        order = tool_calls(answer)
        for block in calls:
            index, began = order.index(block["id"]), block["id"] in started
            tool = self.member.tools.get(block["name"])
            if (tool is not None and tool.repeats) if began else self.member.dispatcher.asked(self.key(answer, index)):
                if not self.perform(answer, index, block, again=began):
                    return
                continue
            text = "interrupted: it may have taken effect, inspect first"
            text = text if began else "not executed: the run was interrupted before this call began"
            self.result(block, ToolResult(text, is_error=True))

    def key(self, answer: Answered, index: int) -> str:
        """What a call is told by, also after a restart."""
        return f"{self.member.instance}/{answer.seq}/{index}"

    # ------------------------------------------------------------ what the records say

    def told(self, reason: str) -> int:
        """How often the runtime has said this since the member last got mail."""
        times = 0
        for record in reversed(self.journal.conversation()):
            if isinstance(record, Delivered):
                break
            times += isinstance(record, Told) and record.reason == reason
        return times

    def not_run(self) -> int:
        """How many answers in a row, up to the last, had calls that were not run since the answer was not whole."""
        times = 0
        for record in reversed(self.journal.conversation()):
            if isinstance(record, Delivered):
                break
            if isinstance(record, Answered):
                if record.stop_reason == "tool_use" or not tool_calls(record):
                    break
                times += 1
        return times

    def report(self) -> str:
        """The text of the last answer."""
        for record in reversed(self.journal.conversation()):
            if isinstance(record, Answered):
                return "\n".join(block["text"] for block in record.content if block.get("type") == "text").strip()
        return ""

    def last_answer(self) -> Answered | None:
        records = reversed(self.journal.conversation())
        return next((record for record in records if isinstance(record, Answered)), None)

    def remind(self) -> None:
        """Three turns of work without a word of how far it is: ask for the list."""
        turns = 0
        for record in reversed(self.journal.conversation()):
            if isinstance(record, Told) or (isinstance(record, Finished) and record.tool == "todo_write"):
                break
            turns += isinstance(record, Answered)
        if turns >= TODO_TURNS and "todo_write" in self.member.tools:
            self.tell("todo", "Reminder: keep your list with todo_write up to date; others read it.")

    def same_failures(self, block: dict[str, Any], result: ToolResult) -> int:
        """How often in a row this very call has failed in this very way, this time included."""
        this = (block["name"], block["input"], result.text, True)
        times = 1
        for each in reversed(_results(self.journal.conversation())):
            if each != this:
                break
            times += 1
        return times

    def tell_of_repeats(self, block: dict[str, Any], key: str) -> None:
        """Three identical failures in a row are told to the lead."""
        results = _results(self.journal.conversation())
        last = results[-SAME_FAILURES:]
        if len(last) == SAME_FAILURES and all(each == last[0] for each in last) and last[0][3]:
            before = results[-SAME_FAILURES - 1 : -SAME_FAILURES]
            if before != last[:1]:  # said once for a row
                text = f"{self.member.name} fails again and again: {block['name']}: {last[0][2][:500]}"
                self.member.tell_lead("repeated-failure", text, made_by=f"{key}/repeated")


def _capped(text: str) -> str:
    """A result that the conversation can hold, head and tail."""
    if len(text) <= RESULT_CAP:
        return text
    half = RESULT_CAP // 2
    return f"{text[:half]}\n(… {len(text) - 2 * half} characters are left out …)\n{text[-half:]}"


def _results(records: Sequence[Record]) -> list[tuple[str, Any, str, bool]]:
    """The calls that have a result, in order: tool, arguments, text, whether it is an error."""
    inputs: dict[str, Any] = {}
    found = []
    for record in records:
        if isinstance(record, Answered):
            inputs.update({block["id"]: block["input"] for block in record.content if block.get("type") == "tool_use"})
        elif isinstance(record, Finished):
            found.append((record.tool, inputs.get(record.call), record.text, record.is_error))
    return found

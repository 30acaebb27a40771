"""A member as its host runs it: one thread that does what there is to do, one thing at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any, ClassVar, Literal

from coterie import files
from coterie.errors import CoterieError, EnvironmentFault, Refused
from coterie.mailbox import Body, Event, Message, Report, wrapped
from coterie.teammates.cancel import Cancel
from coterie.teammates.dispatcher import Dispatcher
from coterie.teammates.gate import Holding, PlanState
from coterie.teammates.journal import Answered, Ended, Journal, Opened, Undelivered
from coterie.teammates.loop import Loop
from coterie.teammates.roster import MemberRecord, Status, billed
from coterie.teammates.team import Runtime
from coterie.teammates.tool import Tool, ToolResult

__all__ = ["Member"]

POLL = 2.0  # seconds: the slow net under the bell


class Member:
    """What the lead and a teammate have in common: a name, a journal, a loop, and a thread."""

    role: ClassVar[Literal["lead", "teammate"]]
    tools: dict[str, Tool]

    def __init__(self, runtime: Runtime, record: MemberRecord) -> None:
        self.runtime = runtime
        self.team = runtime.team
        self.name = record.name
        self.instance = record.instance
        self.record = record
        self.folder = self.team.roster.folder(self.name)
        self.journal = Journal(
            self.folder / "journal.jsonl", instance=self.instance, report=lambda text: self.say("repair", text)
        )
        self.turn = 0
        self.halt = Cancel()  # what it does now has to end: its task was taken, or its life is being ended
        self.urgent = Cancel()  # a running tool has to end, since an urgent message waits
        self.over = False
        self._paused_at = 0.0
        self.paused: str | None = None  # its thread has ended for lack of this; it goes on as after a restart
        self._streamed = files.RedactedStream()
        self.dispatcher = Dispatcher(self)
        self.loop = Loop(self)
        self.thread = threading.Thread(target=self.live, name=self.instance, daemon=True)
        self.count()

    # ------------------------------------------------------------ its thread

    def live(self) -> None:
        """The life of the thread: until the life of the member ends, or the team stops in order."""
        stop = self.runtime.stop.wanted
        unhook = stop.on(self.team.bell.ring)
        try:
            if self.journal.torn:
                self.say("repair", f"cut {self.journal.torn} torn bytes off the journal of {self.name}")
            self.update(process=self.team.process)
            self.loop.repair()
            while not self.over and not stop.is_set():
                seen = self.team.bell.count()
                self.journal.mend()
                if not self.do_next():
                    self.team.bell.wait(seen, POLL)
            self.journal.mend()
        except Exception as error:
            self.paused, self._paused_at = files.shortage(error), time.monotonic()
            if self.paused is not None:
                self.runtime.commands.stop_all(self.instance)
            elif isinstance(error, OSError):  # the team's files cannot be used: that is nobody's fault in particular
                self.runtime.stop(f"{type(error).__name__}: {error}", EnvironmentFault.exit_code)
            elif not self.runtime.stop.wanted.is_set():
                self.fail(error)
        finally:
            unhook()
            self.team.bell.ring()

    def may_go_on(self, after: float) -> bool:
        """Whether its thread ended for lack of something, at least `after` seconds ago."""
        return self.paused is not None and time.monotonic() - self._paused_at >= after

    def do_next(self) -> bool:
        """Do the next thing there is to do; False if there is nothing."""
        raise Refused(f"{type(self).__name__} has nothing to do")  # pragma: no cover - every member says its own

    def fail(self, error: Exception) -> None:
        """A fault of ours: this member's life ends, and everybody is told. The others go on."""
        reason = f"{type(error).__name__}: {error}"
        self.over = True
        self.runtime.commands.stop_all(self.instance)
        with contextlib.suppress(CoterieError, OSError):
            self.say("warning", f"{self.name} failed: {reason}")
            self.update(status=Status.FAILED, reason=reason[:500])
            self.tell_lead("member-failed", f"{self.name} failed: {reason}", made_by=f"{self.instance}/failed")

    # ------------------------------------------------------------ what it says of itself

    def update(self, **changes: Any) -> None:
        """Change this member's record."""
        before = self.record
        self.record = self.team.roster.update(self.name, self.instance, **changes)
        if (before.status, before.reason) != (self.record.status, self.record.reason):
            text = f"{self.record.status}" + (f": {self.record.reason}" if self.record.reason else "")
            self.say("member", text, status=str(self.record.status))

    def status(self, status: Status, reason: str = "") -> None:
        self.update(status=status, reason=reason)

    def say(self, kind: str, text: str, **fields: Any) -> None:
        """An event about this member."""
        self.team.events.say(kind, text, member=self.name, **fields)

    def show_text(self, text: str, *, last: bool = False) -> None:
        """A piece of an answer while it streams. last: the answer is whole."""
        if shown := self._streamed.feed(text, last=last):
            self.team.events.show({"at": files.now(), "kind": "text", "text": shown, "member": self.name})

    def show_call(self, block: dict[str, Any], result: ToolResult) -> None:
        self.say(
            "tool",
            f"{block['name']} {_short(block['input'])}",
            tool=block["name"],
            is_error=result.is_error,
            result=result.text[:300],
        )

    def count(self, answer: Answered | None = None) -> None:
        """Take turn, tokens and money from the journal, which has every call that was paid for."""
        tokens, usd = billed(self.journal.records)
        self.turn = sum(isinstance(record, Answered) for record in self.journal.records)
        self.update(turn=self.turn, tokens=tokens, usd=usd)
        if answer is not None:
            self.show_text("", last=True)
            self.say("answer", f"turn {self.turn}", usage=answer.usage, usd=answer.usd, turn=self.turn)

    def read_roots(self) -> tuple[Path, ...]:
        """The folders beside its own directory in which its file tools may read."""
        return tuple(Path(each) for each in self.runtime.settings.read_roots)

    # ------------------------------------------------------------ conversations

    def open_conversation(
        self, reason: str, opening: str, *, task: str | None = None, epoch: int | None = None
    ) -> None:
        """Begin a conversation: its system text, tools and model stay as they are now."""
        number = sum(isinstance(record, Opened) for record in self.journal.records) + 1
        self.journal.append(
            Opened(
                instance=self.instance,
                number=number,
                reason=reason,
                task=task,
                epoch=epoch,
                system=self.system(),
                tools=[tool.schema() for tool in self.tools.values()],
                model=self.runtime.settings.model if self.record.model == "" else self.record.model,
                opening=opening,
            )
        )

    def system(self) -> str:
        """The system text of a conversation that begins now."""
        raise Refused("a member has its own system text")  # pragma: no cover - every member says its own

    def compact(self, why: str) -> bool:
        """Begin again with a summary, since the conversation is too long for the model. False if that cannot help."""
        opened = self.journal.conversation()[0]
        assert isinstance(opened, Opened)
        if opened.reason == "compacted" and not any(isinstance(each, Answered) for each in self.journal.conversation()):
            self.stuck(f"the conversation is too long for the model even after compaction: {why}")
            return False
        self.open_conversation("compacted", self.summary(opened), task=opened.task, epoch=opened.epoch)
        self.say("warning", f"the conversation was too long and was compacted: {why[:200]}")
        return True

    def summary(self, opened: Opened) -> str:
        """What a compacted conversation begins with."""
        todo = "\n".join(f"- [{each['status']}] {each['text']}" for each in self.team.roster.get(self.name).todo)
        texts = [
            block["text"]
            for record in self.journal.conversation()
            if isinstance(record, Answered)
            for block in record.content
            if block.get("type") == "text"
        ]
        parts = [
            self.opening_again(opened),
            "# So far\nThis conversation was too long and begins again. What you said last:",
            wrapped("said", "\n\n".join(texts)[-8000:]),
            f"Your list:\n{todo}" if todo else "",
            "What you changed is in your worktree: inspect it before you go on.",
        ]
        return "\n\n".join(part for part in parts if part)

    def opening_again(self, opened: Opened) -> str:
        """What a conversation began with, without the summaries of earlier compactions."""
        said = opened.opening
        return said.rpartition("\n\n# So far\n")[0] if opened.reason == "compacted" else said

    # ------------------------------------------------------------ hooks of the loop

    def at_boundary(self) -> None:
        """Something that has to be done before mail is delivered."""

    def directory(self) -> Path:
        """The worktree that its tools act in. Raises `Refused` where there is none."""
        raise Refused("there is no directory")  # pragma: no cover - every member says its own

    def assignment(self) -> tuple[str, int] | None:
        """The task and epoch of the current conversation; None where it is about neither."""
        opened = next(iter(self.journal.conversation()), None)
        if not isinstance(opened, Opened) or opened.task is None or opened.epoch is None:
            return None
        return opened.task, opened.epoch

    def stuck(self, reason: str) -> None:
        """The model cannot go on with this conversation."""
        self.halt.set(reason)

    def plan_state(self) -> PlanState:
        return PlanState.NOT_NEEDED

    def holding(self) -> Holding:
        return Holding.NOTHING

    # ------------------------------------------------------------ seen from outside its thread

    def look(self) -> None:
        """Called whenever something changed, from another thread: end what must not go on."""
        if self.dispatcher.acts and any(each.urgent for each in self.team.mail.waiting(self.name)):
            self.urgent.set("interrupted by an urgent message")
        self.dispatcher.look()

    # ------------------------------------------------------------ mail it sends

    def send(self, body: Body, to: str, *, made_by: str | None = None, urgent: bool = False) -> None:
        """A message in this member's name: the envelope comes from here, never from a model."""
        self.team.mail.send(
            body, sender=self.name, sender_instance=self.instance, to=to, urgent=urgent, made_by=made_by
        )
        self.say("message", files.clean(body.text, 400), to=to, what=type(body).__name__.lower())

    def tell_lead(self, event: str, text: str, *, made_by: str, task: str | None = None) -> None:
        """An event that the lead should hear at once."""
        with contextlib.suppress(CoterieError):  # a team whose lead is gone has nobody to tell
            self.team.mail.send(
                Event(text=text, event=event, task=task, wakes=True),
                sender="runtime",
                sender_instance=None,
                to="lead",
                made_by=made_by,
            )

    def report(self, text: str, *, task: str | None, epoch: int | None, failed: bool = False) -> None:
        """The last text of a stretch, to the lead; once for each answer, however often it is tried."""
        answer = self.loop.last_answer()
        if answer is None or self.name == "lead":
            return
        with contextlib.suppress(CoterieError):
            self.send(
                Report(text=text[:60_000], task=task, epoch=epoch, failed=failed),
                "lead",
                made_by=f"{self.instance}/{answer.seq}/report",
            )

    # ------------------------------------------------------------ the end of a life

    def end_life(self, reason: str) -> None:
        """The last act: unread mail is told back, the record says stopped."""
        self.over = True
        self.status(Status.STOPPING, reason)

        self.journal.append(Ended(instance=self.instance, reason=reason))
        self.update(status=Status.STOPPED, reason=reason, task=None, epoch=None)  # from here on nobody can write to it
        self.team.mail.end_of_life(
            self.name, instance=self.instance, seen=self.journal.seen, journal_undelivered=self.note_undelivered
        )

    def note_undelivered(self, mail: list[Message]) -> None:
        """Mail that this life never read."""
        self.journal.append(Undelivered(instance=self.instance, ids=[each.id for each in mail]))


def _short(arguments: Any) -> str:
    """The arguments of a call on one short line."""
    if not isinstance(arguments, dict):
        return ""
    shown = []
    for key, value in arguments.items():
        text = value if isinstance(value, str) else str(value)
        text = files.clean(text.strip().split("\n")[0], 80)
        shown.append(text if len(arguments) == 1 or key in ("path", "command", "task_id") else f"{key}={text}")
    return " ".join(shown)[:160]


def prompt(folder: Path, file: str, /, **values: str) -> str:
    """A prompt file with its {{fields}} filled."""
    text = (folder / f"{file}.md").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", value)
    return text

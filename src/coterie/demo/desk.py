"""How a script is written: as if each tool answered at once.

A script is run from its beginning for every request. What the conversation shows to be done is passed over; the first
thing that is not ends the run with `Next`, which is the answer. So a script needs no memory of its own, and goes on
after a kill where the conversation is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from coterie.demo.reading import Call, Conversation, Mail, Said
from coterie.demo.reply import Reply, text, tool_use
from coterie.demo.surgery import smallest_edit

__all__ = ["Desk", "Next", "Ran"]

Made = tuple[str, dict[str, Any]]  # a call to be made: tool and arguments

TRIES = 3  # of one call that fails


class Next(Exception):
    """What to answer now."""

    def __init__(self, reply: Reply) -> None:
        super().__init__("the next answer")
        self.reply = reply


@dataclass(frozen=True)
class Ran:
    """What a command said."""

    green: bool
    output: str


class Desk:
    """A conversation, and what can be asked of it."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self._saying = ""
        returns = [number for number, item in enumerate(talk.items, 1) if _returned(item)]
        start = returns[-1] if returns else 0
        # what came after the work was last given back, and what was said since
        self._since: list[Call | Mail | Said] = talk.items[start:]
        self._spoken = "\n".join(words for number, words in talk.spoken if number >= start)

    # ------------------------------------------------------------ answering

    def say(self, words: str) -> None:
        """What the next answer begins with."""
        self._saying = words

    def answer(self, *calls: Made) -> NoReturn:
        """End the run with these calls, or with words alone. What was said already is not said again beside calls."""
        notes = [f"Noted, {each.sender}: {each.text.strip()[:200]}" for each in self.talk.news if each.kind == "note"]
        said = calls and self._saying in self._spoken
        words = "\n\n".join([*notes, *([] if said or not self._saying else [self._saying])])
        words = words or ("" if calls else "Done.")
        blocks = [text(words)] if words else []
        raise Next(Reply(content=(*blocks, *(tool_use(name, **arguments) for name, arguments in calls))))

    def stuck(self, why: str) -> NoReturn:
        """This cannot be done: hand the task back with the reason."""
        if not self.talk.calls("give_up"):
            self.answer(("give_up", {"reason": why}))
        self.say(f"I cannot go on: {why}")
        self.answer()

    def make(self, *calls: Made, ever: bool = False) -> list[Call]:
        """The latest results of these calls since the work was given back; those that lack one are made, together.

        ever: a result from before that counts too.
        """
        found = [self._latest(*call, self.talk.items if ever else self._since) for call in calls]
        missing = [call for call, done in zip(calls, found, strict=True) if done is None]
        for name, arguments in missing:
            if self._failures(name, arguments) >= TRIES:
                self.stuck(f"{name} fails again and again")
        if missing:
            self.answer(*missing)
        return [each for each in found if each is not None]

    def _latest(self, name: str, arguments: dict[str, Any], items: list[Call | Mail | Said]) -> Call | None:
        """The last of such calls that came to its end, well or badly."""
        same = [item for item in items if isinstance(item, Call) and (item.name, item.input) == (name, arguments)]
        return next((item for item in reversed(same) if not item.undone), None)

    def _failures(self, name: str, arguments: dict[str, Any]) -> int:
        """How often such a call has failed since the work was given back; a file that is not there is no failure."""
        same = [item for item in self._since if isinstance(item, Call) and (item.name, item.input) == (name, arguments)]
        return sum(item.is_error and not item.undone and not _missing(item) for item in same)

    @property
    def returned(self) -> Mail | None:
        """The message by which the work was last given back."""
        return next(iter(reversed(self.talk.mail("returned"))), None)

    # ------------------------------------------------------------ looking

    def read(self, *paths: str) -> list[str]:
        """The content of files as they are now; empty where there is no such file."""
        known = {path: self._known(path) for path in paths}
        if missing := [path for path, content in known.items() if content is None]:
            calls: list[Made] = [("read_file", {"path": path}) for path in missing]
            for name, arguments in calls:
                if self._failures(name, arguments) >= TRIES:
                    self.stuck(f"{arguments['path']} cannot be read")
            self.answer(*calls)
        return [content or "" for content in known.values()]

    def first(self, path: str) -> str:
        """The content of a file as it was when this conversation first read it."""
        for item in self.talk.calls("read_file"):
            if item.ok and item.input.get("path") == path:
                return _content(item.result or "")
        return self.read(path)[0]

    def _known(self, path: str) -> str | None:
        """What the conversation shows of a file: what was read, changed since by our own calls. None: read it."""
        content: str | None = None
        for item in self.talk.items:
            if _returned(item) or (isinstance(item, Call) and item.name == "sync"):
                content = None  # others' work was merged
            if not isinstance(item, Call):
                continue
            if item.name == "bash" and item.input.get("command") == f"rm -f {path}":
                content = "" if item.ok else None
            if item.input.get("path") != path:
                continue
            match item.name, item.ok:
                case "read_file", True:
                    content = _content(item.result or "")
                case "read_file", False if _missing(item):
                    content = ""
                case "write_file", True:
                    content = str(item.input["content"])
                case "edit_file", True if content is not None:
                    content = content.replace(item.input["old_text"], item.input["new_text"])
                case "write_file" | "edit_file", False:
                    content = None
        return content

    def glob(self, pattern: str) -> list[str]:
        """Names of files, as of the time since the work was given back."""
        (found,) = self.make(("glob", {"pattern": pattern}))
        return (found.result or "").splitlines() if found.ok else []

    def grep(self, pattern: str) -> list[str]:
        """Names of Python files with a line that matches, likewise."""
        (found,) = self.make(("grep", {"pattern": pattern, "glob": "*.py"}))
        lines = (re.match(r"(.+?):\d+: ", line) for line in (found.result or "").splitlines())
        return sorted({line[1] for line in lines if line}) if found.ok else []

    # ------------------------------------------------------------ changing

    def put(self, wanted: Mapping[str, Callable[[str], str]]) -> None:
        """Files are to be what the functions make of them. A function leaves alone what is so already."""
        contents = dict(zip(wanted, self.read(*wanted), strict=True))
        calls: list[Made] = []
        for path, change in wanted.items():
            old, new = contents[path], change(contents[path])
            if old and old != new:
                before, after = smallest_edit(old, new)
                calls.append(("edit_file", {"path": path, "old_text": before, "new_text": after}))
            elif old != new:
                calls.append(("write_file", {"path": path, "content": new}))
        self._change(calls)

    def create(self, wanted: Mapping[str, str]) -> None:
        """New files are to have this content."""
        mine = {each.input.get("path") for each in self.talk.calls("write_file") if each.ok}
        known = dict(zip(wanted, self.read(*wanted), strict=True)) if mine >= set(wanted) else {}
        self._change(
            [
                ("write_file", {"path": path, "content": content})
                for path, content in wanted.items()
                if known.get(path, self._known(path)) != content
            ]
        )

    def _change(self, calls: list[Made]) -> None:
        for name, arguments in calls:
            if self._failures(name, arguments) >= TRIES:
                self.stuck(f"{arguments['path']} cannot be changed")
        if calls:
            self.answer(*calls)

    def remove(self, path: str, *, again: bool = False) -> None:
        """A file is to be gone; `again`: it may have come back since the work was given back."""
        self.make(("bash", {"command": f"rm -f {path}"}), ever=not again)

    def run(self, command: str) -> Ran:
        """What a command says of the files as they are now."""
        ran: Call | None = None
        for item in self._since:
            if isinstance(item, Call) and item.name in ("write_file", "edit_file", "sync"):
                ran = None
            elif isinstance(item, Call) and item.name == "bash":
                ran = item if item.input.get("command") == command else None if "rm -f" in str(item.input) else ran
        if ran is None or not (ran.result or "").startswith("exit code:"):
            if self._failures("bash", {"command": command}) >= TRIES:
                self.stuck(f"{command} does not come to an end")
            self.answer(("bash", {"command": command}))
        return Ran(not ran.is_error, ran.result or "")

    # ------------------------------------------------------------ the team

    def list_todo(self, *texts: str, done: bool = False) -> None:
        """Show what is to do, all done or the first in hand."""
        states = ["completed"] * len(texts) if done else ["in_progress", *["pending"] * (len(texts) - 1)]
        items = [{"text": words, "status": state} for words, state in zip(texts, states, strict=True)]
        self.make(("todo_write", {"items": items}))

    def tell_owner(self, subject: str, words: str) -> None:
        """A message to whoever holds a task now, if somebody else does; once."""
        if any(not each.undone for each in self.talk.calls("send_message")):
            return
        (found,) = self.make(("list_tasks", {}))
        rows = json.loads(found.result or "[]") if found.ok else []
        owner = next((row["owner"] for row in rows if row["subject"] == subject), None)
        if owner not in (None, self.talk.member):
            self.answer(("send_message", {"to": owner, "text": words}))

    def plan(self, first: str, revised: str) -> None:
        """Where a plan is required: show it, wait for the decision, revise it as asked."""
        if self.talk.headed("plan required") != "yes":
            return
        request, decision, feedback = "", "", ""
        rejected = False
        for item in self.talk.items:
            if isinstance(item, Call) and item.name == "submit_plan" and item.ok:
                request, decision = str(json.loads(item.result or "{}").get("request")), ""
            if isinstance(item, Mail) and item.kind == "decision" and item.fields.get("request") == request:
                decision, feedback = item.fields.get("decision", ""), item.text.strip()
                rejected = rejected or decision == "rejected"
        if decision == "approved":
            return
        if request and not decision:
            self.say("My plan waits for a decision.")
            self.answer()
        words = f"{revised}\n\nRevised as asked: {feedback}" if rejected else first
        if self._failures("submit_plan", {"plan": words}) >= TRIES:
            self.stuck("the plan cannot be submitted")
        self.answer(("submit_plan", {"plan": words}))

    def hand_in(self, summary: str) -> None:
        """Submit the work, once since it was given back."""
        tried = [item for item in self._since if isinstance(item, Call) and item.name == "submit_work"]
        if any(item.ok for item in tried):
            return
        if len([item for item in tried if not item.undone]) >= TRIES:
            self.stuck("the work cannot be submitted")
        same = any("no_change" in (item.result or "") for item in tried)
        self.answer(("submit_work", {"summary": summary, **({"no_change": True} if same else {})}))


def _returned(item: Call | Mail | Said) -> bool:
    return isinstance(item, Mail) and item.kind == "returned"


def _missing(item: Call) -> bool:
    return (item.result or "").startswith("there is no file")


def _content(shown: str) -> str:
    """The text of a file from its numbered lines."""
    lines = [line.partition("\t")[2] for line in shown.splitlines() if re.match(r" *\d+\t", line)]
    return "\n".join(lines) + "\n" if lines else ""

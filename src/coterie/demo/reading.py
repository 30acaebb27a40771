"""What a request shows: who asks, what it was told first, and everything since, in order.

A conversation is one assignment (or the lead's whole run). A script decides from this and from nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Call", "Conversation", "Mail", "Said", "read"]

WHO = re.compile(r"(?P<team>[^/]+)/(?P<member>[^#/]+)#(?P<life>\d+)")
ENVELOPE = re.compile(
    r'<message-(?P<boundary>\w+) kind="(?P<kind>\w+)" from="(?P<sender>[^"]*)" id="(?P<id>[^"]*)"[^>]*>\n'
    r"(?P<inside>.*?)\n</message-(?P=boundary)>",
    re.DOTALL,
)
UNDONE = ("not executed", "interrupted")  # how the results of calls begin that did not come to their end


@dataclass
class Call:
    """A call of a tool and what came of it; `result` is None where the conversation does not show one."""

    name: str
    input: dict[str, Any]
    result: str | None = None
    is_error: bool = False

    @property
    def ok(self) -> bool:
        return self.result is not None and not self.is_error

    @property
    def undone(self) -> bool:
        """It was not begun, or was broken off: it may be made again."""
        return self.result is None or (self.is_error and self.result.startswith(UNDONE))


@dataclass(frozen=True)
class Mail:
    """A message: its envelope, its fields by name, its text, and the output of a check where it has one."""

    kind: str
    sender: str
    fields: dict[str, str]
    text: str
    output: str = ""


@dataclass(frozen=True)
class Said:
    """Something the runtime said in its own name."""

    text: str


@dataclass
class Conversation:
    """All that a request shows."""

    team: str = ""
    member: str = ""
    opening: str = ""
    # after the opening, in the order of time
    items: list[Call | Mail | Said] = field(default_factory=list)
    # how many of the items had been answered when the request was made
    answered: int = 0
    # the texts of the answers so far, each with the number of items before it
    spoken: list[tuple[int, str]] = field(default_factory=list)

    def calls(self, name: str | None = None) -> list[Call]:
        return [item for item in self.items if isinstance(item, Call) and name in (None, item.name)]

    def mail(self, kind: str | None = None) -> list[Mail]:
        return [item for item in self.items if isinstance(item, Mail) and kind in (None, item.kind)]

    @property
    def news(self) -> list[Mail]:
        """The messages that the model has not answered yet."""
        return [item for item in self.items[self.answered :] if isinstance(item, Mail)]

    def headed(self, name: str) -> str:
        """The value of a `name: value` line of the opening; empty where there is none."""
        found = re.search(rf"^{re.escape(name)}: (.*)$", self.opening, re.MULTILINE)
        return found.group(1).strip() if found else ""


def read(request: dict[str, Any]) -> Conversation:
    """The conversation that a request of the Messages API carries. Never raises for what models or people wrote."""
    talk = Conversation()
    who = WHO.fullmatch(str((request.get("metadata") or {}).get("user_id") or ""))
    if who is not None:
        talk.team, talk.member = who["team"], who["member"]
    open_calls: dict[str, Call] = {}
    for number, message in enumerate(request["messages"]):
        if message["role"] == "assistant":
            talk.answered = len(talk.items)
        for block in _blocks(message["content"]):
            match block["type"], message["role"]:
                case "tool_use", _:
                    open_calls[block["id"]] = call = Call(block["name"], dict(block["input"]))
                    talk.items.append(call)
                    talk.answered = len(talk.items)
                case "tool_result", _:
                    call = open_calls[block["tool_use_id"]]
                    call.result, call.is_error = _plain(block.get("content")), bool(block.get("is_error"))
                case "text", "assistant":
                    talk.spoken.append((len(talk.items), block["text"]))
                case "text", "user":
                    _told(talk, block["text"], first=number == 0)
    return talk


def _told(talk: Conversation, text: str, *, first: bool) -> None:
    """A text of a user message: envelopes, the opening, or a word of the runtime's."""
    letters = list(ENVELOPE.finditer(text))
    if not letters:
        if first and not talk.opening:
            talk.opening = text
        else:
            talk.items.append(Said(text))
    talk.items.extend(_letter(letter) for letter in letters)


def _letter(found: re.Match[str]) -> Mail:
    inside = "\n" + found["inside"]
    head, _, output = inside.partition("\noutput:\n")
    head, _, text = inside.partition("\ntext:\n") if not output else (head, "", "")
    if output:
        output, _, text = output.rpartition("\ntext:\n")
    pairs = (line.partition(": ") for line in head.splitlines() if ": " in line)
    return Mail(
        found["kind"], found["sender"].partition("#")[0], {name: value for name, _, value in pairs}, text, output
    )


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _plain(content: Any) -> str:
    return "\n".join(str(block.get("text", "")) for block in _blocks(content or ""))

"""Messages as a model sees them: a typed envelope with a boundary that nobody could have guessed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping

from coterie.files import CONTROL
from coterie.mailbox.message import Message

_UNQUOTED = re.compile(r'["<>\s]')
_BLOCKS = frozenset({"text", "output"})


def render(message: Message, boundary: str | None = None) -> str:
    """One message as text.

        <message-5f0c… kind="decision" from="lead#1" id="0000000012-ada">
        request: R4
        decision: rejected
        text:
        …
        </message-5f0c…>

    boundary: drawn afresh where it is missing, or stands in the message: what a sender writes can therefore neither end
    its envelope nor begin another. The rendering is what a journal keeps; a second one has another boundary.
    """
    sender = message.sender_instance or message.sender
    urgent = {"urgent": "true"} if message.urgent else {}
    about = {"kind": str(message.kind), "from": sender, "id": message.id, **urgent}
    return _enclosed("message", _inside(message), about, boundary)


def wrapped(name: str, text: str, **about: str) -> str:
    """Foreign text that is no message, such as a task's description, in an envelope of its own: `<name-5f0c… …>`."""
    return _enclosed(name, _shown(text), about, None)


def item(text: str) -> str:
    """One of a list, on a line; what goes on in another is indented: it is none of the lines around the list."""
    return "- " + text.replace("\n", "\n  ")


def _enclosed(name: str, inside: str, about: Mapping[str, str], boundary: str | None) -> str:
    while boundary is None or not boundary or boundary in inside:
        boundary = secrets.token_hex(12)
    head = "".join(f' {key}="{_UNQUOTED.sub("", value)}"' for key, value in about.items())
    return f"<{name}-{boundary}{head}>\n{inside}\n</{name}-{boundary}>"


def render_all(messages: Iterable[Message]) -> str:
    """Several messages in their order, each in an envelope of its own."""
    return "\n\n".join(render(message) for message in messages)


def _inside(message: Message) -> str:
    body = message.body
    lines = []
    for field in type(body).model_fields:
        value = getattr(body, field)
        if value is None or field in _BLOCKS:
            continue
        lines.append(f"{field}: {_line(value)}")
    output = getattr(body, "output", None)
    if output is not None:
        lines.append(f"output:\n{_shown(output)}")
    lines.append(f"text:\n{_shown(body.text)}")
    return "\n".join(lines)


def _line(value: object) -> str:
    """A value on one line: a file name with a newline in it must not look like another field."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(_line(each) for each in value)
    if isinstance(value, float):
        return f"{value:g}"
    return _shown(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def _shown(text: str) -> str:
    return CONTROL.sub("", text)  # nor what is invisible to a person

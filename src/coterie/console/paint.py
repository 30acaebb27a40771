"""Text for people: colours where they are wanted, columns that fit, and characters that the output can show."""

from __future__ import annotations

import os
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import IO, Any

from coterie.files import clean

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_PLAIN = str.maketrans({"…": "...", "→": "->", "·": "-", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"'})
Cell = tuple[str, str] | str  # text, or text and style
NARROW = 8  # columns: what the widest column may be cut to before the table becomes a list


def soften(stream: Any) -> None:
    """What `stream` cannot encode is shown as `?`, not raised. Streams that cannot be told are left alone."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


class Paper:
    """Where text is written to: knows the width and whether colours are wanted.

    width: columns; None where nobody looks through a window of that width, so that nothing is cut for a pipe.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout
        terminal = self.stream.isatty()
        self.colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = _width(self.stream, terminal)
        self._ascii = not (getattr(self.stream, "encoding", None) or "utf-8").lower().startswith("utf")

    def say(self, text: str = "") -> None:
        """One line, or several; as they are."""
        self.stream.write((text.translate(_PLAIN) if self._ascii else text) + "\n")

    def prose(self, text: str, style: str = "") -> None:
        """A sentence of ours, broken between words where it is wider than the window."""
        lines = [text] if self.width is None else textwrap.wrap(text, max(self.width, NARROW)) or [""]
        for line in lines:
            self.say(self.style(line, style) if style else line)

    def style(self, text: str, style: str) -> str:
        """`text` in a style, such as `bold red`; plain where colours are not wanted."""
        codes = ";".join(_CODES[each] for each in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour and codes else text

    def fit(self, text: str, used: int = 0) -> str:
        """`text` on one line, cut to what is left of the width after `used` columns."""
        line = one_line(text)
        return line if self.width is None else cut(line, max(NARROW, self.width - used))

    def table(self, head: Sequence[str], rows: Iterable[Sequence[Cell]], *, stretch: int) -> None:
        """Rows in columns. Column `stretch` gives way where the width does not suffice; then each row is a block."""
        cells = [[(each, "") if isinstance(each, str) else each for each in row] for row in rows]
        widths = [
            max((_columns(row[index][0]) for row in cells), default=0) if cells else 0 for index in range(len(head))
        ]
        widths = [max(width, len(title)) for width, title in zip(widths, head, strict=True)]
        if self.width is not None:
            over = sum(widths) + 2 * (len(widths) - 1) - self.width
            if over > 0:
                if widths[stretch] - over < NARROW:
                    self._blocks(head, cells)
                    return
                widths[stretch] -= over
        titles = "  ".join(pad(each, width) for each, width in zip(head, widths, strict=True))
        self.say(self.style(titles.rstrip(), "dim"))
        for row in cells:
            shown = [
                self.style(pad(cut(text, width), width), style)
                for (text, style), width in zip(row, widths, strict=True)
            ]
            self.say("  ".join(shown).rstrip())

    def _blocks(self, head: Sequence[str], cells: Sequence[Sequence[tuple[str, str]]]) -> None:
        for row in cells:
            self.say(self.style(self.fit(row[0][0]), "bold"))
            for title, (text, style) in zip(head[1:], row[1:], strict=True):
                if text.strip(" -"):
                    label = f" {title}: "
                    self.say(label + self.style(self.fit(text, len(label)), style))


def one_line(text: str, cap: int = 2000) -> str:
    """Foreign text on one line, without control sequences."""
    return " ".join(clean(text, cap).split())


def block(text: str, indent: str = "  ") -> str:
    """Foreign text as an indented block, without control sequences."""
    return "\n".join(f"{indent}{line}".rstrip() for line in clean(text, 1 << 20).split("\n"))


def cut(text: str, width: int) -> str:
    """At most `width` columns of `text`."""
    if _columns(text) <= width:
        return text
    while text and _columns(text) > width - 1:
        text = text[:-1] if len(text) <= width else text[:width]
    return f"{text}…"


def pad(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))


def money(usd: float | None) -> str:
    """Dollars for people; `?` where a price is not known."""
    return "$?" if usd is None else f"${usd:.4f}" if usd < 1 else f"${usd:.2f}"


def count(number: int) -> str:
    """A number of tokens for people: 950, 12.3k, 4.56M."""
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.2f}M"


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _width(stream: IO[str], terminal: bool) -> int | None:
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if not terminal:
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None

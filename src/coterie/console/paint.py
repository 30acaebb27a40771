"""Text for people: colours where they are wanted, columns that fit, and characters that the output can show."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import IO, Any

from coterie.files import CONTROL, as_json, clean, redacted

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
_UNSEEMLY = re.compile(rf"(\x1b\[(?:[012]|3[1-6])(?:;(?:[012]|3[1-6]))*m)|{CONTROL.pattern}")
Cell = tuple[str, str] | str  # text, or text and style
_COMMIT = re.compile(r"\b([0-9a-f]{12})(?:[0-9a-f]{28}|[0-9a-f]{52})\b")
NARROW = 8  # columns: what the widest column may be broken to before the table becomes a list
NARROW_WINDOW = 50  # columns: below this nothing is indented deeply


def soften(stream: Any) -> None:
    """What `stream` cannot encode is shown as `?`, not raised. Streams that cannot be told are left alone."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


def print_json(data: Any, *, indent: int | None = None) -> None:
    """A line of JSON on standard output, or several. A terminal may show it too: see `files.as_json`."""
    sys.stdout.write(redacted(as_json(data, indent=indent, default=str)) + "\n")


class Paper:
    """Where text is written to: knows the width and whether colours are wanted.

    A sentence is broken between words at the width and never cut; only what is a preview is (`fit`, a cell's last
    line). A word that is wider than the window stays whole, so that a path or a command can be copied.
    """

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream if stream is not None else sys.stdout
        self._terminal = self.stream.isatty()
        self.colour = self._terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._ascii = not (getattr(self.stream, "encoding", None) or "utf-8").lower().startswith("utf")

    @property
    def width(self) -> int | None:
        """Columns of the window as it is now; None where there is none, so that nothing is broken for a pipe."""
        return _width(self.stream, self._terminal)

    def say(self, text: str = "") -> None:
        """One line, or several. Foreign text is cleaned where it is put in; what gets here all the same is shown by
        no terminal: no control sequence but the colours of `style`."""
        text = _UNSEEMLY.sub(lambda found: found[1] if found[1] and self.colour else "", self._shown(text))
        self.stream.write(text + "\n")

    def prose(self, text: str, style: str = "", *, first: str = "", rest: str = "", most: int | None = None) -> None:
        """A sentence, broken between words where it is wider than the window.

        first, rest: what stands before its first line and its others. most: lines after which it may be cut.
        """
        for line in self.lines(text, first=first, rest=rest, most=most):
            self.say(self.style(line, style) if style else line)

    def lines(self, text: str, *, first: str = "", rest: str = "", most: int | None = None) -> list[str]:
        """What `prose` says, as lines without a style."""
        text = self._shown(text)
        width = self.width
        if width is None:
            return [first + text]
        if width < NARROW_WINDOW:
            rest = rest[:2]
        lines = wrapped(text, width, first=first, rest=rest)
        if most is not None and len(lines) > most:
            lines = [*lines[: most - 1], cut(f"{lines[most - 1]} {self._more}", width, self._more)]
        return lines

    def block(self, text: str, indent: str = "  ") -> None:
        """Foreign text of several lines, indented, without control sequences; a line that is too wide is broken."""
        for line in block(text, indent).split("\n"):
            width = self.width
            if width is None or _columns(line) <= width:
                self.say(line)
            else:
                deep = line[: min(len(line) - len(line.lstrip()), width // 2)]
                self.prose(line.lstrip(), first=deep, rest=deep)

    def style(self, text: str, style: str) -> str:
        """`text` in a style, such as `bold red`; plain where colours are not wanted."""
        codes = ";".join(_CODES[each] for each in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour and codes else text

    def fit(self, text: str, used: int = 0) -> str:
        """A preview on one line, cut to what is left of the width after `used` columns."""
        line = self._shown(one_line(text))
        width = self.width
        return line if width is None else cut(line, max(NARROW, width - used), self._more)

    def table(
        self, head: Sequence[str], rows: Iterable[Sequence[Cell]], *, stretch: int, most: int | None = None
    ) -> None:
        """Rows in columns. Column `stretch` is broken where the width does not suffice; then each row is a block.

        most: lines of a cell after which it may be cut.
        """
        pairs = [[(each, "") if isinstance(each, str) else each for each in row] for row in rows]
        cells = [[(self._shown(text), style) for text, style in row] for row in pairs]
        widths = [max([len(title), *(_columns(row[index][0]) for row in cells)]) for index, title in enumerate(head)]
        width = self.width
        if width is not None:
            over = sum(widths) + 2 * (len(widths) - 1) - width
            if over > 0:
                if widths[stretch] - over < NARROW:
                    self._blocks(head, cells)
                    return
                widths[stretch] -= over
        titles = "  ".join(pad(each, width) for each, width in zip(head, widths, strict=True))
        self.say(self.style(titles.rstrip(), "dim"))
        for row in cells:
            deep = wrapped(row[stretch][0], widths[stretch], whole=False)
            if most is not None and len(deep) > most:
                deep = [*deep[: most - 1], cut(f"{deep[most - 1]} {self._more}", widths[stretch], self._more)]
            for number, line in enumerate(deep):
                texts = [line if index == stretch else "" if number else text for index, (text, _) in enumerate(row)]
                shown = [
                    self.style(pad(text, size), style) if text else pad(text, size)
                    for text, (_, style), size in zip(texts, row, widths, strict=True)
                ]
                self.say("  ".join(shown).rstrip())

    def _blocks(self, head: Sequence[str], cells: Sequence[Sequence[tuple[str, str]]]) -> None:
        for row in cells:
            self.prose(row[0][0], "bold")
            for title, (text, style) in zip(head[1:], row[1:], strict=True):
                if text.strip(" -"):
                    self.prose(text, style, first=f" {title}: ", rest="  ")

    @property
    def _more(self) -> str:
        return self._shown("…")

    def _shown(self, text: str) -> str:
        return text.translate(_PLAIN) if self._ascii else text


def wrapped(text: str, width: int, *, first: str = "", rest: str = "", whole: bool = True) -> list[str]:
    """`text` broken between words into lines of at most `width` columns.

    A wider word has a line of its own, or where words need not stay `whole` several.
    """
    lines: list[str] = []
    line, empty = first, True
    for word in re.findall(r"\s*\S+", text):
        while not whole and _columns(word.strip()) > width:
            if not empty:
                lines.append(line)
            word = word.strip()
            size = next(size for size in range(width, 0, -1) if _columns(word[:size]) <= width or size == 1)
            lines.append(word[:size])
            word, line, empty = word[size:], rest, True
        room = _columns(word.lstrip()) + _columns(rest) <= width  # on a line of its own
        if _columns(line) + _columns(word) > width and (not empty or (room and line.strip() and not lines)):
            lines.append(line.rstrip() if empty else line)
            line, empty = rest, True
        line += word.lstrip() if empty and lines else word
        empty = False
    return [*lines, line]


def one_line(text: str, cap: int = 2000) -> str:
    """Foreign text on one line, without control sequences; commits by their first 12 digits."""
    return _COMMIT.sub(r"\1", " ".join(clean(text, cap).split()))


def block(text: str, indent: str = "  ") -> str:
    """Foreign text as an indented block, without control sequences."""
    return "\n".join(f"{indent}{line}".rstrip() for line in clean(text, 1 << 20).split("\n"))


def cut(text: str, width: int, more: str = "…") -> str:
    """At most `width` columns of `text`, the last of which say that there is more."""
    if _columns(text) <= width:
        return text
    while text and _columns(text) > width - len(more):
        text = text[:-1] if len(text) <= width else text[:width]
    return f"{text}{more}"


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

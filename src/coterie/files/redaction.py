"""Secrets that this process knows, taken out of whatever it keeps or shows. The second net: the first is not to know.

One process has one set of them, as it has one environment. A secret is found as it is, as JSON or a URL spells it, and
as base64. Not promised: to find one that was cut by a line break or spelled in another way.

A password may be a plain word (`postgres`), which also stands in paths, ids, states and commands: taking it out of a
record would break that. So there are two nets: `redacted`, for whatever is written, takes out what can hardly be
anything else; `redacted_text`, for what a command, a file or a message says, words too.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from typing import Any

__all__ = ["RedactedStream", "keep_secret", "redacted", "redacted_bytes", "redacted_text", "redacted_value"]

LEAST = 8  # characters: what is shorter stands in too many texts by chance
LINE = 16  # characters of a line of a longer secret
MARK = "***"
_WORDS = re.compile(r"[A-Za-z]+(?:[ _./:@-][A-Za-z]+)?[ _./:@-]?[0-9.]{0,6}|[0-9.: -]+")
"""What may be something else than a secret: a word or two, also with a number or version behind, numbers and times."""


class _Known:
    """What is to be taken out, the longest first."""

    guard = threading.Lock()
    forms: tuple[str, ...] = ()  # all
    sure: tuple[str, ...] = ()  # those that can hardly be anything else
    coded: tuple[bytes, ...] = ()  # the same as UTF-8
    longest = 0


def keep_secret(*values: str) -> None:
    """From now on none of these is written or shown by this process. One of fewer than 8 characters is passed over."""
    with _Known.guard:
        found, sure = set(_Known.forms), set(_Known.sure)
        for value in values:
            lines = value.splitlines()[1:] and [each for each in value.splitlines() if len(each) >= LINE]
            for each in (value, *lines):  # a private key is shown line by line
                if len(each) >= LEAST:
                    forms = set(_forms(each))
                    found |= forms
                    sure |= forms if len(each) > 200 or _WORDS.fullmatch(each) is None else set()
        _Known.forms = tuple(sorted(found, key=lambda each: (-len(each), each)))
        _Known.sure = tuple(each for each in _Known.forms if each in sure)
        _Known.coded = tuple(each.encode("utf-8", "replace") for each in _Known.sure)
        _Known.longest = max(map(len, _Known.forms), default=0)


def _forms(value: str) -> Iterable[str]:
    """The spellings of a secret."""
    import base64  # where no secret is known, as in a command that only reads, nothing is loaded for it
    from urllib.parse import quote, quote_plus

    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="", errors="replace")
    yield quote_plus(value, errors="replace")
    data = value.encode("utf-8", "replace")
    for before in range(3):  # how many bytes of something else its first group of three begins with
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(bytes(before) + data).decode()
            whole = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]  # the digits that depend on it alone
            if len(whole) >= LEAST:
                yield whole


def redacted(text: str) -> str:
    """`text` with `***` in the place of every secret that can hardly be anything else."""
    for form in _Known.sure:
        if form in text:
            text = text.replace(form, MARK)
    return text


def redacted_text(text: str) -> str:
    """`text` with `***` in the place of every secret, plain words too."""
    for form in _Known.forms:
        if form in text:
            text = text.replace(form, MARK)
    return text


def redacted_bytes(data: bytes) -> bytes:
    """As `redacted`, of text as UTF-8."""
    for form in _Known.coded:
        if form in data:
            data = data.replace(form, MARK.encode())
    return data


def redacted_value(value: Any) -> Any:
    """As `redacted`, of all texts in a value of lists and objects; their keys stay."""
    match value:
        case str():
            return redacted(value)
        case dict():
            return {key: redacted_value(each) for key, each in value.items()}
        case list() | tuple():
            return [redacted_value(each) for each in value]
    return value


class RedactedStream:
    """As `redacted_text`, of text that comes in pieces: an end that may be the beginning of a secret is held back."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str, *, last: bool = False) -> str:
        """What can be shown now. last: nothing follows."""
        text = redacted_text(self._held + text)
        self._held = ""
        if last or not _Known.forms:
            return text
        for start in range(max(0, len(text) - _Known.longest + 1), len(text)):
            end = text[start:]
            if any(form.startswith(end) for form in _Known.forms):
                self._held = end
                return text[:start]
        return text

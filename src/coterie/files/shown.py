"""Text as it may be shown, and kept: nothing in it moves a terminal's cursor, hides a part, or is a secret."""

from __future__ import annotations

import json
import re
from typing import Any

from coterie.files.redaction import redacted

__all__ = ["CONTROL", "as_json", "clean", "escaped"]

_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1: what begins a control sequence
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # no width, line ends, direction
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # the same beyond; tags spell hidden text
)
CONTROL = re.compile(f"[{_INVISIBLE}]")


def clean(text: str, cap: int = 2000) -> str:
    """`text` as it may be shown, capped: no control, direction or invisible characters but newline and tab, no secret.

    What a control sequence consists of besides its control characters is left: nobody shall see less than a model does.
    """
    text = redacted(CONTROL.sub("", text[: cap * 2 + 4096]))  # enough for what is taken out
    return text if len(text) <= cap else text[: cap - 1] + "…"


def as_json(data: Any, **how: Any) -> str:
    """`data` as JSON that a person may `cat`: what `clean` takes out is spelled as an escape, so nothing is lost.

    how: what else `json.dumps` takes, such as `indent`.
    """
    return escaped(json.dumps(data, ensure_ascii=False, **how))


def escaped(text: str) -> str:
    """JSON as `as_json` spells it, of JSON that somebody else wrote."""
    return CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)

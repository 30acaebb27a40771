"""Names and times."""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coterie.errors import Refused
from coterie.files.shown import clean

RESERVED = frozenset({"lead", "human", "queue", "runtime"})
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


_tokens: dict[int, str] = {}


def token() -> str:
    """A random id of this process (12 hex digits): the same for its life, another after a fork."""
    return _tokens.setdefault(os.getpid(), secrets.token_hex(6))


def now() -> str:
    """The wall clock as ISO 8601 UTC with milliseconds. For people: no decision rests on it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_name(name: str, *, reserved: bool = False) -> str:
    """`name` itself if it can name a team or a member, else `Refused`. `reserved` allows the reserved ones too."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(
            f"not a name: {clean(str(name), 60)!r}. A name is a lower-case letter, then up to 31 of a-z 0-9 -"
        )
    if name in RESERVED and not reserved:
        raise Refused(f"the name {name!r} is reserved ({', '.join(sorted(RESERVED))}): take another")
    return name


def counted(number: int, noun: str) -> str:
    """How many of something, in words: `1 task`, `2 tasks`. noun: what one of them is called."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def process_mark(pid: int) -> dict[str, Any]:
    """What tells one process from a later one of the same number: pid, start time (clock ticks), boot id."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return {"pid": pid, "start": int(fields[19]), "boot": boot}
    except (OSError, IndexError, ValueError):
        return {"pid": pid, "start": None, "boot": None}

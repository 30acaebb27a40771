"""events.jsonl as somebody reads it while others append to it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def read_lines(path: Path, position: int) -> tuple[int, list[dict[str, Any]]]:
    """The events on the whole lines after `position` (bytes), and the position after them.

    A file that is shorter than `position` is read from its start; lines that are no object are left out.
    """
    try:
        with path.open("rb") as file:
            start = position if position <= os.fstat(file.fileno()).st_size else 0
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return 0, []
    whole = data[: data.rfind(b"\n") + 1]
    found = []
    for line in whole.splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                found.append(event)
    return start + len(whole), found

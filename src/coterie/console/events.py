"""events.jsonl as somebody reads it while others append to it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from coterie import files


def read_lines(path: Path, position: int) -> tuple[int, list[dict[str, Any]]]:
    """The events on the whole lines after `position` (bytes), and the position after them.

    A file that is shorter than `position` is read from its start; lines that are no object are left out.
    """
    try:
        files.expect_regular(path)  # before it is opened: the opening of a pipe waits for who writes to it
        with path.open("rb") as file:
            start = position if position <= os.fstat(file.fileno()).st_size else 0
            file.seek(start)
            data = file.read()
    except (FileNotFoundError, files.Unreadable):
        return 0, []
    whole = data[: data.rfind(b"\n") + 1]
    found = []
    for line in whole.splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                found.append(event)
    return start + len(whole), found

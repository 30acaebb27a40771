"""The search of `glob` and `grep`, as a program of its own: `python -I -S searching.py`, JSON in, JSON out.

A pattern is the model's, and a pattern can be made to run for years while it holds the interpreter's lock. So it runs
in a process that can be ended. It uses the standard library alone, and is given an empty environment.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

FILE_CAP = 10 * 1024 * 1024  # bytes of a file that is searched
LINE_CAP = 10_000  # characters of a line that are searched


def pattern(glob: str) -> re.Pattern[str]:
    """A path pattern as an expression: `**/` any folders, `*` and `?` within one name."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", glob)
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile(
        "".join(
            spelled.get(part)
            or (part.replace("[!", "[^") if part.startswith("[") and len(part) > 2 else re.escape(part))
            for part in parts
        )
    )


def walk(root: str) -> Iterator[str]:
    """All files below, in order, as paths from `root`, without .git and without following links."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if each != ".git")
        for name in sorted(names):
            if name != ".git":
                yield os.path.relpath(os.path.join(folder, name), root)  # noqa: PTH118  # pathlib costs start-up time


def text_of(path: str) -> str | None:
    """The text of a regular file; None for anything else, for binary ones and for large ones."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_CAP:
            return None
        data = file.read(FILE_CAP)
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def glob_names(root: str, glob: str, most: int) -> list[str]:
    """The names that match, and in words how many more there are."""
    matching = pattern(glob)
    found = [name for name in walk(root) if matching.fullmatch(name)]
    more = [f"({len(found) - most} more: narrow the pattern)"] if len(found) > most else []
    return [*found[:most], *more]


def grep_lines(root: str, start: str, wanted: str, glob: str | None, most: int) -> list[str]:
    """The lines that match below `start` (a file or folder below `root`), as `path:line: text`."""
    searched = re.compile(wanted)
    only = pattern(glob) if glob else None
    names = [os.path.relpath(os.path.join(start, name), root) for name in walk(start)]  # noqa: PTH118  # as above
    if os.path.isfile(start):  # noqa: PTH113  # as above
        names = [os.path.relpath(start, root)]
    found: list[str] = []
    for name in names:
        if only is not None and not (only.fullmatch(name) or only.fullmatch(name.rpartition("/")[2])):
            continue
        text = text_of(os.path.join(root, name))  # noqa: PTH118  # as above
        for number, line in enumerate(text.split("\n") if text is not None else (), 1):
            if searched.search(line[:LINE_CAP]):
                if len(found) == most:
                    return [*found, "(more: narrow the search)"]
                found.append(f"{name}:{number}: {line[:300]}")
    return found


def main() -> None:
    """One search. What is wrong with a pattern is an answer too."""
    given: dict[str, Any] = json.load(sys.stdin)
    searches: dict[str, Callable[..., list[str]]] = {"glob": glob_names, "grep": grep_lines}
    search = searches[given.pop("search")]
    try:
        answer: dict[str, Any] = {"found": search(**given)}
    except (re.error, RecursionError, OverflowError) as error:
        answer = {"wrong": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()

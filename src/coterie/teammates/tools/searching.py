"""The search of `glob` and `grep`, as a program of its own: `python -I -S searching.py`, JSON in, JSON out.

A pattern is the model's, and a pattern can be made to run for years while it holds the interpreter's lock. So it runs
in a process that can be ended. It uses the standard library alone, and is given an empty environment and the open
folder or file that is searched: `handle`. `prefix` is what stands before the names it says; `links`: files with a
second name are searched too.
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
DEEP = 100  # folders: each of them is open while what is in it is searched
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


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


def walk(folder: int, path: str = "") -> Iterator[tuple[int, str, str]]:
    """All files below an open folder, in order: the handle of the folder each is in, its name, its path from the top.

    Without .git. No link is followed, also not one that is put in the place of a folder meanwhile. What lies deeper
    than `DEEP` folders is passed over.
    """
    with os.scandir(folder) as entries:
        found = sorted((each.name, each.is_dir(follow_symlinks=False)) for each in entries if each.name != ".git")
    for name, _ in (each for each in found if not each[1]):
        yield folder, name, path + name
    if path.count("/") >= DEEP:
        return
    for name, _ in (each for each in found if each[1]):
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            continue
        try:
            yield from walk(inner, f"{path}{name}/")
        finally:
            os.close(inner)


def text_in(handle: int, links: bool) -> str | None:
    """The text of an open regular file; None for anything else, for binary ones and for large ones."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_CAP or (found.st_nlink > 1 and not links):
        return None
    data = bytearray()
    while len(data) <= FILE_CAP and (part := os.read(handle, 1 << 20)):
        data += part
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def texts(handle: int, prefix: str, only: re.Pattern[str] | None, links: bool) -> Iterator[tuple[str, str]]:
    """The names and texts of the files below an open folder, or of the one that is open."""
    if not stat.S_ISDIR(os.fstat(handle).st_mode):
        text = text_in(handle, links)
        if text is not None and (only is None or only.fullmatch(prefix) or only.fullmatch(prefix.rpartition("/")[2])):
            yield prefix, text
        return
    top = f"{prefix}/" if prefix else ""
    for folder, name, path in walk(handle):
        if only is not None and not (only.fullmatch(top + path) or only.fullmatch(name)):
            continue
        try:
            file = os.open(name, FILE, dir_fd=folder)
        except OSError:
            continue
        try:
            text = text_in(file, links)
        finally:
            os.close(file)
        if text is not None:
            yield top + path, text


def glob_names(handle: int, prefix: str, links: bool, glob: str, most: int) -> list[str]:
    """The names that match, and in words how many more there are."""
    matching = pattern(glob)
    found = [path for _, _, path in walk(handle) if matching.fullmatch(path)]
    more = [f"({len(found) - most} more: narrow the pattern)"] if len(found) > most else []
    return [*(prefix + each for each in found[:most]), *more]


def grep_lines(handle: int, prefix: str, links: bool, wanted: str, glob: str | None, most: int) -> list[str]:
    """The lines that match in an open file, or below an open folder, as `path:line: text`."""
    searched = re.compile(wanted)
    found: list[str] = []
    for name, text in texts(handle, prefix, pattern(glob) if glob else None, links):
        for number, line in enumerate(text.split("\n"), 1):
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

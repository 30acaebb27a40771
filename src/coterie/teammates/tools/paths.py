"""Reading and changing files, inside the member's directory and nowhere else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from coterie import files
from coterie.errors import Refused
from coterie.teammates.cancel import Cancel
from coterie.teammates.output import read_output
from coterie.teammates.tool import Arguments, Call, Effect, Tool, ToolResult
from coterie.teammates.tools.reach import OutsidePath, Spot, digest_of, opened, read_text, spot, write_text

__all__ = ["EDIT_FILE", "GLOB", "GREP", "READ_FILE", "WRITE_FILE"]

SHOWN = 30_000  # characters of one result
LINES = 2000
FOUND = 500
SEARCH_TIME = 20.0  # seconds
_BARE = re.compile(r"(?<!\r)\n")


def _readable(member: Any, given: str) -> Spot:
    """Where a path leads that is only read: in the member's directory, or in a root that the settings name."""
    return spot((member.directory(), *member.read_roots()), given)


class ReadFile(Arguments):
    """Read a text file of your directory, as numbered lines. `output:<id>` reads a long output of yours."""

    path: str
    offset: int | None = Field(default=None, ge=1, description="first line, counted from 1")
    limit: int | None = Field(default=None, ge=1, description="how many lines; at most 2000 at once")


def _read(member: Any, given: ReadFile, call: Call) -> ToolResult | str:
    start = given.offset or 1
    limit = min(given.limit or LINES, LINES)
    if given.path.startswith("output:"):
        kept = given.path.removeprefix("output:")
        return read_output(member.team.root / "output", kept, offset=start, limit=limit, owner=member.instance)
    at = _readable(member, given.path)
    found = read_text(at)
    text, crlf = _as_shown(found.text)
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if start > max(len(lines), 1):
        raise Refused(f"{given.path} has {files.counted(len(lines), 'line')}: there is no line {start}")
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[start - 1 : start - 1 + limit], start):
        shown.append(f"{number:>6}\t{line[:5000]}")
        size += len(shown[-1]) + 1
        if size > SHOWN:
            break
    last = start - 1 + len(shown)
    if last < len(lines):
        shown.append(f"({files.counted(len(lines), 'line')} in all: go on with offset {last + 1})")
    if crlf:
        shown.append("(its lines end with CRLF; edit_file keeps that)")
    return ToolResult("\n".join(shown) or "(an empty file)", seen=_seen(at, found.digest))


def _as_shown(text: str) -> tuple[str, bool]:
    """A file's text as a model sees and edits it, and whether all its lines end with CRLF, which is left out then."""
    crlf = "\r\n" in text and _BARE.search(text) is None
    return (text.replace("\r\n", "\n"), True) if crlf else (text, False)


def _as_kept(text: str, crlf: bool) -> bytes:
    return (text.replace("\n", "\r\n") if crlf else text).encode("utf-8", "surrogatepass")


def _seen(at: Spot, digest: str) -> dict[str, str]:
    """What the journal keeps of a file that the model knows now: an edit of it is refused once it is another."""
    return {at.name: digest} if at.own else {}


class WriteFile(Arguments):
    """Write a whole file of your directory; folders are made as needed. What was there before is replaced."""

    path: str
    content: str


def _write_file(member: Any, given: WriteFile, call: Call) -> ToolResult:
    at = spot((member.directory(),), given.path)
    fresh = not os.path.lexists(at.root.joinpath(*at.parts))
    digest = write_text(at, given.content)
    said = f"{'created' if fresh else 'wrote'} {given.path} ({len(given.content.encode())} bytes)"
    return ToolResult(said, seen=_seen(at, digest))


class EditFile(Arguments):
    """Replace a piece of text in a file. `old_text` has to match exactly once, white space included. A file that
    changed since you read it has to be read again first."""

    path: str
    old_text: str
    new_text: str


def _edit_file(member: Any, given: EditFile, call: Call) -> ToolResult:
    at = spot((member.directory(),), given.path)
    found = read_text(at)
    text, crlf = _as_shown(found.text)
    old, new = (each.replace("\r\n", "\n") if crlf else each for each in (given.old_text, given.new_text))
    if not old:
        raise Refused("old_text is empty: say what to replace, or use write_file")
    times = text.count(old)
    known = member.journal.digest_of(at.name)
    if call.again and new and new in text and known != found.digest:
        if known is None and times:  # what it was before is not known, and both texts are there
            raise Refused(f"interrupted: {given.path} may have been edited already, read it first")
        if known is None or any(digest_of(_as_kept(each, crlf)) == known for each in _befores(text, old, new)):
            done = f"edited {given.path} (it had been done before the interruption)"
            return ToolResult(done, seen=_seen(at, found.digest))
    if known is not None and known != found.digest:
        raise Refused(f"{given.path} changed since you read it: read it again, then edit. Nothing was written")
    if times != 1:
        hint = "give more of the lines around it" if times else "read the file again: it may have changed"
        raise Refused(f"old_text is found {times} times in {given.path}, expected exactly once: {hint}")
    if old == new:
        raise Refused("old_text and new_text are the same: nothing to do")
    edited = text.replace(old, new)
    if text.endswith("\n") and edited and not edited.endswith("\n"):
        edited += "\n"
    digest = write_text(at, edited.replace("\n", "\r\n") if crlf else edited, instead_of=found)
    return ToolResult(f"edited {given.path}", seen=_seen(at, digest))


def _befores(text: str, old: str, new: str) -> Iterator[str]:
    """What a text may have been before `old` in it became `new`."""
    start = text.find(new)
    while start >= 0:
        before = text[:start] + old + text[start + len(new) :]
        yield before
        if before.endswith("\n\n"):
            yield before[:-1]  # the last newline was put back by the edit
        start = text.find(new, start + 1)


class Glob(Arguments):
    """Names of the files in your directory that match a pattern such as `src/**/*.py`."""

    pattern: str


def _glob(member: Any, given: Glob, call: Call) -> str:
    pattern, start = given.pattern, ""
    for root in member.read_roots():
        if pattern.startswith(f"{root}/"):
            start, pattern = str(root), pattern[len(str(root)) + 1 :]
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise OutsidePath(f"expected a pattern inside your directory, found {given.pattern!r}")
    wanted = {"search": "glob", "glob": pattern, "most": FOUND, "prefix": f"{start}/" if start else ""}
    return "\n".join(_search(_readable(member, start or "."), wanted, pattern, call.cancel)) or "no file matches"


class Grep(Arguments):
    """Lines that match a regular expression (Python's), as `path:line: text`."""

    pattern: str
    path: str | None = Field(default=None, description="a file or folder; default: your whole directory")
    glob: str | None = Field(default=None, description="only files whose path matches, such as `*.py`")


def _grep(member: Any, given: Grep, call: Call) -> str:
    at = _readable(member, given.path or ".")
    wanted: dict[str, Any] = {"search": "grep", "wanted": given.pattern, "glob": given.glob, "most": FOUND}
    wanted["prefix"] = at.name if at.own else str(at.root.joinpath(*at.parts))
    return "\n".join(_search(at, wanted, given.pattern, call.cancel))[:SHOWN] or "no line matches"


def _search(at: Spot, wanted: dict[str, Any], pattern: str, cancel: Cancel) -> list[str]:
    """Search in a process of its own, so that no pattern holds up the host. Refused: not a pattern, too slow."""
    handle = opened(at)
    wanted |= {"handle": handle, "links": not at.own}
    argv = [sys.executable, "-I", "-S", str(Path(__file__).with_name("searching.py"))]
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env={}, pass_fds=[handle]
        )
    finally:
        os.close(handle)
    with process:
        unhook = cancel.on(process.kill)
        try:
            out, _ = process.communicate(json.dumps(wanted), timeout=SEARCH_TIME)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Refused(f"the search took more than {SEARCH_TIME:g} s and was ended: use a simpler pattern") from None
        finally:
            unhook()
    if cancel.is_set():
        raise Refused(f"ended: {cancel.reason}")
    if process.returncode != 0:
        raise Refused(f"the search failed with {process.returncode}: use bash with grep or find")
    answer = json.loads(out)
    if "wrong" in answer:
        raise Refused(f"expected a pattern, found {pattern[:200]!r}: {answer['wrong']}")
    return [str(each) for each in answer["found"]]


READ_FILE = Tool("read_file", Effect.READS, ReadFile, _read)
WRITE_FILE = Tool("write_file", Effect.CHANGES, WriteFile, _write_file)
EDIT_FILE = Tool("edit_file", Effect.CHANGES, EditFile, _edit_file)
GLOB = Tool("glob", Effect.READS, Glob, _glob)
GREP = Tool("grep", Effect.READS, Grep, _grep)

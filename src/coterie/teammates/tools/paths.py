"""Reading and changing files, inside the member's directory and nowhere else."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from coterie import files
from coterie.errors import Refused
from coterie.teammates.cancel import Cancel
from coterie.teammates.output import read_output
from coterie.teammates.tool import Arguments, Call, Effect, Tool

__all__ = ["EDIT_FILE", "GLOB", "GREP", "READ_FILE", "WRITE_FILE", "inside"]

FILE_CAP = 10 * 1024 * 1024  # bytes of a file that is read or written
SHOWN = 30_000  # characters of one result
LINES = 2000
FOUND = 500
SEARCH_TIME = 20.0  # seconds
_PASSED_OVER = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


class OutsidePath(Refused):
    """The path does not lead to a file inside your directory."""


def inside(root: Path, given: str) -> Path:
    """`given` as a path inside `root`, absolute or relative to it; what leads out of it and .git are refused."""
    if not given or "\0" in given:
        raise OutsidePath(f"expected a path inside {root}, found {given!r}")
    path = Path(os.path.normpath(root / given))
    real_root = root.resolve()
    if not path.is_relative_to(root) and not path.is_relative_to(real_root):
        raise OutsidePath(f"{given} is outside your directory {root}: only files in it can be reached")
    real = path.resolve()
    if not real.is_relative_to(real_root):
        raise OutsidePath(f"{given} leads out of your directory {root} through a symbolic link")
    said = path.relative_to(root if path.is_relative_to(root) else real_root).parts
    if any(_is_git(part) for part in (*said, *real.relative_to(real_root).parts)):
        raise OutsidePath(f"{given} belongs to git: the runtime commits your work, leave it alone")
    return real


def _is_git(part: str) -> bool:
    """Whether some file system takes this part of a path for `.git`: what git refuses to track, on all of them.

    Case does not count, nor what HFS+ passes over, nor what NTFS cuts off (verify_path in git's read-cache.c).
    """
    pieces = _PASSED_OVER.sub("", part).split("\\")
    return any(each.partition(":")[0].rstrip(" .").lower() in (".git", "git~1") for each in pieces)


def _text(path: Path, given: str) -> str:
    """The text of a regular file, line ends as they are. Clear errors for everything else."""
    try:
        data = files.read_bytes(path, limit=FILE_CAP)
    except FileNotFoundError:
        near = sorted(each.name for each in path.parent.iterdir())[:20] if path.parent.is_dir() else []
        raise Refused(f"there is no file {given}" + (f". Beside it: {', '.join(near)}" if near else "")) from None
    except files.Unreadable as error:
        raise Refused(f"{given}: {error.reason}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{given} is not UTF-8 text ({len(data)} bytes): use bash to look at it") from None


def _write(root: Path, path: Path, given: str, text: str) -> None:
    """Replace a file whole. The temp file lies beside the worktree: what a kill leaves is never handed in."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > FILE_CAP:
        raise Refused(f"{given}: expected at most {FILE_CAP} bytes, found {len(data)}")
    mode = None
    if path.is_symlink() or path.exists():
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{given} is not a regular file: nothing was written")
        if found.st_nlink > 1:
            raise Refused(f"{given} is a hard link to a file that is somewhere else too: nothing was written")
        mode = stat.S_IMODE(found.st_mode)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise Refused(f"{given}: a part of that path is a file, so nothing can lie below it") from None
    files.deliver(root.parent / files.temp_name(path.name), path, data)
    if mode is not None:
        path.chmod(mode)


class ReadFile(Arguments):
    """Read a text file of your directory, as numbered lines. `output:<id>` reads a long output of yours."""

    path: str
    offset: int | None = Field(default=None, ge=1, description="first line, counted from 1")
    limit: int | None = Field(default=None, ge=1, description="how many lines; at most 2000 at once")


def _read(member: Any, given: ReadFile, call: Call) -> str:
    start = given.offset or 1
    limit = min(given.limit or LINES, LINES)
    if given.path.startswith("output:"):
        found = given.path.removeprefix("output:")
        return read_output(member.team.root / "output", found, offset=start, limit=limit, owner=member.instance)
    text = _text(inside(member.directory(), given.path), given.path)
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
    return "\n".join(shown) or "(an empty file)"


class WriteFile(Arguments):
    """Write a whole file of your directory; folders are made as needed."""

    path: str
    content: str


def _write_file(member: Any, given: WriteFile, call: Call) -> str:
    root = member.directory()
    path = inside(root, given.path)
    fresh = not path.exists()
    _write(root, path, given.path, given.content)
    return f"{'created' if fresh else 'wrote'} {given.path} ({len(given.content.encode())} bytes)"


class EditFile(Arguments):
    """Replace a piece of text in a file. `old_text` has to match exactly once, white space included."""

    path: str
    old_text: str
    new_text: str


def _edit_file(member: Any, given: EditFile, call: Call) -> str:
    root = member.directory()
    path = inside(root, given.path)
    text = _text(path, given.path)
    if not given.old_text:
        raise Refused("old_text is empty: say what to replace, or use write_file")
    times = text.count(given.old_text)
    if call.again and times == 0 and given.new_text and given.new_text in text:
        return f"edited {given.path} (it had been done before the interruption)"
    if times != 1:
        hint = "give more of the lines around it" if times else "read the file again: it may have changed"
        raise Refused(f"old_text is found {times} times in {given.path}, expected exactly once: {hint}")
    if given.old_text == given.new_text:
        raise Refused("old_text and new_text are the same: nothing to do")
    _write(root, path, given.path, text.replace(given.old_text, given.new_text))
    return f"edited {given.path}"


class Glob(Arguments):
    """Names of the files in your directory that match a pattern such as `src/**/*.py`."""

    pattern: str


def _glob(member: Any, given: Glob, call: Call) -> str:
    root = member.directory()
    if given.pattern.startswith("/") or ".." in Path(given.pattern).parts:
        raise OutsidePath(f"expected a pattern inside your directory, found {given.pattern!r}")
    wanted = {"search": "glob", "root": str(root), "glob": given.pattern, "most": FOUND}
    return "\n".join(_search(wanted, given.pattern, call.cancel)) or "no file matches"


class Grep(Arguments):
    """Lines that match a regular expression (Python's), as `path:line: text`."""

    pattern: str
    path: str | None = Field(default=None, description="a file or folder; default: your whole directory")
    glob: str | None = Field(default=None, description="only files whose path matches, such as `*.py`")


def _grep(member: Any, given: Grep, call: Call) -> str:
    root = member.directory()
    start = inside(root, given.path) if given.path else root.resolve()
    if not start.exists():
        raise Refused(f"there is no {given.path}")
    wanted: dict[str, Any] = {
        "search": "grep",
        "root": str(root.resolve()),
        "start": str(start),
        "wanted": given.pattern,
    }
    wanted |= {"glob": given.glob, "most": FOUND}
    return "\n".join(_search(wanted, given.pattern, call.cancel))[:SHOWN] or "no line matches"


def _search(wanted: dict[str, Any], pattern: str, cancel: Cancel) -> list[str]:
    """Search in a process of its own, so that no pattern holds up the host. Refused: not a pattern, too slow."""
    argv = [sys.executable, "-I", "-S", str(Path(__file__).with_name("searching.py"))]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env={}) as process:
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

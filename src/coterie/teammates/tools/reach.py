"""What the file tools reach: regular files in the member's own directory, and for reading in the configured roots.

A path is resolved once, then opened one name at a time without following a link. So what is put in the place of a
folder or file in between leads nowhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie import files
from coterie.errors import Refused

__all__ = ["FILE_CAP", "Found", "OutsidePath", "Spot", "digest_of", "opened", "read_text", "spot", "write_text"]

FILE_CAP = 10 * 1024 * 1024  # bytes of a file that is read or written
_PASSED_OVER = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


class OutsidePath(Refused):
    """The path does not lead to a file inside your directory."""


@dataclass(frozen=True)
class Spot:
    """A place below a root: the names that lead to it, none of which was a link when it was resolved."""

    root: Path
    parts: tuple[str, ...]
    given: str  # as the model spelled it
    own: bool  # in the member's own directory; a root that is only read otherwise

    @property
    def name(self) -> str:
        """The same for one file, however it was spelled."""
        return "/".join(self.parts)


@dataclass(frozen=True)
class Found:
    """A file's text as it was read, and what tells whether it is still that file."""

    text: str
    digest: str
    mark: tuple[int, ...]


def spot(roots: Sequence[Path], given: str) -> Spot:
    """Where `given` leads: absolute, or relative to the first root, which is the member's own directory.

    Raises `OutsidePath` for what leads out of all roots, by its name or through a link, and for what is git's.
    """
    own = roots[0]
    try:
        fits = bool(given) and "\0" not in given and bool(os.fsencode(given))
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise OutsidePath(f"expected a path inside {own}, found {given!r}")
    path = Path(os.path.normpath(own / given))
    try:
        real = Path(os.path.realpath(path))
    except OSError:
        raise OutsidePath(f"{given} changed during the call: try again") from None
    real_roots = [Path(os.path.realpath(root)) for root in roots]
    said = next((each for each in (*roots, *real_roots) if path.is_relative_to(each)), None)
    if said is None:
        also = f", and to read those in {', '.join(map(str, roots[1:]))}" if roots[1:] else ""
        raise OutsidePath(f"{given} is outside your directory {own}: only files in it can be reached{also}")
    root = next((each for each in real_roots if real.is_relative_to(each)), None)
    if root is None:
        raise OutsidePath(f"{given} leads out of your directory {own} through a symbolic link")
    parts = real.relative_to(root).parts
    if any(_is_git(part) for part in (*path.relative_to(said).parts, *parts)):
        raise OutsidePath(f"{given} belongs to git: the runtime commits your work, leave it alone")
    return Spot(root, parts, given, own=root == real_roots[0])


def _is_git(part: str) -> bool:
    """Whether some file system takes this part of a path for `.git`: what git refuses to track, on all of them.

    Case does not count, nor what HFS+ passes over, nor what NTFS cuts off (verify_path in git's read-cache.c).
    """
    pieces = _PASSED_OVER.sub("", part).split("\\")
    return any(each.partition(":")[0].rstrip(" .").lower() in (".git", "git~1") for each in pieces)


@contextlib.contextmanager
def explained(at: Spot) -> Iterator[None]:
    """What the system refuses, in a sentence for a model. The machine's own trouble is raised as it came."""
    try:
        yield
    except FileNotFoundError:
        raise Refused(f"there is no {at.given}") from None
    except OSError as error:
        if files.shortage(error) or error.errno == errno.EIO:
            raise
        match error.errno:
            case errno.ELOOP:
                why = "there is a symbolic link that leads nowhere, in a circle, or came during the call"
            case errno.ENOTDIR | errno.EEXIST:
                why = "a part of that path is a file or a link, so nothing can lie below it"
            case errno.ENXIO:
                why = "expected a regular file, found a socket or device"
            case _:
                why = str(error.strerror)
        raise Refused(f"{at.given}: {why}") from None


def opened(at: Spot) -> int:
    """A handle of a regular file or a folder, which the caller closes. `Refused` in a sentence for everything else.

    A file of the member's own directory with a second name is refused: that may be outside of it.
    """
    try:
        handle = files.open_below(at.root, at.parts)
    except FileNotFoundError:
        raise Refused(f"there is no file {at.given}{_beside(at)}") from None
    except OSError:
        with explained(at):
            raise
    found = os.fstat(handle)
    kind = files.kind_of(found.st_mode)
    why = ""
    if kind not in ("a regular file", "a folder"):
        why = f"expected a regular file, found {kind}"
    elif at.own and kind == "a regular file" and found.st_nlink > 1:
        why = "this is a hard link to a file that may be outside your directory: a copy of it can be read (cp)"
    if why:
        os.close(handle)
        raise Refused(f"{at.given}: {why}")
    return handle


def read_text(at: Spot) -> Found:
    """The text of a regular file, line ends as they are."""
    handle = opened(at)
    try:
        found = os.fstat(handle)
        with explained(at):
            data = files.read_open(handle, Path(at.given), limit=FILE_CAP)
    except files.Unreadable as error:
        raise Refused(f"{at.given}: {error.reason}: glob, grep or bash may show what you need") from None
    finally:
        os.close(handle)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Refused(f"{at.given} is binary, not UTF-8 text ({len(data)} bytes): use bash to look at it") from None
    return Found(text, digest_of(data), _mark(found))


def write_text(at: Spot, text: str, *, instead_of: Found | None = None) -> str:
    """Replace a file whole, its permissions kept; answers the digest of what it is now.

    instead_of: what it has to be still. The temp file lies beside the worktree: what a kill leaves is never handed in.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise Refused(f"{at.given}: the text has half a character (a lone surrogate): nothing was written") from None
    if len(data) > FILE_CAP:
        raise Refused(f"{at.given}: expected at most {FILE_CAP} bytes, found {len(data)}: nothing was written")
    if not at.parts:
        raise Refused(f"{at.given} is a folder, not a regular file: nothing was written")
    name = at.parts[-1]
    with explained(at):
        above = at.parts[:-1]
        fresh = instead_of is None
        folder = files.make_below(at.root, above) if fresh else files.open_below(at.root, above, folder=True)
        try:
            mode = _replaceable(at, folder, name, instead_of)
            files.deliver_below(at.root.parent / files.temp_name(name), folder, name, data, mode=mode)
        finally:
            os.close(folder)
    return digest_of(data)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _replaceable(at: Spot, folder: int, name: str, instead_of: Found | None) -> int | None:
    """The permissions of the file that is replaced; None where there is none. `Refused` where it must stay."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        found = None
    if instead_of is not None and (found is None or _mark(found) != instead_of.mark):
        raise Refused(f"{at.given} changed during the call: read it again. Nothing was written")
    if found is None:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise Refused(
            f"{at.given} is {files.kind_of(found.st_mode)}, expected a regular file or none: nothing was written"
        )
    if found.st_nlink > 1:
        raise Refused(f"{at.given} is a hard link to a file that may be outside your directory: nothing was written")
    return stat.S_IMODE(found.st_mode)


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink)


def _beside(at: Spot) -> str:
    """The names beside a file that is not there, to see a slip of the pen by."""
    with contextlib.suppress(OSError):
        folder = files.open_below(at.root, at.parts[:-1], folder=True)
        try:
            near = sorted(each for each in os.listdir(folder) if not _is_git(each))[:20]  # noqa: PTH208  # of a handle
        finally:
            os.close(folder)
        return f". Beside it: {', '.join(near)}" if near else ""
    return ""

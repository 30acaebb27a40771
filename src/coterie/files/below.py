"""Reaching what lies below a folder, one name at a time: no part of the path is followed if it is a symbolic link.

A path that was looked at and is opened as a whole can lead elsewhere by then: somebody put a link in the place of a
folder. Here every name is opened in the folder that the one before it is, whatever that is called meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

__all__ = ["kind_of", "make_below", "open_below"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(mode: int) -> str:
    """What a file of this `st_mode` is, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def open_below(root: Path, parts: Sequence[str], *, folder: bool = False) -> int:
    """A handle for reading `root/parts[0]/parts[1]/…`, which the caller closes; none of it may be a link.

    Never waits, whatever is there. folder: it has to be one. Raises `OSError`: ELOOP or ENOTDIR where a part is a link
    or no folder, ENOENT, ENXIO for a socket.
    """
    handle = os.open(root, _FOLDER)
    for number, part in enumerate(parts, 1):
        last = number == len(parts) and not folder
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC if last else _FOLDER
        handle = _next(handle, part, flags)
    return handle


def make_below(root: Path, parts: Sequence[str]) -> int:
    """A handle of the folder `root/parts[0]/…`, made with what is missing of it; none of it may be a link."""
    handle = os.open(root, _FOLDER)
    for part in parts:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=handle)
        except OSError:
            os.close(handle)
            raise
        handle = _next(handle, part, _FOLDER)
    return handle


def _next(handle: int, part: str, flags: int) -> int:
    """One name further; the handle of the folder is closed."""
    if part in ("", ".", "..") or "/" in part:
        os.close(handle)
        raise ValueError(f"not one name: {part!r}")
    try:
        return os.open(part, flags, dir_fd=handle)
    finally:
        os.close(handle)

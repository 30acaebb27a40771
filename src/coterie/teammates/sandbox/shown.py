"""The part of /etc that commands see. Its files are a copy: one mount for each command costs less than thirty."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from pathlib import Path

from coterie import files
from coterie.teammates.sandbox.space import remove
from coterie.teammates.sandbox.toolchains import SYSTEM_FILES

__all__ = ["shown_folders", "shown_settings"]

OWN = ("gitconfig", "resolv.conf")  # without content: each command's own are mounted on them
_FILE, _FOLDER, _LINK = "file", "folder", "link"


def shown_folders() -> tuple[Path, ...]:
    """Folders of /etc that are mounted as they are."""
    return tuple(Path("/etc", name) for name, kind, _, _ in _sources() if kind == _FOLDER)


def shown_settings(folder: Path) -> Path:
    """The copy, below `folder`, which commands cannot write to. Made when there is none that is whole; shared by hosts.

    Folders of /etc (see `shown_folders`) are empty in it, to be mounted on. A shortage is raised, and leaves no copy.
    """
    copy = _place(folder)
    if _whole(copy):
        return copy
    _sources.cache_clear()
    copy = _place(folder)
    with files.locked(folder / ".etc.lock"):
        if not _whole(copy):  # nor has another thread or host made it meanwhile
            _make(copy)
    return copy


@functools.cache
def _sources() -> tuple[tuple[str, str, int, int], ...]:
    """What there is of the list: name, kind, size and time of a file. As /etc was when a copy was last wanted."""
    found = []
    for name in SYSTEM_FILES:
        path = Path("/etc", name)
        if path.is_symlink() and path.readlink().is_relative_to("/usr"):  # what commands see anyway
            found.append((name, _LINK, 0, 0))
        elif path.is_dir():
            found.append((name, _FOLDER, 0, 0))
        elif os.access(path, os.R_OK):  # what this user may not read, no command needs
            found.append((name, _FILE, path.stat().st_size, path.stat().st_mtime_ns))
    return tuple(found)


def _place(folder: Path) -> Path:
    said = repr((SYSTEM_FILES, _sources()))
    return folder / f".etc-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _whole(copy: Path) -> bool:
    """Whether all that was to be copied is there."""
    try:
        for name, kind, size, _ in _sources():
            found = os.lstat(copy / name)
            if kind == _FILE and found.st_size != size:
                return False
        return all((copy / name).exists() for name in OWN)
    except OSError:
        return False


def _make(copy: Path) -> None:
    fresh = copy.with_name(f"{copy.name}.new")
    for left in (fresh, copy):
        if os.path.lexists(left):
            remove(left)
    try:
        fresh.mkdir(mode=0o755)
        for name, kind, _, _ in _sources():
            path, target = Path("/etc", name), fresh / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if kind == _LINK:
                target.symlink_to(path.readlink())
            elif kind == _FOLDER:
                target.mkdir()
            else:
                shutil.copyfile(path, target)
        for name in OWN:
            (fresh / name).touch()
        fresh.rename(copy)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise

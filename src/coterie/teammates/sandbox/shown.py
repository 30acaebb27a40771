"""The part of /etc that commands see. Its files are a copy: one mount for each command costs less than thirty."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
import threading
from pathlib import Path

from coterie import files
from coterie.teammates.sandbox.space import remove
from coterie.teammates.sandbox.toolchains import SYSTEM_FILES

__all__ = ["shown_folders", "shown_settings"]

OWN = ("gitconfig", "resolv.conf")  # without content: each command's own are mounted on them


@functools.cache
def shown_folders() -> tuple[Path, ...]:
    """Folders of /etc that are mounted as they are."""
    found = [path for path in (Path("/etc", name) for name in SYSTEM_FILES) if path.is_dir()]
    return tuple(path for path in found if not (path.is_symlink() and path.readlink().is_relative_to("/usr")))


@functools.cache
def shown_settings(folder: Path) -> Path:
    """The copy, below `folder`, which commands cannot write to. Made again when /etc was changed; shared by hosts.

    Folders of /etc (see `shown_folders`) are empty in it, to be mounted on.
    """
    sources = [path for path in (Path("/etc", name) for name in SYSTEM_FILES) if path.exists()]
    marks = [(str(path), path.is_dir() or (path.stat().st_mtime_ns, path.stat().st_size)) for path in sources]
    copy = folder / f".etc-{hashlib.sha256(repr(marks).encode()).hexdigest()[:12]}"
    if copy.is_dir():
        return copy
    fresh = folder / f".etc-{files.token()}-{threading.get_ident()}.new"
    fresh.mkdir(mode=0o755)
    for path in sources:
        target = fresh / path.relative_to("/etc")
        target.parent.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # what this user may not read, no command needs
            if path.is_symlink() and path.readlink().is_relative_to("/usr"):
                target.symlink_to(path.readlink())
            elif path.is_dir():
                target.mkdir()
            else:
                shutil.copyfile(path, target)
    for name in OWN:
        (fresh / name).touch()
    try:
        fresh.rename(copy)
    except OSError:  # another thread or host was quicker
        remove(fresh)
    return copy

"""Locks that git left when it was killed: git itself removes them in every other end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["PATIENCE", "drop_locks", "drop_ref_locks", "drop_stale"]

PATIENCE = 3.0  # seconds: a living git holds a ref's lock for moments


def drop_locks(metadata: Path) -> list[str]:
    """Remove git's locks on a worktree where no git runs; answers which there were."""
    dropped = []
    for lock in (metadata / "index.lock", metadata / "HEAD.lock"):
        with contextlib.suppress(FileNotFoundError):
            lock.unlink()
            dropped.append(lock.name)
    return dropped


def drop_ref_locks(common_dir: Path, team: str, *, patience: float) -> list[str]:
    """Remove git's locks on refs of a team's that nobody holds, as `drop_stale`; answers which there were."""
    refs = common_dir / "refs"
    tops = (refs / "heads" / "coterie" / team, refs / "coterie" / team)
    dropped = drop_stale((lock for top in tops for lock in top.rglob("*.lock")), patience=patience)
    return sorted(str(each.relative_to(common_dir)) for each in dropped)


def drop_stale(locks: Iterable[Path], *, patience: float) -> list[Path]:
    """Remove those of the locks that nobody holds; answers which.

    patience: seconds for which a lock has to stay the same first, where somebody may be holding it.
    """
    found = {each: seen for each in locks if (seen := _identity(each)) is not None}
    end = time.monotonic() + patience
    while found and time.monotonic() < end:
        time.sleep(0.05)
        found = {each: seen for each, seen in found.items() if _identity(each) == seen}
    for each in found:
        each.unlink(missing_ok=True)
    return list(found)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is there; None if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns)

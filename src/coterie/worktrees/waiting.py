"""What git would wait for in a worktree: a FIFO by the name of a file of rules, which it opens to read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from coterie.errors import Refused
from coterie.worktrees.git import Where

__all__ = ["refuse_pipes", "remove_pipes"]

_RULES = frozenset({".gitignore", ".gitattributes", ".gitmodules"})


def remove_pipes(where: Where) -> None:
    """Remove them, and what else is no file by these names: there is no content in them that could be lost."""
    for path in _pipes(where.path):
        path.unlink(missing_ok=True)


def refuse_pipes(where: Where) -> None:
    """Raise `Refused` naming one, where only to look is wanted."""
    if (path := next(_pipes(where.path), None)) is not None:
        raise Refused(f"{path} is no file, git would wait for it: remove it")


def _pipes(folder: Path) -> Iterator[Path]:
    todo = [str(folder)]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for each in entries:
                    if each.is_dir(follow_symlinks=False):
                        todo.append(each.path)
                    elif each.name in _RULES and not (each.is_symlink() or each.is_file(follow_symlinks=False)):
                        yield Path(each.path)
        except OSError:
            continue  # it came and went

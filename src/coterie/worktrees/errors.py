"""What can stand against a worktree's use."""

from __future__ import annotations

from coterie.errors import Refused

__all__ = ["NotBound", "Unmergeable"]


class NotBound(Refused):
    """The worktree is not the assignment's: nothing may be done in it."""


class Unmergeable(Refused):
    """The work cannot be taken as it lies."""

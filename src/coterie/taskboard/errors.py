"""What the board refuses, in words that a model or a person can act on."""

from __future__ import annotations

from coterie.errors import Refused, Unknown

__all__ = ["Cycle", "IllegalMove", "NotCurrent", "TaskRefused", "UnknownTask"]


class TaskRefused(Refused):
    """The board does not allow this now."""


class UnknownTask(TaskRefused, Unknown):
    """There is no such task on the board."""


class NotCurrent(TaskRefused):
    """This claim is over: stop working on it."""


class IllegalMove(TaskRefused):
    """The task's status does not allow this move."""


class Cycle(TaskRefused):
    """The tasks would wait for one another in a circle."""

    def __init__(self, circle: tuple[str, ...]) -> None:
        shown = circle if len(circle) <= 60 else (*circle[:30], "…", *circle[-30:])
        super().__init__(
            f"blocked_by would close a circle: {' -> '.join(shown)} (each waits for the next). "
            "Leave one of these edges out."
        )
        self.circle = circle

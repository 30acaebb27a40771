"""One brake for the whole team: when the service says "too many", everybody waits and nobody fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from coterie.teammates.cancel import Cancel
from coterie.teammates.model import Cancelled, Paused, Wait

__all__ = ["Clock", "Limiter", "SystemClock"]

# Seconds between two callers that go on after a limit, so that they do not all run into it again: the first time,
# and at most. Each further limit doubles it, each answer halves it.
_GAP, _MOST = 0.1, 2.0


class Clock(Protocol):
    """Time, as the model's client sees it."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def wall(self) -> datetime:
        """The time to show to people (aware)."""
        ...

    def sleep(self, seconds: float, cancel: Cancel) -> bool:
        """Wait; True if `cancel` ended it."""
        ...


class SystemClock:
    """The machine's time."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wall(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float, cancel: Cancel) -> bool:
        """Wait; True as soon as `cancel` is set."""
        return cancel.wait(seconds)


class Limiter:
    """Shared by all callers of a process. It counts nothing by itself: it is told of limits, and lets callers in.

    A limit of more than `cap` seconds is not waited for: whoever asks to be let in gets Paused until it is over.
    """

    def __init__(self, *, clock: Clock | None = None, cap: float = 120.0) -> None:
        self.clock = clock or SystemClock()
        self.cap = cap
        self._lock = threading.Lock()
        self._until = 0.0
        self._next = 0.0
        self._gap = 0.0

    @property
    def waiting_until(self) -> datetime | None:
        """When the limit in force ends, by the wall clock, for showing; None if there is none."""
        with self._lock:
            left = self._until - self.clock.monotonic()
        return self.clock.wall() + timedelta(seconds=left) if left > 0 else None

    def slow(self, seconds: float) -> None:
        """A caller was told to wait so long: so does everybody. A shorter limit does not end a longer one."""
        now = self.clock.monotonic()
        with self._lock:
            if now >= self._until:  # those who ran into one limit together count once
                self._gap = min(max(_GAP, 2 * self._gap), _MOST)
            self._until = max(self._until, now + seconds)

    def went_well(self) -> None:
        """A caller got its answer: let the next ones in faster."""
        with self._lock:
            self._gap = self._gap / 2 if self._gap > _GAP / 2 else 0.0

    def admit(self, cancel: Cancel, on_wait: Callable[[Wait], None] | None = None, *, tries: int = 0) -> None:
        """Return when the caller may ask the service. Raises Cancelled, or Paused for a limit above the cap."""
        slot: float | None = None
        while True:
            if cancel.is_set():
                raise Cancelled(f"The model call was cancelled: {cancel.reason}")
            with self._lock:
                now = self.clock.monotonic()
                left = self._until - now
                if left <= self.cap and (slot is None or slot < self._until):
                    slot = max(now, self._until, self._next)
                    self._next = slot + self._gap
            if left > self.cap:
                until = self.clock.wall() + timedelta(seconds=left)
                raise Paused(
                    f"The model's service is limited until {until:%Y-%m-%d %H:%M:%S %Z}, and Coterie waits at most "
                    f"{self.cap:.0f} seconds. Resume then.",
                    until=until,
                )
            assert slot is not None
            wait = slot - now
            if wait <= 0:
                return
            if on_wait is not None:
                until = self.clock.wall() + timedelta(seconds=wait)
                on_wait(Wait(reason="rate limit: the whole team waits", seconds=wait, until=until, tries=tries))
            if self.clock.sleep(wait, cancel):
                raise Cancelled(f"The model call was cancelled: {cancel.reason}")

"""One way to end a wait: a token that everything that waits listens to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

__all__ = ["Cancel", "Linked", "linked"]

# A signal handler runs between two steps of the main thread, also between "is it set?" and "sleep", where its
# notification finds nobody asleep. So no sleep is longer than this (seconds), and such a wait ends late, not never.
_SLICE = 0.25


class Cancel:
    """A token that is set once to end whatever waits, and may be cleared to be used again.

    Safe between threads, and `set` may be called from a signal handler. The first reason counts until `clear`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._is_set = False
        self._times = 0
        self._reason = ""
        self._callbacks: dict[object, Callable[[], object]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {f'set: {self._reason}' if self._is_set else 'not set'}>"

    @property
    def reason(self) -> str:
        """Why it was set; empty while it is not."""
        return self._reason

    def is_set(self) -> bool:
        """Whether it is set now."""
        return self._is_set

    def set(self, reason: str) -> None:
        """Wake every waiter, then call every callback in this thread, in the order they were added.

        A second call does nothing. A callback must not block: whoever set the token waits for it.
        """
        with self._changed:
            if self._is_set:
                return
            self._reason = reason
            self._is_set = True
            self._times += 1
            self._changed.notify_all()
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            callback()

    def clear(self) -> None:
        """Make it usable again. Callbacks stay; a waiter that was woken stays woken."""
        with self._changed:
            self._is_set = False
            self._reason = ""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: for ever). True if it is set, or was set meanwhile."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            times = self._times
            while not self._is_set and self._times == times:
                left = _SLICE if end is None else end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, _SLICE))
            return True

    def on(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` whenever it is set: at once, in this thread, if it is set already.

        Returns a function that takes the callback out again. Not promised: that a callback which another
        thread has begun to call is over when that function returns.
        """
        key = object()
        with self._changed:
            self._callbacks[key] = callback
            now = self._is_set
        if now:
            callback()

        def remove() -> None:
            with self._changed:
                self._callbacks.pop(key, None)

        return remove


class Linked(Cancel):
    """A token of its own that is also set, with the same reason, when any of its sources is.

    Setting or clearing it does not touch the sources. The sources hold it until `unlink`: use it as a context
    manager where they live longer.
    """

    def __init__(self, *sources: Cancel) -> None:
        super().__init__()
        self._unlink = [source.on(lambda source=source: self.set(source.reason)) for source in sources]  # type: ignore[misc]  # a default binds the source of this turn

    def unlink(self) -> None:
        """Hear nothing more of the sources. It stays as it is."""
        while self._unlink:
            self._unlink.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unlink()


def linked(*cancels: Cancel) -> Linked:
    """A token that is set when any of `cancels` is; set at once if one is set already."""
    return Linked(*cancels)

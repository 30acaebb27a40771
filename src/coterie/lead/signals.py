"""What Ctrl-C, SIGTERM and SIGHUP do to a run."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from coterie.teammates.team import Stop

__all__ = ["CODES", "interruptible"]

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
"""signal -> what the run ends with."""


@contextlib.contextmanager
def interruptible(stop: Stop, *, again: str, say: Callable[[str], None]) -> Iterator[None]:
    """Once: stop in order, model calls dropped. Twice: at once, as after a kill, so with the same guarantees.

    again: the command that goes on. say: told a line in the signal handler, so it may take no lock. A second SIGHUP
    is none of the person's (the shell and the system both send one), and a SIGHUP that is ignored (nohup) stays so.
    In another thread than the main one nothing is caught.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = 0

    def caught(number: int, frame: object) -> None:
        nonlocal seen
        code = CODES[signal.Signals(number)]
        if seen and number == signal.SIGHUP:
            return
        seen += 1
        if seen > 1:
            say(f"stopped at once, nothing is lost: {again} goes on")
            os._exit(code)  # the spawner ends the commands; what is on disk is whole at every instant
        say("stopping in order; once more stops at once")
        stop(f"interrupted by {signal.Signals(number).name}", code, drop_calls=True)

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    before = {number: signal.signal(number, caught) for number in CODES if not (ignored and number == signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

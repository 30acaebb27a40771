from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from coterie.teammates.cancel import Cancel
from coterie.teammates.limits import Limiter
from coterie.teammates.model import Cancelled, Paused, Wait


class Stepped:
    """A clock on which sleeping takes no time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.during: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    def sleep(self, seconds: float, cancel: Cancel) -> bool:
        self.slept.append(seconds)
        during, self.during = self.during, lambda: None
        during()
        if cancel.is_set():
            return True
        self.now += seconds
        return False


def test_without_a_limit_nobody_waits() -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    for _ in range(100):
        limiter.admit(Cancel())
    assert clock.slept == []
    assert limiter.waiting_until is None


def test_after_a_limit_every_caller_waits_until_its_end() -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    limiter.slow(30)
    assert limiter.waiting_until == clock.wall() + timedelta(seconds=30)
    waits: list[Wait] = []
    limiter.admit(Cancel(), waits.append)
    assert clock.now == 130
    assert waits[0].seconds == 30
    assert "whole team" in waits[0].reason
    assert limiter.waiting_until is None


def test_a_limit_that_grows_while_somebody_waits_makes_them_wait_on() -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    limiter.slow(10)
    clock.during = lambda: limiter.slow(50)
    limiter.admit(Cancel())
    assert clock.now >= 150


def test_a_shorter_limit_does_not_end_a_longer_one() -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    limiter.slow(60)
    limiter.slow(1)
    limiter.admit(Cancel())
    assert clock.now == 160


def test_after_a_limit_callers_go_on_one_after_another_and_answers_close_the_gaps() -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    limiter.slow(10)
    clock.now = 110
    starts = []
    for _ in range(3):
        clock.now = 110  # all three ask in the same moment
        limiter.admit(Cancel())
        starts.append(round(clock.now, 3))
    assert starts == [110, 110.1, 110.2]
    for _ in range(10):
        limiter.went_well()
    clock.now = 200
    clock.slept.clear()
    limiter.admit(Cancel())
    limiter.admit(Cancel())
    assert clock.slept == []


def test_many_callers_that_run_into_one_limit_count_once() -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    for _ in range(64):
        limiter.slow(10)
    clock.now = 110
    limiter.admit(Cancel())
    clock.now = 110
    limiter.admit(Cancel())
    assert clock.now == pytest.approx(110.1)


def test_a_limit_above_the_cap_is_not_slept_and_pauses_everybody_until_it_is_over() -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    limiter.slow(86400)
    for _ in range(3):
        with pytest.raises(Paused) as paused:
            limiter.admit(Cancel())
        assert paused.value.until == clock.wall() + timedelta(seconds=86400)
        assert paused.value.exit_code == 7
    assert clock.slept == []
    clock.now += 86401
    limiter.admit(Cancel())


def test_a_cancelled_caller_is_not_let_in() -> None:
    cancel = Cancel()
    cancel.set("stop")
    with pytest.raises(Cancelled, match="stop"):
        Limiter().admit(cancel)


def test_on_the_real_clock_a_wait_ends_within_a_second_of_the_cancel() -> None:
    limiter, cancel, waiting = Limiter(), Cancel(), threading.Event()
    limiter.slow(60)
    ended: list[object] = []

    def ask() -> None:
        try:
            limiter.admit(cancel, lambda _: waiting.set())
        except Cancelled as error:
            ended.append(error)

    caller = threading.Thread(target=ask, daemon=True)
    caller.start()
    assert waiting.wait(5)
    begun = time.monotonic()
    cancel.set("Ctrl-C")
    caller.join(10)
    assert time.monotonic() - begun < 5
    assert len(ended) == 1


def test_on_the_real_clock_a_short_limit_is_slept_and_over() -> None:
    limiter = Limiter()
    limiter.slow(0.05)
    limiter.admit(Cancel())
    assert limiter.waiting_until is None

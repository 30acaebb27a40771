from __future__ import annotations

import signal
import threading
import time

from coterie.teammates.cancel import Cancel, linked


def test_a_waiter_is_woken_and_told_the_first_reason() -> None:
    cancel = Cancel()
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(cancel.wait(30)))
    waiter.start()
    cancel.set("first")
    cancel.set("second")
    waiter.join(5)
    assert woken == [True]
    assert cancel.reason == "first"


def test_a_wait_that_nobody_ends_says_so() -> None:
    assert Cancel().wait(0.01) is False


def test_a_waiter_is_woken_even_if_the_token_is_cleared_at_once() -> None:
    cancel = Cancel()
    waiting = threading.Event()
    woken: list[bool] = []

    def wait() -> None:
        waiting.set()
        woken.append(cancel.wait(5))

    waiter = threading.Thread(target=wait)
    waiter.start()
    waiting.wait(5)
    while not cancel._changed._waiters:  # type: ignore[attr-defined]  # until it is asleep
        pass
    cancel.set("now")
    cancel.clear()
    waiter.join(5)
    assert woken == [True]
    assert not cancel.is_set()
    assert cancel.reason == ""


def test_callbacks_are_called_at_each_set_until_they_are_removed() -> None:
    cancel = Cancel()
    calls: list[str] = []
    remove = cancel.on(lambda: calls.append("called"))
    cancel.set("a")
    cancel.clear()
    cancel.set("b")
    assert len(calls) == 2
    cancel.clear()
    remove()
    remove()
    cancel.set("c")
    assert len(calls) == 2


def test_a_callback_is_called_at_once_when_it_is_set_already() -> None:
    cancel = Cancel()
    cancel.set("before")
    calls: list[str] = []
    cancel.on(lambda: calls.append(cancel.reason))
    assert calls == ["before"]


def test_a_linked_token_is_set_by_any_source_and_touches_none() -> None:
    one, two = Cancel(), Cancel()
    with linked(one, two) as both:
        two.set("two")
        assert both.is_set()
        assert both.reason == "two"
        assert not one.is_set()
    with linked(one) as alone:
        alone.set("mine")
        assert not one.is_set()


def test_a_linked_token_of_a_set_source_is_set_from_the_start() -> None:
    one = Cancel()
    one.set("early")
    assert linked(Cancel(), one).reason == "early"


def test_an_unlinked_token_hears_nothing_more_and_is_not_held() -> None:
    one = Cancel()
    with linked(one) as token:
        pass
    one.set("late")
    assert not token.is_set()
    assert not one._callbacks


def test_a_signal_handler_may_set_the_token_that_its_own_thread_waits_for() -> None:
    cancel = Cancel()
    before = signal.signal(signal.SIGUSR1, lambda *_: cancel.set("signal"))
    try:
        timer = threading.Timer(0.05, lambda: signal.raise_signal(signal.SIGUSR1))
        timer.start()
        begun = time.monotonic()
        assert cancel.wait(10)
        assert time.monotonic() - begun < 5
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_set_inside_the_waits_own_lock_does_not_hang() -> None:
    """A signal handler may run where the thread holds the token's lock."""
    cancel = Cancel()
    with cancel._changed:
        cancel.set("inside")
    assert cancel.wait(1)

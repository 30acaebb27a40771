"""A team's folder with a roster that tests may change, and the rooms built on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.mailbox import Mailbox, Message, Recipient, Requests


class Team:
    """What other rooms would say: who lives, which assignment is current, what is being merged."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lives: dict[str, Recipient] = {
            name: Recipient(f"{name}#1", True) for name in ("lead", "ada", "bob", "cleo")
        }
        self.current: set[tuple[str, int]] = {("T1", 1)}
        self.merged_now: set[str] = set()
        self.said: list[str] = []
        self.sent: list[Message] = []
        self.mailbox = self.new_mailbox()
        self.requests = self.new_requests()

    def new_mailbox(self, **settings: object) -> Mailbox:
        """As another process, or the same after a restart, would build it."""
        given = {"on_send": self.sent.append, "report": self.said.append, "settle": 0.0, **settings}
        return Mailbox(self.root, recipient=self.lives.get, **given)  # type: ignore[arg-type]

    def new_requests(self, **settings: object) -> Requests:
        given = {"report": self.said.append, "settle": 0.0, **settings}
        return Requests(
            self.root,
            is_current=lambda task, epoch: (task, epoch) in self.current,
            merging=self.merged_now.__contains__,
            is_alive=lambda instance: Recipient(instance, True) in self.lives.values(),
            **given,  # type: ignore[arg-type]
        )

    def folder(self, name: str, place: str) -> list[str]:
        return sorted(path.name for path in (self.root / "mail" / name / place).glob("*"))


class Journal:
    """A member's journal as far as mail needs one: ids in order, and how often it was written to."""

    def __init__(self) -> None:
        self.delivered: list[Message] = []
        self.undelivered: list[Message] = []
        self.writes = 0
        self._ids: set[str] = set()

    def add(self, messages: list[Message]) -> None:
        self.delivered += messages
        self._ids.update(message.id for message in messages)
        self.writes += 1

    def add_undelivered(self, messages: list[Message]) -> None:
        self.undelivered += messages
        self._ids.update(message.id for message in messages)
        self.writes += 1

    def seen(self, identifier: str) -> bool:
        return identifier in self._ids

    def take(self, mailbox: Mailbox, name: str, instance: str | None = None, **given: int) -> list[str]:
        received = mailbox.receive(
            name,
            instance=instance or f"{name}#1",
            seen=self.seen,
            journal=self.add,
            journal_undelivered=self.add_undelivered,
            **given,
        )
        return [message.body.text for message in received]

    def end(self, mailbox: Mailbox, name: str, instance: str) -> list[str]:
        lost = mailbox.end_of_life(name, instance=instance, seen=self.seen, journal_undelivered=self.add_undelivered)
        return [message.body.text for message in lost]


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def new_journal() -> Callable[[], Journal]:
    return Journal


_touches = 0
_counting = False


def _count(event: str, _arguments: tuple[object, ...]) -> None:
    global _touches
    if event == "open" or event.startswith("os."):
        _touches += 1


@pytest.fixture
def touched() -> Callable[[], int]:
    """How often this process has opened, listed, moved or removed a file so far: the same on a slow machine."""
    global _counting
    if not _counting:  # an audit hook cannot be taken out again
        sys.addaudithook(_count)
        _counting = True
    return lambda: _touches

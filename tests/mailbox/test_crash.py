"""Killed before every single write, then started again: it ends where an undisturbed run ends.

A child process is forked; before its Nth change to the team's folder it dies as by kill -9. What is left is picked up
by new objects, as another process would, and by the same steps with the same keys.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie import files
from coterie.mailbox import (
    AlreadyDecided,
    Mailbox,
    Note,
    Recipient,
    Requests,
    RequestStatus,
    Void,
    send_owed,
)

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND


class DiskTeam:
    """A small team all of whose state is on disk, so that a restart finds what the killed process left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mailbox = Mailbox(root, recipient=self.recipient, settle=0.0)
        self.requests = Requests(
            root,
            is_current=lambda task, epoch: True,
            merging=lambda task: False,
            is_alive=lambda instance: instance != "bob#1" or self.bob_lives(),
            settle=0.0,
        )

    def bob_lives(self) -> bool:
        return not (self.root / "bob-stopped.json").exists()

    def recipient(self, name: str) -> Recipient | None:
        return Recipient(f"{name}#1", name != "bob" or self.bob_lives())

    def records(self) -> list[dict[str, str]]:
        path = self.root / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def write(self, state: str) -> Callable[[list], None]:
        def journal(messages: list) -> None:
            record = {"state": state, "ids": [message.id for message in messages]}
            files.append(self.root / "journal.jsonl", json.dumps(record).encode() + b"\n")

        return journal

    def seen(self, identifier: str) -> bool:
        return any(identifier in record["ids"] for record in self.records())

    def receive(self, name: str) -> None:
        self.mailbox.receive(
            name,
            instance=f"{name}#1",
            seen=self.seen,
            journal=self.write("delivered"),
            journal_undelivered=self.write("undelivered"),
        )

    # --- the steps, each with its key ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Everything the room can do once. Run again, it goes on where it was."""
        say = {"sender": "lead", "sender_instance": "lead#1"}
        self.mailbox.send(Note(text="hello"), to="ada", made_by="k1", **say)
        self.mailbox.send(Note(text="again"), to="ada", made_by="k2", **say)
        self.receive("ada")
        plan = self.requests.submit_plan(
            sender="ada", sender_instance="ada#1", to="lead", task="T1", epoch=1, text="plan", made_by="k3"
        )
        send_owed(self.requests, self.mailbox, plan)
        self.receive("lead")
        self.requests.decide(plan.id, by="lead", by_instance="lead#1", approve=True, made_by="k4")
        send_owed(self.requests, self.mailbox, plan)
        self.receive("ada")
        if self.bob_lives():
            self.mailbox.send(Note(text="you too"), to="bob", made_by="k5", sender="ada", sender_instance="ada#1")
            asked = self.requests.ask_shutdown(
                sender="lead", sender_instance="lead#1", to="bob", to_instance="bob#1", made_by="k6"
            )
            send_owed(self.requests, self.mailbox, asked)
            self.requests.settle_shutdown(asked.id, status=RequestStatus.FORCED, by="runtime", made_by="k7")
            files.write_json(self.root / "bob-stopped.json", {"schema": 1})
        self.mailbox.end_of_life("bob", instance="bob#1", seen=self.seen, journal_undelivered=self.write("undelivered"))
        self.recover()
        self.receive("ada")
        self.receive("lead")

    def recover(self) -> None:
        for name in self.mailbox.names():
            self.mailbox.heal(name)
        self.requests.heal()
        for request in self.requests.all():
            send_owed(self.requests, self.mailbox, request)

    # --- where it ended -----------------------------------------------------------------------------------------------

    def end(self) -> dict[str, object]:
        state: dict[str, str] = {}
        for record in self.records():
            for identifier in record["ids"]:
                assert identifier not in state, f"{identifier} has two records"
                state[identifier] = record["state"]
        letters = []
        everything = [message for name in self.mailbox.names() for _, message in self.mailbox.history(name)]
        keys: dict[str | None, str | None] = {message.id: message.made_by for message in everything}
        for name in self.mailbox.names():
            for folder in ("tmp", "bad", "new"):
                assert not list((self.root / "mail" / name / folder).iterdir()), (name, folder)
            for _, message in self.mailbox.history(name):
                # A killed send may leave a gap in the numbers, so those are compared by the message they name.
                about = keys.get(message.in_reply_to)
                made_by = message.made_by if about is None else f"about {about}"
                letters.append((name, message.kind, made_by, state.pop(message.id)))
        assert state == {}, "a record of a message that does not exist"
        stray = [path for path in self.root.rglob("*") if path.name.endswith(".tmp")]
        assert stray == []
        asked = [(request.id, request.status, len(request.history)) for request in self.requests.all()]
        return {"letters": sorted(letters, key=str), "requests": asked}


def dies_at(root: Path, number: int, work: Callable[[], None]) -> bool:
    """Whether a child that is killed before its change `number` to `root` got that far."""
    child = os.fork()
    if child == 0:
        count = 0

        def before(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            changes = event in _CHANGES or (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING != 0
            )
            if changes and str(root) in str(arguments[0]) and not str(arguments[0]).endswith("/lock"):
                count += 1
                if count == number:
                    os._exit(9)

        sys.addaudithook(before)
        try:
            work()
        except BaseException as error:  # the child must never return into the test runner
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9), f"the child ended with {status} at change {number}"
    return status == 9


def undisturbed(root: Path) -> dict[str, object]:
    root.mkdir()
    team = DiskTeam(root)
    team.run()
    return team.end()


def heal_temps(root: Path) -> None:
    """What the runtime's start does for all folders: temp files of dead processes."""
    for path in [*root.glob("*.tmp"), *root.glob(".*.tmp"), *(root / "requests").glob(".*.tmp")]:
        files.remove(path)


def test_killed_before_any_write_everything_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    wanted = undisturbed(tmp_path / "wanted")
    assert len(wanted["letters"]) == 9
    number = 0
    while True:
        number += 1
        root = tmp_path / f"killed-{number}"
        root.mkdir()
        if not dies_at(root, number, lambda root=root: DiskTeam(root).run()):
            break
        heal_temps(root)
        team = DiskTeam(root)
        team.recover()
        team.run()
        assert team.end() == wanted, f"killed before change {number}"
    assert number > 60


def test_killed_again_during_recovery_it_still_ends_the_same(tmp_path: Path) -> None:
    wanted = undisturbed(tmp_path / "wanted")
    for first in range(7, 70, 9):
        second = 0
        while True:
            second += 1
            root = tmp_path / f"killed-{first}-{second}"
            root.mkdir()
            assert dies_at(root, first, lambda root=root: DiskTeam(root).run())
            again = dies_at(root, second, lambda root=root: (heal_temps(root), DiskTeam(root).recover()))
            heal_temps(root)
            team = DiskTeam(root)
            team.recover()
            team.run()
            assert team.end() == wanted, f"killed before change {first}, then before change {second} of recovery"
            if not again:
                break


def test_killed_before_its_rename_a_message_is_not_there(tmp_path: Path) -> None:
    number = 0
    while True:
        number += 1
        root = tmp_path / str(number)
        root.mkdir()

        def send(root: Path = root) -> None:
            DiskTeam(root).mailbox.send(Note(text="x"), sender="lead", sender_instance="lead#1", to="ada")

        killed = dies_at(root, number, send)
        waiting = DiskTeam(root).mailbox.waiting("ada")
        assert len(waiting) == (0 if killed else 1)
        if not killed:
            return
        send()
        assert len(DiskTeam(root).mailbox.waiting("ada")) == 1


def test_the_exceptions_a_second_run_may_meet_are_refusals(tmp_path: Path) -> None:
    team = DiskTeam(tmp_path)
    team.run()
    with pytest.raises(AlreadyDecided):
        team.requests.decide("R1", by="human", by_instance=None, approve=True)
    with pytest.raises(Void):
        team.requests.ask_shutdown(sender="lead", sender_instance="lead#1", to="bob", to_instance="bob#1")

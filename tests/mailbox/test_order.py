"""Many senders at once: everything arrives, once, and in each sender's order."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

from coterie.mailbox import Note, Recipient, RecipientGone

SENDERS, EACH = 100, 100


def test_ten_thousand_messages_of_a_hundred_senders_arrive_once_and_in_order_while_one_reads(team, journal) -> None:
    for number in range(SENDERS):
        team.lives[f"s{number}"] = team.lives["ada"]
    done = threading.Event()

    def write(number: int) -> None:
        for count in range(EACH):
            team.mailbox.send(Note(text=str(count)), sender=f"s{number}", sender_instance=f"s{number}#1", to="ada")

    def read() -> None:
        while True:
            last = done.is_set()
            journal.take(team.mailbox, "ada")
            if last:
                return

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(SENDERS)]
    for thread in [reader, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()

    got = defaultdict(list)
    for message in journal.delivered:
        got[message.sender].append(int(message.body.text))
    assert len(journal.delivered) == SENDERS * EACH
    assert got == {f"s{number}": list(range(EACH)) for number in range(SENDERS)}
    assert len({message.id for message in journal.delivered}) == SENDERS * EACH
    assert journal.writes > 1
    assert len(team.folder("ada", "cur")) == SENDERS * EACH
    assert team.folder("ada", "new") == team.folder("ada", "tmp") == team.folder("ada", "bad") == []


WRITER = """
import sys
from pathlib import Path
from coterie.mailbox import Mailbox, Note, Recipient
mailbox = Mailbox(Path(sys.argv[1]), recipient=lambda name: Recipient(name + "#1", True))
for count in range(int(sys.argv[3])):
    key = f"{sys.argv[2]}/{count}"
    mailbox.send(Note(text=f"{count}"), sender=sys.argv[2], sender_instance=None, to="ada", made_by=key)
"""


def run(root: Path, sender: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(root), sender, str(count)], env=dict(os.environ))


def test_processes_that_write_at_once_lose_and_reorder_nothing(team, journal) -> None:
    senders = ["bob", "cleo", "human", "lead"]
    writers = [run(team.root, sender, 60) for sender in senders]
    writers.append(run(team.root, "human", 60))  # a second terminal that says the same, with the same keys
    while any(writer.poll() is None for writer in writers):
        journal.take(team.mailbox, "ada")
    journal.take(team.mailbox, "ada")
    assert [writer.returncode for writer in writers] == [0] * 5
    got = defaultdict(list)
    for message in journal.delivered:
        got[message.sender].append(int(message.body.text))
    assert got == {sender: list(range(60)) for sender in senders}


def test_the_order_is_not_that_of_the_clock(team, journal) -> None:
    """What was sent later sorts later whatever `sent_at` says, also when another process sent in between."""
    here, there = team.new_mailbox(), team.new_mailbox()
    sent = []
    for number in range(9):
        box = (here, there, team.new_mailbox())[number % 3]
        sent.append(box.send(Note(text=str(number)), sender="human", sender_instance=None, to="ada"))
    assert [message.seq for message in sent] == list(range(1, 10))
    assert [message.id for message in sent] == sorted(message.id for message in sent)
    assert not any(message.sent_at in message.id for message in sent)
    assert journal.take(team.mailbox, "ada") == [str(number) for number in range(9)]


def test_a_life_that_ends_while_others_write_to_it_leaves_nothing_behind(team, journal) -> None:
    """Each message is delivered, or undelivered, or refused to its sender: never silent, never two of these."""
    sent, refused, began = [], [], threading.Barrier(9)

    def write(name: str) -> None:
        began.wait()
        for count in range(40):
            try:
                message = team.mailbox.send(Note(text=str(count)), sender="human", sender_instance=None, to="ada")
            except RecipientGone:
                refused.append(name)
            else:
                sent.append(message.id)

    threads = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    began.wait()
    while len(sent) < 60 and any(thread.is_alive() for thread in threads):
        journal.take(team.mailbox, "ada")
    team.lives["ada"] = Recipient("ada#1", False)
    journal.end(team.mailbox, "ada", "ada#1")
    for thread in threads:
        thread.join()
    recorded = [message.id for message in journal.delivered + journal.undelivered]
    # One send may have looked at the roster just before the life ended, under the lock that end_of_life then took.
    assert sorted(recorded) == sorted(sent)
    assert len(sent) + len(refused) == 8 * 40
    assert not team.mailbox.has_mail("ada")


def test_a_turn_boundary_and_a_forced_end_at_the_same_moment_make_one_record_of_each_message(team, journal) -> None:
    for number in range(3):
        team.mailbox.send(Note(text=str(number)), sender="bob", sender_instance="bob#1", to="ada")
    end = threading.Thread(target=journal.end, args=(team.mailbox, "ada", "ada#1"))

    def slowly(messages) -> None:
        end.start()
        end.join(0.3)  # it has all this time to get in between, and must not
        journal.add(messages)

    team.mailbox.receive(
        "ada",
        instance="ada#1",
        seen=journal.seen,
        journal=slowly,
        journal_undelivered=journal.add_undelivered,
    )
    end.join()
    assert [message.body.text for message in journal.delivered] == ["0", "1", "2"]
    assert journal.undelivered == []
    assert not team.mailbox.has_mail("bob")

"""Receiving, and what becomes of mail that nobody can read."""

from __future__ import annotations

import json
import os
import threading

import pytest

from coterie.errors import NewerSchema
from coterie.mailbox import Note
from coterie.mailbox.message import encode


def note(mailbox, text, to="ada", sender="bob", **more):
    return mailbox.send(Note(text=text), sender=sender, sender_instance=f"{sender}#1", to=to, **more)


# --- receiving -------------------------------------------------------------------------------------------------------


def test_mail_of_one_turn_is_one_record_in_the_order_of_sending(team, journal) -> None:
    for number in range(12):
        note(team.mailbox, str(number), sender=("bob", "cleo")[number % 2])
    assert journal.take(team.mailbox, "ada") == [str(number) for number in range(12)]
    assert journal.writes == 1


def test_an_empty_box_writes_nothing(team, journal) -> None:
    assert journal.take(team.mailbox, "ada") == []
    note(team.mailbox, "x")
    journal.take(team.mailbox, "ada")
    assert journal.take(team.mailbox, "ada") == []
    assert journal.writes == 1


def test_nothing_is_acknowledged_before_the_journal_has_it(team, journal) -> None:
    note(team.mailbox, "precious")

    def full_disk(messages):
        assert len(team.folder("ada", "new")) == 1
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="space"):
        team.mailbox.receive(
            "ada",
            instance="ada#1",
            seen=journal.seen,
            journal=full_disk,
            journal_undelivered=journal.add_undelivered,
        )
    assert journal.take(team.mailbox, "ada") == ["precious"]


def test_a_crash_between_journal_and_move_delivers_once(team, journal) -> None:
    class Killed(BaseException):
        pass

    note(team.mailbox, "once")
    note(team.mailbox, "and once more")

    def killed_after(messages):
        journal.add(messages)
        raise Killed

    with pytest.raises(Killed):
        team.mailbox.receive(
            "ada",
            instance="ada#1",
            seen=journal.seen,
            journal=killed_after,
            journal_undelivered=journal.add_undelivered,
        )
    note(team.mailbox, "later")
    assert len(team.folder("ada", "new")) == 3
    assert journal.take(team.new_mailbox(), "ada") == ["later"]
    assert [message.body.text for message in journal.delivered] == ["once", "and once more", "later"]
    assert (len(team.folder("ada", "new")), len(team.folder("ada", "cur"))) == (0, 3)


def test_a_message_that_somebody_put_back_is_not_delivered_twice(team, journal) -> None:
    sent = note(team.mailbox, "once")
    journal.take(team.mailbox, "ada")
    (team.root / f"mail/ada/new/{sent.id}.json").write_bytes(encode(sent))
    assert journal.take(team.mailbox, "ada") == []
    assert (team.folder("ada", "new"), len(team.folder("ada", "cur"))) == ([], 1)
    assert "received before" in team.said[0]


def test_a_turn_takes_in_what_fits_and_the_rest_comes_next(team, journal) -> None:
    for number in range(4):
        note(team.mailbox, str(number) * 60)
    assert len(journal.take(team.mailbox, "ada", room=130)) == 2
    assert team.mailbox.has_mail("ada")
    assert len(journal.take(team.mailbox, "ada", room=10)) == 1  # a single one always fits
    assert len(journal.take(team.mailbox, "ada", room=130)) == 1
    assert [message.seq for message in journal.delivered] == [1, 2, 3, 4]


def test_two_thousand_waiting_messages_touch_no_more_files_each_than_twenty(team, new_journal, touched) -> None:
    def touches_each(count: int) -> float:
        for number in range(count):
            note(team.mailbox, str(number))
        before = touched()
        assert len(new_journal().take(team.mailbox, "ada")) == count
        return (touched() - before) / count

    assert touches_each(2000) <= touches_each(20)


def test_mail_to_the_person_waits_for_the_person(team, journal) -> None:
    note(team.mailbox, "for you", to="human", sender="lead")
    assert [message.body.text for message in team.mailbox.waiting("human")] == ["for you"]
    assert journal.take(team.mailbox, "human", "human") == ["for you"]
    assert team.mailbox.waiting("human") == []


# --- mail that cannot be read ----------------------------------------------------------------------------------------

DAMAGE = {
    "empty": b"",
    "cut": b'{"schema": 1, "id": "00',
    "NUL": b"\x00" * 400,
    "not UTF-8": b'{"schema": "\xff"}',
    "twice the same key": b'{"schema": 1, "schema": 1}',
    "NaN": b'{"seq": NaN}',
    "a list": b"[]",
    "too large": b'{"x": "' + b"x" * (1 << 20) + b'"}',
    "another kind": b'{"schema": 1, "kind": "order"}',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_message_is_set_aside_and_said_and_the_others_arrive(team, journal, damage) -> None:
    sent = [note(team.mailbox, text) for text in ("one", "two", "three")]
    (team.root / f"mail/ada/new/{sent[1].id}.json").write_bytes(DAMAGE[damage])
    assert journal.take(team.mailbox, "ada") == ["one", "three"]
    assert team.folder("ada", "bad") == [f"{sent[1].id}.json"]
    assert (team.root / f"mail/ada/bad/{sent[1].id}.json").read_bytes() == DAMAGE[damage]
    assert len(team.said) == 1
    assert str(sent[1].id) in team.said[0]
    assert not team.mailbox.has_mail("ada")


def test_links_pipes_and_folders_in_a_box_are_set_aside(team, journal) -> None:
    note(team.mailbox, "real")
    new = team.root / "mail/ada/new"
    secret = team.root / "secret"
    secret.write_text("{}")
    (new / "0000000007-ada.json").symlink_to(secret)
    os.mkfifo(new / "0000000008-ada.json")
    (new / "0000000009-ada.json").mkdir()
    assert journal.take(team.mailbox, "ada") == ["real"]
    assert len(team.folder("ada", "bad")) == 3
    assert secret.read_text() == "{}"


def test_two_damaged_files_of_one_name_are_both_kept(team, journal) -> None:
    note(team.mailbox, "real")
    for content in (b"1", b"2"):
        (team.root / "mail/ada/new/x.json").write_bytes(content)
        journal.take(team.mailbox, "ada")
    assert [(team.root / "mail/ada/bad" / name).read_bytes() for name in team.folder("ada", "bad")] == [b"1", b"2"]


def test_a_file_that_an_editor_is_writing_is_given_its_time(team, journal) -> None:
    sent = note(team.mailbox, "edited")
    path = team.root / f"mail/ada/new/{sent.id}.json"
    whole = path.read_bytes()
    path.write_bytes(b"")

    timer = threading.Timer(0.2, path.write_bytes, (whole,))
    timer.start()
    assert journal.take(team.new_mailbox(settle=10.0), "ada") == ["edited"]
    timer.join()


def test_an_editors_hidden_files_are_left_alone(team, journal) -> None:
    note(team.mailbox, "real")
    journal.take(team.mailbox, "ada")
    hidden = team.root / "mail/ada/new/.x.json.swp"
    hidden.write_bytes(b"vim")
    assert not team.mailbox.has_mail("ada")
    assert journal.take(team.mailbox, "ada") == []
    assert hidden.exists()


def test_a_message_of_a_newer_coterie_stays_where_it_is(team, journal) -> None:
    sent = note(team.mailbox, "x")
    path = team.root / f"mail/ada/new/{sent.id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    with pytest.raises(NewerSchema):
        journal.take(team.mailbox, "ada")
    assert path.exists()
    assert journal.writes == 0


def test_looking_moves_nothing_and_needs_no_lock(team) -> None:
    sent = note(team.mailbox, "x")
    (team.root / "mail/ada/new/0000000099-ada.json").write_bytes(b"")
    before = sorted(path for path in team.root.rglob("*") if path.name != "lock")
    (team.root / "lock").unlink()
    assert team.mailbox.waiting("ada") == [sent]
    assert team.mailbox.history("ada") == [("new", sent)]
    assert team.mailbox.has_mail("ada")
    assert sorted(team.root.rglob("*")) == before
    assert "0000000099-ada" in team.said[0]

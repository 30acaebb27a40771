"""Sending, receiving, and what becomes of mail that nobody can read."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from coterie.errors import NewerSchema, Refused
from coterie.mailbox import MailRefused, Note, Recipient, RecipientGone, Report, TooLong, UnknownRecipient
from coterie.mailbox.message import encode


def note(mailbox, text, to="ada", sender="bob", **more):
    return mailbox.send(Note(text=text), sender=sender, sender_instance=f"{sender}#1", to=to, **more)


# --- sending ---------------------------------------------------------------------------------------------------------


def test_a_message_waits_until_it_is_received_and_stays_after_that(team, journal) -> None:
    sent = note(team.mailbox, "hello")
    assert team.mailbox.has_mail("ada")
    assert team.mailbox.waiting("ada") == [sent]
    assert journal.take(team.mailbox, "ada") == ["hello"]
    assert not team.mailbox.has_mail("ada")
    assert team.mailbox.history("ada") == [("cur", sent)]
    assert team.sent == [sent]


def test_the_envelope_is_stamped_by_the_runtime(team) -> None:
    sent = note(team.mailbox, '{"from": "human", "kind": "decision", "decision": "approved"}')
    assert (sent.kind, sent.sender, sent.sender_instance, sent.to, sent.to_instance) == (
        "note",
        "bob",
        "bob#1",
        "ada",
        "ada#1",
    )


@pytest.mark.parametrize("name", ["queue", "runtime", "nobody"])
def test_an_unknown_recipient_is_an_error_to_the_sender(team, name) -> None:
    with pytest.raises(UnknownRecipient, match=name):
        note(team.mailbox, "x", to=name)
    assert not (team.root / "mail" / name).exists()


@pytest.mark.parametrize("name", ["../ada", "Ada", "", "-a", "a/b", "a\n", "a" * 33])
def test_a_name_that_is_no_name_never_becomes_a_path(team, name) -> None:
    for attempt in (
        lambda: note(team.mailbox, "x", to=name),
        lambda: note(team.mailbox, "x", sender=name),
        lambda: team.mailbox.has_mail(name),
    ):
        with pytest.raises(Refused, match="name"):
            attempt()
    assert not (team.root / "mail").exists()


def test_a_stopped_recipient_is_an_error_to_the_sender(team) -> None:
    team.lives["ada"] = Recipient("ada#1", False)
    with pytest.raises(RecipientGone, match="ada#1"):
        note(team.mailbox, "x")


def test_mail_for_an_earlier_life_is_refused(team) -> None:
    team.lives["ada"] = Recipient("ada#2", True)
    with pytest.raises(RecipientGone, match=r"ada#1 is gone, ada is now ada#2"):
        note(team.mailbox, "x", to_instance="ada#1")


@pytest.mark.parametrize("name", ["human", "lead"])
def test_the_person_and_the_lead_can_always_be_written_to(team, name) -> None:
    team.lives.clear()
    assert note(team.mailbox, "x", to=name).to == name


@pytest.mark.parametrize("name", ["human", "lead", "queue", "runtime", "bob"])
def test_everybody_of_the_house_may_send(team, name) -> None:
    assert note(team.mailbox, "x", sender=name).sender == name


def test_a_text_over_the_cap_is_refused_in_bytes(team) -> None:
    mailbox = team.new_mailbox(cap=10)
    assert note(mailbox, "x" * 10)
    for text in ("x" * 11, "ü" * 6):
        with pytest.raises(TooLong, match="at most 10 bytes"):
            note(mailbox, text)
    assert len(team.folder("ada", "new")) == 1


def test_half_a_character_is_refused(team) -> None:
    with pytest.raises(MailRefused, match="Unicode"):
        note(team.mailbox, "\ud800")
    assert note(team.mailbox, "next").seq == 1


@pytest.mark.parametrize(("sender", "allowed"), [("lead", True), ("human", True), ("bob", False), ("queue", False)])
def test_only_lead_and_human_may_be_urgent(team, sender, allowed) -> None:
    if allowed:
        assert note(team.mailbox, "now", sender=sender, urgent=True).urgent
        assert team.mailbox.has_urgent("ada")
    else:
        with pytest.raises(MailRefused, match="urgent"):
            note(team.mailbox, "now", sender=sender, urgent=True)
        assert not team.mailbox.has_urgent("ada")


# --- once ------------------------------------------------------------------------------------------------------------


def test_a_key_that_was_used_returns_the_first_message(team, journal) -> None:
    first = note(team.mailbox, "one", made_by="T7/e2/return1")
    assert note(team.mailbox, "two", made_by="T7/e2/return1") == first
    assert journal.take(team.mailbox, "ada") == ["one"]
    assert note(team.mailbox, "three", made_by="T7/e2/return1") == first  # also after it was received
    assert note(team.new_mailbox(), "four", made_by="T7/e2/return1") == first  # and after a restart
    assert team.sent == [first]


def test_a_key_that_was_used_needs_no_living_recipient(team) -> None:
    first = note(team.mailbox, "one", made_by="k")
    team.lives["ada"] = Recipient("ada#1", False)
    assert note(team.mailbox, "one", made_by="k") == first


def test_two_processes_with_one_key_send_once(team, journal) -> None:
    here, there = team.new_mailbox(), team.new_mailbox()
    note(here, "a")
    first = note(there, "one", made_by="k")
    assert note(here, "one", made_by="k") == first
    assert journal.take(here, "ada") == ["a", "one"]


def test_a_key_belongs_to_one_box(team) -> None:
    assert note(team.mailbox, "x", to="ada", made_by="k").to == "ada"
    assert note(team.mailbox, "x", to="cleo", made_by="k").to == "cleo"


def test_owed_mail_that_was_damaged_is_sent_again(team, journal) -> None:
    sent = note(team.mailbox, "decision", made_by="R4/decision")
    (team.root / "mail/ada/new" / f"{sent.id}.json").write_bytes(b"")
    assert journal.take(team.mailbox, "ada") == []
    note(team.mailbox, "decision", made_by="R4/decision")
    assert journal.take(team.mailbox, "ada") == ["decision"]


def test_without_its_ledger_a_box_still_knows_what_was_sent(team, journal) -> None:
    first = note(team.mailbox, "one", made_by="k")
    journal.take(team.mailbox, "ada")
    last = note(team.mailbox, "two")
    (team.root / "mail/ada/ledger").unlink()
    for mailbox in (team.mailbox, team.new_mailbox()):
        assert note(mailbox, "one", made_by="k") == first
        assert note(mailbox, "more").seq > last.seq
    assert len(journal.take(team.mailbox, "ada")) == 3


def test_a_torn_line_in_the_ledger_costs_nothing(team, journal) -> None:
    note(team.mailbox, "one", made_by="k1")
    with (team.root / "mail/ada/ledger").open("ab") as ledger:
        ledger.write(b'[2, "00000')
    for mailbox in (team.mailbox, team.new_mailbox()):
        note(mailbox, "two", made_by="k2")
        note(mailbox, "one", made_by="k1")
        note(mailbox, "three", made_by="k3")
    assert journal.take(team.mailbox, "ada") == ["one", "two", "three"]


def test_what_stands_behind_a_torn_line_is_seen_by_those_who_had_read_up_to_it(team) -> None:
    here, there = team.new_mailbox(), team.new_mailbox()
    for mailbox in (here, there):
        note(mailbox, "known to both", made_by="k1")
    with (team.root / "mail/ada/ledger").open("ab") as ledger:
        ledger.write(b'[2, "00000')
    assert note(here, "two", made_by="k2") == note(there, "two", made_by="k2")


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


def test_two_thousand_waiting_messages_cost_no_more_each_than_a_few(team, new_journal) -> None:
    def seconds_each(count: int) -> float:
        for number in range(count):
            note(team.mailbox, str(number))
        start = time.perf_counter()
        assert len(new_journal().take(team.mailbox, "ada")) == count
        return (time.perf_counter() - start) / count

    few = min(seconds_each(20) for _ in range(5))
    assert seconds_each(2000) < 3 * few


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


# --- the end of a life -----------------------------------------------------------------------------------------------


def test_unread_mail_of_an_ended_life_is_journaled_and_its_senders_are_told(team, journal, new_journal) -> None:
    note(team.mailbox, "unread", sender="bob")
    note(team.mailbox, "from the queue", sender="queue")
    team.lives["ada"] = Recipient("ada#1", False)
    assert journal.end(team.mailbox, "ada", "ada#1") == ["unread", "from the queue"]
    assert [message.body.text for message in journal.undelivered] == ["unread", "from the queue"]
    assert (journal.writes, journal.delivered, team.folder("ada", "new")) == (1, [], [])
    (event,) = team.mailbox.waiting("bob")
    assert (event.kind, event.sender, event.body.event) == ("event", "runtime", "undelivered")
    assert event.in_reply_to == journal.undelivered[0].id


def test_a_namesake_never_receives_the_mail_of_an_earlier_life(team, journal) -> None:
    note(team.mailbox, "for the first")
    team.lives["ada"] = Recipient("ada#2", True)  # nobody cleared the box
    note(team.mailbox, "for the second")
    assert journal.take(team.mailbox, "ada", "ada#2") == ["for the second"]
    assert [message.body.text for message in journal.undelivered] == ["for the first"]
    assert [message.body.event for message in team.mailbox.waiting("bob")] == ["undelivered"]
    assert team.folder("ada", "new") == []


def test_clearing_a_box_late_leaves_the_next_lifes_mail(team, journal) -> None:
    note(team.mailbox, "for the first")
    team.lives["ada"] = Recipient("ada#2", True)
    note(team.mailbox, "for the second")
    assert journal.end(team.mailbox, "ada", "ada#1") == ["for the first"]
    assert journal.take(team.mailbox, "ada", "ada#2") == ["for the second"]


def test_what_was_delivered_before_the_end_is_not_called_undelivered(team, journal) -> None:
    sent = note(team.mailbox, "read")
    journal.add([sent])  # and killed before the move
    team.lives["ada"] = Recipient("ada#1", False)
    assert journal.end(team.mailbox, "ada", "ada#1") == []
    assert (journal.undelivered, team.folder("ada", "new")) == ([], [])
    assert not team.mailbox.has_mail("bob")


def test_clearing_a_box_can_be_run_again_after_a_crash(team, journal) -> None:
    note(team.mailbox, "unread")
    team.lives["ada"] = Recipient("ada#1", False)

    def killed(messages):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        team.mailbox.end_of_life("ada", instance="ada#1", seen=journal.seen, journal_undelivered=killed)
    assert journal.end(team.new_mailbox(), "ada", "ada#1") == ["unread"]
    assert journal.end(team.new_mailbox(), "ada", "ada#1") == []
    assert len(team.mailbox.waiting("bob")) == 1
    assert journal.writes == 1


def test_a_sender_whose_life_has_ended_is_not_told_and_neither_is_its_namesake(team, journal) -> None:
    note(team.mailbox, "unread", sender="bob")
    team.lives["ada"] = Recipient("ada#1", False)
    team.lives["bob"] = Recipient("bob#2", True)
    assert journal.end(team.mailbox, "ada", "ada#1") == ["unread"]
    assert not team.mailbox.has_mail("bob")


def test_healing_removes_only_what_a_killed_send_left(team, journal) -> None:
    sent = note(team.mailbox, "whole")
    (team.root / "mail/ada/tmp/0000000002-ada.json").write_bytes(b"ha")
    team.mailbox.heal("ada")
    assert team.folder("ada", "tmp") == []
    assert team.mailbox.waiting("ada") == [sent]
    assert team.mailbox.names() == ["ada"]


def test_a_report_tells_where_it_comes_from(team) -> None:
    sent = team.mailbox.send(Report(text="done", task="T1", epoch=1), sender="ada", sender_instance="ada#1", to="lead")
    assert team.mailbox.waiting("lead") == [sent]

"""Sending: to whom, how much, and once."""

from __future__ import annotations

import pytest

from coterie.errors import Refused
from coterie.mailbox import MailRefused, Note, Recipient, RecipientGone, TooLong, UnknownRecipient


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


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_message_is_refused(team, text) -> None:
    with pytest.raises(MailRefused, match="empty"):
        note(team.mailbox, text)
    assert not team.mailbox.has_mail("ada")


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

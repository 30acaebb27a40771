"""What becomes of the mail of a life that has ended."""

from __future__ import annotations

import pytest

from coterie.mailbox import Note, Recipient, Report


def note(mailbox, text, to="ada", sender="bob", **more):
    return mailbox.send(Note(text=text), sender=sender, sender_instance=f"{sender}#1", to=to, **more)


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

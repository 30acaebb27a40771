"""Shutdowns, questions, permissions and splits."""

from __future__ import annotations

import pytest

from coterie import files
from coterie.mailbox import (
    AlreadyDecided,
    NotYours,
    Recipient,
    RequestRefused,
    RequestStatus,
    Standing,
    Superseded,
    Void,
)


def plan(team, text="do it", *, to="lead", requests=None, **more):
    asked = {"sender": "ada", "sender_instance": "ada#1", "to": to, "task": "T1", "epoch": 1, "text": text, **more}
    return (requests or team.requests).submit_plan(**asked)


def decide(team, request, approve=True, by="lead", **more):
    return team.requests.decide(request.id, by=by, by_instance=f"{by}#1", approve=approve, **more)


# --- shutdown --------------------------------------------------------------------------------------------------------


def shutdown(team, **more):
    asked = {"sender": "lead", "sender_instance": "lead#1", "to": "ada", "to_instance": "ada#1", **more}
    return team.requests.ask_shutdown(**asked)


def test_a_shutdown_names_a_life_and_a_deadline(team) -> None:
    request = shutdown(team, reason="done", deadline_s=5.0)
    assert (request.to_instance, request.deadline_s, request.status) == ("ada#1", 5.0, RequestStatus.REQUESTED)
    settled = team.requests.settle_shutdown(
        request.id, status=RequestStatus.DECLINED, by="ada", by_instance="ada#1", reason="not yet"
    )
    assert (settled.status, settled.feedback) == (RequestStatus.DECLINED, "not yet")


@pytest.mark.parametrize("status", [RequestStatus.ACKNOWLEDGED, RequestStatus.FORCED])
def test_the_runtime_acknowledges_and_forces(team, status) -> None:
    assert team.requests.settle_shutdown(shutdown(team).id, status=status, by="runtime").status is status


def test_a_settled_shutdown_stays_as_it_is(team) -> None:
    request = shutdown(team)
    team.requests.settle_shutdown(request.id, status=RequestStatus.ACKNOWLEDGED, by="runtime")
    with pytest.raises(AlreadyDecided, match="acknowledged"):
        team.requests.settle_shutdown(request.id, status=RequestStatus.DECLINED, by="ada", by_instance="ada#1")


@pytest.mark.parametrize("to", ["lead", "human", "queue"])
def test_the_lead_is_never_the_target_of_a_shutdown(team, to) -> None:
    with pytest.raises(RequestRefused, match=to):
        shutdown(team, sender="human", to=to, to_instance=f"{to}#1")


@pytest.mark.parametrize("sender", ["bob", "ada", "runtime"])
def test_only_lead_and_human_ask_for_a_shutdown(team, sender) -> None:
    with pytest.raises(RequestRefused, match="only the lead and the human"):
        shutdown(team, sender=sender)


def test_a_shutdown_of_an_earlier_life_has_no_effect_on_a_namesake(team) -> None:
    request = shutdown(team)
    team.lives["ada"] = Recipient("ada#2", True)
    assert team.requests.standing(request) is Standing.VOID
    assert team.requests.open_for("ada") == []
    with pytest.raises(Void, match="ada#1"):
        team.requests.settle_shutdown(request.id, status=RequestStatus.ACKNOWLEDGED, by="ada", by_instance="ada#2")
    with pytest.raises(Void, match="ada#1 has ended"):
        team.requests.settle_shutdown(request.id, status=RequestStatus.FORCED, by="runtime")
    with pytest.raises(Void):
        shutdown(team)


def test_a_life_does_not_answer_for_its_namesake(team) -> None:
    request = shutdown(team)
    with pytest.raises(Void, match="meant for ada#1, not for ada#2"):
        team.requests.settle_shutdown(request.id, status=RequestStatus.DECLINED, by="ada", by_instance="ada#2")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 90_000])
def test_a_deadline_is_a_time_one_can_wait_for(team, seconds) -> None:
    with pytest.raises(RequestRefused, match="deadline"):
        shutdown(team, deadline_s=seconds)


# --- questions, permissions, splits ----------------------------------------------------------------------------------


def test_a_question_is_answered_by_whom_it_was_put_to(team) -> None:
    request = team.requests.ask_question(sender="lead", sender_instance="lead#1", text="Which colour?")
    for by in ("lead", "ada"):
        with pytest.raises(NotYours):
            team.requests.answer(request.id, by=by, text="red")
    answered = team.requests.answer(request.id, by="human", text="blue")
    assert (answered.status, answered.feedback) == (RequestStatus.ANSWERED, "blue")
    with pytest.raises(AlreadyDecided, match="answered"):
        team.requests.answer(request.id, by="human", text="red")


def test_an_empty_answer_is_refused(team) -> None:
    request = team.requests.ask_question(sender="lead", sender_instance="lead#1", text="Which colour?")
    with pytest.raises(RequestRefused, match="empty"):
        team.requests.answer(request.id, by="human", text=" ")


def test_the_question_of_an_ended_life_is_void(team) -> None:
    request = team.requests.ask_question(sender="ada", sender_instance="ada#1", text="Which colour?")
    team.lives["ada"] = Recipient("ada#2", True)
    with pytest.raises(Void, match="ada#1 has ended"):
        team.requests.answer(request.id, by="human", text="blue")


def permission(team):
    return team.requests.ask_permission(
        sender="ada", sender_instance="ada#1", to="human", text="make install", deadline_s=60, task="T1", epoch=1
    )


def test_a_permission_that_nobody_answers_is_a_no(team) -> None:
    request = permission(team)
    lapsed = team.requests.let_lapse(request.id)
    assert (lapsed.status, lapsed.decided_by) == (RequestStatus.REJECTED, "runtime")
    with pytest.raises(AlreadyDecided):
        decide(team, request, by="human")


def test_a_permission_that_was_given_does_not_lapse(team) -> None:
    request = permission(team)
    decide(team, request, by="human")
    with pytest.raises(AlreadyDecided):
        team.requests.let_lapse(request.id)


def test_nothing_but_a_permission_lapses(team) -> None:
    request = plan(team)
    with pytest.raises(RequestRefused):
        team.requests.let_lapse(request.id)
    assert team.requests.get(request.id).open


def split(team, **more):
    asked = {"sender": "lead", "sender_instance": "lead#1", "to": "human", "text": "T1 -> T2", **more}
    return team.requests.propose_split(**asked)


def test_a_split_is_decided_by_the_person(team) -> None:
    request = split(team)
    with pytest.raises(NotYours, match="own request"):
        decide(team, request, by="lead")
    assert decide(team, request, by="human").status is RequestStatus.APPROVED


def test_a_proposal_is_decided_by_the_lead_and_outlives_its_author(team) -> None:
    request = split(team, sender="ada", sender_instance="ada#1", to="lead")
    team.lives["ada"] = Recipient("ada#1", False)
    assert decide(team, request).status is RequestStatus.APPROVED


def test_an_edited_split_is_a_new_revision_that_is_still_the_leads(team) -> None:
    old = split(team)
    new = team.requests.revise_split(old.id, by="human", text="T1, T2")
    assert (new.id, new.revision, new.sender, new.to, new.history[0].by) == ("R2", 2, "lead", "human", "human")
    assert team.requests.revise_split(old.id, by="human", text="T1, T2") == new
    with pytest.raises(Superseded, match="R2"):
        team.requests.revise_split(old.id, by="human", text="T3")
    with pytest.raises(Superseded, match="R2"):
        decide(team, old, by="human")
    with pytest.raises(NotYours):
        decide(team, new, by="lead")
    assert decide(team, new, by="human").status is RequestStatus.APPROVED


def test_only_the_person_edits_a_split_and_only_an_open_one(team) -> None:
    request = split(team)
    with pytest.raises(NotYours):
        team.requests.revise_split(request.id, by="lead", text="x")
    decide(team, request, by="human")
    with pytest.raises(AlreadyDecided):
        team.requests.revise_split(request.id, by="human", text="x")
    with pytest.raises(RequestRefused, match="only a split"):
        team.requests.revise_split(plan(team).id, by="human", text="x")


def test_nobody_addresses_a_request_to_themselves(team) -> None:
    with pytest.raises(RequestRefused, match="own request"):
        split(team, to="lead")


def test_a_request_whose_text_holds_a_secret_is_kept_without_it_and_can_be_decided(team) -> None:
    files.keep_secret("the-test-key-of-asking-0815")
    plan = team.requests.submit_plan(
        sender="ada", sender_instance="ada#1", to="lead", task="T1", epoch=1, text="use the-test-key-of-asking-0815"
    )
    leave = permission(team)
    for each in (plan, leave):
        team.requests.decide(each.id, by="human", by_instance=None, approve=True)
        assert team.requests.get(each.id).soundly_approved
    assert team.requests.get(plan.id).text == "use ***"

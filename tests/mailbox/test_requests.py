"""Requests and decisions: who may decide, what counts, and what a file that somebody touched is worth."""

from __future__ import annotations

import json
import re
import threading

import pytest

from coterie import files
from coterie.errors import NewerSchema, Refused
from coterie.mailbox import (
    AlreadyDecided,
    NotYours,
    Recipient,
    RequestRefused,
    RequestStatus,
    Standing,
    Superseded,
    TooLong,
    UnknownRequest,
    Void,
)
from coterie.mailbox.request import encode, parse


def plan(team, text="do it", *, to="lead", requests=None, **more):
    asked = {"sender": "ada", "sender_instance": "ada#1", "to": to, "task": "T1", "epoch": 1, "text": text, **more}
    return (requests or team.requests).submit_plan(**asked)


def decide(team, request, approve=True, by="lead", **more):
    return team.requests.decide(request.id, by=by, by_instance=f"{by}#1", approve=approve, **more)


def edit(team, request, **changes):
    path = team.root / f"requests/{request.id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}, indent=2))
    return path


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_waits_until_somebody_decides(team) -> None:
    request = plan(team)
    assert (request.id, request.revision, request.status) == ("R1", 1, RequestStatus.SUBMITTED)
    assert not team.requests.plan_approved("T1", 1)
    assert not team.new_requests().plan_approved("T1", 1)  # a restart changes nothing
    assert team.requests.open_for("lead") == [request]
    decided = decide(team, request, feedback="good")
    assert (decided.decided_by, decided.feedback, decided.rev) == ("lead", "good", 2)
    assert team.requests.plan_approved("T1", 1)
    assert team.new_requests().plan_approved("T1", 1)
    assert team.requests.open_for("lead") == []


def test_a_rejected_plan_opens_nothing_and_the_next_revision_has_its_own_id(team) -> None:
    first = plan(team)
    decide(team, first, approve=False, feedback="smaller")
    second = plan(team, "smaller")
    assert (second.id, second.revision) == ("R2", 2)
    assert not team.requests.plan_approved("T1", 1)
    assert team.requests.standing(team.requests.get("R1")) is Standing.REJECTED
    decide(team, second)
    assert team.requests.plan_of("T1", 1).id == "R2"
    assert team.requests.plan_approved("T1", 1)


def test_the_approval_of_an_old_revision_is_refused_and_names_the_new_one(team) -> None:
    first, second = plan(team), plan(team, "better")
    assert team.requests.standing(first) is Standing.SUPERSEDED
    with pytest.raises(Superseded, match=r"R1 \(revision 1\) is superseded by R2"):
        decide(team, first)
    assert team.requests.open_for("lead") == [second]
    assert not team.requests.plan_approved("T1", 1)


def test_an_approval_does_not_carry_over_to_the_next_revision(team) -> None:
    first = plan(team)
    decide(team, first)
    plan(team, "something else")
    assert not team.requests.plan_approved("T1", 1)
    assert team.requests.standing(team.requests.get(first.id)) is Standing.SUPERSEDED


def test_the_approval_of_an_older_epoch_is_refused(team) -> None:
    request = plan(team)
    team.current = {("T1", 2)}
    assert team.requests.standing(request) is Standing.VOID
    for by in ("lead", "human"):
        with pytest.raises(Void, match="T1 in epoch 1 is not the current assignment"):
            decide(team, request, by=by)
    assert team.requests.open_for("lead") == []


def test_an_approval_counts_for_its_epoch_only(team) -> None:
    decide(team, plan(team))
    team.current = {("T1", 2)}
    assert not team.requests.plan_approved("T1", 2)
    assert plan(team, epoch=2).revision == 1


def test_a_plan_for_an_assignment_that_is_not_current_is_refused_and_leaves_nothing(team) -> None:
    with pytest.raises(Void, match="T1 in epoch 2"):
        plan(team, epoch=2)
    assert team.requests.all() == []


def test_an_approval_after_the_text_changed_is_refused(team) -> None:
    request = plan(team, "read only")
    edit(team, request, text="delete everything")
    with pytest.raises(RequestRefused, match="text of R1 was changed"):
        decide(team, request)
    assert decide(team, request, approve=False).status is RequestStatus.REJECTED


def test_a_text_that_changes_after_the_approval_shuts_the_gate(team) -> None:
    request = plan(team, "read only")
    decide(team, request)
    edit(team, request, text="delete everything")
    assert not team.requests.plan_approved("T1", 1)
    assert not team.new_requests().plan_approved("T1", 1)


@pytest.mark.parametrize("decider", ["ada", "bob", None, "runtime"])
def test_a_file_that_says_approved_without_somebody_who_may_opens_nothing(team, decider) -> None:
    edit(team, plan(team), status="approved", decided_by=decider)
    assert not team.requests.plan_approved("T1", 1)


def test_a_plan_whose_file_cannot_be_read_shuts_the_gate(team) -> None:
    decide(team, plan(team))
    second = plan(team, "more")
    (team.root / f"requests/{second.id}.json").write_bytes(b"")
    assert team.requests.plan_of("T1", 1) is None
    assert not team.requests.plan_approved("T1", 1)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_plan_is_refused(team, text) -> None:
    with pytest.raises(RequestRefused, match="empty"):
        plan(team, text)


def test_a_plan_over_the_cap_is_refused(team) -> None:
    with pytest.raises(TooLong, match="65536"):
        plan(team, "ü" * 40_000)
    with pytest.raises(RequestRefused, match="Unicode"):
        plan(team, "\udfff")
    assert team.requests.all() == []


def test_a_plan_goes_to_lead_or_human_only(team) -> None:
    for to in ("bob", "ada", "runtime"):
        with pytest.raises(RequestRefused, match="lead or the human"):
            plan(team, to=to)


# --- who decides -----------------------------------------------------------------------------------------------------


def test_a_teammate_that_decides_on_its_own_plan_is_refused(team) -> None:
    with pytest.raises(NotYours, match="own request"):
        decide(team, plan(team), by="ada")
    assert not team.requests.plan_approved("T1", 1)


@pytest.mark.parametrize("by", ["bob", "queue", "runtime"])
def test_somebody_who_was_not_asked_is_refused(team, by) -> None:
    with pytest.raises(NotYours, match="lead"):
        decide(team, plan(team), by=by)


def test_the_lead_decides_only_what_is_addressed_to_it(team) -> None:
    request = plan(team, to="human")
    with pytest.raises(NotYours, match="addressed to human"):
        decide(team, request, by="lead")
    assert decide(team, request, by="human").decided_by == "human"


def test_the_human_may_decide_in_the_leads_place(team) -> None:
    assert decide(team, plan(team), by="human").status is RequestStatus.APPROVED


def test_the_first_decision_counts_and_the_second_gets_it(team) -> None:
    request = plan(team)
    decide(team, request, by="human")
    with pytest.raises(AlreadyDecided, match=r"R1 is already approved, by human at 2\d\d\d-") as refused:
        decide(team, request, approve=False, by="lead")
    assert refused.value.request == team.requests.get("R1")
    with pytest.raises(AlreadyDecided):
        decide(team, request, by="human")


def test_approve_and_reject_at_once_have_one_winner(team) -> None:
    for number in range(1, 21):
        team.current.add(("T1", number))
        request = plan(team, epoch=number)
        ready, outcomes = threading.Barrier(2), []

        def run(approve, by, request=request, ready=ready, outcomes=outcomes) -> None:
            requests = team.new_requests()  # each a process of its own
            requests.get(request.id)
            ready.wait()
            try:
                moved = requests.decide(request.id, by=by, by_instance=None, approve=approve)
                outcomes.append(("won", moved.status))
            except AlreadyDecided as refused:
                outcomes.append(("lost", refused.request.status))

        threads = [threading.Thread(target=run, args=given) for given in ((True, "lead"), (False, "lead"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorded = team.requests.get(request.id)
        assert sorted(outcomes) == [("lost", recorded.status), ("won", recorded.status)]
        assert len(recorded.history) == 2


def test_a_decision_that_is_repeated_with_its_key_is_the_first_one(team) -> None:
    request = plan(team)
    first = decide(team, request, made_by="lead#1/7/0")
    assert decide(team, request, made_by="lead#1/7/0") == first
    assert decide(team, request, approve=False, made_by="lead#1/7/0") == first


@pytest.mark.parametrize(
    "identifier", ["R99", "R0", "R01", "T1", "", "../R1", "R1\n", "R1/../R1", "-R1", "R" + "1" * 300]
)
def test_an_unknown_id_is_refused(team, identifier) -> None:
    plan(team)
    for attempt in (
        lambda: team.requests.decide(identifier, by="human", by_instance=None, approve=True),
        lambda: team.requests.get(identifier),
        lambda: team.requests.answer(identifier, by="human", text="x"),
    ):
        with pytest.raises(UnknownRequest):
            attempt()


def test_a_request_is_decided_in_the_way_of_its_kind(team) -> None:
    question = team.requests.ask_question(sender="lead", sender_instance="lead#1", text="Which?")
    with pytest.raises(RequestRefused, match="R1 is a question: answer it"):
        decide(team, question, by="human")
    with pytest.raises(RequestRefused, match="R2 is a plan: review it"):
        team.requests.answer(plan(team).id, by="human", text="yes")


# --- revoking --------------------------------------------------------------------------------------------------------


def test_the_humans_later_reject_revokes_an_approval(team) -> None:
    request = plan(team)
    decide(team, request)
    revoked = decide(team, request, approve=False, by="human", feedback="stop")
    assert (revoked.status, revoked.decided_by) == (RequestStatus.REJECTED, "human")
    assert [step.after for step in revoked.history] == ["submitted", "approved", "rejected"]
    assert not team.requests.plan_approved("T1", 1)


def test_the_leads_later_reject_revokes_nothing(team) -> None:
    request = plan(team)
    decide(team, request)
    with pytest.raises(AlreadyDecided):
        decide(team, request, approve=False, by="lead")
    assert team.requests.plan_approved("T1", 1)


def test_a_rejection_is_not_turned_into_an_approval(team) -> None:
    request = plan(team)
    decide(team, request, approve=False)
    with pytest.raises(AlreadyDecided):
        decide(team, request, by="human")


def test_what_is_being_merged_is_not_revoked(team) -> None:
    request = plan(team)
    decide(team, request)
    team.merged_now.add("T1")
    with pytest.raises(RequestRefused, match="T1 is being merged: use undo"):
        decide(team, request, approve=False, by="human")
    assert team.requests.plan_approved("T1", 1)


def test_what_is_over_is_not_revoked(team) -> None:
    request = plan(team)
    decide(team, request)
    team.current.clear()
    with pytest.raises(Void):
        decide(team, request, approve=False, by="human")


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


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_request_is_made_once_per_key(team) -> None:
    first = plan(team, made_by="ada#1/4/0")
    assert plan(team, "other", made_by="ada#1/4/0") == first
    decided = decide(team, first)
    assert plan(team, made_by="ada#1/4/0", requests=team.new_requests()) == decided
    assert len(team.requests.all()) == 1


def test_ids_are_never_used_twice_also_not_those_that_were_set_aside(team) -> None:
    plan(team)
    second = plan(team)
    (team.root / f"requests/{second.id}.json").write_bytes(b"")
    fresh = team.new_requests()
    fresh.heal()
    assert plan(team, requests=fresh).id == "R3"
    assert sorted(path.name for path in (team.root / "requests").iterdir()) == ["R1.json", "R3.json", "bad"]


def test_many_processes_number_their_requests_without_a_gap_or_a_double(team) -> None:
    def run(number: int) -> None:
        requests = team.new_requests()
        for turn in range(10):
            plan(team, f"{number} {turn}", requests=requests)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = team.new_requests().all()
    assert [request.id for request in made] == [f"R{number}" for number in range(1, 51)]
    assert [request.revision for request in made] == list(range(1, 51))


def test_fields_that_are_not_known_are_kept(team) -> None:
    request = plan(team)
    edit(team, request, colour="green")
    decide(team, request)
    assert json.loads((team.root / "requests/R1.json").read_text())["colour"] == "green"


def test_a_hand_edit_is_taken_over(team) -> None:
    request = plan(team, to="human")
    edit(team, request, to="lead")
    assert decide(team, request, by="lead").status is RequestStatus.APPROVED


def test_an_edit_that_goes_back_is_set_aside_and_the_last_content_restored(team) -> None:
    request = plan(team)
    old = (team.root / "requests/R1.json").read_bytes()
    decide(team, request, approve=False)
    (team.root / "requests/R1.json").write_bytes(old)
    assert team.requests.get("R1").status is RequestStatus.REJECTED
    with pytest.raises(AlreadyDecided):
        decide(team, request, by="human")
    assert (team.root / "requests/bad/R1.json").read_bytes() == old
    assert "R1.json" in team.said[0]
    assert team.new_requests().get("R1").status is RequestStatus.REJECTED


def test_a_file_that_cannot_be_read_is_set_aside_and_said_and_the_rest_goes_on(team) -> None:
    first, second = plan(team), plan(team)
    (team.root / f"requests/{first.id}.json").write_bytes(b"\x00\x00")
    fresh = team.new_requests()
    assert [request.id for request in fresh.all()] == ["R2"]
    assert (team.root / "requests/R1.json").exists()  # looking moved nothing
    with pytest.raises(UnknownRequest, match="set aside"):
        fresh.decide("R1", by="lead", by_instance="lead#1", approve=True)
    assert (team.root / "requests/bad/R1.json").exists()
    assert fresh.decide("R2", by="lead", by_instance="lead#1", approve=True).id == second.id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"status": "asked"}, "status"),
        ({"status": "yes"}, "status"),
        ({"epoch": "1"}, "epoch"),
        ({"id": "R2"}, "id"),
        ({"from": "A"}, "from"),
        ({"history": [{"at": "x"}]}, "history.0.from"),
    ],
)
def test_a_wrong_field_is_named(team, changes, field) -> None:
    path = edit(team, plan(team), **changes)
    with pytest.raises(files.Unreadable, match=re.escape(f"field {field}")):
        team.requests.get("R1")
    assert path.exists()


def test_a_request_of_a_newer_coterie_is_neither_changed_nor_moved(team) -> None:
    request = plan(team)
    path = edit(team, request, schema=2)
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match="upgrade"):
        decide(team, request)
    assert path.read_bytes() == before


def test_a_request_comes_back_from_its_file_as_it_was(team) -> None:
    request = decide(team, plan(team, "a\x00\x1b[31m\r\n ü"))
    path = team.root / "requests/R1.json"
    assert path.read_bytes() == encode(request)
    assert parse(files.read_json(path), path) == request
    assert list(json.loads(path.read_text())) == [
        "schema",
        "id",
        "kind",
        "from",
        "from_instance",
        "to",
        "to_instance",
        "task",
        "epoch",
        "revision",
        "digest",
        "text",
        "status",
        "decided_by",
        "decided_at",
        "feedback",
        "deadline_s",
        "made_by",
        "rev",
        "history",
    ]


def test_looking_needs_no_lock_and_makes_no_file(team) -> None:
    plan(team)
    (team.root / "lock").unlink()
    before = sorted(team.root.rglob("*"))
    team.requests.all()
    team.requests.open_for("lead")
    team.requests.plan_approved("T1", 1)
    team.requests.get("R1")
    assert sorted(team.root.rglob("*")) == before


def test_a_name_that_is_no_name_asks_and_decides_nothing(team) -> None:
    request = plan(team)
    for attempt in (lambda: plan(team, sender="../x"), lambda: decide(team, request, by="A B")):
        with pytest.raises(Refused, match="name"):
            attempt()


def test_whoever_waits_is_told_of_each_change_once(team) -> None:
    changed = []
    requests = team.new_requests(on_change=changed.append)
    made = plan(team, requests=requests, made_by="k")
    plan(team, requests=requests, made_by="k")
    moved = requests.decide(made.id, by="lead", by_instance="lead#1", approve=True)
    with pytest.raises(AlreadyDecided):
        requests.decide(made.id, by="lead", by_instance="lead#1", approve=True)
    assert changed == [made, moved]

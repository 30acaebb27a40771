"""Plans and their decisions: who may decide, what counts, and what opens the gate."""

from __future__ import annotations

import json
import threading

import pytest

from coterie.mailbox import (
    AlreadyDecided,
    NotYours,
    RequestRefused,
    RequestStatus,
    Standing,
    Superseded,
    TooLong,
    UnknownRequest,
    Void,
)


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

"""The lead in whole runs: what it may put on the board, when it may finish, and how a run without an end ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.acceptance.crew import called, crew, is_lead, last_text, lead, mate, texts
from tests.teammates.stage import Stage

from coterie.mailbox import send_owed
from coterie.teammates.model import Answer, BadRequest, ModelRequest, reply
from coterie.teammates.team import Team

TASK: dict[str, Any] = {"ref": "a", "subject": "A", "description": "write a.txt a"}


def results(request: ModelRequest) -> list[tuple[str, bool]]:
    """The results in the latest user message."""
    blocks = [block for block in request.messages[-1]["content"] if block["type"] == "tool_result"]
    return [(block["content"], block.get("is_error", False)) for block in blocks]


@pytest.mark.parametrize("splits", ["auto", "human"])
def test_a_batch_with_one_wrong_task_makes_nothing_and_asks_nobody(stage: Stage, splits: str) -> None:
    seen: list[tuple[str, bool]] = []
    wrong = [
        [TASK, {"ref": "b", "subject": "B", "blocked_by": ["nobody"]}],
        [TASK, {"ref": "a", "subject": "again"}],
        [{**TASK, "blocked_by": ["b"]}, {"ref": "b", "subject": "B", "blocked_by": ["a"]}],
        [TASK, {"ref": "b", "subject": "B", "colour": "red"}],
        [TASK, {"ref": "b"}],
        [],
    ]

    def respond(request: ModelRequest) -> Answer:
        if len(request.messages) == 1:
            return reply(request, "", *[("create_tasks", {"tasks": tasks}) for tasks in wrong])
        seen.extend(results(request))
        return reply(request, "I stop")

    outcome = stage.go(respond, splits=splits)
    assert outcome.exit_code == 1
    assert [error for _, error in seen[:6]] == [True] * 6
    assert "nobody" in seen[0][0] and "colour" in seen[3][0] and "subject" in seen[4][0]
    assert stage.team.board.tasks() == [] and stage.team.requests.all() == []


def test_a_split_is_claimed_only_after_the_person_approved_it_and_a_rejected_one_is_cancelled(stage: Stage) -> None:
    def respond(request: ModelRequest) -> Answer:
        if not is_lead(request):
            return mate(request)
        if "create_tasks" not in called(request):
            return reply(request, "", ("create_tasks", {"tasks": [TASK]}), ("spawn_teammate", {"name": "ada"}))
        if "smaller please" in texts(request) and called(request).count("create_tasks") == 1:
            return reply(request, "", ("create_tasks", {"tasks": [{**TASK, "subject": "Smaller"}]}))
        if "No task is open any more" in last_text(request) and '"T2"' in texts(request):
            return reply(request, "", ("finish", {"summary": "done"}))
        return reply(request, "waiting")

    def decide(team: Team, request: str, approve: bool, feedback: str = "") -> None:
        decided = team.requests.decide(request, by="human", by_instance=None, approve=approve, feedback=feedback)
        send_owed(team.requests, team.mail, decided)

    outcome = stage.go(respond, splits="human", stall_timeout=0)
    assert outcome.exit_code == 7 and "R1" in outcome.summary
    assert (stage.task()["status"], stage.task()["epoch"]) == ("pending", 0)
    decide(stage.team, "R1", False, "smaller please")
    outcome = stage.go(respond, splits="human", stall_timeout=0)
    assert outcome.exit_code == 7 and "R2" in outcome.summary, outcome.summary
    assert stage.task()["status"] == "cancelled" and stage.task("T2")["epoch"] == 0
    decide(stage.team, "R2", True)
    outcome = stage.go(respond, splits="human", stall_timeout=0)
    assert outcome.exit_code == 0, outcome.summary
    assert stage.task("T2")["status"] == "completed"


@pytest.mark.parametrize(("decision", "status"), [("approve", "completed"), ("reject", "cancelled")])
def test_a_proposal_waits_for_the_lead_and_cannot_get_around_the_plans_of_all(
    stage: Stage, decision: str, status: str
) -> None:
    leads = lead([TASK], ("ada",))
    proposed = {"ref": "x", "subject": "X", "description": "write x.txt x", "requires_plan": False}

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            splits = "request_kind: split" in texts(request)
            if splits and '{"request": "R2"' not in texts(request):
                return reply(request, "", ("review", {"request_id": "R2", "decision": decision}))
            return leads(request)
        opening = request.messages[0]["content"][0].get("text", "")
        if "# Task T1" in opening and "propose_tasks" not in called(request) and "submit_plan" in called(request):
            return reply(request, "", ("propose_tasks", {"tasks": [proposed]}))
        return mate(request)

    outcome = stage.go(respond, plans="all")
    assert outcome.exit_code == 0, outcome.summary
    task = stage.task("T2")
    assert (task["status"], task["requires_plan"], task["split"]) == (status, True, "R2")


def test_the_need_for_a_plan_is_raised_at_any_time_and_lowered_by_the_lead_only_before_the_first_claim(
    stage: Stage,
) -> None:
    seen: list[tuple[str, bool]] = []
    tasks = [
        {**TASK, "requires_plan": True, "role": "nobody"},
        {"ref": "b", "subject": "B", "requires_plan": True, "description": "write b.txt b"},
    ]

    def respond(request: ModelRequest) -> Answer:
        if not is_lead(request):
            if "submit_plan" in called(request):
                return mate(request)
            return reply(request, "", ("submit_plan", {"plan": "this"}))
        if "create_tasks" not in called(request):
            return reply(request, "", ("create_tasks", {"tasks": tasks}), ("spawn_teammate", {"name": "ada"}))
        if "request_kind: plan" in last_text(request):
            lower = [("update_task", {"task_id": name, "requires_plan": False}) for name in ("T1", "T2")]
            return reply(request, "", *lower)
        if "update_task" in str(request.messages) and not seen:
            seen.extend(results(request))
        return reply(request, "enough")

    outcome = stage.go(respond, stall_timeout=0)
    assert outcome.exit_code == 7 and "R1" in outcome.summary
    assert [error for _, error in seen] == [False, True], seen
    assert (stage.task("T1")["requires_plan"], stage.task("T2")["requires_plan"]) == (False, True)


@pytest.mark.parametrize("how", ["open", "red"])
def test_finish_is_refused_while_work_is_open_or_the_checks_are_red_and_says_why(stage: Stage, how: str) -> None:
    seen: list[tuple[str, bool]] = []

    def respond(request: ModelRequest) -> Answer:
        if "finish" not in str(request.messages):
            makes = [("create_tasks", {"tasks": [TASK]})] if how == "open" else []
            return reply(request, "", *makes, ("finish", {"summary": "done"}))
        seen.extend(results(request))
        return reply(request, "I wait")

    outcome = stage.go(respond, checks=["echo the answer is wrong; false"] if how == "red" else [])
    assert outcome.exit_code == 1
    said, error = seen[len(seen) - 1 if how == "open" else 0]
    assert error and ("T1 (pending)" in said if how == "open" else "the answer is wrong" in said)
    assert json.loads((stage.root / "team.json").read_text())["ended"] is None


def test_the_runtime_finishes_when_everything_is_done_and_the_lead_does_not_say_so(stage: Stage) -> None:
    everything = crew([TASK], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request) and len(request.messages) > 2:
            return reply(request, "I watch")
        return everything(request)

    outcome = stage.go(respond)
    assert outcome.exit_code == 0 and "did not say so" in outcome.summary
    report = json.loads((stage.root / "report.json").read_text())
    assert [row["status"] for row in report["tasks"]] == ["completed"]


def test_a_lead_whose_requests_are_refused_stops_the_run_and_is_not_asked_over_and_over(stage: Stage) -> None:
    asked: list[int] = []

    def refused(request: ModelRequest) -> Answer:
        asked.append(1)
        raise BadRequest("there is something wrong with it")

    outcome = stage.go(refused)
    assert (outcome.exit_code, len(asked)) == (1, 1) and "something wrong" in outcome.summary
    outcome = stage.go(crew([TASK], ("ada",)))
    assert outcome.exit_code == 0, outcome.summary


def odd(reason: str) -> Callable[[ModelRequest], Answer]:
    return lambda request: reply(request, "", ("list_tasks", {}), stop_reason=reason)


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "pause_turn", "a_new_reason"])
def test_answers_whose_calls_are_never_run_end_the_stretch_after_a_few(stage: Stage, reason: str) -> None:
    asked: list[int] = []

    def respond(request: ModelRequest) -> Answer:
        asked.append(1)
        assert len(asked) < 60
        return odd(reason)(request)

    outcome = stage.go(respond)
    assert outcome.exit_code == 1 and len(asked) <= 25


def test_a_task_that_is_opened_again_after_the_end_opens_the_team_again(stage: Stage) -> None:
    def gives_up(request: ModelRequest) -> Answer:
        if is_lead(request):
            return crew([TASK], ("ada",))(request)
        return reply(request, "", ("give_up", {"reason": "cannot"})) if len(request.messages) < 2 else reply(request)

    outcome = stage.go(gives_up, max_attempts=1)
    assert outcome.exit_code == 1
    ended = json.loads((stage.root / "team.json").read_text())["ended"]
    if ended is not None:
        assert stage.go(gives_up, max_attempts=1).summary.startswith("the team main has ended")
    stage.team.board.retry("T1", by="human", reason="try again")

    def goes_on(request: ModelRequest) -> Answer:
        if is_lead(request):
            if "No task is open any more" in last_text(request):
                return reply(request, "", ("finish", {"summary": "now it is"}))
            if "spawn_teammate" not in called(request):
                return reply(request, "", ("spawn_teammate", {"name": "ben"}))
            return reply(request, "waiting")
        return mate(request)

    outcome = stage.go(goes_on, max_attempts=1)
    assert outcome.exit_code == 0, outcome.summary
    assert stage.task()["status"] == "completed"

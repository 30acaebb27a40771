"""The gate in whole runs: what is closed before an approval, and what a gate that closes ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.acceptance.crew import called, is_lead, lead, mate
from tests.teammates.stage import Stage

from coterie import files
from coterie.mailbox import send_owed
from coterie.teammates.model import Answer, ModelRequest, reply
from coterie.teammates.team import Team

TASK: dict[str, Any] = {"ref": "a", "subject": "A", "description": "write a.txt a"}


def revoke(team: Team) -> None:
    """The person takes an approval back."""
    request = team.requests.decide("R1", by="human", by_instance=None, approve=False, feedback="wait")
    send_owed(team.requests, team.mail, request)


def require(team: Team) -> None:
    """A plan is asked for in the middle of the work."""
    team.board.update("T1", by="human", requires_plan=True)


def unhand(team: Team) -> None:
    """Somebody takes the task."""
    team.board.want("T1", move="cancel", by="human", reason="enough")


def wait_for(there: Callable[[], bool]) -> None:
    """Until something is on disk."""
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end, "it does not come"
        threading.Event().wait(0.01)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(
    ("close", "planned", "why"), [(revoke, True, "plan"), (require, False, "plan"), (unhand, False, "")]
)
def test_a_gate_that_closes_ends_the_command_that_runs_and_lets_no_write_through(
    stage: Stage, close: Callable[[Team], None], planned: bool, why: str, background: bool
) -> None:
    pipe = stage.fifo("runs")
    command = f"exec 3> {pipe}; echo half > half.txt; echo go >&3; sleep 20; echo late >&3; echo late > late.txt"
    leads = lead([{**TASK, "requires_plan": planned}], ("ada",))
    closed = threading.Event()
    errors: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        said = str(request.messages)
        if planned and "submit_plan" not in called(request):
            return reply(request, "", ("submit_plan", {"plan": "this"}))
        if "exec 3>" not in said:
            return reply(request, "", ("bash", {"command": command, "background": background}))
        if "write_file" not in said:
            closed.wait(30)
            write = ("write_file", {"path": "late.txt", "content": "late"})
            return reply(request, "", write, ("submit_work", {"summary": "now"}))
        blocks = [block for block in request.messages[-1]["content"] if block.get("is_error")]
        errors.extend(block["content"] for block in blocks)
        return reply(request, "I wait")

    with stage.running(respond) as outcome:
        with pipe.open() as life:
            assert life.readline() == "go\n"
            close(stage.team)
            assert life.read() == "", "the command went on behind a closed gate"
        closed.set()
    assert outcome[0].exit_code == 1  # nothing was completed
    assert stage.task()["status"] == ("cancelled" if close is unhand else "in_progress")
    if close is not unhand:
        assert len(errors) >= 2 and all(why in each for each in errors[:2])
    assert stage.rescued("late.txt") == []
    late = list((stage.tmp_path / "state").rglob("late.txt"))
    assert late == []
    if close is unhand:
        assert stage.rescued("half.txt") == ["half\n"]


def test_an_approval_of_an_earlier_revision_opens_nothing_and_a_restart_changes_nothing(stage: Stage) -> None:
    leads = lead([{**TASK, "requires_plan": True}], ("ada",))
    asked: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        asked.append(request.user_id)
        plans = called(request).count("submit_plan")
        if plans < 1 or (plans < 2 and "say more" in str(request.messages)):
            return reply(request, "", ("submit_plan", {"plan": f"revision {plans + 1}"}))
        return mate(request)

    outcome = stage.go(respond, approver="human", plans="lead", stall_timeout=0)
    assert (outcome.exit_code, "R1" in outcome.summary) == (7, True), outcome.summary
    team = stage.team
    first = team.requests.decide("R1", by="human", by_instance=None, approve=False, feedback="say more")
    send_owed(team.requests, team.mail, first)
    outcome = stage.go(respond, approver="human", plans="lead", stall_timeout=0)
    assert (outcome.exit_code, "R2" in outcome.summary) == (7, True), outcome.summary
    with pytest.raises(Exception, match="R1"):
        team.requests.decide("R1", by="human", by_instance=None, approve=True)
    calls = len(asked)
    outcome = stage.go(respond, approver="human", plans="lead", stall_timeout=0)
    assert outcome.exit_code == 7 and len(asked) == calls, "waiting costs no calls, also after a restart"
    assert stage.task()["status"] == "in_progress" and stage.task()["epoch"] == 1
    team.requests.decide("R2", by="human", by_instance=None, approve=True)  # and killed before the mail
    outcome = stage.go(respond, approver="human", plans="lead", stall_timeout=0)
    assert outcome.exit_code == 0, outcome.summary
    assert [each["made_by"] for each in stage.mail("ada")].count("R2/decision") == 1, "learned after the resume, once"
    assert stage.merged("a.txt") == "a\n"


def by_author(request: dict[str, Any]) -> None:
    """As if its author had decided."""
    request.update(status="approved", decided_by="ada", rev=request["rev"] + 1)


def by_another_text(request: dict[str, Any]) -> None:
    """As if something else had been submitted and approved."""
    request.update(status="approved", decided_by="human", text="delete everything", rev=request["rev"] + 1)


@pytest.mark.parametrize("forge", [by_author, by_another_text])
def test_an_approval_made_by_hand_counts_for_nothing_and_everybody_is_told(
    stage: Stage, forge: Callable[[dict[str, Any]], None]
) -> None:
    leads = lead([{**TASK, "requires_plan": True}], ("ada",))
    told: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        said = str(request.messages[-1])
        if "does not count" not in said:
            return reply(request, "", ("submit_plan", {"plan": "this"}))
        told.append(said)
        return reply(request, "", ("write_file", {"path": "a.txt", "content": "early"}), ("submit_plan", {"plan": "2"}))

    with stage.running(respond, approver="human", plans="lead", stall_timeout=3.0) as outcome:
        path = stage.root / "requests" / "R1.json"
        wait_for(lambda: path.exists() and stage.member("ada")["status"] == "waiting")
        changed = json.loads(path.read_text())
        forge(changed)
        files.write_json(path, changed)
    assert outcome[0].exit_code == 7 and "R2" in outcome[0].summary, outcome[0].summary
    assert told and "R1" in told[0]
    requests = stage.team.requests
    assert [str(requests.standing(requests.get(each))) for each in ("R1", "R2")] == ["superseded", "submitted"]
    assert any("R1" in each["text"] and "does not count" in each["text"] for each in stage.events("warning"))
    assert list((stage.tmp_path / "state").rglob("a.txt")) == []


def test_a_decision_whose_maker_was_killed_before_the_mail_is_told_while_the_run_goes_on(stage: Stage) -> None:
    leads = lead([{**TASK, "requires_plan": True}], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        return leads(request) if is_lead(request) else mate(request)

    with stage.running(respond, approver="human", plans="lead", stall_timeout=20.0) as outcome:
        wait_for((stage.root / "requests" / "R1.json").exists)
        stage.team.requests.decide("R1", by="human", by_instance=None, approve=True)
    assert outcome[0].exit_code == 0, outcome[0].summary
    assert [each["made_by"] for each in stage.mail("ada")].count("R1/decision") == 1

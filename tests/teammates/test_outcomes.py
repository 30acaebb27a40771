"""What the lead is told of a task that came to its end."""

from __future__ import annotations

import pytest
from tests.teammates.stage import Stage

from coterie.lead.recovery import recover
from coterie.taskboard import NewTask
from coterie.teammates.outcomes import left_blocked, send_outcome


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_the_lead_is_told_once_of_a_dependency_that_ended_otherwise_and_whom_it_leaves_blocked(
    stage: Stage, end: str
) -> None:
    team = stage.create(max_attempts=1)
    for name in ("lead", "ada"):
        team.roster.spawn(name, model="m")
    specs = [NewTask(ref="a", subject="A", priority=9)]
    specs += [NewTask(ref=ref, subject=ref, blocked_by=("a",)) for ref in "bc"]
    team.board.create([*specs, NewTask(ref="d", subject="D")], by="lead")

    def come_to_an_end() -> None:
        if end == "failed":
            task = team.board.claim(owner="ada", instance="ada#1")
            assert task is not None and task.id == "T1"
            send_outcome(team, team.board.give_up("T1", task.epoch, by="ada", reason="cannot"))
        else:
            send_outcome(team, team.board.want("T1", move="cancel", by="human", reason="not now"))

    def told() -> list[str]:
        return [each["body"]["text"] for each in stage.mail("lead") if each["body"].get("event") == f"task-{end}"]

    come_to_an_end()
    assert len(told()) == 1 and "T1" in told()[0] and "Blocked by it: T2, T3." in told()[0]
    for _ in range(2):
        recover(stage.team)
    assert len(told()) == 1, "once, however often it is looked at"
    team.board.update("T4", by="lead", priority=1)
    team.board.retry("T1", by="human", reason="again")
    come_to_an_end()
    recover(stage.team)
    assert len(told()) == 2, "and once more where it ends so again"


def test_nobody_is_told_of_a_cancelled_task_that_nobody_waits_for(stage: Stage) -> None:
    team = stage.create()
    team.roster.spawn("lead", model="m")
    team.board.create([NewTask(ref="a", subject="A")], by="lead")
    send_outcome(team, team.board.want("T1", move="cancel", by="human", reason="no"))
    assert stage.mail("lead") == []


def test_what_the_lead_cancels_itself_is_told_by_its_tool_and_not_by_mail(stage: Stage) -> None:
    team = stage.create()
    team.roster.spawn("lead", model="m")
    team.board.create([NewTask(ref="a", subject="A"), NewTask(ref="b", subject="B", blocked_by=("a",))], by="lead")
    task = team.board.want("T1", move="cancel", by="lead", reason="no")
    send_outcome(team, task)
    recover(stage.team)
    assert stage.mail("lead") == [] and "Blocked by it: T2." in left_blocked(team, task)

"""What a run waits for, what it says at its start, and what it takes up again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import git
from tests.acceptance.crew import crew, is_lead
from tests.teammates.stage import Stage

from coterie import files
from coterie.lead import owes
from coterie.lead.recovery import recover
from coterie.lead.run import Run
from coterie.mailbox import send_owed
from coterie.teammates.model import Answer, ModelRequest, ScriptedModel, reply
from coterie.teammates.roster import Status, Tokens
from coterie.teammates.sandbox import NoSandbox
from coterie.teammates.settings import TeamSettings
from coterie.teammates.teammate import Teammate

TASK: dict[str, Any] = {"ref": "a", "subject": "A", "description": "write a.txt a"}


def test_a_run_whose_integration_branch_stays_checked_out_stops_in_order_and_wakes_the_lead_once(stage: Stage) -> None:
    whole = crew([TASK], ("ada",))
    asked: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        asked.append(request.user_id)
        if not is_lead(request):
            git(stage.repository, "switch", "-q", "coterie/main/integration")
        return whole(request)

    outcome = stage.go(respond, stall_timeout=4.0)
    assert outcome.exit_code == 7 and "checked out" in outcome.summary
    assert stage.task()["status"] == "submitted" and stage.task()["merging"] is None
    assert len([each for each in stage.events("warning") if "the merge queue waits" in each["text"]]) == 1
    assert sum("/lead#" in each for each in asked) <= 4, "waiting costs no calls"
    git(stage.repository, "switch", "-q", "trunk")
    assert stage.go(whole).exit_code == 0
    assert stage.merged("a.txt") == "a\n"


def test_uncommitted_work_is_untouched_and_said_to_be_no_part_of_the_run(stage: Stage) -> None:
    (stage.repository / "one.txt").write_text("dirty\n")
    (stage.repository / "new file.txt").write_text("new\n")
    index = (stage.repository / ".git" / "index").read_bytes()
    assert stage.go(crew([TASK], ("ada",))).exit_code == 0
    said = [each["text"] for each in stage.events("warning") if "HEAD" in each["text"]]
    assert len(said) == 1 and "what is uncommitted" in said[0] and "one.txt" in said[0] and "new file.txt" in said[0]
    assert (stage.repository / "one.txt").read_text() == "dirty\n"
    assert (stage.repository / ".git" / "index").read_bytes() == index


def test_an_assignment_that_was_left_without_a_result_is_handed_over_again_after_a_restart(stage: Stage) -> None:
    whole = crew([TASK], ("ada",))
    asked: list[int] = []

    def idle(request: ModelRequest) -> Answer:
        if is_lead(request):
            return whole(request)
        asked.append(1)
        return reply(request, "I thought about it")

    assert stage.go(idle).exit_code == 1 and len(asked) == 2
    assert stage.go(whole).exit_code == 0, "the run that goes on gives it another turn"
    assert stage.task()["epoch"] == 1 and stage.merged("a.txt") == "a\n"


def test_a_second_shutdown_that_is_nearer_counts(stage: Stage) -> None:
    fifo = stage.fifo("runs")
    task = {**TASK, "description": f"run echo half > half.txt; echo runs > {fifo}; sleep 600"}

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request) and "is stopped" in str(request.messages[-1]):
            return reply(request, "", ("cancel_task", {"task_id": "T1", "reason": "nobody is left"}))
        return crew([task], ("ada",))(request)

    with stage.running(respond) as outcome:
        assert fifo.read_text() == "runs\n"
        for seconds in (600.0, 0.01):
            request = stage.team.requests.ask_shutdown(
                sender="human", sender_instance="human", to="ada", to_instance="ada#1", deadline_s=seconds
            )
            send_owed(stage.team.requests, stage.team.mail, request)
    assert outcome[0].exit_code == 1
    assert stage.member("ada")["status"] == "stopped" and stage.rescued("half.txt") == ["half\n"]
    assert {str(each.status) for each in stage.team.requests.all()} == {"forced"}, "none is left open"


def test_a_budget_of_money_is_not_passed_over_where_a_price_is_not_known(stage: Stage) -> None:
    whole = crew([TASK], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        return whole(request).model_copy(update={"usd": None})

    outcome = stage.go(respond, max_usd=5.0)
    assert outcome.exit_code == 7 and "price" in outcome.summary and "max_tokens" in outcome.summary
    assert Tokens.model_validate(stage.member("lead")["tokens"]).total == 0


def test_no_teammate_is_spawned_whose_price_is_not_known_under_a_budget_of_money(stage: Stage) -> None:
    class Unlisted(ScriptedModel):
        def knows_price(self, model: str) -> bool:
            return model != "mystery"

    free = crew([TASK], ("ada",))
    said: list[str] = []

    def whole(request: ModelRequest) -> Answer:
        return free(request).model_copy(update={"usd": 0.0})

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request) and len(request.messages) == 1:
            call = ("spawn_teammate", {"name": "eve", "model": "mystery"})
            return reply(request, "", call).model_copy(update={"usd": 0.0})
        if is_lead(request) and len(request.messages) == 3:
            said.append(str(request.messages[-1]))
        return whole(request)

    stage.model = Unlisted
    assert stage.go(respond, max_usd=5.0).exit_code == 0
    assert "mystery" in said[0] and "not known" in said[0]
    assert [each.name for each in stage.team.roster.all()] == ["lead", "ada"]


def test_a_lead_that_failed_is_followed_by_its_next_life_when_the_run_is_resumed(stage: Stage) -> None:
    whole = crew([TASK], ("ada",))

    def breaks(request: ModelRequest) -> Answer:
        if is_lead(request):
            raise RuntimeError("a fault of ours")
        return whole(request)

    assert stage.go(breaks).exit_code == 1
    assert stage.member("lead")["status"] == "failed" and "a fault of ours" in stage.member("lead")["reason"]
    assert stage.go(whole).exit_code == 0
    assert stage.member("lead")["instance"] == "lead#2" and stage.merged("a.txt") == "a\n"


def test_a_name_has_one_thread_at_a_time_so_that_no_two_lives_write_one_journal(stage: Stage) -> None:
    team = stage.create()
    run = Run(team, TeamSettings(), ScriptedModel(crew([TASK])), NoSandbox(), interactive=False)
    first = Teammate(run.runtime, team.roster.spawn("ada", model="m"))
    lasts = threading.Event()
    first.thread = threading.Thread(target=lasts.wait)
    first.thread.start()
    run.members["ada"] = first
    team.roster.update("ada", "ada#1", status=Status.STOPPED, reason="enough")
    team.roster.spawn("ada", model="m")
    run.start_members()
    assert run.members["ada"] is first, "its next life waits until the thread of this one has ended"
    lasts.set()
    first.thread.join(10)
    run.start_members()
    second = run.members["ada"]
    assert second.instance == "ada#2" and second.thread.is_alive()
    run.runtime.stop("enough", 7)
    second.thread.join(10)
    assert not second.thread.is_alive()


def test_a_team_that_was_killed_after_its_end_still_writes_its_report_when_it_is_resumed(stage: Stage) -> None:
    whole = crew([TASK], ("ada",))
    assert owes(stage.create().root)
    assert stage.go(whole).exit_code == 0
    assert not owes(stage.root)
    (stage.root / "report.json").unlink()  # as it is where the kill came before the report
    assert owes(stage.root)
    done = subprocess.run(
        [sys.executable, "-m", "coterie", "resume"],
        cwd=stage.repository,
        env=os.environ | {"ANTHROPIC_API_KEY": "not-used"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((stage.root / "report.json").read_text())["summary"] == "all done"
    assert not owes(stage.root)


def test_a_split_that_waits_for_the_person_is_said_in_the_events(stage: Stage) -> None:
    outcome = stage.go(crew([TASK], ("ada",)), splits="human", stall_timeout=0.1)
    assert outcome.exit_code == 7 and "R1" in outcome.summary
    said = [each["text"] for each in stage.events("plan")]
    assert len(said) == 1 and "R1 waits for human" in said[0] and "a: A" in said[0]


def test_recovery_waits_for_whoever_writes_and_takes_no_temp_file_from_under_it(stage: Stage) -> None:
    team = stage.create()
    temp = team.root / "tasks" / ".T1.json.0123456789ab-1.tmp"
    final = team.root / "tasks" / "T1.json"
    dead = team.root / "tasks" / ".T2.json.0123456789ab-2.tmp"
    team.keeper.create_integration(team.record.base.commit)
    text = '{"schema": 1, "id": "T1", "subject": "x", "status": "cancelled", "epoch": 0, "rev": 1}'
    sweep = threading.Thread(target=recover, args=(team,))
    with files.locked(team.root / "lock"):
        temp.write_text(text)  # a command in another terminal, which holds no lock for its life
        sweep.start()
        sweep.join(0.5)
        assert sweep.is_alive() and temp.exists()
        temp.rename(final)
        dead.write_text("half")
    sweep.join(30)
    assert final.exists() and not dead.exists()


@pytest.mark.parametrize("command", [["run", "goal"], ["resume"]])
def test_without_git_it_is_said_in_a_sentence_with_the_code_for_the_machine(tmp_path: Path, command: list[str]) -> None:
    env = {
        "HOME": str(tmp_path),
        "PATH": str(tmp_path),
        "ANTHROPIC_API_KEY": "x",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "coterie", *command], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("coterie: ") and "git" in done.stderr and "Error" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_report_and_the_record_agree_on_how_it_ended(stage: Stage) -> None:
    outcome = stage.go(crew([TASK], ("ada",)))
    report = json.loads((stage.root / "report.json").read_text())
    ended = json.loads((stage.root / "team.json").read_text())["ended"]
    assert (report["exit"], report["summary"]) == (ended["exit"], ended["summary"]) == (0, outcome.summary)


def test_a_watcher_that_fails_holds_up_nobody_and_is_called_no_more(stage: Stage) -> None:
    heard: list[str] = []

    def watch(event: dict[str, Any]) -> None:
        heard.append(event["kind"])
        if event["kind"] == "task":
            raise ValueError("cannot show that")

    stage.watch = watch
    assert stage.go(crew([TASK], ("ada",))).exit_code == 0
    assert heard.count("task") == 1 and "end" not in heard
    said = [each["text"] for each in stage.events("warning") if "cannot show that" in each["text"]]
    assert len(said) == 1 and {each["status"] for each in map(stage.member, ("lead", "ada"))} == {"stopped"}

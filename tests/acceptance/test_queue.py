"""The merge queue in whole runs: conflicts, red checks, order, and what the branch holds in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.crew import called, crew, is_lead, mate

from coterie.lead import create_team, open_team, run_team
from coterie.teammates.model import Answer, ModelRequest, ScriptedModel, reply
from coterie.teammates.settings import TeamSettings

Look = Callable[..., str]


def run(repository: Path, respond: Callable[[ModelRequest], Answer], **settings: Any) -> tuple[Path, Any]:
    chosen = TeamSettings(**settings)
    root = create_team(repository, goal="a change", name=None, settings=chosen)
    return root, run_team(root, settings=chosen, api_key=None, model=ScriptedModel(respond))


def tasks_of(root: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((root / "tasks").glob("T*.json"))}


def test_a_task_starts_from_the_merged_work_of_what_blocked_it(repository: Path, look: Look) -> None:
    tasks = [
        {"ref": "base", "subject": "Base", "description": "write base.txt base"},
        {"ref": "a", "subject": "A", "description": "run cp base.txt a.txt", "blocked_by": ["base"]},
        {"ref": "b", "subject": "B", "description": "run cp base.txt b.txt", "blocked_by": ["base"]},
        {"ref": "join", "subject": "Join", "description": "run cat a.txt b.txt > ab.txt", "blocked_by": ["a", "b"]},
    ]
    root, outcome = run(repository, crew(tasks), checks=["test -f one.txt"])
    assert outcome.exit_code == 0, outcome.summary
    assert look("show", "coterie/main/integration:ab.txt") == "base\nbase\n"
    line = look("log", "--first-parent", "--format=%s", "coterie/main/integration").split("\n")
    assert line[-3:-1] == ["T1: Base", "start"] and line[0] == "T4: Join"
    assert {task["status"] for task in tasks_of(root).values()} == {"completed"}
    evidence = tasks_of(root)["T4"]["result"]["evidence"]
    assert [(each["command"], each["exit_code"]) for each in evidence] == [("test -f one.txt", 0)]
    assert evidence[0]["commit"] == tasks_of(root)["T4"]["result"]["merged_commit"]


def test_a_conflict_goes_back_to_its_owner_with_both_sides_and_is_merged_after_the_repair(
    repository: Path, look: Look
) -> None:
    # the lead decides on neither plan before it has both: so both tasks start from the same tip
    tasks = [
        {"ref": "a", "subject": "A", "description": "write one.txt one\\nfrom a", "requires_plan": True},
        {"ref": "b", "subject": "B", "description": "write one.txt one\\nfrom b", "requires_plan": True},
    ]
    both = crew(tasks, ("ada", "ben"))
    seen: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            told = str(request.messages)
            if told.count("request_kind: plan") == 1 and "review" not in told:
                return reply(request, "wait for the other plan")
        else:
            seen.append(str(request.messages))
        return both(request)

    root, outcome = run(repository, respond)
    assert outcome.exit_code == 0, outcome.summary
    assert sorted(look("show", "coterie/main/integration:one.txt").split()) == ["a", "b", "from", "from", "one"]
    after = tasks_of(root)
    assert sorted(task["returns"] for task in after.values()) == [0, 1]
    returned = next(task for task in after.values() if task["returns"])
    assert returned["epoch"] == 1 and returned["status"] == "completed"
    told = next(each for each in reversed(seen) if 'kind="returned"' in each)
    assert "files: one.txt" in told and "<<<<<<<" in told and "from a" in told and "from b" in told
    commit = returned["result"]["commit"]
    assert len(look("log", "-1", "--format=%P", commit).split()) == 2, "the repair has the merged side as a parent"


def test_a_check_that_is_red_on_the_merged_tree_is_returned_with_its_output(repository: Path, look: Look) -> None:
    tasks = [
        {
            "ref": "a",
            "subject": "A",
            "description": "write a.txt a\nrepair echo good > state.txt",
            "checks": ["grep good state.txt || { echo state is not good; exit 3; }"],
        }
    ]
    root, outcome = run(repository, crew(tasks, ("ada",)))
    assert outcome.exit_code == 0, outcome.summary
    task = tasks_of(root)["T1"]
    assert task["returns"] == 1 and task["status"] == "completed"
    reasons = [
        each["reason"] for each in task["history"] if each["to"] == "in_progress" and each["from"] == "submitted"
    ]
    assert len(reasons) == 1 and "exit code 3" in reasons[0]
    mail = [json.loads(path.read_text()) for path in (root / "mail" / "ada" / "cur").glob("*.json")]
    returned = next(each for each in mail if each["kind"] == "returned")
    assert "state is not good" in returned["body"]["output"]
    assert look("show", "coterie/main/integration:state.txt") == "good\n"


def test_a_task_that_is_returned_too_often_fails_and_the_run_ends_with_1(repository: Path) -> None:
    tasks = [{"ref": "a", "subject": "A", "description": "write a.txt a", "checks": ["false"]}]

    def respond(request: ModelRequest) -> Answer:

        if not is_lead(request) and 'kind="returned"' in str(request.messages):
            if "write_file" not in called(request, since_mail="returned"):
                number = str(len(request.messages))
                return reply(request, "", ("write_file", {"path": "a.txt", "content": number}))
            return reply(request, "", ("submit_work", {"summary": "again"}))
        return crew(tasks, ("ada",))(request)

    root, outcome = run(repository, respond, max_returns=2)
    assert outcome.exit_code == 1
    task = tasks_of(root)["T1"]
    assert (task["status"], task["returns"]) == ("failed", 2)


def test_no_change_is_completed_only_when_it_is_said(repository: Path, look: Look) -> None:
    tasks = [{"ref": "a", "subject": "A", "description": "nothing"}]
    errors: list[str] = []

    def respond(request: ModelRequest) -> Answer:

        if is_lead(request):
            return crew(tasks, ("ada",))(request)
        if len(request.messages) > 1:
            errors.append(str(request.messages[-1]["content"][0]["content"]))
            return reply(request, "", ("submit_work", {"summary": "nothing to do", "no_change": True}))
        return mate(request)

    root, outcome = run(repository, respond, checks=["test -f one.txt"])
    assert outcome.exit_code == 0, outcome.summary
    assert "no_change" in errors[0]
    task = tasks_of(root)["T1"]
    assert task["status"] == "completed" and task["result"]["no_change"] is True
    assert task["result"]["merged_commit"] is None
    assert look("rev-parse", "coterie/main/integration") == look("rev-parse", "HEAD")
    assert open_team(root).merger.log(look("rev-parse", "HEAD").strip()) == []


def test_the_queue_stops_while_the_person_has_the_branch_checked_out_and_goes_on_after(
    repository: Path, look: Look
) -> None:
    said: list[str] = []

    def watch(event: dict[str, Any]) -> None:
        if event["text"].startswith("hands in T1"):
            look("switch", "-q", "coterie/main/integration")
        if "the merge queue waits" in event["text"]:
            said.append(event["text"])
            look("switch", "-q", "trunk")

    tasks = [{"ref": "a", "subject": "A", "description": "write a.txt a"}]
    settings = TeamSettings()
    root = create_team(repository, goal="a change", name=None, settings=settings)
    model = ScriptedModel(crew(tasks, ("ada",)))
    outcome = run_team(root, settings=settings, api_key=None, model=model, watch=watch)
    assert outcome.exit_code == 0, outcome.summary
    assert len(said) == 1 and "checked out" in said[0]
    assert look("show", "coterie/main/integration:a.txt") == "a\n"
    assert look("status", "--porcelain") == ""

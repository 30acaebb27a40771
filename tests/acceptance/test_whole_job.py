"""From a goal to a merged commit, with a scripted model and everything else real."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.lead import create_team, open_team, run_team
from coterie.teammates.model import Answer, ModelRequest, ScriptedModel, reply
from coterie.teammates.settings import TeamSettings

Look = Callable[..., str]


def texts(request: ModelRequest) -> str:
    """All that the model was told in this conversation."""
    parts = []
    for message in request.messages:
        if message["role"] == "user":
            for block in message["content"]:
                parts.append(block.get("text") or block.get("content") or "")
    return "\n".join(parts)


def called(request: ModelRequest) -> list[str]:
    """The tools that were called in this conversation without an error, in order."""
    blocks = [block for message in request.messages for block in message["content"]]
    wrong = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result" and block.get("is_error")}
    return [block["name"] for block in blocks if block["type"] == "tool_use" and block["id"] not in wrong]


def one_task(request: ModelRequest) -> Answer:
    """A lead with one task that needs a plan, a teammate that does it."""
    done, said = called(request), texts(request)
    if "/lead#" in request.user_id:
        if "create_tasks" not in done:
            task = {"ref": "a", "subject": "Add three", "description": "write three.txt", "requires_plan": True}
            task |= {"checks": ["test -f three.txt"]}
            return reply(request, "", ("create_tasks", {"tasks": [task]}), ("spawn_teammate", {"name": "ada"}))
        plans = re.findall(r"^request: (R\d+)$", said, re.MULTILINE)
        if plans and "review" not in done:
            return reply(request, "", ("review", {"request_id": plans[-1], "decision": "approve"}))
        if 'status": "completed' in said or "task-completed" in said or "No task is open" in said:
            return reply(request, "", ("finish", {"summary": "three is there"}))
        return reply(request, "waiting for the team")
    if "submit_plan" not in done:
        return reply(request, "", ("submit_plan", {"plan": "write three.txt with the word three"}))
    if "write_file" not in done:
        return reply(request, "", ("write_file", {"path": "three.txt", "content": "three\n"}))
    if "bash" not in done:
        return reply(request, "", ("bash", {"command": "cat three.txt && git status --short"}))
    return reply(request, "handing in", ("submit_work", {"summary": "three.txt is written"}))


def run(repository: Path, respond: Callable[[ModelRequest], Answer], **settings: Any) -> tuple[Path, Any]:
    chosen = TeamSettings(**settings)
    root = create_team(repository, goal="add three", name=None, settings=chosen)
    outcome = run_team(root, settings=chosen, api_key=None, model=ScriptedModel(respond))
    return root, outcome


def test_one_task_goes_from_a_goal_to_a_merged_commit(repository: Path, look: Look) -> None:
    before = look("status", "--porcelain", "--branch"), look("rev-parse", "HEAD"), look("reflog")
    root, outcome = run(repository, one_task)
    assert outcome.exit_code == 0, outcome.summary
    task = json.loads((root / "tasks" / "T1.json").read_text())
    assert task["status"] == "completed"
    assert look("show", "coterie/main/integration:three.txt") == "three\n"
    message = look("log", "-1", "--format=%B", "coterie/main/integration")
    assert f"Coterie-Head: {task['result']['commit']}" in message
    assert "Coterie-Task: T1" in message and "Coterie-Epoch: 1" in message and "Coterie-Team: main" in message
    assert before == (look("status", "--porcelain", "--branch"), look("rev-parse", "HEAD"), look("reflog"))
    assert not (repository / "three.txt").exists()
    team = open_team(root)
    assert [str(each.status) for each in team.roster.all()] == ["stopped", "stopped"]
    assert json.loads((root / "team.json").read_text())["ended"]["exit"] == 0


def test_nothing_changes_before_the_plan_is_approved(repository: Path) -> None:
    refused: list[str] = []
    ready = threading.Event()

    def eager(request: ModelRequest) -> Answer:
        if "/lead#" in request.user_id:
            return one_task(request)
        results = [
            block["content"]
            for message in request.messages
            if message["role"] == "user"
            for block in message["content"]
            if block["type"] == "tool_result" and block.get("is_error")
        ]
        if len(request.messages) == 1:
            return reply(
                request,
                "",
                ("write_file", {"path": "early.txt", "content": "x"}),
                ("bash", {"command": "touch early.txt"}),
                ("submit_work", {"summary": "early"}),
            )
        refused[:] = refused or [str(each) for each in results]
        ready.set()
        return one_task(request)

    root, outcome = run(repository, eager)
    assert outcome.exit_code == 0, outcome.summary
    assert ready.is_set() and len(refused) == 3
    kept = ["plan" in each or "Read-only file system" in each for each in refused]  # a command, by the sandbox
    assert kept == [True] * 3, refused
    team = open_team(root)
    assert "early.txt" not in team.merger.git.run("ls-tree", "-r", "--name-only", team.keeper.tip())

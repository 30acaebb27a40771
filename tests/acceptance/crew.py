"""A scripted crew for tests: a lead that puts given tasks on the board, teammates that do what a description says.

A description is lines of `write PATH TEXT` and `run COMMAND`. The answers are a pure function of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from coterie.teammates.model import Answer, ModelRequest, reply

Respond = Callable[[ModelRequest], Answer]


def texts(request: ModelRequest) -> str:
    """All that the model was told in this conversation, tool results included."""
    parts = []
    for message in request.messages:
        if message["role"] == "user":
            parts += [block.get("text") or block.get("content") or "" for block in message["content"]]
    return "\n".join(parts)


def last_text(request: ModelRequest) -> str:
    """What the model was told in the latest user message, tool results left out."""
    return "\n".join(block.get("text", "") for block in request.messages[-1]["content"])


def called(request: ModelRequest, *, since_mail: str | None = None) -> list[str]:
    """The tools that were called without an error, in order; `since_mail`: since the last mail of that kind."""
    messages = list(request.messages)
    if since_mail is not None:
        marked = [
            number
            for number, message in enumerate(messages)
            if message["role"] == "user"
            and any(f'kind="{since_mail}"' in block.get("text", "") for block in message["content"])
        ]
        messages = messages[marked[-1] :] if marked else messages
    blocks = [block for message in messages for block in message["content"]]
    wrong = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result" and block.get("is_error")}
    return [block["name"] for block in blocks if block["type"] == "tool_use" and block["id"] not in wrong]


def is_lead(request: ModelRequest) -> bool:
    return "/lead#" in request.user_id


def lead(tasks: Sequence[dict[str, Any]], mates: Sequence[str] = ("ada", "ben", "cleo")) -> Respond:
    """A lead that creates `tasks`, spawns `mates`, approves every plan and finishes when nothing is open."""

    def respond(request: ModelRequest) -> Answer:
        said = texts(request)
        if "create_tasks" not in called(request):
            spawns = [("spawn_teammate", {"name": name}) for name in mates]
            return reply(request, "", ("create_tasks", {"tasks": list(tasks)}), *spawns)
        plans = re.findall(r"^request: (R\d+)\nrequest_kind: plan", said, re.MULTILINE)
        decided = re.findall(r'"request": "(R\d+)", "status": "(?:approved|rejected)"', said)
        waiting = [plan for plan in dict.fromkeys(plans) if plan not in decided]
        if waiting:
            calls = [("review", {"request_id": plan, "decision": "approve"}) for plan in waiting]
            return reply(request, "", *calls)
        if "No task is open any more" in last_text(request):
            return reply(request, "", ("finish", {"summary": "all done"}))
        return reply(request, "waiting")

    return respond


def mate(request: ModelRequest) -> Answer:
    """A teammate that does what the description of its task says, and keeps both sides of a conflict."""
    said = texts(request)
    opening = request.messages[0]["content"][0].get("text", "")
    if not opening.startswith("# Task"):
        return reply(request, "read")
    if "plan required: yes" in opening and "submit_plan" not in called(request):
        return reply(request, "", ("submit_plan", {"plan": "as the task says"}))
    since = "returned" if 'kind="returned"' in said else None
    done = called(request, since_mail=since)
    if since and "bash" not in done:
        fix = r"grep -rlE '^<<<<<<< ' . --exclude-dir=.git | xargs -r sed -i -E '/^(<<<<<<<|=======|>>>>>>>)/d'"
        extra = re.findall(r"^repair (.*)$", opening, re.MULTILINE)
        return reply(request, "", ("bash", {"command": " ; ".join([fix, *extra])}))
    if not since:
        steps: list[tuple[str, dict[str, Any]]] = []
        for path, text in re.findall(r"^write (\S+) (.*)$", opening, re.MULTILINE):
            steps.append(("write_file", {"path": path, "content": text.replace("\\n", "\n") + "\n"}))
        for command in re.findall(r"^run (.*)$", opening, re.MULTILINE):
            steps.append(("bash", {"command": command}))
        if steps and len([each for each in done if each in ("write_file", "bash")]) < len(steps):
            return reply(request, "", *steps)
    return reply(request, "handing in", ("submit_work", {"summary": "done as asked"}))


def crew(tasks: Sequence[dict[str, Any]], mates: Sequence[str] = ("ada", "ben", "cleo")) -> Respond:
    """Lead and teammates together."""
    leads = lead(tasks, mates)
    return lambda request: leads(request) if is_lead(request) else mate(request)

"""What has to be true of a team's files at any moment, read from the files alone (the invariants of the design)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

HELD = ("in_progress", "submitted")


def read(folder: Path) -> list[dict[str, Any]]:
    """Every record in a folder; one that cannot be read is an error."""
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


def audit(root: Path) -> list[str]:
    """What is wrong, in words."""
    tasks = {each["id"]: each for each in read(root / "tasks")}
    wrong = [*_owners(tasks), *_graph(tasks), *_mail(root), *_requests(root)]
    for task in tasks.values():
        wrong += [f"{task['id']}: {fault}" for fault in _history(task)]
    boxes = [root / "tasks", root / "requests", *(root / "mail").iterdir()]
    wrong += [f"{path} was set aside" for box in boxes for path in (box / "bad").glob("*")]
    wrong += [f"{path} is left over" for path in (root / "intents").glob("*")]
    return wrong


def _owners(tasks: dict[str, dict[str, Any]]) -> list[str]:
    wrong = []
    holding: Counter[str] = Counter()
    for task in tasks.values():
        held = task["status"] == "in_progress" or (task["status"] == "submitted" and task["assignment"] is not None)
        if task["status"] in HELD and task["claim"] is None:
            wrong.append(f"{task['id']} is {task['status']} and nobody's")
        if task["status"] not in HELD and (task["claim"] or task["assignment"] or task["wanted"] or task["merging"]):
            wrong.append(f"{task['id']} is {task['status']} and still in somebody's hand")
        if held and task["claim"] is not None:
            holding[task["claim"]["owner"]] += 1
    return wrong + [f"{name} holds {number}" for name, number in holding.items() if number > 1]


def _graph(tasks: dict[str, dict[str, Any]]) -> list[str]:
    def reaches(start: str, end: str, seen: set[str]) -> bool:
        for each in tasks[start]["blocked_by"]:
            if each == end or (each in tasks and each not in seen and reaches(each, end, seen | {each})):
                return True
        return False

    unknown = [f"{id} waits for {each}" for id in tasks for each in tasks[id]["blocked_by"] if each not in tasks]
    return unknown or [f"{id} waits for itself" for id in tasks if reaches(id, id, set())]


def _history(task: dict[str, Any]) -> list[str]:
    history = task["history"]
    wrong = []
    if len(history) != task["rev"]:
        wrong.append(f"{len(history)} entries in the history of revision {task['rev']}")
    before: dict[str, Any] = {"to": None, "epoch": 0}
    claims = 0
    for each in history:
        claimed = (each["from"], each["to"]) == ("pending", "in_progress")
        claims += claimed
        if each["from"] != before["to"]:
            wrong.append(f"{before['to']} in the history, then from {each['from']}")
        if each["epoch"] != before["epoch"] + claimed:
            wrong.append(f"epoch {before['epoch']}, then {each['epoch']} by a move to {each['to']}")
        if "#" in each["by"] or not each["by"]:
            wrong.append(f"by {each['by']!r} is no name")
        before = each
    if (before["to"], before["epoch"], claims) != (task["status"], task["epoch"], task["epoch"]):
        wrong.append(
            f"{task['status']} in epoch {task['epoch']}, but the history has {claims} claims and ends {before}"
        )
    keys = Counter(each["made_by"] for each in history if each["made_by"])
    return wrong + [f"{key} had its effect {number} times" for key, number in keys.items() if number > 1]


def _mail(root: Path) -> list[str]:
    wrong = []
    places: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    for box in (root / "mail").iterdir():
        records: Counter[str] = Counter()
        journal = root / "members" / box.name / "journal.jsonl"
        for line in journal.read_text().splitlines() if journal.exists() else ():
            record = json.loads(line)
            if record["kind"] in ("mail", "undelivered"):
                records.update(record["ids"])
        for folder in ("tmp", "new", "cur"):
            for path in (box / folder).glob("*"):
                places[path.name] += 1
                if folder == "tmp":
                    wrong.append(f"{path} is left over")
                    continue
                message = json.loads(path.read_bytes())
                if message["made_by"]:
                    keys[message["made_by"]] += 1
                expected = 1 if folder == "cur" else 0
                if records.pop(message["id"], 0) != expected:
                    wrong.append(f"{path} has not {expected} records")
        wrong += [f"{box.name} has a record of {each}, which is nowhere" for each in records]
    wrong += [f"{name} is in {number} folders" for name, number in places.items() if number > 1]
    return wrong + [f"{key} was sent {number} times" for key, number in keys.items() if number > 1]


def _requests(root: Path) -> list[str]:
    wrong = []
    requests = {each["id"]: each for each in read(root / "requests")}
    revisions: Counter[tuple[str, int, int]] = Counter()
    for each in requests.values():
        decided = each["status"] not in ("submitted", "requested", "asked")
        if decided != (each["decided_by"] is not None):
            wrong.append(f"{each['id']} is {each['status']} by {each['decided_by']}")
        if each["decided_by"] == each["from"]:
            wrong.append(f"{each['id']} was decided by its author")
        if len(each["history"]) != each["rev"]:
            wrong.append(f"{each['id']} has {len(each['history'])} entries of history in revision {each['rev']}")
        if each["kind"] == "plan":
            revisions[each["task"], each["epoch"], each["revision"]] += 1
    wrong += [f"{number} plans are {plan}" for plan, number in revisions.items() if number > 1]
    for path in (root / "mail").glob("*/*/*.json"):
        message = json.loads(path.read_bytes())
        named = message["body"].get("request")
        if named is None:
            continue
        request = requests.get(named)
        if request is None:
            wrong.append(f"{path} is about {named}, which is nowhere")
        elif message["kind"] == "decision" and not any(
            step["to"] == message["body"]["decision"] for step in request["history"]
        ):
            wrong.append(f"{path} says {message['body']['decision']}, which {named} never was")
    return wrong

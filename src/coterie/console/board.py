"""The board as a table. Reads the files as they are, without the rooms: it is looked at again and again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie import files
from coterie.console import places
from coterie.console.hosts import hosts
from coterie.console.paint import Cell, Paper, one_line, print_json
from coterie.errors import CoterieError, NewerSchema

STYLES = {
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
    "in_progress": "yellow",
    "submitted": "cyan",
    "ready": "bold",
    "blocked": "dim",
}
_ORDER = ("completed", "submitted", "in_progress", "ready", "blocked", "failed", "cancelled")


def plain(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of `show` if `words` are no more than `--json` and `--team NAME`; else None."""
    asked: dict[str, Any] = {"team": None, "as_json": False}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--json":
            asked["as_json"] = True
        elif word == "--team" and rest and not rest[0].startswith("-"):
            asked["team"] = rest.pop(0)
        elif word.startswith("--team=") and word != "--team=":
            asked["team"] = word.removeprefix("--team=")
        else:
            return None
    return asked


def show(team: str | None, as_json: bool) -> int:
    """`coterie board`. Ends with 2 where a task was written by a newer Coterie: it is shown as far as it is known."""
    root = places.find_team(Path.cwd(), team)
    view = board(root)
    if as_json:
        print_json(view, indent=1)
    else:
        print_board(Paper(), view)
    newer = [each["path"] for each in view["unreadable"] if each["newer"]]
    if newer:
        raise NewerSchema(f"written by a newer Coterie: {', '.join(newer[:5])}: upgrade Coterie to change them")
    return 0


def board(root: Path) -> dict[str, Any]:
    """The board as `coterie board --json` says it. Takes no lock and moves no file."""
    record = places.team_record(root)
    tasks, unreadable = read_tasks(root)
    status = {task["id"]: task.get("status") for task in tasks}
    splits: dict[str, bool] = {}
    rows = [_row(task, status, _split_open(root, task, splits)) for task in tasks]
    counts = dict.fromkeys(_ORDER, 0)
    for row in rows:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    return {
        "team": root.name,
        "sandbox": places.sandbox_of(root),
        "goal": str(record.get("goal", "")),
        "ended": record.get("ended"),
        "counts": counts,
        "silent": _silent(root),
        "tasks": rows,
        "unreadable": unreadable,
    }


def _silent(root: Path) -> list[dict[str, Any]]:
    """The host processes that live and do not answer."""
    hung = [each for each in hosts(root).values() if each.hung]
    runs: dict[str, list[str]] = {each.process: [] for each in hung}
    for path in sorted((root / "members").glob("*/member.json")) if hung else ():
        with contextlib.suppress(CoterieError, FileNotFoundError):
            member = files.read_json(path)
            if member.get("process") in runs and member.get("status") not in ("stopped", "failed"):
                runs[member["process"]].append(path.parent.name)
    return [{"pid": each.pid, "process": each.process, "members": runs[each.process]} for each in hung]


def read_tasks(root: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tasks that can be read, in the order of their ids, and what could not be."""
    tasks: list[dict[str, Any]] = []
    unreadable: list[dict[str, Any]] = []
    try:
        names = [path for path in (root / "tasks").iterdir() if path.suffix == ".json" and path.name[0] == "T"]
    except FileNotFoundError:
        names = []
    for path in names:
        try:
            task = files.read_json(path)
            if task.get("id") != path.stem or not path.stem[1:].isdecimal():
                raise files.Unreadable(path, f"id: expected {path.stem}, found {str(task.get('id'))[:60]!r}")
            if not isinstance(task.get("status"), str):
                raise files.Unreadable(path, "status: expected text")
        except FileNotFoundError:
            continue  # it was set aside meanwhile
        except CoterieError as error:
            unreadable.append({"path": str(path), "reason": str(error), "newer": False})
            continue
        schema = task.get("schema")
        if isinstance(schema, int) and schema > places.SCHEMA:
            unreadable.append({"path": str(path), "reason": f"schema {schema}, known is 1", "newer": True})
        tasks.append(task)
    tasks.sort(key=lambda task: int(task["id"][1:]))
    return tasks, unreadable


def _row(task: Mapping[str, Any], status: Mapping[str, Any], split_open: bool) -> dict[str, Any]:
    blockers = [str(each) for each in _list(task.get("blocked_by"))]
    waits = task["status"] == "pending"
    open_blockers = [each for each in blockers if status.get(each) != "completed"] if waits else []
    state = task["status"]
    if waits:
        state = "blocked" if open_blockers or split_open else "ready"
    claim = task.get("claim")
    claim = claim if isinstance(claim, dict) else {}
    result = task.get("result")
    result = result if isinstance(result, dict) else {}
    return {
        "id": task["id"],
        "subject": str(task.get("subject", "")),
        "status": task["status"],
        "state": state,
        "blocked_by": blockers,
        "open_blockers": open_blockers,
        "waits_for_split": task.get("split") if split_open else None,
        "owner": claim.get("owner"),
        "instance": claim.get("instance"),
        "last_owner": _last_owner(task),
        "epoch": task.get("epoch", 0),
        "returns": task.get("returns", 0),
        "attempts": task.get("attempts", 0),
        "losses": task.get("losses", 0),
        "priority": task.get("priority", 5),
        "role": task.get("role"),
        "requires_plan": bool(task.get("requires_plan")),
        "wanted": task.get("wanted"),
        "queued": task.get("queued"),
        "merging": task.get("merging"),
        "merged_commit": str(result["merged_commit"]) if result.get("merged_commit") else None,
    }


def _last_owner(task: Mapping[str, Any]) -> str | None:
    """Who claimed it last, by its history."""
    for change in reversed(_list(task.get("history"))):
        if isinstance(change, dict) and change.get("to") == "in_progress" and change.get("from") == "pending":
            return str(change.get("by", "")).partition("#")[0] or None
    return None


def _split_open(root: Path, task: Mapping[str, Any], known: dict[str, bool]) -> bool:
    """Whether the task still waits for the approval of the split it came with."""
    split = task.get("split")
    if not isinstance(split, str) or task["status"] != "pending":
        return False
    if split not in known:
        try:
            known[split] = files.read_json(root / "requests" / f"{Path(split).name}.json").get("status") != "approved"
        except (CoterieError, FileNotFoundError):
            known[split] = True
    return known[split]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def print_board(paper: Paper, view: Mapping[str, Any]) -> None:
    """The board for people."""
    heading(paper, view["team"], view["sandbox"], view["goal"])
    if not view["tasks"]:
        paper.say("no tasks yet")
    else:
        head = ("TASK", "STATUS", "OWNER", "EPOCH", "RETURNS", "SUBJECT")
        paper.table(head, [_cells(row) for row in view["tasks"]], stretch=5, most=2)
        paper.prose(tally(view))
    for each in view["silent"]:
        paper.prose(silent(each["pid"], each["members"]), "red")
    for each in view["unreadable"]:
        paper.prose(f"cannot be {'changed' if each['newer'] else 'read'}: {one_line(each['reason'])}", "red")
    ended = view["ended"]
    if isinstance(ended, dict):
        paper.prose(f"ended with {ended.get('exit')}: {one_line(str(ended.get('summary', '')))}")


def tally(view: Mapping[str, Any]) -> str:
    """How many tasks there are, and how many in each state."""
    shown = ", ".join(f"{number} {name}" for name, number in view["counts"].items() if number)
    return files.counted(len(view["tasks"]), "task") + (f": {shown}" if shown else "")


def heading(paper: Paper, team: str, sandbox: str, goal: str) -> None:
    """The first lines of every view: of a long goal its beginning."""
    paper.prose(one_line(f"{team}: {goal}"), "bold", most=3)
    paper.prose(*places.banner(sandbox))


def end_cells(row: Mapping[str, Any]) -> list[Cell]:
    """A task as the end of a run shows it: who did it, and what it was merged as."""
    status, owner = str(row["status"]), row["owner"] or row["last_owner"]
    return [
        row["id"],
        (one_line(status, 60), STYLES.get(status, "")),
        one_line(str(owner or "-"), 40),
        str(row["returns"]) if row["returns"] else "-",
        row["merged_commit"][:12] if row["merged_commit"] else "-",
        one_line(row["subject"], 200),
    ]


def silent(pid: int, members: Sequence[str]) -> str:
    """What is said of a host process that lives and does not answer."""
    whose = f" of {', '.join(members)}" if members else ""
    stop = "coterie stop --now" if len(members) != 1 or "lead" in members else f"coterie stop {members[0]} --now"
    return (
        f"the host process{whose} (pid {pid}) is alive and does not answer: coterie task release TASK --now takes a "
        f"task from it, {stop} kills it"
    )


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    status = str(row["state"])
    if row["open_blockers"]:
        names = row["open_blockers"]
        status += f" by {', '.join(names[:3])}" + (f" +{len(names) - 3}" if len(names) > 3 else "")
    elif row["waits_for_split"]:
        status += f" by {row['waits_for_split']}"
    elif isinstance(row["wanted"], dict):
        status += f", to {row['wanted'].get('move')}"
    elif row["merging"]:
        status = "merging"
    returns = str(row["returns"]) if row["returns"] else "-"
    epoch = str(row["epoch"]) if row["epoch"] else "-"
    return [
        row["id"],
        (one_line(status, 60), STYLES.get(str(row["state"]), "")),
        one_line(str(row["owner"] or (f"({row['last_owner']})" if row["last_owner"] else "-")), 40),
        epoch,
        returns,
        one_line(row["subject"], 200),
    ]

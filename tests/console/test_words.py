"""The words of the command line: ids that nobody has, where --team may stand, what a count counts, what is not set."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie import errors, files
from coterie.console.door import told
from coterie.taskboard import Assignment
from coterie.teammates.roster import Status, dollars
from coterie.teammates.tool import explained

Coterie = Callable[..., tuple[int, str, str]]

UNKNOWN = [
    ("show", "T99"),
    ("why", "T99"),
    ("diff", "T99"),
    ("review", "R99"),
    ("approve", "R99"),
    ("reject", "R99", "-m", "no"),
    ("answer", "R99", "yes"),
    ("say", "bob", "hello"),
    ("stop", "bob"),
    ("mail", "--done", "0000000009-nobody"),
    ("task", "edit", "T99", "--priority", "3"),
    ("task", "cancel", "T99"),
    ("task", "release", "T99"),
    ("task", "retry", "T99"),
    ("task", "block", "T99", "T1"),
    ("task", "block", "T2", "T99"),
    ("task", "unblock", "T99", "T1"),
    ("task", "add", "x", "--blocked-by", "T99"),
    ("task", "cancel", "../../x"),
    ("show", "../../x"),
    ("review", "x"),
]
WITH_TEAM = [
    *(each for each in UNKNOWN if each[1] != "../../x"),
    ("board",),
    ("team",),
    ("inbox",),
    ("mail",),
    ("log",),
    ("config",),
    ("resume",),
    ("stop",),
    ("join", "--name", "eve"),
    ("land",),
    ("diff",),
]


@pytest.mark.parametrize("words", UNKNOWN)
def test_an_id_that_nobody_has_ends_with_2_everywhere(rooms: Any, coterie: Coterie, words: tuple[str, ...]) -> None:
    code, out, err = coterie(*words)
    assert (code, out) == (2, "") and err.startswith("coterie: ") and len(err.splitlines()) == 1


@pytest.mark.parametrize("words", WITH_TEAM)
def test_a_team_that_is_not_there_ends_with_2_wherever_it_is_named(
    rooms: Any, coterie: Coterie, words: tuple[str, ...]
) -> None:
    for said in ((*words, "--team", "nope"), ("--team", "nope", *words)):
        code, out, err = coterie(*said)
        assert (code, out) == (2, "") and "there is no team 'nope' here" in err, said


def test_the_team_may_be_named_before_the_command_or_after_it(
    rooms: Any, new_team: Callable[..., Path], coterie: Coterie
) -> None:
    new_team("other", goal="another")
    for said in (
        ("--team", "other", "board"),
        ("board", "--team", "other"),
        ("--team", "main", "board", "--team=other"),
    ):
        assert json.loads(coterie(*said, "--json")[1])["team"] == "other", said
    assert coterie("--team", "other", "task", "add", "x")[0] == 0
    assert coterie("task", "--team", "other", "add", "y")[0] == 0
    assert len(list((rooms.root.parent / "other" / "tasks").glob("T*.json"))) == 2
    code, _, err = coterie("--team", "other", "demo")
    assert code == 2 and "leave it out" in err


def test_people_are_sent_to_commands_and_models_to_tools(rooms: Any, coterie: Coterie) -> None:
    tools = ("get_task", "list_tasks", "list_team", "review")
    for words in (*UNKNOWN, ("task", "retry", "T4"), ("task", "release", "T4"), ("approve", "R1")):
        err = coterie(*words)[2]
        assert not any(each in err for each in tools[:3]), err
    refused = errors.Refused("T4 is pending", see="T4")
    assert told(refused) == "T4 is pending: see coterie show T4"
    assert explained(refused, tools) == "T4 is pending. See get_task T4"
    assert told(errors.Refused("no", see="board")) == "no: see coterie board"
    assert explained(errors.Refused("no", see="board"), tools) == "no. See list_tasks"
    assert told(errors.Refused("no", see="R2")) == "no: see coterie review R2"
    assert explained(errors.Refused("no", see="R2"), tools) == "no"
    assert explained(errors.Refused("no", see="team"), ()) == "no"  # whoever has no such tool is not sent to it
    assert told(errors.Refused("no")) == explained(errors.Refused("no"), tools) == "no"


def test_a_number_of_events_is_the_number_of_those_shown(rooms: Any, coterie: Coterie) -> None:
    shown = [("task", f"claims T{number}") for number in range(3)]
    hidden = [("answer", "turn 1"), ("member", "waiting: in the queue: T1"), ("text", "x")]
    for kind, text in [*shown, *hidden]:
        line = json.dumps({"at": files.now(), "kind": kind, "text": text, "member": "ada", "status": "waiting"})
        files.append(rooms.root / "events.jsonl", line.encode() + b"\n")
    lines = coterie("log", "-n", "2")[1].splitlines()
    assert [line.split("ada      ")[1] for line in lines[1:]] == ["claims T1", "claims T2"]
    assert len(coterie("log", "-n", "9")[1].splitlines()) == 1 + 3
    assert len(coterie("log", "-n", "0")[1].splitlines()) == 1
    assert len(coterie("log", "-n", "2", "--json")[1].splitlines()) == 2  # of which none is hidden


def test_what_is_not_set_is_no_value_and_what_follows_from_another_says_so(rooms: Any, coterie: Coterie) -> None:
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in coterie("config")[1].splitlines()}
    assert rows["plans"] == ["lead", "default: follows from approver"]
    assert rows["max_usd"] == ["-", "default"] and rows["checks"] == ["-", "default"]
    settings = json.loads(coterie("config", "--json")[1])["settings"]
    assert settings["plans"]["value"] is None and settings["max_usd"]["value"] is None
    Path("coterie.toml").write_text('plans = "none"\n')
    assert "none" in next(line for line in coterie("config")[1].splitlines() if line.startswith("plans"))
    Path("coterie.toml").write_text('approver = "human"\n')
    assert " all " in next(line for line in coterie("config")[1].splitlines() if line.startswith("plans"))


def test_amounts_have_no_noise(rooms: Any, coterie: Coterie) -> None:
    assert dollars(0.1, 0.2) == 0.3 and dollars(0.000001, 0.000002) == 0.000003 and dollars(None, 0.1) is None
    rooms.roster.update("ada", "ada#1", usd=0.1)
    rooms.roster.update("lead", "lead#1", usd=0.2)
    out = coterie("team", "--json")[1]
    assert json.loads(out)["usd"] == 0.3 and "0000000" not in out


def test_check_is_taken_for_checks(rooms: Any, coterie: Coterie) -> None:
    assert coterie("task", "add", "x", "--check", "true", "--checks", "false")[0] == 0
    assert rooms.board.get("T7").checks == ("true", "false")
    for words in (("run", "--help"), ("task", "add", "--help"), ("task", "edit", "--help")):
        out = coterie(*words)[1]
        assert "--checks" in out and "--check " not in out


def test_the_help_of_a_command_is_not_cut(coterie: Coterie) -> None:
    assert "..." not in coterie("--help")[1].replace("[ARGS]...", "")
    assert "..." not in coterie("task", "--help")[1].replace("[ARGS]...", "")


def test_the_difference_of_a_task_in_progress_is_the_work_in_hand(
    rooms: Any, repository: Path, coterie: Coterie
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=S", "-c", "user.email=s@example.org"]
        return subprocess.run(["git", *who, *words], cwd=repository, capture_output=True, text=True, check=True).stdout

    base = git("rev-parse", "HEAD").strip()
    git("branch", "coterie/main/integration")
    place = repository.parent / "state" / "main" / "ada"
    git("worktree", "add", "-q", "--detach", str(place))
    rooms.board.give_up("T1", 1, by="ada#1", reason="later")
    rooms.roster.update("ada", "ada#1", status=Status.IDLE, task=None, epoch=None)
    task = rooms.board.claim(owner="ada", instance="ada#1", role="cook")
    branch = f"coterie/main/{task.id}/e{task.epoch}"
    git("-C", str(place), "switch", "-q", "-c", branch)
    rooms.board.bind(task.id, task.epoch, Assignment(worktree=str(place), branch=branch, base=base))
    code, out, _ = coterie("diff", task.id)
    assert code == 0 and out.startswith(f"there is no work on {task.id} yet: ada has changed nothing in")
    (place / "new.txt").write_text("new\n")
    (place / "one.txt").write_text("changed\n")
    index = (repository / ".git" / "worktrees" / "ada" / "index").read_bytes()
    code, out, _ = coterie("diff", task.id)
    first, *rest = out.splitlines()
    assert code == 0 and first == f"work in hand of ada on {task.id} (epoch {task.epoch}): not submitted"
    assert "+new" in rest and "+changed" in rest
    view = json.loads(coterie("diff", task.id, "--json")[1])
    assert (view["what"], view["note"]) == ("in hand", first)
    assert (repository / ".git" / "worktrees" / "ada" / "index").read_bytes() == index
    git("-C", str(place), "commit", "-q", "-a", "-m", "by hand")
    assert "+changed" in coterie("diff", task.id)[1]

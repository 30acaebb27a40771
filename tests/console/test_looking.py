"""The reading commands: what they say, that they change nothing, and that they are readable everywhere."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie import files
from coterie.console import shapes

Coterie = Callable[..., tuple[int, str, str]]
READING = {
    "board": ("board",),
    "show": ("show", "T1"),
    "team": ("team",),
    "inbox": ("inbox",),
    "review": ("review", "R1"),
    "mail": ("mail",),
    "why": ("why", "T3"),
    "config": ("config",),
    "log": ("log",),
}


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def events(rooms: Any) -> None:
    for kind, text in (("task", "claims T1"), ("plan", "plan R1 for T1, revision 1: do\nthis"), ("text", "x")):
        line = json.dumps({"at": files.now(), "kind": kind, "text": text, "member": "ada"})
        files.append(rooms.root / "events.jsonl", line.encode() + b"\n")


@pytest.mark.parametrize("command", READING)
def test_json_has_the_documented_shape(rooms: Any, note: str, events: None, coterie: Coterie, command: str) -> None:
    code, out, err = coterie(*READING[command], "--json")
    assert (code, err) == (0, "")
    shape = shapes.COMMANDS[command]
    for each in out.splitlines() if command == "log" else [out]:
        shape.model_validate_json(each)


@pytest.mark.parametrize("command", READING)
def test_looking_changes_nothing(rooms: Any, note: str, events: None, coterie: Coterie, command: str) -> None:
    before = tree(rooms.root)
    assert coterie(*READING[command])[0] == 0
    assert tree(rooms.root) == before


@pytest.mark.parametrize("command", READING)
def test_control_sequences_of_others_are_not_shown(
    rooms: Any, note: str, events: None, coterie: Coterie, command: str
) -> None:
    assert "\x1b" not in coterie(*READING[command])[1]
    assert "\x07" not in coterie(*READING[command])[1]


@pytest.mark.parametrize("command", [each for each in READING if each != "config"])
def test_every_view_says_that_there_is_no_sandbox(
    rooms: Any, note: str, events: None, coterie: Coterie, command: str
) -> None:
    assert "no sandbox" in coterie(*READING[command])[1]


def test_views_say_what_the_hosts_found_and_of_several_that_live_the_weakest(rooms: Any, coterie: Coterie) -> None:
    def found(level: str) -> dict[str, Any]:
        return {"sandbox": {"level": level, "detail": f"it holds {level}"}}

    record = files.read_json(rooms.root / "team.json")
    files.write_json(rooms.root / "team.json", record | found("full"))
    assert "sandbox: full" in coterie("board")[1] and "no sandbox" not in coterie("team")[1]
    assert json.loads(coterie("team", "--json")[1])["sandbox"] == "full"
    alive = files.process_mark(os.getpid())
    for process, level in (("aaaaaaaaaaaa", "full"), ("bbbbbbbbbbbb", "partial")):
        files.write_json(rooms.root / "processes" / f"{process}.lock", {"process": process} | alive | found(level))
    assert "it holds partial" in coterie("board")[1]
    assert json.loads(coterie("inbox", "--json")[1])["sandbox"] == "partial: it holds partial"
    files.write_json(rooms.root / "processes" / "bbbbbbbbbbbb.lock", alive | {"start": 1} | found("none"))
    assert json.loads(coterie("board", "--json")[1])["sandbox"] == "full", "that process is dead"


@pytest.mark.parametrize("command", READING)
def test_views_are_readable_in_20_columns(
    rooms: Any, note: str, events: None, coterie: Coterie, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    code, out, err = coterie(*READING[command])
    assert (code, err) == (0, "") and out.strip()
    if command in ("board", "team", "inbox"):
        assert max(len(line) for line in out.splitlines()) <= 30


@pytest.mark.parametrize("command", ["board", "show"])
def test_views_are_readable_where_the_output_knows_ascii_only(rooms: Any, command: str) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "coterie", *READING[command]]
    done = subprocess.run(words, env={**os.environ, **plain}, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii() and b"T1" in done.stdout


@pytest.mark.parametrize(("no_colour", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_unless_it_asks_for_none(rooms: Any, no_colour: dict[str, str], coloured: bool) -> None:
    mine, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **no_colour}
    words = [sys.executable, "-m", "coterie", "board"]
    with subprocess.Popen(words, env=env, stdout=theirs, stderr=theirs, stdin=theirs) as running:
        os.close(theirs)
        out = os.read(mine, 65536)
        assert running.wait(30) == 0
    os.close(mine)
    assert b"T1" in out or b"main" in out
    assert (b"\x1b[" in out) is coloured


def test_a_closed_pipe_is_no_error(rooms: Any) -> None:
    rooms_bigger_than_a_pipe = "x" * 60_000
    for number in range(3):
        files.append(
            rooms.root / "events.jsonl",
            json.dumps({"at": "", "kind": "task", "text": f"{number}{rooms_bigger_than_a_pipe}"}).encode() + b"\n",
        )
    for words in ("board", "log --json", "log", "team --json"):
        done = subprocess.run(
            f"{sys.executable} -m coterie {words} | head -c 1", shell=True, capture_output=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_the_board_tells_ready_blocked_and_who_owns_what(rooms: Any, coterie: Coterie) -> None:
    view = json.loads(coterie("board", "--json")[1])
    assert [(row["id"], row["state"]) for row in view["tasks"]] == [
        ("T1", "in_progress"),
        ("T2", "blocked"),
        ("T3", "blocked"),
        ("T4", "ready"),
        ("T5", "failed"),
        ("T6", "blocked"),
    ]
    assert view["tasks"][0]["instance"] == "ada#1"
    assert view["tasks"][2]["open_blockers"] == ["T1", "T2"]
    text = coterie("board")[1]
    assert "blocked by T1, T2" in text and "日本語" in text
    assert "6 tasks: 1 in_progress, 1 ready, 3 blocked, 1 failed" in text


def test_the_board_says_the_same_through_the_command_line_proper(rooms: Any, coterie: Coterie) -> None:
    from coterie.console import app

    fast = coterie("board", "--json")[1]
    assert app.run(["board", "--json"]) == 0
    assert coterie("board", "--team=main", "--json")[1] == fast


def test_a_task_that_cannot_be_read_is_said_and_the_others_are_shown(rooms: Any, coterie: Coterie) -> None:
    (rooms.root / "tasks" / "T2.json").write_text("")
    (rooms.root / "tasks" / "T3.json").write_text('{"id": "T9", "status": "pending"}')
    before = tree(rooms.root)
    code, out, _ = coterie("board")
    assert code == 0
    assert "T2.json: expected a JSON object, found an empty file" in out
    assert "T3.json: id: expected T3, found 'T9'" in out
    assert "T6" in out
    code, _, err = coterie("show", "T2")
    assert code == 3 and "T2.json" in err
    assert tree(rooms.root) == before


def test_a_task_of_a_newer_coterie_is_shown_and_ends_with_2(rooms: Any, coterie: Coterie) -> None:
    path = rooms.root / "tasks" / "T4.json"
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 9'))
    code, out, err = coterie("board")
    assert code == 2 and "T4" in out and "upgrade" in err
    path = rooms.root / "team.json"
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 9'))
    code, _, err = coterie("team")
    assert code == 2 and "upgrade" in err


def test_show_has_the_plans_the_history_and_the_cost(rooms: Any, coterie: Coterie) -> None:
    rooms.requests.decide("R1", by="human", by_instance="human", approve=False, feedback="smaller")
    rooms.plan("T1", "only read")
    out = coterie("show", "t1")[1]
    for each in ("T1 Foundation", "R1 (plan, revision 1", "rejected by human", "smaller", "R2 (plan, revision 2"):
        assert each in out
    for each in ("ada#1, since", "coterie/main/T1/e1", "pending -> in_progress by ada", "blocks: T2, T3", "cost: "):
        assert each in out


def test_the_inbox_is_ordered_by_what_it_unblocks(rooms: Any, note: str, coterie: Coterie) -> None:
    rooms.requests.ask_question(sender="lead", sender_instance="lead#1", text="which one?")
    items = json.loads(coterie("inbox", "--json")[1])["items"]
    assert [(each["request"]["id"], each["unblocks"]) for each in items] == [("R1", ["T1", "T2", "T3"]), ("R2", [])]
    out = coterie("inbox")[1]
    assert out.index("R1 (plan") < out.index("R2 (question")
    assert "coterie answer R2 TEXT" in out
    assert "2. write" in out and "2 unread messages" in out


def test_why_names_the_chain_of_blockers_and_what_can_be_done(rooms: Any, coterie: Coterie) -> None:
    view = json.loads(coterie("why", "T3", "--json")[1])
    texts = [each["text"] for each in view["reasons"]]
    assert texts[0] == "T3 waits for T1 (in_progress)"
    assert "its plan R1 (revision 1) waits for human" in texts
    assert "T3 waits for T2 (pending)" in texts
    assert texts[-1] == "no process runs the team main"
    assert view["next"] == "coterie review R1, then coterie resume --team main"
    assert "coterie task retry T5" in coterie("why", "T6")[1]
    assert "no teammate of the role cook lives" in coterie("why", "T4")[1]


def test_team_says_who_does_what_and_that_nothing_runs(rooms: Any, coterie: Coterie) -> None:
    view = json.loads(coterie("team", "--json")[1])
    assert [each["name"] for each in view["members"]] == ["lead", "ada"]
    assert (view["tokens"], view["usd"], view["running"]) == (1200, 0.5, None)
    assert "not running: coterie resume --team main" in coterie("team")[1]


def test_team_says_which_process_runs_it_without_taking_its_lock(rooms: Any, coterie: Coterie) -> None:
    info = {"schema": 1, "process": "p", "started": files.now(), **files.process_mark(os.getpid())}
    lock = files.hold(rooms.root / "processes" / "lead.lock", info)
    try:
        assert json.loads(coterie("team", "--json")[1])["running"]["pid"] == os.getpid()
        assert f"run by pid {os.getpid()}" in coterie("team")[1]
    finally:
        lock.release()


def test_log_shows_what_happened_and_the_last_of_it(rooms: Any, events: None, coterie: Coterie) -> None:
    out = coterie("log")[1]
    assert "ada      claims T1" in out and "plan R1 for T1, revision 1" in out and "this" in out
    assert len(coterie("log", "-n", "1", "--json")[1].splitlines()) == 1


def test_log_follows_until_the_end(rooms: Any, events: None) -> None:
    words = [sys.executable, "-m", "coterie", "log", "-f", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert "claims T1" in following.stdout.readline()
        end = json.dumps({"at": files.now(), "kind": "end", "text": "over"})
        files.append(rooms.root / "events.jsonl", end.encode() + b"\n")
        assert "over" in following.stdout.read()
        assert following.wait(30) == 0


def test_config_says_where_each_value_comes_from_and_never_the_key(
    rooms: Any, repository: Path, coterie: Coterie, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("COTERIE_CHECKS", "echo sk-secret")
    (repository / "coterie.toml").write_text("teammates = 5\n")
    code, out, err = coterie("config", "--json")
    view = json.loads(out)
    assert view["settings"]["teammates"] == {"value": 5, "source": f"{repository}/coterie.toml:1"}
    assert view["settings"]["checks"]["source"] == "COTERIE_CHECKS"
    assert view["key"] == {"source": "ANTHROPIC_API_KEY"}
    assert code == 0 and "sk-secret" not in out + err + coterie("config")[1]
    assert json.loads(coterie("config", "--team", "main", "--json")[1])["settings"]["teammates"]["value"] == 3


def test_the_unfinished_team_is_meant_unless_one_is_named(
    rooms: Any, repository: Path, new_team: Callable[..., Path], coterie: Coterie
) -> None:
    ended = {"at": files.now(), "exit": 0, "summary": "well"}
    new_team("zeta", ended=ended)
    new_team("main-2", created_at="2020-01-01T00:00:00.000Z", ended=ended)
    assert json.loads(coterie("board", "--json")[1])["team"] == "main"
    assert json.loads(coterie("board", "--team", "main-2", "--json")[1])["team"] == "main-2"
    new_team("main", ended=ended, created_at="2021-01-01T00:00:00.000Z")
    assert json.loads(coterie("board", "--json")[1])["team"] == "zeta"  # all have ended: the latest
    assert "ended with 0: well" in coterie("board")[1]


def test_a_linked_worktree_sees_the_teams_of_the_main_checkout(
    rooms: Any, repository: Path, coterie: Coterie, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = repository.parent / "linked"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(linked)], cwd=repository, check=True)
    (linked / "deep").mkdir()
    monkeypatch.chdir(linked / "deep")
    assert json.loads(coterie("board", "--json")[1])["team"] == "main"


def test_what_is_not_there_is_said_with_what_to_do(
    repository: Path, coterie: Coterie, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = coterie("board")
    assert (code, out) == (2, "") and err == f"coterie: there is no team in {repository}: coterie run GOAL starts one\n"
    code, _, err = coterie("board", "--team", "other")
    assert code == 2 and "no team 'other' here" in err
    for name in ("lead", "A", "../x"):
        code, _, err = coterie("board", "--team", name)
        assert code == 2 and err.startswith("coterie: --team: ")
    monkeypatch.chdir(repository.parent)
    code, _, err = coterie("team")
    assert code == 2 and "not inside a git repository" in err


def test_ids_that_are_not_there_are_refused(rooms: Any, coterie: Coterie) -> None:
    code, _, err = coterie("show", "T77")
    assert code == 2 and "no task 'T77'" in err and "T1 to T6" in err
    assert coterie("why", "../../x")[0] == 2
    code, _, err = coterie("review", "R77")
    assert code == 2 and "there is no request R77: see coterie inbox" in err

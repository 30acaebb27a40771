"""The scripted team, rehearsed on a real repository: what was promised happens in whatever order work is done."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coterie.demo import create_sample, respond
from coterie.demo.pieces import ABOUT, FLAGS, FOUNDATION, IMPORTS, INIT, MAIL, MONEY, TASKS, WAVES

ORDERS = {
    "turn by turn": (),
    "money first, imports first": (MONEY, FLAGS, MAIL, IMPORTS, ABOUT),
    "mail first, about first": (MAIL, FLAGS, MONEY, ABOUT, IMPORTS),
}
MODULES = (
    *("__init__", "about", "cart", "catalog", "cli", "flags", "invoices", "logs", "mail", "money", "notices"),
    *("orders", "paths", "reports", "search", "storage"),
)


def rehearse(rehearsal: ModuleType, folder: Path, **options: Any) -> Any:
    create_sample(folder / "shop")
    team = rehearsal.Rehearsal(folder / "shop", folder / "trees", **options)
    team.run()
    return team


@pytest.fixture(scope="session")
def rehearsed() -> dict[str, Any]:
    """The runs that were made already, by order."""
    return {}


@pytest.fixture(params=ORDERS)
def team(
    request: pytest.FixtureRequest,
    rehearsal: ModuleType,
    rehearsed: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """A whole run, in one of several orders. It is only looked at."""
    if request.param not in rehearsed:
        folder = tmp_path_factory.mktemp("team")
        rehearsed[request.param] = rehearse(rehearsal, folder, order=ORDERS[request.param])
    return rehearsed[request.param]


def entries(team: Any, word: str) -> list[tuple[Any, ...]]:
    return [entry[1:] for entry in team.log if entry[0] == word]


def test_the_goal_is_reached(team: Any, rehearsal: ModuleType, tmp_path: Path) -> None:
    assert [task.status for task in team.tasks] == ["completed"] * 6
    assert len(entries(team, "turn")) < 130
    shop = tmp_path / "result"
    rehearsal.git(team.repository, "worktree", "add", "--quiet", "--detach", str(shop), team.tip)
    assert tuple(sorted(path.stem for path in (shop / "shopfront").glob("*.py"))) == MODULES
    for command in ("python3 -m unittest -q", "python3 -m shopfront.about", "python3 -m shopfront.cli check"):
        done = team.command(command, shop)
        assert done.returncode == 0, done.stdout
    assert "shopfront.settings" not in "".join(path.read_text() for path in shop.rglob("*.py"))


def test_one_first_revision_is_rejected_and_its_second_approved(team: Any) -> None:
    decisions = entries(team, "decision")
    assert [(each[0], each[1]) for each in decisions if each[2] == "rejected"] == [(MAIL, 1)]
    assert "notices.py" in next(feedback for _, _, _, feedback in decisions if feedback)
    approved = sorted((each[0], each[1]) for each in decisions if each[2] == "approved")
    assert approved == sorted([(MONEY, 1), (FLAGS, 1), (MAIL, 2), (IMPORTS, 1), (ABOUT, 1)])


def test_a_conflict_and_a_red_check_come_back_in_whatever_order_work_is_merged(team: Any) -> None:
    returns = entries(team, "returned")
    conflicts = [each for each in returns if each[1] == "conflict"]
    assert conflicts and {each[2] for each in conflicts} == {INIT}
    assert {each[0] for each in conflicts} <= WAVES[0]
    red = [each[0] for each in returns if each[1] == "red"]
    assert len(red) == 1 and red[0] in WAVES[1]
    if team.order:
        assert red == [team.order[4]], "the one that is merged later"
    assert max(len(task.returns) for task in team.tasks) <= 2


def test_tasks_of_a_wave_start_from_the_same_commit_and_no_plan_is_decided_before_all_are_shown(team: Any) -> None:
    for wave in WAVES:
        assert len({base for subject, _, base in entries(team, "claim") if subject in wave}) == 1
        first = next(n for n, entry in enumerate(team.log) if entry[0] == "decision" and entry[1] in wave)
        assert wave == {entry[1] for entry in team.log[:first] if entry[0] == "plan"} & wave


def test_any_two_of_the_parallel_tasks_conflict_and_the_joining_ones_do_not(team: Any, rehearsal: ModuleType) -> None:
    handed_in = {}
    for task in team.tasks:
        work = rehearsal.git(team.repository, "rev-list", "--reverse", "--first-parent", f"{task.base}..{task.head}")
        handed_in[task.subject] = work.splitlines()[0]
    for wave in WAVES:
        for pair in itertools.combinations(sorted(wave), 2):
            heads = [handed_in[subject] for subject in pair]
            merged = rehearsal.git(team.repository, "merge-tree", "--write-tree", "--name-only", *heads, ok=(0, 1))
            assert merged.split("\n\n")[0].splitlines()[1:] == ([INIT] if wave is WAVES[0] else []), pair


def test_whoever_moves_money_tells_whoever_moves_the_flags(team: Any) -> None:
    (message,) = entries(team, "message")
    owner = {subject: name for subject, name, _ in entries(team, "claim")}
    assert message[:2] == (owner[MONEY], owner[FLAGS]) and "format_money" in message[2]


def test_the_script_goes_on_after_calls_that_were_interrupted(rehearsal: ModuleType, tmp_path: Path) -> None:
    team = rehearse(rehearsal, tmp_path, lose=3)
    assert [task.status for task in team.tasks] == ["completed"] * 6


def test_the_tasks_are_a_foundation_three_in_parallel_and_two_that_join() -> None:
    after = {task["subject"]: set(task.get("blocked_by", ())) for task in TASKS}
    assert after[FOUNDATION] == set()
    assert all(after[subject] == {"foundation"} for subject in (MONEY, FLAGS, MAIL))
    assert all(after[subject] == {"money", "flags", "mail"} for subject in (IMPORTS, ABOUT))


def ask(user: str | None, *messages: str) -> dict[str, Any]:
    said = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(messages)]
    request: dict[str, Any] = {"model": "scripted", "max_tokens": 100, "messages": said}
    return request | ({"metadata": {"user_id": user}} if user else {})


def words(request: dict[str, Any]) -> str:
    reply = respond(request)
    assert reply.stopped_by == "end_turn"
    return " ".join(block["text"] for block in reply.content)


@pytest.mark.parametrize("user", [None, "someone", "main/zoe#1", "main/lead#1"])
def test_a_stranger_gets_a_polite_text(user: str | None) -> None:
    assert "scripted model" in words(ask(user, "# Goal\nwrite a compiler"))
    assert "scripted model" in words(ask(user, "hello", "hi", "continue"))


def test_a_task_that_is_not_in_the_script_is_handed_back() -> None:
    request = ask("main/ada#1", "# Task T9: Paint the shed\nepoch: 1\nplan required: no\n\nred")
    (call,) = [block for block in respond(request).content if block["type"] == "tool_use"]
    assert call["name"] == "give_up" and "not part of the script" in call["input"]["reason"]


def test_a_note_is_acknowledged(rehearsal: ModuleType) -> None:
    note = rehearsal.letter("note", "human", "Take your time.", 1)
    assert words(ask("main/ada#1", note)).startswith("Noted, human: Take your time.")


def test_a_request_to_shut_down_is_accepted(rehearsal: ModuleType) -> None:
    opening = f"# Task T2: {MONEY}\nepoch: 1\nplan required: yes\n\nmove it"
    asked = rehearsal.letter("shutdown_request", "lead#1", "enough", 1, request="R9", deadline_s=60)
    (call,) = [b for b in respond(ask("main/ada#1", opening, "ok", asked)).content if b["type"] == "tool_use"]
    assert (call["name"], call["input"]) == ("answer_shutdown", {"request_id": "R9", "accept": True})


def test_a_plan_that_is_revoked_is_revised_with_the_words_of_whoever_did(rehearsal: ModuleType) -> None:
    request = ask("main/ada#1", f"# Task T2: {MONEY}\nepoch: 1\nplan required: yes\n\nmove it")
    plan = {"type": "tool_use", "id": "a", "name": "submit_plan", "input": {"plan": "my plan"}}
    read = [
        {"type": "tool_use", "id": f"r{n}", "name": "read_file", "input": {"path": path}}
        for n, path in enumerate(("shopfront/settings.py", INIT))
    ]
    results = [{"type": "tool_result", "tool_use_id": each["id"], "content": "     1\tx = 1"} for each in read]
    shown = '{"request": "R4", "revision": 1, "status": "submitted"}'
    about = {"request": "R4", "request_kind": "plan", "revision": 1}
    yes = rehearsal.letter("decision", "lead#1", "", 1, decision="approved", **about)
    no = rehearsal.letter("decision", "human", "Keep cents as integers.", 2, decision="rejected", **about)
    request["messages"] += [
        {"role": "assistant", "content": [*read, plan]},
        {
            "role": "user",
            "content": [
                *results,
                {"type": "tool_result", "tool_use_id": "a", "content": shown},
                {"type": "text", "text": f"{yes}\n\n{no}"},
            ],
        },
    ]
    (call,) = [block for block in respond(request).content if block["type"] == "tool_use"]
    assert call["name"] == "submit_plan" and "Keep cents as integers." in call["input"]["plan"]

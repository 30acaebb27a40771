"""The steering commands: what they write, what they refuse, and that the host is told."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie import files
from coterie.console import places, shapes
from coterie.mailbox import Bell
from coterie.teammates.roster import Status

Coterie = Callable[..., tuple[int, str, str]]


def last_event(rooms: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((rooms.root / "events.jsonl").read_text().splitlines()[-1])
    return found


def mail_of(rooms: Any, name: str) -> list[tuple[str, str]]:
    return [(each.kind, each.body.text) for each in rooms.mail.waiting(name)]


def test_approve_decides_in_the_name_of_the_human_and_sends_the_decision(rooms: Any, coterie: Coterie) -> None:
    code, out, err = coterie("approve", "r1", "-m", "go")
    assert (code, err) == (0, "") and "approved R1" in out
    request = rooms.requests.get("R1")
    assert (str(request.status), request.decided_by, request.feedback) == ("approved", "human", "go")
    assert mail_of(rooms, "ada") == [("decision", "go")]
    event = last_event(rooms)
    assert (event["kind"], event["member"], event["request"], event["outside"]) == ("decision", "human", "R1", True)


def test_the_first_decision_counts_and_a_later_reject_revokes_it(rooms: Any, coterie: Coterie) -> None:
    assert coterie("approve", "R1")[0] == 0
    code, out, err = coterie("approve", "R1")
    assert (code, out) == (1, "") and "already approved, by human" in err
    assert coterie("reject", "R1", "-m", "no")[0] == 0
    assert str(rooms.requests.get("R1").status) == "rejected"
    assert [kind for kind, _ in mail_of(rooms, "ada")] == ["decision", "decision"]


def test_a_rejection_needs_to_say_what_should_change(rooms: Any, coterie: Coterie) -> None:
    code, _, err = coterie("reject", "R1")
    assert code == 2 and err.startswith("coterie: ") and "--message" in err
    code, _, err = coterie("reject", "R1", "-m", " ")
    assert code == 2 and "the reason is empty: say what should change" in err
    assert rooms.requests.get("R1").open


def test_of_several_unfinished_teams_the_one_that_runs_is_meant_and_to_resume_one_that_does_not(
    repository: Path, new_team: Callable[..., Path]
) -> None:
    first, second = new_team("a"), new_team("b")
    assert places.find_team(repository, None) == first
    mark = files.process_mark(os.getpid())
    held = files.hold(second / "processes" / "lead.lock", mark)
    assert places.find_team(repository, None) == second
    assert places.find_team(repository, None, running=False) == first
    other = files.hold(first / "processes" / "lead.lock", mark)
    assert places.find_team(repository, None) == places.find_team(repository, None, running=False) == first
    for each in (held, other):
        each.release()


def test_old_unknown_and_superseded_requests_are_refused_with_the_reason(rooms: Any, coterie: Coterie) -> None:
    rooms.plan("T1", "better")
    code, _, err = coterie("approve", "R1")
    assert code == 1 and "superseded by R2" in err
    for wrong in ("R99", "x", "../../team", "T1"):
        code, _, err = coterie("approve", wrong)
        assert code == 2 and len(err.splitlines()) == 1


def test_a_question_is_answered_and_not_approved(rooms: Any, coterie: Coterie) -> None:
    rooms.requests.ask_question(sender="lead", sender_instance="lead#1", text="which?")
    code, _, err = coterie("approve", "R2")
    assert code == 1 and "answer it in words" in err
    assert coterie("answer", "R2", "the left one")[0] == 0
    assert mail_of(rooms, "lead")[-1] == ("answer", "the left one")
    assert coterie("answer", "R2", "again")[0] == 1


def test_say_reaches_a_member_and_wakes_the_host(rooms: Any, coterie: Coterie) -> None:
    with Bell(rooms.root / "processes", "a-host") as bell:
        seen = bell.count()
        code, out, _ = coterie("say", "ada", "look here", "--urgent")
        assert bell.wait(seen, 20.0) > seen
    assert code == 0 and "sent to ada#1" in out and "coterie resume" in out
    message = rooms.mail.waiting("ada")[-1]
    assert (message.sender, message.sender_instance, message.urgent) == ("human", "human", True)


def test_say_refuses_whom_nobody_knows_and_whose_life_has_ended(rooms: Any, coterie: Coterie) -> None:
    code, _, err = coterie("say", "bob", "hello")
    assert code == 2 and "nobody is called 'bob' in this team: see coterie team" in err
    rooms.roster.update("ada", "ada#1", status=Status.STOPPED)
    code, _, err = coterie("say", "ada", "hello")
    assert code == 1 and "ada#1 has stopped" in err
    assert coterie("say", "human", "hello")[0] == 2
    assert coterie("say", "lead", "  ")[0] == 2
    code, _, err = coterie("say", "lead", "x" * 70_000)
    assert code == 1 and "too long" in err


def test_mail_is_acknowledged_all_of_it_or_one_message(rooms: Any, note: str, coterie: Coterie) -> None:
    code, out, _ = coterie("mail", "--done", note)
    assert code == 0 and "1 message marked as read" in out
    assert [each.id for each in rooms.mail.waiting("human")] == ["0000000001-human"]
    code, _, err = coterie("mail", "--done", note)
    assert code == 2 and "no unread message" in err
    assert coterie("mail", "--done")[0] == 0
    assert rooms.mail.waiting("human") == []
    assert len(rooms.mail.history("human")) == 2
    assert coterie("mail", note)[0] == 2


def test_stop_of_a_name_asks_for_a_shutdown_of_that_life(rooms: Any, coterie: Coterie) -> None:
    code, out, _ = coterie("stop", "ada")
    assert code == 0 and "asked ada#1 to stop within 60 s (R2)" in out
    request = rooms.requests.get("R2")
    assert (str(request.kind), request.to_instance, request.deadline_s) == ("shutdown", "ada#1", 60.0)
    assert [kind for kind, _ in mail_of(rooms, "ada")] == ["shutdown_request"]
    assert coterie("stop", "ada", "--now")[0] == 0
    assert rooms.requests.get("R3").deadline_s < 1
    for name, why, expected in (("lead", "ends with the run", 1), ("bob", "no member is called 'bob'", 2)):
        code, _, err = coterie("stop", name)
        assert code == expected and why in err


def test_stop_without_a_name_asks_the_host_that_runs_the_team(rooms: Any, coterie: Coterie) -> None:
    code, _, err = coterie("stop")
    assert code == 1 and "is not running" in err and not (rooms.root / "stop.json").exists()
    info = {"schema": 1, "process": "abc", "started": files.now(), **files.process_mark(os.getpid())}
    lock = files.hold(rooms.root / "processes" / "lead.lock", info)
    try:
        assert coterie("stop")[0] == 0
    finally:
        lock.release()
    found = files.read_json(rooms.root / "stop.json")
    assert (found["process"], found["by"], found["now"]) == ("abc", "human", False)


def test_tasks_are_added_and_changed_by_the_human(rooms: Any, coterie: Coterie) -> None:
    code, out, _ = coterie("task", "add", "One more", "-d", "why", "--blocked-by", "t4", "--check", "true", "--plan")
    assert code == 0 and "creates T7" in out
    task = rooms.board.get("T7")
    assert (task.created_by, task.blocked_by, task.checks, task.requires_plan) == ("human", ("T4",), ("true",), True)
    assert coterie("task", "edit", "T7", "--priority", "8", "--no-plan", "--subject", "Other")[0] == 0
    task = rooms.board.get("T7")
    assert (task.priority, task.requires_plan, task.subject) == (8, False, "Other")
    assert coterie("task", "block", "T7", "T2", "T3")[0] == 0
    assert rooms.board.get("T7").blocked_by == ("T4", "T2", "T3")
    assert coterie("task", "unblock", "T7", "T2")[0] == 0
    assert rooms.board.get("T7").blocked_by == ("T4", "T3")
    assert last_event(rooms)["task"] == "T7"


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("task", "add", " \x1b "), 2, "subject: "),
        (("task", "add", "x", "--priority", "11"), 2, "--priority"),
        (("task", "add", "x", "--blocked-by", "T99"), 2, "T99"),
        (("task", "edit", "T4"), 2, "nothing to change"),
        (("task", "edit", "T4", "--priority", "high"), 2, "--priority"),
        (("task", "edit", "T4", "--priority", "11"), 2, "priority"),
        (("task", "block", "T2", "T3"), 1, "circle"),
        (("task", "block", "T1", "T4"), 1, "T1 is in_progress"),
        (("task", "retry", "T4"), 1, "see coterie show T4"),
        (("task", "cancel", "T99"), 2, "there is no task T99: see coterie board"),
        (("task", "cancel", "../x"), 2, "not a task id"),
        (("task", "frobnicate"), 2, "frobnicate"),
        (("bord",), 2, "bord"),
        (("board", "--frob"), 2, "--frob"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    rooms: Any, coterie: Coterie, words: tuple[str, ...], code: int, why: str
) -> None:
    before = {path.name: path.read_bytes() for path in (rooms.root / "tasks").glob("*.json")}
    found, out, err = coterie(*words)
    assert (found, out) == (code, "")
    assert err.startswith("coterie: ") and why in err and len(err.splitlines()) == 1
    assert {path.name: path.read_bytes() for path in (rooms.root / "tasks").glob("*.json")} == before


def test_a_task_in_progress_is_wanted_back_and_others_are_moved_at_once(rooms: Any, coterie: Coterie) -> None:
    code, out, _ = coterie("task", "release", "T1", "-m", "too slow")
    assert code == 0 and "its owner is told" in out
    wanted = rooms.board.get("T1").wanted
    assert wanted is not None and (wanted.move, wanted.by, wanted.reason) == ("release", "human", "too slow")
    assert "in_progress, to release" in coterie("board")[1]
    code, out, _ = coterie("task", "cancel", "T4")
    assert code == 0 and "T4 is cancelled" in out
    assert coterie("task", "retry", "T5")[0] == 0
    assert str(rooms.board.get("T5").status) == "pending"


def test_work_that_is_added_to_a_team_that_has_ended_opens_it_again(
    rooms: Any, new_team: Callable[..., Path], coterie: Coterie
) -> None:
    new_team("main", ended={"at": files.now(), "exit": 0, "summary": "done"})
    assert coterie("task", "add", "One more")[0] == 0
    assert files.read_json(rooms.root / "team.json")["ended"] is None


def test_diff_shows_what_is_merged_and_says_when_there_is_nothing(
    rooms: Any, repository: Path, coterie: Coterie
) -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True).stdout

    git("branch", "coterie/main/integration")
    assert coterie("diff")[1] == "nothing is merged into coterie/main/integration yet\n"
    tree = git("rev-parse", "HEAD^{tree}").strip()
    assert tree
    assert coterie("diff", "T4")[:2] == (0, "there is no work on T4: it is ready\n")
    assert coterie("diff", "T5")[:2] == (0, "there is no work on T5: it is failed\n")
    code, out, _ = coterie("diff", "T1")
    assert code == 0 and "ada has claimed it and has no worktree for it yet" in out
    assert coterie("diff", "T99")[0] == 2
    assert json.loads(coterie("diff", "--json")[1])["diff"] == ""


def test_land_brings_the_work_to_a_clean_checkout(rooms: Any, repository: Path, coterie: Coterie) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=S", "-c", "user.email=s@example.org"]
        return subprocess.run(["git", *who, *words], cwd=repository, capture_output=True, text=True, check=True).stdout

    exclude = repository / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("/.coterie/\n")
    git("switch", "-q", "-c", "coterie/main/integration")
    (repository / "two.txt").write_text("two\n")
    git("add", "two.txt")
    git("commit", "-q", "-m", "two")
    git("switch", "-q", "trunk")
    (repository / "one.txt").write_text("changed\n")
    code, _, err = coterie("land", "--yes")
    assert code == 1 and f"{repository} has changes (one.txt)" in err and not (repository / "two.txt").exists()
    git("checkout", "-q", "--", "one.txt")
    code, out, err = coterie("land")
    assert code == 2 and "give --yes to land it" in err and not (repository / "two.txt").exists()
    commit = git("rev-parse", "coterie/main/integration").strip()
    assert "trunk goes forward" in out and f"  {commit[:12]} two\n1 commit, 1 file changed" in out
    code, out, err = coterie("land", "--json")
    view = shapes.LandView.model_validate_json(out)
    assert code == 2 and "--yes" in err
    assert (view.kind, view.landed, view.new, view.files) == ("fast-forward", False, commit, ["two.txt"])
    assert [(each.commit, each.subject) for each in view.commits] == [(commit, "two")]
    code, out, _ = coterie("land", "--yes")
    assert code == 0 and f"landed: trunk is at {commit[:12]}" in out
    assert (repository / "two.txt").read_text() == "two\n" and git("status", "--porcelain") == ""
    assert "has all the work" in coterie("land")[1]


def test_land_runs_the_checks_on_a_merge_and_names_the_files_of_a_conflict(
    rooms: Any, repository: Path, coterie: Coterie
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=S", "-c", "user.email=s@example.org"]
        return subprocess.run(["git", *who, *words], cwd=repository, capture_output=True, text=True, check=True).stdout

    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("/.coterie/\n")
    git("switch", "-q", "-c", "coterie/main/integration")
    (repository / "two.txt").write_text("two\n")
    git("add", "two.txt")
    git("commit", "-q", "-m", "two")
    git("switch", "-q", "trunk")
    (repository / "three.txt").write_text("three\n")
    git("add", "three.txt")
    git("commit", "-q", "-m", "three")
    record = files.read_json(rooms.root / "team.json")
    record["settings"]["checks"] = ["test -f two.txt && test -f missing.txt"]
    files.write_json(rooms.root / "team.json", record)
    code, out, err = coterie("land", "--yes")
    assert "after 1 check on it" in out
    assert code == 1 and "checks are red" in err and not (repository / "two.txt").exists()
    record["settings"]["checks"] = ["test -f two.txt && test -f three.txt"]
    files.write_json(rooms.root / "team.json", record)
    code, out, _ = coterie("land", "--yes", "--json")
    assert code == 0 and shapes.LandView.model_validate_json(out).landed
    assert git("log", "-1", "--format=%s").strip() == "Merge the work of the team main"
    git("switch", "-q", "coterie/main/integration")
    (repository / "one.txt").write_text("theirs\n")
    git("commit", "-q", "-a", "-m", "theirs")
    git("switch", "-q", "trunk")
    (repository / "one.txt").write_text("mine\n")
    git("commit", "-q", "-a", "-m", "mine")
    code, out, err = coterie("land")
    assert code == 1 and "one.txt" in out and "conflicts with trunk in 1 file:" in err

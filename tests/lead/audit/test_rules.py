"""Each rule of the audit: the fault made by hand, and exactly that fault found, at its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.conftest import git
from tests.lead.audit.conftest import HOST, Scene

from coterie import files
from coterie.lead.audit import set_aside
from coterie.teammates.journal import Delivered, Finished, Opened, Started
from coterie.teammates.roster import Status

T2, R1, ADA = "tasks/T2.json", "requests/R1.json", "members/ada/journal.jsonl"
TALK = f"{ADA}, conversation 1"


def test_a_team_in_the_middle_of_its_work_has_no_fault(scene: Scene) -> None:
    assert scene.faults() == []
    assert set_aside(scene.root) == []


# ------------------------------------------------------------------------------------------------------------- board


def test_a_task_whose_owner_is_gone(scene: Scene) -> None:
    scene.edit("members/ada/member.json", status="stopped", task=None, epoch=None)
    assert ("no-owner", T2) in scene.found()


def test_a_member_that_holds_two_tasks(scene: Scene) -> None:
    record = scene.loaded(T2)
    scene.edit("tasks/T5.json", status="in_progress", epoch=1, claim=record["claim"])
    assert scene.found() == [("holds-two", "tasks/T5.json")]


def test_a_claim_that_says_two_members(scene: Scene) -> None:
    claim = scene.loaded(T2)["claim"]
    scene.edit(T2, claim=claim | {"owner": "ben"})
    found = scene.found()
    assert ("stray-claim", T2) in found and ("holds-two", "tasks/T4.json") in found


def test_a_claim_on_a_task_that_nobody_may_own(scene: Scene) -> None:
    scene.edit("tasks/T5.json", claim=scene.loaded(T2)["claim"])
    assert scene.found() == [("stray-claim", "tasks/T5.json")]


def test_a_task_that_was_claimed_while_a_blocker_was_open(scene: Scene) -> None:
    scene.edit(T2, blocked_by=["T5"])
    assert scene.found() == [("open-blocker", T2)]


def test_a_task_that_was_claimed_before_its_blocker_was_completed(scene: Scene) -> None:
    scene.merge("T4")
    scene.team.keeper.close("ben")
    scene.edit(T2, blocked_by=["T1", "T4"])
    fault = scene.faults()[0]
    assert (fault.rule, fault.where) == ("open-blocker", T2) and "before its blocker T4" in fault.found


def test_the_order_of_claim_and_completion_does_not_hang_on_the_clock(scene: Scene) -> None:
    history = scene.loaded("tasks/T1.json")["history"]
    scene.edit("tasks/T1.json", history=[each | {"at": "2099-01-01T00:00:00.000Z"} for each in history])
    assert scene.found() == []


def test_a_blocker_that_is_not_on_the_board(scene: Scene) -> None:
    (scene.root / "tasks" / "T5.json").unlink()
    scene.edit("tasks/T3.json", blocked_by=["T5"])
    assert scene.found() == [("unknown-blocker", "tasks/T3.json")]


def test_tasks_that_wait_for_one_another(scene: Scene) -> None:
    scene.edit("tasks/T3.json", blocked_by=["T5"])
    scene.edit("tasks/T5.json", blocked_by=["T3"])
    fault = scene.faults()[0]
    assert (fault.rule, fault.where) == ("cycle", "tasks/T3.json") and "T3 -> T5 -> T3" in fault.found


def test_a_plan_that_its_author_approved(scene: Scene) -> None:
    scene.edit(R1, decided_by="ada")
    assert scene.found() == [("own-decision", R1)]


def test_a_plan_whose_text_was_changed_after_its_approval(scene: Scene) -> None:
    scene.edit(R1, text="2. write something else")
    assert scene.found() == [("changed-text", R1)]


# --------------------------------------------------------------------------------------------------------------- git


def test_a_completed_task_whose_merge_is_not_on_the_integration_branch(scene: Scene) -> None:
    base = scene.team.record.base.commit
    git(scene.repository, "update-ref", "refs/heads/coterie/main/integration", base)
    assert scene.found() == [("not-merged", "tasks/T1.json")]


def test_a_completed_task_that_is_neither_merged_nor_no_change(scene: Scene) -> None:
    result = scene.loaded("tasks/T1.json")["result"]
    scene.edit("tasks/T5.json", status="completed", result=result | {"merged_commit": None, "no_change": False})
    assert scene.found() == [("not-merged", "tasks/T5.json")]


def test_a_completed_task_without_a_change_needs_no_merge(scene: Scene) -> None:
    result = scene.loaded("tasks/T1.json")["result"]
    scene.edit("tasks/T5.json", status="completed", result=result | {"merged_commit": None, "no_change": True})
    assert scene.found() == []


def test_a_task_that_was_merged_twice(scene: Scene) -> None:
    ref = "refs/heads/coterie/main/integration"
    tip = git(scene.repository, "rev-parse", ref).strip()
    message = git(scene.repository, "log", "-1", "--format=%B", tip)
    head = git(scene.repository, "rev-parse", f"{tip}^2").strip()
    who = ["-c", "user.name=S", "-c", "user.email=s@example.org"]
    again = git(scene.repository, *who, "commit-tree", f"{tip}^{{tree}}", "-p", tip, "-p", head, "-m", message).strip()
    git(scene.repository, "update-ref", ref, again)
    assert scene.found() == [("merged-twice", "tasks/T1.json")]


def test_a_merge_whose_task_was_not_completed(scene: Scene) -> None:
    scene.move("T4")
    assert scene.found() == [("not-completed", "tasks/T4.json")]


def test_a_merge_of_a_task_that_is_open(scene: Scene) -> None:
    scene.edit("tasks/T1.json", status="pending", claim=None, assignment=None, merging=None)
    assert ("merged-early", "tasks/T1.json") in scene.found()


def test_a_merge_of_no_task(scene: Scene) -> None:
    scene.edit(T2, blocked_by=[])
    (scene.root / "tasks" / "T1.json").unlink()
    tip = scene.team.keeper.tip()
    assert scene.found() == [("unknown-merge", tip)]


def test_a_task_that_says_it_is_being_merged_while_nobody_merges(scene: Scene) -> None:
    scene.team.board.set_merging("T4", 1, "0" * 40)
    assert scene.found() == [("not-merging", "tasks/T4.json")]


def test_an_integration_branch_that_is_gone(scene: Scene) -> None:
    ref = "refs/heads/coterie/main/integration"
    commit = scene.loaded("tasks/T1.json")["result"]["merged_commit"]
    git(scene.repository, "update-ref", "-d", ref)
    fault = scene.faults()[0]
    assert (fault.rule, fault.where) == ("no-branch", ref) and commit in fault.cure


def test_a_base_that_git_does_not_have(scene: Scene) -> None:
    scene.edit("team.json", base={"branch": None, "commit": "1" * 40})
    assert scene.found() == [("git", "1" * 40)]


# --------------------------------------------------------------------------------------------------------- worktrees


def worktree(scene: Scene, name: str) -> Path:
    return scene.team.keeper.path(name)


def test_a_worktree_on_a_branch_of_a_task_that_its_member_does_not_hold(scene: Scene) -> None:
    scene.team.board.unbind("T4", 1, by="queue", reason="set aside")
    scene.edit("members/ben/member.json", task=None, epoch=None)
    assert scene.found() == [("loose-worktree", str(worktree(scene, "ben")))]


def test_a_detached_worktree_that_is_not_clean(scene: Scene) -> None:
    scene.team.board.unbind("T4", 1, by="queue", reason="set aside")
    scene.team.keeper.close("ben")
    scene.edit("members/ben/member.json", task=None, epoch=None)
    assert scene.found() == []
    (worktree(scene, "ben") / "left.txt").write_text("left\n")
    fault = scene.faults()[0]
    assert (fault.rule, fault.where) == ("loose-worktree", str(worktree(scene, "ben"))) and "left.txt" in fault.found


def test_the_worktrees_of_the_queue_and_the_lead_may_be_in_any_state(scene: Scene) -> None:
    for name in ("queue", "lead"):
        (scene.team.keeper.reader(name, scene.team.keeper.tip()) / "left.txt").write_text("left\n")
    assert scene.found() == []


def test_an_assignment_whose_worktree_is_on_another_branch(scene: Scene) -> None:
    git(worktree(scene, "ada"), "switch", "-q", "-c", "elsewhere")
    assert scene.found() == [("assignment-worktree", str(worktree(scene, "ada")))]


def test_an_assignment_whose_worktree_was_deleted(scene: Scene) -> None:
    git(scene.repository, "worktree", "unlock", str(worktree(scene, "ada")))
    git(scene.repository, "worktree", "remove", "--force", str(worktree(scene, "ada")))
    fault = scene.faults()[0]
    assert (fault.rule, fault.where) == ("assignment-worktree", str(worktree(scene, "ada"))) and fault.repairable


def test_a_half_made_worktree(scene: Scene) -> None:
    path = worktree(scene, "cleo")
    argv = ("--no-checkout", "--detach", "--lock", "--reason", "coterie main/cleo")
    git(scene.repository, "worktree", "add", "-q", *argv, str(path), "HEAD")
    assert scene.found() == [("half-worktree", str(path))]


def test_a_lock_that_git_left_in_a_worktree_of_ours(scene: Scene) -> None:
    metadata = scene.team.keeper.where("ada")
    assert metadata is not None
    (metadata.metadata / "index.lock").touch()
    assert scene.found() == [("git-lock", str(worktree(scene, "ada")))]


def test_worktrees_of_the_person_are_none_of_ours(scene: Scene, tmp_path: Path) -> None:
    git(scene.repository, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    (tmp_path / "mine" / "dirty.txt").write_text("mine\n")
    assert scene.found() == []


# -------------------------------------------------------------------------------------------------------------- mail


def newest(scene: Scene, place: str, name: str = "ada") -> Path:
    return sorted((scene.root / "mail" / name / place).iterdir())[-1]


def test_a_message_in_two_folders(scene: Scene) -> None:
    path = newest(scene, "cur")
    (path.parent.parent / "new" / path.name).write_bytes(path.read_bytes())
    assert scene.found() == [("message-twice", f"mail/ada/new/{path.name}")]


def test_a_message_that_was_never_sent(scene: Scene) -> None:
    (scene.root / "mail/ada/tmp/0000000099-ada.json").write_text("{")
    assert scene.found() == [("half-sent", "mail/ada/tmp/0000000099-ada.json")]


def test_a_message_that_was_put_away_without_a_record(scene: Scene) -> None:
    path = newest(scene, "new")
    path.rename(path.parent.parent / "cur" / path.name)
    assert scene.found() == [("not-recorded", f"mail/ada/cur/{path.name}")]


def test_a_message_that_has_two_records(scene: Scene) -> None:
    path = newest(scene, "cur")
    scene.journal("ada").append(Delivered(instance="ada#1", turn=3, ids=[path.stem], kinds=["note"], text="again"))
    assert scene.found() == [("delivered-twice", ADA)]


def test_a_message_that_was_delivered_and_not_put_away(scene: Scene) -> None:
    path = newest(scene, "new")
    scene.journal("ada").append(Delivered(instance="ada#1", turn=3, ids=[path.stem], kinds=["note"], text="it"))
    assert scene.found() == [("not-put-away", f"mail/ada/new/{path.name}")]


def test_a_message_of_a_request_that_does_not_exist(scene: Scene) -> None:
    notice = newest(scene, "cur", "lead")
    (scene.root / R1).unlink()
    assert ("unknown-request", f"mail/lead/cur/{notice.name}") in scene.found()


def test_a_message_that_cannot_be_read(scene: Scene) -> None:
    newest(scene, "new").write_text("{")
    assert scene.found() == [("unreadable", f"mail/ada/new/{newest(scene, 'new').name}")]


# ---------------------------------------------------------------------------------------------------------- journals


def test_a_journal_with_a_damaged_record(scene: Scene) -> None:
    path = scene.root / ADA
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'"so"', b'"no"')
    path.write_bytes(b"\n".join(lines))
    fault = scene.faults()[0]
    assert [each[0] for each in scene.found()] == ["damaged-journal"] and "line 2" in fault.found


def test_a_journal_with_a_hole(scene: Scene) -> None:
    path = scene.root / ADA
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:1] + lines[2:]))
    assert scene.found() == [("damaged-journal", ADA)]


def test_a_journal_with_a_torn_end(scene: Scene) -> None:
    path = scene.root / ADA
    path.write_bytes(path.read_bytes() + b'{"seq": 9')
    assert scene.found() == [("torn-journal", ADA)]


def test_a_call_that_was_interrupted(scene: Scene) -> None:
    scene.answer("ada", "c2")
    scene.journal("ada").append(Started(instance="ada#1", call="c2", tool="bash", key="k"))
    fault = scene.faults()[0]
    assert scene.found() == [("open-call", TALK)] and fault.repairable


def test_a_call_that_was_never_answered(scene: Scene) -> None:
    scene.answer("ada", "c2")
    scene.answer("ada")
    assert [each[0] for each in scene.found()] == ["bad-conversation"]


def test_two_answers_in_a_row(scene: Scene) -> None:
    scene.answer("ada")
    scene.answer("ada")
    assert scene.found() == [("bad-conversation", TALK)]


def test_a_result_of_a_call_that_nobody_made(scene: Scene) -> None:
    scene.journal("ada").append(Finished(instance="ada#1", call="c9", tool="bash", text="?", is_error=False))
    assert scene.found() == [("bad-conversation", TALK)]


def test_a_second_result_of_a_call(scene: Scene) -> None:
    scene.journal("ada").append(Finished(instance="ada#1", call="c1", tool="bash", text="?", is_error=False))
    assert scene.found() == [("bad-conversation", TALK)]


def test_an_open_call_of_a_life_that_is_over_is_asked_of_nobody(scene: Scene) -> None:
    scene.answer("lead", "c2")
    scene.edit("members/lead/member.json", status=str(Status.FAILED))
    assert scene.found() == []


# ------------------------------------------------------------------------------------------------- traces of the dead


def test_a_temp_file_of_a_dead_process(scene: Scene) -> None:
    (scene.root / f"tasks/.T9.json.{HOST}-1.tmp").write_text("{")
    assert scene.found() == [("temp-file", f"tasks/.T9.json.{HOST}-1.tmp")]


def test_a_temp_file_that_a_file_tool_left_beside_the_worktrees(scene: Scene) -> None:
    path = worktree(scene, "ada").parent / f".one.txt.{HOST}-1.tmp"
    path.write_text("half")
    assert scene.found() == [("temp-file", str(path))]


def test_a_temp_file_of_a_process_that_lives(scene: Scene) -> None:
    lock = scene.root / "processes" / f"{files.token()}.lock"
    held = files.hold(lock, files.process_mark(os.getpid()))
    (scene.root / "tasks" / files.temp_name("T9.json")).write_text("{")
    assert scene.found() == []
    held.release()


@pytest.mark.parametrize("ending", ["lock", "port"])
def test_a_host_that_is_gone(scene: Scene, ending: str) -> None:
    files.write_json(scene.root / "processes" / f"{HOST}.{ending}", {"pid": 1 << 30, "start": 1, "boot": "b"})
    assert scene.found() == [("dead-host", f"processes/{HOST}.{ending}")]


def test_a_pid_that_was_given_to_another_process(scene: Scene) -> None:
    mark = files.process_mark(os.getpid())
    files.write_json(scene.root / "processes" / f"{HOST}.lock", mark | {"start": mark["start"] - 1})
    assert scene.found() == [("dead-host", f"processes/{HOST}.lock")]


def test_a_batch_that_was_begun(scene: Scene) -> None:
    files.write_json(scene.root / "intents/board-T6.json", {"schema": 1, "tasks": []})
    assert scene.found() == [("half-batch", "intents/board-T6.json")]


def test_a_command_that_outlived_its_host(scene: Scene) -> None:
    argv = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None and process.stdout.readline()
        scene.answer("ada", "c2")
        mark = files.process_mark(process.pid) | {"command_id": "ada.7"}
        scene.journal("ada").append(Started(instance="ada#1", call="c2", tool="bash", key="k", process=mark))
        fault = next(each for each in scene.faults() if each.rule == "left-process")
        assert fault.where == "ada.7" and str(process.pid) in fault.found
        process.stdin.close()
        process.wait(30)
    assert "left-process" not in [rule for rule, _ in scene.found()]


# ----------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(
    ("path", "field"), [("tasks/T5.json", "priority"), (R1, "revision"), ("members/ben/member.json", "turn")]
)
def test_a_record_with_a_wrong_field(scene: Scene, path: str, field: str) -> None:
    scene.edit(path, **{field: "many"})
    fault = next(each for each in scene.faults() if each.where == path)
    assert fault.rule == "unreadable" and field in fault.found


@pytest.mark.parametrize("path", ["team.json", "tasks/T5.json", R1, "members/ben/member.json"])
def test_a_record_of_a_newer_schema(scene: Scene, path: str) -> None:
    scene.edit(path, schema=2)
    assert ("newer-schema", path) in scene.found()


def test_what_was_set_aside_is_told_and_is_no_fault(scene: Scene) -> None:
    (scene.root / "tasks" / "bad").mkdir()
    (scene.root / "tasks" / "bad" / "T9.json").write_text("{")
    assert scene.found() == []
    assert set_aside(scene.root) == ["tasks/bad/T9.json"]


def test_a_compacted_conversation_is_one_more_conversation(scene: Scene) -> None:
    opened = Opened(
        instance="ada#1",
        number=2,
        reason="compaction",
        task="T2",
        epoch=1,
        system="s",
        tools=[],
        model="m",
        opening="go",
    )
    scene.journal("ada").append(opened)
    scene.answer("ada", "c1")
    scene.journal("ada").append(Finished(instance="ada#1", call="c1", tool="bash", text="ok", is_error=False))
    assert scene.found() == []


def test_a_journal_without_a_conversation_is_a_journal(scene: Scene) -> None:
    scene.journal("ben").append(Delivered(instance="ben#1", turn=1, ids=[], kinds=[], text=""))
    assert scene.found() == []

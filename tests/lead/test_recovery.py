"""Recovery, step by step: what a kill left is put right, told, and not done again the next time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.conftest import git
from tests.lead.audit.conftest import HOST, Scene, built, scene

from coterie import files
from coterie.errors import DamagedError, NewerSchema
from coterie.lead import open_team, repair
from coterie.taskboard import NewTask, Status
from coterie.teammates.journal import Delivered, Ended, Started
from coterie.worktrees import GitError

__all__ = ["built", "scene"]


def recovered(scene: Scene) -> str:
    """Recover; what was repaired, and nothing of it the second time."""
    said: list[str] = []
    repair(scene.root, watch=lambda event: said.append(event["text"]) if event["kind"] == "repair" else None)
    again: list[str] = []
    repair(scene.root, watch=lambda event: again.append(event["text"]) if event["kind"] == "repair" else None)
    assert again == []
    return "\n".join(said)


def test_a_team_that_is_well_is_left_as_it_is(scene: Scene) -> None:
    before = {path: path.read_bytes() for path in (scene.root / "tasks").glob("*.json")}
    assert recovered(scene) == ""
    assert {path: path.read_bytes() for path in (scene.root / "tasks").glob("*.json")} == before


def test_a_newer_record_is_refused_before_anything_is_changed(scene: Scene) -> None:
    scene.edit("requests/R1.json", schema=2)
    (scene.root / f"tasks/.T9.json.{HOST}-1.tmp").write_text("{")
    with pytest.raises(NewerSchema, match=r"R1.json.*upgrade"):
        recovered(scene)
    assert list((scene.root / "tasks").glob(".*.tmp"))


def test_commands_of_dead_hosts_are_ended(scene: Scene) -> None:
    argv = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        mark = files.process_mark(process.pid) | {"command_id": "ada.7"}
        scene.answer("ada", "c2")
        scene.journal("ada").append(Started(instance="ada#1", call="c2", tool="bash", key="k", process=mark))
        assert "ada.7" in recovered(scene)
        assert process.wait(30) == -9


OTHER_HOST = """
import os, sys
from pathlib import Path
from coterie import files
held = files.hold(Path(sys.argv[1]), files.process_mark(os.getpid()))
print(flush=True)
sys.stdin.read()
"""


def test_what_another_living_host_runs_is_left_alone(scene: Scene) -> None:
    path = scene.root / "members/ada/journal.jsonl"
    scene.edit("members/ada/member.json", process=HOST, joined=True)
    path.write_bytes(path.read_bytes() + b'{"seq": 9')  # it is just being written
    (scene.root / f"members/ada/.member.json.{HOST}-1.tmp").write_text("{")
    scene.team.board.want("T2", move="release", by="human", reason="mine")
    argv = [sys.executable, "-c", OTHER_HOST, str(scene.root / "processes" / f"{HOST}.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        assert recovered(scene) == ""
        assert scene.team.board.get("T2").wanted is not None and path.read_bytes().endswith(b'{"seq": 9')
        assert list((scene.root / "members/ada").glob(".*.tmp"))
    said = recovered(scene)
    assert all(word in said for word in ("T2 goes back to the board", "torn bytes", ".tmp", f"{HOST} is gone")), said


def test_temp_files_and_unsent_messages_are_removed(scene: Scene) -> None:
    (scene.root / f"tasks/.T9.json.{HOST}-1.tmp").write_text("{")
    (scene.root / "mail/ada/tmp/0000000099-ada.json").write_text("{")
    said = recovered(scene)
    assert ".T9.json" in said and "0000000099-ada" in said
    assert not list(scene.root.rglob(".*.tmp")) and not list((scene.root / "mail").glob("*/tmp/*"))


def test_a_torn_journal_is_cut_at_its_last_whole_record(scene: Scene) -> None:
    path = scene.root / "members/ada/journal.jsonl"
    before = path.read_bytes()
    path.write_bytes(before + b'{"seq": 9')
    assert "cut 9 torn bytes off the journal of ada" in recovered(scene)
    assert path.read_bytes() == before


def test_what_cannot_be_read_is_set_aside(scene: Scene) -> None:
    (scene.root / "tasks/T5.json").write_text('{"schema": 1')
    (scene.root / "requests/R1.json").write_text("")
    said = recovered(scene)
    assert "T5" in said and "R1" in said
    assert (scene.root / "tasks/bad/T5.json").exists() and (scene.root / "requests/bad/R1.json").exists()


@pytest.mark.parametrize("way", ["cut", "gone", "FIFO"])
def test_a_member_whose_record_nobody_can_read_ends_and_its_work_goes_to_others(scene: Scene, way: str) -> None:
    path = scene.root / "members/ada/member.json"
    cost = scene.loaded("members/ada/member.json")["tokens"]
    whole = path.read_bytes()
    path.unlink()
    if way == "FIFO":
        os.mkfifo(path)
    elif way == "cut":
        path.write_bytes(whole[:100])
    said = recovered(scene)
    assert (str(path) in said and "ada#1 is over" in said) or way == "gone"
    assert os.path.lexists(path.parent / "bad" / "member.json") == (way != "gone")
    ada, task = scene.team.roster.get("ada"), scene.team.board.get("T2")
    assert (ada.instance, str(ada.status), ada.model, ada.turn) == ("ada#1", "failed", "m", 1)
    assert ada.tokens.model_dump() == cost
    assert (task.status, task.losses) == (Status.PENDING, 1) and "snapshot" in task.history[-1].reason
    told = {name: [each.body for _, each in scene.team.mail.history(name)] for name in ("lead", "human")}
    assert any("ada failed" in each.text for each in told["lead"]) and not scene.team.mail.has_mail("ada")
    assert any("ended before it read" in each.text for each in told["human"])
    assert scene.found() == []
    assert scene.team.roster.spawn("ada", model="m").instance == "ada#2"


def test_a_life_that_failed_just_before_a_kill_is_looked_after_and_told_to_the_lead_once(scene: Scene) -> None:
    scene.edit("members/ada/member.json", status="failed", reason="a fault")
    recovered(scene)
    recovered(scene)
    told = [each.body for _, each in scene.team.mail.history("lead")]
    assert [each.text for each in told if each.text.startswith("ada failed")] == ["ada failed: a fault"]
    assert scene.team.board.get("T2").status is Status.PENDING and scene.found() == []


def test_no_number_of_a_life_is_given_twice_though_the_record_that_had_it_is_gone(scene: Scene) -> None:
    scene.journal("ada").append(Ended(instance="ada#3", reason="enough"))
    (scene.root / "members/ada/member.json").write_bytes(b"")
    recovered(scene)
    assert scene.team.roster.get("ada").instance == "ada#3"
    assert scene.team.roster.spawn("ada", model="m").instance == "ada#4"


def test_a_record_that_another_host_may_have_in_hand_is_left_to_it(scene: Scene) -> None:
    path = scene.root / "members/ada/member.json"
    path.write_bytes(b"{")
    host = files.hold(scene.root / "processes" / f"{HOST}.lock", {})
    try:
        recovered(scene)
    finally:
        host.release()
    assert path.read_bytes() == b"{" and scene.team.board.get("T2").status is Status.IN_PROGRESS


def test_a_batch_that_was_begun_is_finished(scene: Scene) -> None:
    team = scene.team
    team.board.create([NewTask(ref="x", subject="X"), NewTask(ref="y", subject="Y", blocked_by=("x",))], by="lead")
    tasks = [scene.loaded(f"tasks/T{number}.json") for number in (6, 7)]
    files.write_json(scene.root / "intents/board-T6.json", {"schema": 1, "kind": "create", "tasks": tasks})
    (scene.root / "tasks/T7.json").unlink()
    assert "what was missing (1 task) is written now" in recovered(scene)
    assert scene.team.board.get("T7").blocked_by == ("T6",)
    assert not list((scene.root / "intents").iterdir())


def test_half_made_worktrees_and_locks_of_git_are_cleared(scene: Scene) -> None:
    argv = ("--no-checkout", "--detach", "--lock", "--reason", "coterie main/ben")
    keeper = scene.team.keeper
    keeper.close("ben")
    where = keeper.where("ben")
    assert where is not None
    git(scene.repository, "worktree", "unlock", str(where.path))
    git(scene.repository, "worktree", "remove", "--force", str(where.path))
    git(scene.repository, "worktree", "add", "-q", *argv, str(where.path), "HEAD")
    scene.edit("members/ben/member.json", task=None, epoch=None)
    scene.team.board.unbind("T4", 1, by="queue", reason="set aside")
    ada = keeper.where("ada")
    assert ada is not None
    (ada.metadata / "index.lock").touch()
    said = recovered(scene)
    assert "index.lock" in said and str(where.path) in said
    assert scene.found() == [] and (where.path / "one.txt").read_text() == "one\n"


def test_a_merge_that_is_on_the_branch_completes_its_task(scene: Scene) -> None:
    commit = scene.move("T4")
    recovered(scene)
    task = scene.team.board.get("T4")
    assert (task.status, task.result and task.result.merged_commit) == (Status.COMPLETED, commit)
    assert scene.team.keeper.tip() == commit


def test_a_mark_of_merging_without_a_merge_is_taken_away(scene: Scene) -> None:
    scene.team.board.set_merging("T4", 1, "0" * 40)
    assert "waits in the queue again" in recovered(scene)
    assert scene.team.board.get("T4").merging is None and scene.team.board.get("T4").status is Status.SUBMITTED


@pytest.mark.parametrize(("move", "status"), [("release", Status.PENDING), ("cancel", Status.CANCELLED)])
def test_a_task_that_is_wanted_back_is_moved_and_its_work_kept(scene: Scene, move: str, status: Status) -> None:
    scene.team.board.want("T2", move=move, by="human", reason="mine")
    assert "T2 is taken back from ada#1" in recovered(scene)
    assert scene.team.board.get("T2").status is status
    kept = git(scene.repository, "for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue").split()
    assert any("T2.txt" in git(scene.repository, "ls-tree", "--name-only", ref).split() for ref in kept)
    assert scene.found() == []


def test_a_task_whose_owner_s_life_is_over_goes_back_and_its_worktree_is_at_rest(scene: Scene) -> None:
    scene.edit("members/ada/member.json", status="failed")
    said = recovered(scene)
    assert "T2 goes back to the board" in said and "is at rest" in said
    task = scene.team.board.get("T2")
    assert (task.status, task.losses) == (Status.PENDING, 1) and "snapshot" in task.history[-1].reason
    assert [rule for rule, _ in scene.found()] == []


FULL = """#!/bin/sh
case " $* " in
    *" commit-tree "*) echo "fatal: unable to write loose object file: No space left on device" >&2; exit 128 ;;
esac
exec {git} "$@"
"""


def test_a_task_is_not_given_back_without_its_work_while_the_disk_is_full(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.edit("members/ada/member.json", status="failed")
    full = tmp_path / "full" / "git"
    full.parent.mkdir()
    full.write_text(FULL.format(git=shutil.which("git")))
    full.chmod(0o755)
    with monkeypatch.context() as lack:
        lack.setenv("PATH", f"{full.parent}{os.pathsep}{os.environ['PATH']}")
        with pytest.raises(GitError) as met:
            recovered(scene)
        assert files.shortage(met.value) == "no space left on the disk"
    assert scene.team.board.get("T2").status is Status.IN_PROGRESS
    recovered(scene)
    task = scene.team.board.get("T2")
    assert task.status is Status.PENDING and "snapshot" in task.history[-1].reason


def test_the_tasks_of_a_crashed_member_stay_its_own(scene: Scene) -> None:
    assert recovered(scene) == ""
    task = scene.team.board.get("T2")
    assert task.status is Status.IN_PROGRESS and task.claim is not None and task.claim.instance == "ada#1"


def test_what_lies_in_a_worktree_that_nothing_is_bound_to_is_kept(scene: Scene) -> None:
    scene.team.board.unbind("T4", 1, by="queue", reason="set aside")
    scene.edit("members/ben/member.json", task=None, epoch=None)
    place = scene.team.keeper.path("ben")
    (place / "more.txt").write_text("more\n")
    said = recovered(scene)
    ref = said.rpartition("kept as ")[2].strip()
    assert git(scene.repository, "show", f"{ref}:more.txt") == "more\n"
    assert not (place / "more.txt").exists()


def test_a_delivered_message_is_put_away_and_not_delivered_again(scene: Scene) -> None:
    path = next(iter((scene.root / "mail/ada/new").iterdir()))
    scene.journal("ada").append(Delivered(instance="ada#1", turn=3, ids=[path.stem], kinds=["note"], text="it"))
    assert f"{path.stem} was delivered before" in recovered(scene)
    assert (scene.root / "mail/ada/cur" / path.name).exists() and not path.exists()


def test_a_notice_that_a_request_owes_is_sent_once(scene: Scene) -> None:
    team = scene.team
    team.requests.ask_question(sender="lead", sender_instance="lead#1", text="which?")
    recovered(scene)
    found = [json.loads(path.read_text()) for path in (scene.root / "mail/human/new").iterdir()]
    assert [each["made_by"] for each in found] == ["R2/notice"]


def test_the_audit_comes_last_and_tells_what_is_left(scene: Scene) -> None:
    scene.edit("requests/R1.json", decided_by="ada")
    warned: list[str] = []
    repair(scene.root, watch=lambda event: warned.append(event["text"]) if event["kind"] == "warning" else None)
    assert len(warned) == 1 and warned[0].startswith("requests/R1.json: R1 says approved by ada")
    events = [json.loads(line) for line in (scene.root / "events.jsonl").read_text().splitlines()]
    assert [each["rule"] for each in events if each["kind"] == "warning"] == ["own-decision"]


def test_a_call_that_a_member_was_interrupted_in_is_no_damage(scene: Scene) -> None:
    scene.answer("ada", "c2")
    warned: list[str] = []
    repair(scene.root, watch=lambda event: warned.append(event["text"]) if event["kind"] == "warning" else None)
    assert warned == []


def test_without_the_integration_branch_nothing_goes_on(scene: Scene) -> None:
    ref = "refs/heads/coterie/main/integration"
    merged = scene.loaded("tasks/T1.json")["result"]["merged_commit"]
    git(scene.repository, "update-ref", "-d", ref)
    with pytest.raises(DamagedError, match=f"git update-ref {ref} {merged}"):
        recovered(scene)
    assert open_team(scene.root).keeper.git.resolve(ref) is None, "it is not made anew at the base"
    git(scene.repository, "update-ref", ref, merged)
    recovered(scene)

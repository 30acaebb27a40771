"""Creating, claiming, handing in, giving back: what each call promises."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from coterie import files
from coterie.errors import Refused
from coterie.taskboard import (
    Evidence,
    IllegalMove,
    NewTask,
    NotCurrent,
    Status,
    Task,
    TaskRefused,
    UnknownTask,
    encode,
    read_tasks,
    rows,
)

if TYPE_CHECKING:
    from conftest import Team


# -- creating -------------------------------------------------------------------------------------------------------


def test_a_batch_gets_ids_in_order_and_its_refs_become_edges(team: Team) -> None:
    assert team.chain("a", "b", "c") == {"a": "T1", "b": "T2", "c": "T3"}
    assert [task.blocked_by for task in team.board.tasks()] == [(), ("T1",), ("T2",)]
    assert team.create("d", blocked_by=("T3", "T1", "T3")) == {"d": "T4"}
    assert team.board.get("T4").blocked_by == ("T3", "T1")
    assert list((team.root / "intents").iterdir()) == []


def test_a_batch_with_one_wrong_task_is_refused_whole(team: Team) -> None:
    specs = [NewTask(ref="a", subject="a"), NewTask(ref="b", subject="b", blocked_by=("nobody",))]
    with pytest.raises(UnknownTask):
        team.board.create(specs, by="lead")
    with pytest.raises(TaskRefused, match="'a' stands for two tasks"):
        team.board.create([specs[0], specs[0]], by="lead")
    assert team.board.tasks() == []
    assert team.board.create([], by="lead") == {}


def test_the_same_key_creates_once_and_answers_the_same_also_after_a_restart(team: Team) -> None:
    specs = [NewTask(ref=ref, subject=ref) for ref in "abc"]
    first = team.board.create(specs, by="lead", made_by="lead#1/7/0")
    assert team.board.create(specs, by="lead", made_by="lead#1/7/0") == first
    assert team.open().create(specs, by="lead", made_by="lead#1/7/0") == first
    assert team.board.create(specs, by="lead", made_by="lead#1/7/1") != first
    assert {task.made_by for task in team.board.tasks()} == {"lead#1/7/0", "lead#1/7/1"}


def test_a_plan_is_required_where_the_task_or_else_the_setting_says_so(team: Team) -> None:
    specs = [
        NewTask(ref="a", subject="a"),
        NewTask(ref="b", subject="b", requires_plan=False),
        NewTask(ref="c", subject="c", requires_plan=True),
    ]
    team.board.create(specs, by="lead", requires_plan_default=True)
    team.board.create(specs, by="lead")
    assert [task.requires_plan for task in team.board.tasks()] == [True, False, True, False, False, True]


def test_the_number_of_a_task_is_never_given_again(team: Team) -> None:
    team.create("a", "b", "c")
    (team.tasks / "bad").mkdir()
    team.path("T3").rename(team.tasks / "bad" / "T3.json")
    team.path("T2").unlink()
    assert team.open().create([NewTask(ref="d", subject="d")], by="lead") == {"d": "T4"}
    (team.root / "changes").unlink()
    (team.tasks / "bad" / "T9.json.2").write_text("x")
    assert team.open().create([NewTask(ref="e", subject="e")], by="lead") == {"e": "T10"}


def test_a_file_that_lies_where_the_next_task_would_go_is_not_overwritten(team: Team) -> None:
    team.create("a")
    other = encode(team.board.get("T1").model_copy(update={"id": "T2", "subject": "by hand"}))
    team.path("T2").write_bytes(other)
    assert team.create("b") == {"b": "T3"}
    assert team.board.get("T2").subject == "by hand"


# -- claiming -------------------------------------------------------------------------------------------------------


def test_a_claim_takes_the_next_ready_task_in_a_new_epoch(team: Team) -> None:
    team.create("low", priority=1)
    team.create("plain")
    team.chain("root", "leaf")
    team.create("high", priority=10)
    order = []
    for owner in ("ada", "bob", "cleo", "dan"):
        task = team.claim(owner)
        assert (task.epoch, task.status, task.claim.owner) == (1, Status.IN_PROGRESS, owner)  # type: ignore[union-attr]
        order.append(task.subject)
    assert order == ["high", "root", "plain", "low"]
    assert team.board.claim(owner="eve", instance="eve#1") is None


def test_a_dependant_is_claimed_only_after_what_blocks_it_is_completed(team: Team) -> None:
    team.chain("a", "b")
    task = team.submitted()
    assert task.id == "T1"
    assert team.board.claim(owner="bob", instance="bob#1") is None
    team.board.complete("T1", 1, merged_commit="m1")
    assert team.claim("bob").id == "T2"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_dependency_that_ended_otherwise_keeps_its_dependants_blocked_and_says_so(team: Team, end: str) -> None:
    team.chain("a", "b")
    if end == "failed":
        for owner in ("ada", "bob", "cleo"):
            team.board.give_up("T1", team.claim(owner).epoch, by=owner, reason="cannot")
    else:
        team.board.want("T1", move="cancel", by="human", reason="no")
    assert team.board.claim(owner="ada", instance="ada#1") is None
    row = team.board.view()[1]
    assert (row.ready, row.open_blockers, row.why) == (False, ("T1",), f"T1 {end}: retry it, or unblock this task")
    team.board.update("T2", by="lead", remove_blocked_by=["T1"])
    assert team.claim().id == "T2"


def test_a_member_holds_at_most_one_task(team: Team) -> None:
    team.create("a", "b")
    task = team.bound()
    with pytest.raises(TaskRefused, match="ada holds T1 \\(in_progress\\)"):
        team.claim()
    team.board.submit(task.id, 1, by="ada", summary="", commit="c")
    with pytest.raises(TaskRefused, match="ada holds T1 \\(submitted\\)"):
        team.open().claim(owner="ada", instance="ada#2")
    assert team.board.held_by("ada").id == "T1"  # type: ignore[union-attr]
    team.board.unbind("T1", 1, by="queue", reason="red base")
    assert team.board.held_by("ada") is None
    assert team.claim().id == "T2"


def test_a_task_with_a_role_is_only_for_that_role(team: Team) -> None:
    team.create("tests", role="tester", priority=10)
    team.create("any")
    assert team.board.claim(owner="ada", instance="ada#1", role="writer").subject == "any"  # type: ignore[union-attr]
    assert team.board.claim(owner="bob", instance="bob#1") is None
    assert team.board.claim(owner="bob", instance="bob#1", role="tester").subject == "tests"  # type: ignore[union-attr]


def test_what_may_not_be_claimed_is_passed_over_and_stays_in_its_place(team: Team) -> None:
    shut = {"R1"}
    board = team.open(may_claim=lambda task: task.split not in shut)
    board.create([NewTask(ref=ref, subject=ref, priority=9) for ref in "abc"], by="lead", split="R1")
    board.create([NewTask(ref="free", subject="free")], by="lead")
    assert team.claim("ada", board).subject == "free"
    assert board.claim(owner="bob", instance="bob#1") is None
    shut.clear()
    assert [team.claim(owner, board).subject for owner in ("bob", "cleo", "dan")] == ["a", "b", "c"]


def test_a_claim_with_a_key_that_claimed_before_answers_that_task(team: Team) -> None:
    team.create("a", "b")
    first = team.claim(made_by="ada#1/3/0")
    assert team.claim(made_by="ada#1/3/0") == first
    assert team.claim(board=team.open(), made_by="ada#1/3/0") == first
    assert team.statuses() == ["T1 in_progress", "T2 pending"]


@pytest.mark.parametrize(
    ("owner", "instance"), [("ada", "bob#1"), ("ada", "ada"), ("../x", "../x#1"), ("queue", "queue#1")]
)
def test_a_claimer_is_a_member_and_the_instance_its_own(team: Team, owner: str, instance: str) -> None:
    team.create("a")
    with pytest.raises(Refused):
        team.board.claim(owner=owner, instance=instance)
    assert team.board.get("T1").status is Status.PENDING


# -- handing in and the queue ---------------------------------------------------------------------------------------


def test_handing_in_the_same_twice_is_once_and_another_commit_is_refused(team: Team) -> None:
    team.create("a")
    task = team.submitted(commit="c1")
    assert team.board.submit("T1", 1, by="ada", summary="did it", commit="c1") == task
    with pytest.raises(IllegalMove, match="T1 is submitted"):
        team.board.submit("T1", 1, by="ada", summary="did it", commit="c2")
    done = team.board.complete("T1", 1, merged_commit="m1")
    assert team.board.submit("T1", 1, by="ada", summary="did it", commit="c1") == done
    assert team.board.complete("T1", 1, merged_commit="m1") == done


def test_work_is_handed_in_as_a_commit_or_as_no_change_and_only_from_a_worktree(team: Team) -> None:
    team.create("a")
    task = team.claim()
    with pytest.raises(IllegalMove, match="no worktree yet"):
        team.board.submit("T1", 1, by="ada", summary="", commit="c")
    team.board.give_up("T1", 1, by="ada", reason="x")
    task = team.bound()
    for commit, no_change in ((None, False), ("c", True)):
        with pytest.raises(TaskRefused, match="expected a commit, or no_change"):
            team.board.submit("T1", task.epoch, by="ada", summary="", commit=commit, no_change=no_change)
    team.board.submit("T1", task.epoch, by="ada", summary="nothing to do", commit=None, no_change=True)
    with pytest.raises(TaskRefused, match="unless no change"):
        team.board.complete("T1", task.epoch, merged_commit="m")
    done = team.board.complete("T1", task.epoch, merged_commit=None)
    assert done.result is not None
    assert done.result.no_change


def test_the_queue_is_in_the_order_of_handing_in(team: Team) -> None:
    team.create("a", "b", "c")
    for owner in ("ada", "bob", "cleo"):
        team.bound(owner)
    for id, owner in (("T3", "cleo"), ("T1", "ada"), ("T2", "bob")):
        team.board.submit(id, 1, by=owner, summary="", commit="c")
    other = team.open()
    for board in (team.board, other):
        assert [task.id for task in board.queue()] == ["T3", "T1", "T2"]
    team.board.give_back("T3", 1, reason="red", base="b1", owner_available=True)
    team.board.submit("T3", 1, by="cleo", summary="", commit="c2")
    assert [task.id for task in other.queue()] == ["T1", "T2", "T3"]


def test_what_completed_keeps_its_evidence_and_its_history(team: Team) -> None:
    team.create("a")
    team.submitted()
    evidence = Evidence(command="make test", exit_code=0, commit="m1", output="o1", seconds=2.5)
    team.board.set_merging("T1", 1, "m1")
    done = team.board.complete("T1", 1, merged_commit="m1", evidence=[evidence])
    assert done.result is not None
    assert (done.result.merged_commit, done.result.evidence) == ("m1", (evidence,))
    assert (done.merging, done.claim, done.assignment) == (None, None, None)
    moves = [change.to for change in done.history]
    assert moves == ["pending", "in_progress", "in_progress", "submitted", "submitted", "completed"]
    assert team.path("T1").exists()


def test_a_returned_task_is_its_owners_again_in_the_same_epoch(team: Team) -> None:
    team.create("a")
    before = team.submitted()
    after = team.board.give_back("T1", 1, reason="conflict in a.py", base="b9", owner_available=True)
    assert (after.status, after.epoch, after.returns, after.claim) == (Status.IN_PROGRESS, 1, 1, before.claim)
    assert after.assignment is not None
    assert (after.assignment.base, after.assignment.branch) == ("b9", "coterie/main/T1/e1")
    assert (after.queued, after.merging) == (None, None)
    assert [change.reason for change in after.history[-2:]] == ["did it", "conflict in a.py"]


def test_a_return_that_does_not_count_is_not_counted(team: Team) -> None:
    team.create("a")
    team.submitted()
    assert team.board.give_back("T1", 1, reason="", base=None, owner_available=True, counted=False).returns == 0


def test_a_return_goes_to_the_board_where_the_owner_is_gone_or_holds_another(team: Team) -> None:
    team.create("a", "b")
    team.submitted()
    team.board.unbind("T1", 1, by="queue", reason="red base")
    assert team.claim().id == "T2"
    after = team.board.give_back("T1", 1, reason="red", base="b1", owner_available=True)
    assert (after.status, after.returns, after.claim) == (Status.PENDING, 1, None)
    assert "commit c1" in after.history[-1].reason
    assert any("coterie/main/T1/e1" in change.reason for change in after.history[-2:])
    assert team.claim("bob").epoch == 2


def test_a_return_to_the_board_names_branch_commit_and_reason_for_the_next_owner(team: Team) -> None:
    team.create("a")
    team.submitted()
    after = team.board.give_back("T1", 1, reason="red", base="b1", owner_available=False)
    assert after.history[-1].reason == "red (branch coterie/main/T1/e1, commit c1)"


def test_the_fourth_return_fails_the_task_where_three_are_allowed(team: Team) -> None:
    team.create("a")
    team.submitted()
    for round in range(1, 4):
        task = team.board.give_back("T1", 1, reason=f"red {round}", base="b", owner_available=True)
        assert (task.status, task.returns) == (Status.IN_PROGRESS, round)
        team.board.submit("T1", 1, by="ada", summary="", commit=f"c{round}")
    task = team.board.give_back("T1", 1, reason="red 4", base="b", owner_available=True)
    assert (task.status, task.returns) == (Status.FAILED, 3)
    assert "branch coterie/main/T1/e1" in task.history[-1].reason
    assert team.board.held_by("ada") is None


# -- giving back, taking away ---------------------------------------------------------------------------------------


def test_attempts_used_up_fail_the_task_and_the_history_tells_why(team: Team) -> None:
    team.create("a")
    for round, status in enumerate((Status.PENDING, Status.PENDING, Status.FAILED), 1):
        task = team.bound()
        task = team.board.give_up("T1", task.epoch, by="ada", reason=f"no idea {round}")
        assert (task.status, task.attempts, task.epoch) == (status, round, round)
    told = [change.reason for change in task.history if "no idea" in change.reason]
    assert told == [f"no idea {n} (branch coterie/main/T1/e{n})" for n in (1, 2, 3)]


def test_a_retry_starts_all_counts_at_0_and_never_an_epoch(team: Team) -> None:
    team.create("a")
    task = team.bound()
    team.board.release("T1", 1, by="runtime", reason="host died")
    for owner in ("ada", "bob", "cleo"):
        task = team.board.give_up("T1", team.claim(owner).epoch, by=owner, reason="no")
    assert (task.status, task.losses, task.attempts) == (Status.FAILED, 1, 3)
    task = team.board.retry("T1", by="human", reason="once more")
    assert (task.status, task.losses, task.attempts, task.returns) == (Status.PENDING, 0, 0, 0)
    assert team.claim().epoch == 5


def test_parking_adds_the_blockers_and_counts_no_attempt(team: Team) -> None:
    team.create("a", "b")
    task = team.bound()
    parked = team.board.park("T1", 1, by="ada", reason="needs b", blocked_by=["T2"])
    assert (parked.status, parked.blocked_by, parked.attempts, parked.losses) == (Status.PENDING, ("T2",), 0, 0)
    assert parked.history[-1].reason == "needs b (branch coterie/main/T1/e1); parked on T2"
    assert team.completed("bob").id == "T2"
    task = team.bound()
    assert (task.id, task.epoch) == ("T1", 2)
    with pytest.raises(TaskRefused, match="at least one"):
        team.board.park("T1", 2, by="ada", reason="", blocked_by=["T2"])
    with pytest.raises(TaskRefused, match="at least one"):
        team.board.park("T1", 2, by="ada", reason="", blocked_by=[])


def test_a_task_in_progress_is_taken_by_writing_it_down_and_moved_by_its_host(team: Team) -> None:
    team.create("a")
    team.bound()
    wanted = team.board.want("T1", move="release", by="human", reason="mine", made_by="k")
    assert wanted.status is Status.IN_PROGRESS
    assert wanted.wanted is not None
    assert team.board.want("T1", move="release", by="human", reason="mine", made_by="k") == wanted
    assert team.board.want("T1", move="release", by="lead", reason="mine too") == wanted, "the first stands"
    assert "release wanted by human: mine" in team.board.view()[0].why
    task = team.board.carry_out("T1", 1, by="runtime", kept="a" * 40)
    assert (task.status, task.losses, task.wanted) == (Status.PENDING, 1, None)
    assert task.history[-1].reason == f"mine (wanted by human) (branch coterie/main/T1/e1, snapshot {'a' * 40})"
    with pytest.raises(NotCurrent, match="nothing is wanted"):
        team.board.carry_out("T1", 1, by="runtime")


def test_a_cancel_goes_further_than_a_release_that_was_wanted(team: Team) -> None:
    team.create("a")
    team.bound()
    team.board.want("T1", move="release", by="lead", reason="")
    team.board.want("T1", move="cancel", by="human", reason="no")
    team.board.want("T1", move="release", by="lead", reason="")
    assert team.board.carry_out("T1", 1, by="runtime").status is Status.CANCELLED
    with pytest.raises(TaskRefused, match="expected release or cancel"):
        team.board.want("T1", move="burn", by="lead", reason="")


def test_what_is_being_merged_cannot_be_taken(team: Team) -> None:
    team.create("a")
    team.submitted()
    team.board.set_merging("T1", 1, "m1")
    for move in ("release", "cancel"):
        with pytest.raises(IllegalMove, match="being merged: use undo"):
            team.board.want("T1", move=move, by="human", reason="")
    with pytest.raises(IllegalMove, match="being merged"):
        team.board.release("T1", 1, by="runtime", reason="")
    team.board.set_merging("T1", 1, None)
    assert team.board.want("T1", move="cancel", by="human", reason="").status is Status.CANCELLED
    with pytest.raises(NotCurrent):
        team.board.set_merging("T1", 1, "m1")


@pytest.mark.parametrize("lost", [True, False])
def test_a_release_counts_as_a_loss_only_where_it_is_one(team: Team, lost: bool) -> None:
    team.create("a")
    team.bound()
    task = team.board.release("T1", 1, by="runtime", reason="stopped", lost=lost)
    assert (task.status, task.losses) == (Status.PENDING, int(lost))


# -- changing -------------------------------------------------------------------------------------------------------


def test_an_update_changes_what_it_names_or_nothing(team: Team) -> None:
    team.create("a", "b", description="old")
    task = team.board.update(
        "T1", by="lead", subject=" new\n", description="d", priority=0, checks=["x"], add_blocked_by=["T2"]
    )
    assert (task.subject, task.description, task.priority, task.checks, task.blocked_by) == (
        "new",
        "d",
        0,
        ("x",),
        ("T2",),
    )
    assert team.board.update("T1", by="lead", description="d") == task
    for fields in ({"priority": 11}, {"subject": ""}, {"checks": [""]}, {"description": "x" * 70000}):
        with pytest.raises(TaskRefused, match=f"T1, {next(iter(fields))}"):
            team.board.update("T1", by="lead", **fields)  # type: ignore[arg-type]
    with pytest.raises(TaskRefused, match="not blocked by T9"):
        team.board.update("T1", by="lead", remove_blocked_by=["T9"])
    assert team.board.get("T1") == task


def test_a_new_priority_or_chain_changes_the_order_at_once(team: Team) -> None:
    team.create("a", "b", "c")
    team.board.update("T3", by="lead", priority=6)
    team.create("d", blocked_by=("T2",))
    assert [team.claim(owner).id for owner in ("ada", "bob", "cleo")] == ["T3", "T2", "T1"]


def test_edges_do_not_change_while_somebody_works_on_it(team: Team) -> None:
    team.create("a", "b")
    team.bound()
    with pytest.raises(IllegalMove, match="T1 is in_progress: it cannot be given other blockers"):
        team.board.update("T1", by="lead", add_blocked_by=["T2"])
    assert team.board.update("T1", by="lead", description="more").description == "more"
    assert team.board.is_current("T1", 1)


def test_the_need_for_a_plan_is_raised_by_anybody_and_lowered_by_few(team: Team) -> None:
    team.create("a")
    board = team.board
    board.update("T1", by="lead", requires_plan=True)
    with pytest.raises(TaskRefused, match="lead may not"):
        board.update("T1", by="lead", requires_plan=False)
    board.update("T1", by="lead", requires_plan=False, may_lower_plan=True)
    team.claim()
    board.update("T1", by="lead", requires_plan=True)
    with pytest.raises(TaskRefused, match="only the human"):
        board.update("T1", by="lead", requires_plan=False, may_lower_plan=True)
    assert not board.update("T1", by="human", requires_plan=False, may_lower_plan=True).requires_plan


# -- once, and between processes ------------------------------------------------------------------------------------


def test_a_repeated_key_changes_nothing_even_where_the_move_is_no_longer_allowed(team: Team) -> None:
    team.create("a")
    task = team.bound()
    after = team.board.give_up("T1", 1, by="ada", reason="x", made_by="ada#1/9/0")
    assert team.board.give_up("T1", 1, by="ada", reason="x", made_by="ada#1/9/0") == after
    assert team.open().give_up("T1", 1, by="ada", reason="x", made_by="ada#1/9/0") == after
    task = team.bound()
    again = team.board.give_up("T1", 1, by="ada", reason="x", made_by="ada#1/9/0")
    assert (again.epoch, again.attempts, again.status) == (task.epoch, 1, Status.IN_PROGRESS)


def test_each_process_acts_on_what_the_other_did_last(team: Team) -> None:
    one, two = team.open(process="p1"), team.open(process="p2")
    one.create([NewTask(ref="a", subject="a")], by="lead")
    two.create([NewTask(ref="b", subject="b", blocked_by=("T1",))], by="lead")
    assert team.claim("ada", two).claim.process == "p2"  # type: ignore[union-attr]
    with pytest.raises(TaskRefused, match="holds T1"):
        one.claim(owner="ada", instance="ada#1")
    assert one.claim(owner="bob", instance="bob#1") is None
    assert one.held_by("ada").id == "T1"  # type: ignore[union-attr]
    one.release("T1", 1, by="runtime", reason="x")
    assert two.held_by("ada") is None
    assert two.claim(owner="bob", instance="bob#1").epoch == 2  # type: ignore[union-attr]
    with pytest.raises(NotCurrent):
        one.submit("T1", 1, by="ada", summary="", commit="c")


def test_who_watches_is_told_what_changed_after_it_is_in_place(team: Team) -> None:
    seen: list[tuple[list[str], list[Status]]] = []
    board = team.open(on_change=lambda ids: seen.append((ids, [board.get(each).status for each in ids])))
    board.create([NewTask(ref=ref, subject=ref) for ref in "ab"], by="lead")
    team.claim("ada", board)
    assert seen == [(["T1", "T2"], [Status.PENDING, Status.PENDING]), (["T1"], [Status.IN_PROGRESS])]


def test_what_changed_is_named_in_changes_before_it_changes_and_confirmed_after(team: Team) -> None:
    team.create("a")
    team.claim()
    lines = (team.root / "changes").read_text().split("\n")
    assert lines == ["T1", "T1 1 0", "T1", "T1 2 1", ""]


@pytest.mark.parametrize("id", ["T9", "../T1", "T1.json", "T" + "1" * 300])
def test_an_id_that_is_not_on_the_board_is_refused_with_words(team: Team, id: str) -> None:
    team.create("a")
    with pytest.raises(UnknownTask):
        team.board.get(id)
    with pytest.raises(UnknownTask):
        team.board.want(id, move="cancel", by="lead", reason="")
    assert not team.board.is_current(id, 1)


# -- looking --------------------------------------------------------------------------------------------------------


def test_looking_takes_no_lock_and_leaves_every_file_as_it_is(team: Team) -> None:
    team.chain("a", "b")
    task = team.submitted()
    (team.tasks / "T7.json").write_text("{")
    fresh = team.open()
    before = {path: path.stat().st_mtime_ns for path in sorted(team.root.rglob("*"))}
    with files.locked(team.root / "lock"):
        for board in (team.board, fresh):
            assert [each.id for each in board.tasks()] == ["T1", "T2"]
            assert len(board.view()) == 2
            assert board.queue() == [task]
            assert board.held_by("ada") == task
            assert board.is_current("T1", 1)
    assert {path: path.stat().st_mtime_ns for path in sorted(team.root.rglob("*"))} == before
    assert any("T7.json" in text for text in team.said)


def test_a_board_that_does_not_exist_yet_is_empty_and_stays_so(team: Team) -> None:
    assert (team.board.tasks(), team.board.queue(), team.board.held_by("ada")) == ([], [], None)
    assert list(team.root.iterdir()) == []


def test_a_board_of_1000_tasks_is_read_in_number_order_and_a_claim_opens_no_more_files_than_on_one_of_10(
    team: Team,
) -> None:
    opened: list[str] = []
    watching = False

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event == "open" and str(team.root) in str(arguments[0]):
            opened.append(str(arguments[0]))

    def opened_by_a_claim(owner: str) -> int:
        nonlocal watching
        opened.clear()
        watching = True
        team.claim(owner)
        watching = False
        return len(opened)

    team.create(*[f"r{each}" for each in range(10)])
    sys.addaudithook(watch)
    few = opened_by_a_claim("ada")
    team.create(*[f"r{each}" for each in range(10, 1000)])
    assert 0 < opened_by_a_claim("bob") <= few
    found = read_tasks(team.tasks)
    assert [task.id for task in found] == [f"T{each}" for each in range(1, 1001)]
    assert sum(row.ready for row in rows(found)) == 998


def test_a_task_handed_out_cannot_be_changed(team: Team) -> None:
    team.create("a")
    task: Task = team.board.get("T1")
    with pytest.raises(ValueError, match="frozen"):
        task.status = Status.COMPLETED  # type: ignore[misc]


def test_an_update_that_asks_for_nothing_is_refused_and_says_what_can_be_changed(team: Team) -> None:
    team.create("a")
    with pytest.raises(TaskRefused, match=r"nothing to change in T1. Expected at least one of .*priority.*checks"):
        team.board.update("T1", by="lead")
    same = team.board.update("T1", by="lead", priority=5)
    assert same.rev == 1, "what is so already is left as it is"


def test_the_history_names_everybody_by_name_and_a_branch_once(team: Team) -> None:
    team.create("a")
    task = team.bound()
    team.board.submit("T1", 1, by="ada#1", summary="s", commit="c1")
    team.board.give_back("T1", 1, reason="red", base="b1", owner_available=True)
    after = team.board.give_up("T1", 1, by="ada", reason="cannot, snapshot abc")
    assert [change.by for change in after.history] == ["lead", "ada", "ada", "ada", "queue", "ada"]
    assert task.assignment is not None
    assert after.history[-1].reason == f"cannot, snapshot abc (branch {task.assignment.branch})"

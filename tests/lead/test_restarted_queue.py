"""The queue after a kill between its steps: what git says was merged is completed, and nothing is merged twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.lead import create_team, open_team
from coterie.lead.checks import Checks
from coterie.lead.integration import Queue
from coterie.taskboard import Assignment, Evidence, NewTask, Status
from coterie.teammates.commands import Commands
from coterie.teammates.model import ScriptedModel, reply
from coterie.teammates.sandbox import NoSandbox
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Runtime


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """A queue that is not running, with T1 of ada handed in."""
    from tests.acceptance.conftest import git

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "trunk")
    git(repo, "-c", "user.name=S", "-c", "user.email=s@example.org", "commit", "-q", "--allow-empty", "-m", "start")
    settings = TeamSettings()
    team = open_team(create_team(repo, goal="g", name=None, settings=settings))
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ada"):
        team.roster.spawn(name, model="m")
    team.board.create([NewTask(ref="a", subject="A", checks=("test -f a.txt",))], by="lead")
    task = team.board.claim(owner="ada", instance="ada#1")
    assert task is not None
    base = team.keeper.tip()
    opened = team.keeper.open("ada", task="T1", epoch=1, base=base)
    team.board.bind("T1", 1, Assignment(worktree=str(opened.path), branch=opened.branch, base=base))
    (opened.path / "a.txt").write_text("a\n")
    commit = team.keeper.commit("ada", task="T1", epoch=1, base=base, message="m", author="ada")
    team.board.submit("T1", 1, by="ada", summary="s", commit=commit)
    with Commands(team.root / "output", sandbox=NoSandbox()) as commands:
        runtime = Runtime(team=team, settings=settings, model=ScriptedModel(reply), commands=commands)
        yield Queue(runtime, Checks(runtime))


def moved(queue: Queue) -> str:
    """Merge T1 with the queue's own steps, up to a kill before its completion; answers the commit."""
    team = queue.team
    task, tip = team.board.get("T1"), team.keeper.tip()
    assert task.result is not None and task.result.commit is not None
    merge = team.merger.plan_merge(task.result.commit, tip)
    commit = queue.commit(task, merge, task.result.commit, task.result.summary, tip)
    team.board.set_merging("T1", 1, commit, evidence=[Evidence(command="make", exit_code=0, commit=commit)])
    team.merger.advance(tip, commit)
    return commit


def test_a_merge_whose_task_was_not_completed_yet_is_completed_and_not_made_again(queue: Queue) -> None:
    before = queue.team.keeper.tip()
    commit = moved(queue)
    task = queue.team.board.get("T1")
    assert commit != before and (task.status, task.merging) == (Status.SUBMITTED, commit)
    Queue(queue.runtime, queue.checks).step()
    after = queue.team.board.get("T1")
    assert (after.status, after.result and after.result.merged_commit) == (Status.COMPLETED, commit)
    assert after.result is not None and [each.command for each in after.result.evidence] == ["make"], "it was tested"
    assert queue.team.keeper.tip() == commit


def test_a_mark_of_merging_without_a_merge_is_cleared_and_the_entry_goes_on(queue: Queue) -> None:
    queue.team.board.set_merging("T1", 1, "0" * 40)
    Queue(queue.runtime, queue.checks).step()
    after = queue.team.board.get("T1")
    assert after.status is Status.COMPLETED and after.merging is None
    assert after.result is not None and after.result.merged_commit == queue.team.keeper.tip()


def test_an_entry_that_is_wanted_back_is_moved_at_once_and_never_merged(queue: Queue) -> None:
    before = queue.team.keeper.tip()
    queue.team.board.want("T1", move="cancel", by="human", reason="no")
    assert queue.step() is False
    assert queue.team.keeper.tip() == before and queue.team.board.get("T1").status is Status.CANCELLED

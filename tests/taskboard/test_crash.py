"""What a death leaves on the board: whoever comes next goes on. Every single write is killed in tests/crash."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from coterie import files
from coterie.taskboard import NewTask, Status
from coterie.taskboard.intents import Intents

if TYPE_CHECKING:
    from conftest import Team


def half_written(team: Team, written: int) -> None:
    """A batch of three whose process died after `written` of its files."""
    team.create("first")
    team.chain("a", "b", "c")
    batch = team.board.tasks()[1:]
    for task in batch[written:]:
        team.path(task.id).unlink()
    Intents(team.root / "intents").write(batch, "lead#1/2/0")


@pytest.mark.parametrize("written", [0, 1, 3])
def test_a_half_written_batch_is_made_whole_before_the_next_mutation(team: Team, written: int) -> None:
    half_written(team, written)
    board = team.open()
    assert len(board.tasks()) == 1 + written, "looking finishes nothing"
    assert team.claim(board=board).id == "T2"
    assert [task.id for task in board.tasks()] == ["T1", "T2", "T3", "T4"]
    assert list((team.root / "intents").iterdir()) == []
    assert board.create([NewTask(ref="d", subject="d")], by="lead") == {"d": "T5"}


def test_a_batch_that_was_finished_and_went_on_is_not_written_over(team: Team) -> None:
    half_written(team, 3)
    team.path("T2").write_bytes(team.path("T2").read_bytes().replace(b'"subject": "a"', b'"subject": "later"'))
    board = team.open()
    team.claim(board=board)
    assert board.get("T2").subject == "later"


def test_an_intent_that_cannot_be_read_is_set_aside_and_others_are_left_alone(team: Team) -> None:
    team.create("a")
    (team.root / "intents").mkdir(exist_ok=True)
    (team.root / "intents" / "board-T7.json").write_text("{")
    (team.root / "intents" / "worktree-ada.json").write_text("{}")
    assert team.claim().id == "T1"
    assert sorted(path.name for path in (team.root / "intents").iterdir()) == ["bad", "worktree-ada.json"]
    assert any("board-T7.json" in text for text in team.said)


def test_a_write_that_fails_leaves_the_board_as_it_was_and_the_next_try_succeeds(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.create("a")
    before = team.path("T1").read_bytes()
    with monkeypatch.context() as full:

        def replace(source: object, target: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(os, "replace", replace)
        with pytest.raises(OSError, match="No space"):
            team.claim()
    assert team.path("T1").read_bytes() == before
    task = team.claim()
    assert (task.epoch, task.status) == (1, Status.IN_PROGRESS)


def test_temp_files_of_dead_processes_are_no_tasks(team: Team) -> None:
    team.create("a")
    (team.tasks / ".T1.json.abc-1.tmp").write_bytes(b"{")
    (team.tasks / "notes.txt").write_text("x")
    (team.tasks / "T01.json").write_text("{}")
    assert [task.id for task in team.open().tasks()] == ["T1"]
    assert team.claim(board=team.open()).id == "T1"
    assert files.read_json(team.path("T1"))["epoch"] == 1

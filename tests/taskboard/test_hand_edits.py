"""What people, editors and disks do to the files of a board."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie import files
from coterie.errors import DamagedError, NewerSchema
from coterie.taskboard import Status, UnknownTask
from coterie.taskboard.reading import list_ids
from coterie.taskboard.trail import Trail

if TYPE_CHECKING:
    from conftest import Team
    from coterie.taskboard import Board


def edit(path: Path, **fields: Any) -> None:
    """As an editor does that saves in place."""
    path.write_bytes(files.encode({**json.loads(path.read_bytes()), **fields}))


def a_symlink(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, 100),
    "nul": lambda path: path.write_bytes(b"\0" * 700),
    "not utf-8": lambda path: path.write_bytes(path.read_bytes().replace(b"victim", b"\xff\xfe")),
    "twice the same key": lambda path: path.write_bytes(path.read_bytes().replace(b"{", b'{"rev": 1,', 1)),
    "nan": lambda path: path.write_bytes(path.read_bytes().replace(b'"priority": 10', b'"priority": NaN')),
    "wrong type": lambda path: edit(path, priority="high"),
    "another id": lambda path: edit(path, id="T7"),
    "a list": lambda path: path.write_bytes(b"[]"),
    "too large": lambda path: edit(path, description="x" * (1 << 20)),
    "symlink": a_symlink,
    "fifo": a_fifo,
}


def forget_copies(team: Team) -> None:
    """As after a power loss: what was not forced to the disk is gone."""
    for path in (team.root / "last").iterdir():
        path.unlink()


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_set_aside_and_its_last_content_restored_by_a_process_that_never_saw_it(
    team: Team, kind: str
) -> None:
    team.create("victim", priority=10)
    team.create("child", blocked_by=("T1",))
    before = team.path("T1").read_bytes()
    DAMAGE[kind](team.path("T1"))
    board = team.open()
    assert [task.id for task in board.tasks()] == ["T2"]
    assert board.create([], by="lead") == {}
    assert team.path("T1").read_bytes() == before
    assert [path.name for path in (team.tasks / "bad").iterdir()] == ["T1.json"]
    assert any(text.startswith("T1 could not be read (") and "last content restored" in text for text in team.said)
    assert team.claim("ada", board).id == "T1"


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_set_aside_and_said_and_the_rest_goes_on(team: Team, kind: str) -> None:
    team.create("victim", priority=10)
    team.create("other")
    team.create("child", blocked_by=("T1",))
    forget_copies(team)
    DAMAGE[kind](team.path("T1"))
    board = team.open()
    assert [task.id for task in board.tasks()] == ["T2", "T3"]
    assert team.path("T1").exists(), "looking moves nothing"
    assert team.claim("ada", board).id == "T2"
    assert not team.path("T1").exists()
    assert [path.name for path in (team.tasks / "bad").iterdir()] == ["T1.json"]
    assert any(text.startswith("T1 could not be read (") and "bad/T1.json" in text for text in team.said)
    assert board.claim(owner="bob", instance="bob#1") is None
    assert "T1 is not on the board" in board.view()[1].why
    with pytest.raises(UnknownTask, match="T1 could not be read and was set aside"):
        board.want("T1", move="cancel", by="human", reason="")


def test_a_running_process_restores_what_it_has_seen_of_a_damaged_file(team: Team) -> None:
    team.create("a")
    task = team.bound()
    team.path("T1").write_bytes(b"{")
    assert team.board.submit("T1", 1, by="ada", summary="", commit="c").rev == task.rev + 1
    assert (team.tasks / "bad" / "T1.json").read_bytes() == b"{"
    assert any("the last content restored" in text for text in team.said)


def test_a_file_that_an_editor_is_writing_is_waited_for_and_taken_over(team: Team) -> None:
    team.create("a")
    whole = team.path("T1").read_bytes().replace(b'"subject": "a"', b'"subject": "edited"')
    team.path("T1").write_bytes(b"")
    editor = threading.Timer(0.3, lambda: team.path("T1").write_bytes(whole))
    editor.start()
    assert team.claim(board=team.open(settle=20.0)).subject == "edited"
    editor.join()
    assert not (team.tasks / "bad").exists()


def test_a_damaged_file_is_an_error_to_who_asks_for_it(team: Team) -> None:
    team.create("a")
    team.path("T1").write_bytes(b"{}")
    with pytest.raises(DamagedError, match="schema"):
        team.board.get("T1")


def test_a_hand_edit_is_taken_over_as_a_revision_of_its_own(team: Team) -> None:
    team.create("a", "b")
    edit(team.path("T2"), priority=10, subject="urgent", note_to_self="kept")
    task = team.board.update("T2", by="lead", description="more")
    assert (task.subject, task.priority, task.description, task.rev) == ("urgent", 10, "more", 3)
    assert [change.reason for change in task.history] == ["created", "edited by hand", "changed description"]
    assert json.loads(team.path("T2").read_bytes())["note_to_self"] == "kept"
    assert team.said == ["T2 was edited by hand: taken over"]
    assert team.claim().id == "T2"


def test_a_hand_edit_that_somebody_looked_at_counts_in_the_next_claim(team: Team) -> None:
    team.create("a", "b")
    edit(team.path("T2"), priority=10)
    team.board.tasks()
    assert team.claim().id == "T2"


def test_a_task_that_a_hand_edit_makes_ready_is_found(team: Team) -> None:
    team.chain("a", "b")
    team.claim("bob")
    edit(team.path("T2"), blocked_by=[])
    assert team.claim().id == "T2"


def test_a_file_written_by_hand_is_a_task(team: Team) -> None:
    team.create("a")
    team.claim("bob")
    files.write_json(
        team.path("T5"), {"schema": 1, "id": "T5", "subject": "by hand", "status": "pending", "epoch": 0, "rev": 1}
    )
    assert team.claim().subject == "by hand"
    assert team.create("next") == {"next": "T6"}


def test_a_hand_edit_that_undoes_a_blocker_blocks_who_was_ready(team: Team) -> None:
    team.chain("a", "b")
    team.completed()
    edit(team.path("T1"), status="failed")
    assert team.board.claim(owner="bob", instance="bob#1") is None
    assert team.board.get("T2").status is Status.PENDING


def test_a_status_that_was_edited_takes_the_claim_with_it(team: Team) -> None:
    team.create("a")
    team.bound()
    edit(team.path("T1"), status="cancelled")
    task = team.board.retry("T1", by="human", reason="")
    assert (task.status, task.claim, task.assignment) == (Status.PENDING, None, None)
    assert team.claim("bob").epoch == 2


def test_an_edit_from_an_older_revision_is_set_aside_and_the_last_content_restored(team: Team) -> None:
    team.create("a")
    old = team.path("T1").read_bytes()
    task = team.bound()
    mine = old.replace(b'"subject": "a"', b'"subject": "mine"')
    team.path("T1").write_bytes(mine)
    after = team.board.submit("T1", 1, by="ada", summary="", commit="c")
    assert (after.subject, after.rev) == ("a", task.rev + 1)
    assert (team.tasks / "bad" / "T1.json").read_bytes() == mine
    assert any("T1 was put back to revision 1" in text and "bad/T1.json" in text for text in team.said)


def test_an_edit_that_lowers_the_epoch_is_set_aside(team: Team) -> None:
    team.create("a")
    team.bound()
    edit(team.path("T1"), epoch=0, status="pending", claim=None)
    assert team.board.claim(owner="bob", instance="bob#1") is None
    assert team.board.held_by("ada") is not None
    assert (team.tasks / "bad" / "T1.json").exists()


def test_what_only_another_process_has_seen_is_restored_and_no_epoch_used_twice(team: Team) -> None:
    other = team.open(process="p2")
    team.create("a")
    other.tasks()
    team.claim(board=other)  # p2 is in step
    other.release("T1", 1, by="runtime", reason="")
    old = team.path("T1").read_bytes()
    claimed = team.claim("ada")  # p1 alone has seen this
    team.path("T1").write_bytes(old)
    assert other.claim(owner="bob", instance="bob#1") is None
    assert team.board.get("T1") == claimed
    assert team.board.is_current("T1", 2)


def test_a_stale_memory_is_not_what_a_damaged_file_is_restored_from(team: Team) -> None:
    other = team.open(process="p2")
    team.create("a")
    other.create([], by="lead")  # p2 has seen revision 1
    task = team.bound()
    team.path("T1").write_bytes(b"")
    other.create([], by="lead")
    assert team.board.get("T1") == task


def test_a_fresh_process_restores_what_stood_before_an_older_file_was_put_there(team: Team) -> None:
    team.create("a", "b")
    old = team.path("T1").read_bytes()
    done = team.completed()
    team.path("T1").write_bytes(old)
    fresh = team.open()
    assert fresh.get("T1").status is Status.PENDING, "looking moves nothing"
    assert team.claim("bob", fresh).id == "T2", "what is done is not done again"
    assert team.board.get("T1") == done
    assert (team.tasks / "bad" / "T1.json").read_bytes() == old
    assert any("T1 was put back to revision 1" in text and "last content restored" in text for text in team.said)


def test_an_older_file_is_not_taken_over_where_nobody_has_what_stood_there(team: Team) -> None:
    team.chain("a", "b")
    old = team.path("T1").read_bytes()
    done = team.completed()
    team.path("T1").write_bytes(old)
    forget_copies(team)
    fresh = team.open()
    assert fresh.claim(owner="bob", instance="bob#1") is None
    assert "T1 is not on the board" in fresh.view()[0].why
    assert (team.tasks / "bad" / "T1.json").read_bytes() == old
    (told,) = [text for text in team.said if text.startswith("T1 was put back")]
    assert f'"rev": {done.rev + 1} and "epoch": 1' in told
    edit(team.tasks / "bad" / "T1.json", rev=done.rev + 1, epoch=1)  # what the person was told to do
    (team.tasks / "bad" / "T1.json").rename(team.path("T1"))
    assert team.claim("bob", fresh).epoch == 2


def test_an_old_copy_is_not_what_is_restored(team: Team) -> None:
    team.create("a")
    old = team.path("T1").read_bytes()
    copy = team.root / "last" / "T1"
    before_claim = copy.read_bytes()
    team.bound()
    copy.write_bytes(before_claim)  # as after a power loss
    team.path("T1").write_bytes(old.replace(b'"subject": "a"', b'"subject": "mine"'))
    fresh = team.open()
    assert fresh.claim(owner="bob", instance="bob#1") is None
    assert not team.path("T1").exists()


@pytest.mark.parametrize("whoever", ["a fresh process", "a running process"])
def test_what_a_process_wrote_and_died_before_it_said_so_can_be_restored(team: Team, whoever: str) -> None:
    team.create("a")
    running = team.open(process="p2")
    running.create([], by="lead")
    paths = (team.path("T1"), team.root / "last" / "T1", team.root / "changes")
    old, copy, changes = (path.read_bytes() for path in paths)
    task = team.claim()
    paths[1].write_bytes(copy)
    paths[2].write_bytes(changes + b"T1\n")
    (team.open() if whoever == "a fresh process" else running).create([], by="lead")  # the first to see it says so
    team.path("T1").write_bytes(old)
    team.open().create([], by="lead")
    assert team.board.get("T1") == task


def test_a_file_that_was_removed_blocks_who_waits_for_it(team: Team) -> None:
    team.chain("a", "b")
    team.completed()
    team.path("T1").unlink()
    assert team.board.claim(owner="bob", instance="bob#1") is None
    assert "T1 is not on the board" in team.board.view()[0].why
    assert any("the file of T1 is gone" in text for text in team.said)
    with pytest.raises(UnknownTask, match="no task T1"):
        team.board.retry("T1", by="human", reason="")


def test_an_unknown_blocker_and_a_circle_found_on_load_block_and_are_said(team: Team) -> None:
    team.create("a", "b", "c")
    edit(team.path("T1"), blocked_by=["T2"])
    edit(team.path("T2"), blocked_by=["T1"])
    edit(team.path("T3"), blocked_by=["T77"])
    board = team.open()
    assert board.claim(owner="ada", instance="ada#1") is None
    assert "T3 is blocked by T77, which is not on the board" in team.said
    assert any("wait for one another" in text and "T1 -> T2 -> T1" in text for text in team.said)
    board.update("T2", by="lead", remove_blocked_by=["T1"])
    assert team.claim(board=board).id == "T2"


@pytest.mark.parametrize("more", [{}, {"status": "dreaming", "priority": "none"}])
def test_a_newer_record_makes_the_board_read_only_and_stays_where_it_is(team: Team, more: dict[str, Any]) -> None:
    team.create("a", "b")
    edit(team.path("T1"), schema=2, **more)
    for board in (team.open(), team.board):
        board.tasks()
        with pytest.raises(NewerSchema, match=r"T1.json was written by a newer Coterie .* Upgrade"):
            board.claim(owner="ada", instance="ada#1")
        with pytest.raises(NewerSchema):
            board.create([], by="lead")
        assert "T2" in [task.id for task in board.tasks()]
    assert json.loads(team.path("T1").read_bytes())["schema"] == 2
    assert NewerSchema.exit_code == 2
    edit(team.path("T1"), schema=1, status="pending", priority=5)
    assert team.claim().id == "T1"


CHANGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "shorter": lambda path: os.truncate(path, 3),
    "another": lambda path: files.write_bytes(path, path.read_bytes().replace(b"T1", b"T2")),
    "same size, other content": lambda path: path.write_bytes(path.read_bytes().replace(b"T1", b"T2")),
    "no line": lambda path: path.open("ab").write(b"garbage\n"),
    "unknown id": lambda path: path.open("ab").write(b"T99\n"),
    "not utf-8": lambda path: path.open("ab").write(b"\xff\xff 1 1\n"),
    "half a line": lambda path: path.open("ab").write(b"T"),
    "huge number": lambda path: path.open("ab").write(b"T1 " + b"9" * 5000 + b" 1\n"),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_whatever_happens_to_changes_every_board_stays_right(team: Team, kind: str) -> None:
    other = team.open(process="p2")
    team.create("a", "b", "c")
    team.claim("ada", other)
    team.board.release("T1", 1, by="runtime", reason="x")
    CHANGES[kind](team.root / "changes")
    assert team.claim("ada", other).epoch == 2
    assert team.claim("bob").id == "T2"
    assert team.claim("cleo", other).id == "T3"
    assert team.open().queue() == []
    assert [task.status for task in other.tasks()] == [Status.IN_PROGRESS] * 3


def test_a_look_at_changes_leaves_its_place_where_it_was(tmp_path: Path) -> None:
    writer, reader = Trail(tmp_path / "changes"), Trail(tmp_path / "changes")
    writer.announce(["T1", "T2"])
    for lines in (reader.peek(), reader.peek(), reader.read()):
        assert lines is not None
        assert list(lines.ids) == ["T1", "T2"]
    reader.caught_up()
    writer.confirm([("T2", 4, 1)])
    lines = reader.read()
    assert lines is not None
    assert (list(lines.ids), lines.placed, lines.damaged) == (["T2"], {"T2": (4, 1)}, False)


def swept(board: Board, until: Callable[[], bool]) -> None:
    """Sweep as a host's poll does, until it has had its effect."""
    end = time.monotonic() + 20
    while not until():
        assert time.monotonic() < end, "the sweep does not find it"
        board.sweep()


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_sweep_finds_a_damaged_file_while_nobody_mutates(team: Team, kind: str) -> None:
    team.create("victim", "other", priority=10)
    before = team.path("T1").read_bytes()
    for _ in range(3):
        team.board.sweep()
    assert team.said == []
    DAMAGE[kind](team.path("T1"))
    bad = team.tasks / "bad" / "T1.json"
    swept(team.board, lambda: bad.exists() or bad.is_symlink())
    assert team.path("T1").read_bytes() == before
    (told,) = team.said
    assert told.startswith("T1 could not be read (") and told.endswith("the last content restored")


def test_a_sweep_waits_for_an_editor_that_truncates_first_and_takes_over_what_it_writes(team: Team) -> None:
    team.create("a")
    whole = team.path("T1").read_bytes().replace(b'"subject": "a"', b'"subject": "b"')
    board = team.open(settle=3600.0)
    board.sweep()
    team.path("T1").write_bytes(b"")
    board.sweep()
    board.sweep()
    assert team.path("T1").read_bytes() == b""
    team.path("T1").write_bytes(whole)
    board.sweep()
    assert (board.get("T1").subject, board.get("T1").rev) == ("b", 2)
    assert team.said == ["T1 was edited by hand: taken over"]
    assert not (team.tasks / "bad").exists()


def test_a_sweep_restores_what_went_back_and_says_what_is_gone_and_what_is_new(team: Team) -> None:
    team.chain("a", "b")
    old = team.path("T1").read_bytes()
    done = team.completed()
    team.board.sweep()
    team.path("T1").write_bytes(old)
    team.board.sweep()
    assert team.board.get("T1") == done
    team.path("T2").unlink()
    files.write_json(
        team.path("T5"), {"schema": 1, "id": "T5", "subject": "by hand", "status": "pending", "epoch": 0, "rev": 1}
    )
    team.board.sweep()
    assert ["was put back" in text or "of T2 is gone" in text for text in team.said] == [True, True]
    assert team.claim().id == "T5"


def test_a_sweep_of_a_quiet_board_reads_no_file_again(team: Team) -> None:
    team.create("a", "b")
    for _ in range(3):
        team.board.sweep()
    opened: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and str(team.root) in str(arguments[0]):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    team.board.sweep()
    watching = False
    assert [path for path in opened if path.endswith((".json", "lock"))] == []


def test_a_sweep_says_nothing_of_what_another_process_did_by_the_board(team: Team) -> None:
    team.create("a", "b")
    team.board.sweep()
    other = team.open(process="p2")
    team.claim("ada", other)
    for _ in range(3):
        team.board.sweep()
    assert team.said == []
    assert team.claim("bob").id == "T2"


def test_a_task_that_a_listing_leaves_out_is_looked_for(tmp_path: Path) -> None:
    for name in ("T1", "T2", "T4", "T7", "T8", "notes"):
        (tmp_path / f"{name}.json").touch()
    listed = list_ids(tmp_path)
    assert {f"T{n}" for n in range(1, 9)} == set(listed) and len(listed) == 8
    (tmp_path / "T900000000.json").touch()
    assert set(list_ids(tmp_path)) == {"T1", "T2", "T4", "T7", "T8", "T900000000"}
    assert list_ids(tmp_path / "nowhere") == []

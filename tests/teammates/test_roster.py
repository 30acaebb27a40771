"""Members and their lives: the record, and what is done about one that was spoiled."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from coterie import files
from coterie.errors import NewerSchema, Refused
from coterie.teammates.roster import Roster, Status, Tokens, UnknownMember, parse_member

GOLDEN: dict[str, Any] = {
    "schema": 1,
    "name": "ada",
    "instance": "ada#2",
    "role": None,
    "model": "m",
    "prompt": "",
    "status": "waiting",
    "reason": "plan R1 waits for human",
    "since": "2026-01-01T00:00:00.000Z",
    "task": "T1",
    "epoch": 1,
    "worktree": "/w/ada",
    "todo": [{"text": "look", "status": "pending"}],
    "turn": 3,
    "tokens": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4},
    "usd": None,
    "process": "p",
    "joined": False,
    "made_by": "lead#1/1/0",
}
PATH = Path("members/ada/member.json")


def test_a_record_comes_back_from_what_is_stored_and_keeps_fields_it_does_not_know() -> None:
    record = parse_member({**GOLDEN, "colour": "red"}, PATH)
    assert (record.status, record.life, record.tokens.total) == (Status.WAITING, 2, 10)
    assert record.encode() == {**GOLDEN, "colour": "red"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"status": "dancing"}, "status"),
        ({"instance": "ben#1"}, "instance"),
        ({"instance": "ada#0"}, "instance"),
        ({"instance": "ada"}, "instance"),
        ({"turn": "many"}, "turn"),
        ({"name": "ben", "instance": "ben#1"}, "instance"),
    ],
)
def test_a_record_that_is_wrong_is_refused_with_the_path_to_the_field(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(files.Unreadable, match=rf"members/ada/member\.json: field {field}"):
        parse_member({**GOLDEN, **wrong}, PATH)


def test_a_record_of_a_newer_schema_is_left_alone() -> None:
    with pytest.raises(NewerSchema, match="upgrade"):
        parse_member({**GOLDEN, "schema": 2}, PATH)


def test_a_name_that_lives_is_not_spawned_and_one_that_stopped_gets_its_next_life(tmp_path: Path) -> None:
    roster = Roster(tmp_path)
    first = roster.spawn("ada", model="m", made_by="lead#1/1/0")
    assert roster.spawn("ada", model="m", made_by="lead#1/1/0") == first, "the same call again is the same life"
    with pytest.raises(Refused, match="ada#1"):
        roster.spawn("ada", model="m", made_by="lead#1/2/0")
    with pytest.raises(Refused, match="at most 1"):
        roster.spawn("ben", model="m", most=1)
    roster.update("ada", "ada#1", status=Status.STOPPED)
    second = roster.spawn("ada", model="m", most=1)
    assert (second.instance, second.turn, second.tokens) == ("ada#2", 0, Tokens())
    with pytest.raises(Refused, match="ada#1 is over"):
        roster.update("ada", "ada#1", status=Status.WORKING)
    for name in ("human", "queue", "Ada", "../x", "a" * 33, "", "a\nb"):
        with pytest.raises(Refused):
            roster.spawn(name, model="m")
    with pytest.raises(UnknownMember, match="ada"):
        roster.get("../ada")


@pytest.mark.parametrize(
    "content", [b"", b'{"schema": 1, "name": ', b"[]", b'{"schema": 1, "name": "ada"}', b"\0" * 64]
)
def test_a_record_that_was_spoiled_is_set_aside_and_the_last_one_restored(tmp_path: Path, content: bytes) -> None:
    said: list[str] = []
    roster = Roster(tmp_path, report=said.append, settle=0.1)
    roster.spawn("ada", model="m")
    roster.spawn("ben", model="m")
    path = roster.folder("ada") / "member.json"
    path.write_bytes(content)
    assert [each.name for each in Roster(tmp_path).all()] == ["ben"], "the others go on"
    assert [each.name for each in roster.all()] == ["ada", "ben"], "who knows it goes on with what it knows"
    assert roster.instance_of("ada") == "ada#1", "and nobody is taken for dead"
    after = roster.update("ada", "ada#1", status=Status.IDLE)
    assert (after.instance, after.model, after.status) == ("ada#1", "m", Status.IDLE)
    assert json.loads(path.read_text())["status"] == "idle"
    assert [each.read_bytes() for each in (path.parent / "bad").iterdir()] == [content]
    assert len(said) == 1 and "bad" in said[0]


@pytest.mark.parametrize("gone", [False, True])
def test_a_spoiled_record_is_put_back_though_nobody_changes_it(tmp_path: Path, gone: bool) -> None:
    said: list[str] = []
    roster = Roster(tmp_path, report=said.append, settle=0.1)
    path = roster.folder("ada") / "member.json"
    roster.spawn("ada", model="m")
    elsewhere = roster.spawn("cleo", model="m", joined="p2")
    theirs = roster.folder("cleo") / "member.json"
    before = path.read_bytes()
    for each in (path, theirs):
        each.unlink() if gone else each.write_bytes(b"{")
    roster.sweep("p1")
    assert gone or path.read_bytes() == b"{", "an editor has its time"
    end = time.monotonic() + 20
    while not path.exists() or path.read_bytes() != before:
        assert time.monotonic() < end
        roster.sweep("p1")
    assert len(said) == 1 and str(path) in said[0] and "the last record is put back" in said[0]
    assert gone or (path.parent / "bad" / "member.json").read_bytes() == b"{"
    assert not theirs.exists() if gone else theirs.read_bytes() == b"{", "its own host knows it better"
    roster.sweep("p2")
    assert roster.get("cleo") == Roster(tmp_path).get("cleo") == elsewhere


@pytest.mark.parametrize("gone", [False, True])
def test_an_older_life_is_not_put_back_over_one_that_another_process_has_begun(tmp_path: Path, gone: bool) -> None:
    roster, elsewhere = Roster(tmp_path, settle=0.0), Roster(tmp_path, settle=0.0)
    roster.spawn("ada", model="m")
    roster.update("ada", "ada#1", status=Status.STOPPED)
    second = elsewhere.spawn("ada", model="m", joined="p2")
    path = roster.folder("ada") / "member.json"
    path.unlink() if gone else path.write_bytes(b"{")
    for _ in range(2):
        roster.sweep("p1")
    assert not path.exists() if gone else path.read_bytes() == b"{", "whose life it is knows it better"
    with pytest.raises(Refused, match="which life is next is not known"):
        roster.spawn("ada", model="m")
    elsewhere.sweep("p2")
    assert roster.get("ada") == Roster(tmp_path).get("ada") == second


def test_an_edit_that_is_being_written_is_waited_for_before_a_change(tmp_path: Path) -> None:
    roster = Roster(tmp_path, settle=20.0)
    roster.spawn("ada", model="m")
    path = roster.folder("ada") / "member.json"
    edited = path.read_bytes().replace(b'"role": null', b'"role": "tester"')
    path.write_bytes(b"")
    editor = threading.Timer(0.2, path.write_bytes, (edited,))
    editor.start()
    assert roster.update("ada", "ada#1", status=Status.IDLE).role == "tester"
    editor.join()
    assert not (path.parent / "bad").exists()


def test_a_spoiled_record_of_which_nothing_is_known_is_not_replaced(tmp_path: Path) -> None:
    Roster(tmp_path).spawn("ada", model="m")
    path = tmp_path / "members/ada/member.json"
    path.write_bytes(b"{")
    with pytest.raises(files.Unreadable):
        Roster(tmp_path).update("ada", "ada#1", status=Status.IDLE)
    assert path.read_bytes() == b"{"


def test_a_name_begins_no_next_life_before_what_its_last_process_left_is_put_away(tmp_path: Path) -> None:
    roster = Roster(tmp_path)
    first = roster.spawn("ada", model="m", joined="p1")
    kept = files.hold(files.make_folder(tmp_path / "processes") / "p1.lock", {})
    roster.update("ada", first.instance, status=Status.STOPPED)
    for joined in (None, "p2"):
        with pytest.raises(Refused, match="still being put away"):
            roster.spawn("ada", model="m", joined=joined)
    kept.release()
    with pytest.raises(Refused, match="still being put away"):  # dead, and the lead's host is at its worktree
        roster.spawn("ada", model="m")
    assert files.drop_lock(kept.path)
    again = roster.spawn("ada", model="m")
    assert (again.instance, again.joined, again.process) == ("ada#2", False, None)

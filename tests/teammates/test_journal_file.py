"""The journal: whole lines, a torn last one, damage, and the messages that follow from the records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from coterie.teammates.journal import (
    Answered,
    DamagedJournal,
    Delivered,
    Finished,
    Journal,
    Opened,
    Told,
    decode_line,
    encode_line,
    messages,
    read_journal,
)

GOLDEN = (
    b'{"seq": 3, "at": "2026-01-01T00:00:00.000Z", "instance": "ada#1", "kind": "told", "reason": "go on", '
    b'"text": "\xc3\xa9 \\n", "len": 117, "crc": "b0c1372a"}\n'
)


def told(text: str) -> Told:
    return Told(instance="ada#1", reason="go on", text=text)


def test_a_record_is_one_line_and_comes_back_from_it() -> None:
    record = Told(seq=3, at="2026-01-01T00:00:00.000Z", instance="ada#1", reason="go on", text="é \n")
    line = encode_line(record)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert line == GOLDEN
    assert decode_line(line) == record
    for wrong in (line[:-2], line.replace(b"go on", b"go On"), line.replace(b'"seq": 3', b'"seq": 4'), b"{}\n", b"\n"):
        assert decode_line(wrong) is None


def test_a_torn_last_record_is_cut_off_and_said_and_the_next_follows(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append(told("one"))
    journal.append(told("two"))
    path.write_bytes(path.read_bytes()[:-7])
    again = Journal(path)
    assert again.torn > 0 and [record.seq for record in again.records] == [1]
    again.append(told("three"))
    assert [record.seq for record in read_journal(path)[0]] == [1, 2]


@pytest.mark.parametrize("way", ["cut", "empty", "longer", "changed", "gone", "symlink", "FIFO", "folder"])
def test_what_is_done_to_a_journal_while_its_member_lives_is_put_back(tmp_path: Path, way: str) -> None:
    path, said = tmp_path / "journal.jsonl", []
    journal = Journal(path, report=said.append)
    for text in ("one", "two"):
        journal.append(told(text))
    before = path.read_bytes()
    spoiled = {"cut": before[:-20], "empty": b"", "longer": before + b"{}\n", "changed": b"\0" * len(before)}
    path.unlink()
    match way:
        case "symlink":
            (tmp_path / "elsewhere").write_bytes(before)
            path.symlink_to(tmp_path / "elsewhere")
        case "FIFO":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "gone":
            pass
        case _:
            path.write_bytes(spoiled[way])
    journal.append(told("three"))
    assert [record.text for record in read_journal(path)[0] if isinstance(record, Told)] == ["one", "two", "three"]
    assert path.read_bytes().startswith(before) and not path.is_symlink()
    assert os.path.lexists(tmp_path / "bad" / "journal.jsonl") == (way != "gone")
    assert len(said) == 1 and str(path) in said[0] and "what it had is put back" in said[0]
    journal.mend()
    assert len(said) == 1


def test_a_journal_that_another_owner_goes_on_with_is_left_to_it(tmp_path: Path) -> None:
    """As a host that hung would find it when it wakes."""
    said: list[str] = []
    first = Journal(tmp_path / "journal.jsonl", report=said.append)
    first.append(told("one"))
    second = Journal(tmp_path / "journal.jsonl")
    second.append(told("two"))
    with pytest.raises(DamagedJournal, match="another process has written to it"):
        first.append(told("three"))
    second.append(told("four"))
    assert [each.text for each in read_journal(first.path)[0] if isinstance(each, Told)] == ["one", "two", "four"]
    assert said == []


def test_damage_before_the_last_record_is_never_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    for text in ("one", "two", "three"):
        journal.append(told(text))
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in ([lines[0], lines[2]], [lines[0], b"x\n", lines[2]], [lines[1], lines[0], lines[2]]):
        path.write_bytes(b"".join(damaged))
        with pytest.raises(DamagedJournal, match="line"):
            read_journal(path)


def opened(text: str = "do it") -> Opened:
    return Opened(
        instance="a#1", number=1, reason="r", task="T1", epoch=1, system="s", tools=[], model="m", opening=text
    )


def answered(*calls: str, text: str = "") -> Answered:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": call, "name": "x", "input": {}} for call in calls]
    return Answered(
        instance="a#1", turn=1, answer_id="m", content=content, stop_reason="tool_use", model="m", usage={}, usd=None
    )


def finished(call: str, *, error: bool = False) -> Finished:
    return Finished(instance="a#1", call=call, tool="x", text=f"result {call}", is_error=error)


def test_results_go_back_in_call_order_in_one_message_and_mail_comes_after_them() -> None:
    mail = Delivered(instance="a#1", turn=2, ids=["1"], kinds=["note"], text="mail")
    records = [opened(), answered("c1", "c2"), finished("c2", error=True), mail, finished("c1"), answered(text="done")]
    sent = messages(records)
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant"]
    assert [block.get("tool_use_id", block.get("text")) for block in sent[2]["content"]] == ["c1", "c2", "mail"]
    assert [block.get("is_error") for block in sent[2]["content"]] == [None, True, None]
    assert messages(records) == sent, "the same records give the same messages"

"""Messages as files: exact, strict, and the same in every version of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie import files, mailbox
from coterie.errors import NewerSchema
from coterie.mailbox import (
    Answer,
    Body,
    Decision,
    Event,
    Note,
    Notice,
    Report,
    Returned,
    ShutdownAnswer,
    ShutdownRequest,
)
from coterie.mailbox.message import encode, parse, stamp

BODIES: dict[str, Body] = {
    "note": Note(text="hello"),
    "report": Report(text="done", task="T1", epoch=2, failed=True),
    "returned": Returned(text="conflict", task="T1", epoch=1, returns=1, files=("a.py", "b.py"), output="E", base="c0"),
    "notice": Notice(text="the plan", request="R4", request_kind="plan", task="T1", epoch=1, revision=2),
    "decision": Decision(text="", request="R4", request_kind="plan", decision="approved", task="T1", epoch=1),
    "shutdown_request": ShutdownRequest(text="", request="R5", deadline_s=60.0),
    "shutdown_answer": ShutdownAnswer(text="busy", request="R5", accepted=False),
    "answer": Answer(text="blue", request="R9"),
    "event": Event(text="T1 failed", event="task_failed", task="T1", wakes=True),
}


def message(body: Body, **more: object):
    envelope = {
        "id": "0000000012-ada",
        "sender": "lead",
        "sender_instance": "lead#1",
        "to": "ada",
        "to_instance": "ada#2",
        "sent_at": "2026-01-02T03:04:05.678Z",
        "seq": 12,
    }
    return stamp(body, **{**envelope, **more})


def as_file(**changes: object) -> dict[str, object]:
    return {**json.loads(encode(message(Note(text="x")))), **changes}


PATH = Path("0000000012-ada.json")


@pytest.mark.parametrize("kind", BODIES)
def test_every_kind_comes_back_from_its_file_as_it_was(kind: str) -> None:
    sent = message(BODIES[kind], made_by="R4/notice", in_reply_to="0000000001-lead", urgent=True)
    assert sent.kind == kind
    assert parse(files.decode(encode(sent), PATH), PATH) == sent


def test_a_message_file_looks_like_this() -> None:
    assert encode(message(BODIES["decision"], made_by="R4/decision")).decode() == (
        "{\n"
        '  "schema": 1,\n'
        '  "id": "0000000012-ada",\n'
        '  "kind": "decision",\n'
        '  "from": "lead",\n'
        '  "from_instance": "lead#1",\n'
        '  "to": "ada",\n'
        '  "to_instance": "ada#2",\n'
        '  "sent_at": "2026-01-02T03:04:05.678Z",\n'
        '  "seq": 12,\n'
        '  "in_reply_to": null,\n'
        '  "urgent": false,\n'
        '  "made_by": "R4/decision",\n'
        '  "body": {\n'
        '    "text": "",\n'
        '    "request": "R4",\n'
        '    "request_kind": "plan",\n'
        '    "decision": "approved",\n'
        '    "task": "T1",\n'
        '    "epoch": 1,\n'
        '    "revision": 1\n'
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize("text", ["a\x00b\x1b[31m\r\n\tü \u202e", "", " \n "])
def test_text_is_kept_exactly_in_the_file(text: str) -> None:
    assert parse(files.decode(encode(message(Note(text=text))), PATH), PATH).body.text == text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "order"}, "kind|order"),
        ({"kind": "decision"}, "decision.body.request"),
        ({"body": {}}, "note.body.text"),
        ({"body": {"text": 3}}, "note.body.text"),
        ({"seq": "12"}, "note.seq"),
        ({"seq": True}, "note.seq"),
        ({"from": "../ada"}, "note.from"),
        ({"to_instance": "ada#0"}, "note.to_instance"),
        ({"urgent": "yes"}, "note.urgent"),
        ({"id": "0000000013-ada"}, "id"),
        ({"id": "../../x"}, "note.id"),
    ],
)
def test_a_wrong_field_is_refused_with_the_path_to_it(changes: dict[str, object], field: str) -> None:
    with pytest.raises(files.Unreadable, match=field):
        parse(as_file(**changes), PATH)


def test_fields_that_are_not_known_do_no_harm() -> None:
    assert parse(as_file(colour="green"), PATH).body.text == "x"


def test_a_message_of_a_newer_coterie_is_no_damage_but_a_reason_to_stop() -> None:
    with pytest.raises(NewerSchema, match="upgrade"):
        parse(as_file(schema=2), PATH)


def test_everything_the_room_offers_is_listed_in_order() -> None:
    assert mailbox.__all__ == sorted(mailbox.__all__)
    assert all(hasattr(mailbox, name) for name in mailbox.__all__)

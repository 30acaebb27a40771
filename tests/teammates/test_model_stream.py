from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from coterie.teammates.model import (
    BadRequest,
    KeyRefused,
    ModelError,
    NotWhole,
    PromptTooLong,
    Unavailable,
    UnknownModel,
    Usage,
)
from coterie.teammates.model_stream import Assembly, classify, retry_after, whole_text

START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 7}}}
END = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}


def assembled(block: dict[str, Any], *deltas: dict[str, Any]) -> Assembly:
    got = Assembly()
    events = [START, {"type": "content_block_start", "index": 0, "content_block": block}]
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    events += [{"type": "content_block_stop", "index": 0}, END, {"type": "message_stop"}]
    for event in events:
        assert not got.done
        got.feed(json.dumps(event))
    assert got.done
    return got


def only(got: Assembly) -> dict[str, Any]:
    content, _ = got.content()
    assert len(content) == 1
    return content[0]


def test_a_thinking_block_keeps_its_signature_and_fields_nobody_knows() -> None:
    got = assembled(
        {"type": "thinking", "thinking": "", "signature": "", "new_field": {"x": 1}},
        {"type": "thinking_delta", "thinking": "I th"},
        {"type": "thinking_delta", "thinking": "ink"},
        {"type": "signature_delta", "signature": "c2ln=="},
    )
    assert only(got) == {"type": "thinking", "thinking": "I think", "signature": "c2ln==", "new_field": {"x": 1}}


def test_a_block_and_a_delta_of_unknown_kinds_are_kept() -> None:
    got = assembled(
        {"type": "dream", "about": "", "list": [1]},
        {"type": "dream_delta", "about": "sh"},
        {"type": "dream_delta", "about": "eep", "list": [2], "depth": 3},
    )
    assert only(got) == {"type": "dream", "about": "sheep", "list": [1, 2], "depth": 3}


def test_citations_are_collected() -> None:
    got = assembled(
        {"type": "text", "text": "", "citations": None},
        {"type": "text_delta", "text": "so"},
        {"type": "citations_delta", "citation": {"n": 1}},
        {"type": "citations_delta", "citation": {"n": 2}},
    )
    assert only(got) == {"type": "text", "text": "so", "citations": [{"n": 1}, {"n": 2}]}


@pytest.mark.parametrize("written", ['{"a": ', "[1]", '"text"', '{"a": NaN}', '{"a": 1}}', "{" * 100_000])
def test_an_input_that_is_no_json_object_is_kept_as_it_was_written_beside_the_block(written: str) -> None:
    got = assembled(
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {}},
        *({"type": "input_json_delta", "partial_json": part} for part in (written[:3], written[3:])),
    )
    content, broken = got.content()
    assert content == [{"type": "tool_use", "id": "t1", "name": "bash", "input": {}}]
    assert broken == {"t1": written}


def test_an_input_in_pieces_is_read_as_a_whole() -> None:
    got = assembled(
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"command": "l'},
        {"type": "input_json_delta", "partial_json": 's"}'},
    )
    assert only(got)["input"] == {"command": "ls"}
    assert got.content()[1] == {}


def test_a_call_without_arguments_has_an_empty_input() -> None:
    assert only(assembled({"type": "tool_use", "id": "t1", "name": "sync", "input": {}}))["input"] == {}


def test_a_character_that_was_cut_in_two_is_joined_and_half_a_one_replaced() -> None:
    got = assembled(
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "\ud83d"},
        {"type": "text_delta", "text": "\ude00 \ud83d"},
    )
    assert only(got)["text"] == "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"


def test_usage_is_the_last_total_of_each_count() -> None:
    got = Assembly()
    first = {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": None}
    got.feed(json.dumps({"type": "message_start", "message": {"usage": first}}))
    last = {"output_tokens": 20, "cache_creation_input_tokens": 4, "input_tokens": None}
    got.feed(json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}))
    assert got.usage == Usage(input_tokens=5, output_tokens=20, cache_read=3, cache_write=4)
    assert got.stop_reason == "end_turn"


@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[]",
        "null",
        "{}",
        '{"type": "message_stop"}',
        '{"type": "message_start"}',
        '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}',
        '{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": null, "name": "x"}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_event_of_the_messages_api_is_not_whole(data: str) -> None:
    with pytest.raises(NotWhole):
        Assembly().feed(data)


def test_pings_and_unknown_events_change_nothing() -> None:
    got = Assembly()
    assert got.feed('{"type": "ping"}') == ""
    assert got.feed('{"type": "tomorrow", "x": [1]}') == ""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", Unavailable),
        ("rate_limit_error", Unavailable),
        ("api_error", Unavailable),
        ("timeout_error", Unavailable),
        ("something_new_error", Unavailable),
        ("authentication_error", KeyRefused),
        ("billing_error", KeyRefused),
        ("permission_error", KeyRefused),
        ("not_found_error", UnknownModel),
        ("invalid_request_error", BadRequest),
        ("request_too_large", PromptTooLong),
    ],
)
def test_an_error_event_inside_a_200_is_the_same_error_as_its_status(kind: str, expected: type[ModelError]) -> None:
    with pytest.raises(expected) as raised:
        Assembly().feed(json.dumps({"type": "error", "error": {"type": kind, "message": "why"}}))
    assert type(raised.value) is expected
    assert "why" in str(raised.value)


@pytest.mark.parametrize(
    ("status", "message", "expected", "code"),
    [
        (400, "messages: roles must alternate", BadRequest, 1),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", PromptTooLong, 1),
        (400, "input length and `max_tokens` exceed context limit: 1 + 2 > 2", PromptTooLong, 1),
        (400, "This model's maximum context length is 8192 tokens", PromptTooLong, 1),
        (400, "Your credit balance is too low to access the Anthropic API", KeyRefused, 6),
        (401, "invalid x-api-key", KeyRefused, 6),
        (402, "pay", KeyRefused, 6),
        (403, "forbidden", KeyRefused, 6),
        (404, "model: nope", UnknownModel, 2),
        (413, "too large", PromptTooLong, 1),
        (405, "no", BadRequest, 1),
        (408, "late", Unavailable, 1),
        (429, "slow down", Unavailable, 1),
        (500, "oops", Unavailable, 1),
        (529, "Overloaded", Unavailable, 1),
        (599, "?", Unavailable, 1),
    ],
)
def test_each_status_has_its_error_and_exit_code(
    status: int, message: str, expected: type[ModelError], code: int
) -> None:
    error = classify({"type": "error", "error": {"type": "x", "message": message}}, status, model="nope")
    assert type(error) is expected
    assert error.exit_code == code
    assert message in str(error)


@pytest.mark.parametrize("body", [None, "", "<html>gateway</html>", [], {"error": "text"}, {"error": None}, 3])
def test_a_body_of_any_shape_is_classified_by_its_status(body: object) -> None:
    assert isinstance(classify(body, 502), Unavailable)
    assert isinstance(classify(body, 401), KeyRefused)


def test_a_spend_limit_is_not_waited_for() -> None:
    body = {"error": {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}}
    assert isinstance(classify(body, 429), KeyRefused)


def test_the_unknown_model_is_named_with_its_server() -> None:
    error = classify({}, 404, model="claude-nope", where="http://there")
    assert "'claude-nope'" in str(error)
    assert "http://there" in str(error)


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after": "1e300"}, 10 * 365 * 86400.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -0000"}, 30.0),
        # a server whose clock is a day behind ours
        ({"retry-after": "Wed, 31 Dec 2025 12:00:30 GMT", "date": "Wed, 31 Dec 2025 12:00:00 GMT"}, 30.0),
    ],
)
def test_retry_after_is_read_in_seconds_and_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_text_that_is_whole_already_is_the_same_object() -> None:
    text = "é \N{GRINNING FACE}"
    assert whole_text(text) is text
    assert whole_text({"a": ["\ud800", 1, None]}) == {"a": ["\N{REPLACEMENT CHARACTER}", 1, None]}

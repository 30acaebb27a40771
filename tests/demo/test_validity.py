"""What the API takes, and what it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.demo.validity import problem

Messages = list[dict[str, Any]]


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def words(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "bash", "input": {"command": "ls"}}


def result(id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "exit code: 0"} | more


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": list(messages)} | more


GOOD = [
    request(user(words("hi"))),
    request({"role": "user", "content": "hi"}, system="be brief", stream=True),
    request(user(words("hi")), said(call("a"), call("b")), user(result("a"), result("b", is_error=True))),
    request(user(words("hi")), said(words("look"), call("a")), user(result("a"), words("mail"))),
    request(user(words("hi")), said(words("done")), user(words("next")), metadata={"user_id": "main/ada#1"}),
    request(
        user(words("hi")),
        said({"type": "thinking", "thinking": "hm", "signature": "s"}, call("a")),
        user(result("a", content=[words("out")], cache_control={"type": "ephemeral"})),
        system=[words("be brief") | {"cache_control": {"type": "ephemeral"}}],
        tools=[{"name": "bash", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
    ),
]

MARKED = words("x") | {"cache_control": {"type": "ephemeral"}}
TOOL = {"name": "bash", "input_schema": {"type": "object"}}
BAD = [
    ([], "Input should be a valid dictionary"),
    ({"max_tokens": 1, "messages": []}, "model: Field required"),
    ({"model": "m", "messages": []}, "max_tokens: Field required"),
    ({"model": "m", "max_tokens": 1}, "messages: Field required"),
    (request(), "at least one message"),
    (request(user(words("hi")), max_tokens=0), "max_tokens: must be"),
    (request(user(words("hi")), max_tokens="5"), "max_tokens: Input"),
    (request(user(words("hi")), sytem="x"), "sytem: Extra inputs"),
    (request(said(words("hi"))), "first message"),
    (request(user(words("a")), user(words("b"))), "roles must alternate"),
    (request(user(words("a")), said(words("b")), said(words("c"))), "roles must alternate"),
    (request(user(words("a")), said(words("b"))), "prefill"),
    (request({"role": "system", "content": "x"}), "role: Input should be"),
    (request(user()), "non-empty content"),
    (request(user(words(""))), "text content blocks must be non-empty"),
    (request(user(words(" \n"))), "non-whitespace"),
    (request({"role": "user", "content": ""}), "non-whitespace"),
    (request(user({"text": "x"})), "type: Field required"),
    (request(user(call("a"))), "not allowed in a message of the user"),
    (request(user(words("a")), said(call("a")), user(words("go on"))), "without `tool_result` blocks"),
    (request(user(words("a")), said(call("a"), call("b")), user(result("a"))), "immediately after: b"),
    (request(user(words("a")), said(call("a"), call("b")), user(result("b"), result("a"))), "in the order"),
    (request(user(words("a")), said(call("a")), user(words("x"), result("a"))), "before the other content"),
    (request(user(words("a")), said(call("a")), user(result("a"), result("a"))), "single result"),
    (request(user(words("a")), said(call("a")), user(result("a"), result("z"))), "unexpected `tool_use_id`"),
    (request(user(result("a"))), "unexpected `tool_use_id`"),
    (
        request(user(words("a")), said(call("a")), user(result("a")), said(words("b")), user(result("a"))),
        "unexpected `tool_use_id`",
    ),
    (
        request(user(words("a")), said(call("a")), user(result("a")), said(call("a")), user(result("a"))),
        "ids must be unique",
    ),
    (request(user(words("a")), said(call("a b")), user(result("a b"))), "tool_use.id"),
    (request(user(words("a")), said(call("a") | {"input": "ls"}), user(result("a"))), "tool_use.input"),
    (request(user(words("a")), said(call("a")), user(result("a", is_error="yes"))), "is_error"),
    (request(user(words("a")), said(call("a")), user(result("a", content=5))), "content"),
    (request(user(words("a")), system=[words("")]), "system: text content blocks"),
    (request(user(words("a")), tools=[TOOL, TOOL]), "unique"),
    (request(user(words("a")), tools=[{"name": "x"}]), "input_schema: Field required"),
    (request(user(words("a")), tools=[TOOL | {"name": "two words"}]), "name: String should match"),
    (request(user(words("a")), metadata={"user_id": "x" * 257}), "at most 256"),
    (request(user(words("a")), metadata={"user_id": 5}), "metadata.user_id"),
    (request(user(*[MARKED] * 5)), "Found 5"),
    (
        request(user(words("a")), said({"type": "thinking", "thinking": "", "cache_control": {}}), user(words("b"))),
        "thinking.cache_control",
    ),
    (request(user(words("a")), stream="yes"), "stream"),
]


@pytest.mark.parametrize("good", GOOD, ids=lambda each: json.dumps(each)[:40])
def test_a_well_formed_request_has_no_problem(good: dict[str, Any]) -> None:
    assert problem(good) is None


@pytest.mark.parametrize(("bad", "why"), BAD, ids=[each[1] for each in BAD])
def test_a_malformed_request_is_refused_in_the_words_of_the_api(bad: Any, why: str) -> None:
    assert why in str(problem(bad))

"""Whether a request is one that the Messages API takes.

The rules and the words are those of the API (https://docs.anthropic.com/en/api/messages) where it has them. Stricter
than the service, so that a fault of ours shows: roles alternate, results come in the order of their calls and first
in their message, and a conversation ends with the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["problem"]

KNOWN = frozenset(
    (
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "metadata", "stream", "prefill"),
        *("stop_sequences", "thinking", "service_tier", "speed", "container", "context_management", "mcp_servers"),
        *("output_config", "inference_geo", "cache_control", "diagnostics"),
    )
)
"""Without sampling parameters: current models refuse them."""

REQUIRED = ("model", "max_tokens", "messages")
BLOCKS = {
    "user": frozenset({"text", "image", "document", "tool_result", "search_result"}),
    "assistant": frozenset({"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use"}),
}
MARKS = 4  # blocks with cache_control in one request
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
USER_ID = 256  # characters


class Invalid(ValueError):
    """The request is not one that the API takes."""


def problem(request: Any) -> str | None:
    """What is wrong with the request, in the API's words; None if nothing is."""
    try:
        _check(request)
    except Invalid as error:
        return str(error)
    return None


def _check(request: Any) -> None:
    if not isinstance(request, dict):
        raise Invalid("Input should be a valid dictionary")
    for name in REQUIRED:
        if name not in request:
            raise Invalid(f"{name}: Field required")
    for name in request:
        if name not in KNOWN:
            raise Invalid(f"{name}: Extra inputs are not permitted")
    _need(isinstance(request["model"], str) and request["model"], "model: Input should be a valid string")
    tokens = request["max_tokens"]
    _need(isinstance(tokens, int) and not isinstance(tokens, bool), "max_tokens: Input should be a valid integer")
    _need(tokens > 0, "max_tokens: must be greater than or equal to 1")
    _need(isinstance(request.get("stream", False), bool), "stream: Input should be a valid boolean")
    _metadata(request.get("metadata"))
    _system(request.get("system"))
    _tools(request.get("tools"))
    _messages(request["messages"])
    marks = sum(1 for _ in _marked(request))
    _need(marks <= MARKS, f"A maximum of {MARKS} blocks with cache_control may be provided. Found {marks}.")


def _need(holds: object, otherwise: str) -> None:
    if not holds:
        raise Invalid(otherwise)


def _metadata(given: Any) -> None:
    if given is None:
        return
    _need(isinstance(given, dict), "metadata: Input should be an object")
    user = given.get("user_id")
    _need(user is None or isinstance(user, str), "metadata.user_id: Input should be a valid string")
    _need(len(user or "") <= USER_ID, f"metadata.user_id: String should have at most {USER_ID} characters")
    for name in given:
        _need(name == "user_id", f"metadata.{name}: Extra inputs are not permitted")


def _system(given: Any) -> None:
    if given is None or isinstance(given, str):
        return
    _need(isinstance(given, list), "system: Input should be a valid list")
    for index, block in enumerate(given):
        where = f"system.{index}"
        _need(isinstance(block, dict) and block.get("type") == "text", f"{where}.type: Input should be 'text'")
        _text(block, "system", where)


def _tools(given: Any) -> None:
    if given is None:
        return
    _need(isinstance(given, list), "tools: Input should be a valid list")
    names = []
    for index, tool in enumerate(given):
        where = f"tools.{index}.custom"
        _need(isinstance(tool, dict), f"tools.{index}: Input should be a valid dictionary")
        _need(_named(tool.get("name")), f"{where}.name: String should match pattern '^{NAME.pattern}$'")
        schema = tool.get("input_schema")
        _need(isinstance(schema, dict), f"{where}.input_schema: Field required")
        _need(schema.get("type") == "object", f"{where}.input_schema.type: Input should be 'object'")
        names.append(tool["name"])
    _need(len(set(names)) == len(names), "tools: Tool names must be unique.")


def _named(name: object) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _messages(given: Any) -> None:
    _need(isinstance(given, list), "messages: Input should be a valid list")
    _need(given, "messages: at least one message is required")
    calls: list[str] = []  # of the message before, which this one has to answer
    known: set[str] = set()
    before = None
    for index, message in enumerate(given):
        where = f"messages.{index}"
        _need(isinstance(message, dict), f"{where}: Input should be a valid dictionary")
        role = message.get("role")
        _need(role in BLOCKS, f"{where}.role: Input should be 'user' or 'assistant'")
        _need(index or role == "user", 'messages: first message must use the "user" role')
        _need(
            role != before,
            'messages: roles must alternate between "user" and "assistant", '
            f'but found multiple "{role}" roles in a row',
        )
        before = role
        for name in message:
            _need(name in ("role", "content"), f"{where}.{name}: Extra inputs are not permitted")
        blocks = _blocks(message, role, where)
        _results(blocks, calls, where, index)
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in calls:
            _need(call not in known, f"{where}: `tool_use` ids must be unique: {call}")
            known.add(call)
    _need(
        before == "user",
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    )


def _blocks(message: Mapping[str, Any], role: str, where: str) -> list[dict[str, Any]]:
    """The content of a message as blocks, each of them looked at."""
    content = message.get("content")
    if isinstance(content, str):
        _need(content.strip(), "messages: text content blocks must contain non-whitespace text")
        return [{"type": "text", "text": content}]
    _need(isinstance(content, list), f"{where}.content: Input should be a valid list")
    assert isinstance(content, list)
    _need(content, f"{where}: all messages must have non-empty content except for the optional final assistant message")
    for number, block in enumerate(content):
        at = f"{where}.content.{number}"
        _need(isinstance(block, dict) and isinstance(block.get("type"), str), f"{at}.type: Field required")
        kind = block["type"]
        allowed = BLOCKS[role]
        _need(kind in allowed, f"{at}: Input tag '{kind}' found using 'type' is not allowed in a message of the {role}")
        if kind == "text":
            _text(block, "messages", at)
        elif kind == "tool_use":
            _need(_named(block.get("id")), f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            _need(_named(block.get("name")), f"{at}.tool_use.name: String should match pattern '^{NAME.pattern}$'")
            _need(isinstance(block.get("input"), dict), f"{at}.tool_use.input: Input should be a valid dictionary")
        elif kind == "tool_result":
            _result(block, f"{at}.tool_result")
        elif kind in ("thinking", "redacted_thinking"):
            _need("cache_control" not in block, f"{at}.{kind}.cache_control: Extra inputs are not permitted")
    return content


def _text(block: Mapping[str, Any], place: str, where: str) -> None:
    _need(isinstance(block.get("text"), str), f"{where}.text.text: Input should be a valid string")
    _need(block["text"], f"{place}: text content blocks must be non-empty")
    _need(block["text"].strip(), f"{place}: text content blocks must contain non-whitespace text")


def _result(block: Mapping[str, Any], where: str) -> None:
    _need(isinstance(block.get("tool_use_id"), str), f"{where}.tool_use_id: Field required")
    _need(isinstance(block.get("is_error", False), bool), f"{where}.is_error: Input should be a valid boolean")
    content = block.get("content")
    if isinstance(content, list):
        for number, each in enumerate(content):
            known = isinstance(each, dict) and each.get("type") in ("text", "image", "document", "search_result")
            _need(known, f"{where}.content.{number}: Input should be a block of text, an image or a document")
            if each["type"] == "text":
                _text(each, "messages", f"{where}.content.{number}")
    else:
        _need(content is None or isinstance(content, str), f"{where}.content: Input should be a valid string")


def _results(blocks: list[dict[str, Any]], calls: list[str], where: str, index: int) -> None:
    """Every call of the message before is answered here, in order, before anything else is said."""
    answered = []
    for number, block in enumerate(blocks):
        if block["type"] != "tool_result":
            continue
        call = block["tool_use_id"]
        _need(
            call in calls,
            f"{where}.content.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each "
            "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
        )
        _need(call not in answered, f"{where}: each tool_use must have a single result. Found multiple: {call}")
        answered.append(call)
    missing = [call for call in calls if call not in answered]
    _need(
        not missing,
        f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message.",
    )
    _need(answered == calls, f"{where}: `tool_result` blocks must be in the order of their `tool_use` blocks")
    first = all(block["type"] == "tool_result" for block in blocks[: len(calls)])
    _need(first, f"{where}: `tool_result` blocks must come before the other content of their message")


def _marked(value: Any) -> Iterator[Any]:
    """Every block with a cache mark, at any depth. What a tool was given is data, and has no marks."""
    if isinstance(value, dict):
        if value.get("cache_control") is not None:
            yield value
        for name, each in value.items():
            if name not in ("input", "input_schema", "cache_control"):
                yield from _marked(each)
    elif isinstance(value, list):
        for each in value:
            yield from _marked(each)

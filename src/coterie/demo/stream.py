"""A reply as the events of a stream, and as one message. Pure: the same request and reply give the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from coterie.demo.reply import Reply
from coterie.demo.usage import tokens

__all__ = ["Event", "encode", "events", "whole"]

PIECES = 24  # of one block, at most
SHORTEST = 12  # characters of a piece

Event = tuple[str, dict[str, Any]]


def whole(request: dict[str, Any], reply: Reply, usage: dict[str, int]) -> dict[str, Any]:
    """The answer as one message."""
    blocks = _blocks(request, reply)
    return {
        "id": f"msg_{_digest(request)}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": blocks,
        "stop_reason": reply.stopped_by,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": sum(tokens(block) for block in blocks)},
    }


def events(request: dict[str, Any], reply: Reply, usage: dict[str, int]) -> Iterator[Event]:
    """The events of the stream, in order: name and data."""
    message = whole(request, reply, usage)
    blocks = message["content"]
    spent = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**spent, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": start}
    for index, block in enumerate(blocks):
        cut = reply.stopped_by == "max_tokens" and index == len(blocks) - 1
        yield from _block(index, block, cut)
        if index == 0:
            yield "ping", {"type": "ping"}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": spent}
    yield "message_stop", {"type": "message_stop"}


def encode(event: Event) -> bytes:
    """An event as server-sent text."""
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


def _block(index: int, block: dict[str, Any], cut: bool) -> Iterator[Event]:
    """One block: its start, the pieces, its stop. Cut: only the first half of what it has to say."""
    kind = block["type"]
    begin, said, delta, field = block, "", "", ""
    if kind == "text":
        begin, said, delta, field = {**block, "text": ""}, block["text"], "text_delta", "text"
    elif kind == "thinking":
        begin, said = {**block, "thinking": "", "signature": ""}, block["thinking"]
        delta, field = "thinking_delta", "thinking"
    elif kind == "tool_use":
        begin, said = {**block, "input": {}}, json.dumps(block["input"], ensure_ascii=False)
        delta, field = "input_json_delta", "partial_json"
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": begin}
    pieces = list(_pieces(said[: len(said) // 2] if cut else said))
    if kind == "tool_use":
        pieces.insert(0, "")  # as the API does
    for piece in pieces:
        body: dict[str, Any] = {"type": delta, field: piece}
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": body}
    if kind == "thinking":
        signed = {"type": "signature_delta", "signature": block.get("signature", "")}
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": signed}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def _pieces(said: str) -> Iterator[str]:
    size = max(SHORTEST, -(-len(said) // PIECES))
    for start in range(0, len(said), size):
        yield said[start : start + size]


def _blocks(request: dict[str, Any], reply: Reply) -> list[dict[str, Any]]:
    """The blocks, each call with an id: one that follows from the request where the reply has none."""
    return [
        {**block, "id": block["id"] or f"toolu_{_digest(request, index)}"} if block["type"] == "tool_use" else block
        for index, block in enumerate(reply.content)
    ]


def _digest(request: dict[str, Any], *more: int) -> str:
    spelled = json.dumps([request, *more], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(spelled.encode("utf-8", "replace")).hexdigest()[:24]

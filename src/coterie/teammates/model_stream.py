"""What comes over the wire of the Messages API: events made into an answer, refusals made into our errors. Pure."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

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

__all__ = ["Assembly", "classify", "retry_after", "whole_text"]

# the status that an error event inside a 200 stands for (https://docs.anthropic.com/en/api/errors)
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

# How servers of the Messages API say that a conversation is too long: there is no code of its own for it.
_TOO_LONG = (
    "prompt is too long",
    "exceed context limit",
    "exceeds the available context",
    "exceeds the context",
    "context_length_exceeded",
    "context length exceeded",
    "context window",
    "maximum context length",
    "input is too long",
)

# Money that is used up comes as a 400 or a 429 too, and waiting does not bring it back.
_NO_CREDIT = ("credit balance", "spend_limit_reached", "organization_on_hold", "insufficient_quota")

# Ten years, in seconds: what a server may ask for and a date can still say.
_LONGEST = 10 * 365 * 86400.0

_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}


class Assembly:
    """The events of one answer, put together. Feed it every event in order; it is whole once `done` is true."""

    def __init__(self) -> None:
        self.done = False
        self.id = ""
        self.model = ""
        self.stop_reason: str | None = None
        self._started = False
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._usage: dict[str, int] = {}

    def feed(self, data: str) -> str:
        """Take the data of one event; answers the text it added, mostly "".

        An event of a kind not known adds nothing; a block or delta of a kind not known is kept. Raises NotWhole for
        what is no event of the Messages API, and what `classify` says for an error event.
        """
        try:
            event = json.loads(data)
            return self._take(event)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise NotWhole(f"The stream of the answer is damaged: {type(error).__name__}: {error}") from error

    def _take(self, event: dict[str, Any]) -> str:
        match event["type"]:
            case "message_start":
                message = event["message"]
                self._started = True
                self.id, self.model = str(message.get("id") or ""), str(message.get("model") or "")
                self._count(message.get("usage"))
            case "content_block_start":
                block = dict(event["content_block"])
                if block["type"] == "tool_use" and not (
                    isinstance(block["id"], str) and isinstance(block["name"], str)
                ):
                    raise ValueError("a tool call without id or name")
                self._blocks[int(event["index"])] = block
            case "content_block_delta":
                return self._add(int(event["index"]), event["delta"])
            case "message_delta":
                self.stop_reason = event["delta"].get("stop_reason", self.stop_reason)
                self._count(event.get("usage"))
            case "message_stop":
                if not self._started:
                    raise ValueError("message_stop before message_start")
                self.done = True
            case "error":
                raise classify(event)
        return ""

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        # the counts of a later event are totals and replace the earlier; what it leaves out stands
        for theirs, ours in _USAGE.items():
            if (count := (usage or {}).get(theirs)) is not None:
                self._usage[ours] = max(0, int(count))

    def _add(self, index: int, delta: dict[str, Any]) -> str:
        block = self._blocks[index]
        match delta["type"]:
            case "input_json_delta":
                self._inputs.setdefault(index, []).append(delta["partial_json"])
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case _:
                for key, value in delta.items():
                    if key != "type":
                        old = block.get(key)
                        joins = isinstance(value, str | list) and type(old) is type(value)
                        block[key] = old + value if joins else value
        return str(delta["text"]) if delta["type"] == "text_delta" else ""

    @property
    def usage(self) -> Usage:
        """The tokens that were counted."""
        return Usage(**self._usage)

    def content(self) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """The blocks as received, and the inputs that are no JSON object, by the id of their call."""
        content: list[dict[str, Any]] = []
        broken: dict[str, str] = {}
        for index in sorted(self._blocks):
            block = copy.deepcopy(self._blocks[index])
            written = "".join(self._inputs.get(index, ()))
            if written.strip():
                block["input"] = _object(written)
            if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
                broken[str(block.get("id"))] = whole_text(written or json.dumps(block.get("input")))
                block["input"] = {}
            elif "input" in block and block["input"] is None:
                block["input"] = {}
            content.append(whole_text(block))
        return content, broken


def _object(written: str) -> dict[str, Any] | None:
    """The JSON object that was written, or None."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)  # NaN and Infinity are no JSON: they could not be sent back

    try:
        value = json.loads(written, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def whole_text(value: Any) -> Any:
    """`value` with every text in it such that it can be written as UTF-8; the same object where it can already.

    A character outside the first plane may have been cut in two between deltas: its halves are joined. A half that
    stands alone becomes U+FFFD.
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {whole_text(key): whole_text(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(whole_text(each) for each in value)
    return value


def classify(
    body: object, status: int | None = None, *, model: str = "", where: str = "", wait: float | None = None
) -> ModelError:
    """The error of ours for an error of the service.

    `body` is the decoded body or error event, `status` None for an event inside a 200; `where` names the server,
    `wait` is what its retry-after says in seconds.
    """
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {}
    kind = str(error.get("type") or "")
    said = str(error.get("message") or (body if isinstance(body, str) else "") or kind or "no message")[:1000]
    status = status if status is not None else _STATUS.get(kind, 500)
    details = error.get("details")
    code = str(details.get("error_code") or "") if isinstance(details, dict) else ""
    searched = f"{kind} {code} {said}".lower()
    told = f"{status} {kind}".strip() + f": {said}"
    if status in (401, 402, 403) or (status in (400, 429) and any(each in searched for each in _NO_CREDIT)):
        return KeyRefused(f"The model's service refuses the API key or has no credit left ({told}).")
    if status == 404:
        return UnknownModel(f"{where or 'The service'} knows no model {model!r} ({told}). Check model and base_url.")
    if status == 413 or (status in (400, 422) and any(each in searched for each in _TOO_LONG)):
        return PromptTooLong(f"The conversation is too long for the model ({told}).")
    if status == 429:
        return Unavailable(f"too many requests ({told})", kind="limited", retry_after=wait)
    if status == 529 or kind == "overloaded_error":
        return Unavailable(f"the service is overloaded ({told})", kind="overloaded", retry_after=wait)
    if status >= 500 or status in (408, 409, 425, 499):
        return Unavailable(f"the service failed ({told})", retry_after=wait)
    return BadRequest(f"The model's service refused the request ({told}).")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds that the headers of a response ask us to wait; None if they ask for nothing that can be read.

    A date counts from the server's own `date` where it sends one, so that a wrong clock of ours does no harm.
    """
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        try:
            until = parsedate_to_datetime(given)
        except ValueError:
            return None
        with suppress(ValueError):
            now = parsedate_to_datetime(headers.get("date") or "")
        if (until.tzinfo is None) != (now.tzinfo is None):
            until, now = until.replace(tzinfo=None), now.replace(tzinfo=None)
        seconds = (until - now).total_seconds()
    return min(max(seconds, 0.0), _LONGEST) if math.isfinite(seconds) else None

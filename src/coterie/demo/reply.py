"""What a scripted model answers: content, and for tests the ways in which a service misbehaves."""

from __future__ import annotations

import threading
from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["ERRORS", "Reply", "failure", "text", "tool_use"]

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
"""The error type of each status, by the API's own list (https://docs.anthropic.com/en/api/errors)."""


class Reply(BaseModel):
    """One answer. Without anything but `content` it is a whole and good one.

    The counts of events are those of the stream (message_start is the first); they need a request that streams.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    # blocks made with text() and tool_use(); a tool_use without an id gets one that follows from the request
    content: tuple[dict[str, Any], ...] = ()
    # None: tool_use where there is a call, else end_turn. With max_tokens the last block is cut in the middle
    stop_reason: str | None = None
    # anything but 200: an error answer of that status, with `message`, and `content` is not sent
    status: int = 200
    # added to the answer's headers, such as retry-after
    headers: dict[str, str] = {}
    # of an error: its type (None: by the status, overloaded_error inside a stream) and what it says
    error: str | None = None
    message: str = ""
    # after so many events of a stream: an error event, and the end
    fail_after: int | None = None
    # after so many events: the connection is cut
    cut_after: int | None = None
    # wait until it is set (or the server closes): before the first byte, or after `stall_after` events
    stall: threading.Event | None = None
    stall_after: int | None = None

    @property
    def stopped_by(self) -> str:
        """The stop reason that is sent."""
        if self.stop_reason is not None:
            return self.stop_reason
        return "tool_use" if any(block["type"] == "tool_use" for block in self.content) else "end_turn"

    @property
    def error_type(self) -> str:
        """The type that an error of this reply has."""
        return self.error or ("overloaded_error" if self.status == 200 else ERRORS.get(self.status, "api_error"))


def text(words: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": words}


def tool_use(name: str, id: str | None = None, /, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def failure(status: int, message: str = "", *, retry_after: float | None = None, **headers: str) -> Reply:
    """An answer that is an error. `retry_after` in seconds."""
    if retry_after is not None:
        headers["retry-after"] = f"{retry_after:g}"
    return Reply(status=status, message=message or ERRORS.get(status, "error"), headers=headers)

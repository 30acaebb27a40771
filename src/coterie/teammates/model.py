"""What the loop knows of a model: a request, an answer, and the ways in which there is none.

ModelError                1   any of these
├── Cancelled             1   the wait was ended from outside; nothing of the call counts
├── Paused                7   the service is limited or out of reach for longer than we wait; resumable
├── KeyRefused            6   401, 402, 403, no credit
├── UnknownModel          2   404
├── BadRequest            1   another 4xx: the same request would fail again
│   └── PromptTooLong     1   the conversation has to be made shorter first
└── Unavailable           1   one try failed in passing; tried again, so it is seen only as the cause of Paused
    └── NotWhole          1   the answer broke off, or was no answer of the Messages API
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from coterie.errors import CoterieError, KeyOrBilling, UsageError
from coterie.teammates.cancel import Cancel

__all__ = [
    "Answer",
    "BadRequest",
    "Call",
    "Cancelled",
    "KeyRefused",
    "Model",
    "ModelError",
    "ModelRequest",
    "NotWhole",
    "Paused",
    "PromptTooLong",
    "ScriptedModel",
    "Unavailable",
    "UnknownModel",
    "Usage",
    "Wait",
    "reply",
]


class ModelError(CoterieError):
    """The model gave no answer."""


class Cancelled(ModelError):
    """The model call was cancelled."""


class Paused(ModelError):
    """The model's service cannot be used for now: `coterie resume` goes on later."""

    exit_code: ClassVar[int] = 7

    def __init__(self, message: str | None = None, *, until: datetime | None = None) -> None:
        super().__init__(message)
        self.until = until
        """When the service said it can be used again (aware), or None where it did not say."""


class KeyRefused(ModelError, KeyOrBilling):
    """The API key was refused, or there is no credit."""


class UnknownModel(ModelError, UsageError):
    """The service knows no model of this name."""


class BadRequest(ModelError):
    """The service refused the request; the same one would be refused again."""


class PromptTooLong(BadRequest):
    """The conversation is longer than the model can take."""


class Unavailable(ModelError):
    """One try failed in a way that passes."""

    def __init__(
        self,
        message: str | None = None,
        *,
        kind: Literal["limited", "overloaded", "other"] = "other",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        """Seconds that the service asked us to wait, or None."""


class NotWhole(Unavailable):
    """The model's answer broke off before its end."""


class _Noun(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelRequest(_Noun):
    """One question to a model. Cache marks are the client's affair: none here."""

    model: str
    system: str
    tools: tuple[dict[str, Any], ...] = ()
    messages: tuple[dict[str, Any], ...]
    # most tokens the answer may have
    max_tokens: int
    # "<team>/<member>#<instance>": tells the members apart at a proxy
    user_id: str


class Usage(_Noun):
    """Tokens of one call. `input_tokens` are those neither read from nor written to the cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """All tokens, cached ones too."""
        return self.input_tokens + self.output_tokens + self.cache_read + self.cache_write


class Call(NamedTuple):
    """One tool call of an answer."""

    id: str
    name: str
    input: dict[str, Any]


class Answer(_Noun):
    """A whole answer. Never made from a stream that broke off."""

    # the blocks exactly as received, unknown kinds and signatures too: append them to the conversation as they are
    content: list[dict[str, Any]]
    # None where the service named none
    stop_reason: str | None
    usage: Usage = Usage()
    # dollars; None where the price of the model is not known
    usd: float | None = None
    # the model that answered: the fallback's name where that one did
    model: str = ""
    id: str = ""
    # tool call id -> its input as it was written, where that is no JSON object: the block itself has {}, so that it
    # can be sent back; answer such a call with an error and do not run it
    broken: dict[str, str] = {}

    @property
    def calls(self) -> list[Call]:
        """The calls of our tools, in order; those in `broken` too."""
        return [Call(b["id"], b["name"], b["input"]) for b in self.content if b.get("type") == "tool_use"]

    @property
    def text(self) -> str:
        """What it says, without thinking and calls."""
        return "\n".join(b["text"] for b in self.content if b.get("type") == "text" and b.get("text"))


class Wait(_Noun):
    """Why a model call is waiting, for whoever watches. Text that was streamed before belongs to a try that is void."""

    reason: str
    # of this wait
    seconds: float
    # when it ends, by the wall clock (aware): to be shown, not to be decided on
    until: datetime
    # tries made so far
    tries: int = 0


class Model(Protocol):
    """Something that answers."""

    def ask(
        self,
        request: ModelRequest,
        *,
        cancel: Cancel,
        on_text: Callable[[str], None] | None = None,
        on_wait: Callable[[Wait], None] | None = None,
    ) -> Answer:
        """Answer `request`, or raise a ModelError. May be called from many threads at once.

        Setting `cancel` ends it with Cancelled within a second, whatever it waits for; a late answer is dropped.
        `on_text` gets the text as it comes, perhaps in another thread, also that of a try which fails later;
        `on_wait` is called before each wait. What they raise comes out of `ask`.
        """
        ...

    def knows_price(self, model: str) -> bool:
        """Whether answers of `model` come with what they cost: without, a budget in money cannot be kept."""
        ...


class ScriptedModel:
    """A Model whose answers a function gives.

    The function must be pure, of the request alone, and not keep count: asked again after a kill it has to say the
    same. It is called in the asking thread, from several at once, and is not interrupted by `cancel`.
    """

    def __init__(self, respond: Callable[[ModelRequest], Answer]) -> None:
        self._respond = respond

    def knows_price(self, model: str) -> bool:
        """What its answers cost is for the function to say."""
        return True

    def ask(
        self,
        request: ModelRequest,
        *,
        cancel: Cancel,
        on_text: Callable[[str], None] | None = None,
        on_wait: Callable[[Wait], None] | None = None,
    ) -> Answer:
        """What the function answers; Cancelled if `cancel` is set before or meanwhile."""
        if cancel.is_set():
            raise Cancelled(f"The model call was cancelled: {cancel.reason}")
        answer = self._respond(request)
        if cancel.is_set():
            raise Cancelled(f"The model call was cancelled: {cancel.reason}")
        if on_text is not None and answer.text:
            on_text(answer.text)
        return answer


def reply(
    request: ModelRequest,
    text: str = "",
    *calls: tuple[str, dict[str, Any]],
    stop_reason: str | None = None,
    usage: Usage | None = None,
) -> Answer:
    """An Answer for a ScriptedModel: a text, and calls as (tool name, input).

    Ids come from the length of the conversation, so the same request gets the same ids and no two turns share one.
    """
    turn = len(request.messages)
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{turn}_{n}", "name": name, "input": arguments}
        for n, (name, arguments) in enumerate(calls)
    ]
    return Answer(
        content=content,
        stop_reason=stop_reason or ("tool_use" if calls else "end_turn"),
        usage=usage or Usage(),
        model=request.model,
        id=f"msg_{turn}",
    )

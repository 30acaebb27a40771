"""The real model: anything that speaks the Messages API, through the anthropic SDK. The SDK's only door."""

from __future__ import annotations

import gc
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from coterie import files
from coterie.errors import KeyOrBilling, UsageError
from coterie.teammates.cancel import Cancel
from coterie.teammates.limits import Limiter
from coterie.teammates.model import (
    Answer,
    Cancelled,
    ModelError,
    ModelRequest,
    NotWhole,
    Paused,
    Unavailable,
    Usage,
    Wait,
)
from coterie.teammates.model_stream import Assembly, classify, retry_after, whole_text
from coterie.teammates.prices import Prices

if TYPE_CHECKING:
    import anthropic
    import httpx2

__all__ = ["AnthropicModel"]

BASE_URL = "https://api.anthropic.com"

# No block of these kinds may carry a cache mark (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching).
_UNMARKED = {"thinking", "redacted_thinking"}
_MARK = {"type": "ephemeral"}


class AnthropicModel:
    """A Model behind the Messages API. One for all threads of a process; the SDK is imported at the first call.

    `team_size` is how many members ask at once, `limiter` the team's brake. Retries are ours: `max_tries` of one
    model in a row, waiting about `first_delay` seconds, twice as long each time up to `longest_delay`, or what the
    service asks for up to the limiter's cap; then Paused. After `overloads` answers "overloaded" in a row the
    `fallback_model`, if any, is asked instead, for this one answer. `read_timeout` is the longest silence of the
    service, in seconds. `report` is told once of each model without a price.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str | None = None,
        *,
        team_size: int,
        limiter: Limiter,
        fallback_model: str | None = None,
        max_tries: int = 10,
        overloads: int = 3,
        first_delay: float = 0.5,
        longest_delay: float = 30.0,
        connect_timeout: float = 10.0,
        read_timeout: float = 300.0,
        report: Callable[[str], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not api_key.strip():
            raise KeyOrBilling("No API key: set ANTHROPIC_API_KEY, or put it into .env.")
        if not (base_url or BASE_URL).startswith(("http://", "https://")):
            raise UsageError(f"base_url: expected http://… or https://…, found {base_url!r}")
        self._api_key = api_key.strip()
        files.keep_secret(self._api_key)
        # always given, so that the SDK does not take one from the environment for a key that is not meant for it
        self._base_url = base_url or BASE_URL
        self._team_size = team_size
        self._limiter = limiter
        self._fallback = fallback_model
        self._max_tries = max_tries
        self._overloads = overloads
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._timeouts = (connect_timeout, read_timeout)
        self._prices = Prices(report)
        self._jitter = jitter
        self._lock = threading.Lock()
        self._made: anthropic.Anthropic | None = None

    def knows_price(self, model: str) -> bool:
        """Whether the price list has `model`."""
        return self._prices.of(model, Usage(input_tokens=1)) is not None

    def ask(
        self,
        request: ModelRequest,
        *,
        cancel: Cancel,
        on_text: Callable[[str], None] | None = None,
        on_wait: Callable[[Wait], None] | None = None,
    ) -> Answer:
        """As the protocol says; `on_text` is called in a thread of the call's own."""
        model, tries, overloads = request.model, 0, 0
        while True:
            self._limiter.admit(cancel, on_wait, tries=tries)
            try:
                answer = self._try(request, model, cancel, on_text)
            except Unavailable as error:
                fault = error
            else:
                self._limiter.went_well()
                return answer
            tries += 1
            overloads = overloads + 1 if fault.kind == "overloaded" else 0
            if self._fallback and model != self._fallback and overloads >= self._overloads:
                self._tell(on_wait, f"{fault}; {self._fallback} is asked instead of {model}", 0.0, tries)
                model, tries, overloads = self._fallback, 0, 0
                continue
            self._wait(fault, tries, cancel, on_wait)

    def _wait(self, fault: Unavailable, tries: int, cancel: Cancel, on_wait: Callable[[Wait], None] | None) -> None:
        """Wait before the next try: here, or with everybody at the limiter. Raises Paused if there is none."""
        delay = min(self._first_delay * 2.0 ** (tries - 1), self._longest_delay) * (0.5 + self._jitter() / 2)
        if fault.retry_after is not None:
            delay = max(delay, fault.retry_after + self._jitter() * min(1.0, fault.retry_after / 10))
        asked_too_long = fault.retry_after is not None and fault.retry_after > self._limiter.cap
        if fault.kind == "limited":
            self._limiter.slow(delay)
        if asked_too_long or tries >= self._max_tries:
            until = self._limiter.clock.wall() + timedelta(seconds=delay)
            why = f"it asks to wait until {until:%Y-%m-%d %H:%M:%S %Z}" if asked_too_long else f"{tries} tries failed"
            raise Paused(
                f"The model's service cannot be used for now, {why}: {fault}. Nothing is lost: resume later.",
                until=until if asked_too_long else None,
            ) from fault
        if fault.kind != "limited":
            self._tell(on_wait, str(fault), delay, tries)
            if self._limiter.clock.sleep(delay, cancel):
                raise Cancelled(f"The model call was cancelled: {cancel.reason}")

    def _tell(self, on_wait: Callable[[Wait], None] | None, reason: str, seconds: float, tries: int) -> None:
        if on_wait is not None:
            until = self._limiter.clock.wall() + timedelta(seconds=seconds)
            on_wait(Wait(reason=reason, seconds=seconds, until=until, tries=tries))

    def _try(self, request: ModelRequest, model: str, cancel: Cancel, on_text: Callable[[str], None] | None) -> Answer:
        """One try in a thread of its own; leaves it behind, dead, if `cancel` is set first."""
        call = _Try(on_text)
        remove = cancel.on(lambda: call.kill(cancel.reason))
        try:
            threading.Thread(
                target=self._run, args=(call, request, model), name=f"model {request.user_id}", daemon=True
            ).start()
            call.over.wait()
        except BaseException:
            call.kill("interrupted")
            raise
        finally:
            remove()
        return call.answer()

    def _run(self, call: _Try, request: ModelRequest, model: str) -> None:
        try:
            call.settle(self._receive(call, self._client(), build(request, model)))
        except BaseException as error:
            # all of it, so that ask() never waits for a thread that is gone: what is no fault of the service is
            # raised there as it is
            call.settle(self._ours(error, model))

    def _receive(self, call: _Try, client: anthropic.Anthropic, request: dict[str, Any]) -> Answer:
        from anthropic import Stream

        _current.call = call
        got = Assembly()
        # The SDK does the transport, through its door for any request: its typed door would reshape what it does not
        # know, on the way there and back, and warns in Python's way about old models.
        with client.post(
            "/v1/messages", cast_to=object, body={**request, "stream": True}, stream=True, stream_cls=Stream[object]
        ) as stream:
            for event in Stream.raw_events(stream.response):
                if call.dead:
                    break
                if event.data and (text := got.feed(event.data)):
                    call.say(text)
                if got.done:
                    break
            if not got.done:
                raise NotWhole("the answer broke off before its end")
            content, broken = got.content()
            model = got.model or str(request["model"])
            return Answer(
                content=content,
                stop_reason=got.stop_reason,
                usage=got.usage,
                usd=self._prices.of(model, got.usage),
                model=model,
                id=got.id,
                broken=broken,
            )

    def _ours(self, error: BaseException, model: str) -> BaseException:
        """The error of ours for one of the SDK's or of the transport; any other as it is."""
        import anthropic
        import httpx2

        if isinstance(error, anthropic.APIStatusError):
            wait = retry_after(error.response.headers, self._limiter.clock.wall())
            body = error.body if error.body is not None else error.message
            ours: ModelError = classify(
                self._hidden(body), error.status_code, model=model, where=self._base_url, wait=wait
            )
        elif isinstance(error, anthropic.APIConnectionError | httpx2.TransportError | httpx2.StreamError):
            cause = error.__cause__ or error
            ours = Unavailable(f"no connection to {self._base_url}: {type(cause).__name__}: {cause}")
        elif isinstance(error, httpx2.DecodingError | UnicodeDecodeError):
            ours = NotWhole(f"the stream of the answer is damaged: {error}")
        else:
            return error
        ours.__cause__ = error
        return ours

    def _hidden(self, body: object) -> object:
        """`body` without the key, should a server repeat it."""
        if isinstance(body, str):
            return body.replace(self._api_key, "(the key)")
        if isinstance(body, Mapping):
            return {key: self._hidden(each) for key, each in body.items()}
        return body

    def _client(self) -> anthropic.Anthropic:
        with self._lock:
            if self._made is None:
                with _without_collection():
                    import anthropic
                    import httpx2

                connect, read = self._timeouts
                timeout = httpx2.Timeout(read, connect=connect, pool=connect)
                # A connection serves one call, so that its socket can be found and shut down at any moment, also
                # before there is a response. Twice the team: a call that was left behind may still hold one.
                limits = httpx2.Limits(max_connections=2 * self._team_size, max_keepalive_connections=0)
                self._made = anthropic.Anthropic(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    max_retries=0,
                    timeout=timeout,
                    http_client=anthropic.DefaultHttpxClient(
                        limits=limits, timeout=timeout, event_hooks={"request": [_watch]}
                    ),
                )
            return self._made


@contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage is collected meanwhile: the SDK is a thousand modules, and a sixth of loading it would be that."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def build(request: ModelRequest, model: str) -> dict[str, Any]:
    """The body of the request: cache marks on system, tools and last message. What is given stays as it is."""
    messages = [_sendable(message) for message in request.messages]
    if messages:
        last = dict(messages[-1])
        last["content"] = _marked(last["content"])
        messages[-1] = last
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": messages,
        "metadata": {"user_id": request.user_id},
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": whole_text(request.system), "cache_control": _MARK}]
    if request.tools:
        body["tools"] = [*request.tools[:-1], {**request.tools[-1], "cache_control": _MARK}]
    return body


def _sendable(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the service takes it: it refuses texts without a visible character, and messages without blocks."""
    content = whole_text(message["content"])
    if isinstance(content, list | tuple):
        kept = [b for b in content if b.get("type") != "text" or str(b.get("text", "")).strip()]
        content = kept or [{"type": "text", "text": "(empty)"}]
    elif not content.strip():
        content = "(empty)"
    return {**message, "content": content}


def _marked(content: Any) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for index in reversed(range(len(blocks))):
        if blocks[index].get("type") not in _UNMARKED:
            blocks[index] = {**blocks[index], "cache_control": _MARK}
            break
    return blocks


class _Try:
    """One try, from its thread to the one that waits. What comes first counts: an answer, an error, or its death."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self.over = Cancel()
        self.dead = False
        self._on_text = on_text
        # reentrant: kill may come from a signal handler, in a thread that is just here
        self._lock = threading.RLock()
        self._result: Answer | BaseException | None = None
        self._socket: socket.socket | None = None

    def settle(self, result: Answer | BaseException) -> None:
        """Make it the result, unless there is one already: a dead call's answer goes nowhere."""
        with self._lock:
            if self._result is not None:
                return
            self._result = result
        self.over.set("settled")

    def kill(self, reason: str) -> None:
        """Nothing of it counts from here on. Shuts its socket down, and does not wait for its thread."""
        with self._lock:
            self.dead = True
            mine = self._socket
        self.settle(Cancelled(f"The model call was cancelled: {reason}"))
        _shut(mine)

    def answer(self) -> Answer:
        """The answer, or the error raised."""
        if isinstance(self._result, Answer):
            return self._result
        assert self._result is not None
        raise self._result

    def say(self, text: str) -> None:
        """Hand streamed text on, while it is alive."""
        if self._on_text is not None and not self.dead:
            self._on_text(text)

    def connected(self, name: str, info: Mapping[str, Any]) -> None:
        """The transport's trace: remember the socket of a new connection (the one inside TLS comes last)."""
        if name.endswith(("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")):
            found = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._socket = found if isinstance(found, socket.socket) else self._socket
                dead = self.dead
            if dead:
                _shut(found)


# A try runs in a thread of its own, and its request is sent there.
_current = threading.local()


def _watch(request: httpx2.Request) -> None:
    call: _Try | None = getattr(_current, "call", None)
    if call is not None:
        request.extensions = {**request.extensions, "trace": call.connected}


def _shut(found: socket.socket | None) -> None:
    if found is not None:
        with suppress(OSError):
            # not SSLSocket.shutdown, which takes the TLS state away from the thread that is reading with it; and not
            # close, which would not wake that thread
            socket.socket.shutdown(found, socket.SHUT_RDWR)

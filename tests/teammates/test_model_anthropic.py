"""The real client against a server on loopback that does, request by request, what a test wants."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coterie.errors import KeyOrBilling, UsageError
from coterie.teammates.anthropic_model import AnthropicModel, _Try, build
from coterie.teammates.cancel import Cancel
from coterie.teammates.limits import Clock, Limiter
from coterie.teammates.model import (
    Answer,
    Cancelled,
    KeyRefused,
    Model,
    ModelRequest,
    Paused,
    PromptTooLong,
    ScriptedModel,
    UnknownModel,
    Usage,
    Wait,
)

KEY = "sk-ant-secret-1234"
MESSAGES = ({"role": "user", "content": "hi"},)
REQUEST = ModelRequest(
    model="claude-sonnet-4-5",
    system="Be brief.",
    tools=({"name": "a", "input_schema": {"type": "object"}}, {"name": "b", "input_schema": {"type": "object"}}),
    messages=MESSAGES,
    max_tokens=100,
    user_id="main/ada#1",
)

Handler = BaseHTTPRequestHandler
Act = Callable[[Handler], None]


class Stepped:
    """A clock on which sleeping takes no time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    def sleep(self, seconds: float, cancel: Cancel) -> bool:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds
        return cancel.is_set()


class Server:
    """Answers request n with `acts[n]`, and those after the last with the last."""

    def __init__(self) -> None:
        self.acts: list[Act] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.release = threading.Event()
        self.reached = threading.Event()
        self.hung_up = threading.Event()
        lock = threading.Lock()
        server = self

        class Each(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    server.bodies.append(body)
                    server.headers.append(dict(self.headers.items()))
                    act = server.acts[min(len(server.bodies), len(server.acts)) - 1]
                self.close_connection = True
                act(self)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:  # a client that hangs up is what is tested
                pass

        self._http = Quiet(("127.0.0.1", 0), Each)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()

    def wait_for_hang_up(self, handler: Handler) -> None:
        """Until the client is gone: what an act does that never answers."""
        self.reached.set()
        handler.connection.settimeout(10)
        try:
            gone = handler.connection.recv(1) == b""
        except TimeoutError:
            gone = False
        except OSError:
            gone = True
        if gone:
            self.hung_up.set()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def events(
    *blocks: dict[str, Any], stop_reason: str = "end_turn", model: str = "claude-sonnet-4-5", whole: bool = True
) -> list[dict[str, Any]]:
    """The events of an answer with these blocks."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}
    made: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "msg_1", "model": model, "usage": usage}}]
    for index, block in enumerate(blocks):
        empty, delta = dict(block), None
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        elif block["type"] == "tool_use":
            written = json.dumps(block["input"])
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": written}
        made.append({"type": "content_block_start", "index": index, "content_block": empty})
        if delta:
            made.append({"type": "content_block_delta", "index": index, "delta": delta})
        made.append({"type": "content_block_stop", "index": index})
    if whole:
        made.append({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 20}})
        made.append({"type": "message_stop"})
    return made


def start(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("connection", "close")
    handler.end_headers()


def write(handler: Handler, made: list[dict[str, Any]]) -> None:
    for event in made:
        handler.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    handler.wfile.flush()


def says(text: str, **more: Any) -> Act:
    return streams(events({"type": "text", "text": text}, **more))


def streams(made: list[dict[str, Any]]) -> Act:
    def act(handler: Handler) -> None:
        start(handler)
        write(handler, made)

    return act


def fails(status: int, kind: str = "x", message: str = "why", **headers: str) -> Act:
    def act(handler: Handler) -> None:
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return act


def model_of(server: Server, clock: Clock | None = None, limiter: Limiter | None = None, **more: Any) -> AnthropicModel:
    limiter = limiter or Limiter(clock=clock or Stepped())
    return AnthropicModel(KEY, server.url, team_size=4, limiter=limiter, jitter=lambda: 0.0, **more)


# ------------------------------------------------------------ one whole answer


def test_an_answer_is_whole_with_usage_and_price(server: Server) -> None:
    blocks = [
        {"type": "thinking", "thinking": "t", "signature": "sig", "extra": 1},
        {"type": "text", "text": "Grüße 😀"},
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
        {"type": "dream", "of": ["sheep"]},
    ]
    server.acts = [streams(events(*blocks, stop_reason="tool_use"))]
    said: list[str] = []
    answer = model_of(server).ask(REQUEST, cancel=Cancel(), on_text=said.append)
    assert answer.content == blocks
    assert answer.stop_reason == "tool_use"
    assert answer.usage == Usage(input_tokens=10, output_tokens=20, cache_read=5, cache_write=2)
    assert answer.usd == pytest.approx((10 * 3 + 5 * 0.3 + 2 * 3.75 + 20 * 15) / 1e6)
    assert (answer.model, answer.id) == ("claude-sonnet-4-5", "msg_1")
    assert said == ["Grüße 😀"]


def test_an_answer_does_not_wait_for_the_server_to_hang_up(server: Server) -> None:
    def act(handler: Handler) -> None:
        streams(events({"type": "text", "text": "done"}))(handler)
        server.wait_for_hang_up(handler)

    server.acts = [act]
    begun = time.monotonic()
    assert model_of(server).ask(REQUEST, cancel=Cancel()).text == "done"
    assert time.monotonic() - begun < 8
    assert server.hung_up.wait(5)


def test_the_request_tells_the_member_marks_the_cache_and_samples_nothing(server: Server) -> None:
    server.acts = [says("ok")]
    model_of(server).ask(REQUEST, cancel=Cancel())
    mark = {"type": "ephemeral"}
    assert server.bodies == [
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 100,
            "stream": True,
            "metadata": {"user_id": "main/ada#1"},
            "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
            "tools": [REQUEST.tools[0], {**REQUEST.tools[1], "cache_control": mark}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]}],
        }
    ]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert REQUEST.messages == MESSAGES


def test_what_was_received_is_sent_back_as_it_was_except_for_what_the_service_refuses() -> None:
    said: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "t", "signature": "sig"},
        {"type": "text", "text": ""},
        {"type": "dream", "x": None},
    ]
    messages: tuple[dict[str, Any], ...] = (
        {"role": "user", "content": "half \ud800"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": []},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "thinking", "thinking": "last"}]},
    )
    body = build(REQUEST.model_copy(update={"messages": messages, "tools": (), "system": ""}), "m")
    assert body["messages"] == [
        {"role": "user", "content": "half \N{REPLACEMENT CHARACTER}"},
        {"role": "assistant", "content": [said[0], said[2]]},
        {"role": "user", "content": [{"type": "text", "text": "(empty)"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
                {"type": "thinking", "thinking": "last"},
            ],
        },
    ]
    assert "tools" not in body
    assert "system" not in body


def test_an_input_that_is_no_json_comes_back_as_broken_and_can_be_sent_again(server: Server) -> None:
    made = events({"type": "tool_use", "id": "t1", "name": "bash", "input": {}}, stop_reason="max_tokens")
    made[2]["delta"]["partial_json"] = '{"command": "rm -r'
    server.acts = [streams(made)]
    answer = model_of(server).ask(REQUEST, cancel=Cancel())
    assert answer.broken == {"t1": '{"command": "rm -r'}
    assert answer.calls[0].input == {}
    assert answer.stop_reason == "max_tokens"


def test_many_members_ask_through_one_client(server: Server) -> None:
    server.acts = [says("ok")]
    shared = model_of(server)
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(shared.ask(REQUEST, cancel=Cancel())), daemon=True)
        for _ in range(16)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert [each.text for each in answers] == ["ok"] * 16


@pytest.mark.parametrize("real", [True, False])
def test_the_real_and_the_scripted_model_keep_the_same_promises(server: Server, real: bool) -> None:
    server.acts = [says("hello")]
    answer = Answer(content=[{"type": "text", "text": "hello"}], stop_reason="end_turn", model=REQUEST.model)
    model: Model = model_of(server) if real else ScriptedModel(lambda _: answer)
    said: list[str] = []
    got = model.ask(REQUEST, cancel=Cancel(), on_text=said.append)
    assert (got.text, got.stop_reason, got.model, got.broken) == ("hello", "end_turn", REQUEST.model, {})
    assert said == ["hello"]
    gone = Cancel()
    gone.set("before")
    with pytest.raises(Cancelled, match="before"):
        model.ask(REQUEST, cancel=gone)

    def watcher(_: str) -> None:
        raise LookupError("the watcher's own fault")

    with pytest.raises(LookupError, match="watcher"):
        model.ask(REQUEST, cancel=Cancel(), on_text=watcher)


# ------------------------------------------------------------ tried again


def cut(handler: Handler) -> None:
    start(handler)
    write(handler, events({"type": "text", "text": "half"}, whole=False))
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    handler.connection.close()  # a reset, not an end


def hang_up(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def garbage(handler: Handler) -> None:
    start(handler)
    handler.wfile.write(b'event: message_start\ndata: {"type": "message_st\n\n')


def not_utf8(handler: Handler) -> None:
    start(handler)
    handler.wfile.write(b"event: message_start\ndata: \xff\xfe\n\n")


def page(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/html")
    handler.send_header("content-length", "13")
    handler.end_headers()
    handler.wfile.write(b"<html></html>")


def error_event(kind: str) -> Act:
    failed = {"type": "error", "error": {"type": kind, "message": "in the stream"}}
    return streams([*events({"type": "text", "text": "half"}, whole=False), failed])


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(streams(events({"type": "text", "text": "half"}, whole=False)), id="no message_stop"),
        pytest.param(streams(events({"type": "text", "text": "half"})[:-1]), id="all but message_stop"),
        pytest.param(cut, id="reset in the stream"),
        pytest.param(hang_up, id="no response"),
        pytest.param(garbage, id="damaged event"),
        pytest.param(not_utf8, id="not UTF-8"),
        pytest.param(page, id="a page of a gateway"),
        pytest.param(streams([]), id="empty stream"),
        pytest.param(error_event("overloaded_error"), id="overloaded in the stream"),
        pytest.param(error_event("api_error"), id="error in the stream"),
        pytest.param(error_event("rate_limit_error"), id="limited in the stream"),
        pytest.param(fails(500), id="500"),
        pytest.param(fails(503), id="503"),
        pytest.param(fails(529, "overloaded_error"), id="529"),
        pytest.param(fails(408), id="408"),
        pytest.param(fails(429), id="429 without retry-after"),
    ],
)
def test_a_try_that_fails_in_passing_is_void_and_made_again(server: Server, fault: Act) -> None:
    server.acts = [fault, fault, says("whole")]
    clock = Stepped()
    waits: list[Wait] = []
    answer = model_of(server, clock).ask(REQUEST, cancel=Cancel(), on_wait=waits.append)
    assert answer.content == [{"type": "text", "text": "whole"}]
    assert answer.usage.output_tokens == 20
    assert len(server.bodies) == 3
    assert server.bodies[0] == server.bodies[2]
    assert [each.tries for each in waits] == [1, 2]
    assert clock.slept == [each.seconds for each in waits]


def test_delays_double_up_to_the_longest_and_end_in_a_pause(server: Server) -> None:
    server.acts = [fails(500)]
    clock = Stepped()
    model = model_of(server, clock, max_tries=6, first_delay=1.0, longest_delay=5.0)
    with pytest.raises(Paused, match="6 tries failed") as paused:
        model.ask(REQUEST, cancel=Cancel())
    assert clock.slept == [0.5, 1.0, 2.0, 2.5, 2.5]
    assert len(server.bodies) == 6
    assert paused.value.exit_code == 7
    assert paused.value.until is None


def test_a_silent_server_is_left_after_the_read_timeout(server: Server) -> None:
    server.acts = [server.wait_for_hang_up, says("ok")]
    assert model_of(server, read_timeout=0.2).ask(REQUEST, cancel=Cancel()).text == "ok"
    assert server.hung_up.wait(5)


def test_a_server_that_is_not_there_is_named(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    model = AnthropicModel(KEY, url, team_size=1, limiter=Limiter(clock=Stepped()), max_tries=2)
    with pytest.raises(Paused, match=url):
        model.ask(REQUEST, cancel=Cancel())


# ------------------------------------------------------------ limits and overload


def test_after_a_429_the_whole_team_waits_as_long_as_asked_and_none_fails(server: Server) -> None:
    clock = Stepped()
    limiter = Limiter(clock=clock)
    server.acts = [fails(429, "rate_limit_error", retry_after="30"), says("ok")]
    waits: list[Wait] = []
    limited = model_of(server, limiter=limiter)
    assert limited.ask(REQUEST, cancel=Cancel(), on_wait=waits.append).text == "ok"
    assert clock.now >= 130
    assert waits[0].seconds == 30
    server.bodies.clear()
    limiter.slow(60)  # as another member would that ran into a limit
    before = clock.now
    server.acts = [says("ok")]
    limited.ask(REQUEST, cancel=Cancel())
    assert clock.now >= before + 60


@pytest.mark.parametrize("status", [429, 529, 503])
@pytest.mark.parametrize("asked", ["86400", "Mon, 05 Jan 2099 00:00:00 GMT", "121"])
def test_a_retry_after_above_the_cap_is_not_slept_but_paused_and_said(server: Server, status: int, asked: str) -> None:
    clock = Stepped()
    server.acts = [fails(status, retry_after=asked), says("never")]
    model = model_of(server, clock)
    with pytest.raises(Paused) as paused:
        model.ask(REQUEST, cancel=Cancel())
    assert clock.slept == []
    assert paused.value.until is not None
    assert f"{paused.value.until:%Y-%m-%d}" in str(paused.value)
    assert len(server.bodies) == 1
    if status == 429:  # the others do not even ask
        with pytest.raises(Paused):
            model.ask(REQUEST, cancel=Cancel())
        assert len(server.bodies) == 1


def test_a_retry_after_at_the_cap_is_slept(server: Server) -> None:
    clock = Stepped()
    server.acts = [fails(429, retry_after="120"), says("ok")]
    assert model_of(server, clock).ask(REQUEST, cancel=Cancel()).text == "ok"
    assert clock.slept == [120]


def test_after_repeated_overload_the_fallback_is_asked_for_this_answer_only(server: Server) -> None:
    overloaded = fails(529, "overloaded_error")
    server.acts = [overloaded, overloaded, overloaded, says("ok", model="claude-haiku-4-5"), says("ok")]
    model = model_of(server, fallback_model="claude-haiku-4-5")
    waits: list[Wait] = []
    answer = model.ask(REQUEST, cancel=Cancel(), on_wait=waits.append)
    assert answer.model == "claude-haiku-4-5"
    assert [each["model"] for each in server.bodies] == ["claude-sonnet-4-5"] * 3 + ["claude-haiku-4-5"]
    assert "claude-haiku-4-5 is asked instead" in waits[-1].reason
    model.ask(REQUEST, cancel=Cancel())
    assert server.bodies[-1]["model"] == "claude-sonnet-4-5"


def test_overload_without_end_is_a_pause_with_and_without_a_fallback(server: Server) -> None:
    server.acts = [fails(529, "overloaded_error")]
    with pytest.raises(Paused, match="overloaded"):
        model_of(server).ask(REQUEST, cancel=Cancel())
    assert len(server.bodies) == 10
    server.bodies.clear()
    with pytest.raises(Paused, match="overloaded"):
        model_of(server, fallback_model="other").ask(REQUEST, cancel=Cancel())
    assert [each["model"] for each in server.bodies] == [REQUEST.model] * 3 + ["other"] * 10


# ------------------------------------------------------------ not tried again


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (fails(401, "authentication_error", f"invalid x-api-key {KEY}"), KeyRefused),
        (fails(402, "billing_error", KEY), KeyRefused),
        (fails(403, "permission_error", KEY), KeyRefused),
        (fails(400, "invalid_request_error", "Your credit balance is too low"), KeyRefused),
        (fails(400, "invalid_request_error", "prompt is too long: 3 > 2"), PromptTooLong),
        (fails(404, "not_found_error", "model: claude-sonnet-4-5"), UnknownModel),
    ],
)
def test_a_refusal_is_said_at_once_and_without_the_key(server: Server, act: Act, expected: type[Exception]) -> None:
    server.acts = [act]
    clock = Stepped()
    with pytest.raises(expected) as raised:
        model_of(server, clock).ask(REQUEST, cancel=Cancel())
    assert type(raised.value) is expected
    assert KEY not in str(raised.value)
    assert len(server.bodies) == 1
    assert clock.slept == []


def test_without_a_key_or_with_no_url_there_is_no_model() -> None:
    with pytest.raises(KeyOrBilling):
        AnthropicModel("  ", team_size=1, limiter=Limiter())
    with pytest.raises(UsageError, match="localhost"):
        AnthropicModel(KEY, "localhost:1", team_size=1, limiter=Limiter())


# ------------------------------------------------------------ cancel


def cancelled(model: AnthropicModel, cancel: Cancel, ready: threading.Event, **more: Any) -> float:
    """Ask, set `cancel` once `ready` is set, and answer how long (seconds) the asking took to end after that."""
    ended: list[object] = []

    def ask() -> None:
        try:
            ended.append(model.ask(REQUEST, cancel=cancel, **more))
        except Cancelled as error:
            ended.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert ready.wait(10)
    begun = time.monotonic()
    cancel.set("Ctrl-C")
    asking.join(5)
    took = time.monotonic() - begun
    assert len(ended) == 1
    assert isinstance(ended[0], Cancelled)
    assert "Ctrl-C" in str(ended[0])
    return took


def test_cancel_ends_a_call_that_waits_for_its_response_and_shuts_its_socket(server: Server) -> None:
    server.acts = [server.wait_for_hang_up]
    assert cancelled(model_of(server), Cancel(), server.reached) < 1
    assert server.hung_up.wait(2)


def test_cancel_ends_a_call_in_the_middle_of_its_stream_and_shuts_its_socket(server: Server) -> None:
    def act(handler: Handler) -> None:
        start(handler)
        write(handler, events({"type": "text", "text": "half"}, whole=False))
        server.wait_for_hang_up(handler)

    server.acts = [act]
    heard = threading.Event()
    assert cancelled(model_of(server), Cancel(), heard, on_text=lambda _: heard.set()) < 1
    assert server.hung_up.wait(2)


@pytest.mark.parametrize("act", [fails(500), fails(429, retry_after="60")])
def test_cancel_ends_a_back_off_within_a_second(server: Server, act: Act) -> None:
    server.acts = [act]
    waiting = threading.Event()
    model = model_of(server, limiter=Limiter(), first_delay=60.0, longest_delay=60.0)
    assert cancelled(model, Cancel(), waiting, on_wait=lambda _: waiting.set()) < 1
    assert len(server.bodies) == 1


def test_nothing_of_a_call_counts_after_its_cancel_not_even_what_had_arrived(server: Server) -> None:
    texts = [{"type": "text", "text": each} for each in ("one", "two", "three")]
    server.acts = [streams(events(*texts))]
    cancel = Cancel()
    said: list[str] = []

    def heard(text: str) -> None:
        said.append(text)
        cancel.set("enough")

    with pytest.raises(Cancelled, match="enough"):
        model_of(server).ask(REQUEST, cancel=cancel, on_text=heard)
    assert said == ["one"]


def test_the_answer_of_a_dead_call_goes_nowhere() -> None:
    said: list[str] = []
    call = _Try(said.append)
    call.kill("dead")
    call.say("late")
    call.settle(Answer(content=[], stop_reason="end_turn"))
    assert said == []
    with pytest.raises(Cancelled):
        call.answer()


def test_calls_that_were_left_behind_do_not_use_up_the_connections(server: Server) -> None:
    model = model_of(server, connect_timeout=2.0)
    for _ in range(10):
        server.acts = [server.wait_for_hang_up]
        server.reached.clear()
        cancelled(model, Cancel(), server.reached)
    server.acts = [says("ok")]
    assert model.ask(REQUEST, cancel=Cancel()).text == "ok"


# ------------------------------------------------------------ what it takes from outside


def test_the_sdk_and_the_prices_are_imported_only_when_a_model_is_called() -> None:
    code = (
        "import sys\n"
        "from coterie.teammates.anthropic_model import AnthropicModel\n"
        "from coterie.teammates.limits import Limiter\n"
        "AnthropicModel('key', team_size=1, limiter=Limiter())\n"
        "print([name for name in ('anthropic', 'httpx2', 'genai_prices') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_environment_does_not_say_where_the_key_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    model = AnthropicModel(KEY, team_size=1, limiter=Limiter())
    assert str(model._client().base_url) == "https://api.anthropic.com"
    server.acts = [says("ok")]
    model_of(server).ask(REQUEST, cancel=Cancel())
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_a_model_without_a_price_is_said_once(server: Server) -> None:
    server.acts = [says("ok", model="local-llm")]
    said: list[str] = []
    model = model_of(server, report=said.append)
    assert model.ask(REQUEST, cancel=Cancel()).usd is None
    model.ask(REQUEST, cancel=Cancel())
    assert len(said) == 1

"""The server, as the real SDK and as a bare socket see it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import pytest

from coterie.demo import Reply, Server, failure, text, tool_use

Serve = Callable[..., Server]
Connect = Callable[[Server], anthropic.Anthropic]
Ask = dict[str, Any]

CALLS = Reply(
    content=(
        text("I look first, ü, then write. " * 5),
        tool_use("read_file", path="a.py"),
        tool_use("write_file", path="b.py", content='print("ä\\n")\n' * 40),
    )
)


def test_a_stream_arrives_in_pieces_and_is_what_was_said(serve: Serve, client: Connect, ask: Ask) -> None:
    with client(serve(CALLS)).messages.stream(**ask) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3
    assert kinds.count("text") > 3 and kinds.count("input_json") > 6
    assert message.stop_reason == "tool_use"
    said = [block.model_dump() for block in message.content]
    assert said[0]["text"] == CALLS.content[0]["text"]
    assert [each["input"] for each in said[1:]] == [each["input"] for each in CALLS.content[1:]]
    assert said[1]["id"] != said[2]["id"] and said[1]["id"].startswith("toolu_")
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 100


def test_raw_events_are_named_and_a_ping_is_among_them(serve: Serve, client: Connect, ask: Ask) -> None:
    with client(serve(CALLS)).messages.with_streaming_response.create(**ask, stream=True) as response:
        lines = [line for line in response.iter_lines() if line]
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    data = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert names == [each["type"] for each in data]
    assert "ping" in names and names[-2:] == ["message_delta", "message_stop"]
    first = next(each for each in data if each["type"] == "content_block_delta" and each["index"] == 1)
    assert first["delta"] == {"type": "input_json_delta", "partial_json": ""}


def test_without_a_stream_the_same_message_comes_whole(serve: Serve, client: Connect, ask: Ask) -> None:
    server = serve(CALLS)
    with client(server).messages.stream(**ask) as stream:
        streamed = stream.get_final_message()
    message = client(server).messages.create(**ask)
    assert [b.model_dump(exclude={"id"}) for b in message.content] == [
        b.model_dump(exclude={"id", "parsed_output"}) for b in streamed.content
    ]
    assert [each["messages"] for each in server.requests] == [ask["messages"]] * 2


def test_the_same_request_gets_the_same_ids_of_calls(serve: Serve, client: Connect, ask: Ask) -> None:
    one, two = serve(CALLS), serve(CALLS)
    ids = [[b.id for b in client(s).messages.create(**ask).content if b.type == "tool_use"] for s in (one, two)]
    other = client(one).messages.create(**{**ask, "messages": [{"role": "user", "content": "go on"}]})
    assert ids[0] == ids[1]
    assert not set(ids[0]) & {b.id for b in other.content if b.type == "tool_use"}


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.InternalServerError, "overloaded_error"),
    ],
)
def test_an_error_has_the_shape_of_the_api(
    serve: Serve, client: Connect, ask: Ask, status: int, error: type[anthropic.APIStatusError], kind: str
) -> None:
    server = serve(failure(status, "because", retry_after=7))
    with pytest.raises(error) as caught:
        client(server).messages.create(**ask)
    assert caught.value.status_code == status
    assert caught.value.body["error"] == {"type": kind, "message": "because"}
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.request_id.startswith("req_")


def test_an_error_can_come_inside_a_good_stream(serve: Serve, client: Connect, ask: Ask) -> None:
    server = serve(Reply(content=(text("a long answer " * 20),), fail_after=5, message="Overloaded"))
    with pytest.raises(anthropic.APIStatusError) as caught:
        with client(server).messages.stream(**ask) as stream:
            stream.get_final_message()
    assert caught.value.body["error"] == {"type": "overloaded_error", "message": "Overloaded"}


def test_a_connection_can_be_cut_in_the_middle(serve: Serve, client: Connect, ask: Ask) -> None:
    server = serve(Reply(content=(text("a long answer " * 20),), cut_after=4))
    seen = []
    with pytest.raises(Exception, match=r"peer closed|incomplete|disconnect"):
        with client(server).messages.stream(**ask) as stream:
            for event in stream:
                seen.append(event.type)
    assert seen and "message_stop" not in seen


def test_an_answer_can_wait_for_an_event(serve: Serve, client: Connect, ask: Ask) -> None:
    gate = threading.Event()
    server = serve(Reply(content=(text("at last " * 20),), stall=gate, stall_after=3))
    seen = []
    with client(server).messages.stream(**ask) as stream:
        for event in stream:
            seen.append(event.type)
            if len(seen) == 2:
                gate.set()
    assert seen[-1] == "message_stop"


def test_max_tokens_cuts_a_call_in_the_middle(serve: Serve, client: Connect, ask: Ask) -> None:
    server = serve(Reply(content=(tool_use("write_file", path="a.py", content="x" * 300),), stop_reason="max_tokens"))
    pieces = []
    with client(server).messages.with_streaming_response.create(**ask, stream=True) as response:
        for line in response.iter_lines():
            if line.startswith("data: ") and "partial_json" in line:
                pieces.append(json.loads(line.removeprefix("data: "))["delta"]["partial_json"])
    with pytest.raises(json.JSONDecodeError):
        json.loads("".join(pieces))


def test_a_script_that_raises_is_a_fault_of_the_server(client: Connect, ask: Ask) -> None:
    def broken(request: dict[str, Any]) -> Reply:
        raise LookupError("no such line")

    with Server(broken) as server:
        with pytest.raises(anthropic.InternalServerError, match="no such line"):
            client(server).messages.create(**ask)
    assert [type(each) for each in server.faults] == [LookupError]


def test_cached_tokens_follow_the_marks(serve: Serve, client: Connect, ask: Ask) -> None:
    mark = {"type": "ephemeral"}
    system = [{"type": "text", "text": "rules " * 500, "cache_control": mark}]
    connected = client(serve())
    turns: list[dict[str, Any]] = []
    usages = []
    for turn in range(3):
        turns.append({"role": "user", "content": [{"type": "text", "text": f"{turn} " * 200, "cache_control": mark}]})
        usages.append(connected.messages.create(**{**ask, "system": system, "messages": turns}).usage)
        del turns[-1]["content"][0]["cache_control"]
        turns.append({"role": "assistant", "content": "yes"})
    first, second, third = usages
    assert first.cache_read_input_tokens == 0 and first.cache_creation_input_tokens > 800
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert 0 < second.cache_creation_input_tokens < 200
    assert third.cache_read_input_tokens == second.cache_read_input_tokens + second.cache_creation_input_tokens
    assert connected.messages.create(**ask).usage.cache_read_input_tokens == 0


def test_64_clients_are_answered_at_the_same_time(serve: Serve, ask: Ask) -> None:
    together = threading.Barrier(64)

    def respond(request: dict[str, Any]) -> Reply:
        together.wait(20)
        return Reply(content=(text(request["messages"][0]["content"]),))

    server = serve(respond=respond)

    def one(number: int) -> list[str]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        said = []
        for turn in range(2):  # the connection is kept
            body = json.dumps({**ask, "messages": [{"role": "user", "content": f"{number} {turn}"}]})
            connection.request("POST", "/v1/messages", body, {"x-api-key": "x", "anthropic-version": "2023-06-01"})
            said.append(json.loads(connection.getresponse().read())["content"][0]["text"])
        connection.close()
        return said

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(one, range(64))) == [[f"{n} 0", f"{n} 1"] for n in range(64)]


def test_a_client_that_hangs_up_leaves_nothing_behind(serve: Serve, ask: Ask) -> None:
    server = serve(Reply(content=(text("word " * 2000),)), pace=30.0)
    body = json.dumps({**ask, "stream": True}).encode()
    lines = ["POST /v1/messages HTTP/1.1", "host: x", "x-api-key: x", "anthropic-version: x"]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""])
    for sent in (b"", b"POST /v1", head.encode(), head.encode() + body):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(sent)
            if sent.endswith(body):
                assert connection.recv(10) == b"HTTP/1.1 2"
    server.close()
    assert server.faults == []


def test_closing_ends_what_is_open_at_once(ask: Ask) -> None:
    with Server(lambda request: Reply(content=(text("x " * 500),), stall=threading.Event(), stall_after=2)) as server:
        client = anthropic.Anthropic(api_key="x", base_url=server.url, max_retries=0)
        with client, client.messages.with_streaming_response.create(**ask, stream=True) as response:
            lines = response.iter_lines()
            next(lines)
            start = time.monotonic()
            server.close()
            with pytest.raises(Exception, match=r"closed|incomplete"):
                list(lines)
            assert time.monotonic() - start < 3
    server.close()


def test_a_server_that_is_entered_again_is_found_where_it_was(client: Connect, ask: Ask) -> None:
    server = Server(lambda request: Reply(content=(text("hello"),)))
    with server:
        url = server.url
    with server:
        assert server.url == url
        assert client(server).messages.create(**ask).content[0].text == "hello"


def test_pace_spreads_an_answer_over_time(serve: Serve, client: Connect, ask: Ask) -> None:
    server = serve(pace=0.3)
    start = time.monotonic()
    with client(server).messages.stream(**ask) as stream:
        stream.until_done()
    assert 0.2 < time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "kind"),
    [
        ("GET", "/v1/messages", {}, None, 404, "not_found_error"),
        ("POST", "/v1/complete", {"x-api-key": "x"}, "{}", 404, "not_found_error"),
        ("POST", "/v1/messages", {}, "{}", 401, "authentication_error"),
        ("POST", "/v1/messages", {"x-api-key": "x"}, "{}", 400, "invalid_request_error"),
        ("POST", "/v1/messages", {"x-api-key": "x", "anthropic-version": "1"}, "{", 400, "invalid_request_error"),
        ("POST", "/v1/messages", {"x-api-key": "x", "anthropic-version": "1"}, "[]", 400, "invalid_request_error"),
        ("POST", "/v1/messages", {"content-length": "99999999"}, "", 413, "request_too_large"),
    ],
)
def test_what_is_no_request_is_refused_by_status(
    serve: Serve, method: str, path: str, headers: dict[str, str], body: str | None, status: int, kind: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", serve().port, timeout=10)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    assert response.status == status
    assert json.loads(response.read())["error"]["type"] == kind
    connection.close()


def test_an_invalid_request_never_reaches_the_script(serve: Serve, client: Connect, ask: Ask) -> None:
    def never(request: dict[str, Any]) -> Reply:
        raise AssertionError

    server = serve(respond=never)
    with pytest.raises(anthropic.BadRequestError, match="first message"):
        client(server).messages.create(**{**ask, "messages": [{"role": "assistant", "content": "hi"}]})
    assert server.refused == ['messages: first message must use the "user" role']
    assert len(server.requests) == 1

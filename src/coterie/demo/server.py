"""A Messages API server on loopback, whose answers a function gives. It ships: the demo and the tests talk to it.

It speaks what the API speaks (https://docs.anthropic.com/en/api/messages and …/messages-streaming): POST /v1/messages,
as a stream or as one message, errors in the API's shape. It takes any key and keeps nothing on disk.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from coterie.demo.reply import Reply, failure
from coterie.demo.stream import encode, events, whole
from coterie.demo.usage import PromptCache
from coterie.demo.validity import problem

__all__ = ["Respond", "Server"]

Respond = Callable[[dict[str, Any]], Reply]

LARGEST = 32 * 1024 * 1024  # bytes of a request, as the API says
LAST_WAIT = 5.0  # seconds that close() waits for answers that are being given


class Server:
    """Serves while it is entered.

        with Server(respond) as server:
            anthropic.Anthropic(api_key="any", base_url=server.url)

    respond: called with the body of each valid request, from many threads at once; what it raises becomes a 500 and
    stands in `faults`. port: 0 is any free one. pace: seconds over which each answer is streamed, so that a person can
    watch; a request that does not stream is not slowed.

    requests: the body of every request with a key that was JSON, in the order of arrival, refused ones too.
    refused: what was said to those that the API would not take. Both are for tests, and grow.
    """

    def __init__(self, respond: Respond, *, host: str = "127.0.0.1", port: int = 0, pace: float = 0.0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.faults: list[BaseException] = []
        self.respond = respond
        self.pace = pace
        self.cache = PromptCache()
        self.closing = threading.Event()
        self.numbers = itertools.count(1)
        self._address = (host, port)
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.closing.clear()
        self._listener = _Listener(self._address, self)
        # so that a server that is entered again is found where it was
        self._address = (self._address[0], self._listener.server_address[1])
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.05,), name="messages api", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, cut what is open, wait for the answers in hand for a moment. Again: nothing."""
        listener, self._listener = self._listener, None
        if listener is None or self._thread is None:
            return
        self.closing.set()
        listener.shutdown()
        self._thread.join()
        listener.server_close()
        listener.cut_all(LAST_WAIT)

    @property
    def url(self) -> str:
        """The base URL, while it is entered and after."""
        host, port = self._address
        return f"http://{host}:{port}"

    @property
    def port(self) -> int:
        return self._address[1]


class _Listener(ThreadingHTTPServer):
    """The listening socket, with a thread and a socket per connection, all of them known."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], server: Server) -> None:
        self.served = server
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(address, _Connection)

    def server_bind(self) -> None:
        """Without the look-up of a host name that HTTPServer makes, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def cut_all(self, wait: float) -> None:
        with self._changed:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, wait)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a fault of the server's, for its tests to see."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            self.served.faults.append(error)


class _Gone(ConnectionError):
    """The connection is cut, or the server closes."""


class _Connection(BaseHTTPRequestHandler):
    """One connection: requests one after another, until either side has enough."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # events are small and must not wait for one another
    server: _Listener

    @property
    def api(self) -> Server:
        return self.server.served

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        self._error(failure(404, f"Not found: {self.command} {self.path}"))

    do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def do_POST(self) -> None:
        try:
            self._post()
        except ConnectionError:
            self.close_connection = True

    def _post(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            self.close_connection = True  # what follows is not read
            status = 413 if length.isdecimal() else 400
            self._error(failure(status, f"expected a body of at most {LARGEST} bytes and its content-length"))
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _Gone
        if self.path.partition("?")[0] != "/v1/messages":
            self._error(failure(404, f"Not found: {self.path}"))
            return
        bearer = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if not (self.headers.get("x-api-key") or bearer).strip():  # an SDK sends the key in the one or the other
            self._error(failure(401, "x-api-key header is required"))
            return
        if not self.headers.get("anthropic-version"):
            self._error(failure(400, "anthropic-version: header is required"))
            return
        try:
            request = json.loads(body)
        except ValueError as error:
            self._error(failure(400, f"The request body is not valid JSON: {error}"))
            return
        if isinstance(request, dict):
            self.api.requests.append(request)
        if (wrong := problem(request)) is not None:
            self.api.refused.append(wrong)
            self._error(failure(400, wrong))
            return
        try:
            reply = self.api.respond(request)
        except Exception as error:  # the script's fault, told to whoever asked as the API tells its own
            self.api.faults.append(error)
            reply = failure(500, f"the script failed: {type(error).__name__}: {error}")
        self._answer(request, reply)

    # ------------------------------------------------------------ answers

    def _answer(self, request: dict[str, Any], reply: Reply) -> None:
        if reply.stall_after is None:
            self._stall(reply)
        if reply.status != 200:
            self._error(reply)
            return
        usage = self.api.cache.count(request)
        if not request.get("stream"):
            self._send(200, whole(request, reply, usage), reply.headers)
            return
        self._head(
            200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}, reply.headers
        )
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._stream(request, reply, usage)
        self.wfile.write(b"0\r\n\r\n")

    def _stream(self, request: dict[str, Any], reply: Reply, usage: dict[str, int]) -> None:
        all_events = list(events(request, reply, usage))
        pause = self.api.pace / len(all_events)
        for sent, event in enumerate(all_events):
            if reply.cut_after == sent:
                self.connection.shutdown(socket.SHUT_RDWR)
                raise _Gone
            if reply.stall_after == sent:
                self._stall(reply)
            if reply.fail_after == sent:
                error = {"type": reply.error_type, "message": reply.message or reply.error_type}
                self._chunk(encode(("error", {"type": "error", "error": error})))
                return
            self._chunk(encode(event))
            if pause and self.api.closing.wait(pause):
                raise _Gone

    def _stall(self, reply: Reply) -> None:
        while reply.stall is not None and not reply.stall.wait(0.05):
            if self.api.closing.is_set():
                raise _Gone

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _error(self, reply: Reply) -> None:
        error = {"type": reply.error_type, "message": reply.message}
        self._send(reply.status, {"type": "error", "error": error}, reply.headers)

    def _send(self, status: int, body: dict[str, Any], more: dict[str, str]) -> None:
        number = f"req_{next(self.api.numbers):08d}"
        data = json.dumps({**body, "request_id": number} if body.get("type") == "error" else body, ensure_ascii=False)
        encoded = data.encode("utf-8", "replace")
        self._head(status, {"content-type": "application/json", "request-id": number}, more)
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(encoded)

    def _head(self, status: int, *headers: dict[str, str]) -> None:
        self.send_response(status)
        for some in headers:
            for name, value in some.items():
                self.send_header(name, value)
        if self.close_connection:
            self.send_header("connection", "close")

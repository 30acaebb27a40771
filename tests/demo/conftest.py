"""A server on loopback, and the real client for it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import anthropic
import pytest

from coterie.demo import Reply, Server, text

Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers; each has to end without a fault of its own."""
    with ExitStack() as stack:

        def start(*replies: Reply, **options: Any) -> Server:
            """Answers request n with reply n, and those after the last with the last."""
            given = list(replies) or [Reply(content=(text("hello"),))]

            def respond(request: dict[str, Any]) -> Reply:
                return given.pop(0) if len(given) > 1 else given[0]

            server = stack.enter_context(Server(options.pop("respond", respond), **options))
            stack.callback(lambda: server.faults == [] or pytest.fail(f"{server.faults!r}"))
            return server

        yield start


@pytest.fixture
def client() -> Iterator[Callable[[Server], anthropic.Anthropic]]:
    with ExitStack() as stack:

        def connect(server: Server) -> anthropic.Anthropic:
            return stack.enter_context(anthropic.Anthropic(api_key="x", base_url=server.url, max_retries=0))

        yield connect


@pytest.fixture
def ask() -> dict[str, Any]:
    """The least that a request has to have."""
    return {"model": "scripted", "max_tokens": 1000, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="session")
def rehearsal() -> ModuleType:
    """The module beside this one: a team without threads."""
    found = importlib.util.spec_from_file_location("demo_rehearsal", Path(__file__).parent / "rehearsal.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module

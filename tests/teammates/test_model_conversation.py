"""The real client in a conversation with the server that ships, which refuses what the Messages API would refuse."""

from __future__ import annotations

from typing import Any

from coterie.demo.reply import Reply, failure, text, tool_use
from coterie.demo.server import Server
from coterie.teammates.anthropic_model import AnthropicModel
from coterie.teammates.cancel import Cancel
from coterie.teammates.limits import Limiter
from coterie.teammates.model import ModelRequest


def respond(body: dict[str, Any]) -> Reply:
    if len(body["messages"]) == 1:
        return Reply(content=[text("I look."), tool_use("bash", command="ls")])
    return Reply(content=[text("Done.")])


def test_a_conversation_of_two_turns_is_taken_by_the_server_as_it_was_said() -> None:
    with Server(respond) as server:
        model = AnthropicModel("any", server.url, team_size=1, limiter=Limiter())
        request = ModelRequest(
            model="scripted",
            system="Be brief.",
            tools=({"name": "bash", "description": "runs", "input_schema": {"type": "object"}},),
            messages=({"role": "user", "content": "go"},),
            max_tokens=1000,
            user_id="main/ada#1",
        )
        first = model.ask(request, cancel=Cancel())
        assert first.stop_reason == "tool_use"
        (call,) = first.calls
        assert (call.name, call.input) == ("bash", {"command": "ls"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "exit code: 0\n"}
        turns = (
            *request.messages,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        )
        last = model.ask(request.model_copy(update={"messages": turns}), cancel=Cancel())
        assert (last.text, last.stop_reason, last.calls) == ("Done.", "end_turn", [])
        assert server.refused == []
        assert server.requests[1]["messages"][1] == {"role": "assistant", "content": first.content}


def test_an_overloaded_server_is_asked_again() -> None:
    answers = iter([failure(529, retry_after=0.01), failure(429, retry_after=0.01), Reply(content=[text("ok")])])
    with Server(lambda _: next(answers)) as server:
        model = AnthropicModel("any", server.url, team_size=1, limiter=Limiter(), first_delay=0.01)
        request = ModelRequest(
            model="m", system="", messages=({"role": "user", "content": "go"},), max_tokens=10, user_id="main/ada#1"
        )
        assert model.ask(request, cancel=Cancel()).text == "ok"
        assert len(server.requests) == 3

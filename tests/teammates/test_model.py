from __future__ import annotations

import pytest
from pydantic import ValidationError

from coterie.errors import CoterieError, KeyOrBilling, UsageError
from coterie.teammates import model
from coterie.teammates.cancel import Cancel
from coterie.teammates.model import Answer, Call, Cancelled, ModelRequest, ScriptedModel, Usage, reply

REQUEST = ModelRequest(
    model="scripted", system="s", messages=({"role": "user", "content": "hi"},), max_tokens=100, user_id="main/ada#1"
)


def test_a_scripted_model_says_the_same_when_it_is_asked_again() -> None:
    scripted = ScriptedModel(lambda request: reply(request, "look", ("bash", {"command": "ls"}), ("sync", {})))
    first = scripted.ask(REQUEST, cancel=Cancel())
    assert first == scripted.ask(REQUEST, cancel=Cancel())
    assert first.stop_reason == "tool_use"
    assert [(each.name, each.input) for each in first.calls] == [("bash", {"command": "ls"}), ("sync", {})]


def test_no_two_turns_of_a_script_share_an_id() -> None:
    longer = REQUEST.model_copy(update={"messages": (*REQUEST.messages, {}, {})})
    ids = [call.id for request in (REQUEST, longer) for call in reply(request, "", ("a", {}), ("b", {})).calls]
    assert len(set(ids)) == 4


def test_the_calls_of_an_answer_are_those_of_our_tools() -> None:
    answer = Answer(
        content=[
            {"type": "thinking", "thinking": "…", "signature": "s"},
            {"type": "text", "text": "one"},
            {"type": "server_tool_use", "id": "srv", "name": "web", "input": {}},
            {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
            {"type": "dream"},
            {"type": "text", "text": "two"},
        ],
        stop_reason="tool_use",
    )
    assert answer.calls == [Call("t1", "bash", {"command": "ls"})]
    assert answer.text == "one\ntwo"


def test_an_answer_survives_json() -> None:
    answer = Answer(content=[{"type": "x", "y": None}], stop_reason=None, usd=0.25, usage=Usage(input_tokens=3))
    assert Answer.model_validate_json(answer.model_dump_json()) == answer


def test_usage_sums_cached_tokens_too() -> None:
    assert Usage(input_tokens=1, output_tokens=2, cache_read=3, cache_write=4).total == 10


def test_the_nouns_cannot_be_changed_and_take_nothing_unknown() -> None:
    with pytest.raises(ValidationError):
        REQUEST.model = "other"  # type: ignore[misc]  # what is tested
    with pytest.raises(ValidationError):
        Usage(tokens=3)  # type: ignore[call-arg]  # what is tested


def test_a_script_that_is_cancelled_while_it_thinks_has_no_answer() -> None:
    cancel = Cancel()

    def respond(request: ModelRequest) -> Answer:
        cancel.set("meanwhile")
        return reply(request, "late")

    said: list[str] = []
    with pytest.raises(Cancelled, match="meanwhile"):
        ScriptedModel(respond).ask(REQUEST, cancel=cancel, on_text=said.append)
    assert said == []


def test_every_error_has_a_message_and_the_exit_code_of_its_kind() -> None:
    expected = {
        "BadRequest": 1,
        "Cancelled": 1,
        "KeyRefused": 6,
        "ModelError": 1,
        "NotWhole": 1,
        "Paused": 7,
        "PromptTooLong": 1,
        "Unavailable": 1,
        "UnknownModel": 2,
    }
    found = {
        name: each
        for name in model.__all__
        if isinstance(each := getattr(model, name), type) and issubclass(each, CoterieError)
    }
    assert {name: each.exit_code for name, each in found.items()} == expected
    assert all(str(each()) for each in found.values())
    assert issubclass(model.KeyRefused, KeyOrBilling)
    assert issubclass(model.UnknownModel, UsageError)


def test_the_list_of_names_is_sorted() -> None:
    assert model.__all__ == sorted(model.__all__)

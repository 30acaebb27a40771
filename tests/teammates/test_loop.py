"""What a restart does with calls that were begun: each has its effect once, and its answer is not asked for again."""

from __future__ import annotations

from typing import Any

from tests.teammates.stage import Stage

from coterie.mailbox import Note
from coterie.taskboard import NewTask
from coterie.teammates.journal import Answered, Finished, Journal, Opened, Started, read_journal
from coterie.teammates.model import Answer, ModelRequest, reply

CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("c0", "create_tasks", {"tasks": [{"ref": "a", "subject": "A", "role": "nobody"}]}),
    ("c1", "spawn_teammate", {"name": "ada"}),
    ("c2", "send_message", {"to": "human", "text": "hello"}),
    ("c3", "ask_human", {"question": "which one?"}),
    ("c4", "send_message", {"to": "human", "text": "and this"}),
]


def interrupted(stage: Stage, done: int, acted: int) -> None:
    """A lead that was killed: `done` calls have results, `acted` had their effect, one more was started."""
    team = stage.create(stall_timeout=0)
    team.roster.spawn("lead", model="m")
    journal = Journal(team.roster.folder("lead") / "journal.jsonl", instance="lead#1")
    opening = Opened(
        instance="lead#1",
        number=1,
        reason="start",
        task=None,
        epoch=None,
        system="s",
        tools=[],
        model="m",
        opening="# Go",
    )
    journal.append(opening)
    content = [{"type": "tool_use", "id": name, "name": tool, "input": given} for name, tool, given in CALLS]
    answer = Answered(
        instance="lead#1",
        turn=1,
        answer_id="m1",
        content=content,
        stop_reason="tool_use",
        model="m",
        usage={},
        usd=None,
    )
    seq = journal.append(answer).seq
    for index, (name, tool, given) in enumerate(CALLS[: acted + 1]):
        key = f"lead#1/{seq}/{index}"
        journal.append(Started(instance="lead#1", call=name, tool=tool, key=key))
        if index < acted:
            if tool == "create_tasks":
                team.board.create([NewTask(**given["tasks"][0])], by="lead", made_by=key)
            elif tool == "spawn_teammate":
                team.roster.spawn(given["name"], model="m", made_by=key)
            elif tool == "ask_human":
                team.requests.ask_question(
                    sender="lead", sender_instance="lead#1", to="human", text=given["question"], made_by=key
                )
            else:
                note = Note(text=given["text"])
                team.mail.send(note, sender="lead", sender_instance="lead#1", to=given["to"], made_by=key)
        if index < done:
            journal.append(Finished(instance="lead#1", call=name, tool=tool, text="done", is_error=False))


def test_a_call_that_was_interrupted_before_or_after_its_effect_has_it_once(stage: Stage) -> None:
    asked: list[ModelRequest] = []

    def respond(request: ModelRequest) -> Answer:
        asked.append(request)
        return reply(request, "I wait")

    interrupted(stage, done=2, acted=4)
    outcome = stage.go(respond, stall_timeout=0)
    assert outcome.exit_code == 7 and "R1" in outcome.summary
    assert [task.id for task in stage.team.board.tasks()] == ["T1"]
    assert [each.instance for each in stage.team.roster.all()] == ["lead#1", "ada#1"]
    assert [each["body"]["text"] for each in stage.mail("human") if each["kind"] == "note"] == ["hello", "and this"]
    assert [request.id for request in stage.team.requests.all()] == ["R1"]
    first = asked[0].messages
    assert [message["role"] for message in first] == ["user", "assistant", "user"], "the answer is not asked for again"
    assert [block["tool_use_id"] for block in first[2]["content"][:5]] == [name for name, _, _ in CALLS]
    assert not any(block.get("is_error") for block in first[2]["content"])


def test_a_call_that_never_began_is_not_executed_after_the_restart(stage: Stage) -> None:
    asked: list[ModelRequest] = []

    def respond(request: ModelRequest) -> Answer:
        asked.append(request)
        return reply(request, "I wait")

    interrupted(stage, done=2, acted=2)
    stage.go(respond, stall_timeout=0)
    said = [(block["content"], block.get("is_error", False)) for block in asked[0].messages[2]["content"][:5]]
    assert [error for _, error in said] == [False, False, False, True, True]
    assert all("not executed" in text for text, _ in said[3:])
    assert [each["body"]["text"] for each in stage.mail("human")] == ["hello"]
    assert stage.team.requests.all() == []


def test_a_result_of_any_length_leaves_the_conversation_usable(stage: Stage) -> None:
    tasks = [{"ref": f"t{number}", "subject": "x" * 190, "role": "nobody"} for number in range(600)]
    sizes: list[int] = []

    def respond(request: ModelRequest) -> Answer:
        if len(request.messages) == 1:
            return reply(request, "", ("create_tasks", {"tasks": tasks}), ("list_tasks", {}))
        if not sizes:
            sizes.extend(len(block["content"]) for block in request.messages[-1]["content"] if "content" in block)
        return reply(request, "I wait")

    stage.go(respond, stall_timeout=0)
    assert max(sizes) < 130_000 and sizes[1] > 100_000
    records = read_journal(stage.root / "members/lead/journal.jsonl")[0]
    assert any(isinstance(record, Finished) and "left out" in record.text for record in records)


def test_broken_characters_in_an_answer_reach_the_model_as_a_restart_would_read_them(stage: Stage) -> None:
    seen: list[Any] = []

    def respond(request: ModelRequest) -> Answer:
        if len(request.messages) == 1:
            return reply(request, "half \ud800", ("ask_human", {"question": "half \ud800"}))
        seen.append(request.messages[1:3])
        return reply(request, "I wait")

    outcome = stage.go(respond, stall_timeout=0)
    assert outcome.exit_code == 7 and stage.team.requests.get("R1").text == "half ?"
    assert str(seen[0]).encode() and stage.member("lead")["status"] != "failed"

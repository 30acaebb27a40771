"""A teammate in whole runs: how it loses a task, how its life ends, and what its namesake inherits (nothing)."""

from __future__ import annotations

import shutil
import threading
from typing import Any

import pytest
from tests.acceptance.crew import called, crew, is_lead, last_text, lead, mate, texts
from tests.teammates.stage import Stage

from coterie.errors import Refused
from coterie.mailbox import Note, Request, send_owed
from coterie.teammates.model import Answer, BadRequest, ModelRequest, Paused, UnknownModel, reply
from coterie.teammates.team import Team

TASK: dict[str, Any] = {"ref": "a", "subject": "A", "description": "write a.txt a"}


def ask_to_stop(team: Team, name: str, *, deadline_s: float = 60.0, life: str = "#1") -> Request:
    """The person asks a life to end."""
    request = team.requests.ask_shutdown(
        sender="human", sender_instance=None, to=name, to_instance=name + life, reason="enough", deadline_s=deadline_s
    )
    send_owed(team.requests, team.mail, request)
    return request


# ------------------------------------------------------------ a task that goes to somebody else


def test_a_task_that_is_released_goes_on_with_another_in_the_next_epoch_who_is_told(stage: Stage) -> None:
    pipe = stage.fifo("runs")
    openings: dict[str, str] = {}
    leads = lead([TASK], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            if "ada gave it back" in texts(request) and called(request).count("spawn_teammate") == 1:
                return reply(request, "", ("spawn_teammate", {"name": "ben"}))
            return leads(request)
        openings.setdefault(request.user_id, request.messages[0]["content"][0].get("text", ""))
        if "/ada#1" in request.user_id:
            return reply(request, "", ("bash", {"command": f"echo half > half.txt; echo go > {pipe}; sleep 600"}))
        return mate(request)

    with stage.running(respond) as outcome:
        assert pipe.read_text() == "go\n"
        team = stage.team
        ask_to_stop(team, "ada", deadline_s=0.01)
        while team.roster.instance_of("ada") is not None:
            team.bell.wait(team.bell.count(), 0.05)
        team.mail.send(Note(text="ada gave it back"), sender="human", sender_instance=None, to="lead")
    assert outcome[0].exit_code == 0, outcome[0].summary
    task = stage.task()
    assert (task["epoch"], task["status"], task["losses"]) == (2, "completed", 1)
    assert stage.rescued("half.txt") == ["half\n"]
    told = openings["main/ben#1"]
    assert "epoch: 2" in told and "## Earlier attempts" in told and "coterie/main/T1/e1" in told
    assert "snapshot" in told
    request = stage.team.requests.get("R1")
    assert str(request.status) == "forced"


def test_parked_work_is_carried_over_to_the_next_epoch(stage: Stage) -> None:
    tasks = [TASK, {"ref": "b", "subject": "B", "description": "write b.txt b", "role": "first"}]
    leads = lead(tasks, ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            if "T1 needs it" in texts(request) and called(request).count("spawn_teammate") == 1:
                return reply(request, "", ("spawn_teammate", {"name": "ben", "role": "first"}))
            return leads(request)
        opening = request.messages[0]["content"][0].get("text", "")
        if opening.startswith("# Task T1") and "epoch: 1" in opening:
            if "park" in called(request):
                return reply(request, "parked")
            return reply(
                request,
                "",
                ("write_file", {"path": "half.txt", "content": "half\n"}),
                ("park", {"reason": "b comes first", "blocked_by": ["T2"]}),
                ("write_file", {"path": "late.txt", "content": "late\n"}),
                ("send_message", {"to": "lead", "text": "T1 needs it"}),
            )
        if opening.startswith("# Task T1") and "bash" not in called(request):
            return reply(request, "", ("bash", {"command": "cat half.txt b.txt > a.txt"}))
        return mate(request)

    outcome = stage.go(respond)
    assert outcome.exit_code == 0, outcome.summary
    assert (stage.task()["epoch"], stage.task()["attempts"], stage.task()["blocked_by"]) == (2, 0, ["T2"])
    assert stage.merged("half.txt") == "half\n" and stage.merged("a.txt") == "half\nb\n"
    with pytest.raises(Exception, match="128"):
        stage.merged("late.txt")


def test_a_task_that_is_given_up_too_often_has_failed_and_every_attempt_is_told(stage: Stage) -> None:
    openings: list[str] = []
    leads = lead([TASK], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        if "give_up" in called(request):
            return reply(request, "given up")
        openings.append(request.messages[0]["content"][0]["text"])
        number = str(len(openings))
        return reply(
            request,
            "",
            ("write_file", {"path": f"try{number}.txt", "content": number}),
            ("give_up", {"reason": f"no way {number}"}),
        )

    outcome = stage.go(respond, max_attempts=2)
    task = stage.task()
    assert (outcome.exit_code, task["status"], task["attempts"], task["epoch"]) == (1, "failed", 2, 2)
    assert "no way 1" in openings[1]
    assert stage.rescued("try1.txt") and stage.rescued("try2.txt")
    assert any(each["body"].get("event") == "task-failed" for each in stage.mail("lead"))


# ------------------------------------------------------------ the end of a life


def test_an_idle_teammate_ends_without_a_model_call_and_its_namesake_is_not_concerned(stage: Stage) -> None:
    asked: list[str] = []
    tasks = [{**TASK, "role": "nobody"}]
    leads = lead(tasks, ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            if "again" in texts(request) and called(request).count("spawn_teammate") == 1:
                return reply(request, "", ("spawn_teammate", {"name": "ada", "role": "nobody"}))
            return leads(request)
        asked.append(request.user_id)
        return mate(request)

    with stage.running(respond) as outcome:
        team = stage.create()
        while team.roster.instance_of("ada") is None or stage.member("ada")["status"] != "idle":
            team.bell.wait(team.bell.count(), 0.05)
        request = ask_to_stop(team, "ada")
        while team.roster.instance_of("ada") is not None:
            team.bell.wait(team.bell.count(), 0.05)
        assert asked == []
        with pytest.raises(Refused):
            team.mail.send(Note(text="hello"), sender="human", sender_instance=None, to="ada")
        team.mail.send(Note(text="again"), sender="human", sender_instance=None, to="lead")
    assert outcome[0].exit_code == 0, outcome[0].summary
    assert str(stage.team.requests.get(request.id).status) == "acknowledged"
    assert set(asked) == {"main/ada#2"}
    assert stage.task()["claim"] is None and stage.task()["status"] == "completed"


def test_a_working_teammate_may_decline_and_works_on(stage: Stage) -> None:
    pipe = stage.fifo("runs")
    leads = lead([TASK], ("ada",))
    asked = threading.Event()

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        if "bash" not in called(request):
            return reply(request, "", ("bash", {"command": f"echo a > a.txt; echo go > {pipe}; cat {pipe}; true"}))
        if 'kind="shutdown_request"' in last_text(request):
            answer = {"request_id": "R1", "accept": False, "reason": "nearly done"}
            asked.set()
            return reply(request, "", ("answer_shutdown", answer))
        return mate(request)

    with stage.running(respond) as outcome:
        assert pipe.read_text() == "go\n"
        ask_to_stop(stage.team, "ada")
        pipe.write_text("on\n")
    assert asked.is_set() and outcome[0].exit_code == 0, outcome[0].summary
    assert str(stage.team.requests.get("R1").status) == "declined"
    assert stage.task()["epoch"] == 1 and stage.task()["status"] == "completed"


def test_a_working_teammate_that_accepts_ends_after_its_turn_and_its_task_goes_back(stage: Stage) -> None:
    pipe = stage.fifo("runs")
    leads = lead([TASK], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        if "/ada#1" not in request.user_id:
            return mate(request)
        if 'kind="shutdown_request"' in last_text(request):
            write = ("write_file", {"path": "half.txt", "content": "half\n"})
            return reply(request, "", ("answer_shutdown", {"request_id": "R1", "accept": True}), write)
        return reply(request, "", ("bash", {"command": f"echo go > {pipe}; cat {pipe}; true"}))

    with stage.running(respond) as outcome:
        assert pipe.read_text() == "go\n"
        ask_to_stop(stage.team, "ada")
        pipe.write_text("on\n")
    assert outcome[0].exit_code == 1
    assert str(stage.team.requests.get("R1").status) == "acknowledged"
    assert (stage.task()["status"], stage.task()["losses"]) == ("pending", 1)
    assert stage.rescued("half.txt") == ["half\n"]
    assert stage.member("ada")["status"] == "stopped"


# ------------------------------------------------------------ what hurts one member hurts nobody else


def test_a_damaged_journal_ends_that_life_and_its_task_is_done_by_another(stage: Stage) -> None:
    leads = lead([TASK], ("ada",))
    killed: list[int] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            if "ada failed" in texts(request) and called(request).count("spawn_teammate") == 1:
                return reply(request, "", ("spawn_teammate", {"name": "ben"}))
            return leads(request)
        if not killed:
            killed.append(1)
            raise Paused("for a day")
        return mate(request)

    outcome = stage.go(respond)
    assert outcome.exit_code == 7, outcome.summary
    journal = stage.root / "members/ada/journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) >= 1 and stage.task()["status"] == "in_progress"
    journal.write_bytes(b"".join([b'{"seq": 1}\n', *lines]))
    outcome = stage.go(respond)
    assert outcome.exit_code == 0, outcome.summary
    ada = stage.member("ada")
    assert ada["status"] == "failed" and "line 1" in ada["reason"]
    assert (stage.task()["status"], stage.task()["epoch"]) == ("completed", 2)
    again = stage.go(respond)
    assert again.exit_code == 0 and "has ended" in again.summary


def test_a_worktree_that_is_deleted_under_a_command_is_rebuilt_and_the_run_goes_on(stage: Stage) -> None:
    leads = lead([TASK], ("ada",))
    pipe = stage.fifo("runs")
    seen: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        seen.append(str(request.messages[-1]))
        if len(request.messages) == 1:
            return reply(request, "", ("bash", {"command": f"echo go > {pipe}; sleep 1.5"}))
        return mate(request)

    with stage.running(respond) as outcome:
        assert pipe.read_text() == "go\n"
        shutil.rmtree(stage.team.keeper.path("ada"))
    assert outcome[0].exit_code == 0, outcome[0].summary
    assert any("was rebuilt from your branch" in each for each in seen)
    assert stage.merged("a.txt") == "a\n" and stage.merged("one.txt") == "one\n"
    assert not any("the run failed" in each["text"] for each in stage.events("warning"))


def test_a_task_file_that_is_spoiled_while_a_command_runs_does_not_end_the_run(stage: Stage) -> None:
    tasks = [TASK, {"ref": "b", "subject": "B", "description": "write b.txt b", "blocked_by": ["a"]}]
    pipe = stage.fifo("runs")
    leads = lead(tasks, ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        if "bash" not in str(request.messages) and request.messages[0]["content"][0]["text"].startswith("# Task T1"):
            return reply(request, "", ("bash", {"command": f"echo a > a.txt; echo go > {pipe}; cat {pipe}"}))
        return mate(request)

    with stage.running(respond) as outcome:
        assert pipe.read_text() == "go\n"
        path = stage.root / "tasks/T1.json"
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])  # an editor truncates in place …
        stage.create().bell.wait(0, 0.8)
        path.write_bytes(whole)  # … and writes it again
        with pipe.open("w") as end:
            end.write("on\n")
    assert outcome[0].exit_code == 0, outcome[0].summary


def test_a_model_that_the_lead_chose_and_nobody_knows_ends_that_member_and_not_the_run(stage: Stage) -> None:
    leads = crew([TASK], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if request.model == "gone":
            raise UnknownModel("no such model: gone")
        if is_lead(request) and len(request.messages) == 1:
            odd = ("spawn_teammate", {"name": "odd", "model": "gone"})
            return reply(request, "", ("create_tasks", {"tasks": [TASK]}), odd)
        if is_lead(request) and "odd failed" in texts(request) and called(request).count("spawn_teammate") == 1:
            return reply(request, "", ("spawn_teammate", {"name": "ada"}))
        return leads(request)

    outcome = stage.go(respond)
    assert outcome.exit_code == 0, outcome.summary
    assert stage.member("odd")["status"] == "failed" and "gone" in stage.member("odd")["reason"]
    assert stage.task()["epoch"] == 2


def test_mail_whose_conversation_the_server_refuses_costs_one_call_and_not_one_after_the_other(stage: Stage) -> None:
    refused: list[str] = []
    leads = lead([{**TASK, "role": "nobody"}], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            if "send_message" not in called(request) and "create_tasks" in called(request):
                return reply(request, "", ("send_message", {"to": "ada", "text": "hello"}))
            return leads(request)
        refused.append(str(request.messages))
        raise BadRequest("no")

    outcome = stage.go(respond)
    assert outcome.exit_code == 1 and len(refused) == 1
    assert any(each["body"].get("event") == "stuck" for each in stage.mail("lead"))


def test_a_namesake_does_not_go_on_with_what_an_earlier_life_left_in_the_middle(stage: Stage) -> None:
    reached = threading.Event()
    spoken: list[tuple[str, str]] = []
    leads = lead([{**TASK, "role": "late"}], ("ada",))

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            said = texts(request)
            if "secret of the first life" not in str(request.messages) and "create_tasks" in called(request):
                text = {"to": "ada", "text": "secret of the first life"}
                return reply(request, "", ("send_message", text))
            if "next life" in said and called(request).count("spawn_teammate") == 1:
                return reply(request, "", ("spawn_teammate", {"name": "ada", "role": "late"}))
            return leads(request)
        spoken.append((request.user_id, str(request.messages)))
        if request.user_id == "main/ada#1":
            reached.set()
            return reply(request, "", ("list_tasks", {}))  # for ever: it is cut off in the middle
        return mate(request)

    with stage.running(respond) as outcome:
        assert reached.wait(30)
        team = stage.create()
        ask_to_stop(team, "ada", deadline_s=0.01)
        while team.roster.instance_of("ada") is not None:
            team.bell.wait(team.bell.count(), 0.05)
        team.mail.send(Note(text="next life"), sender="human", sender_instance=None, to="lead")
    assert outcome[0].exit_code == 0, outcome[0].summary
    second = [said for who, said in spoken if who == "main/ada#2"]
    assert second and not any("secret of the first life" in each for each in second)


def test_an_urgent_message_ends_the_command_that_runs_and_is_read_at_once(stage: Stage) -> None:
    pipe = stage.fifo("runs")
    leads = lead([TASK], ("ada",))
    heard: list[list[dict[str, Any]]] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        if len(request.messages) == 1:
            slow = ("bash", {"command": f"echo go > {pipe}; sleep 600"})
            return reply(request, "", slow, ("write_file", {"path": "late.txt", "content": "late"}))
        if not heard:
            heard.append(request.messages[-1]["content"])
        return mate(request)

    with stage.running(respond) as outcome:
        assert pipe.read_text() == "go\n"
        stage.team.mail.send(Note(text="look"), sender="human", sender_instance=None, to="ada", urgent=True)
    assert outcome[0].exit_code == 0, outcome[0].summary
    first, second, mail = heard[0]
    assert "interrupted by an urgent message" in first["content"] and "not executed" in second["content"]
    assert 'urgent="true"' in mail["text"] and "look" in mail["text"]


def test_work_that_a_person_takes_back_is_carried_over_to_the_next_epoch(stage: Stage) -> None:
    pipe = stage.fifo("runs")
    leads = lead([TASK], ("ada",))
    whole = threading.Event()

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        if "epoch: 1" in request.messages[0]["content"][0].get("text", ""):
            return reply(request, "", ("bash", {"command": f"echo half > half.txt; echo go > {pipe}; sleep 600"}))
        whole.set()
        return mate(request)

    with stage.running(respond) as outcome:
        assert pipe.read_text() == "go\n"
        stage.team.board.want("T1", move="release", by="human", reason="start anew")
        assert whole.wait(30)
    assert outcome[0].exit_code == 0, outcome[0].summary
    assert stage.task()["epoch"] == 2 and stage.merged("half.txt") == "half\n"


# ------------------------------------------------------------ waiting, and being idle


def test_who_waits_for_a_decision_claims_nothing_and_ends_when_it_is_asked_without_a_model_call(stage: Stage) -> None:
    tasks = [
        {**TASK, "requires_plan": True, "priority": 9},
        {"ref": "b", "subject": "B", "description": "write b.txt b"},
    ]
    leads = lead(tasks, ("ada",))
    asked: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        asked.append(request.user_id)
        return mate(request)

    with stage.running(respond, approver="human", plans="lead", stall_timeout=3.0) as outcome:
        team = stage.create()
        while not (stage.root / "requests/R1.json").exists() or stage.member("ada")["status"] != "waiting":
            team.bell.wait(team.bell.count(), 0.05)
        calls = len(asked)
        request = ask_to_stop(team, "ada")
        while team.roster.instance_of("ada") is not None:
            team.bell.wait(team.bell.count(), 0.05)
        assert len(asked) == calls == 1
    assert str(team.requests.get(request.id).status) == "acknowledged"
    assert (stage.task()["status"], stage.task()["epoch"], stage.task()["losses"]) == ("pending", 1, 1)
    assert (stage.task("T2")["status"], stage.task("T2")["epoch"]) == ("pending", 0), "it claims nothing meanwhile"
    assert stage.member("ada")["status"] == "stopped" and outcome[0].exit_code != 0


def test_a_message_that_arrives_in_the_last_turn_is_read_before_the_member_rests(stage: Stage) -> None:
    leads = lead([TASK], ("ada",))
    heard = threading.Event()

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            if "No task is open any more" in last_text(request):
                assert heard.wait(30), "it was never read"
            return leads(request)
        if "while you hand in" in str(request.messages):
            heard.set()
            return reply(request, "read")
        answer = mate(request)
        if any(block.get("name") == "submit_work" for block in answer.content):  # the call that is its last is running
            stage.team.mail.send(Note(text="while you hand in"), sender="human", sender_instance=None, to="ada")
        return answer

    outcome = stage.go(respond)
    assert outcome.exit_code == 0 and heard.is_set(), outcome.summary
    assert stage.merged("a.txt") == "a\n"
    assert not any(each["body"].get("event") == "undelivered" for each in stage.mail("human"))


def test_idle_teammates_say_so_once_and_cost_the_lead_nothing_however_often_they_look(stage: Stage) -> None:
    runs, gate = stage.fifo("runs"), stage.fifo("gate")
    mates = ("ada", "ben", "cleo", "dan", "eve")
    script = crew([{**TASK, "description": f"run echo runs > {runs}; cat {gate} > a.txt"}], mates)
    asked: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        asked.append(request.user_id)
        return script(request)

    def idle() -> set[str]:
        return {name for name in mates if stage.member(name)["status"] == "idle"}

    with stage.running(respond, teammates=5) as outcome:
        assert runs.read_text() == "runs\n"
        try:
            team = stage.create()
            while len(idle()) < 4 or stage.member("lead")["status"] != "idle":
                team.bell.wait(team.bell.count(), 0.05)
            resting = idle()
            calls, mail = list(asked), len(stage.mail("lead"))
            for _ in range(60):  # a busy hour: each ring is a look of everybody
                team.bell.ring()
                team.bell.wait(team.bell.count(), 0.02)
            assert asked == calls and len(stage.mail("lead")) == mail
        finally:
            gate.write_text("a\n")
    assert outcome[0].exit_code == 0, outcome[0].summary
    said = [
        each["member"] for each in stage.events("member") if each.get("status") == "idle" and "ready" in each["text"]
    ]
    assert sorted(name for name in said if name in resting) == sorted(resting), "once each"


def test_a_resumed_conversation_sends_what_it_began_with_whatever_the_program_says_by_now(stage: Stage) -> None:
    tasks = [TASK, {"ref": "b", "subject": "B", "description": "write b.txt b", "blocked_by": ["a"]}]
    script = crew(tasks, ("ada",))
    sent: list[tuple[str, str, str, str]] = []  # the task, and system, tools and model of the request
    stopped: list[int] = []

    def respond(request: ModelRequest) -> Answer:
        if not is_lead(request):
            task = request.messages[0]["content"][0]["text"].split(":")[0]
            sent.append((task, str(request.system), str(request.tools), request.model))
            if len(request.messages) > 1 and not stopped:
                stopped.append(1)
                raise Paused("for a day")
        return script(request)

    (stage.repository / "AGENTS.md").write_text("as it was said at first")
    assert stage.go(respond, model="first").exit_code == 7
    before = len(sent)
    (stage.repository / "AGENTS.md").write_text("as it is said now")
    assert stage.go(respond, model="second").exit_code == 0
    assert {each[0] for each in sent[:before]} == {"# Task T1"}
    assert len({each[1:] for each in sent if each[0] == "# Task T1"}) == 1 and sent[before][0] == "# Task T1"
    assert "as it was said at first" in sent[0][1] and sent[0][3] == "first"
    later = [each for each in sent if each[0] == "# Task T2"]
    assert later and all("as it is said now" in each[1] for each in later)

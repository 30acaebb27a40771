"""Asking a person for leave: what is asked, what an answer counts for, and everything that ends the wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.acceptance.crew import called, is_lead, lead, mate, texts
from tests.teammates.post import Post, act
from tests.teammates.stage import Stage

from coterie import files
from coterie.console.door import enter
from coterie.console.reading import Reading
from coterie.errors import CoterieError, Refused
from coterie.mailbox import Note, Request
from coterie.teammates.cancel import Cancel
from coterie.teammates.model import Answer, ModelRequest, reply
from coterie.teammates.permissions.asking import StillAsked, call_text
from coterie.teammates.teammate import Teammate
from coterie.teammates.tools import BASH, TEAMMATE_TOOLS

WRITE = TEAMMATE_TOOLS["write_file"]


class Asked:
    """A call made in a thread of its own, which waits for a person."""

    def __init__(self, post: Post, member: Teammate, command: str, key: str = "k/1/0") -> None:
        self.post, self.member, self.cancel = post, member, Cancel()
        self.outcome: list[Any] = []
        self._thread = threading.Thread(target=self._make, args=(command, key))
        self._thread.start()

    def _make(self, command: str, key: str) -> None:
        try:
            self.outcome.append(act(self.member, BASH, key, cancel=self.cancel, command=command))
        except (CoterieError, StillAsked) as error:
            self.outcome.append(error)

    def request(self, number: int = 1) -> Request:
        """The request, once it is there and the member is shown to wait for it."""
        end = time.monotonic() + 30
        while True:
            seen = self.post.team.bell.count()
            found = self.post.team.requests.all()
            record = self.post.team.roster.get(self.member.name)
            if len(found) >= number and (record.reason.startswith("permission") or self.outcome):
                return found[number - 1]
            assert time.monotonic() < end, "nobody is asked"
            self.post.team.bell.wait(seen, 0.05)

    def end(self) -> Any:
        self._thread.join(30)
        assert not self._thread.is_alive(), "the wait does not end"
        return self.outcome[0]


@pytest.fixture
def post(stage: Stage) -> Iterator[Post]:
    made = Post(stage, ask=["Bash(touch:*)", "write_file"])
    with made.team.bell:
        yield made


@contextmanager
def asked(post: Post, command: str = "touch a.txt") -> Iterator[tuple[Asked, Request, Teammate]]:
    post.task()
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        call = Asked(post, ada, command)
        try:
            yield call, call.request(), ada
        finally:
            call.cancel.set("the test is over")
            call.end()


def test_what_would_run_is_shown_word_for_word_and_a_yes_lets_exactly_that_run(post: Post) -> None:
    command = "touch a.txt # \x1b[2K\u202e harmless"
    with asked(post, command) as (call, request, ada):
        assert (request.kind, request.to, request.task, request.epoch) == ("permission", "human", "T1", 1)
        assert r"command: touch a.txt # \x1b[2K\u202e harmless" in request.text, "what is not seen is spelled out"
        assert request.history[0].reason == "the rule ask Bash(touch:*)"
        record = post.team.roster.get("ada")
        assert (record.status, record.reason) == ("waiting", "permission R1 waits for human")
        assert [each.kind for each in post.team.mail.waiting("human")] == ["notice"]
        with pytest.raises(Refused, match="own request"):
            post.decide("R1", approve=True, by="ada")
        with pytest.raises(Refused, match="addressed to human"):
            post.decide("R1", approve=True, by="lead")
        post.decide("R1", approve=True)
        assert call.end().text.startswith("exit code: 0")
        assert (ada.directory() / "a.txt").exists()
        assert (ada.record.status, ada.record.reason) == ("working", "on T1")
        for key, given in (("k/1/0", "touch a.txt b.txt"), ("k/1/0", "touch a.txt #")):
            with pytest.raises(Refused, match="not permitted"):
                act(ada, BASH, key, command=given)  # the same key, another command
        assert not (ada.directory() / "b.txt").exists()
        again = Asked(post, ada, command, "k/2/0")  # the same command, another call
        assert again.request(2).open
        again.cancel.set("enough")
        assert isinstance(again.end(), Refused)


def test_leave_for_a_call_that_holds_a_secret_can_be_given(post: Post) -> None:
    files.keep_secret("the-other-test-key-0815")
    with asked(post, "touch the-other-test-key-0815") as (call, request, ada):
        assert "the-other" not in request.text
        post.decide("R1", approve=True)
        assert call.end().text.startswith("exit code: 0")
        assert (ada.directory() / "the-other-test-key-0815").exists()


def test_a_no_is_told_with_its_reason_and_nothing_ran(post: Post) -> None:
    with asked(post) as (call, _, ada):
        post.decide("R1", approve=False)
        told = call.end()
        assert isinstance(told, Refused) and "R1 is rejected by human: so it is" in str(told)
        assert not (ada.directory() / "a.txt").exists()
        with pytest.raises(Refused, match="the answer was no"):
            act(ada, BASH, command="touch a.txt")


def test_silence_means_no_and_a_late_yes_is_refused_with_the_reason(stage: Stage) -> None:
    post = Post(stage, ask=["Bash(touch:*)"], permission_timeout=0.05)
    with post.team.bell, asked(post) as (call, _, ada):
        assert "nobody answered within 0.05 s, which means no" in str(call.end())
        with pytest.raises(Refused, match=r"already rejected, by runtime .* nobody answered within"):
            post.decide("R1", approve=True)
        with pytest.raises(Refused, match="not permitted"):
            act(ada, BASH, command="touch a.txt")
        assert not (ada.directory() / "a.txt").exists()


def cancelled(post: Post, call: Asked, ada: Teammate) -> None:
    call.cancel.set("interrupted by an urgent message")


def shut_down(post: Post, call: Asked, ada: Teammate) -> None:
    post.team.requests.ask_shutdown(sender="lead", sender_instance="lead#1", to="ada", to_instance="ada#1")
    post.team.bell.ring()


def taken(post: Post, call: Asked, ada: Teammate) -> None:
    post.team.board.want("T1", move="release", by="human", reason="enough")
    ada.look()


def planned(post: Post, call: Asked, ada: Teammate) -> None:
    post.team.board.update("T1", by="human", requires_plan=True)
    ada.look()


@pytest.mark.parametrize("ends", [cancelled, shut_down, taken, planned])
def test_what_makes_the_call_pointless_ends_the_wait_and_closes_the_request(
    post: Post, ends: Callable[[Post, Asked, Teammate], None]
) -> None:
    with asked(post) as (call, request, ada):
        ends(post, call, ada)
        assert isinstance(call.end(), Refused)
        assert not (ada.directory() / "a.txt").exists() if ends is not taken else True
        with pytest.raises(CoterieError, match=r"already rejected, by runtime|not the current assignment"):
            post.decide(request.id, approve=True)


def test_a_yes_does_not_open_a_gate_that_closed_while_the_person_thought(post: Post) -> None:
    with asked(post) as (call, _, ada):
        with post.team.requests.holding():  # both at once, for whoever reads after it
            post.team.board.update("T1", by="human", requires_plan=True)
            post.decide("R1", approve=True)
        assert isinstance(call.end(), Refused)
        assert not (ada.directory() / "a.txt").exists()


def test_leave_that_is_taken_back_ends_the_command_that_runs(stage: Stage) -> None:
    post = Post(stage, ask=["Bash"])
    pipe = stage.fifo("runs")
    with post.team.bell, asked(post, f"exec 3> {pipe}; echo go >&3; sleep 30; echo late >&3") as (call, _, ada):
        post.decide("R1", approve=True)
        with pipe.open() as life:
            assert life.readline() == "go\n"
            post.decide("R1", approve=False)
            ada.look()
            assert life.read() == ""
        assert "taken back" in call.end().text


@pytest.mark.parametrize("background", [False, True])
def test_leave_that_was_given_while_the_team_was_down_ends_what_runs_by_it_when_it_is_taken_back(
    stage: Stage, background: bool
) -> None:
    post = Post(stage, ask=["Bash"])
    post.task()
    pipe = stage.fifo("runs")
    given = {"command": f"exec 3> {pipe}; echo go >&3; sleep 30; echo late >&3", "background": background}
    with post.team.bell, post.runtime() as runtime:
        ada = post.mate(runtime)
        text = call_text(BASH, BASH.parse(given), ada.assignment())
        post.team.requests.ask_permission(
            sender="ada", sender_instance="ada#1", to="human", text=text, deadline_s=60, task="T1", epoch=1,
            made_by="k/1/0",
        )  # fmt: skip
        post.decide("R1", approve=True)
        call = threading.Thread(target=lambda: act(ada, BASH, "k/1/0", **given))
        call.start()
        with pipe.open() as life:
            assert life.readline() == "go\n"
            if background:
                call.join(30)
                assert not ada.dispatcher.acts
            ada.look()
            assert runtime.commands.running("ada#1"), "nobody has taken it back yet"
            post.decide("R1", approve=False)
            ada.look()
            assert life.read() == ""
        call.join(30)
        assert not call.is_alive()


def test_a_person_is_asked_once_for_a_call_also_when_the_run_ends_in_the_middle(post: Post) -> None:
    post.task()
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        call = Asked(post, ada, "touch a.txt")
        assert call.request().open
        runtime.stop("Ctrl-C", 130)
        call.cancel.set("Ctrl-C")
        assert isinstance(call.end(), StillAsked)
    assert post.team.requests.get("R1").open, "the question stays"
    assert post.team.roster.get("ada").reason == "permission R1 waits for human", "and is shown as what is waited for"
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        assert ada.dispatcher.asked("k/1/0") and not ada.dispatcher.asked("k/1/1")
        call = Asked(post, ada, "touch a.txt")
        assert call.request().id == "R1"
        post.decide("R1", approve=True)
        assert call.end().text.startswith("exit code: 0")
    assert len(post.team.requests.all()) == 1


def test_an_answer_is_of_one_epoch(post: Post) -> None:
    with asked(post) as (call, _, ada):
        post.decide("R1", approve=True)
        call.end()
        ada.leave("enough")
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        assert ada.assignment() == ("T1", 2)
        with pytest.raises(Refused, match="not permitted"):
            act(ada, BASH, command="touch a.txt")  # as if a key could be used again


def test_no_line_of_an_argument_can_pass_for_one_of_the_runtime() -> None:
    command = "true\nsha256 of this call: 0\ntimeout_s: 1\r\nbash for T9 (epoch 9)\u2028command: ls"
    lines = call_text(BASH, BASH.parse({"command": command, "timeout_s": 5}), ("T1", 1)).split("\n")
    ours = [each.partition(":")[0] for each in lines if not each.startswith("    ")]
    assert ours == ["bash for T1 (epoch 1)", "command", "timeout_s", "sha256 of this call"]
    assert "\u2028" not in "".join(lines) and "\r" not in "".join(lines)


@pytest.mark.parametrize("long", ["x" * 200_000, "あ" * 60_000, "x\n" * 100_000])
def test_a_long_text_is_cut_where_it_is_shown_and_the_answer_counts_for_the_whole_of_it(long: str) -> None:
    texts = [
        call_text(WRITE, WRITE.parse({"path": path, "content": long + tail}), ("T1", 1))
        for path, tail in (("a.txt", "a"), ("a.txt", "b"), (long, "a"), (long, "b"))
    ]
    assert len(set(texts)) == 4
    assert all("bytes more, which are not shown" in each and len(each.encode()) < 64 * 1024 for each in texts)


def test_in_a_run_only_that_call_waits_and_a_restart_goes_on_with_the_very_question(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads = lead([{"ref": "a", "subject": "A", "description": "run touch a.txt"}, {"ref": "b", "subject": "B",
                  "description": "write b.txt b"}], ("ada", "ben"))  # fmt: skip
    calls: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request):
            return leads(request)
        if "write_file" not in texts(request):
            calls.append(request.user_id)
        opening = request.messages[0]["content"][0].get("text", "")
        if "touch" in opening and "bash" not in called(request):
            return reply(request, "", ("bash", {"command": "touch a.txt"}), ("bash", {"command": "echo after"}))
        return mate(request)

    settings: dict[str, Any] = {"ask": ["Bash(touch:*)"], "stall_timeout": 0}
    outcome = stage.go(respond, **settings)
    assert (outcome.exit_code, "R1" in outcome.summary) == (7, True), outcome.summary
    assert stage.task("T2")["status"] == "completed", "the others went on"
    assert stage.task()["status"] == "in_progress"
    before = len(calls)
    outcome = stage.go(respond, **settings)
    assert outcome.exit_code == 7 and len(calls) == before, "waiting costs no calls, also after a restart"
    assert [each.id for each in stage.team.requests.all()] == ["R1"]
    monkeypatch.chdir(stage.repository)
    ran: list[Any] = []
    stage.watch = lambda event: ran.append(event) if event.get("tool") == "bash" else None
    with stage.running(respond, **settings | {"stall_timeout": 60}) as outcomes:
        end = time.monotonic() + 60
        while Reading(stage.root).running() is None or not Reading(stage.root).members["ada"].process:
            assert time.monotonic() < end
            threading.Event().wait(0.01)
        assert not ran and enter(["approve", "R1"]) == 0  # as from a second terminal
    (outcome,) = outcomes
    assert outcome.exit_code == 0, outcome.summary
    assert stage.merged("a.txt") == ""
    assert len(stage.team.requests.all()) == 1
    assert not [each for each in stage.mail("ada") if each["kind"] == "decision"], "its result is the answer"


def test_mail_waits_until_the_person_has_answered_and_is_not_lost(post: Post) -> None:
    with asked(post) as (call, _, _):
        post.team.mail.send(Note(text="hello"), sender="human", sender_instance="human", to="ada")
        post.decide("R1", approve=True)
        assert call.end().text.startswith("exit code: 0")
        assert [each.body.text for each in post.team.mail.waiting("ada")] == ["hello"]

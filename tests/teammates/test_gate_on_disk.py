"""The gate on real files: what each tool may do in each state, call by call, through restart, respawn, reassignment."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.teammates.post import Kept, Post, act
from tests.teammates.stage import Stage

from coterie import files
from coterie.errors import CoterieError, Refused
from coterie.lead import find_boundary, sandbox_of
from coterie.lead.lead import Lead
from coterie.lead.tools import LEAD_TOOLS
from coterie.teammates.cancel import Cancel
from coterie.teammates.gate import PlanState
from coterie.teammates.journal import Finished
from coterie.teammates.model import ModelRequest, reply
from coterie.teammates.roster import Status
from coterie.teammates.sandbox import Level
from coterie.teammates.settings import TeamSettings
from coterie.teammates.teammate import Teammate
from coterie.teammates.tool import Arguments, Call, Effect, Tool
from coterie.teammates.tools import BASH, READ_FILE, TEAMMATE_TOOLS

WRITE = TEAMMATE_TOOLS["write_file"]


class Nothing(Arguments):
    """No arguments."""


# a tool that has the name of one that reads, and changes: the gate goes by what it declares
DISGUISED = Tool("read_file", Effect.CHANGES, Nothing, lambda member, given, call: "changed")
HONEST = Tool("write_file", Effect.READS, Nothing, lambda member, given, call: "read")
STEERING = Tool("bash", Effect.COORDINATES, Nothing, lambda member, given, call: "said")


@pytest.fixture
def post(stage: Stage) -> Post:
    return Post(stage)


def lets(member: Teammate, tool: Tool, **given: object) -> bool:
    """Whether the gate lets a call through."""
    try:
        act(member, tool, **given)
    except Refused as error:
        assert "plan" in str(error) or "task" in str(error) or "handed in" in str(error), error
        return False
    return True


def everything(member: Teammate) -> dict[str, bool]:
    """Which kinds of calls are let through now."""
    return {
        "changes": lets(member, DISGUISED),
        "reads": lets(member, HONEST),
        "coordinates": lets(member, STEERING),
        "writes": lets(member, WRITE, path="a.txt", content="a"),
        "command": lets(member, BASH, command="true"),
    }


SHUT = {"changes": False, "reads": True, "coordinates": True, "writes": False, "command": False}
OPEN = dict.fromkeys(SHUT, True)


def test_each_call_goes_by_plan_and_assignment_as_they_stand_on_disk_at_that_moment(post: Post) -> None:
    post.task(requires_plan=True)
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        seen = []

        def look(state: PlanState, wanted: dict[str, bool]) -> None:
            seen.append(ada.plan_state())
            assert (ada.plan_state(), everything(ada)) == (state, wanted)

        look(PlanState.MISSING, SHUT)
        post.plan(ada)
        look(PlanState.SUBMITTED, SHUT)
        post.decide("R1", approve=False)
        look(PlanState.REJECTED, SHUT)
        post.plan(ada, "better")
        post.decide("R2", approve=True)
        look(PlanState.APPROVED, OPEN)
        path = post.stage.root / "requests" / "R2.json"
        whole = json.loads(path.read_text())
        files.write_json(path, whole | {"decided_by": "ada", "rev": whole["rev"] + 1})
        look(PlanState.UNSOUND, SHUT)
        post.team.board.update("T1", by="human", requires_plan=False, may_lower_plan=True)
        look(PlanState.NOT_NEEDED, OPEN)
        post.team.board.update("T1", by="lead", requires_plan=True)
        look(PlanState.UNSOUND, SHUT)
        assert set(seen) == set(PlanState)
        post.team.board.update("T1", by="human", requires_plan=False, may_lower_plan=True)
        post.team.board.submit("T1", 1, by="ada", summary="s", commit="0" * 40)
        assert everything(ada) == SHUT  # in the queue
        bound = post.team.board.get("T1").assignment
        assert bound is not None
        post.team.board.give_back("T1", 1, reason="red", base=bound.base, owner_available=True)
        assert everything(ada) == OPEN
        post.team.board.want("T1", move="release", by="lead", reason="enough")
        assert everything(ada) == SHUT  # wanted back


def test_an_approval_is_of_one_assignment_and_holds_through_a_restart_and_not_through_respawn_or_reassignment(
    post: Post,
) -> None:
    post.task(requires_plan=True)
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        post.plan(ada)
        assert not lets(ada, DISGUISED)
    with post.runtime() as runtime:  # another process: the same life goes on with the same question
        ada = post.mate(runtime)
        assert (ada.instance, ada.plan_state(), lets(ada, DISGUISED)) == ("ada#1", PlanState.SUBMITTED, False)
        post.decide("R1", approve=True)
        assert lets(ada, DISGUISED)
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        assert (ada.instance, lets(ada, DISGUISED)) == ("ada#1", True)
        ada.leave("enough for today")
        ada = post.mate(runtime)  # the next life of the same name claims the same task
        assert (ada.instance, ada.assignment(), lets(ada, DISGUISED)) == ("ada#2", ("T1", 2), False)
        with pytest.raises(CoterieError, match="not the current assignment"):
            post.decide("R1", approve=False)
        ada.leave("again")
        ben = post.mate(runtime, "ben")
        assert (ben.assignment(), ben.plan_state(), lets(ben, DISGUISED)) == (("T1", 3), PlanState.MISSING, False)
        post.plan(ben)
        post.decide("R2", approve=True)
        assert lets(ben, DISGUISED)


def test_while_a_plan_is_owed_a_command_runs_where_it_cannot_write_and_nowhere_else(post: Post) -> None:
    post.task(requires_plan=True)
    say = "echo writable=$WRITABLE"
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        with pytest.raises(Refused, match="plan"):
            act(ada, BASH, command=say)
    post.sandbox = Kept()
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        assert "writable=0" in act(ada, BASH, command=say).text
        assert not lets(ada, WRITE, path="a.txt", content="a")
        pipe = post.stage.fifo("runs")
        command = f"exec 3> {pipe}; echo writable=$WRITABLE >&3; sleep 30; echo late >&3"
        kept = act(ada, BASH, "k/1/1", command=command, background=True).text.split()[-1]
        with pipe.open() as life:
            assert life.readline() == "writable=0\n"
            ada.look()
            assert runtime.commands.running("ada#1") == (kept,), "it may run on: it cannot write"
            post.plan(ada)
            post.decide("R1", approve=True)
            assert "writable=1" in act(ada, BASH, "k/1/2", command=say).text
            post.decide("R1", approve=False)
            ada.look()
            assert runtime.commands.running("ada#1") == (kept,)
            post.team.board.want("T1", move="release", by="lead", reason="enough")
            ada.look()
            assert runtime.commands.running("ada#1") == () and life.read() == ""


def test_the_lead_runs_commands_only_where_they_cannot_write_and_never_changes_a_file(post: Post) -> None:
    post.team.roster.spawn("lead", model="m")
    with post.runtime() as runtime:
        lead = Lead(runtime, post.team.roster.get("lead"), None)  # type: ignore[arg-type]  # it does not finish here
        assert "bash" not in lead.tools
        for tool, given in ((BASH, {"command": "true"}), (WRITE, {"path": "a", "content": ""}), (DISGUISED, {})):
            with pytest.raises(Refused, match="lead changes no file"):
                act(lead, tool, **given)
    post.sandbox = Kept()
    with post.runtime() as runtime:
        lead = Lead(runtime, post.team.roster.get("lead"), None)  # type: ignore[arg-type]
        assert "writable=0" in act(lead, lead.tools["bash"], command="echo writable=$WRITABLE").text
        with pytest.raises(Refused, match="lead changes no file"):
            act(lead, WRITE, path="a", content="")


def test_behind_a_real_sandbox_a_command_reads_and_cannot_write_while_a_plan_is_owed_and_never_for_the_lead(
    post: Post,
) -> None:
    found = find_boundary(post.settings, post.team.repository)
    if found.level is not Level.FULL:
        pytest.skip(f"NO SANDBOX HERE, NOTHING IS SHOWN OF IT: {found.detail}")
    post.sandbox = sandbox_of(found, post.team, post.settings)
    post.task(requires_plan=True)
    post.team.roster.spawn("lead", model="m")
    tries = "cat one.txt; touch new.txt; echo more >> one.txt; rm one.txt; mkdir new; ln -s x y; chmod 777 one.txt; ls"
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        lead = Lead(runtime, post.team.roster.get("lead"), None)  # type: ignore[arg-type]
        for member, tool in ((ada, BASH), (lead, lead.tools["bash"])):
            told = act(member, tool, command=tries).text
            assert told.count("Read-only file system") == 6 and "one\n" in told, told
            place = member.directory()
            assert sorted(each.name for each in place.iterdir()) == [".git", "one.txt"]
            assert (place / "one.txt").read_text() == "one\n"
        post.plan(ada)
        post.decide("R1", approve=True)
        act(ada, BASH, "k/1/1", command="touch new.txt")
        assert (ada.directory() / "new.txt").exists()


class Watched(Teammate):
    """Something happens right after the gate has read the plan, as often as it is asked for."""

    then: list[object]

    def plan_state(self) -> PlanState:
        state = super().plan_state()
        if getattr(self, "then", None):
            self.then.pop(0)()  # type: ignore[operator]
        return state


@pytest.mark.parametrize("readings", [1, 2])
def test_a_call_that_starts_right_at_the_revoke_never_acts_behind_a_shut_gate(post: Post, readings: int) -> None:
    """The decision falls between a reading of the gate and the act: whichever it is, the watch ends the act."""
    post.task(requires_plan=True)
    with post.runtime() as runtime:
        ada = post.mate(runtime, of=Watched)
        post.plan(ada)
        post.decide("R1", approve=True)

        def revoke() -> None:
            post.decide("R1", approve=False)
            ada.look()  # as the watch does whenever something rings

        ada.then = [lambda: None] * (readings - 1) + [revoke]
        acted: list[str] = []
        tool = Tool("t", Effect.CHANGES, Nothing, lambda member, given, call: acted.append("acted") or "done")
        with pytest.raises(Refused, match=r"plan|not executed"):
            act(ada, tool)
        assert not acted


def test_the_gate_is_asked_again_for_each_call_of_a_turn(post: Post) -> None:
    post.task(requires_plan=True)
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        post.plan(ada)
        post.decide("R1", approve=True)
        post.team.events.watch(lambda event: None if event.get("is_error", True) else post.decide("R1", approve=False))
        asked = ModelRequest(model="m", system="", tools=(), messages=(), max_tokens=1, user_id="main/ada#1")
        writes = [("write_file", {"path": f"{name}.txt", "content": name}) for name in "abc"]
        ada.loop.act(ada.loop.note(reply(asked, "", *writes)))
        results = [each for each in ada.journal.conversation() if isinstance(each, Finished)]
        assert [each.is_error for each in results] == [False, True, True]
        assert "your plan was rejected" in results[1].text
        assert [each.name for each in ada.directory().glob("?.txt")] == ["a.txt"]


def test_a_revoke_while_a_command_is_being_started_ends_it_before_it_begins(post: Post) -> None:
    post.task(requires_plan=True)
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        post.plan(ada)
        post.decide("R1", approve=True)
        cancel = Cancel()
        watch = threading.Thread(target=ada.look)

        def recorded(process: dict[str, object]) -> None:
            """The command stands behind its own gate, and is being written down: the watch sees the revoke now."""
            post.decide("R1", approve=False)
            watch.start()
            assert cancel.wait(30)

        arguments = BASH.parse({"command": "echo late > late.txt"})
        call = Call("c", "k/1/0", cancel, started=recorded)
        with ada.dispatcher.let_through(BASH, arguments, call) as let:
            done = BASH.act(ada, arguments, let)
        watch.join(30)
        assert done.is_error and "interrupted" in done.text  # type: ignore[union-attr]
        assert not (ada.directory() / "late.txt").exists()


# ------------------------------------------------------------------------------------- who may lower requires_plan


@contextlib.contextmanager
def leading(post: Post) -> Iterator[Lead]:
    if post.team.roster.instance_of("lead") is None:
        post.team.roster.spawn("lead", model="m")
    with post.runtime() as runtime:
        yield Lead(runtime, post.team.roster.get("lead"), None)  # type: ignore[arg-type]


APPROVERS: dict[str, dict[str, Any]] = {
    "lead": {"approver": "lead"},
    "human": {"approver": "human"},
    "human by path": {"approver": "lead", "approver_paths": {"src/auth/**": "human"}},
    "lead by path": {"approver": "human", "approver_paths": {"src/**": "lead"}},
}


def test_the_lead_lowers_a_plan_only_where_it_says_which_it_decides_on_and_nobody_has_claimed(post: Post) -> None:
    post.team.roster.spawn("ada", model="m")
    lowered = []
    for plans, approver, claimed in itertools.product(("all", "lead", "none"), APPROVERS, (False, True)):
        post.settings = TeamSettings(plans=plans, **APPROVERS[approver])
        task = post.task(requires_plan=True, scope=("src/auth/a.py",)).id
        if claimed:
            assert (taken := post.team.board.claim(owner="ada", instance="ada#1")) is not None and taken.id == task
            post.team.board.release(task, 1, by="human", reason="back")
        with leading(post) as lead:
            try:
                act(lead, LEAD_TOOLS["update_task"], task_id=task, requires_plan=False)
                lowered.append((plans, approver, claimed))
            except CoterieError as error:
                assert "requires a plan" in str(error)
        assert post.team.board.get(task).requires_plan is ((plans, approver, claimed) not in lowered)
        post.team.board.want(task, move="cancel", by="human", reason="next")
    assert lowered == [("lead", "lead", False), ("lead", "lead by path", False)]


def test_there_is_no_way_around_a_plan_by_creating_retrying_proposing_or_deciding_in_another_place(
    stage: Stage,
) -> None:
    post = Post(stage, plans="all", approver="human")
    new = {"ref": "a", "subject": "A", "requires_plan": False}
    with leading(post) as lead:
        act(lead, LEAD_TOOLS["create_tasks"], tasks=[new])
        assert post.team.board.get("T1").requires_plan
        ada = post.mate(lead.runtime)
        act(ada, TEAMMATE_TOOLS["propose_tasks"], "k/2/0", tasks=[new])
        assert post.team.board.get("T2").requires_plan
        post.plan(ada, to="lead")  # submitted while the lead decided: since then the person said that they do
        with pytest.raises(CoterieError, match="human decides"):
            act(lead, LEAD_TOOLS["review"], "k/3/0", request_id="R2", decision="approve")
        assert not lets(ada, DISGUISED)
        with pytest.raises(CoterieError):
            post.decide("R2", approve=True, by="ada")
        with pytest.raises(
            CoterieError, match="claimed before"
        ):  # it was looked at before the claim, and races with it
            post.team.board.update("T1", by="lead", requires_plan=False, may_lower_plan=True)
        post.team.board.want("T1", move="cancel", by="human", reason="enough")
        ada.do_next()
        act(lead, LEAD_TOOLS["retry_task"], "k/4/0", task_id="T1", reason="after all")
        with pytest.raises(CoterieError, match="requires a plan"):
            act(lead, LEAD_TOOLS["update_task"], "k/5/0", task_id="T1", requires_plan=False)
        assert post.team.board.get("T1").requires_plan and ada.record.status is not Status.FAILED


def test_reading_stays_open_while_a_plan_is_owed(post: Post) -> None:
    post.task(requires_plan=True)
    with post.runtime() as runtime:
        ada = post.mate(runtime)
        assert "one" in act(ada, READ_FILE, path="one.txt").text
        assert isinstance(ada.directory(), Path)

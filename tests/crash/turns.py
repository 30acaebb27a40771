"""Turns of members: every tool that coordinates, mail, claims, the merge queue, compaction, the end of a life.

A member's model calls one tool, then says that it is done; a tool of a teammate is followed by the hand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.acceptance.crew import called, is_lead, texts
from tests.crash.calls import hand_in, journal_of, merge, take, tree
from tests.crash.harness import Act, Operation
from tests.crash.host import Host, Respond
from tests.crash.place import Place
from tests.crash.points import Acknowledge

from coterie.lead.lead import Lead
from coterie.lead.recovery import recover
from coterie.mailbox import Note, send_owed
from coterie.taskboard import NewTask
from coterie.taskboard.intents import Intents
from coterie.teammates.journal import Answered, Started
from coterie.teammates.member import Member
from coterie.teammates.model import Answer, ModelRequest, PromptTooLong, reply
from coterie.teammates.outcomes import send_outcome
from coterie.teammates.roster import Status
from coterie.teammates.team import Team
from coterie.teammates.teammate import Teammate

Script = tuple[str, dict[str, Any]]


def lead_says(*calls: Script) -> Respond:
    """A lead that makes these calls, one a turn, and then waits."""

    def respond(request: ModelRequest) -> Answer:
        done = called(request)
        left = [call for call in calls if call[0] not in done]
        return reply(request, "", left[0]) if is_lead(request) and left else reply(request, "waiting")

    return respond


def mate_says(*calls: Script) -> Respond:
    """A teammate that makes these calls, one a turn."""

    def respond(request: ModelRequest) -> Answer:
        done = called(request)
        left = [call for call in calls if call[0] not in done]
        return reply(request, "on it", left[0]) if left else reply(request, "done")

    return respond


def driven(respond: Respond, *names: str, claims: bool = False) -> Act:
    def act(team: Team, say: Acknowledge) -> None:
        Host(team, respond, names, claims=claims).drive()

    return act


def call(
    name: str, start: str, respond: Respond, who: str, *others: str, begun: bool = False, ahead: int = 0
) -> Operation:
    """One call of a tool, from the answer that asks for it to its result; then everybody goes on to the end.

    begun: it was started before, so that this is its repetition after a restart. ahead: turns that are over by then.
    """

    def member(team: Team) -> Member:
        record = team.roster.get(who)
        host = Host(team, respond, (who,))
        return Lead(host.runtime, record, host.ending) if who == "lead" else Teammate(host.runtime, record)

    def answered(team: Team, say: Acknowledge) -> None:
        asking = member(team)
        asking.status(Status.WORKING)
        asking.loop.deliver()
        for turn in range(ahead + 1):
            answer = asking.loop.ask()
            assert answer is not None and answer.calls
            asking.loop.note(answer)
            last = asking.loop.last_answer()
            if turn < ahead and last is not None:
                asking.loop.act(last)

    def act(team: Team, say: Acknowledge) -> None:
        acting = member(team)
        last = acting.loop.last_answer()
        assert last is not None
        if begun:
            acting.loop.repair()
        else:
            acting.loop.act(last)

    def begin(team: Team, say: Acknowledge) -> None:
        answered(team, say)
        journal = journal_of(team, who)
        last = journal.records[-1]
        assert isinstance(last, Answered)
        asked = next(block for block in last.content if block["type"] == "tool_use")
        key = f"{last.instance}/{last.seq}/0"
        journal.append(Started(instance=last.instance, call=asked["id"], tool=asked["name"], key=key))

    finish = driven(respond, who, *others)
    return Operation(name, start, act, finish=finish, before=begin if begun else answered)


# ---------------------------------------------------------------- where they begin


def desk(place: Place) -> None:
    """A lead with mail to read. T1 pending; ben on T2, with a plan that waits; T3 cancelled; T4 behind T1."""
    place.make(splits="auto", approver="lead", teammates=3)
    _desk(place)


def desk_of_a_person(place: Place) -> None:
    """The same where a person approves of every batch of tasks."""
    place.make(splits="human", approver="lead", teammates=3)
    _desk(place)


def _desk(place: Place) -> None:
    team = place.open()
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ben"):
        team.roster.spawn(name, model="m")
    specs = [
        NewTask(ref="T1", subject="one", priority=1),
        NewTask(ref="T2", subject="two", requires_plan=True),
        NewTask(ref="T3", subject="three", priority=1),
        NewTask(ref="T4", subject="four", blocked_by=("T1",)),
    ]
    team.board.create(specs, by="lead")
    team.board.want("T3", move="cancel", by="lead", reason="no")
    driven(mate_says(("submit_plan", {"plan": "as the task says"})), "ben", claims=True)(team, _nothing)
    assert team.requests.get("R1").task == "T2"
    driven(lead_says(), "lead")(team, _nothing)
    team.mail.send(Note(text="go on"), sender="human", sender_instance=None, to="lead")


def work(place: Place) -> None:
    """ada on T1 with a file written and nothing said yet; T2 of ben is submitted, T3 is behind T1."""
    place.make(splits="auto", approver="lead", teammates=3, max_attempts=2)
    team = place.open()
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ada", "ben"):
        team.roster.spawn(name, model="m")
    specs = [NewTask(ref="T1", subject="one"), NewTask(ref="T2", subject="two"), NewTask(ref="T3", subject="three")]
    team.board.create([*specs[:2], specs[2].model_copy(update={"blocked_by": ("T1",)})], by="lead")
    host = Host(team, mate_says(), ("ada",), claims=True)
    ada = host.member("ada")
    assert ada is not None
    while not ada.journal.conversation():
        assert ada.do_next()
    (tree(team, "ada") / "one.txt").write_text("one\nada\n")
    take(team, "ben")
    team.roster.update("ben", "ben#1", task="T2", epoch=1, worktree=str(tree(team, "ben")))
    (tree(team, "ben") / "one.txt").write_text("one\nben\n")
    hand_in(team, "ben", "T2")


def moved_on(place: Place) -> None:
    """As `work`, and T2 is merged: ada's file is in conflict with it."""
    work(place)
    team = place.open()
    merge(team, "T2")
    send_outcome(team, team.board.complete("T2", 1, merged_commit=team.keeper.tip(), made_by="merged"))


def handed_in(place: Place) -> None:
    """As `work`, and ada's T1 is submitted behind T2."""
    work(place)
    team = place.open()
    driven(mate_says(("submit_work", {"summary": "s"})), "ada")(team, _nothing)


def shutting(place: Place) -> None:
    """As `work`, with ada asked to stop while she has made a call that has no result yet."""
    work(place)
    team = place.open()
    asked = team.requests.ask_shutdown(sender="lead", sender_instance="lead#1", to="ada", to_instance="ada#1")
    send_owed(team.requests, team.mail, asked)


def all_done(place: Place) -> None:
    """A lead with nothing open any more: T1 was completed without a change."""
    place.make(splits="auto", approver="lead", teammates=3)
    team = place.open()
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ada"):
        team.roster.spawn(name, model="m")
    team.board.create([NewTask(ref="T1", subject="one")], by="lead")
    take(team, "ada")
    team.board.submit("T1", 1, by="ada", summary="s", commit=None, no_change=True)
    send_outcome(team, team.board.complete("T1", 1, merged_commit=None))
    team.keeper.close("ada")
    driven(lead_says(), "lead")(team, _nothing)
    team.mail.send(Note(text="go on"), sender="human", sender_instance=None, to="lead")


def written_to(place: Place) -> None:
    """As `work`, with two notes for ada."""
    work(place)
    team = place.open()
    for text in ("first", "second"):
        team.mail.send(Note(text=text), sender="lead", sender_instance="lead#1", to="ada")


def mess(place: Place) -> None:
    """All that recovery has to put right: ada's life has failed with work in hand and mail in her box, T2 is merged and
    nobody was told, a request is not announced, a batch is half written, a host process is dead."""
    work(place)
    team = place.open()
    team.mail.send(Note(text="read me"), sender="ben", sender_instance="ben#1", to="ada")
    merge(team, "T2")
    team.board.complete("T2", 1, merged_commit=team.keeper.tip(), made_by="merged")
    team.keeper.close("ben")
    team.roster.update("ben", "ben#1", task=None, epoch=None)
    team.requests.ask_shutdown(sender="lead", sender_instance="lead#1", to="ben", to_instance="ben#1", made_by="k")
    team.roster.update("ada", "ada#1", status=Status.FAILED, reason="a fault")
    team.board.create([NewTask(ref="a", subject="A"), NewTask(ref="b", subject="B", blocked_by=("a",))], by="lead")
    batch = [task for task in team.board.tasks() if task.id in ("T4", "T5")]
    Intents(place.root / "intents").write(batch, "k")
    (place.root / "tasks" / "T5.json").unlink()
    (place.root / "tasks" / ".T4.json.00aa00aa00aa-1.tmp").write_text("{")
    for name in ("00aa00aa00aa.lock", "00aa00aa00aa.port"):
        (place.root / "processes" / name).write_text("{}")


def recovers(team: Team, say: Acknowledge) -> None:
    recover(team)


def _nothing(key: str) -> None:
    """Nobody listens."""


STARTS: dict[str, Callable[[Place], None]] = {
    "desk": desk,
    "desk of a person": desk_of_a_person,
    "work": work,
    "moved on": moved_on,
    "handed in": handed_in,
    "shutting": shutting,
    "written to": written_to,
    "all done": all_done,
    "mess": mess,
}

# ---------------------------------------------------------------- the turns

REJECT: Script = ("review", {"request_id": "R1", "decision": "reject", "feedback": "no"})
CANCEL: Script = ("cancel_task", {"task_id": "T2", "reason": "r"})
RELEASE: Script = ("release_task", {"task_id": "T2", "reason": "r"})
BATCH = {"tasks": [{"ref": "a", "subject": "A"}, {"ref": "b", "subject": "B", "blocked_by": ["a", "T1"]}]}
LEAD: Sequence[Script] = (
    ("create_tasks", BATCH),
    ("update_task", {"task_id": "T4", "priority": 9, "remove_blocked_by": ["T1"]}),
    ("cancel_task", {"task_id": "T1", "reason": "not wanted"}),
    ("retry_task", {"task_id": "T3", "reason": "wanted after all"}),
    ("spawn_teammate", {"name": "cleo", "prompt": "be quick"}),
    ("review", {"request_id": "R1", "decision": "approve"}),
    ("request_shutdown", {"name": "ben", "reason": "no more work"}),
    ("send_message", {"to": "ben", "text": "hello", "urgent": True}),
    ("ask_human", {"question": "which?"}),
)
SUBMIT: Script = ("submit_work", {"summary": "done as asked"})
TEAMMATE: Sequence[tuple[Script, ...]] = (
    (("todo_write", {"items": [{"text": "one", "status": "completed"}]}), SUBMIT),
    (("submit_plan", {"plan": "this, then that"}), SUBMIT),
    (SUBMIT,),
    (("give_up", {"reason": "cannot"}),),
    (("park", {"reason": "later", "blocked_by": ["T2"]}),),
    (("propose_tasks", BATCH), SUBMIT),
    (("send_message", {"to": "ben", "text": "hello"}), SUBMIT),
    (("write_file", {"path": "new.txt", "content": "new\n"}), SUBMIT),
)


def too_long(request: ModelRequest) -> Answer:
    """A conversation that does not fit until it is compacted; then the hand-in."""
    if "# So far" not in texts(request):
        raise PromptTooLong("too long")
    return mate_says(SUBMIT)(request)


def repairs(request: ModelRequest) -> Answer:
    """A conflict is resolved by writing the file anew."""
    return mate_says(("sync", {}), ("write_file", {"path": "one.txt", "content": "one\nboth\n"}), SUBMIT)(request)


def after_return(request: ModelRequest) -> Answer:
    if 'kind="returned"' not in texts(request):
        return reply(request, "nothing")
    done = called(request, since_mail="returned")
    left = [
        call for call in (("write_file", {"path": "one.txt", "content": "one\nboth\n"}), SUBMIT) if call[0] not in done
    ]
    return reply(request, "repaired", left[0]) if left else reply(request, "done")


def one_entry(team: Team, say: Acknowledge) -> None:
    """The first in the queue is judged: ben's is merged, and then ada's is in conflict with it."""
    assert Host(team, after_return, ()).queue.step()


repaired = driven(after_return, "queue", "ada")
SHUTDOWN = {"request_id": "R1"}
TURNS = [
    *(call(f"lead: {each[0]}", "desk", lead_says(each), "lead") for each in LEAD),
    call("lead: create_tasks, split to approve", "desk of a person", lead_says(LEAD[0]), "lead"),
    call("lead: review, rejected", "desk", lead_says(REJECT), "lead"),
    call("lead: cancel_task, taken from its owner", "desk", lead_says(CANCEL), "lead", "ben"),
    call("lead: release_task, taken from its owner", "desk", lead_says(RELEASE), "lead", "ben"),
    call("lead: request_shutdown, obeyed", "desk", lead_says(LEAD[6]), "lead", "ben"),
    call("lead: finish", "all done", lead_says(("finish", {"summary": "all done"})), "lead"),
    *(call(f"ada: {calls[0][0]}", "work", mate_says(*calls), "ada") for calls in TEAMMATE),
    call("ada: sync with a conflict", "moved on", repairs, "ada"),
    call(
        "ada: answer_shutdown, no",
        "shutting",
        mate_says(("answer_shutdown", SHUTDOWN | {"accept": False}), SUBMIT),
        "ada",
        begun=True,
    ),
    call(
        "ada: answer_shutdown, yes",
        "shutting",
        mate_says(("answer_shutdown", SHUTDOWN | {"accept": True})),
        "ada",
        begun=True,
    ),
    Operation("ada: compaction", "work", driven(too_long, "ada")),
    Operation("ada: mail of two notes", "written to", driven(mate_says(SUBMIT), "ada"), sampled=8),
    Operation("ada: asked to stop", "shutting", driven(mate_says(), "ada"), sampled=12),
    Operation("lead: a whole turn", "desk", driven(lead_says(*LEAD[:3]), "lead"), sampled=8),
    Operation("ben claims the next task", "moved on", driven(mate_says(SUBMIT), "ben", claims=True)),
    Operation("recovery", "mess", recovers, sampled=8),
    Operation("the queue merges", "work", driven(mate_says(), "queue")),
    Operation("the queue merges one, returns one", "handed in", driven(after_return, "queue", "ada"), sampled=4),
    Operation("the queue returns one", "handed in", one_entry, finish=repaired, before=one_entry),
]

"""Calls of the rooms, each with its key: board, mail, requests, worktrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crash.harness import Act, Operation
from tests.crash.place import Place
from tests.crash.points import Acknowledge

from coterie import files
from coterie.lead.integration import send_returned
from coterie.lead.recovery import bury
from coterie.mailbox import Note, RequestStatus, send_owed
from coterie.taskboard import Assignment, NewTask
from coterie.teammates.journal import Delivered, Journal, Undelivered
from coterie.teammates.outcomes import send_outcome
from coterie.teammates.roster import Status
from coterie.teammates.team import Team

SPECS = [NewTask(ref=f"r{n}", subject="s", blocked_by=(f"r{n - 1}",) if n else ("T1",)) for n in range(4)]


# ---------------------------------------------------------------- where they begin


def board(place: Place) -> None:
    """T1 pending, T2 claimed, T3 bound, T4 submitted, T5 cancelled, T6 claimed."""
    place.make()
    team = place.open()
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ada", "bob", "cleo", "dan", "eve"):
        team.roster.spawn(name, model="m")
    names = [NewTask(ref=f"T{n}", subject="s", priority=5 if n > 1 else 0) for n in range(1, 7)]
    team.board.create(names, by="lead")
    for number, owner in ((2, "ada"), (3, "bob"), (4, "cleo")):
        task = team.board.claim(owner=owner, instance=f"{owner}#1")
        assert task is not None and task.id == f"T{number}"
        if number > 2:
            bind(team, owner, task.id)
    team.board.submit("T4", 1, by="cleo", summary="s", commit=None, no_change=True)
    team.board.want("T5", move="cancel", by="lead", reason="r")
    assert team.board.claim(owner="dan", instance="dan#1")


def mail(place: Place) -> None:
    """ada, bob and eve with mail; a plan of ada that waits, a shutdown of bob, a question of the lead."""
    board(place)
    team = place.open()
    for text in ("one", "two"):
        for to in ("ada", "bob", "eve"):
            team.mail.send(Note(text=text), sender="lead", sender_instance="lead#1", to=to)
    for name in ("ada", "eve"):
        journal_of(team, name).append(Undelivered(instance=f"{name}#1", ids=[]))
    bind(team, "ada", "T2")
    plan = team.requests.submit_plan(sender="ada", sender_instance="ada#1", to="lead", task="T2", epoch=1, text="plan")
    asked = team.requests.ask_shutdown(sender="lead", sender_instance="lead#1", to="bob", to_instance="bob#1")
    question = team.requests.ask_question(sender="lead", sender_instance="lead#1", to="human", text="which?")
    for request in (plan, asked, question):
        send_owed(team.requests, team.mail, request)


def trees(place: Place) -> None:
    """ada has work in her worktree, on T1; T2 of ben was merged meanwhile and touches the same file."""
    place.make()
    team = place.open()
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ada", "ben"):
        team.roster.spawn(name, model="m")
    team.board.create([NewTask(ref=f"T{n}", subject=f"Task {n}") for n in range(1, 4)], by="lead")
    for owner in ("ada", "ben"):
        take(team, owner)
    (tree(team, "ben") / "one.txt").write_text("one\nben\n")
    hand_in(team, "ben", "T2")
    merge(team, "T2")
    send_outcome(team, team.board.complete("T2", 1, merged_commit=team.keeper.tip(), made_by="merged"))
    team.keeper.close("ben")
    (tree(team, "ada") / "one.txt").write_text("one\nada\n")
    (tree(team, "ada") / "new.txt").write_text("new\n")


def bind(team: Team, owner: str, task: str, key: str | None = None) -> None:
    opened = team.keeper.open(owner, task=task, epoch=1, base=team.keeper.tip())
    bound = Assignment(worktree=str(opened.path), branch=opened.branch, base=opened.base)
    team.board.bind(task, 1, bound, made_by=key)


def take(team: Team, owner: str, key: str = "first") -> None:
    task = team.board.claim(owner=owner, instance=f"{owner}#1", made_by=f"{owner}/{key}")
    assert task is not None
    bind(team, owner, task.id, f"{owner}/{key}/bind")


def tree(team: Team, owner: str) -> Path:
    return team.keeper.path(owner)


def hand_in(team: Team, owner: str, task: str) -> None:
    base = team.board.get(task).assignment
    assert base is not None
    commit = team.keeper.commit(owner, task=task, epoch=1, base=base.base, message="work", author=owner)
    team.board.submit(task, 1, by=owner, summary="s", commit=commit, made_by=f"{owner}/submit")


def merge(team: Team, task: str) -> None:
    """The queue's steps without its checks."""
    result = team.board.get(task).result
    assert result is not None and result.commit is not None
    base = team.record.base.commit
    if team.merger.find_merged(task=task, epoch=1, head=result.commit, base=base) is not None:
        return
    tip = team.keeper.tip()
    found = team.merger.plan_merge(result.commit, tip)
    trailers = {
        "Coterie-Team": team.name,
        "Coterie-Task": task,
        "Coterie-Epoch": "1",
        "Coterie-Head": result.commit,
        "Coterie-Plan": "none",
    }
    commit = team.merger.commit_merge(found, tip=tip, head=result.commit, message=task, trailers=trailers, author="ada")
    team.merger.advance(tip, commit)


STARTS: dict[str, Callable[[Place], None]] = {"board": board, "mail": mail, "trees": trees}


# ---------------------------------------------------------------- the calls


def one(call: Callable[[Team], object], key: str | None = "k") -> Act:
    """An operation of one call, acknowledged when it returns."""

    def act(team: Team, say: Acknowledge) -> None:
        call(team)
        if key is not None:
            say(key)

    return act


def take_back(team: Team) -> None:
    """Want it, and make the wanted move, which recovery may have made."""
    if team.board.want("T6", move="release", by="human", reason="r", made_by="k").wanted is not None:
        team.board.carry_out("T6", 1, by="runtime")


BOARD: dict[str, Callable[[Team], object]] = {
    "create one": lambda team: team.board.create(SPECS[:1], by="lead", made_by="k"),
    "create batch": lambda team: team.board.create(SPECS, by="lead", made_by="k"),
    "claim": lambda team: team.board.claim(owner="eve", instance="eve#1", made_by="k"),
    "bind": lambda team: bind(team, "ada", "T2", "k"),
    "submit": lambda team: team.board.submit("T3", 1, by="bob", summary="s", commit="c", made_by="k"),
    "set merging": lambda team: team.board.set_merging("T4", 1, "m", "k"),
    "complete": lambda team: send_outcome(team, team.board.complete("T4", 1, merged_commit=None, made_by="k")),
    "return": lambda team: send_returned(
        team, team.board.give_back("T4", 1, reason="r", base="b", owner_available=True, made_by="k")
    ),
    "return to the board": lambda team: team.board.give_back(
        "T4", 1, reason="r", base="b", owner_available=False, made_by="k"
    ),
    "unbind": lambda team: team.board.unbind("T4", 1, by="queue", reason="r", made_by="k"),
    "give up": lambda team: team.board.give_up("T3", 1, by="bob", reason="r", made_by="k"),
    "park": lambda team: team.board.park("T3", 1, by="bob", reason="r", blocked_by=["T1"], made_by="k"),
    "release": lambda team: team.board.release("T3", 1, by="runtime", reason="r", made_by="k"),
    "cancel": lambda team: team.board.want("T1", move="cancel", by="human", reason="r", made_by="k"),
    "want back": lambda team: team.board.want("T3", move="cancel", by="human", reason="r", made_by="k"),
    "take back": lambda team: take_back(team),
    "retry": lambda team: team.board.retry("T5", by="human", reason="r", made_by="k"),
    "update": lambda team: team.board.update("T1", by="lead", add_blocked_by=["T5"], priority=9, made_by="k"),
}
BESIDE = ("create batch", "claim", "complete")


def journal_of(team: Team, name: str) -> Journal:
    return Journal(team.roster.folder(name) / "journal.jsonl")


def receive(name: str) -> Act:
    """Deliver around one record of the journal."""

    def act(team: Team, say: Acknowledge) -> None:
        journal = journal_of(team, name)

        def delivered(messages: list) -> None:
            ids = [each.id for each in messages]
            kinds = [each.kind for each in messages]
            record = journal.append(Delivered(instance=f"{name}#1", turn=1, ids=ids, kinds=kinds, text="mail"))
            say(f"{name}#1/mail/{record.seq}")

        team.mail.receive(
            name,
            instance=f"{name}#1",
            seen=journal.seen,
            journal=delivered,
            journal_undelivered=lambda messages: None,
        )

    return act


def journal(team: Team, say: Acknowledge) -> None:
    """Three records, each acknowledged; those that are there are not written again."""
    book = journal_of(team, "eve")
    while book.next_seq <= 4:
        record = book.append(Undelivered(instance="eve#1", ids=[]))
        say(f"eve#1/undelivered/{record.seq}")


def send(team: Team, say: Acknowledge) -> None:
    for key, to in (("k1", "ada"), ("k2", "ada"), ("k3", "human")):
        team.mail.send(Note(text=key), sender="lead", sender_instance="lead#1", to=to, made_by=key)
        say(key)


def plan(team: Team, say: Acknowledge) -> None:
    request = team.requests.submit_plan(
        sender="bob", sender_instance="bob#1", to="lead", task="T3", epoch=1, text="how", made_by="k"
    )
    say("k")
    send_owed(team.requests, team.mail, request)
    say(f"{request.id}/notice")


def decide(approve: bool) -> Act:
    def act(team: Team, say: Acknowledge) -> None:
        request = team.requests.decide(
            "R1", by="lead", by_instance="lead#1", approve=approve, feedback="f", made_by="k"
        )
        say("k")
        send_owed(team.requests, team.mail, request)
        say("R1/decision")

    return act


def settle(status: RequestStatus, by: str) -> Act:
    def act(team: Team, say: Acknowledge) -> None:
        life = "bob#1" if by == "bob" else None
        request = team.requests.settle_shutdown("R2", status=status, by=by, by_instance=life, reason="r", made_by="k")
        say("k")
        send_owed(team.requests, team.mail, request)
        say("R2/shutdown_answer")

    return act


def ask_shutdown(team: Team, say: Acknowledge) -> None:
    request = team.requests.ask_shutdown(
        sender="human", sender_instance=None, to="ada", to_instance="ada#1", made_by="k"
    )
    say("k")
    send_owed(team.requests, team.mail, request)
    say(f"{request.id}/shutdown_request")


def answer(team: Team, say: Acknowledge) -> None:
    request = team.requests.answer("R3", by="human", by_instance=None, text="that", made_by="k")
    say("k")
    send_owed(team.requests, team.mail, request)
    say("R3/answer")


def split(team: Team, say: Acknowledge) -> None:
    """A proposal with its tasks."""
    request = team.requests.propose_split(sender="ada", sender_instance="ada#1", to="lead", text="t", made_by="k")
    team.board.create(SPECS, by="ada", made_by="k", split=request.id)
    say("k")
    send_owed(team.requests, team.mail, request)


def spawn(team: Team, say: Acknowledge) -> None:
    team.roster.spawn("fay", model="m", made_by="k")
    say("k")


def end_of_life(team: Team, say: Acknowledge) -> None:
    """A life ends with mail in its box: its sender is told."""
    team.roster.update("eve", "eve#1", status=Status.STOPPED)
    book = journal_of(team, "eve")

    def undelivered(messages: list) -> None:
        book.append(Undelivered(instance="eve#1", ids=[each.id for each in messages]))

    team.mail.end_of_life("eve", instance="eve#1", seen=book.seen, journal_undelivered=undelivered)


def claim_and_bind(team: Team, say: Acknowledge) -> None:
    """The next task in a worktree that was used before."""
    take(team, "ben", "second")
    say("ben/second/bind")


def first_worktree(team: Team, say: Acknowledge) -> None:
    team.roster.spawn("fay", model="m", made_by="k")
    take(team, "fay")
    say("fay/first/bind")


def submit(team: Team, say: Acknowledge) -> None:
    hand_in(team, "ada", "T1")
    say("ada/submit")


def snapshot(team: Team, say: Acknowledge) -> None:
    assert team.keeper.snapshot("ada", label="T1-e1") is not None


def close(team: Team, say: Acknowledge) -> None:
    team.keeper.close("ada")


def given_back(team: Team, say: Acknowledge) -> None:
    """ada holds nothing any more, and her work lies in her worktree."""
    team.board.release("T1", 1, by="runtime", reason="r", made_by="back")


def join(team: Team, say: Acknowledge) -> None:
    """What was merged meanwhile comes into the worktree, with marks where both sides changed a file."""
    assert team.keeper.merge_in("ada", task="T1", epoch=1, commit=team.keeper.tip()) == ["one.txt"]


def reader(team: Team, say: Acknowledge) -> None:
    team.keeper.reader("queue", team.keeper.tip())


DEAD = "00000000dead"


def joined_and_killed(team: Team, say: Acknowledge) -> None:
    """ada had joined with a process of her own, which is dead; she has mail that she never read."""
    team.roster.update("ada", "ada#1", joined=True, process=DEAD)
    team.mail.send(Note(text="hello"), sender="lead", sender_instance="lead#1", to="ada", made_by="hello")
    files.write_json(team.root / "processes" / f"{DEAD}.lock", {"schema": 1, "process": DEAD})


def bury_ada(team: Team, say: Acknowledge) -> None:
    bury(team, DEAD)


CALLS = [
    *(
        Operation(
            name,
            "board",
            one(call),
            beside=name in BESIDE,
        )
        for name, call in BOARD.items()
    ),
    Operation("create batch, from a terminal", "board", one(BOARD["create batch"]), abandoned=True),
    Operation("append to a journal", "mail", journal),
    Operation("send", "mail", send),
    Operation("deliver", "mail", receive("ada")),
    Operation("submit a plan", "mail", plan),
    Operation("approve", "mail", decide(True)),
    Operation("reject", "mail", decide(False)),
    Operation("ask for a shutdown", "mail", ask_shutdown),
    Operation("acknowledge a shutdown", "mail", settle(RequestStatus.ACKNOWLEDGED, "runtime")),
    Operation("decline a shutdown", "mail", settle(RequestStatus.DECLINED, "bob")),
    Operation("force a shutdown", "mail", settle(RequestStatus.FORCED, "runtime")),
    Operation("answer a question", "mail", answer),
    Operation("approve, from a terminal", "mail", decide(True), abandoned=True),
    Operation("ask for a shutdown, from a terminal", "mail", ask_shutdown, abandoned=True),
    Operation("answer a question, from a terminal", "mail", answer, abandoned=True),
    Operation("propose tasks", "mail", split),
    Operation("spawn", "mail", spawn),
    Operation("end of a life", "mail", end_of_life),
    Operation("claim and bind in a used worktree", "trees", claim_and_bind),
    Operation("claim and bind in a new worktree", "trees", first_worktree),
    Operation("commit and submit", "trees", submit),
    Operation("snapshot", "trees", snapshot),
    Operation("close a worktree", "trees", close, before=given_back),
    Operation("merge into a worktree", "trees", join),
    Operation("reader", "trees", reader),
    Operation("bury a joined process", "trees", bury_ada, before=joined_and_killed, sampled=12),
]

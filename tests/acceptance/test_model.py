"""A team's board, mail and requests against a model in plain dicts: any order of calls, two processes, kills.

Each step makes one call through one of two handles on the same folder. Often the call is first made in a forked child
that dies by SIGKILL just before one of its writes; then that handle is opened afresh and the call made again with the
same key. Whatever happened before the kill, the outcome has to be what the model says of the call made once.
`COTERIE_SOAK=1` looks much longer, and elsewhere each time.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.acceptance.audit import audit
from tests.acceptance.ledger import MAX_ATTEMPTS, MAX_RETURNS, Ledger, No

from coterie import files
from coterie.errors import Refused
from coterie.mailbox import Mailbox, Message, Note, Recipient, Requests, RequestStatus, send_owed
from coterie.taskboard import Assignment, Board, NewTask, Task
from coterie.teammates.journal import Delivered, Journal, Undelivered
from coterie.teammates.roster import Roster, Status, UnknownMember

SOAK = os.environ.get("COTERIE_SOAK") == "1"
NAMES = ("ada", "bob")
MOST = 9
"""Tasks on one board."""
CALLS = (
    "claim",
    "bind", "submit", "set_merging", "set_merging", "unbind", "complete", "give_back", "release", "want", "carry_out",
    "park", "park", "give_up", "retry", "rewire", "rewire",
)  # fmt: skip
WRITES = ("os.rename", "os.remove", "os.mkdir", "os.truncate", "os.link")

_T = TypeVar("_T")
handles = st.integers(0, 1)
picks = st.integers(0, 4 * MOST)
kills = st.one_of(st.none(), st.none(), st.integers(1, 9))
names = st.sampled_from(NAMES)
stale = st.sampled_from([0, 0, 0, 0, -1])
calls = st.tuples(st.sampled_from(CALLS), picks, picks, stale, st.booleans())


class Rooms:
    """The rooms of a team as one process has them open."""

    def __init__(self, root: Path, process: str) -> None:
        self.roster = Roster(root)
        self.board = Board(root, process=process, max_attempts=MAX_ATTEMPTS, max_returns=MAX_RETURNS, settle=0.0)
        self.requests = Requests(
            root,
            is_current=self.board.is_current,
            merging=lambda task: self.board.get(task).merging is not None,
            is_alive=lambda instance: self.roster.instance_of(instance.partition("#")[0]) in (instance, "human"),
            settle=0.0,
        )
        self.mail = Mailbox(root, recipient=self.recipient, settle=0.0)
        self.journals = {name: Journal(root / "members" / name / "journal.jsonl") for name in ("lead", *NAMES)}

    def recipient(self, name: str) -> Recipient | None:
        if name == "human":
            return Recipient("human", True)
        try:
            found = self.roster.get(name)
        except UnknownMember:
            return None
        return Recipient(found.instance, not found.status.over)

    def receive(self, name: str, instance: str) -> list[Message]:
        journal = self.journals[name]

        def delivered(mail: list[Message]) -> None:
            journal.append(
                Delivered(
                    instance=instance,
                    turn=1,
                    ids=[each.id for each in mail],
                    kinds=[each.kind for each in mail],
                    text="mail",
                )
            )

        return self.mail.receive(
            name,
            instance=instance,
            seen=journal.seen,
            journal=delivered,
            journal_undelivered=lambda mail: self.undelivered(name, instance, mail),
        )

    def undelivered(self, name: str, instance: str, mail: Sequence[Message]) -> None:
        self.journals[name].append(Undelivered(instance=instance, ids=[each.id for each in mail]))

    def end(self, name: str, instance: str) -> None:
        self.roster.update(name, instance, status=Status.STOPPED)
        self.mail.end_of_life(
            name,
            instance=instance,
            seen=self.journals[name].seen,
            journal_undelivered=lambda mail: self.undelivered(name, instance, mail),
        )


class TeamModel(RuleBasedStateMachine):
    """The real thing beside the dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="coterie-model-"))
        self.root = self.top / "main"
        for folder in ("tasks", "requests", "intents", "mail/human/new", "mail/human/cur"):
            (self.root / folder).mkdir(parents=True)
        files.promise(files.Durability.PROCESS)  # kills only: no power is cut here
        self.ledger = Ledger()
        self.lives = {"lead": "lead#1"}
        self.ended = dict.fromkeys(NAMES, 0)
        self.mail: dict[str, tuple[str, str, str, str]] = {}
        """key -> (sender, sender's life, to, to's life) of what waits; in the order of sending."""
        self.requests: dict[str, dict[str, Any]] = {}
        self.calls = 0
        first = Roster(self.root)
        for name in ("lead", *NAMES):
            self.lives[name] = first.spawn(name, model="m").instance
        self.rooms = [Rooms(self.root, "p0"), Rooms(self.root, "p1")]

    def teardown(self) -> None:
        files.promise(files.Durability.POWER)
        shutil.rmtree(self.top)

    # ------------------------------------------------------------ one call

    def key(self) -> str:
        self.calls += 1
        return f"lead#1/{self.calls}/0"

    def make(self, at: int, kill: int | None, call: Callable[[Rooms], _T]) -> _T:
        """Make a call, perhaps after a process that made it was killed in the middle."""
        if kill is not None:
            self.killed(at, kill, call)
            self.rooms[at] = Rooms(self.root, f"p{at}")
            for name in self.rooms[at].mail.names():
                self.rooms[at].mail.heal(name)
            self.drop_temp_files()
        for each in self.rooms:  # a journal has one owner, the member's host: here, who makes the call
            each.journals = self.rooms[at].journals
        return call(self.rooms[at])

    def killed(self, at: int, kill: int, call: Callable[[Rooms], object]) -> None:
        with warnings.catch_warnings():  # later Pythons warn of threads: the test runner's hold none of our locks
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child:
            _, ended = os.waitpid(child, 0)
            assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0, "the call failed in the child"
            return
        left = kill

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            writes = event in WRITES
            if event == "open" and isinstance(arguments[2], int):
                writes = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) and not str(arguments[0]).endswith("/lock")
            if writes and str(self.root) in str(arguments[0]):
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            call(self.rooms[at])
        except Refused:
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)

    def drop_temp_files(self) -> None:
        for path in self.root.rglob(".*.tmp"):
            path.unlink()

    def refused(self, at: int, kill: int | None, call: Callable[[Rooms], object]) -> None:
        try:
            answer = self.make(at, kill, call)
        except Refused:
            return
        raise AssertionError(f"expected to be refused, got {answer!r}")

    def effect(self, at: int, kill: int | None, says: Callable[[], _T], call: Callable[[Rooms], Any]) -> _T | None:
        """The call, and what the model says of it."""
        try:
            expected = says()
        except No:
            self.refused(at, kill, call)
            return None
        answer = self.make(at, kill, call)
        if isinstance(answer, Task):
            assert answer == self.rooms[1 - at].board.get(answer.id), "the answer is what the file says"
        elif answer is None or isinstance(answer, dict):
            assert answer == expected
        return expected

    def pick(self, number: int, *statuses: str) -> tuple[str, dict[str, Any]]:
        """A task: three times of four one in these statuses, if there is any."""
        ids = list(self.ledger.tasks)
        if number % 4:
            ids = [id for id in ids if self.ledger.tasks[id]["status"] in statuses] or ids
        id = ids[number % len(ids)]
        return id, self.ledger.tasks[id]

    def instance(self, name: str) -> str:
        return "human" if name == "human" else self.lives.get(name, f"{name}#{self.ended.get(name, 0)}")

    def somebody(self, id: str, other: bool) -> str:
        owner = self.ledger.tasks[id]["owner"] or "ada#1"
        name = str(owner).split("#")[0]
        return next(each for each in NAMES if (each != name) == other)

    # ------------------------------------------------------------ the board

    @initialize(
        kill=st.integers(1, 18),
        specs=st.lists(st.tuples(st.integers(4, 6), st.lists(st.integers(0, 2), max_size=2)), min_size=2, max_size=3),
    )
    def begin(self, kill: int, specs: list[tuple[int, list[int]]]) -> None:
        """A batch without a circle, so that there is something to do; killed on the way, and made again."""
        self.create(
            0, kill, [(priority, [each for each in on if each < n]) for n, (priority, on) in enumerate(specs)], []
        )

    @precondition(lambda self: len(self.ledger.tasks) <= MOST - 3)
    @rule(
        at=handles,
        kill=kills,
        specs=st.lists(st.tuples(st.integers(4, 6), st.lists(st.integers(0, 2), max_size=2)), min_size=1, max_size=3),
        on=st.lists(picks, max_size=2),
    )
    def create(self, at: int, kill: int | None, specs: list[tuple[int, list[int]]], on: list[int]) -> None:
        refs = [f"r{place}" for place in range(len(specs))]
        old = [self.pick(each)[0] for each in on] if self.ledger.tasks else []
        wanted = [
            (ref, priority, [*(f"r{each}" for each in edges if each < len(refs)), *old])
            for ref, (priority, edges) in zip(refs, specs, strict=True)
        ]
        new = [NewTask(ref=ref, subject=ref, priority=priority, blocked_by=tuple(on)) for ref, priority, on in wanted]
        key = self.key()
        self.effect(
            at, kill, lambda: self.ledger.create(wanted), lambda rooms: rooms.board.create(new, by="lead", made_by=key)
        )

    def claim(self, at: int, kill: int | None, name: str) -> None:
        if name not in self.lives:
            return
        instance, key = self.lives[name], self.key()
        ready = {id: task["blocked_by"] for id, task in self.ledger.tasks.items()}
        try:
            expected = self.ledger.claim(instance)
        except No:
            self.refused(at, kill, lambda rooms: rooms.board.claim(owner=name, instance=instance, made_by=key))
            return
        task = self.make(at, kill, lambda rooms: rooms.board.claim(owner=name, instance=instance, made_by=key))
        assert (task.id if task else None) == expected
        if task is not None:
            assert task.claim is not None and task.claim.instance == instance
            assert all(self.ledger.tasks[each]["status"] == "completed" for each in ready[task.id])

    def bind(self, at: int, kill: int | None, number: int, off: int) -> None:
        self.tie(at, kill, self.pick(number, "in_progress")[0], off)

    def tie(self, at: int, kill: int | None, id: str, off: int = 0) -> None:
        epoch, key = self.ledger.tasks[id]["epoch"] + off, self.key()
        to = Assignment(worktree="/w", branch=f"{id}/e{epoch}", base="b")
        if off or not self.ledger.tasks[id]["bound"]:
            self.effect(
                at, kill, lambda: self.ledger.bind(id, epoch), lambda rooms: rooms.board.bind(id, epoch, to, key)
            )

    def submit(self, at: int, kill: int | None, number: int, off: int, other: bool) -> None:
        self.hand_in(at, kill, self.pick(number, "in_progress")[0], off, other)

    def hand_in(self, at: int, kill: int | None, id: str, off: int = 0, other: bool = False) -> None:
        task = self.ledger.tasks[id]
        by, epoch, key = self.somebody(id, other), task["epoch"] + off, self.key()
        commit = f"{id}-{epoch}-{task['returns']}"
        self.effect(
            at,
            kill,
            lambda: self.ledger.submit(id, epoch, by, commit),
            lambda rooms: rooms.board.submit(id, epoch, by=by, summary="s", commit=commit, made_by=key),
        )

    def set_merging(self, at: int, kill: int | None, off: int, commit: str | None) -> None:
        id = self.ledger.queue()[0]
        epoch, key = self.ledger.tasks[id]["epoch"] + off, self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.set_merging(id, epoch, commit),
            lambda rooms: rooms.board.set_merging(id, epoch, commit, key),
        )

    def unbind(self, at: int, kill: int | None, number: int) -> None:
        queue = self.ledger.queue()
        id = queue[number % len(queue)]
        epoch, key = self.ledger.tasks[id]["epoch"], self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.unbind(id, epoch),
            lambda rooms: rooms.board.unbind(id, epoch, by="queue", reason="red", made_by=key),
        )

    def complete(self, at: int, kill: int | None, number: int, off: int) -> None:
        self.finish(at, kill, self.pick(number, "submitted")[0], off)

    def finish(self, at: int, kill: int | None, id: str, off: int = 0) -> None:
        epoch, key = self.ledger.tasks[id]["epoch"] + off, self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.complete(id, epoch, f"m-{id}"),
            lambda rooms: rooms.board.complete(id, epoch, merged_commit=f"m-{id}", made_by=key),
        )

    def give_back(self, at: int, kill: int | None, number: int, off: int, counted: bool) -> None:
        self.give(at, kill, self.pick(number, "submitted")[0], off, counted)

    def give(self, at: int, kill: int | None, id: str, off: int = 0, counted: bool = True) -> None:
        task, key = self.ledger.tasks[id], self.key()
        epoch = task["epoch"] + off
        available = task["owner"] in self.lives.values()
        self.effect(
            at,
            kill,
            lambda: self.ledger.give_back(id, epoch, counted, available),
            lambda rooms: rooms.board.give_back(
                id, epoch, reason="r", base="b", counted=counted, owner_available=available, made_by=key
            ),
        )

    def release(self, at: int, kill: int | None, number: int, off: int, lost: bool) -> None:
        id, task = self.pick(number, "in_progress", "submitted")
        epoch, key = task["epoch"] + off, self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.release(id, epoch, lost),
            lambda rooms: rooms.board.release(id, epoch, by="runtime", reason="r", lost=lost, made_by=key),
        )

    def want(self, at: int, kill: int | None, number: int, move: str) -> None:
        id, key = self.pick(number, "in_progress", "submitted")[0], self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.want(id, move),
            lambda rooms: rooms.board.want(id, move=move, by="human", reason="r", made_by=key),
        )

    def carry_out(self, at: int, kill: int | None, off: int) -> None:
        id = next((id for id, task in self.ledger.tasks.items() if task["wanted"]), "")
        if not id:
            return
        epoch, key = self.ledger.tasks[id]["epoch"] + off, self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.carry_out(id, epoch),
            lambda rooms: rooms.board.carry_out(id, epoch, by="ada", made_by=key),
        )

    def park(self, at: int, kill: int | None, number: int, on: int, off: int) -> None:
        (id, task), (blocker, _), key = self.pick(number, "in_progress"), self.pick(on, "pending"), self.key()
        by, epoch = self.somebody(id, False), task["epoch"] + off
        self.effect(
            at,
            kill,
            lambda: self.ledger.park(id, epoch, by, blocker),
            lambda rooms: rooms.board.park(id, epoch, by=by, reason="r", blocked_by=[blocker], made_by=key),
        )

    def give_up(self, at: int, kill: int | None, number: int, off: int, other: bool) -> None:
        id, task = self.pick(number, "in_progress")
        by, epoch, key = self.somebody(id, other), task["epoch"] + off, self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.give_up(id, epoch, by),
            lambda rooms: rooms.board.give_up(id, epoch, by=by, reason="r", made_by=key),
        )

    def retry(self, at: int, kill: int | None, number: int) -> None:
        id, key = self.pick(number, "failed", "cancelled")[0], self.key()
        self.effect(
            at,
            kill,
            lambda: self.ledger.retry(id),
            lambda rooms: rooms.board.retry(id, by="human", reason="r", made_by=key),
        )

    def rewire(self, at: int, kill: int | None, number: int, on: int, add: bool) -> None:
        id, blocker, key = self.pick(number, "pending")[0], self.pick(on)[0], self.key()
        says = self.ledger.block if add else self.ledger.unblock
        edge = {"add_blocked_by" if add else "remove_blocked_by": [blocker]}
        self.effect(
            at,
            kill,
            lambda: says(id, blocker),
            lambda rooms: rooms.board.update(id, by="human", made_by=key, **edge),  # type: ignore[arg-type]
        )

    @precondition(lambda self: self.ledger.tasks)
    @rule(at=handles, kill=kills, calls=st.lists(calls, min_size=1, max_size=4))
    def call(self, at: int, kill: int | None, calls: list[tuple[str, int, int, int, bool]]) -> None:
        """Calls on some tasks, whether they fit or not; the kill hits the last."""
        for each in calls:
            self.call_one(at, kill if each is calls[-1] else None, *each)

    def call_one(self, at: int, kill: int | None, what: str, number: int, on: int, off: int, odd: bool) -> None:
        match what:
            case "bind" | "complete":
                getattr(self, what)(at, kill, number, off)
            case "give_up" | "submit" | "give_back" | "release":
                getattr(self, what)(at, kill, number, off, odd)
            case "claim":
                self.claim(at, kill, NAMES[number % 2])
            case "want":
                self.want(at, kill, number, "release" if odd else "cancel")
            case "park":
                self.park(at, kill, number, on, off)
            case "rewire":
                self.rewire(at, kill, number, on, odd)
            case "carry_out":
                self.carry_out(at, kill, off)
            case "set_merging" if self.ledger.queue():
                self.set_merging(at, kill, off, "m" if odd else None)
            case "unbind" if self.ledger.queue():
                self.unbind(at, kill, number)
            case "retry":
                self.retry(at, kill, number)

    @rule(
        at=handles,
        kill=kills,
        name=names,
        steps=st.sampled_from([1, 2, 3, 4, 4, 5, 6]),
        how=st.sampled_from(["done", "done", "returned"]),
    )
    def go_on(self, at: int, kill: int | None, name: str, steps: int, how: str) -> None:
        """What a teammate's host does next, and the queue for it: claim, bind, hand in, merge or return."""
        for step in range(steps):
            held = self.ledger.holds(name)
            kill_now = kill if step == steps - 1 else None
            if not held:
                self.claim(at, kill_now, name)
                continue
            task = self.ledger.tasks[held[0]]
            if task["wanted"]:
                self.carry_out(at, kill_now, 0)
            elif not task["bound"]:
                self.tie(at, kill_now, held[0])
            elif task["status"] == "in_progress":
                self.hand_in(at, kill_now, held[0])
            elif how == "returned":
                self.give(at, kill_now, held[0])
            else:
                self.finish(at, kill_now, held[0])

    # ------------------------------------------------------------ mail

    def sent(self, key: str, sender: str, to: str, to_life: str | None = None) -> None:
        """The model of sending: where the life that it is meant for still reads."""
        life = "human" if to == "human" else self.lives.get(to)
        if life is not None and to_life in (None, life):
            self.mail[key] = (sender, self.lives.get(sender, sender), to, life)

    @rule(
        at=handles, kill=kills, sender=st.sampled_from(["lead", "human", *NAMES]), to=st.sampled_from(["lead", *NAMES])
    )
    def send(self, at: int, kill: int | None, sender: str, to: str) -> None:
        if sender != "human" and sender not in self.lives:
            return
        key, life = self.key(), self.lives.get(sender, sender)

        def call(rooms: Rooms) -> Message:
            return rooms.mail.send(Note(text=key), sender=sender, sender_instance=life, to=to, made_by=key)

        if to in self.lives:
            message = self.make(at, kill and 1 + kill % 3, call)
            assert message.to_instance == self.lives[to]
            self.sent(key, sender, to)
        else:
            self.refused(at, kill, call)

    @rule(at=handles, kill=kills, name=st.sampled_from(["lead", *NAMES]))
    def deliver(self, at: int, kill: int | None, name: str) -> None:
        if name not in self.lives:
            return
        life = self.lives[name]
        taken: list[Message] = []

        def call(rooms: Rooms) -> None:
            taken.extend(rooms.receive(name, life))

        self.make(at, kill and 1 + kill % 3, call)
        waited = [key for key, (_, _, to, to_life) in self.mail.items() if (to, to_life) == (name, life)]
        got = [each.made_by for each in taken]
        assert got == waited or (kill is not None and got == []), "what a killed turn journaled is not told again"
        for key in waited:
            del self.mail[key]

    # ------------------------------------------------------------ requests

    def owed(self, rooms: Rooms, id: str) -> None:
        send_owed(rooms.requests, rooms.mail, rooms.requests.get(id))

    @precondition(lambda self: self.ledger.tasks)
    @rule(at=handles, kill=kills, number=picks, off=stale, to=st.sampled_from(["lead", "human"]))
    def submit_plan(self, at: int, kill: int | None, number: int, off: int, to: str) -> None:
        if not any(task["owner"] for task in self.ledger.tasks.values()):
            self.go_on(at, None, NAMES[number % 2], 2, "done")
        id, task = self.pick(number, "in_progress", "submitted")
        name, epoch, key = self.somebody(id, False), task["epoch"] + off, self.key()
        life = self.instance(name)

        def call(rooms: Rooms) -> Any:
            request = rooms.requests.submit_plan(
                sender=name, sender_instance=life, to=to, task=id, epoch=epoch, text="a plan", made_by=key
            )
            self.owed(rooms, request.id)
            return request

        if epoch < 1 or not self.ledger.current(id, epoch):
            if epoch >= 1:
                self.refused(at, kill, call)
            return
        request = self.make(at, kill, call)
        before = [each for each in self.requests.values() if (each["task"], each["epoch"]) == (id, epoch)]
        assert request.revision == len(before) + 1
        for each in before:
            each["late"] = True
        self.requests[request.id] = {
            "task": id, "epoch": epoch, "status": "submitted", "sender": name, "life": life, "to": to, "late": False,
        }  # fmt: skip
        self.sent(f"{request.id}/notice", name, to)

    @rule(
        at=handles,
        kill=kills,
        number=st.integers(0, 50),
        by=st.sampled_from(["lead", "human", "lead", "human", *NAMES]),
        approve=st.booleans(),
    )
    def decide(self, at: int, kill: int | None, number: int, by: str, approve: bool) -> None:
        if not self.requests:
            self.submit_plan(at, None, 1, 0, "lead")
        if not self.requests:
            return
        id = list(self.requests)[-1 - number % len(self.requests)]
        request, key = self.requests[id], self.key()
        after = "approved" if approve else "rejected"
        revokes = (request["status"], after, by) == ("approved", "rejected", "human")
        open_ = request["status"] == "submitted"
        allowed = (
            by in {request["to"], "human"} - {request["sender"]}
            and not (request["late"] and request["status"] != "rejected")
            and (open_ or revokes)
            and self.ledger.current(request["task"], request["epoch"])
            and not (revokes and self.ledger.tasks[request["task"]]["merging"])
        )

        def call(rooms: Rooms) -> None:
            rooms.requests.decide(id, by=by, by_instance=self.instance(by), approve=approve, made_by=key)
            self.owed(rooms, id)

        if not allowed:
            self.refused(at, kill, call)
            return
        self.make(at, kill, call)
        request["status"] = after
        self.sent(f"{id}/{'revoked' if revokes else 'decision'}", by, request["sender"], request["life"])

    @rule(
        at=handles,
        kill=kills,
        name=names,
        by=st.sampled_from(["lead", "human"]),
        move=st.sampled_from(["release", "no"]),
    )
    def shut_down(self, at: int, kill: int | None, name: str, by: str, move: str) -> None:
        """Asked, obeyed, and the box cleared. A task in hand goes back first; a submitted one stays in the queue.

        Whoever is gone is spawned again.
        """
        if name not in self.lives or move == "spawn":
            self.spawn(at, kill, name)
            return
        life, keys = self.lives[name], [self.key() for _ in range(3)]

        def ask(rooms: Rooms) -> Any:
            request = rooms.requests.ask_shutdown(
                sender=by, sender_instance=self.instance(by), to=name, to_instance=life, made_by=keys[0]
            )
            self.owed(rooms, request.id)
            return request

        request = self.make(at, kill, ask)
        self.sent(f"{request.id}/shutdown_request", by, name)
        if move == "no":
            self.make(
                at,
                kill,
                lambda rooms: rooms.requests.settle_shutdown(
                    request.id, status=RequestStatus.DECLINED, by=name, by_instance=life, made_by=keys[1]
                ),
            )
            self.make(at, kill, lambda rooms: self.owed(rooms, request.id))
            self.sent(f"{request.id}/shutdown_answer", name, by, self.instance(by) if by != "human" else None)
            return
        for id in self.ledger.holds(name):
            task = self.ledger.tasks[id]
            if task["status"] == "in_progress":
                epoch = task["epoch"]
                self.ledger.release(id, epoch, True)
                self.make(
                    at,
                    kill,
                    lambda rooms, id=id, epoch=epoch: rooms.board.release(  # type: ignore[misc]
                        id, epoch, by="runtime", reason="stopped", made_by=keys[2]
                    ),
                )
        self.make(
            at,
            kill,
            lambda rooms: rooms.requests.settle_shutdown(
                request.id, status=RequestStatus.ACKNOWLEDGED, by="runtime", made_by=keys[1]
            ),
        )
        self.make(at, kill, lambda rooms: self.owed(rooms, request.id))
        self.sent(f"{request.id}/shutdown_answer", "runtime", by, self.instance(by) if by != "human" else None)
        self.make(at, kill, lambda rooms: rooms.end(name, life))
        del self.lives[name]
        self.ended[name] += 1
        names_ = {each.made_by: each.id for _, each in self.rooms[at].mail.history(name)}
        for key, (sender, sender_life, to, _) in list(self.mail.items()):
            if to == name:
                del self.mail[key]
                if sender not in ("runtime", name):
                    self.sent(
                        f"{names_[key]}/undelivered", "runtime", sender, sender_life if sender != "human" else None
                    )

    def spawn(self, at: int, kill: int | None, name: str) -> None:
        key = self.key()

        def call(rooms: Rooms) -> str:
            return rooms.roster.spawn(name, model="m", made_by=key).instance

        if name in self.lives:
            self.refused(at, kill, call)
        else:
            self.lives[name] = self.make(at, kill, call)
            assert self.lives[name] == f"{name}#{self.ended[name] + 1}"

    # ------------------------------------------------------------ crashes

    @rule(both=st.booleans())
    def crash_and_recover(self, both: bool) -> None:
        """All that was in memory is gone; what records owe is sent once more."""
        for at in range(2 if both else 1):
            self.rooms[at] = Rooms(self.root, f"p{at}")
            self.rooms[at].requests.heal()
            for request in self.rooms[at].requests.all():
                self.owed(self.rooms[at], request.id)

    # ------------------------------------------------------------ what has to be true

    @invariant()
    def the_files_are_sound(self) -> None:
        assert audit(self.root) == []

    @invariant()
    def the_board_is_what_the_model_says(self) -> None:
        expected = {
            id: (
                task["status"], task["epoch"], task["rev"], task["owner"], task["bound"], task["wanted"],
                task["merging"], set(task["blocked_by"]), task["returns"], task["attempts"], task["losses"],
            )
            for id, task in self.ledger.tasks.items()
        }  # fmt: skip
        for rooms in self.rooms:
            view = rooms.board.view()
            found = {
                task.id: (
                    str(task.status), task.epoch, task.rev, task.claim.instance if task.claim else None,
                    task.assignment is not None, task.wanted.move if task.wanted else None,
                    task.merging, set(task.blocked_by), task.returns, task.attempts, task.losses,
                )
                for task in (row.task for row in view)
            }  # fmt: skip
            assert found == expected
            assert [task.id for task in rooms.board.queue()] == self.ledger.queue()
            assert {row.task.id for row in view if row.ready} == set(self.ledger.ready())
            for name in NAMES:
                held = rooms.board.held_by(name)
                assert ([held.id] if held else []) == self.ledger.holds(name)

    @invariant()
    def the_mail_and_the_requests_are_what_the_model_says(self) -> None:
        for name in ("lead", "human", *NAMES):
            waiting = [each.made_by for each in self.rooms[0].mail.waiting(name)]
            assert waiting == [key for key, (_, _, to, _) in self.mail.items() if to == name]
        found = {each.id: str(each.status) for each in self.rooms[1].requests.all() if each.kind == "plan"}
        assert found == {id: each["status"] for id, each in self.requests.items()}
        for id, each in self.requests.items():
            approved = self.rooms[0].requests.plan_approved(each["task"], each["epoch"])
            if not each["late"]:
                assert approved == (each["status"] == "approved"), f"the gate of {id}"


TeamModel.TestCase.settings = hypothesis.settings(
    max_examples=1000 if SOAK else 20,
    stateful_step_count=100 if SOAK else 40,
    derandomize=not SOAK,
    database=None,
    deadline=None,
    phases=[hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if SOAK else [])],  # shrinking takes minutes
    suppress_health_check=list(hypothesis.HealthCheck),
)
TeamModel.TestCase.pytestmark = pytest.mark.timeout(0 if SOAK else 900)  # a busy machine takes a minute
test_any_order_of_calls_with_kills_and_two_processes_ends_where_the_model_does = TeamModel.TestCase

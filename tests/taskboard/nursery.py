"""Processes that work on one board, are killed at random, and are replaced; run as a script by test_many.py.

The nursery has one thread and forks its children from there. Each child claims with several threads, binds, hands in
and completes; every seventh task is given back once, and its old epoch tried again, which has to be refused. A child
writes each acknowledgement to a file of its own as soon as the board has given it. The nursery kills a child at a time,
forks another, and does for the dead what the lead's host does: what they had in progress goes back, what they had
handed in is completed. Where all tasks are done before all kills were made, it adds tasks.

usage: nursery.py ROOT OUT CHILDREN THREADS KILLS SECONDS    SECONDS: at most so long between two kills
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

from coterie.taskboard import Assignment, Board, NewTask, NotCurrent, Status, Task

MORE = 50
"""Tasks that are added at once."""
SETTLE_EVERY = 5
"""Kills after which the work of the dead is looked after."""


class Child:
    """One process, and what it was told."""

    def __init__(self, root: Path, out: Path, process: str) -> None:
        self.board = Board(root, process=process, report=lambda text: print(text, file=sys.stderr, flush=True))
        self.process = process
        self.stop = out / "stop"
        self.parent = os.getppid()
        self.log = os.open(out / f"{process}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.failed: list[BaseException] = []
        self.pause = threading.Event()

    def acknowledged(self, what: str, task: Task, owner: str) -> None:
        os.write(self.log, json.dumps([what, task.id, task.epoch, owner]).encode() + b"\n")

    def work(self, thread: int) -> None:
        turn = 0
        while not self.stop.exists() and os.getppid() == self.parent:  # nobody outlives the test
            turn += 1
            owner = f"{self.process}-{thread}-{turn}"
            task = self.board.claim(owner=owner, instance=f"{owner}#1")
            if task is None:
                self.pause.wait(0.1)  # what is left is in somebody's hand
                continue
            self.acknowledged("claimed", task, owner)
            if task.epoch == 1 and int(task.id[1:]) % 7 == 0:
                self.board.release(task.id, 1, by="runtime", reason="taken back")
                self.acknowledged("released", task, owner)
                self.expect_refused(task)
                continue
            self.board.bind(task.id, task.epoch, Assignment(worktree=f"/w/{owner}", branch=task.id, base="b"))
            self.board.submit(task.id, task.epoch, by=owner, summary="", commit=f"{task.id}-{task.epoch}")
            self.acknowledged("submitted", task, owner)
            self.board.complete(task.id, task.epoch, merged_commit=f"m-{task.id}")
            self.acknowledged("completed", task, owner)

    def expect_refused(self, task: Task) -> None:
        try:
            self.board.bind(task.id, task.epoch, Assignment(worktree="/stale", branch="b", base="b"))
        except NotCurrent:
            return
        raise AssertionError(f"a stale effect on {task.id} was let through")

    def run(self, threads: int) -> int:
        def work(thread: int) -> None:
            try:
                self.work(thread)
            except BaseException as error:
                self.failed.append(error)

        crew = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
        for each in crew:
            each.start()
        for each in crew:
            each.join()
        for error in self.failed:
            print(f"{self.process}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1 if self.failed else 0


class Nursery:
    """The one who forks, kills and cleans up."""

    def __init__(self, root: Path, out: Path, threads: int) -> None:
        self.root = root
        self.out = out
        self.threads = threads
        self.board = Board(root, process="nursery")
        self.children: dict[int, str] = {}
        self.dead: set[str] = set()
        self.born = 0

    def fork(self) -> None:
        self.born += 1
        process = f"p{self.born}"
        pid = os.fork()
        if pid:
            self.children[pid] = process
            return
        code = 1
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            code = Child(self.root, self.out, process).run(self.threads)
        finally:
            os._exit(code)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.dead.add(self.children.pop(pid))

    def settle(self) -> bool:
        """Look after the work of the dead; whether all is done."""
        tasks = self.board.tasks()
        for task in tasks:
            if task.claim is None or task.claim.process not in self.dead:
                continue
            if task.status is Status.IN_PROGRESS:
                self.board.release(task.id, task.epoch, by="runtime", reason="its process is dead")
            else:
                self.board.complete(task.id, task.epoch, merged_commit=f"m-{task.id}")
        return all(task.status is Status.COMPLETED for task in tasks)

    def run(self, children: int, kills: int, seconds: float) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        dice = random.Random(7)
        test = os.getppid()
        killed = 0
        for _ in range(children):
            self.fork()
        while os.getppid() == test:
            if signal.sigtimedwait({signal.SIGCHLD}, dice.uniform(0, seconds)) is not None:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid in self.children:
                    print(f"{self.children.pop(pid)} ended by itself with {status}", file=sys.stderr)
                    return 1
            if killed < kills:
                self.kill(dice.choice(sorted(self.children)))
                self.fork()
                killed += 1
            if killed % SETTLE_EVERY == 0 and self.settle():
                if killed >= kills:
                    break
                self.board.create([NewTask(ref=f"more{n}", subject="more") for n in range(MORE)], by="lead")
        (self.out / "stop").touch()
        ended = [os.waitpid(pid, 0)[1] for pid in self.children]
        print(killed)
        return 1 if any(ended) else 0


if __name__ == "__main__":
    nursery = Nursery(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[4]))
    try:
        sys.exit(nursery.run(int(sys.argv[3]), int(sys.argv[5]), float(sys.argv[6])))
    finally:
        for left in nursery.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)

"""One process of a crowd on one board; run as a script by test_many.py.

Its threads claim until nothing is pending. Every fifth task is handed in and completed, so that who waits for it gets
ready; the others stay with their owner, and each claim is made by an owner of its own. Every seventh task is given
back at first, and then its old epoch is tried once more, which has to be refused. Writes its claims to OUT, one JSON
line each.

usage: crowd.py ROOT PROCESS THREADS OUT
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from pathlib import Path

from coterie.taskboard import Assignment, Board, NotCurrent, Status, Task


def work(board: Board, crew: str, log: list[tuple[str, int, str]]) -> None:
    for turn in itertools.count():
        owner = f"{crew}-{turn}"
        task = board.claim(owner=owner, instance=f"{owner}#1")
        if task is None:
            if all(each.status is not Status.PENDING for each in board.tasks()):
                return
            continue  # what is left waits for work in somebody's hand
        log.append((task.id, task.epoch, owner))
        number = int(task.id[1:])
        if task.epoch == 1 and number % 7 == 0:
            board.release(task.id, 1, by="runtime", reason="taken back")
            expect_refused(board, task)
        elif number % 5 == 0:
            board.bind(task.id, task.epoch, Assignment(worktree=f"/w/{owner}", branch=task.id, base="b"))
            board.submit(task.id, task.epoch, by=owner, summary="", commit=f"{task.id}-{task.epoch}")
            board.complete(task.id, task.epoch, merged_commit=f"m-{task.id}")


def expect_refused(board: Board, task: Task) -> None:
    try:
        board.bind(task.id, task.epoch, Assignment(worktree="/stale", branch="b", base="b"))
    except NotCurrent:
        return
    raise AssertionError(f"a stale effect on {task.id} was let through")


def main(root: Path, process: str, threads: int, out: Path) -> int:
    board = Board(root, process=process, report=lambda text: print(text, file=sys.stderr))
    log: list[tuple[str, int, str]] = []
    failed: list[BaseException] = []

    def run(owner: str) -> None:
        try:
            work(board, owner, log)
        except BaseException as error:
            failed.append(error)

    crew = [threading.Thread(target=run, args=(f"{process}-{number}",)) for number in range(threads)]
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    out.write_text("".join(json.dumps(each) + "\n" for each in log))
    for error in failed:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))

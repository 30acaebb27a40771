"""How fast tasks are claimed: this board beside a plain SQLite table and beside a board that reads every file.

usage: python bench/claims.py [--quick] [--folder FOLDER]

All three run one after another on the same machine, in the same folder, with the same tasks: independent, equal in
priority, claimed one by one by one thread, each claim durable before it is answered. SQLite: UPDATE … RETURNING in
WAL mode with synchronous=FULL. The naive board takes the same lock, reads and parses every task's file, and replaces
one durably. The table shows claims per second and the 99th percentile in milliseconds; the ratio is SQLite's rate
over the board's. --quick: a smoke test that shows that it runs, not how fast.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coterie import files
from coterie.taskboard import Board, Claim, NewTask, Status, encode, read_tasks

SIZES = (100, 1_000, 10_000)
CLAIMS = 100
"""How many claims are timed at each size; the naive board makes fewer on a large one."""

Claiming = Callable[[int], bool]


@dataclass(frozen=True)
class Measured:
    """Claims per second, and the time in seconds that 99 of 100 claims stay under."""

    rate: float
    p99: float


def timed(claim: Claiming, rounds: int) -> Measured:
    """Make `rounds` claims, each by a member of its own."""
    times = []
    for number in range(rounds):
        begin = time.perf_counter()
        if not claim(number):
            raise SystemExit(f"claim {number} found no task")
        times.append(time.perf_counter() - begin)
    return Measured(1 / statistics.fmean(times), sorted(times)[max(0, int(len(times) * 0.99) - 1)])


def specs(size: int) -> list[NewTask]:
    return [NewTask(ref=f"r{n}", subject=f"task {n}", description="what to do " * 40) for n in range(size)]


def board(folder: Path, size: int) -> Claiming:
    """The board, opened afresh so that the first claim's reading of everything is not in `create`'s favour."""
    Board(folder, process="bench").create(specs(size), by="bench")
    opened = Board(folder, process="bench")
    opened.create([NewTask(ref="last", subject="last", priority=0)], by="bench")  # reads all once, as a host does
    return lambda number: opened.claim(owner=f"m{number}", instance=f"m{number}#1") is not None


def sqlite(folder: Path, size: int) -> Claiming:
    """One table, one index, one statement for a claim."""
    folder.mkdir(parents=True)
    base = sqlite3.connect(folder / "board.db", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=FULL")
    base.execute(
        "CREATE TABLE task (id INTEGER PRIMARY KEY, status TEXT, priority INT, epoch INT, owner TEXT, data TEXT)"
    )
    base.execute("CREATE INDEX ready ON task (status, priority DESC, id)")
    rows = [(n, "pending", 5, 0, None, spec.description) for n, spec in enumerate(specs(size))]
    base.execute("BEGIN")
    base.executemany("INSERT INTO task VALUES (?, ?, ?, ?, ?, ?)", rows)
    base.execute("COMMIT")

    def claim(number: int) -> bool:
        found = base.execute(
            "UPDATE task SET status = 'in_progress', owner = ?, epoch = epoch + 1 WHERE id = "
            "(SELECT id FROM task WHERE status = 'pending' ORDER BY priority DESC, id LIMIT 1) RETURNING id, epoch",
            (f"m{number}",),
        ).fetchall()
        return len(found) == 1

    return claim


def naive(folder: Path, size: int) -> Claiming:
    """A board without an index: every claim reads every file."""
    Board(folder, process="bench").create(specs(size), by="bench")
    tasks = folder / "tasks"

    def claim(number: int) -> bool:
        with files.locked(folder / "lock"):
            found = read_tasks(tasks)
            completed = {task.id for task in found if task.status is Status.COMPLETED}
            ready = (t for t in found if t.status is Status.PENDING and completed.issuperset(t.blocked_by))
            best = max(ready, key=lambda task: task.priority, default=None)
            if best is None:
                return False
            who = Claim(owner=f"m{number}", instance=f"m{number}#1", process="bench", at=files.now())
            after = best.model_copy(update={"status": Status.IN_PROGRESS, "epoch": best.epoch + 1, "claim": who})
            files.write_bytes(tasks / f"{best.id}.json", encode(after))
        return True

    return claim


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small boards, few claims")
    parser.add_argument("--folder", type=Path, help="where to measure (default: the system's temporary folder)")
    given = parser.parse_args(arguments)
    sizes, claims = ((20, 100), 5) if given.quick else (SIZES, CLAIMS)
    print(
        f"{'tasks':>6}  {'board':>18}  {'SQLite':>18}  {'naive board':>18}  {'SQLite/board':>12}  {'board/naive':>11}"
    )
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for size in sizes:
            found = {}
            for make in (board, sqlite, naive):
                rounds = claims if make is not naive else max(3, min(claims, 50_000 // size))
                found[make] = timed(make(Path(folder) / f"{make.__name__}-{size}", size), rounds)
            cells = "  ".join(f"{each.rate:7.0f}/s {each.p99 * 1000:6.2f} ms" for each in found.values())
            slower = found[sqlite].rate / found[board].rate
            faster = found[board].rate / found[naive].rate
            print(f"{size:>6}  {cells}  {slower:>11.2f}x  {faster:>10.1f}x", flush=True)
    print("claims per second, and the 99th percentile of one claim; each claim durable before it is answered")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

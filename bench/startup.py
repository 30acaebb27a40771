"""How long the command line takes to start, beside a Python process that imports argparse and json.

Whole processes, taken in turn so that a busy machine slows all of them alike; the best and the median of each count.
Bars: `coterie --version` within 2x, `coterie board` on 1,000 tasks within 8x. Exit code 1 if one is missed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TASKS = 1000
ROUNDS = 15
BASE = [sys.executable, "-c", "import argparse, json"]
MEASURED = {
    "coterie --version": ([sys.executable, "-m", "coterie", "--version"], 2.0),
    "coterie board": ([sys.executable, "-m", "coterie", "board"], 8.0),
    "coterie board --json": ([sys.executable, "-m", "coterie", "board", "--json"], 8.0),
}


def make_board(folder: Path) -> None:
    """A repository with a team of `TASKS` tasks, as they are in the middle of a run."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    root = folder / ".coterie" / "main"
    (root / "tasks").mkdir(parents=True)
    (root / "team.json").write_text(json.dumps({"schema": 1, "team": "main", "goal": "measure", "ended": None}))
    for number in range(1, TASKS + 1):
        (root / "tasks" / f"T{number}.json").write_text(json.dumps(_task(number), indent=2))


def _task(number: int) -> dict[str, object]:
    status = ("pending", "in_progress", "completed")[number % 3]
    at = "2026-01-01T00:00:00.000Z"
    claim = {"owner": "ada", "instance": "ada#1", "process": "0123456789ab", "at": at}
    change = {"at": at, "from": None, "to": "pending", "by": "lead", "epoch": 0, "reason": "created", "made_by": None}
    return {
        "schema": 1,
        "id": f"T{number}",
        "subject": f"Move part {number} into a module of its own",
        "description": "What is to be done, and how it can be seen that it is done. " * 6,
        "status": status,
        "blocked_by": [f"T{number - 1}"] if number > 1 else [],
        "priority": 5,
        "role": None,
        "requires_plan": True,
        "checks": ["python3 -m unittest -q"],
        "scope": ["src/**"],
        "split": None,
        "returns": 0,
        "attempts": 0,
        "losses": 0,
        "epoch": number % 3 and 1,
        "claim": claim if status == "in_progress" else None,
        "assignment": None,
        "wanted": None,
        "queued": None,
        "merging": None,
        "result": None,
        "history": [change] * 4,
        "made_by": None,
        "created_at": at,
        "created_by": "lead",
        "rev": 4,
    }


def seconds(argv: list[str], folder: Path) -> float:
    """How long one process takes from start to end."""
    start = time.perf_counter()
    subprocess.run(argv, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    """Measure and print; answers the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_board(folder)
        taken: dict[str, list[float]] = {"base": [], **{each: [] for each in MEASURED}}
        for _ in range(ROUNDS):
            taken["base"].append(seconds(BASE, folder))
            for each, (argv, _bar) in MEASURED.items():
                taken[each].append(seconds(argv, folder))
    base_best, base_median = min(taken["base"]), statistics.median(taken["base"])
    print(f"{'python -c import argparse, json':34} {base_best * 1000:7.1f} ms best {base_median * 1000:7.1f} ms median")
    missed = False
    for each, (_argv, bar) in MEASURED.items():
        best, median = min(taken[each]), statistics.median(taken[each])
        ratio = min(best / base_best, median / base_median)
        missed |= ratio > bar
        verdict = "ok" if ratio <= bar else "MISSED"
        times = f"{best * 1000:7.1f} ms best {median * 1000:7.1f} ms median"
        print(f"{each:34} {times}  {ratio:.1f}x of {bar:g}x {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

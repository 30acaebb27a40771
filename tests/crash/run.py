"""The trials as a process of their own, with one thread, so that a fork costs milliseconds.

usage: python -m tests.crash.run FOLDER [--every | --all] START [NAME …]
--every: every point of every operation; --all: and of every restart.
Prints one line of JSON per operation: name, kills, states, faults, seconds.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path

from tests.crash import calls, programs, turns
from tests.crash.harness import Trial
from tests.crash.place import Place
from tests.crash.points import forked, quiet_threads

OPERATIONS = calls.CALLS + turns.TURNS + programs.PROGRAMS
STARTS = calls.STARTS | turns.STARTS | programs.STARTS


def main(arguments: list[str]) -> int:
    folder, start, *names = [each for each in arguments if not each.startswith("--")]
    place = Place(Path(folder))
    forked(lambda: STARTS[start](place))
    place.keep(start)
    with quiet_threads():
        teams = [place.open(process) for process in ("0123456789ab", "123456789abc", "23456789abcd")]
    gc.collect()
    gc.freeze()  # so that children share its pages
    trial = Trial(place, teams, sample=None if "--all" in arguments else 1, every="--every" in arguments)
    failed = False
    for operation in OPERATIONS:
        if operation.start == start and (not names or operation.name in names):
            began = time.monotonic()
            outcome = trial.every_point(operation)
            row = {"name": operation.name, **vars(outcome), "seconds": round(time.monotonic() - began, 2)}
            print(json.dumps(row), flush=True)
            failed |= bool(outcome.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

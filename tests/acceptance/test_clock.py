"""A clock that is set while a run is interrupted changes nothing of what comes out."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.acceptance.crew import crew
from tests.acceptance.loopback import coterie, environment, served, started
from tests.acceptance.test_resume import TASKS, At, Look, check_end

SOAK = bool(os.environ.get("COTERIE_SOAK"))  # all of the cases that differ in one number only

SET = """
import datetime as library, os, time as clock
real_time, real = clock.time, library.datetime
class moved(real):
    @classmethod
    def now(cls, tz=None):
        return real.fromtimestamp(real_time() + float(os.environ["CLOCK_OFF"]), tz)
library.datetime = moved
clock.time = lambda: real_time() + float(os.environ["CLOCK_OFF"])
"""


@pytest.mark.parametrize("off", [-86_400 * 400, 86_400 * 400] if SOAK else [-86_400 * 400])
def test_a_run_that_is_resumed_under_another_clock_comes_to_the_same_end(
    repository: Path, look: Look, tmp_path: Path, off: int
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SET)
    at = At(crew(TASKS, ("ada", "ben")), 7)
    with served(at) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as process:
            assert at.reached.wait(60)
            os.kill(process.pid, signal.SIGKILL)
            at.go_on.set()
            process.communicate(timeout=30)
        path = os.pathsep.join(filter(None, (str(tmp_path / "site"), env.get("PYTHONPATH"))))
        other = {**env, "PYTHONPATH": path, "CLOCK_OFF": str(off)}
        again = coterie(repository, other, "resume")
        assert again.returncode == 0, again.stdout + again.stderr
        check_end(repository, look)
        years = {line.split('"at": "', 1)[1][:4] for line in events(repository) if '"at": "' in line}
        assert len(years) >= 2, "the clock was not set"


def events(repository: Path) -> list[str]:
    return (repository / ".coterie" / "main" / "events.jsonl").read_text().splitlines()

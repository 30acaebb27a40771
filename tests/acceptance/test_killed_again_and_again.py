"""A whole run that is killed at random moments and resumed, over and over until it ends.

The moments come from a seed: one in the usual tests, as many as COTERIE_SOAK_RUNS says in `make soak`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import git
from tests.acceptance.loopback import environment, started
from tests.acceptance.test_resume import check_journals

from coterie.demo import GOAL, Reply, Server, create_sample, respond
from coterie.teammates.journal import Answered, Opened, read_journal

SEEDS = range(1, 1 + int(os.environ.get("COTERIE_SOAK_RUNS", "1")))
LIVES = 60  # host processes until a run has to be at its end


class Watched:
    """The demo's crew, which notes what it is asked, and says when a number of questions has come."""

    def __init__(self) -> None:
        self.due = threading.Event()
        self.paid_twice: list[str] = []
        self._floors: dict[tuple[str, str], int] = {}  # (life, opening of a conversation) -> answers in its journal
        self._left = 0
        self._guard = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Reply:
        user = body["metadata"]["user_id"].split("/")[-1]
        first = body["messages"][0]["content"]
        opening = first if isinstance(first, str) else first[0]["text"]
        answers = sum(message["role"] == "assistant" for message in body["messages"])
        with self._guard:
            if answers < self._floors.get((user, opening), 0):
                self.paid_twice.append(f"{user}: answer {answers + 1} of {opening[:60]!r}")
            self._left -= 1
            if self._left == 0:
                self.due.set()
        return respond(body)

    def arm(self, questions: int) -> None:
        """Set `due` when so many questions have come."""
        with self._guard:
            self._left = questions
            self.due.clear()

    def note(self, root: Path) -> int:
        """What is in the journals now is never asked for again. Answers how many answers that are."""
        answers = 0
        for path in (root / "members").glob("*/journal.jsonl"):
            opened: Opened | None = None
            for record in read_journal(path)[0]:
                if isinstance(record, Opened):
                    opened, count = record, 0
                elif isinstance(record, Answered) and opened is not None:
                    count += 1
                    answers += 1
                    self._floors[(record.instance, opened.opening)] = count
        return answers


def play(shop: Path, state: Path, crew: Watched, rng: random.Random | None) -> int:
    """Run the demo's team in `shop` to its end; with `rng`, killed again and again. Answers how often."""
    create_sample(shop)
    root = shop / ".coterie" / "main"
    with Server(crew) as server:
        env = environment(server.url, state)
        for life in range(LIVES):
            crew.arm(rng.randint(4, 18) if rng else -1)
            again = (root / "team.json").exists()
            with started(shop, env, *(("resume",) if again else ("run", GOAL))) as process:
                if rng is not None:
                    watcher = threading.Thread(target=kill_when_due, args=(process, crew, rng.random() * 0.4))
                    watcher.start()
                    out, _ = process.communicate(timeout=120)
                    crew.due.set()
                    watcher.join(10)
                else:
                    out, _ = process.communicate(timeout=120)
            answers = crew.note(root)
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, out
                assert not server.refused and not server.faults
                assert answers > 20
                return life
    raise AssertionError("the run does not come to its end")


def kill_when_due(process: subprocess.Popen[str], crew: Watched, after: float) -> None:
    assert crew.due.wait(120)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run comes to that nobody disturbs."""
    home = tmp_path_factory.mktemp("undisturbed")
    assert play(home / "shop", home / "state", Watched(), None) == 0
    return summary(home / "shop")


def summary(shop: Path) -> dict[str, Any]:
    """What has to be the same, however often the host was killed."""
    root = shop / ".coterie" / "main"
    tasks = {path.stem: json.loads(path.read_text()) for path in (root / "tasks").glob("T*.json")}
    trailers = git(
        shop, "log", "--first-parent", "--format=%(trailers:key=Coterie-Task,valueonly)", "coterie/main/integration"
    )
    return {
        "tree": git(shop, "rev-parse", "coterie/main/integration^{tree}").strip(),
        "merged": sorted(trailers.split()),
        "tasks": {name: (task["subject"], task["status"], task["epoch"]) for name, task in tasks.items()},
        "members": sorted(json.loads(path.read_text())["instance"] for path in root.glob("members/*/member.json")),
        "plans": sorted(
            (plan["task"], plan["epoch"], plan["revision"], plan["status"])
            for plan in (json.loads(path.read_text()) for path in (root / "requests").glob("R*.json"))
            if plan["kind"] == "plan"
        ),
    }


def left_over(root: Path) -> list[str]:
    """Processes that carry the mark of a command, or work in the team's worktrees."""
    worktrees = json.loads((root / "team.json").read_text())["worktrees_root"]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            where = str((process / "cwd").readlink())
            if where.startswith(worktrees):
                found.append(f"{process.name} in {where}")
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_team_that_is_killed_again_and_again_ends_where_an_undisturbed_one_ends(
    tmp_path: Path, undisturbed: dict[str, Any], seed: int
) -> None:
    shop, crew = tmp_path / "shop", Watched()
    kills = play(shop, tmp_path / "state", crew, random.Random(seed))
    root = shop / ".coterie" / "main"
    assert kills >= 3, "it was hardly disturbed"
    assert summary(shop) == undisturbed
    assert crew.paid_twice == [], "an answer that was journaled was asked for again"
    assert left_over(root) == []
    check_journals(root)
    boxes = [path for path in (root / "mail").glob("*/*/*.json") if path.parent.parent.name != "human"]
    assert {path.parent.name for path in boxes} <= {"cur"}
    assert not list(root.rglob(".*.tmp")) and not list(root.rglob("bad/*")) and not list((root / "intents").glob("*"))

"""A second terminal reviews, rejects, approves, says, cancels and stops while a run goes on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.crew import called, crew, is_lead
from tests.acceptance.loopback import coterie, environment, pipe, served, started

from coterie.teammates.model import Answer, ModelRequest, reply

Look = Callable[..., str]


def wait_for(what: Callable[[], Any], seconds: float = 30) -> Any:
    """The first true answer of `what`; fails past the deadline. What is waited for happens in another process."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        threading.Event().wait(0.05)
    raise AssertionError("did not happen in time")


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}  # type: ignore[no-any-return]


def test_a_person_rejects_and_approves_plans_from_a_second_terminal(
    repository: Path, look: Look, tmp_path: Path
) -> None:
    tasks = [{"ref": "a", "subject": "A", "description": "write a.txt a"}]
    told: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        if not is_lead(request):
            told.append(str(request.messages))
            rejected = "decision: rejected" in told[-1] and called(request, since_mail="decision") == []
            if rejected and "decision: approved" not in told[-1]:
                return reply(request, "", ("submit_plan", {"plan": "a better plan"}))
        return crew(tasks, ("ada",))(request)

    with served(respond) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change", "--approver", "human") as process:
            requests = repository / ".coterie" / "main" / "requests"
            wait_for(lambda: (requests / "R1.json").exists())
            inbox = json.loads(coterie(repository, env, "inbox", "--json").stdout)
            assert "R1" in json.dumps(inbox)
            asked = len(server.requests)
            review = coterie(repository, env, "review", "R1")
            assert review.returncode == 0 and "as the task says" in review.stdout
            assert coterie(repository, env, "reject", "R1", "-m", "say which file").returncode == 0
            wait_for(lambda: (requests / "R2.json").exists())
            late = coterie(repository, env, "approve", "R1")
            assert late.returncode == 1 and "already rejected" in late.stderr, "the first decision counts"
            assert read(requests / "R2.json")["revision"] == 2
            assert coterie(repository, env, "approve", "R2").returncode == 0
            again = coterie(repository, env, "reject", "R99", "-m", "no")
            assert again.returncode != 0 and "R99" in again.stderr
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0, out
            assert any("say which file" in each for each in told)
            assert asked < len(server.requests)
            assert look("show", "coterie/main/integration:a.txt") == "a\n"


def test_a_person_cancels_a_running_task_and_its_work_is_kept(repository: Path, look: Look, tmp_path: Path) -> None:
    fifo = pipe(tmp_path, "started")
    tasks = [
        {"ref": "a", "subject": "A", "description": f"run echo half > half.txt; echo go > {fifo}; sleep 600"},
        {"ref": "b", "subject": "B", "description": "write b.txt b"},
    ]
    with served(crew(tasks, ("ada", "ben"))) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change") as process:
            assert fifo.read_text() == "go\n"
            done = coterie(repository, env, "task", "cancel", "T1", "-m", "not needed")
            assert done.returncode == 0, done.stderr
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0, out
            assert read(repository / ".coterie/main/tasks/T1.json")["status"] == "cancelled"
            rescued = look("for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue").split()
            assert any(look("show", f"{ref}:half.txt") == "half\n" for ref in rescued)
            assert "half.txt" not in look("ls-tree", "--name-only", "coterie/main/integration")


def test_a_person_talks_to_the_lead_and_ends_a_teammate(repository: Path, tmp_path: Path) -> None:
    heard = threading.Event()
    tasks = [{"ref": "a", "subject": "A", "description": "write a.txt a", "role": "nobody"}]

    def respond(request: ModelRequest) -> Answer:
        if is_lead(request) and "please wrap it up" in str(request.messages):
            heard.set()
            if "cancel_task" not in called(request):
                return reply(request, "", ("cancel_task", {"task_id": "T1", "reason": "told so"}))
            return reply(request, "", ("finish", {"summary": "told to"}))
        return crew(tasks, ("ada",))(request)

    with served(respond) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change", "--splits", "human") as process:
            member = repository / ".coterie/main/members/ada/member.json"
            wait_for(lambda: read(member).get("status") == "idle")
            assert coterie(repository, env, "stop", "ada").returncode == 0
            wait_for(lambda: read(member).get("status") == "stopped")
            gone = coterie(repository, env, "say", "ada", "hello")
            assert gone.returncode != 0 and "ada" in gone.stderr
            assert coterie(repository, env, "say", "lead", "please wrap it up").returncode == 0
            assert heard.wait(30)
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 1, out  # finished without a completed task


def test_stop_without_a_name_stops_the_run_in_order_and_it_can_be_resumed(
    repository: Path, look: Look, tmp_path: Path
) -> None:
    tasks = [{"ref": "a", "subject": "A", "description": "write a.txt a"}]
    with served(crew(tasks, ("ada",))) as server:
        env = environment(server.url, tmp_path / "state")
        with started(repository, env, "run", "a change", "--approver", "human") as process:
            wait_for(lambda: (repository / ".coterie/main/requests/R1.json").exists())
            assert coterie(repository, env, "stop").returncode == 0
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 7 and "resume" in out, out
            assert coterie(repository, env, "approve", "R1").returncode == 0
            again = coterie(repository, env, "resume")
            assert again.returncode == 0, again.stdout + again.stderr
            assert look("show", "coterie/main/integration:a.txt") == "a\n"

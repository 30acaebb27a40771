"""`run` and `resume` as processes, on real repositories, against a Messages API server on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie import files
from coterie.console import shapes
from coterie.demo import Reply, Server, failure, text, tool_use

KEY = "sk-never-shown"


def said(request: dict[str, Any]) -> str:
    """All that the model was told in this conversation."""
    return json.dumps([each["content"] for each in request["messages"] if each["role"] == "user"])


def called(request: dict[str, Any]) -> list[str]:
    """The tools that were called in this conversation."""
    return [
        block["name"]
        for message in request["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "tool_use"
    ]


def act(tool: str, /, **arguments: Any) -> Reply:
    return Reply(content=(tool_use(tool, **arguments),))


def script(request: dict[str, Any]) -> Reply:
    """A lead with one task that needs a plan, and ada, who does it."""
    done, told = called(request), said(request)
    if "/lead#" in request["metadata"]["user_id"]:
        if "create_tasks" not in done:
            return act("create_tasks", tasks=[{"ref": "a", "subject": "Add two \x1b[31m", "requires_plan": True}])
        if "spawn_teammate" not in done:
            return act("spawn_teammate", name="ada")
        plans = re.findall(r"request: (R\d+)", told)
        if plans and "review" not in done and "to human" not in told:
            return act("review", request_id=plans[-1], decision="approve", feedback="go on")
        if "task-completed" in told or "No task is open" in told:
            return act("finish", summary="two is there")
        return Reply(content=(text("waiting"),))
    if done.count("submit_plan") <= told.count("decision: rejected"):
        return act("submit_plan", plan="1. write two.txt\n2. look\n3. hand in\n4. rest\n5. sleep")
    if "write_file" not in done:
        return act("write_file", path="two.txt", content="two\n")
    return act("submit_work", summary="two.txt is written")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(script) as server:
        yield server
    assert server.refused == [] and server.faults == []


def coterie(*words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coterie", *words],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=45,
    )


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout


def test_a_run_is_told_as_it_happens_and_ends_with_the_board_and_what_was_merged(
    repository: Path, server: Server
) -> None:
    (repository / "coterie.toml").write_text("allow = ['Bash']\n")
    done = coterie("run", "add two", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=server.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "coterie.toml:1: not used, since a repository cannot allow anything by itself: Bash" in done.stderr
    out = done.stdout
    for each in (
        "sandbox: commands reach their worktree, and nothing else of yours",
        "ada      claims T1 (epoch 1): Add two",
        "plan R1 for T1, revision 1\n",
        "1. write two.txt",
        "2 more lines",
        "approved R1: go on",
        "T1 is completed: merged as",
        "1 task: 1 completed; ",
        "result: branch coterie/main/integration at ",
        "report.md",
        "\n\ntwo is there\nnext: coterie diff to look at it, coterie land to bring it to your branch\n",
    ):
        assert each in out, f"{each!r} is missing in:\n{out}"
    assert out.count("two is there") == 1 and "no sandbox" not in out
    assert "in the queue" not in out and "the team has finished" not in out
    assert "\x1b" not in out and KEY not in out + done.stderr
    assert KEY not in "".join(path.read_text() for path in (repository / ".coterie").rglob("*.json*"))
    again = coterie("resume", ANTHROPIC_API_KEY=KEY)
    assert again.returncode == 0 and "the team has ended: two is there" in again.stdout


def test_stream_json_is_one_event_a_line_and_the_end_last(repository: Path, server: Server) -> None:
    done = coterie("run", "add two", "--output-format", "stream-json", "--base-url", server.url, ANTHROPIC_API_KEY=KEY)
    lines = done.stdout.splitlines()
    events = [shapes.EventLine.model_validate_json(line) for line in lines[:-1]]
    assert {"run", "task", "plan", "decision", "merge", "member", "tool", "answer"} <= {each.kind for each in events}
    assert "end" not in {each.kind for each in events}
    assert shapes.EndLine.model_validate_json(lines[-1]).exit == done.returncode == 0


def test_a_reader_that_goes_away_does_not_end_the_run(repository: Path, server: Server) -> None:
    words = [sys.executable, "-m", "coterie", "run", "add two", "--base-url", server.url]
    env = {**os.environ, "ANTHROPIC_API_KEY": KEY}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        said_wrong = running.stderr.read()
        assert (running.wait(45), said_wrong) == (0, "")
    assert files.read_json(repository / ".coterie" / "main" / "team.json")["ended"]["exit"] == 0


def test_a_second_terminal_decides_while_the_run_goes_on_and_the_first_shows_it(
    repository: Path, server: Server
) -> None:
    words = [sys.executable, "-m", "coterie", "run", "add two", "--approver", "human", "--base-url", server.url]
    env = {**os.environ, "ANTHROPIC_API_KEY": KEY}
    seen = ""
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            seen += line
            if "plan R1 for T1" in line:
                assert coterie("reject", "R1", "-m", "not so fast").returncode == 0
                break
        for line in running.stdout:
            seen += line
            if "rejected R1" in line:
                assert coterie("approve", "R1").returncode == 1
                assert coterie("stop").returncode == 0
                break
        seen += running.stdout.read()
        assert running.wait(45) == 7, seen
    assert "human    rejected R1 (plan of ada for T1, revision 1): not so fast" in seen
    assert "coterie resume --team main" in seen


def test_a_key_that_is_refused_stops_the_run_with_6(repository: Path) -> None:
    with Server(lambda request: failure(401, "invalid x-api-key")) as server:
        done = coterie("run", "add two", "--base-url", server.url, ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 6 and KEY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("run", "  "), 2, "the goal is empty"),
        (("run",), 2, "GOAL"),
        (("run", "x", "--teammates", "0"), 2, "teammates: expected a whole number from 1 to 64"),
        (("run", "x", "--approver", "me"), 2, "lead or human"),
        (("run", "x", "--output-format", "xml"), 2, "text or json or stream-json"),
        (("run", "x", "--team", "lead"), 2, "reserved"),
        (("run", "x", "--team", "No"), 2, "not a name"),
        (("run", "x"), 6, "there is no API key"),
        (("resume",), 2, "coterie run GOAL starts one"),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_made(
    repository: Path, words: tuple[str, ...], code: int, why: str
) -> None:
    done = coterie(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("coterie: ") and why in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (repository / ".coterie").exists()
    assert git(repository, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/trunk"]


def test_where_no_commit_is_to_start_from_nothing_is_made(repository: Path) -> None:
    outside = repository.parent / "outside"
    empty, bare = outside / "empty", outside / "bare"
    outside.mkdir()
    git(outside, "init", "-q", str(empty))
    git(outside, "init", "-q", "--bare", str(bare))
    for folder in (outside, empty, bare):
        before = sorted(outside.rglob("*"))
        done = coterie("run", "x", cwd=folder, ANTHROPIC_API_KEY=KEY)
        assert done.returncode == 2 and done.stderr.startswith("coterie: "), (folder, done.stderr)
        assert sorted(outside.rglob("*")) == before


def test_a_taken_branch_name_is_named(repository: Path) -> None:
    git(repository, "branch", "coterie")
    done = coterie("run", "x", ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 2 and "'coterie'" in done.stderr
    assert not (repository / ".coterie" / "main" / "team.json").exists()


def test_a_team_that_runs_is_not_run_twice(repository: Path, new_team: Callable[..., Path]) -> None:
    root = new_team("other")
    info = {"schema": 1, "process": "p", "started": files.now(), **files.process_mark(os.getpid())}
    lock = files.hold(root / "processes" / "lead.lock", info)
    try:
        done = coterie("resume", "--team", "other", ANTHROPIC_API_KEY=KEY)
    finally:
        lock.release()
    assert done.returncode == 4 and f"pid {os.getpid()} since {info['started']}" in done.stderr


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that nobody may write to: for root, which every permission is open to, another mount of it."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_where_nothing_can_be_written_it_ends_with_5_and_the_path_before_any_call(
    repository: Path, server: Server, new_team: Callable[..., Path]
) -> None:
    with read_only(repository):
        done = coterie("run", "add two", "--base-url", server.url, cwd=repository, ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 5 and str(repository) in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    root = new_team("main")
    with read_only(root):
        done = coterie("resume", "--base-url", server.url, cwd=repository, ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 5 and str(root) in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert server.requests == []


def test_a_team_of_a_name_that_exists_is_not_begun_again(repository: Path, new_team: Callable[..., Path]) -> None:
    root = new_team("other")
    before = (root / "team.json").read_bytes()
    done = coterie("run", "x", "--team", "other", ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 2 and "coterie resume --team other" in done.stderr
    assert (root / "team.json").read_bytes() == before


def test_the_demo_keeps_its_sample_where_it_is_told_to(repository: Path) -> None:
    place = repository.parent / "sample"
    done = coterie("demo", "--keep", str(place), "--output-format", "json")
    end = shapes.EndView.model_validate_json(done.stdout)
    assert (done.returncode, end.tasks.completed, end.tasks.open) == (0, 6, 0), done.stderr
    assert git(place, "rev-parse", "coterie/main/integration").strip() == end.integration.commit
    again = coterie("demo", "--keep", str(place))
    assert again.returncode == 0 and "the demo has ended" in again.stdout
    taken = coterie("demo", "--keep", str(repository))
    assert taken.returncode == 2 and "not empty" in taken.stderr

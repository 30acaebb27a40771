"""A team as it stands in the middle of a run, built through the rooms; no process runs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie import files
from coterie.console.door import enter
from coterie.mailbox import Mailbox, Note, Recipient, Requests, send_owed
from coterie.taskboard import Assignment, Board, NewTask
from coterie.teammates.roster import Roster, Status, Tokens
from coterie.teammates.settings import TeamSettings

PROCESS = "0123456789ab"


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    return subprocess.run(["git", *who, *words], cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; the user's folders are below tmp_path, and no key is there."""
    for name in [each for each in os.environ if each.startswith(("COTERIE_", "ANTHROPIC_", "GIT_"))]:
        monkeypatch.delenv(name)
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "trunk")
    (root / "one.txt").write_text("one\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "start")
    monkeypatch.chdir(root)
    return root


class Rooms:
    """The rooms of the team under test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.roster = Roster(root)
        self.board = Board(root, process=PROCESS)
        self.requests = Requests(
            root,
            is_current=self.board.is_current,
            merging=lambda task: self.board.get(task).merging is not None,
        )
        self.mail = Mailbox(root, recipient=self._recipient)

    def _recipient(self, name: str) -> Recipient | None:
        found = next((each for each in self.roster.all() if each.name == name), None)
        return Recipient(found.instance, not found.status.over) if found else None

    def plan(self, task: str, text: str, to: str = "human") -> str:
        """ada's next plan for her task, with the notice it owes."""
        epoch = self.board.get(task).epoch
        request = self.requests.submit_plan(
            sender="ada", sender_instance="ada#1", to=to, task=task, epoch=epoch, text=text
        )
        send_owed(self.requests, self.mail, request)
        return request.id


def make_team(repository: Path, name: str = "main", **fields: Any) -> Path:
    """An empty team."""
    root = repository / ".coterie" / name
    for folder in ("tasks", "requests", "mail", "members", "intents", "processes", "output"):
        files.make_folder(root / folder)
    record = {
        "schema": 1,
        "team": name,
        "goal": "split the module",
        "base": {"branch": "refs/heads/trunk", "commit": git(repository, "rev-parse", "HEAD").strip()},
        "settings": TeamSettings().model_dump(mode="json"),
        "worktrees_root": str(repository.parent / "state" / name),
        "created_at": files.now(),
        "ended": None,
    }
    files.write_json(root / "team.json", record | fields)
    return root


@pytest.fixture
def new_team(repository: Path) -> Callable[..., Path]:
    return lambda name, **fields: make_team(repository, name, **fields)


@pytest.fixture
def rooms(repository: Path) -> Rooms:
    """T1 in progress with a plan that waits, T2 and T3 behind it, T4 ready, T5 failed and T6 behind that."""
    rooms = Rooms(make_team(repository))
    rooms.roster.spawn("lead", model="m")
    rooms.roster.spawn("ada", model="m")
    rooms.board.create(
        [
            NewTask(ref="a", subject="Foundation \x1b[31mred", requires_plan=True, checks=("true",), priority=9),
            NewTask(ref="b", subject="Left", blocked_by=("a",)),
            NewTask(ref="c", subject="Both", blocked_by=("a", "b")),
            NewTask(ref="d", subject="Äpfel schälen 日本語", role="cook"),
            NewTask(ref="e", subject="Hopeless", priority=10),
            NewTask(ref="f", subject="Behind the hopeless", blocked_by=("e",)),
        ],
        by="lead",
    )
    hopeless = rooms.board.claim(owner="ada", instance="ada#1")
    assert hopeless is not None and hopeless.id == "T5"
    for number in range(3):
        rooms.board.give_up("T5", number + 1, by="ada#1", reason="cannot be done")
        if number < 2:
            rooms.board.claim(owner="ada", instance="ada#1")
    task = rooms.board.claim(owner="ada", instance="ada#1")
    assert task is not None and task.id == "T1"
    rooms.board.bind("T1", 1, Assignment(worktree="/w/ada", branch="coterie/main/T1/e1", base="0" * 40))
    usage = Tokens(input=1000, output=200)
    rooms.roster.update("ada", "ada#1", status=Status.WAITING, reason="plan", task="T1", epoch=1, tokens=usage, usd=0.5)
    rooms.plan("T1", "1. read\n2. write \x1b]0;title\x07\n")
    return rooms


@pytest.fixture
def coterie(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line within this process: exit code, standard output, standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = enter(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def note(rooms: Rooms) -> str:
    """The id of a message of ada to the human."""
    return rooms.mail.send(Note(text="hello \x1b[2J"), sender="ada", sender_instance="ada#1", to="human").id

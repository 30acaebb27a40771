"""A real repository and whole runs on it, started in a thread so that a test can act from outside meanwhile."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.acceptance.conftest import git

from coterie.lead import create_team, open_team, run_team
from coterie.teammates.model import Answer, ModelRequest, ScriptedModel
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Team

Respond = Callable[[ModelRequest], Answer]


class Stage:
    """One repository with one team, `main`."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.repository = tmp_path / "repo"
        self.root = self.repository / ".coterie" / "main"
        self.model: type[ScriptedModel] = ScriptedModel
        self.watch: Callable[[dict[str, Any]], None] = lambda event: None
        self.pipes = tmp_path / "pipes"  # shown to commands: a named pipe can be written to where its folder cannot
        self.pipes.mkdir(exist_ok=True)
        self.repository.mkdir(exist_ok=True)
        git(self.repository, "init", "-q", "-b", "trunk")
        (self.repository / "one.txt").write_text("one\n")
        git(self.repository, "add", "-A")
        git(self.repository, "-c", "user.name=S", "-c", "user.email=s@example.org", "commit", "-q", "-m", "start")

    def settings(self, **given: Any) -> TeamSettings:
        return TeamSettings(**{"sandbox_read_only": [str(self.pipes)]} | given)

    def create(self, **settings: Any) -> Team:
        """The team, not running."""
        if not self.root.exists():
            create_team(self.repository, goal="a change", name=None, settings=self.settings(**settings))
        return open_team(self.root)

    def go(self, respond: Respond, **settings: Any) -> Any:
        """Run, or resume, to the end."""
        self.create(**settings)
        return run_team(
            self.root,
            settings=self.settings(**settings),
            api_key=None,
            model=self.model(respond),
            watch=self.watch,
        )

    @contextmanager
    def running(self, respond: Respond, **settings: Any) -> Iterator[list[Any]]:
        """Run in a thread; the outcome is in the list after the block."""
        self.create(**settings)
        outcome: list[Any] = []
        thread = threading.Thread(target=lambda: outcome.append(self.go(respond, **settings)))
        thread.start()
        try:
            yield outcome
        finally:
            thread.join(60)
        assert not thread.is_alive() and outcome, "the run did not end"

    @property
    def team(self) -> Team:
        """The team as a second process opens it."""
        return open_team(self.root)

    def task(self, name: str = "T1") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "tasks" / f"{name}.json").read_text())
        return found

    def member(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "members" / name / "member.json").read_text())
        return found

    def mail(self, name: str) -> list[dict[str, Any]]:
        """Everything that was ever sent to a member, in order."""
        box = self.root / "mail" / name
        return [json.loads(path.read_text()) for path in sorted([*box.glob("cur/*.json"), *box.glob("new/*.json")])]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in (self.root / "events.jsonl").read_text().splitlines()]
        return [each for each in found if kind in (None, each["kind"])]

    def merged(self, path: str) -> str:
        """The content of a file on the integration branch."""
        return git(self.repository, "show", f"coterie/main/integration:{path}")

    def rescued(self, path: str) -> list[str]:
        """The contents that a file has in the snapshots that were kept."""
        refs = git(self.repository, "for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue").split()
        found = []
        for ref in refs:
            if path in git(self.repository, "ls-tree", "-r", "--name-only", ref).split("\n"):
                found.append(git(self.repository, "show", f"{ref}:{path}"))
        return found

    def fifo(self, name: str) -> Path:
        """A pipe through which a command of the crew says that it runs: reading it waits for that."""
        path = self.pipes / name
        os.mkfifo(path)
        return path

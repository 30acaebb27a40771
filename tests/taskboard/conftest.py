"""A team's folder, and boards on it as one process or another would open them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coterie.taskboard import Assignment, Board, NewTask, Status, Task


class Team:
    """One team's folder. `board` is the process under test; `open` is another one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tasks = root / "tasks"
        self.said: list[str] = []
        self.changed: list[list[str]] = []
        self.board = self.open()

    def open(self, **settings: Any) -> Board:
        given = {
            "process": "p1",
            "report": self.said.append,
            "on_change": self.changed.append,
            "settle": 0.1,
            **settings,
        }
        return Board(self.root, **given)

    def path(self, task: str) -> Path:
        return self.tasks / f"{task}.json"

    def create(self, *refs: str, board: Board | None = None, **fields: Any) -> dict[str, str]:
        """Tasks named like their refs, each with these fields."""
        specs = [NewTask(ref=ref, subject=ref, **fields) for ref in refs]
        return (board or self.board).create(specs, by="lead")

    def chain(self, *refs: str) -> dict[str, str]:
        """Tasks of which each waits for the one before."""
        specs = [
            NewTask(ref=ref, subject=ref, blocked_by=(refs[place - 1],) if place else ())
            for place, ref in enumerate(refs)
        ]
        return self.board.create(specs, by="lead")

    def claim(self, owner: str = "ada", board: Board | None = None, **more: Any) -> Task:
        task = (board or self.board).claim(owner=owner, instance=f"{owner}#1", **more)
        assert task is not None
        return task

    def bound(self, owner: str = "ada") -> Task:
        """A task that `owner` has claimed and can work on."""
        task = self.claim(owner)
        branch = f"coterie/main/{task.id}/e{task.epoch}"
        return self.board.bind(task.id, task.epoch, Assignment(worktree="/w", branch=branch, base="b0"))

    def submitted(self, owner: str = "ada", commit: str = "c1") -> Task:
        task = self.bound(owner)
        return self.board.submit(task.id, task.epoch, by=owner, summary="did it", commit=commit)

    def completed(self, owner: str = "ada") -> Task:
        task = self.submitted(owner)
        return self.board.complete(task.id, task.epoch, merged_commit="m1")

    def in_status(self, status: Status) -> Task:
        """A task that has come to `status` by allowed moves alone."""
        board = self.board
        (id,) = self.create("x").values()
        match status:
            case Status.PENDING:
                return board.get(id)
            case Status.IN_PROGRESS:
                return self.bound()
            case Status.SUBMITTED:
                return self.submitted()
            case Status.COMPLETED:
                return self.completed()
            case Status.CANCELLED:
                return board.want(id, move="cancel", by="lead", reason="no")
            case Status.FAILED:
                task = self.bound()
                failing = self.open(max_attempts=1)
                return failing.give_up(task.id, task.epoch, by="ada", reason="cannot")

    def statuses(self) -> Sequence[str]:
        return [f"{task.id} {task.status}" for task in self.board.tasks()]


@pytest.fixture
def team(tmp_path: Path) -> Team:
    root = tmp_path / "main"
    root.mkdir()
    return Team(root)

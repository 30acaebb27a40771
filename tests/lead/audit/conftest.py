"""A team in the middle of its work, built through the rooms. No process runs it, and the audit finds nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import git

from coterie import files
from coterie.lead import create_team, open_team
from coterie.lead.audit import Fault, audit
from coterie.mailbox import Note, send_owed
from coterie.taskboard import Assignment, NewTask
from coterie.teammates.journal import Answered, Delivered, Finished, Journal, Opened, Started
from coterie.teammates.roster import Status
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Team

HOST = "0123456789ab"  # of a process that is gone


class Scene:
    """T1 is merged. ada works on T2, with an approved plan. T3 waits for it; T4 is handed in by ben; T5 is ready."""

    def __init__(self, tmp_path: Path) -> None:
        self.repository = tmp_path / "repo"
        self.repository.mkdir()
        git(self.repository, "init", "-q", "-b", "trunk")
        (self.repository / "one.txt").write_text("one\n")
        git(self.repository, "add", "-A")
        git(self.repository, "-c", "user.name=S", "-c", "user.email=s@example.org", "commit", "-q", "-m", "start")
        self.root = create_team(self.repository, goal="a change", name=None, settings=TeamSettings())
        team = self.team
        team.keeper.create_integration(team.record.base.commit)
        for name in ("lead", "ada", "ben"):
            team.roster.spawn(name, model="m")
        team.board.create(
            [
                NewTask(ref="a", subject="A", priority=9),
                NewTask(ref="b", subject="B", blocked_by=("a",), requires_plan=True, priority=8),
                NewTask(ref="c", subject="C", blocked_by=("b",)),
                NewTask(ref="d", subject="D", priority=7),
                NewTask(ref="e", subject="E", priority=0),
            ],
            by="lead",
        )
        self.work("ada", "T1")
        self.hand_in("ada", "T1")
        self.merge("T1")
        team.keeper.close("ada")
        self.work("ada", "T2")
        plan = team.requests.submit_plan(
            sender="ada", sender_instance="ada#1", to="lead", task="T2", epoch=1, text="1. write"
        )
        send_owed(team.requests, team.mail, plan)
        team.requests.decide(plan.id, approve=True, by="lead", by_instance="lead#1", feedback="")
        self.work("ben", "T4")
        self.hand_in("ben", "T4")
        for name in ("one", "two"):
            team.mail.send(Note(text=name), sender="human", sender_instance=None, to="ada")
        self.converse()
        self.read("ada")
        self.read("lead")
        team.mail.send(Note(text="three"), sender="human", sender_instance=None, to="ada")

    @property
    def team(self) -> Team:
        return open_team(self.root, process=HOST)

    def work(self, owner: str, task: str) -> None:
        """Claim, open the worktree, bind, write a file."""
        team = self.team
        claimed = team.board.claim(owner=owner, instance=f"{owner}#1")
        assert claimed is not None and claimed.id == task
        base = team.keeper.tip()
        opened = team.keeper.open(owner, task=task, epoch=1, base=base)
        team.board.bind(task, 1, Assignment(worktree=str(opened.path), branch=opened.branch, base=base))
        team.roster.update(owner, f"{owner}#1", task=task, epoch=1, worktree=str(opened.path), status=Status.WORKING)
        (opened.path / f"{task}.txt").write_text(f"{task}\n")

    def hand_in(self, owner: str, task: str) -> None:
        team = self.team
        base = team.board.get(task).assignment
        assert base is not None
        commit = team.keeper.commit(owner, task=task, epoch=1, base=base.base, message="m", author=owner)
        team.board.submit(task, 1, by=owner, summary="s", commit=commit)

    def move(self, task: str) -> str:
        """Merge a task that was handed in, up to just before its completion; answers the commit."""
        team = self.team
        result = team.board.get(task).result
        assert result is not None and result.commit is not None
        tip = team.keeper.tip()
        trailers = {"Team": "main", "Task": task, "Epoch": "1", "Head": result.commit, "Plan": "none"}
        commit = team.merger.commit_merge(
            team.merger.plan_merge(result.commit, tip),
            tip=tip,
            head=result.commit,
            message=task,
            trailers={f"Coterie-{key}": value for key, value in trailers.items()},
            author="ada",
        )
        team.board.set_merging(task, 1, commit)
        team.merger.advance(tip, commit)
        return commit

    def merge(self, task: str) -> None:
        commit = self.move(task)
        self.team.board.complete(task, 1, merged_commit=commit, evidence=[])

    def converse(self) -> None:
        """ada and the lead have each said something and called a tool."""
        for name, task in (("ada", "T2"), ("lead", None)):
            journal = self.journal(name)
            who = f"{name}#1"
            epoch = 1 if task else None
            opened = Opened(
                instance=who,
                number=1,
                reason="r",
                task=task,
                epoch=epoch,
                system="s",
                tools=[],
                model="m",
                opening="go",
            )
            journal.append(opened)
            self.answer(name, "c1")
            journal = self.journal(name)
            journal.append(Started(instance=who, call="c1", tool="bash", key=f"{who}/2/0"))
            journal.append(Finished(instance=who, call="c1", tool="bash", text="ok", is_error=False))

    def answer(self, name: str, *calls: str) -> None:
        """The model's answer, with these calls."""
        content: list[dict[str, Any]] = [{"type": "text", "text": "so"}]
        content += [{"type": "tool_use", "id": call, "name": "bash", "input": {}} for call in calls]
        answer = Answered(
            instance=f"{name}#1",
            turn=1,
            answer_id="a",
            content=content,
            stop_reason="tool_use" if calls else "end_turn",
            model="m",
            usage={},
            usd=0.0,
        )
        self.journal(name).append(answer)

    def journal(self, name: str) -> Journal:
        return Journal(self.root / "members" / name / "journal.jsonl")

    def read(self, name: str) -> None:
        """The member takes its mail."""
        journal = self.journal(name)

        def note(mail: Any) -> None:
            ids, kinds = [each.id for each in mail], [each.kind for each in mail]
            journal.append(Delivered(instance=f"{name}#1", turn=2, ids=ids, kinds=kinds, text="mail"))

        self.team.mail.receive(
            name, instance=f"{name}#1", seen=journal.seen, journal=note, journal_undelivered=lambda mail: None
        )

    def edit(self, path: str, **changes: Any) -> None:
        """Change fields of a record as a person would."""
        place = self.root / path
        record = json.loads(place.read_text())
        for key, value in changes.items():
            record[key.removesuffix("_")] = value
        files.write_json(place, record)

    def loaded(self, path: str) -> Any:
        return json.loads((self.root / path).read_text())

    def faults(self) -> list[Fault]:
        return audit(self.root)

    def found(self) -> list[tuple[str, str]]:
        """Rule and place of every fault."""
        return [(fault.rule, fault.where) for fault in audit(self.root)]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The scene, built once, with a copy beside it: it takes many calls of git."""
    home = tmp_path_factory.mktemp("scene")
    (home / "now").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "now" / "state"))
        scene = Scene(home / "now")
    shutil.copytree(home / "now", home / "kept", symlinks=True)
    return scene


@pytest.fixture
def scene(built: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The scene as it was built, at the place where it was built: git knows worktrees by their path."""
    now = built.repository.parent
    monkeypatch.setenv("XDG_STATE_HOME", str(now / "state"))
    shutil.rmtree(now)
    shutil.copytree(now.with_name("kept"), now, symlinks=True)
    return built

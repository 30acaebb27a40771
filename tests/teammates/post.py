"""A teammate at its post: a real team and worktree, driven call by call in the test's own thread, without a model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.teammates.stage import Stage

from coterie.lead import open_team
from coterie.lead.host import make_runtime
from coterie.mailbox import Request
from coterie.taskboard import NewTask, Task
from coterie.teammates.cancel import Cancel
from coterie.teammates.commands import Commands
from coterie.teammates.model import ScriptedModel, reply
from coterie.teammates.sandbox import Boxed, Level, NoSandbox, Sandbox
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Runtime, Team
from coterie.teammates.teammate import Teammate
from coterie.teammates.tool import Call, Tool, ToolResult


class Kept:
    """A sandbox that says whether a command was to be kept from writing, by an environment variable."""

    level = Level.FULL
    detail = "a sandbox of the tests"
    read_only_possible = True

    def wrap(self, argv: list[str], *, cwd: Path, env: Mapping[str, str], writable: bool, check: bool) -> Boxed:
        return Boxed(argv, {**env, "WRITABLE": str(int(writable))})


class Post:
    """The team `main` with one task, T1, and whoever works on it."""

    def __init__(self, stage: Stage, **settings: Any) -> None:
        self.settings = TeamSettings(durability="process", **settings)
        stage.create(**settings)
        self.stage = stage
        self.team: Team = open_team(stage.root)
        self.team.keeper.create_integration(self.team.record.base.commit)
        self.sandbox: Sandbox = NoSandbox()

    def task(self, **fields: Any) -> Task:
        created = self.team.board.create([NewTask(ref="a", subject="A", **fields)], by="lead")
        return self.team.board.get(created["a"])

    @contextlib.contextmanager
    def runtime(self) -> Iterator[Runtime]:
        """What a host has."""
        made = make_runtime(self.team, self.settings, ScriptedModel(lambda request: reply(request, "")), NoSandbox())
        with Commands(self.team.root / "output", sandbox=self.sandbox) as commands:
            runtime = Runtime(team=made.team, settings=made.settings, model=made.model, commands=commands)
            runtime.claims_open.set()
            yield runtime

    def mate(self, runtime: Runtime, name: str = "ada", of: type[Teammate] = Teammate) -> Teammate:
        """A new life of `name`, or the one that goes on, with the next task claimed and opened if there is one."""
        if self.team.roster.instance_of(name) is None:
            self.team.roster.spawn(name, model="m")
        member = of(runtime, self.team.roster.get(name))
        for _ in range(4):
            if member.assignment() is not None and member.bound() is not None:
                break
            member.do_next()
        return member

    def plan(self, member: Teammate, text: str = "this", to: str = "human") -> Request:
        task = member.current()
        return self.team.requests.submit_plan(
            sender=member.name, sender_instance=member.instance, to=to, task=task.id, epoch=task.epoch, text=text
        )

    def decide(self, request: str, *, approve: bool, by: str = "human") -> None:
        self.team.requests.decide(request, by=by, by_instance=by, approve=approve, feedback="so it is")


def act(member: Any, tool: Tool, key: str = "k/1/0", /, cancel: Cancel | None = None, **given: Any) -> ToolResult:
    """One call through the dispatcher. Raises what the gate or the tool raises."""
    call = Call(f"id-{key}", key, cancel or Cancel())
    arguments = tool.parse(given)
    with member.dispatcher.let_through(tool, arguments, call) as call:
        done = tool.act(member, arguments, call)
    return done if isinstance(done, ToolResult) else ToolResult(done)

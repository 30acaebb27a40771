"""What every host process of a team has, whether it runs the lead or a teammate that joined."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie import files
from coterie.errors import AlreadyRunning, UsageError
from coterie.lead.opening import read_instructions
from coterie.teammates.commands import Commands
from coterie.teammates.model import Model
from coterie.teammates.sandbox import Sandbox, hide_process
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Kept, Runtime, Team

__all__ = ["Outcome", "forget_process", "hosting", "leading", "make_runtime", "mark_of_host", "real_model"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the exit code of the command line, and a sentence."""

    exit_code: int
    summary: str


def mark_of_host(sandbox: Kept | None = None) -> dict[str, Any]:
    """What a host writes into the locks that it holds for its life. sandbox: of a host that runs commands."""
    mark = {"schema": 1, "process": files.token(), "started": files.now(), **files.process_mark(os.getpid())}
    return mark if sandbox is None else mark | {"sandbox": sandbox.model_dump(mode="json")}


@contextlib.contextmanager
def hosting(root: Path, sandbox: Kept | None = None) -> Iterator[str]:
    """Be a host process of the team at `root`: its lock is held until the block ends. Gives the process's id."""
    process = files.token()
    hold = files.hold(files.make_folder(root / "processes") / f"{process}.lock", mark_of_host(sandbox))
    try:
        yield process
    finally:
        for kind in ("port", "commands", "lock"):  # the lock last, and while it is held: nobody sees it free
            files.remove(root / "processes" / f"{process}.{kind}")
        hold.release()


@contextlib.contextmanager
def leading(root: Path, sandbox: Kept | None = None) -> Iterator[str]:
    """Be the one host that runs the lead, the queue and recovery; gives the process's id.

    Raises `AlreadyRunning` naming pid and start time where another process is.
    """
    try:
        hold = files.hold(files.make_folder(root / "processes") / "lead.lock", mark_of_host())
    except files.Held as error:
        raise AlreadyRunning(
            f"the team {root.name} is run by pid {error.info.get('pid')} since {error.info.get('started')}: "
            "steer it with `coterie say`, stop it with `coterie stop`"
        ) from None
    try:
        with hosting(root, sandbox) as process:
            yield process
    finally:
        hold.release()


def forget_process(root: Path, process: str) -> None:
    """Remove the files of a host process that is dead; its lock last, since that says what is owed."""
    for kind in ("port", "commands"):
        files.remove(root / "processes" / f"{process}.{kind}")
    files.drop_lock(root / "processes" / f"{process}.lock")


def real_model(settings: TeamSettings, api_key: str | None) -> Model:
    """The API, as the settings say. `UsageError` where a budget in dollars cannot be kept."""
    from coterie.teammates.anthropic_model import AnthropicModel
    from coterie.teammates.limits import Limiter

    hide_process()  # a command must not read the key from our environment
    assert api_key is not None
    model = AnthropicModel(
        api_key=api_key,
        base_url=settings.base_url,
        team_size=settings.teammates + 1,
        limiter=Limiter(),
        fallback_model=settings.fallback_model,
    )
    for name in filter(None, (settings.model, settings.fallback_model)):
        if settings.max_usd is not None and not model.knows_price(name):
            raise UsageError(f"the price of {name} is not known, so --max-usd cannot be kept: use --max-tokens")
    return model


def make_runtime(
    team: Team, settings: TeamSettings, model: Model, sandbox: Sandbox, *, hold_claims: Callable[[], str] = lambda: ""
) -> Runtime:
    """What the members of one host process share. Its commands are closed by whoever enters them."""
    commands = Commands(
        team.root / "output",
        sandbox=sandbox,
        ceiling=[Path(team.record.worktrees_root)],
        report=lambda text: team.events.say("warning", text),
    )
    runtime = Runtime(
        team=team,
        settings=settings,
        model=model,
        commands=commands,
        hold_claims=hold_claims,
        instructions=read_instructions(team.repository.root),
    )
    try:
        runtime.rules  # noqa: B018  # a bad one is told before anybody begins
    except UsageError as error:
        raise UsageError(f"{team.root / 'team.json'}, settings: {error}") from None
    return runtime

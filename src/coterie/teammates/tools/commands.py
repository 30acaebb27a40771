"""Running commands in the worktree."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from coterie.errors import Refused
from coterie.teammates.commands import ProcessMark
from coterie.teammates.sandbox import Level
from coterie.teammates.tool import Arguments, Call, Effect, Tool, ToolResult

__all__ = ["BASH", "STOP_COMMAND"]

_UNREACHED = re.compile(
    r"(?i)could ?n.t resolve host|name resolution|name or service not known|network is unreachable|EAI_AGAIN|ENOTFOUND"
    r"|no address associated|nodename nor servname|failed to lookup address|dial tcp: lookup"
)
_NO_NETWORK = "\n(commands of teammates have no network: the person's setting `network` says so)"


class Bash(Arguments):
    """Run a command with bash in your directory. The runtime commits: use submit_work; git is there for looking
    (status, diff, log, show) and for putting files back (restore, checkout -- FILE). Commands see your directory, the
    system's programs, and a home and /tmp of their own that last as long as the task; unless a person has set it
    otherwise there is no network. Standard input is empty. What the command leaves running is ended with it; with
    `background` it runs on until your turn ends, and its output can be read as `output:<command_id>`."""

    command: str = Field(min_length=1)
    timeout_s: float | None = Field(default=None, gt=0, le=600, strict=False, description="seconds; default 120")
    background: bool | None = None


def _bash(member: Any, given: Bash, call: Call) -> ToolResult | str:
    path = member.directory()
    settings = member.runtime.settings

    def started(mark: ProcessMark) -> None:
        member.dispatcher.begins(mark.command_id)
        call.started(mark.model_dump(mode="json"))

    if given.background:
        command_id = member.runtime.commands.start(
            given.command,
            cwd=path,
            timeout_s=given.timeout_s,
            owner=member.instance,
            env=settings.environment,
            writable=not call.read_only,
            keep_output=True,
            started=started,
        )
        return f"started in the background as {command_id}"
    limit = given.timeout_s or settings.bash_timeout
    done = member.runtime.commands.run(
        given.command,
        cwd=path,
        timeout_s=limit,
        owner=member.instance,
        env=settings.environment,
        writable=not call.read_only,
        started=started,
        cancel=call.cancel,
    )
    if done.timed_out:
        return ToolResult(f"ended after {limit:g} s, with all it had started\n{done.text}", is_error=True)
    if done.cancelled is not None:
        return ToolResult(f"interrupted: {done.cancelled}\n{done.text}", is_error=True)
    kept = "\n(it was kept from writing: nothing may be changed now)" if call.read_only and done.exit_code else ""
    kept += _NO_NETWORK if done.exit_code and _cut_off(member, done.text) else ""
    return ToolResult(f"exit code: {done.exit_code}\n{done.text}{kept}", is_error=done.exit_code != 0)


def _cut_off(member: Any, text: str) -> bool:
    """Whether a command seems to have failed for want of the network that it was not given."""
    kept = member.runtime.commands.sandbox.level is not Level.NONE
    return kept and member.runtime.settings.network != "on" and _UNREACHED.search(text) is not None


class StopCommand(Arguments):
    """End a background command of yours, with all it has started."""

    command_id: str


def _stop(member: Any, given: StopCommand, call: Call) -> str:
    if given.command_id not in member.runtime.commands.running(member.instance):
        raise Refused(f"no command {given.command_id[:60]!r} of yours runs")
    progress = member.runtime.commands.stop(given.command_id)
    return f"ended {given.command_id}\n{progress.text}"


BASH = Tool("bash", Effect.CHANGES, Bash, _bash, repeats=False, runs=True)
STOP_COMMAND = Tool("stop_command", Effect.COORDINATES, StopCommand, _stop)

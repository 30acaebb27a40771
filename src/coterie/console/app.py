"""The command line: what can be said, and nothing else. Every command imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.console.door import complain, expect_a_person
from coterie.console.options import (
    CONTEXT,
    Allow,
    Approver,
    Ask,
    BaseUrl,
    Checks,
    Deny,
    Json,
    MaxTokens,
    MaxUsd,
    Model,
    Network,
    Output,
    Plans,
    RequestId,
    Splits,
    TaskId,
    Team,
    Teammates,
    Unsafe,
    Yes,
)
from coterie.console.task_app import task_app
from coterie.errors import UsageError

LOOKING = frozenset(
    {"board", "config", "demo", "diff", "doctor", "inbox", "log", "mail", "review", "show", "team", "why"}
)
"""The commands that change nothing of a team unless they are told to. All others are a person's."""
_PLAIN = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}
_HELP = {"context_settings": CONTEXT}
app = typer.Typer(
    name="coterie",
    help="A lead splits a change into tasks, teammates do them in worktrees, a merge queue tests every piece.",
    no_args_is_help=True,
    **_PLAIN,  # type: ignore[arg-type]  # keywords of several types
    **_HELP,  # type: ignore[arg-type]
)
app.add_typer(task_app)


def run(words: Sequence[str]) -> int:
    """Run what `words` ask for; answers the exit code. Raises our own errors."""
    try:
        code = app(args=list(words), prog_name="coterie", standalone_mode=False)
    except typer.TyperException as error:
        text = error.format_message()
        if text.startswith("Usage:"):  # no words at all: what can be said
            print(text, file=sys.stderr)
        else:
            complain(text)
        return error.exit_code
    except typer.Exit as ending:
        return ending.exit_code
    except typer.Abort:
        return 130
    return code if isinstance(code, int) else 0


@app.callback(invoke_without_command=True)
def _top(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Say the version.")] = False,
    team: Team = None,
) -> int:
    if version:
        from coterie import __version__

        print(f"coterie {__version__}")
        raise typer.Exit(0)
    word = ctx.invoked_subcommand
    if word is not None and word not in LOOKING:
        expect_a_person()
    if team is not None:
        if word == "demo":
            raise UsageError("--team: the demo has a team of its own, leave it out")
        if word is not None:  # said before the command it means the same as after it, where it would win
            ctx.default_map = {word: {"team": team}}
    return 0


# ---------------------------------------------------------------------------------------------------- running a team


@app.command("run")
def run_(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What the team shall do.")],
    team: Team = None,
    teammates: Teammates = None,
    approver: Approver = None,
    plans: Plans = None,
    splits: Splits = None,
    checks: Checks = None,
    allow: Allow = None,
    ask: Ask = None,
    deny: Deny = None,
    model: Model = None,
    base_url: BaseUrl = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    yes: Yes = False,
    unsafe_no_sandbox: Unsafe = False,
    unsafe_network_files: Network = False,
    output_format: Output = "text",
) -> int:
    """Start a team on a goal in this repository."""
    from coterie.console import running

    given = _given(
        teammates=teammates, approver=approver, plans=plans, splits=splits, checks=checks, model=model,
        base_url=base_url, max_usd=max_usd, max_tokens=max_tokens, allow=allow, ask=ask, deny=deny,
    )  # fmt: skip
    unsafe = running.Unsafe(no_sandbox=unsafe_no_sandbox, network_files=unsafe_network_files)
    return running.start(goal, team=team, given=given, unsafe=unsafe, output=output_format)


@app.command()
def resume(
    team: Team = None,
    teammates: Teammates = None,
    approver: Approver = None,
    plans: Plans = None,
    splits: Splits = None,
    checks: Checks = None,
    allow: Allow = None,
    ask: Ask = None,
    deny: Deny = None,
    model: Model = None,
    base_url: BaseUrl = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    yes: Yes = False,
    unsafe_no_sandbox: Unsafe = False,
    unsafe_network_files: Network = False,
    output_format: Output = "text",
) -> int:
    """Go on with a team that was stopped, interrupted or killed."""
    from coterie.console import running

    given = _given(
        teammates=teammates, approver=approver, plans=plans, splits=splits, checks=checks, model=model,
        base_url=base_url, max_usd=max_usd, max_tokens=max_tokens, allow=allow, ask=ask, deny=deny,
    )  # fmt: skip
    unsafe = running.Unsafe(no_sandbox=unsafe_no_sandbox, network_files=unsafe_network_files)
    return running.resume(team=team, given=given, unsafe=unsafe, output=output_format)


@app.command()
def join(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The teammate that this terminal runs.")],
    team: Team = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Tasks of this role, and of none.")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="The model of this teammate.")] = None,
    base_url: BaseUrl = None,
    unsafe_no_sandbox: Unsafe = False,
    output_format: Output = "text",
) -> int:
    """Run one teammate of a running team from this terminal."""
    from coterie.console import running

    given = {"model": model, "base_url": base_url}
    unsafe = running.Unsafe(no_sandbox=unsafe_no_sandbox)
    return running.join(name, team=team, role=role, given=given, unsafe=unsafe, output=output_format)


def _given(**given: Any) -> dict[str, Any]:
    """The settings of the command line; an option that may be given several times and was not is None."""
    return {name: None if value == [] else value for name, value in given.items()}


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Make and keep the sample here.")] = None,
    output_format: Output = "text",
) -> int:
    """Watch a scripted team split a sample package: no key, no network."""
    from coterie.console import showing

    return showing.demo(keep, output=output_format)


# ------------------------------------------------------------------------------------------------------------ looking


@app.command()
def board(team: Team = None, json: Json = False) -> int:
    """The tasks and where they stand."""
    from coterie.console import board as page

    return page.show(team, json)


@app.command()
def show(task: TaskId, team: Team = None, json: Json = False) -> int:
    """Everything of one task: plans, history, evidence, cost."""
    from coterie.console import look

    return look.show(task, team, json)


@app.command("team")
def team_(team: Team = None, json: Json = False) -> int:
    """Who is on the team, and what everybody does."""
    from coterie.console import look

    return look.team(team, json)


@app.command()
def inbox(team: Team = None, json: Json = False) -> int:
    """What waits for you, the most urgent first."""
    from coterie.console import look

    return look.inbox(team, json)


@app.command()
def review(request: RequestId, team: Team = None, json: Json = False) -> int:
    """Read a request; in a terminal, decide on it too."""
    from coterie.console import look

    return look.review(request, team, json)


@app.command()
def mail(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="With --done: only these.")] = None,
    done: Annotated[bool, typer.Option("--done", help="Mark as read; all of it where no ID is given.")] = False,
    team: Team = None,
    json: Json = False,
) -> int:
    """The messages to you."""
    from coterie.console import look, steer

    if done:
        return steer.mail_done(ids or [], team)
    if ids:
        raise UsageError("an ID goes with --done: coterie mail --done ID")
    return look.mail(team, json)


@app.command()
def log(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run ends.")] = False,
    last: Annotated[int | None, typer.Option("-n", metavar="N", min=0, help="Only the last N events.")] = None,
    team: Team = None,
    json: Json = False,
) -> int:
    """What happened."""
    from coterie.console import look

    return look.log(team, json, follow=follow, last=last)


@app.command()
def why(task: TaskId, team: Team = None, json: Json = False) -> int:
    """Why a task is not done."""
    from coterie.console import look

    return look.why(task, team, json)


@app.command()
def diff(
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="A task; else all that is merged.")] = None,
    team: Team = None,
    json: Json = False,
) -> int:
    """What was changed."""
    from coterie.console import look

    return look.diff(task, team, json)


@app.command()
def config(team: Team = None, json: Json = False) -> int:
    """Every setting, its value, and where that came from."""
    from coterie.console import look

    return look.config(team, json)


@app.command()
def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Put right what a start puts right.")] = False,
    team: Annotated[str | None, typer.Option("--team", metavar="NAME", help="The team; else all of them.")] = None,
    json: Json = False,
) -> int:
    """Check the machine, and all that the teams keep."""
    from coterie.console import doctor as page

    return page.doctor(team, json, repair=repair)


# ----------------------------------------------------------------------------------------------------------- steering


@app.command()
def approve(
    request: RequestId,
    message: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="Advice that goes with it.")] = "",
    team: Team = None,
) -> int:
    """Say yes to a plan, a split or a permission."""
    from coterie.console import steer

    return steer.decide(request, team, approve=True, feedback=message)


@app.command()
def reject(
    request: RequestId,
    message: Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="What should change.")],
    team: Team = None,
) -> int:
    """Say no, also to what was approved but is not merged."""
    from coterie.console import steer

    return steer.decide(request, team, approve=False, feedback=message)


@app.command()
def answer(
    request: RequestId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer.")],
    team: Team = None,
) -> int:
    """Answer a question."""
    from coterie.console import steer

    return steer.answer(request, text, team)


@app.command()
def say(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A member: lead, or a teammate.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")],
    urgent: Annotated[bool, typer.Option("--urgent", help="End the command it runs: it reads at once.")] = False,
    team: Team = None,
) -> int:
    """Tell a member something."""
    from coterie.console import steer

    return steer.say(name, text, team, urgent=urgent)


@app.command()
def stop(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A teammate; else the whole run.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Do not wait: end running model calls too.")] = False,
    team: Team = None,
) -> int:
    """Stop the run in order, or end one teammate."""
    from coterie.console import steer

    return steer.stop_member(name, team, now=now) if name is not None else steer.stop_run(team, now=now)


@app.command()
def land(
    team: Team = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; without a terminal it has to be given.")] = False,
    json: Json = False,
) -> int:
    """Bring the tested work onto your branch."""
    from coterie.console import landing

    return landing.land(team, json, yes=yes)

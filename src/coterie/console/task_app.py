"""`coterie task …`: what can be said of single tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.console.options import CONTEXT, Reason, TaskId, Team

task_app = typer.Typer(
    name="task",
    help="Steer single tasks.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=CONTEXT,
)


@task_app.callback()
def _task(ctx: typer.Context, team: Team = None) -> int:
    """Steer single tasks."""
    if team is not None:  # said before the word it means the same as after it, where it would win
        ctx.default_map = {str(ctx.invoked_subcommand): {"team": team}}
    return 0


Subject = Annotated[str | None, typer.Option("--subject", metavar="TEXT")]
Description = Annotated[str | None, typer.Option("-d", "--description", metavar="TEXT")]
Priority = Annotated[
    int | None, typer.Option("--priority", metavar="N", min=0, max=10, help="0 to 10, 10 first; 5 if not given.")
]
Plan = Annotated[bool | None, typer.Option("--plan/--no-plan", help="Whether it needs an approved plan.")]
TaskChecks = Annotated[list[str] | None, typer.Option("--checks", metavar="COMMAND", help="Must pass. Several times.")]
Now = Annotated[bool, typer.Option("--now", help="Wait for it, but for no host that is dead or answers nothing.")]
Blockers = Annotated[list[str], typer.Argument(metavar="BLOCKER...", help="Tasks, such as T3.")]


@task_app.command("add")
def task_add(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="What is to be done, in a line.")],
    description: Description = None,
    blocked_by: Annotated[list[str] | None, typer.Option("--blocked-by", metavar="TASK", help="Several times.")] = None,
    priority: Priority = None,
    plan: Plan = None,
    checks: TaskChecks = None,
    scope: Annotated[list[str] | None, typer.Option("--scope", metavar="GLOB", help="Several times.")] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE")] = None,
    team: Team = None,
) -> int:
    """Put a task on the board."""
    from coterie.console import tasks

    fields = {
        "subject": subject,
        "description": description,
        "blocked_by": blocked_by,
        "priority": priority,
        "requires_plan": plan,
        "checks": checks,
        "scope": scope,
        "role": role,
    }
    return tasks.add({name: value for name, value in fields.items() if value is not None}, team)


@task_app.command("edit")
def task_edit(
    task: TaskId,
    subject: Subject = None,
    description: Description = None,
    priority: Priority = None,
    plan: Plan = None,
    checks: TaskChecks = None,
    team: Team = None,
) -> int:
    """Change a task."""
    from coterie.console import tasks

    fields = {
        "subject": subject,
        "description": description,
        "priority": priority,
        "requires_plan": plan,
        "checks": checks,
    }
    return tasks.edit(task, {name: value for name, value in fields.items() if value is not None}, team)


@task_app.command("cancel")
def task_cancel(task: TaskId, message: Reason = "", now: Now = False, team: Team = None) -> int:
    """Drop it; work in hand is kept as a snapshot."""
    from coterie.console import tasks

    return tasks.take(task, "cancel", message, team, now=now)


@task_app.command("release")
def task_release(task: TaskId, message: Reason = "", now: Now = False, team: Team = None) -> int:
    """Take it back from its owner; the work is kept."""
    from coterie.console import tasks

    return tasks.take(task, "release", message, team, now=now)


@task_app.command("retry")
def task_retry(task: TaskId, message: Reason = "", team: Team = None) -> int:
    """Open a failed or cancelled task again."""
    from coterie.console import tasks

    return tasks.retry(task, message, team)


@task_app.command("block")
def task_block(task: TaskId, blockers: Blockers, team: Team = None) -> int:
    """Make a task wait for others."""
    from coterie.console import tasks

    return tasks.rewire(task, team, add=blockers)


@task_app.command("unblock")
def task_unblock(task: TaskId, blockers: Blockers, team: Team = None) -> int:
    """Let a task wait for others no longer."""
    from coterie.console import tasks

    return tasks.rewire(task, team, remove=blockers)

"""What the commands of the command line have in common: the options, and whether somebody can be asked."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

_OTHER_WORDS = {"check": "checks"}
CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": lambda word: _OTHER_WORDS.get(word, word),
}
"""Of every command. `--check` is taken for `--checks`, and not shown."""

Team = Annotated[
    str | None, typer.Option("--team", metavar="NAME", help="The team; else an unfinished one, first what runs.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="A task, such as T7.")]
RequestId = Annotated[str, typer.Argument(metavar="REQUEST", help="A request, such as R4.")]
Reason = Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="Why.")]

Teammates = Annotated[str | None, typer.Option("--teammates", metavar="N", help="At most this many teammates, 1-64.")]
Approver = Annotated[str | None, typer.Option("--approver", metavar="WHO", help="lead or human decides on plans.")]
Plans = Annotated[str | None, typer.Option("--plans", metavar="WHICH", help="all, lead or none: which tasks need one.")]
Splits = Annotated[str | None, typer.Option("--splits", metavar="HOW", help="human or auto: who approves the split.")]
Checks = Annotated[
    list[str] | None,
    typer.Option("--checks", metavar="COMMAND", help="Must pass after every merge. May be given several times."),
]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", metavar="RULE", help="What runs without asking: 'Bash(git status:*)'.")
]
Ask = Annotated[list[str] | None, typer.Option("--ask", metavar="RULE", help="What you are asked about each time.")]
Deny = Annotated[list[str] | None, typer.Option("--deny", metavar="RULE", help="What is refused.")]
Model = Annotated[str | None, typer.Option("--model", metavar="MODEL", help="The model of all members.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="A server with the Messages API.")]
MaxUsd = Annotated[str | None, typer.Option("--max-usd", metavar="USD", help="Stop in order past this cost.")]
MaxTokens = Annotated[str | None, typer.Option("--max-tokens", metavar="N", help="Stop in order past this many.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing before the start. It approves nothing.")]
Unsafe = Annotated[bool, typer.Option("--unsafe-no-sandbox", help="Run although no sandbox keeps commands in.")]
Network = Annotated[
    bool, typer.Option("--unsafe-network-files", help="Run although the files lie on a network file system.")
]
Output = Annotated[
    str, typer.Option("--output-format", metavar="FORMAT", help="text, json (at the end) or stream-json.")
]


def interactive(output: str = "text") -> bool:
    """Whether a person sits there who can be asked."""
    return output == "text" and sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")

"""Checks: commands that have to pass on exactly one commit, in the queue's own worktree."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from coterie import files
from coterie.taskboard import Evidence
from coterie.teammates.cancel import Cancel
from coterie.teammates.commands import ProcessMark
from coterie.teammates.team import Runtime

__all__ = ["Checks", "Ended", "marks_of"]


class Ended(Exception):
    """The checks were ended before they were through."""


class Checks:
    """Runs checks one commit at a time. What was found for a commit is remembered for the life of the process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._one = threading.Lock()
        self._known: dict[tuple[str, str], Evidence] = {}

    def on(self, commit: str, commands: Iterable[str], *, cancel: Cancel) -> list[Evidence]:
        """The evidence for `commit`, up to and with the first red command. Raises `Ended` when cancelled."""
        found: list[Evidence] = []
        with self._one:
            for command in dict.fromkeys(commands):
                known = self._known.get((commit, command))
                evidence = known if known is not None else self._run(commit, command, cancel)
                self._known[(commit, command)] = evidence
                found.append(evidence)
                if evidence.exit_code != 0:
                    break
        return found

    def _run(self, commit: str, command: str, cancel: Cancel) -> Evidence:
        team, settings = self._runtime.team, self._runtime.settings
        if cancel.is_set():
            raise Ended(cancel.reason)
        path = team.keeper.reader("queue", commit)
        start = time.monotonic()
        done = self._runtime.commands.run(
            command,
            cwd=path,
            timeout_s=settings.check_timeout,
            cancel=cancel,
            owner="queue",
            check=True,
            keep_output=True,
            env=settings.environment,
            started=lambda mark: files.append(_marks(team.root, team.process), mark.model_dump_json().encode() + b"\n"),
        )
        if done.cancelled:
            raise Ended(done.cancelled)
        code = done.exit_code if done.exit_code is not None else 124
        team.events.say(
            "check",
            f"{'green' if code == 0 else 'red'} on {commit[:12]}: {command}",
            commit=commit,
            exit_code=code,
        )
        return Evidence(
            command=command,
            exit_code=code,
            commit=commit,
            output=done.output_id,
            seconds=round(time.monotonic() - start, 3),
        )

    def output(self, evidence: Evidence, cap: int = 8000) -> str:
        """The last part of what a red command said."""
        if evidence.output is None:
            return ""
        data = files.read_bytes(self._runtime.team.root / "output" / evidence.output, limit=1 << 27)
        text = files.clean(data.decode("utf-8", "replace"), len(data) + 1)
        return text if len(text) <= cap else "…" + text[-cap:]


def _marks(root: Path, process: str) -> Path:
    return root / "processes" / f"{process}.commands"


def marks_of(root: Path, process: str) -> list[ProcessMark]:
    """The checks that a host process has started, ended ones too: no journal of a member names them."""
    try:
        lines = files.read_bytes(_marks(root, process), limit=1 << 27).split(b"\n")
    except (FileNotFoundError, files.Unreadable):
        return []
    found = []
    for line in lines:
        try:
            found.append(ProcessMark(**json.loads(line)))
        except (ValueError, TypeError):
            continue  # the end of a write that was cut: that command never began
    return found

"""How a run ends: whether it may, what team.json says of it, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie import files
from coterie.errors import Refused
from coterie.lead.checks import Checks
from coterie.taskboard import Status, Task
from coterie.teammates.cancel import Cancel
from coterie.teammates.journal import Answered, Opened, Record, Spent, whole_records
from coterie.teammates.roster import Tokens, billed, dollars
from coterie.teammates.team import Ending as EndRecord
from coterie.teammates.team import Runtime, Team

__all__ = ["Ending", "spent_by_task", "write_report"]

OPEN = (Status.PENDING, Status.IN_PROGRESS, Status.SUBMITTED)


class Ending:
    """The one way to finish."""

    def __init__(self, runtime: Runtime, checks: Checks) -> None:
        self._runtime = runtime
        self._checks = checks

    def red(self, cancel: Cancel) -> str | None:
        """What of the team's checks is red on the integration tip; None if all is green."""
        tip = self._runtime.team.keeper.tip()
        evidence = self._checks.on(tip, self._runtime.settings.checks, cancel=cancel)
        for each in evidence:
            if each.exit_code != 0:
                return f"{each.command} (exit code {each.exit_code}):\n{self._checks.output(each, 3000)}"
        return None

    def finish(self, summary: str, *, cancel: Cancel) -> int:
        """End the run; answers its exit code. Refused while work is open or the team's checks are red."""
        team = self._runtime.team
        record = team.record
        if record.ended is not None:
            self._runtime.finished.set("finished")
            return record.ended.exit
        open_tasks = [task for task in team.board.tasks() if task.status in OPEN]
        if open_tasks:
            names = ", ".join(f"{task.id} ({task.status})" for task in open_tasks[:20])
            raise Refused(f"work is still open: {names}. Wait for it, or cancel what is not wanted")
        if (red := self.red(cancel)) is not None:
            raise Refused(f"the team's checks are red on the integration branch: create a task that repairs it. {red}")
        exit_code = exit_code_of(team.board.tasks())
        with files.locked(team.root / "lock"):
            if any(task.status in OPEN for task in team.board.tasks()):
                raise Refused("a task was created meanwhile: work is still open")
            ended = EndRecord(at=files.now(), exit=exit_code, summary=summary)
            team.change(ended=ended)
        self._runtime.finished.set("finished")
        team.events.say("run", f"finished: {summary}", exit_code=exit_code)
        return exit_code


def exit_code_of(tasks: list[Task]) -> int:
    """0 if something was completed and nothing failed, else 1."""
    done = any(task.status is Status.COMPLETED for task in tasks)
    return 0 if done and not any(task.status is Status.FAILED for task in tasks) else 1


def spent_by_task(root: Path) -> dict[str | None, tuple[Tokens, float | None]]:
    """Tokens and dollars of each task (None: outside of any), from the journals. Takes no lock.

    Dollars are None where the price of a model is not known. Of a damaged journal what is whole before the damage.
    """
    calls: dict[str | None, list[Record]] = {}
    for path in sorted((root / "members").glob("*/journal.jsonl")):
        task: str | None = None
        for record in whole_records(path)[0]:
            if isinstance(record, Opened):
                task = record.task
            elif isinstance(record, Answered | Spent):
                calls.setdefault(task, []).append(record)
    return {task: billed(records) for task, records in calls.items()}


def write_report(team: Team, *, exit_code: int, summary: str) -> dict[str, Any]:
    """report.json and report.md: what became of every task, what was merged, what it cost."""
    tasks = team.board.tasks()
    costs = spent_by_task(team.root)
    total: float | None = 0.0
    for _, usd in costs.values():
        total = dollars(total, usd)
    rows: list[dict[str, Any]] = []
    for task in tasks:
        tokens, usd = costs.get(task.id, (Tokens(), 0.0))
        rows.append(
            {
                "id": task.id,
                "subject": task.subject,
                "status": str(task.status),
                "returns": task.returns,
                "attempts": task.attempts,
                "merged_commit": task.result.merged_commit if task.result else None,
                "summary": task.result.summary if task.result else None,
                "tokens": tokens.total,
                "usd": usd,
            }
        )
    report: dict[str, Any] = {
        "schema": 1,
        "team": team.name,
        "goal": team.record.goal,
        "exit": exit_code,
        "summary": summary,
        "integration": {"branch": f"coterie/{team.name}/integration", "commit": team.keeper.tip()},
        "tasks": rows,
        "tokens": sum(tokens.total for tokens, _ in costs.values()),
        "usd": total,
    }
    files.write_json(team.root / "report.json", report)
    cost = "unknown" if report["usd"] is None else f"${report['usd']:.4f}"
    lines = [
        f"# {team.name}: {team.record.goal}",
        "",
        summary,
        "",
        f"Integration branch `{report['integration']['branch']}` at `{report['integration']['commit'][:12]}`; "
        f"{report['tokens']} tokens, {cost}.",
        "",
        "| task | status | subject | returned | commit |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row['id']} | {row['status']} | {row['subject'].replace('|', '/')} | {row['returns']} "
            f"| {(row['merged_commit'] or '')[:12]} |"
            for row in rows
        ),
    ]
    text = "\n".join(lines) + "\n"
    files.write_bytes(team.root / "report.md", files.clean(text, len(text) + 1).encode("utf-8", "replace"))
    return report

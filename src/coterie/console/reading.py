"""A team as somebody looks at it: no lock is taken, no file is moved, nothing is repaired."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coterie import files
from coterie.console import places
from coterie.console.hosts import Host, hosts
from coterie.errors import CoterieError, UsageError
from coterie.mailbox import Mailbox, Message, Request, RequestKind, Requests, Standing
from coterie.taskboard import Status, Task, read_tasks
from coterie.teammates.roster import MemberRecord, Roster, Tokens, dollars


class Reading:
    """The files of one team, read once at the time of the look. `faults`: what could not be read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = root.name
        self.record = places.team_record(root)
        self.faults: list[str] = []
        self.tasks: dict[str, Task] = {task.id: task for task in read_tasks(root / "tasks", report=self.faults.append)}
        self.members: dict[str, MemberRecord] = {each.name: each for each in Roster(root).all()}
        self._requests = Requests(
            root,
            is_current=self._is_current,
            merging=lambda task: task in self.tasks and self.tasks[task].merging is not None,
            is_alive=self._is_alive,
            report=self.faults.append,
        )
        self._mail = Mailbox(root, recipient=lambda name: None, report=self.faults.append)
        self.requests: list[Request] = self._requests.all()

    @property
    def goal(self) -> str:
        return str(self.record.get("goal", ""))

    def _is_current(self, task: str, epoch: int) -> bool:
        return task in self.tasks and self.tasks[task].current(epoch)

    def _is_alive(self, instance: str) -> bool:
        record = self.members.get(instance.partition("#")[0])
        return instance == "human" or (record is not None and record.instance == instance and not record.status.over)

    def task(self, identifier: str) -> Task:
        """A task. Raises `UsageError` naming what is there, `files.Unreadable` for a damaged file."""
        wanted = normal(identifier, "T")
        if wanted in self.tasks:
            return self.tasks[wanted]
        for fault in self.faults:
            if f"{wanted}.json" in fault:
                raise files.Unreadable(self.root / "tasks" / f"{wanted}.json", fault)
        last = f"T1 to {list(self.tasks)[-1]}" if self.tasks else "none yet"
        raise UsageError(f"there is no task {files.clean(wanted, 40)!r} in team {self.name}: tasks are {last}")

    def request(self, identifier: str) -> Request:
        """A request. Raises `UnknownRequest`, `files.Unreadable`."""
        return self._requests.get(normal(identifier, "R"))

    def standing(self, request: Request) -> Standing:
        return self._requests.standing(request)

    def waiting_for_human(self) -> list[Request]:
        """What the human has to decide or answer, also where that was the lead's when it was asked."""
        waits = [each.id for each in self._requests.open_for("human")]
        return [each for each in self.requests if each.id in waits or self._is_now_for_human(each)]

    def _is_now_for_human(self, request: Request) -> bool:
        """Whether it is a plan that waits for the lead, in a team whose human decides on it by now."""
        task = self.tasks.get(request.task or "")
        if request.kind is not RequestKind.PLAN or request.to != "lead" or not request.open or task is None:
            return False
        from coterie.teammates.approving import approver
        from coterie.teammates.settings import TeamSettings

        try:
            settings = TeamSettings.model_validate(self.record.get("settings", {}))
        except ValueError:
            return False
        return approver(settings, task.scope) == "human" and self.standing(request) is Standing.SUBMITTED

    def mail_of(self, name: str) -> list[Message]:
        """What waits in the box of `name`, in order."""
        return self._mail.waiting(name)

    def plans(self, task: str) -> list[Request]:
        return [each for each in self.requests if each.task == task]

    def open_blockers(self, task: Task) -> list[str]:
        """The tasks that this one waits for; empty unless it is pending."""
        if task.status is not Status.PENDING:
            return []
        return [
            each
            for each in dict.fromkeys(task.blocked_by)
            if each not in self.tasks or self.tasks[each].status is not Status.COMPLETED
        ]

    def open_split(self, task: Task) -> Request | None:
        """The request that has to be approved before a pending task may be claimed; None if there is none."""
        if task.status is not Status.PENDING or task.split is None:
            return None
        found = next((each for each in self.requests if each.id == task.split), None)
        return None if found is None or found.soundly_approved else found

    def state(self, task: Task) -> str:
        """The status, with pending told apart."""
        if task.status is not Status.PENDING:
            return str(task.status)
        return "blocked" if self.open_blockers(task) or self.open_split(task) else "ready"

    def dependants(self, identifier: str) -> list[str]:
        """The tasks that wait for this one directly."""
        return [task.id for task in self.tasks.values() if identifier in task.blocked_by]

    def behind(self, starts: Iterable[str]) -> list[str]:
        """The open ones of these tasks, and all open ones that wait for them, over any number of steps."""
        found: dict[str, None] = {}
        todo = [each for each in starts if each in self.tasks]
        while todo:
            each = todo.pop(0)
            if each not in found and self.tasks[each].status not in (Status.COMPLETED, Status.CANCELLED):
                found[each] = None
                todo += self.dependants(each)
        return list(found)

    def unblocks(self, request: Request) -> list[str]:
        """The tasks that can go on only once this is decided."""
        if request.task is not None:
            return self.behind([request.task])
        of_split = [task.id for task in self.tasks.values() if task.split == request.id]
        return self.behind(of_split)

    def running(self) -> dict[str, Any] | None:
        """pid, started and process of the host that runs the team; None if it is not running.

        Told from what stands in its lock and the process table, so that looking takes no lock.
        """
        info = files.living_holder(self.root / "processes" / "lead.lock")
        if info is None:
            return None
        process = str(info.get("process", ""))
        return {"pid": info["pid"], "started": str(info.get("started", "")), "process": process}

    @functools.cached_property
    def hosts(self) -> dict[str, Host]:
        """The host processes that live, by id; each was asked once whether it answers."""
        return hosts(self.root)

    def host_of(self, name: str) -> Host | None:
        """The process that runs a member; None where none does."""
        record = self.members.get(name)
        return None if record is None or record.status.over else self.hosts.get(record.process or "")

    def integration_checked_out(self) -> str | None:
        """Where somebody has the integration branch checked out, so that the queue waits; None if nobody has."""
        from coterie import lead

        try:
            return str(found) if (found := lead.open_team(self.root).merger.checked_out()) is not None else None
        except CoterieError:
            return None

    def spent(self) -> tuple[Tokens, float | None]:
        """Tokens and dollars of all members."""
        return total((each.tokens, each.usd) for each in self.members.values())


def total(parts: Iterable[tuple[Tokens, float | None]]) -> tuple[Tokens, float | None]:
    """The sum of tokens and dollars; dollars None where one of them is."""
    sums = dict.fromkeys(Tokens.model_fields, 0)
    sum_usd: float | None = 0.0
    for tokens, usd in parts:
        for key in sums:
            sums[key] += getattr(tokens, key)
        sum_usd = dollars(sum_usd, usd)
    return Tokens(**sums), sum_usd


def normal(identifier: str, letter: str) -> str:
    """`t7` and `7` are T7 too."""
    text = identifier.strip()
    if text.isascii() and text.isdecimal():
        return f"{letter}{int(text)}"
    return text.upper() if text[:1].upper() == letter and text[1:].isascii() and text[1:].isdecimal() else text


def spent_on(root: Path, task: str) -> tuple[Tokens, float | None]:
    """What a task has cost so far, from the journals; nothing where they cannot be read."""
    from coterie.lead import spent_by_task

    try:
        found: tuple[Tokens, float | None] = spent_by_task(root).get(task, (Tokens(), 0.0))
    except CoterieError:
        return Tokens(), None
    return found

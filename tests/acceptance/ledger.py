"""The board as plain dicts: what each call has to do, written down a second time and without any file.

Each method is named like the call of the board it stands for. It raises `No` where the call has to be refused, and
otherwise changes the dicts as the call has to change the files. `None` as an answer: nothing may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Task = dict[str, Any]
MAX_ATTEMPTS = 2
MAX_RETURNS = 2
CLEAR = {"owner": None, "bound": False, "wanted": None, "queued": None, "merging": None}


class No(Exception):
    """The call has to be refused."""


def need(condition: object) -> None:
    if not condition:
        raise No


class Ledger:
    """Tasks by id; `life` has the living instance of each teammate."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.queued = 0

    # ------------------------------------------------------------ what follows from the dicts

    def holds(self, name: str) -> list[str]:
        return [
            id
            for id, task in self.tasks.items()
            if task["owner"]
            and task["owner"].split("#")[0] == name
            and (task["status"] == "in_progress" or (task["status"] == "submitted" and task["bound"]))
        ]

    def current(self, id: str, epoch: int) -> bool:
        task = self.tasks[id]
        return task["status"] in ("in_progress", "submitted") and task["epoch"] == epoch and task["wanted"] is None

    def chain(self, id: str) -> int:
        behind = [each for each, task in self.tasks.items() if task["status"] == "pending" and id in task["blocked_by"]]
        return max((self.chain(each) + 1 for each in behind), default=0)

    def ready(self) -> list[str]:
        found = [
            id
            for id, task in self.tasks.items()
            if task["status"] == "pending"
            and all(self.tasks[each]["status"] == "completed" for each in task["blocked_by"])
        ]
        return sorted(found, key=lambda id: (-self.tasks[id]["priority"], -self.chain(id), int(id[1:])))

    def waits_for(self, id: str, other: str) -> bool:
        return id == other or any(self.waits_for(each, other) for each in self.tasks[id]["blocked_by"])

    def queue(self) -> list[str]:
        found = [id for id, task in self.tasks.items() if task["status"] == "submitted"]
        return sorted(found, key=lambda id: self.tasks[id]["queued"])

    # ------------------------------------------------------------ the calls

    def create(self, specs: Sequence[tuple[str, int, Sequence[str]]]) -> dict[str, str]:
        first = max((int(id[1:]) for id in self.tasks), default=0) + 1
        named = {ref: f"T{first + place}" for place, (ref, _, _) in enumerate(specs)}
        edges = {named[ref]: {named.get(each, each) for each in blockers} for ref, _, blockers in specs}

        def reaches(start: str, end: str, seen: frozenset[str] = frozenset()) -> bool:
            nexts = edges.get(start, set()) - seen
            return end in nexts or any(reaches(each, end, seen | {each}) for each in nexts)

        need(not any(reaches(id, id) for id in edges))
        for ref, priority, _ in specs:
            self.tasks[named[ref]] = {
                "status": "pending",
                "blocked_by": edges[named[ref]],
                "priority": priority,
                "epoch": 0,
                "rev": 1,
                "returns": 0,
                "attempts": 0,
                "losses": 0,
                "commit": None,
                "merged": None,
                **CLEAR,
            }
        return named

    def claim(self, instance: str) -> str | None:
        need(not self.holds(instance.split("#")[0]))
        ready = self.ready()
        if not ready:
            return None
        task = self.tasks[ready[0]]
        self._move(ready[0], "in_progress", **{**CLEAR, "owner": instance}, epoch=task["epoch"] + 1)
        return ready[0]

    def bind(self, id: str, epoch: int) -> None:
        need(self.current(id, epoch) and self.tasks[id]["status"] == "in_progress")
        if not self.tasks[id]["bound"]:
            self._move(id, "in_progress", bound=True)

    def submit(self, id: str, epoch: int, by: str, commit: str) -> None:
        task = self.tasks[id]
        if task["status"] in ("submitted", "completed") and (task["epoch"], task["commit"]) == (epoch, commit):
            return
        need(self.current(id, epoch) and self._owns(id, by) and task["status"] == "in_progress" and task["bound"])
        self.queued += 1
        self._move(id, "submitted", commit=commit, merged=None, queued=self.queued, merging=None)

    def set_merging(self, id: str, epoch: int, commit: str | None) -> None:
        need(self.current(id, epoch) and self.tasks[id]["status"] == "submitted")
        if self.tasks[id]["merging"] != commit:
            self._move(id, "submitted", merging=commit)

    def unbind(self, id: str, epoch: int) -> None:
        need(self.current(id, epoch) and self.tasks[id]["status"] == "submitted")
        if self.tasks[id]["bound"]:
            self._move(id, "submitted", bound=False)

    def complete(self, id: str, epoch: int, merged: str) -> None:
        task = self.tasks[id]
        if (task["status"], task["epoch"], task["merged"]) == ("completed", epoch, merged):
            return
        need(self.current(id, epoch) and task["status"] == "submitted")
        self._move(id, "completed", **{**CLEAR, "queued": task["queued"]}, merged=merged)

    def give_back(self, id: str, epoch: int, counted: bool, available: bool) -> None:
        task = self.tasks[id]
        need(self.current(id, epoch) and task["status"] == "submitted")
        if counted and task["returns"] >= MAX_RETURNS:
            self._move(id, "failed", **CLEAR)
            return
        returns = task["returns"] + counted
        owner = task["owner"].split("#")[0]
        if available and task["bound"] and not [each for each in self.holds(owner) if each != id]:
            self._move(id, "in_progress", returns=returns, queued=None, merging=None)
        else:
            self._move(id, "pending", **CLEAR, returns=returns)

    def release(self, id: str, epoch: int, lost: bool) -> None:
        task = self.tasks[id]
        if task["epoch"] == epoch and task["wanted"]:
            self.carry_out(id, epoch)
            return
        need(self.current(id, epoch) and task["merging"] is None)
        self._move(id, "pending", **CLEAR, losses=task["losses"] + lost)

    def want(self, id: str, move: str) -> None:
        task = self.tasks[id]
        need(task["merging"] is None)
        if task["status"] == "in_progress":
            if task["wanted"] is None or (task["wanted"], move) == ("release", "cancel"):
                self._move(id, "in_progress", wanted=move)
        elif move == "cancel":
            need(task["status"] in ("pending", "submitted"))
            self._move(id, "cancelled", **CLEAR)
        else:
            need(task["status"] == "submitted")
            self._move(id, "pending", **CLEAR, losses=task["losses"] + 1)

    def carry_out(self, id: str, epoch: int) -> None:
        task = self.tasks[id]
        need(task["wanted"] and task["epoch"] == epoch)
        if task["wanted"] == "cancel":
            self._move(id, "cancelled", **CLEAR)
        else:
            self._move(id, "pending", **CLEAR, losses=task["losses"] + 1)

    def park(self, id: str, epoch: int, by: str, blocker: str) -> None:
        need(not self.waits_for(blocker, id) and self.tasks[blocker]["status"] != "completed")
        need(self.current(id, epoch) and self._owns(id, by) and self.tasks[id]["status"] == "in_progress")
        self._move(id, "pending", **CLEAR, blocked_by=self.tasks[id]["blocked_by"] | {blocker})

    def give_up(self, id: str, epoch: int, by: str) -> None:
        need(self.current(id, epoch) and self._owns(id, by) and self.tasks[id]["status"] == "in_progress")
        attempts = self.tasks[id]["attempts"] + 1
        self._move(id, "failed" if attempts >= MAX_ATTEMPTS else "pending", **CLEAR, attempts=attempts)

    def retry(self, id: str) -> None:
        need(self.tasks[id]["status"] in ("failed", "cancelled"))
        self._move(id, "pending", **CLEAR, returns=0, attempts=0, losses=0, commit=None, merged=None)

    def block(self, id: str, blocker: str) -> None:
        need(self.tasks[id]["status"] in ("pending", "failed", "cancelled") and not self.waits_for(blocker, id))
        if blocker not in self.tasks[id]["blocked_by"]:
            self._move(id, self.tasks[id]["status"], blocked_by=self.tasks[id]["blocked_by"] | {blocker})

    def unblock(self, id: str, blocker: str) -> None:
        need(self.tasks[id]["status"] in ("pending", "failed", "cancelled"))
        need(blocker in self.tasks[id]["blocked_by"])
        self._move(id, self.tasks[id]["status"], blocked_by=self.tasks[id]["blocked_by"] - {blocker})

    def _owns(self, id: str, by: str) -> bool:
        owner = self.tasks[id]["owner"]
        return bool(owner) and by in (owner, owner.split("#")[0])

    def _move(self, id: str, to: str, **fields: Any) -> None:
        task = self.tasks[id]
        task.update(fields, status=to, rev=task["rev"] + 1)

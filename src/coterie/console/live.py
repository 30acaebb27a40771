"""What happens, as it happens, as lines for people."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from coterie.console.paint import NARROW_WINDOW, Paper, count, money, one_line
from coterie.files import clean, counted
from coterie.teammates.roster import dollars

_COLOURS = ("cyan", "magenta", "blue", "green", "yellow")
_LINES = 3  # of a plan
_STYLES = {
    "warning": "yellow",
    "repair": "yellow",
    "tool": "dim",
    "member": "dim",
    "decision": "bold",
    "merge": "bold",
    "end": "bold",
}
_QUIET = ("text", "answer")
_PREVIEWS = ("tool",)  # kinds of which one line is enough
_HAVE_EVENTS = frozenset(
    {
        "ask_human", "cancel_task", "create_tasks", "finish", "give_up", "park", "propose_tasks", "release_task",
        "retry_task", "review", "send_message", "spawn_teammate", "submit_plan", "submit_work", "todo_write",
        "update_task",
    }
)  # fmt: skip
"""Tools whose success has an event that says more (or nothing to say, for the list that `coterie team` shows)."""
_WAITS = re.compile(r"in the queue: T\d+|(?:plan|permission) R\d+ waits for \w+")
_SAID_ELSEWHERE = re.compile(rf"^waiting: ({_WAITS.pattern})$|^idle: waits for the team$|: the team has finished$")
_LONGEST = 160  # characters of a tool call, where no window cuts it


class Live:
    """A watcher of events that writes one line for each. It never raises: a closed pipe must not end a run."""

    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self._guard = threading.Lock()
        self._closed = False
        self._colours: dict[str, str] = {}
        self.tokens = 0
        self.usd: float | None = 0.0

    def __call__(self, event: Mapping[str, Any]) -> None:
        with self._guard:
            self.count(event)
            if self._closed or is_noise(event):
                return
            try:
                self._write(event)
                self._paper.stream.flush()
            except (OSError, ValueError):
                self._closed = True
                with contextlib.suppress(OSError, ValueError):
                    self._paper.stream.flush()

    def count(self, event: Mapping[str, Any]) -> None:
        """Take in what an event says of the cost, also where it is not shown."""
        if event.get("kind") != "answer":
            return
        usage, usd = event.get("usage"), event.get("usd")
        if isinstance(usage, dict):
            self.tokens += sum(value for value in usage.values() if type(value) is int)
        self.usd = dollars(self.usd, usd if isinstance(usd, int | float) else None)

    def _write(self, event: Mapping[str, Any]) -> None:
        paper = self._paper
        kind = one_line(str(event.get("kind", "")), 20)
        who = one_line(str(event.get("member") or ("queue" if kind in ("merge", "check") else "-")), 32)
        first, *rest = self._said(event, kind)
        head = f"{_time(event.get('at'))} {who:<8} "
        style = _STYLES.get(kind, "")
        if kind in ("task", "merge") and " is completed" in first:
            style = "bold green"
        elif "returned" in first or (kind == "check" and first.startswith("red")):
            style = "red"
        painted = f"{paper.style(head[:9], 'dim')}{paper.style(head[9:], self._colour(who))}"
        if paper.width is not None and paper.width < NARROW_WINDOW:
            paper.say(painted.rstrip())
            painted, head = "  ", "  "
        if kind in _PREVIEWS:
            paper.say(painted + paper.style(paper.fit(first, len(head)), style))
        else:
            lines = paper.lines(one_line(first, 20_000), first=" " * len(head), rest=" " * len(head))
            paper.say(painted + paper.style(lines[0][len(head) :], style))
            for line in lines[1:]:
                paper.say(paper.style(line, style))
        indent = " " * min(len(head), 11)
        for line in rest:
            if kind in _PREVIEWS or kind == "plan":
                paper.say(indent + paper.style(paper.fit(line, len(indent)), "dim"))
            else:
                paper.prose(one_line(line, 20_000), "dim", first=indent, rest=indent)

    def _said(self, event: Mapping[str, Any], kind: str) -> list[str]:
        text = clean(str(event.get("text", "")), 20_000)
        if kind == "plan":
            head, mark, plan = text.partition(": ")
            lines = [line for line in plan.split("\n") if line.strip()]
            more = [f"… {counted(len(lines) - _LINES, 'more line')}"] if len(lines) > _LINES else []
            return [head, *lines[:_LINES], *more] if mark else [text]
        if kind == "message" and event.get("to"):
            text = f"to {event['to']}: {text}"
        if kind == "tool":
            text = f"{text}: error: {event.get('result', '')}" if event.get("is_error") else text
            return [one_line(text, _LONGEST)]
        if kind == "merge" and not event.get("member"):
            spent = f" (so far {count(self.tokens)} tokens, {money(self.usd)})"
            text = text + spent if self.tokens and " is completed" in text else text
        if kind in ("warning", "end", "repair"):
            lines = [line for line in text.split("\n") if line.strip()]
            return lines or [""]
        return [text]

    def _colour(self, who: str) -> str:
        if who in ("-", "queue", "runtime"):
            return "dim"
        if who in ("lead", "human"):
            return "bold"
        return self._colours.setdefault(who, _COLOURS[len(self._colours) % len(_COLOURS)])


def is_noise(event: Mapping[str, Any]) -> bool:
    """Whether an event says nothing that a person needs, or that another one says already."""
    kind, text = event.get("kind"), str(event.get("text", ""))
    match kind:
        case "tool":
            return event.get("tool") in _HAVE_EVENTS and not event.get("is_error")
        case "member":
            return event.get("status") in ("working", "stopping") or _SAID_ELSEWHERE.search(text) is not None
        case "message":  # a report without words of the member's own
            return event.get("what") == "report" and _WAITS.fullmatch(text) is not None
        case "run":
            return "exit_code" in event  # the end says it
    return kind in _QUIET


def _time(at: Any) -> str:
    try:
        return datetime.fromisoformat(str(at)).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return "--:--:--"

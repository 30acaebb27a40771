"""events.jsonl: what happened, for people and programs. No decision is ever made from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie import files

__all__ = ["Event", "Events"]

Event = dict[str, Any]


class Events:
    """Says what happens: appends it to the file, and hands it to whoever watches."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._watchers: list[Callable[[Event], None]] = []
        self.outside = False  # whether another process than the one that runs the team says all of this

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Call `watcher` with every event from now on, one at a time, in the thread that says it."""
        self._watchers.append(watcher)

    def say(self, kind: str, text: str, **fields: Any) -> None:
        """One event: `at, kind, text` and what else is known (member, task, request …), without secrets."""
        event: Event = {"at": files.now(), "kind": kind, "text": files.redacted_text(text)}
        event |= files.redacted_value(fields)
        if self.outside:
            event["outside"] = True
        with self._guard:
            self._keep(event)
            self._hand_out(event)

    def show(self, event: Event) -> None:
        """Hand something to the watchers that is not kept, such as a piece of an answer while it streams."""
        with self._guard:
            self._hand_out(event)

    def _hand_out(self, event: Event) -> None:
        """A watcher that fails is not called again: what it shows is lost, and nobody who works is held up by it."""
        for watcher in list(self._watchers):
            try:
                watcher(event)
            except Exception as error:  # whatever is wrong with it is no fault of the member that speaks
                self._watchers.remove(watcher)
                text = f"what watched the events is not called any more, it failed: {type(error).__name__}: {error}"
                self._keep({"at": files.now(), "kind": "warning", "text": text})

    def _keep(self, event: Event) -> None:
        line = files.as_json(event, default=str) + "\n"
        files.append(self._path, line.encode("utf-8", "replace"), durable=False)

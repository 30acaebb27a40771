"""Batches that were begun: `intents/board-<id>.json` holds all tasks of one until the last is in place.

An intent found under the team's lock is from a dead process, or from a call that failed on the way: it only ever
rolls forward.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from coterie import files
from coterie.errors import NewerSchema
from coterie.taskboard.errors import UnknownTask
from coterie.taskboard.task import Task, check_id, encode

__all__ = ["Intent", "Intents"]

SCHEMA = 1
LIMIT = 1 << 30


@dataclass(frozen=True)
class Intent:
    """A batch of new tasks, and the file that says so."""

    path: Path
    tasks: tuple[Task, ...]


class Intents:
    """The board's intents in the team's folder of intents; those of others are left alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, tasks: Sequence[Task], made_by: str | None) -> Path:
        """Say what is about to be written. Returns the file, for `finish`."""
        path = files.make_folder(self.folder) / f"board-{tasks[0].id}.json"  # no id is used twice, so no name is
        files.write_json(
            path,
            {
                "schema": SCHEMA,
                "kind": "create",
                "made_by": made_by,
                "at": files.now(),
                "tasks": [json.loads(encode(task)) for task in tasks],
            },
        )
        return path

    def finish(self, path: Path) -> None:
        """All of it is in place."""
        files.remove(path)

    def left(self, report: Callable[[str], None]) -> list[Intent]:
        """The batches that were begun and not finished. One that cannot be read is set aside and reported."""
        try:
            with os.scandir(self.folder) as found:
                names = sorted(each.name for each in found if each.name.startswith("board-"))
        except FileNotFoundError:
            return []
        return [intent for name in names if (intent := self._read(self.folder / name, report)) is not None]

    def _read(self, path: Path, report: Callable[[str], None]) -> Intent | None:
        try:
            found = files.read_json(path, limit=LIMIT)
            schema, records = found.get("schema"), found.get("tasks")
            if isinstance(schema, int) and schema > SCHEMA:
                raise NewerSchema(f"{path} was written by a newer Coterie: upgrade to go on with this board")
            if not isinstance(records, list):
                raise files.Unreadable(path, "tasks: expected a list")
            tasks = tuple(Task.model_validate_json(json.dumps(record)) for record in records)
            for task in tasks:
                check_id(task.id)
        except (files.Unreadable, ValidationError, UnknownTask) as error:
            where = files.set_aside(path)
            report(f"a half written batch of tasks could not be read: set aside as {where} ({error})")
            return None
        return Intent(path, tasks)

"""The board: tasks as plain files, claimed once, in the right order, with every move checked in the store."""

from __future__ import annotations

from coterie.taskboard.board import Board
from coterie.taskboard.errors import Cycle, IllegalMove, NotCurrent, TaskRefused, UnknownTask
from coterie.taskboard.graph import find_circle, ready_order
from coterie.taskboard.moves import MOVES, Move
from coterie.taskboard.reading import Row, read_one, read_tasks, rows
from coterie.taskboard.task import (
    Assignment,
    Change,
    Claim,
    Evidence,
    NewTask,
    Result,
    Status,
    Task,
    Wanted,
    encode,
    is_id,
    is_newer,
    number,
    parse,
)

__all__ = [
    "MOVES",
    "Assignment",
    "Board",
    "Change",
    "Claim",
    "Cycle",
    "Evidence",
    "IllegalMove",
    "Move",
    "NewTask",
    "NotCurrent",
    "Result",
    "Row",
    "Status",
    "Task",
    "TaskRefused",
    "UnknownTask",
    "Wanted",
    "encode",
    "find_circle",
    "is_id",
    "is_newer",
    "number",
    "parse",
    "read_one",
    "read_tasks",
    "ready_order",
    "rows",
]

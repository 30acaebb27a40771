"""The tools of a teammate."""

from __future__ import annotations

from coterie.teammates.tool import toolbox
from coterie.teammates.tools.board import GET_TASK, LIST_TASKS, row
from coterie.teammates.tools.commands import BASH, STOP_COMMAND
from coterie.teammates.tools.paths import EDIT_FILE, GLOB, GREP, READ_FILE, WRITE_FILE
from coterie.teammates.tools.talk import ANSWER_SHUTDOWN, SEND_MESSAGE, TODO_WRITE
from coterie.teammates.tools.work import GIVE_UP, PARK, PROPOSE_TASKS, SUBMIT_PLAN, SUBMIT_WORK, SYNC, NewTasks

__all__ = ["BASH", "GET_TASK", "GLOB", "GREP", "LIST_TASKS", "READ_FILE", "TEAMMATE_TOOLS", "NewTasks", "row"]

TEAMMATE_TOOLS = toolbox(
    BASH,
    STOP_COMMAND,
    READ_FILE,
    GLOB,
    GREP,
    WRITE_FILE,
    EDIT_FILE,
    TODO_WRITE,
    SUBMIT_PLAN,
    SUBMIT_WORK,
    GIVE_UP,
    PARK,
    PROPOSE_TASKS,
    SYNC,
    LIST_TASKS,
    GET_TASK,
    SEND_MESSAGE,
    ANSWER_SHUTDOWN,
)

"""What a tool is: the pydantic model of its arguments and a function. Its schema is derived from the model."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from coterie.errors import CoterieError, Refused
from coterie.teammates.cancel import Cancel

__all__ = ["Arguments", "BadArguments", "Call", "Effect", "Tool", "ToolResult", "explained", "toolbox"]


class Effect(StrEnum):
    """What a tool does, which is what the gate decides by."""

    READS = "reads"  # changes nothing
    CHANGES = "changes"  # changes the worktree
    COORDINATES = "coordinates"  # changes board, mail, requests or members


class BadArguments(Refused):
    """The arguments of a call do not fit the tool."""


class Arguments(BaseModel):
    """The arguments of a tool. The docstring of a subclass is what the model is told about the tool."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    id: str
    key: str  # the same for the same call after a restart; a store that has seen it returns its first result
    cancel: Cancel
    again: bool = False  # it was started before a restart and has no result: it may have taken effect
    started: Callable[[dict[str, Any]], None] = lambda process: None  # records the process that acts for it
    read_only: bool = False  # the gate lets a command through only where it is kept from writing


@dataclass(frozen=True)
class ToolResult:
    """What the model is told."""

    text: str
    is_error: bool = False
    ends: bool = False  # the stretch ends after the turn's other calls
    seen: Mapping[str, str] = field(default_factory=dict)  # path -> digest of a file as the model knows it now


@dataclass(frozen=True)
class Tool:
    """A tool. `act(member, arguments, call)` may raise any error of ours: the loop makes an error result of it."""

    name: str
    effect: Effect
    arguments: type[Arguments]
    act: Callable[[Any, Any, Call], ToolResult | str]
    repeats: bool = True  # after a restart an interrupted call is made again; False: answered "interrupted"
    runs: bool = False  # it runs a command, which can be kept from writing by `call.read_only`

    def schema(self) -> dict[str, Any]:
        """The tool as the Messages API takes it."""
        schema = _plain(self.arguments.model_json_schema())
        schema.pop("description", None)
        return {"name": self.name, "description": (self.arguments.__doc__ or "").strip(), "input_schema": schema}

    def parse(self, given: Any) -> Arguments:
        """The arguments, checked. Raises `BadArguments` that names every argument that is wrong."""
        try:
            # JSON has no tuples, and strict JSON parsing keeps "3" from becoming 3
            return self.arguments.model_validate(given)
        except ValidationError as error:
            known = ", ".join(
                name if field.is_required() else f"{name}?" for name, field in self.arguments.model_fields.items()
            )
            faults = "; ".join(_fault(each) for each in error.errors())
            raise BadArguments(f"{self.name}: {faults}. Its arguments: {known or 'none'}") from None


def _fault(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "arguments"
    match error["type"]:
        case "extra_forbidden":
            return f"{where}: there is no such argument"
        case "missing":
            return f"{where}: missing"
        case _:
            found = repr(error.get("input"))
            return f"{where}: {error['msg']}, found {found[:80]}"


def _plain(schema: Any) -> Any:
    """The schema without titles and defaults of None, which only cost tokens."""
    if isinstance(schema, dict):
        return {
            key: _plain(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
        }
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def explained(error: CoterieError, tools: Container[str]) -> str:
    """An error as a model is told it: what is wrong, and which of its tools shows more."""
    text = str(error)
    match error.see:
        case "board" if "list_tasks" in tools:
            return f"{text}. See list_tasks"
        case "team" if "list_team" in tools:
            return f"{text}. See list_team"
        case str(task) if task.startswith("T") and "get_task" in tools:
            return f"{text}. See get_task {task}"
    return text


def toolbox(*tools: Tool) -> dict[str, Tool]:
    """Tools by name."""
    return {tool.name: tool for tool in tools}

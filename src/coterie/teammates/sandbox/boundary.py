"""The seam for a boundary that the operating system keeps around commands, and what stands there without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from coterie.errors import Refused

__all__ = ["Boxed", "Level", "NoSandbox", "Sandbox"]


class Level(StrEnum):
    """How much of the boundary holds, as it was tried."""

    FULL = "full"  # everything that was tried from inside was refused
    PARTIAL = "partial"  # something keeps commands in, and the detail says what it does not keep
    NONE = "none"


@dataclass(frozen=True)
class Boxed:
    """How a command is to be started."""

    argv: list[str]
    env: dict[str, str]  # of the process that is started; what the command itself gets may be in `files`
    files: tuple[bytes, ...] = ()  # contents of unnamed files, open in it as descriptors FIRST_FILE, + 1, …
    limits: Mapping[str, int] = field(default_factory=dict)  # of `resource`, by name without RLIMIT_


class Sandbox(Protocol):
    """The one seam for a boundary that the operating system keeps."""

    level: Level
    detail: str  # for people: what keeps the boundary, or why nothing does
    read_only_possible: bool  # whether `writable=False` can be kept

    def wrap(self, argv: list[str], *, cwd: Path, env: Mapping[str, str], writable: bool, check: bool) -> Boxed:
        """How to run `argv` in `cwd` behind the boundary. check: it is a check, which may have the network.

        `env` is what the command gets; a sandbox may say of itself where home and temporary files are. Raises `Refused`
        for what it cannot keep.
        """
        ...


class NoSandbox:
    """No boundary at all: a command can do whatever the person can who started the run."""

    level = Level.NONE
    read_only_possible = False

    def __init__(self, detail: str = "no sandbox: commands can reach everything that you can") -> None:
        self.detail = detail

    def wrap(self, argv: list[str], *, cwd: Path, env: Mapping[str, str], writable: bool, check: bool) -> Boxed:
        if not writable:
            raise Refused("without a sandbox a command cannot be kept from writing: read with read_file, glob, grep")
        return Boxed(argv, dict(env))

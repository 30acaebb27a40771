"""What commands may do, by the person's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coterie.teammates.sandbox.limits import Limits

__all__ = ["Rules"]


@dataclass(frozen=True)
class Rules:
    """What commands may do, by the person's settings."""

    network: Literal["off", "on", "checks"] = "off"
    unix_sockets: bool = False  # whether they may be made where the network is on
    read_only: tuple[Path, ...] = ()  # what may be read besides
    limits: Limits = field(default_factory=Limits)
    hidden: tuple[Path, ...] = ()  # no toolchain that holds one of these is shown
    closed: tuple[Path, ...] = ()  # and none that lies in one of these
    home: Path = Path("/nonexistent")  # of the person; toolchains are looked for there

    def has_network(self, *, check: bool) -> bool:
        """Whether a command has the network. check: it is a check."""
        return self.network == "on" or (self.network == "checks" and check)

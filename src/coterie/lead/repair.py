"""What `coterie doctor --repair` does: the recovery of a start, and nothing after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from coterie.lead.host import leading
from coterie.lead.opening import open_team
from coterie.lead.recovery import recover
from coterie.teammates.events import Event

__all__ = ["repair"]


def repair(root: Path, *, watch: Callable[[Event], None]) -> None:
    """Do what a start of the team at `root` does before anybody works. watch: called with every event.

    Raises `AlreadyRunning` while a host runs the team, and what `recover` raises.
    """
    with leading(root) as process:
        team = open_team(root, process=process)
        team.events.watch(watch)
        recover(team)

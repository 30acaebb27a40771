"""The audit itself: look, apply every rule, and where something looks wrong look again."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from pathlib import Path

from coterie.lead.audit import boards, conversations, letters, merges, traces, trees
from coterie.lead.audit.fault import Fault
from coterie.lead.audit.sight import Sight, look, names
from coterie.teammates.team import Team

__all__ = ["audit", "set_aside"]

RULES: tuple[Callable[[Sight], Iterable[Fault]], ...] = (
    boards.faults,
    merges.faults,
    trees.faults,
    letters.faults,
    conversations.faults,
    traces.faults,
)
PAUSE = 0.25  # seconds between two looks: what is under way is somewhere else by then
LOOKS = 4  # at a team that a living host works on; two at any other, since a command may be writing


def audit(root: Path, team: Team | None = None, *, left: Container[str] = ()) -> list[Fault]:
    """Every fault of the team whose folder is `root` (`<repository>/.coterie/<team>`); empty where all is well.

    team: its rooms, where the caller has them open. left: rules whose repairable faults the caller leaves to others.

    Reads only: no lock is taken, no file moved, no index refreshed. What looks wrong is looked at again: only what
    stays exactly so is a fault, and so what a living host has under way is none. Raises `UsageError` outside of a git
    repository, `EnvironmentFault` without git.
    """

    def faults(sight: Sight) -> list[Fault]:
        return [each for each in _apply(sight) if not (each.repairable and each.rule in left)]

    sight = look(root, team)
    found = faults(sight)
    for _ in range((LOOKS if sight.hosts else 2) - 1):
        if not found:
            break
        time.sleep(PAUSE)
        again = set(faults(look(root, sight.rooms)))
        found = [each for each in found if each in again]
    return found


def _apply(sight: Sight) -> list[Fault]:
    found = [fault for rule in RULES for fault in rule(sight)]
    return list(dict.fromkeys([*sight.faults, *found]))


def set_aside(root: Path) -> list[str]:
    """What lies in the `bad` folders: files that could not be used and that a person may look at. No fault."""
    found: list[str] = []
    sight = Sight(root)
    mail = [f"mail/{name}/bad" for name in names(root / "mail", sight)]
    members = [f"members/{name}/bad" for name in names(root / "members", sight)]
    for folder in ("bad", "tasks/bad", "requests/bad", "intents/bad", *mail, *members):
        found += [f"{folder}/{name}" for name in names(root / folder, sight) if not name.startswith(".")]
    return found

"""What the audit answers: one record for each thing that is not as it has to be."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AGAIN", "LEFT_FOR_RESUME", "Fault"]

AGAIN = "a start puts it right: coterie resume, or coterie doctor --repair"

LEFT_FOR_RESUME = frozenset({"open-call", "assignment-worktree"})
"""Rules whose faults, where they are repairable, only the member itself puts right: when a run goes on."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is not as it has to be.

    rule: a short slug. where: a path below the team's folder, else an absolute path, a ref or an id.
    found, cure: a sentence each. repairable: whether going on with the team puts it right by itself.
    """

    rule: str
    where: str
    found: str
    cure: str
    repairable: bool = False

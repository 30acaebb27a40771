"""The lead, the run of a team, the merge queue, recovery and the end."""

from __future__ import annotations

from coterie.lead.audit import Fault, audit
from coterie.lead.ending import spent_by_task
from coterie.lead.opening import create_team, find_team, open_team, teams
from coterie.lead.run import Outcome, owes, run_team

__all__ = [
    "Fault",
    "Outcome",
    "audit",
    "create_team",
    "find_team",
    "open_team",
    "owes",
    "run_team",
    "spent_by_task",
    "teams",
]

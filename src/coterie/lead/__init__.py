"""The lead, the run of a team, the merge queue, recovery and the end."""

from __future__ import annotations

from coterie.lead.audit import Fault, audit, set_aside
from coterie.lead.boundary import expect_boundary, find_boundary, sandbox_of
from coterie.lead.ending import spent_by_task
from coterie.lead.host import Outcome
from coterie.lead.join import join_team
from coterie.lead.opening import create_team, find_team, open_team, teams
from coterie.lead.overtake import take_now
from coterie.lead.repair import repair
from coterie.lead.run import owes, run_team

__all__ = [
    "Fault",
    "Outcome",
    "audit",
    "create_team",
    "expect_boundary",
    "find_boundary",
    "find_team",
    "join_team",
    "open_team",
    "owes",
    "repair",
    "run_team",
    "sandbox_of",
    "set_aside",
    "spent_by_task",
    "take_now",
    "teams",
]

"""The gate: whether a tool may act now. One decision, from the tool's declared effect and what stands on disk."""

from __future__ import annotations

from enum import StrEnum

from coterie.teammates.tool import Effect

__all__ = ["Holding", "PlanState", "refusal"]


class PlanState(StrEnum):
    """The plan of the current assignment."""

    NOT_NEEDED = "not needed"
    MISSING = "missing"
    SUBMITTED = "submitted"
    REJECTED = "rejected"
    UNSOUND = "unsound"  # it says approved, but not by somebody who may, or not on the text that was submitted
    APPROVED = "approved"


class Holding(StrEnum):
    """What a member's assignment is to it, by the board and by git."""

    NOTHING = "nothing"  # no assignment
    LOST = "lost"  # it was taken back, cancelled, or belongs to somebody else by now
    UNJOINED = "unjoined"  # returned, and the integration tip is not merged into the worktree yet
    QUEUED = "queued"  # handed in
    CURRENT = "current"


def refusal(effect: Effect, plan: PlanState, holding: Holding) -> str | None:
    """Why a tool of this effect may not act now; None if it may.

    Reading and coordinating stay open: a tool that coordinates checks its own request against the stores.
    """
    if effect is not Effect.CHANGES:
        return None
    match holding:
        case Holding.NOTHING:
            return "you hold no task, so there is no worktree to change: tasks are handed to you when they are ready"
        case Holding.LOST:
            return "your task is not yours any more, so nothing of it may be changed: end your turn"
        case Holding.UNJOINED:
            return "the integration branch is still being merged into your worktree: try again"
        case Holding.QUEUED:
            return "your work is handed in and waits in the merge queue: end your turn, you are told what becomes of it"
        case Holding.CURRENT:
            pass
    match plan:
        case PlanState.NOT_NEEDED | PlanState.APPROVED:
            return None
        case PlanState.MISSING:
            return "this task needs an approved plan before anything is changed: read, then call submit_plan"
        case PlanState.SUBMITTED:
            return "your plan waits for a decision: end your turn, the decision wakes you"
        case PlanState.REJECTED:
            return "your plan was rejected: revise it by the feedback and call submit_plan again"
        case PlanState.UNSOUND:
            return "the approval of your plan does not count (the file was changed by hand): call submit_plan again"

"""The gate: whether a call may act now. One decision, from facts that were read off the disk for this call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from coterie.teammates.permissions import Say, Verdict
from coterie.teammates.tool import Effect

__all__ = ["Facts", "Holding", "Leave", "PlanState", "Ruling", "Way", "rule", "way"]


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


class Leave(StrEnum):
    """What a person said of this very call."""

    NOT_ASKED = "not asked"
    WAITS = "waits"
    GIVEN = "given"
    REFUSED = "refused"


class Way(StrEnum):
    """How a call may act."""

    FREE = "free"  # as the tool is
    READ_ONLY = "read-only"  # as a command that the sandbox keeps from writing
    ASK = "ask"  # once a person has said yes
    SHUT = "shut"  # not at all


NO_RULE = Verdict()


@dataclass(frozen=True)
class Facts:
    """What the decision rests on."""

    effect: Effect  # of the tool, as it declares it
    role: Literal["lead", "teammate"]
    plan: PlanState
    holding: Holding
    runs: bool = False  # the tool runs a command, which the sandbox can keep from writing
    read_only: bool = False  # … if there is a sandbox that can
    verdict: Verdict = NO_RULE
    leave: Leave = Leave.NOT_ASKED


@dataclass(frozen=True)
class Ruling:
    """The decision. `read_only` also says how a call that is asked about would act."""

    way: Way
    why: str = ""
    read_only: bool = False
    by_leave: bool = False  # it acts because a person said yes to it, and no longer than that stands


def rule(facts: Facts) -> Ruling:
    """Plan and assignment first, then the rules: deny, ask, allow. Nobody is asked for what may not be anyhow."""
    how = way(facts)
    if how.way is Way.SHUT:
        return how
    match facts.verdict.say:
        case Say.DENY:
            return Ruling(Way.SHUT, f"not permitted: {facts.verdict.why}. Do it another way, or say why it is needed")
        case Say.ASK if facts.leave is Leave.REFUSED:
            return Ruling(Way.SHUT, f"not permitted: {facts.verdict.why}, and the answer was no")
        case Say.ASK if facts.leave is not Leave.GIVEN:
            return Ruling(Way.ASK, facts.verdict.why, how.read_only)
        case Say.ASK:
            return replace(how, by_leave=True)
    return how


def way(facts: Facts) -> Ruling:
    """What effect, role, plan and assignment come to.

    Reading and coordinating stay open: a tool that coordinates checks its own request against the stores. A command is
    let through where nothing may be changed if the sandbox can keep it from that.
    """
    if facts.effect is not Effect.CHANGES:
        return Ruling(Way.FREE)
    if facts.role == "lead":
        return _kept(facts, "the lead changes no file")
    match facts.holding:
        case Holding.NOTHING:
            return _shut(
                "you hold no task, so there is no worktree to change: tasks are handed to you when they are ready"
            )
        case Holding.LOST:
            return _shut("your task is not yours any more, so nothing of it may be changed: end your turn")
        case Holding.UNJOINED:
            return _shut("the integration branch is still being merged into your worktree: try again")
        case Holding.QUEUED:
            return _shut(
                "your work is handed in and waits in the merge queue: end your turn, you are told what becomes of it"
            )
        case Holding.CURRENT:
            pass
    match facts.plan:
        case PlanState.NOT_NEEDED | PlanState.APPROVED:
            return Ruling(Way.FREE)
        case PlanState.MISSING:
            return _kept(
                facts, "this task needs an approved plan before anything is changed: read, then call submit_plan"
            )
        case PlanState.SUBMITTED:
            return _kept(facts, "your plan waits for a decision: end your turn, the decision wakes you")
        case PlanState.REJECTED:
            return _kept(facts, "your plan was rejected: revise it by the feedback and call submit_plan again")
        case PlanState.UNSOUND:
            return _kept(
                facts, "the approval of your plan does not count (the file was changed by hand): call submit_plan again"
            )


def _shut(why: str) -> Ruling:
    return Ruling(Way.SHUT, why)


def _kept(facts: Facts, why: str) -> Ruling:
    """Nothing may be changed: a command runs where it cannot."""
    if facts.runs and facts.read_only:
        return Ruling(Way.READ_ONLY, why, read_only=True)
    return _shut(why)

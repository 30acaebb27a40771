"""Worktrees outside the user's checkout, and the git part of the merge queue."""

from __future__ import annotations

from coterie.worktrees.errors import NotBound, Unmergeable
from coterie.worktrees.git import Git, GitError, Where, git_command
from coterie.worktrees.in_hand import work_in_hand
from coterie.worktrees.keeper import Keeper, Opened
from coterie.worktrees.landing import Landing, LandingKind, land, plan_land
from coterie.worktrees.merging import Conflict, Merge, Merged, Merger
from coterie.worktrees.places import (
    branch_of,
    integration_ref,
    prepare,
    refuse_foreign_state,
    state_folder,
    state_root,
    uncommitted,
)
from coterie.worktrees.registry import checkouts
from coterie.worktrees.repository import Repository, check_version, find_repository
from coterie.worktrees.survey import Worktree
from coterie.worktrees.trees import Snapshot
from coterie.worktrees.view import View, ignored_by_person, settings_of, view

__all__ = [
    "Conflict",
    "Git",
    "GitError",
    "Keeper",
    "Landing",
    "LandingKind",
    "Merge",
    "Merged",
    "Merger",
    "NotBound",
    "Opened",
    "Repository",
    "Snapshot",
    "Unmergeable",
    "View",
    "Where",
    "Worktree",
    "branch_of",
    "check_version",
    "checkouts",
    "find_repository",
    "git_command",
    "ignored_by_person",
    "integration_ref",
    "land",
    "plan_land",
    "prepare",
    "refuse_foreign_state",
    "settings_of",
    "state_folder",
    "state_root",
    "uncommitted",
    "view",
    "work_in_hand",
]

"""worktrees."""

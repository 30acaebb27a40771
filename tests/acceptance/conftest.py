"""Whole teams on real git repositories."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with one commit; worktrees go below tmp_path too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "trunk")
    (root / "one.txt").write_text("one\n")
    (root / "two.txt").write_text("two\n")
    git(root, "add", "-A")
    git(root, "-c", "user.name=Someone", "-c", "user.email=someone@example.org", "commit", "-q", "-m", "start")
    return root


def git(root: Path, *argv: str) -> str:
    """What git says; for looking from outside, without any of our code."""
    done = subprocess.run(["git", *argv], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def look(repository: Path) -> Callable[..., str]:
    return lambda *argv: git(repository, *argv)

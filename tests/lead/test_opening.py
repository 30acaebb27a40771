"""What a repository brings along is never taken for a team of this person's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.acceptance.conftest import git

from coterie.errors import UsageError
from coterie.lead import create_team, run_team
from coterie.teammates.model import ScriptedModel, reply
from coterie.teammates.settings import TeamSettings


def test_a_team_that_came_with_a_commit_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = tmp_path / "repo"
    repo.mkdir()
    identity = ("-c", "user.name=S", "-c", "user.email=s@example.org")
    git(repo, "init", "-q", "-b", "trunk")
    git(repo, *identity, "commit", "-q", "--allow-empty", "-m", "start")
    root = create_team(repo, goal="g", name=None, settings=TeamSettings())
    shutil.rmtree(repo / ".coterie" / ".git")  # a commit does not carry it
    git(repo, "add", "-f", ".coterie/main/team.json")
    git(repo, *identity, "commit", "-q", "-m", "a board of somebody's choice")
    with pytest.raises(UsageError, match="git rm -r --cached"):
        run_team(root, settings=TeamSettings(), api_key=None, model=ScriptedModel(reply))
    assert "coterie" not in git(repo, "for-each-ref", "refs/heads")

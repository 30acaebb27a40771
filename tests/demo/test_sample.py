"""The sample repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coterie.demo.sample import HISTORY, create_sample, sample_files
from coterie.errors import EnvironmentFault, UsageError


def git(root: Path, *argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=root, capture_output=True, text=True, check=True).stdout


def test_it_is_a_clean_repository_whose_own_tests_pass(tmp_path: Path) -> None:
    commit = create_sample(tmp_path / "new" / "shop")
    root = tmp_path / "new" / "shop"
    assert git(root, "rev-parse", "main").strip() == commit
    done = subprocess.run(["python3", "-m", "unittest", "-q"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Ran 57 tests" in done.stderr
    assert git(root, "status", "--porcelain") == ""


def test_each_commit_of_its_history_passes_its_tests(tmp_path: Path) -> None:
    create_sample(tmp_path)
    commits = git(tmp_path, "rev-list", "--reverse", "main").split()
    assert len(commits) == len(HISTORY)
    for commit in commits:
        git(tmp_path, "switch", "--quiet", "--detach", commit)
        subprocess.run(["python3", "-m", "unittest", "-q"], cwd=tmp_path, capture_output=True, check=True)


def test_it_is_the_same_every_time_and_the_users_git_settings_play_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = create_sample(tmp_path / "one")
    config = tmp_path / "config"
    config.write_text("[commit]\n\tgpgsign = true\n[core]\n\tautocrlf = true\n[init]\n\tdefaultBranch = other\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    assert create_sample(tmp_path / "two") == first


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        create_sample(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_machine_without_git_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="git"):
        create_sample(tmp_path / "shop")


def test_every_file_stands_in_the_history_once() -> None:
    assert sorted(name for names in HISTORY.values() for name in names) == sorted(sample_files())


def test_one_module_is_overgrown_and_the_others_are_not() -> None:
    lines = {name: text.count("\n") for name, text in sample_files().items() if name.startswith("shopfront/")}
    assert lines.pop("shopfront/settings.py") > 400
    assert len(lines) == 10 and max(lines.values()) < 60

"""Finding a repository, preparing it, and the git that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from coterie.errors import EnvironmentFault, UsageError
from coterie.worktrees import Git, find_repository, prepare, state_root, uncommitted

from .conftest import git, start, write


def test_outside_of_a_repository_the_way_to_make_one_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git init"):
        find_repository(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        find_repository(tmp_path / "absent")


def test_a_bare_repository_and_its_linked_worktrees_are_refused(tmp_path: Path, root: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare.git")
    with pytest.raises(UsageError, match="bare"):
        find_repository(tmp_path / "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "linked"), "trunk")
    with pytest.raises(UsageError, match="bare"):
        find_repository(tmp_path / "linked")


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(UsageError, match="no commit yet"):
        find_repository(tmp_path / "empty")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_what_git_says_of_another_owner_is_passed_on(root: Path) -> None:
    for path in (root, root / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(UsageError, match=r"safe\.directory"):
        find_repository(root)


def test_from_a_folder_below_and_from_a_linked_worktree_the_root_is_the_main_checkout(
    root: Path, tmp_path: Path
) -> None:
    found = find_repository(root / "sub")
    assert (found.root, found.common_dir, found.branch) == (root, root / ".git", "refs/heads/trunk")
    assert found.head == git(root, "rev-parse", "HEAD")
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = find_repository(tmp_path / "linked")
    assert (linked.root, linked.common_dir, linked.branch) == (root, root / ".git", "refs/heads/side")
    assert (found.here.path, linked.here.path) == (root, tmp_path / "linked")


def test_uncommitted_files_are_those_of_the_checkout_that_is_on_the_branch(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    write(root, "one.txt", "changed")
    write(tmp_path / "linked", "new.txt", "n")
    for each in (root, tmp_path / "linked"):
        repository = find_repository(each)
        assert uncommitted(repository, "refs/heads/side") == ["new.txt"]
        assert uncommitted(repository, "refs/heads/trunk") == ["one.txt"]
    assert uncommitted(find_repository(root), None) == ["one.txt"]


def test_refs_in_a_reftable_are_refused(root: Path) -> None:
    (root / ".git" / "reftable").mkdir()
    with pytest.raises(UsageError, match="git refs migrate"):
        find_repository(root)


def test_a_detached_head_has_no_branch(root: Path) -> None:
    git(root, "switch", "-q", "--detach")
    assert find_repository(root).branch is None


def test_a_submodule_and_a_separate_git_directory_have_their_own_checkout(root: Path, tmp_path: Path) -> None:
    inner = start(tmp_path / "inner")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "dep")
    found = find_repository(root / "dep" / "sub")
    assert (found.root, found.common_dir) == (root / "dep", root / ".git" / "modules" / "dep")
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "elsewhere"), "apart")
    git(tmp_path / "apart", "commit", "-q", "--allow-empty", "-m", "x")
    found = find_repository(tmp_path / "apart")
    assert (found.root, found.common_dir) == (tmp_path / "apart", tmp_path / "elsewhere")


def test_a_shallow_clone_is_used_as_it_is(root: Path, tmp_path: Path) -> None:
    write(root, "more.txt", "x")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "more")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    assert find_repository(tmp_path / "shallow").head == git(root, "rev-parse", "HEAD")


@pytest.mark.parametrize("version", ["git version 2.37.9", "git version 1.9", "nothing"])
def test_a_git_that_is_too_old_is_named(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    fake = write(tmp_path, "bin/git", f"#!/bin/sh\necho '{version}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(EnvironmentFault, match=r"2\.38.*upgrade"):
        find_repository(root)


def test_a_missing_git_is_said(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    found = shutil.which("env")
    assert found is not None
    (tmp_path / "bin" / "env").symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(EnvironmentFault, match="git is not installed"):
        find_repository(root)


def test_inherited_git_variables_have_no_effect(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = start(tmp_path / "other")
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / ".git" / "index",
        "GIT_COMMON_DIR": other / ".git",
        "GIT_OBJECT_DIRECTORY": other / ".git" / "objects",
    }.items():
        monkeypatch.setenv(name, str(value))
    assert find_repository(root).root == root


def test_prepare_excludes_its_folder_once_and_the_status_stays_clean(root: Path) -> None:
    repository = find_repository(root)
    exclude = root / ".git" / "info" / "exclude"
    exclude.write_bytes(b"# mine \xff\n/private")
    prepare(repository, "main")
    prepare(repository, "main")
    prepare(repository, "other")
    assert exclude.read_bytes() == b"# mine \xff\n/private\n/.coterie/\n"
    assert git(root, "status", "--porcelain", "--ignored=no") == ""


def test_prepare_does_without_an_exclude_file(root: Path) -> None:
    shutil.rmtree(root / ".git" / "info")
    prepare(find_repository(root), "main")
    assert (root / ".git" / "info" / "exclude").read_text() == "/.coterie/\n"


def test_git_clean_passes_over_the_folder_even_after_a_kill_while_it_was_made(root: Path) -> None:
    (root / ".coterie" / ".git").mkdir(parents=True)  # all that a killed `git init` made
    prepare(find_repository(root), "main")
    write(root, ".coterie/main/tasks/T1.json", "{}")
    git(root, "clean", "-fdx")
    assert (root / ".coterie" / "main" / "tasks" / "T1.json").exists()


def test_branches_with_our_names_are_refused_by_name(root: Path) -> None:
    repository = find_repository(root)
    git(root, "branch", "coterie")
    with pytest.raises(UsageError, match="'coterie' exists"):
        prepare(repository, "main")
    git(root, "branch", "-m", "coterie", "coterie/main")
    with pytest.raises(UsageError, match="'coterie/main' exists"):
        prepare(repository, "main")
    git(root, "branch", "-m", "coterie/main", "coterie/main/T1/e1")
    with pytest.raises(UsageError, match="'coterie/main/T1/e1' exists already"):
        prepare(repository, "main")
    assert not (root / ".coterie").exists()
    prepare(repository, "other")


def test_each_repository_has_its_own_folder_for_worktrees(root: Path, tmp_path: Path, home: Path) -> None:
    one, two = find_repository(root), find_repository(start(tmp_path / "again" / "repo"))
    assert state_root(one).parent == home / ".local" / "state" / "coterie"
    assert state_root(one) != state_root(two)
    assert state_root(one, tmp_path / "w") != state_root(two, tmp_path / "w")
    assert state_root(one, tmp_path / "w").parent == tmp_path / "w"
    assert not (home / ".local").exists() and not (tmp_path / "w").exists()


def test_a_relative_state_folder_is_ignored_and_one_in_the_checkout_refused(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = find_repository(root)
    monkeypatch.setenv("XDG_STATE_HOME", "somewhere")
    assert state_root(repository).is_relative_to(home)
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
    with pytest.raises(UsageError, match="in the checkout"):
        state_root(repository)
    with pytest.raises(UsageError, match="in the checkout"):
        state_root(repository, root / "w")
    git(root, "worktree", "add", "-q", "--detach", str(home / "linked"))
    with pytest.raises(UsageError, match=f"in the checkout {home / 'linked'}"):
        state_root(repository, home / "linked" / "w")


def test_a_state_folder_that_cannot_be_written_is_named_before_anything_is_made(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = write(home, "taken", "a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(taken / "state"))
    with pytest.raises(EnvironmentFault, match=str(taken)):
        state_root(find_repository(root))
    assert sorted(each.name for each in home.iterdir()) == ["taken"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_state_folder_is_named(root: Path, home: Path) -> None:
    home.chmod(0o555)
    with pytest.raises(EnvironmentFault, match=str(home)):
        state_root(find_repository(root))


def test_no_module_but_git_py_imports_gitpython() -> None:
    found = subprocess.run(
        ["grep", "-rlE", r"^(import git|from git)\b", str(Path(__file__).parents[2] / "src")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [Path(each).name for each in found.stdout.split()] == ["git.py"]


def test_a_ctrl_c_of_the_terminal_does_not_reach_the_runtimes_own_git(root: Path) -> None:
    said = Git(root / ".git").run("-c", "alias.where=!cut -d ' ' -f 6 /proc/self/stat", "where")
    assert said.isdecimal() and int(said) != os.getsid(0)

"""What a repository, a teammate or an environment may try: our git runs no program of its choice, nothing hangs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.worktrees import Git, GitError, Keeper, find_repository, land, plan_land, prepare

from .conftest import Bench, git, start, tree, write

HOOKS = (
    "post-checkout post-commit pre-commit commit-msg prepare-commit-msg reference-transaction post-index-change "
    "post-merge pre-merge-commit post-rewrite pre-auto-gc update post-update"
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a trace, and fails."""
    path = write(tmp_path, "trap", f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/sprung'\nexit 1\n")
    path.chmod(0o755)
    return path


def whole_life(bench: Bench) -> None:
    root = bench.root
    prepare_again = find_repository(root)
    assert prepare_again.root == root
    path = bench.open()
    write(path, "one.txt", "ada\n")
    write(path, "two.txt", "1\nada\n3\n")
    bench.keeper.snapshot("ada", label="x")
    bench.land_on_tip(two__txt="1\n2\n3\n4\n5\n", theirs__txt="t\n")
    bench.merge_in()
    write(path, "two.txt", "both\n")
    head = bench.commit()
    assert head is not None
    bench.merger.plan_merge(head, bench.keeper.tip())
    bench.queue(head)
    bench.merger.log(bench.base)
    bench.merger.diff(bench.base)
    bench.keeper.reader("queue", bench.keeper.tip())
    bench.keeper.close("ada")
    land(find_repository(root), plan_land(find_repository(root), "main"))


def test_no_hook_of_the_repository_is_run(root: Path, trap: Path, make_keeper: Callable[..., Keeper]) -> None:
    for name in HOOKS.split():
        shutil.copy2(trap, root / ".git" / "hooks" / name)
    whole_life(Bench(make_keeper(root), root))
    prepare(find_repository(root), "later")
    assert not (trap.parent / "sprung").exists()


def test_no_program_of_the_repositorys_configuration_is_run(
    root: Path, trap: Path, make_keeper: Callable[..., Keeper]
) -> None:
    write(root, ".gitattributes", "*.txt filter=evil diff=evil merge=evil\n")
    git(root, "add", ".gitattributes")
    git(root, "commit", "-q", "-m", "attributes")
    write(root, ".git/info/attributes", "theirs.txt filter=evil diff=evil merge=evil\n")
    bench = Bench(make_keeper(root), root)
    hooks = root / "elsewhere"
    write(root, ".git/info/exclude", "/elsewhere/\n")
    for name in HOOKS.split():
        write(hooks, name, trap.read_text()).chmod(0o755)
    write(root, ".git/included", f'[filter "evil"]\n smudge = {trap}\n process = {trap}\n')
    for key, value in {
        "filter.evil.clean": str(trap),
        "diff.evil.textconv": str(trap),
        "diff.evil.command": str(trap),
        "merge.evil.driver": f"{trap} %A",
        "include.path": "included",
        "core.fsmonitor": str(trap),
        "core.hooksPath": str(hooks),
        "core.pager": str(trap),
        "core.editor": str(trap),
        "core.askPass": str(trap),
        "core.sshCommand": str(trap),
        "core.gitProxy": str(trap),
        "credential.helper": str(trap),
        "diff.external": str(trap),
        "gpg.program": str(trap),
        "commit.gpgSign": "true",
        "log.showSignature": "true",
        "alias.commit-tree": f"!{trap}",
        "pager.log": str(trap),
        "gc.auto": "1",
    }.items():
        git(root, "config", key, value)
    whole_life(bench)
    assert not (trap.parent / "sprung").exists()


def test_objects_that_are_missing_are_fetched_from_nobody(
    root: Path, trap: Path, make_keeper: Callable[..., Keeper]
) -> None:
    bench = Bench(make_keeper(root), root)
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{trap} x",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": str(trap),
        "protocol.ext.allow": "always",
    }.items():
        git(root, "config", key, value)
    gone = git(root, "rev-parse", "HEAD:one.txt")
    (root / ".git" / "objects" / gone[:2] / gone[2:]).unlink()
    with pytest.raises(GitError):
        bench.open()
    assert not (trap.parent / "sprung").exists()


def test_filters_of_the_users_own_settings_are_run(
    root: Path, home: Path, tmp_path: Path, make_keeper: Callable[..., Keeper]
) -> None:
    write(root, ".gitattributes", "*.up filter=upper\n")
    git(root, "add", ".gitattributes")
    git(root, "commit", "-q", "-m", "attributes")
    write(home, ".gitconfig", '[filter "upper"]\n clean = tr a-z A-Z\n smudge = tr A-Z a-z\n required = true\n')
    git(root, "config", "filter.upper.clean", "false")
    bench = Bench(make_keeper(root), root)
    write(bench.open(), "x.up", "abc\n")
    head = bench.commit()
    assert head is not None and git(root, "cat-file", "-p", f"{head}:x.up") == "ABC"
    assert (bench.keeper.reader("queue", bench.queue(head)) / "x.up").read_text() == "abc\n"


def test_a_required_filter_of_the_repository_alone_fails_loudly_and_stores_nothing_unfiltered(
    root: Path, make_keeper: Callable[..., Keeper]
) -> None:
    write(root, ".gitattributes", "*.secret filter=crypt\n")
    git(root, "add", ".gitattributes")
    git(root, "commit", "-q", "-m", "attributes")
    git(root, "config", "filter.crypt.clean", "rev")
    git(root, "config", "filter.crypt.required", "true")
    bench = Bench(make_keeper(root), root)
    write(bench.open(), "x.secret", "plain\n")
    with pytest.raises(GitError, match="git config --global"):
        bench.commit()


def test_a_configuration_that_changes_later_is_looked_at_again(bench: Bench, root: Path, trap: Path) -> None:
    path = bench.open()
    write(path, ".gitattributes", "*.txt filter=evil\n")
    write(path, "one.txt", "1\n")
    bench.commit()
    git(path, "config", "filter.evil.clean", str(trap))
    write(path, "one.txt", "2\n")
    assert bench.commit() is not None and not (trap.parent / "sprung").exists()


def test_a_worktree_led_to_another_repository_is_not_followed(
    bench: Bench, root: Path, tmp_path: Path, trap: Path
) -> None:
    """`commondir` and `.git` are a teammate's to write; which repository ours acts on is pinned all the same."""
    evil = start(tmp_path / "evil")
    git(evil, "config", "core.fsmonitor", str(trap))
    git(evil, "config", "filter.evil.clean", str(trap))
    path = bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    write(path, ".gitattributes", "* filter=evil\n")
    write(path, "one.txt", "work\n")
    refs = git(evil, "for-each-ref")
    write(where.metadata, "commondir", f"{evil}/.git\n")
    kept = bench.keeper.snapshot("ada", label="x")
    assert kept is not None and git(root, "show", f"{kept.ref}:one.txt") == "work"
    write(where.metadata, "commondir", f"{evil}/.git\n")
    with pytest.raises(GitError, match="commondir"):
        bench.commit()
    bench.keeper.heal(["ada"])
    write(path, ".git", f"gitdir: {evil}/.git\n")
    head = bench.commit()
    assert head is not None and git(root, "rev-parse", "coterie/main/T1/e1") == head
    assert git(evil, "for-each-ref") == refs and tree(evil) == tree(start(tmp_path / "fresh"))
    assert not (trap.parent / "sprung").exists()


def test_variables_of_the_environment_have_no_effect(
    bench: Bench, root: Path, tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = start(tmp_path / "other")
    before = tree(other), git(other, "for-each-ref"), (other / ".git/index").read_bytes()
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / ".git/index",
        "GIT_COMMON_DIR": other / ".git",
        "GIT_OBJECT_DIRECTORY": other / ".git/objects",
        "GIT_EXTERNAL_DIFF": trap,
        "GIT_EDITOR": trap,
        "GIT_PAGER": trap,
        "GIT_NAMESPACE": "evil",
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={trap}'",
        "GIT_TEMPLATE_DIR": other,
        "GIT_LITERAL_PATHSPECS": "1",
    }.items():
        monkeypatch.setenv(name, str(value))
    whole_life(bench)
    assert (tree(other), git(other, "for-each-ref"), (other / ".git/index").read_bytes()) == before
    assert not (trap.parent / "sprung").exists()


def test_no_identity_and_a_locked_signing_key_stop_nothing(bench: Bench, home: Path, trap: Path) -> None:
    write(
        home,
        ".gitconfig",
        f"[user]\n useConfigOnly = true\n signingKey = X\n[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n"
        f"[gpg]\n program = {trap}\n[safe]\n directory = *\n",
    )
    whole_life(bench)
    assert not (trap.parent / "sprung").exists()


def test_a_git_that_hangs_is_ended_at_its_time(root: Path, tmp_path: Path, home: Path) -> None:
    write(home, ".gitconfig", "[alias]\n forever = !sleep 300\n")
    with pytest.raises(CoterieError, match="did not complete"):
        Git(root / ".git").run("forever", timeout=0.3)


def test_what_git_prints_is_given_whole(root: Path) -> None:
    write(root, "ends.txt", "a\n\n\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")
    assert Git(root / ".git").run("cat-file", "blob", "HEAD:ends.txt") == "a\n\n"
    with pytest.raises(GitError, match="git cat-file blob HEAD:absent"):
        Git(root / ".git").run("cat-file", "blob", "HEAD:absent")

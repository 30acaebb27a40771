"""Snapshots and hand-ins: everything in a worktree is kept, exactly."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.worktrees import Keeper, Unmergeable

from .conftest import Bench, git, listed, start, tree, write


def test_a_clean_worktree_has_nothing_to_keep(bench: Bench) -> None:
    path = bench.open()
    write(path, "build/ignored.o", "x")
    assert bench.keeper.snapshot("ada", label="x") is None
    assert bench.keeper.snapshot("nobody", label="x") is None


def test_tracked_untracked_modes_and_links_are_kept_and_ignored_files_are_listed(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "one.txt", "changed\n")
    (path / "two.txt").unlink()
    write(path, "new/deep.txt", "deep")
    write(path, "run.sh", "#!/bin/sh\n").chmod(0o755)
    (path / "link").symlink_to("/nowhere/at all")
    write(path, "noise.log", "not kept")
    write(path, "build/x.o", "not kept")
    git(path, "add", "one.txt")
    status = git(path, "status", "--porcelain")
    kept = bench.keeper.snapshot("ada", label="T1-e1")
    assert kept is not None and kept.ref == "refs/coterie/main/rescue/T1-e1/1"
    assert set(kept.files) == {"one.txt", "two.txt", "new/deep.txt", "run.sh", "link"}
    assert set(kept.ignored) == {"noise.log", "build/"}
    modes = {line.split("\t")[1]: line[:6] for line in git(root, "ls-tree", "-r", kept.commit).split("\n")}
    assert (modes["run.sh"], modes["link"], modes["one.txt"]) == ("100755", "120000", "100644")
    assert "two.txt" not in modes and git(root, "show", f"{kept.ref}:link") == "/nowhere/at all"
    assert "noise.log" in git(root, "log", "-1", "--format=%B", kept.ref)
    assert git(path, "status", "--porcelain") == status
    assert not list((root / ".git/worktrees/ada").glob("coterie-*"))


def test_the_same_work_is_kept_once_and_other_work_beside_it(bench: Bench) -> None:
    path = bench.open()
    write(path, "x", "1")
    first = bench.keeper.snapshot("ada", label="x")
    assert bench.keeper.snapshot("ada", label="x") == first
    write(path, "x", "2")
    second = bench.keeper.snapshot("ada", label="x")
    assert first is not None and second is not None and second.ref.endswith("/2") and first.commit != second.commit


def test_work_that_is_kept_already_is_not_kept_again_under_another_name(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "x", "1")
    first = bench.keeper.snapshot("ada", label="T1-e1")
    assert first is not None
    assert bench.keeper.close("ada") == first
    assert git(root, "for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue") == first.ref
    tip = bench.land_on_tip(y__txt="y\n")
    path = bench.open(task="T3")
    (path / "y.txt").unlink()
    write(path, "x", "1")
    again = bench.keeper.close("ada")
    assert again is not None and again.commit != first.commit, "the same files on another commit are other work"
    assert git(root, "rev-parse", f"{again.commit}^{{tree}}", f"{again.commit}^") == (
        git(root, "rev-parse", f"{first.commit}^{{tree}}") + f"\n{tip}"
    )


def test_a_change_of_the_same_size_in_the_second_of_the_checkout_is_seen(bench: Bench, root: Path) -> None:
    """The copy of the index keeps the index's time: git tells such a change by it."""
    path = bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    write(path, "one.txt", "eno\n")
    second = 1_700_000_000 * 10**9
    os.utime(path / "one.txt", ns=(second, second))
    bench.keeper.git.run("update-index", "--refresh", "-q", where=where, ok=(0, 1))
    bench.keeper.git.run("add", "one.txt", where=where)
    os.utime(where.metadata / "index", ns=(second, second))  # written in the same second as the file
    ctime = (path / "one.txt").stat().st_ctime
    while True:  # same size, same inode, same second: nothing but its content tells the change
        write(path, "one.txt", "neo\n")
        os.utime(path / "one.txt", ns=(second, second))
        if int((path / "one.txt").stat().st_ctime) == int(ctime):
            break
        bench.keeper.git.run("add", "one.txt", where=where)
        os.utime(where.metadata / "index", ns=(second, second))
        write(path, "one.txt", "eno\n")
        ctime = (path / "one.txt").stat().st_ctime
    kept = bench.keeper.snapshot("ada", label="x")
    assert kept is not None and git(root, "show", f"{kept.ref}:one.txt") == "neo"


def test_changes_that_an_index_is_told_to_hide_are_kept(bench: Bench, root: Path) -> None:
    path = bench.open()
    git(path, "update-index", "--assume-unchanged", "one.txt")
    git(path, "update-index", "--skip-worktree", "two.txt", "sub/three.txt")
    write(path, "one.txt", "a\n")
    write(path, "two.txt", "b\n")
    (path / "sub/three.txt").unlink()  # as a sparse checkout has it: not a deletion
    kept = bench.keeper.snapshot("ada", label="x")
    assert kept is not None and set(kept.files) == {"one.txt", "two.txt"}
    bench.keeper.close("ada")
    assert tree(path) == tree(root)


@pytest.mark.parametrize("commits", [0, 1])
def test_a_repository_inside_is_kept_as_plain_files_and_refused_by_name(bench: Bench, root: Path, commits: int) -> None:
    path = bench.open()
    write(path, "tool/inner.py", "code\n")
    write(path, "tool/run", "x").chmod(0o755)
    git(path, "init", "-q", "tool")
    write(path, "tool/deeper/leaf.txt", "leaf")
    git(path / "tool", "init", "-q", "deeper")
    write(path, "tool/.gitignore", "junk\n")
    write(path, "tool/junk", "junk")
    if commits:
        git(path / "tool", "add", "inner.py")
        git(path / "tool", "commit", "-q", "-m", "x")
        git(path, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
    with pytest.raises(Unmergeable, match=r"inside your worktree: tool\."):
        bench.commit()
    kept = bench.keeper.close("ada")
    assert kept is not None
    inside = [each for each in listed(root, kept.commit) if each.startswith("tool/")]
    assert inside == ["tool/.gitignore", "tool/deeper/leaf.txt", "tool/inner.py", "tool/run"]
    assert git(root, "ls-tree", kept.commit, "tool/run").startswith("100755")
    assert not (path / "tool").exists() or not (path / "tool" / "inner.py").exists()


def test_submodules_of_the_base_stay_what_they_are(
    root: Path, tmp_path: Path, make_keeper: Callable[..., Keeper]
) -> None:
    inner = start(tmp_path / "inner")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "dep")
    git(root, "commit", "-q", "-m", "dep")
    bench = Bench(make_keeper(root), root)
    path = bench.open()
    write(path, "x.txt", "x")
    head = bench.commit()
    assert head is not None and git(root, "ls-tree", head, "dep").startswith("160000")
    assert bench.keeper.close("ada") is None


def test_paths_of_any_kind_are_kept_committed_and_merged(bench: Bench, root: Path) -> None:
    path = bench.open()
    names = ["with space", "new\nline", "-dash", "ünïcode", 'quo"te', ":(top)magic", "tab\t", "trailing "]
    for name in names:
        write(path, name, name)
    raw = os.fsencode(path) + b"/not-\xff-text"
    Path(os.fsdecode(raw)).write_bytes(b"raw")
    kept = bench.keeper.snapshot("ada", label="x")
    assert kept is not None and set(kept.files) == {*names, os.fsdecode(b"not-\xff-text")}
    head = bench.commit()
    assert head is not None
    bench.queue(head)
    assert set(kept.files) <= set(tree(bench.keeper.reader("queue", bench.keeper.tip())))
    assert {"-dash", "new\nline"} <= set(listed(root, "coterie/main/integration"))


@pytest.mark.parametrize("setting", ["autocrlf", "attributes"])
def test_line_endings_of_the_repositorys_rules_are_no_changes(
    root: Path, make_keeper: Callable[..., Keeper], setting: str
) -> None:
    if setting == "autocrlf":
        git(root, "config", "core.autocrlf", "true")
        git(root, "config", "core.safecrlf", "true")
    else:
        write(root, ".gitattributes", "*.txt text eol=crlf\n")
        git(root, "add", ".gitattributes")
        git(root, "commit", "-q", "-m", "rules")
    bench = Bench(make_keeper(root), root)
    path = bench.open()
    assert (path / "one.txt").read_bytes() == b"one\r\n"
    assert bench.commit() is None and bench.keeper.snapshot("ada", label="x") is None
    write(path, "one.txt", b"two\n")
    head = bench.commit()
    assert head is not None and git(root, "cat-file", "-p", f"{head}:one.txt") == "two"
    bench.land_on_tip(two__txt="new\r\n")
    assert bench.merge_in() == []
    assert (path / "two.txt").read_bytes() == b"new\r\n"


def test_work_is_committed_by_its_author_and_the_same_commit_is_answered_again(bench: Bench, root: Path) -> None:
    path = bench.open()
    assert bench.commit() is None
    write(path, "x.txt", "x")
    head = bench.commit(message="subject\n\nbody \x00 \ud800 -m ☃")
    assert head is not None and bench.commit() == head
    assert git(root, "log", "-1", "--format=%an|%cn|%P", head) == f"ada (coterie)|coterie|{bench.base}"
    assert "body" in git(root, "log", "-1", "--format=%B", head) and "☃" in git(root, "log", "-1", "--format=%B", head)
    assert git(path, "status", "--porcelain", "--branch") == "## coterie/main/T1/e1"
    write(path, "x.txt", "y")
    second = bench.commit(message="long " * 100_000)
    assert second is not None and git(root, "rev-parse", f"{second}^1") == head
    write(path, "x.txt", "x")
    (path / "x.txt").unlink()
    assert bench.commit() is None  # back at the base


def test_a_killed_git_of_the_teammates_does_not_hold_a_commit(bench: Bench) -> None:
    path = bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    write(path, "x.txt", "x")
    write(where.metadata, "index.lock", "")
    assert bench.commit() is not None and git(path, "status", "--porcelain") == ""


def test_snapshots_of_one_worktree_from_many_threads_do_not_disturb_each_other(bench: Bench) -> None:
    path = bench.open()
    write(path, "x.txt", "x")
    found: list[object] = []

    def keep(number: int) -> None:
        kept = bench.keeper.snapshot("ada", label=f"t{number}")
        found.append(kept.files if kept is not None else None)

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert found == [("x.txt",)] * 6

"""Merging into a worktree: conflicts become marks in its files, and a kill in between is gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.worktrees import Unmergeable
from coterie.worktrees.joining import conflict_marks, join, joined, joined_ref, joining

from .conftest import Bench, git, listed, tree, write


def test_work_that_is_not_committed_stays_and_the_commit_has_both_parents(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "mine.txt", "mine\n")
    (path / "sub/three.txt").unlink()
    write(path, "noise.log", "ignored")
    tip = bench.land_on_tip(theirs__txt="theirs\n", one__txt="changed\n")
    assert bench.merge_in() == [] and bench.merge_in() == []
    assert (path / "theirs.txt").exists() and (path / "mine.txt").exists() and (path / "noise.log").exists()
    assert not (path / "sub/three.txt").exists() and (path / "one.txt").read_text() == "changed\n"
    write(path, "later.txt", "after the merge")
    assert bench.merge_in() == [] and (path / "later.txt").exists()
    head = bench.commit(base=tip)
    assert head is not None and git(root, "log", "-1", "--format=%P", head) == f"{bench.base} {tip}"
    assert bench.commit(base=tip) == head
    write(path, "more.txt", "x")
    after = bench.commit(base=tip)
    assert after is not None and git(root, "log", "-1", "--format=%P", after) == head


def test_a_merge_without_work_of_ones_own_is_no_change(bench: Bench) -> None:
    bench.open()
    tip = bench.land_on_tip(theirs__txt="theirs\n")
    bench.merge_in()
    assert bench.commit(base=tip) is None


def test_conflicts_are_marked_and_refused_until_they_are_gone(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "two.txt", "1\nada\n3\n")
    tip = bench.land_on_tip(two__txt="1\nben\n3\n")
    assert bench.merge_in() == ["two.txt"]
    assert "<<<<<<< " in (path / "two.txt").read_text() and "ben" in (path / "two.txt").read_text()
    assert bench.keeper.pending_marks("ada", task="T1", epoch=1) == ["two.txt"]
    with pytest.raises(Unmergeable, match=r"two\.txt"):
        bench.commit(base=tip)
    write(path, "two.txt", "1\nada\nben\n3\n")
    head = bench.commit(base=tip)
    assert head is not None and bench.keeper.pending_marks("ada", task="T1", epoch=1) == []
    assert bench.merger.plan_merge(head, tip).conflicts == ()


def test_a_conflicted_file_may_be_deleted(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "two.txt", "ada\n")
    tip = bench.land_on_tip(two__txt="ben\n")
    bench.merge_in()
    (path / "two.txt").unlink()
    head = bench.commit(base=tip)
    assert head is not None and "two.txt" not in listed(root, head)


def test_binary_rename_and_deletion_conflicts_are_named(bench: Bench) -> None:
    ben = bench.open("ben", task="T9")
    write(ben, "bin", b"\0base")
    head = bench.commit("ben", task="T9")
    assert head is not None
    base = bench.queue(head, task="T9")
    ada = bench.open(task="T1")
    ben = bench.open("ben", task="T8")
    write(ada, "bin", b"\0ada")
    write(ben, "bin", b"\0ben")
    (ada / "one.txt").rename(ada / "ada.txt")
    (ben / "one.txt").rename(ben / "ben.txt")
    (ada / "two.txt").unlink()
    write(ben, "two.txt", "1\n2\n3\n4\n")
    head = bench.commit("ben", task="T8", base=base)
    assert head is not None
    tip = bench.queue(head, task="T8")
    found = set(bench.merge_in())
    assert {"bin", "two.txt"} <= found and found & {"ada.txt", "ben.txt", "one.txt"}
    assert (ada / "bin").read_bytes() == b"\0ada" and (ada / "two.txt").exists()
    merged = bench.commit(base=tip)
    assert merged is not None and bench.merger.plan_merge(merged, tip).conflicts == ()


def test_names_of_conflicted_files_may_be_anything(bench: Bench) -> None:
    path = bench.open()
    names = ["a\nconflict: b", " lead", "ü", "x\udcff"]
    ben = bench.open("ben", task="T9")
    for name in names:
        write(path, name, "ada\n")
        write(ben, name, "ben\n")
    head = bench.commit("ben", task="T9")
    assert head is not None
    bench.queue(head, task="T9")
    assert sorted(bench.merge_in()) == sorted(names)
    assert sorted(bench.keeper.pending_marks("ada", task="T1", epoch=1)) == sorted(names)


def test_a_later_tip_is_merged_on_top_and_older_marks_are_not_forgotten(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "two.txt", "ada\n")
    bench.land_on_tip("T9", two__txt="ben\n")
    assert bench.merge_in() == ["two.txt"]
    tip = bench.land_on_tip("T8", other__txt="o\n")
    assert bench.merge_in() == ["two.txt"]
    with pytest.raises(Unmergeable, match=r"two\.txt"):
        bench.commit(base=tip)
    write(path, "two.txt", "both\n")
    head = bench.commit(base=tip)
    assert head is not None and git(root, "log", "-1", "--format=%P", head) == f"{bench.base} {tip}"
    last = bench.land_on_tip("T7", more__txt="m\n")
    assert bench.merge_in() == []
    assert {"more.txt", "other.txt"} <= set(tree(path)) and (path / "two.txt").read_text() == "both\n"
    final = bench.commit(base=last)
    assert final is not None and git(root, "log", "-1", "--format=%P", final) == f"{head} {last}"


@pytest.mark.parametrize("files", ["none", "half", "all"])
def test_a_merge_that_was_killed_is_gone_on_with_and_not_done_twice(bench: Bench, files: str) -> None:
    path = bench.open()
    write(path, "two.txt", "ada\n")
    write(path, "mine.txt", "m\n")
    (path / "sub/three.txt").unlink()
    tip = bench.land_on_tip(two__txt="ben\n", one__txt="changed\n", new__txt="new\n")
    before = tree(path)
    assert bench.merge_in() == ["two.txt"]
    after = tree(path)
    git_ = bench.keeper.git
    done = joined_ref("main", "T1", 1)
    record = git_.resolve(done)
    assert record is not None
    git_.run("update-ref", "-d", done, record)
    if files != "all":  # as the kill found them, index and all
        where = bench.keeper.where("ada")
        assert where is not None
        git_.run("read-tree", "--reset", bench.base, where=where)
        for name in after.keys() | before.keys():
            (path / name).unlink(missing_ok=True)
        for name, content in before.items():
            write(path, name, content)
        write(where.metadata, "index.lock", "half")
    if files == "half":
        write(path, "new.txt", after["new.txt"])
        write(path, "two.txt", after["two.txt"][:10])
    bench.keeper.heal(["ada"])
    assert bench.keeper.needs_merge("ada", tip)
    assert bench.merge_in() == ["two.txt"]
    assert tree(path) == after and not bench.keeper.needs_merge("ada", tip)
    assert joining(git_, team="main", task="T1", epoch=1) is None


def test_a_killed_merge_is_finished_before_a_later_tip_is_merged(bench: Bench) -> None:
    path = bench.open()
    write(path, "two.txt", "ada\n")
    bench.land_on_tip("T9", two__txt="ben\n")
    bench.merge_in()
    record = bench.keeper.git.resolve(joined_ref("main", "T1", 1))
    assert record is not None
    bench.keeper.git.run("update-ref", "-d", joined_ref("main", "T1", 1), record)
    tip = bench.land_on_tip("T8", other__txt="o\n")
    assert bench.merge_in() == ["two.txt"]
    text = (path / "two.txt").read_text()
    assert text.count("<<<<<<< ") == 1 and (path / "other.txt").exists()
    found = joined(bench.keeper.git, team="main", task="T1", epoch=1)
    assert found is not None and found.commit == tip


def test_parked_work_is_carried_over_once_even_through_a_kill(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "parked.txt", "work\n")
    write(path, "two.txt", "ada\n")
    kept = bench.keeper.close("ada")
    assert kept is not None
    bench.land_on_tip(two__txt="ben\n", theirs__txt="t\n")
    opened = bench.keeper.open("ada", task="T1", epoch=2, base=bench.keeper.tip(), carry=kept.commit)
    assert opened.conflicts == ("two.txt",)
    assert {"parked.txt", "theirs.txt"} <= set(tree(path))
    after = tree(path)
    where = bench.keeper.where("ada")
    assert where is not None  # killed after the files, before HEAD
    bench.keeper.git.run("update-ref", "--no-deref", "HEAD", bench.keeper.tip(), where=where)
    again = bench.keeper.open("ada", task="T1", epoch=2, base=bench.keeper.tip(), carry=kept.commit)
    assert again.conflicts == ("two.txt",) and tree(path) == after
    assert bench.keeper.open("ada", task="T1", epoch=2, base=bench.keeper.tip()).conflicts == ("two.txt",)
    assert bench.keeper.open("ada", task="T2", epoch=1, base=bench.base, carry="0" * 40).conflicts == ()


def test_a_repository_inside_survives_a_merge_as_files(bench: Bench) -> None:
    path = bench.open()
    write(path, "tool/x.py", "x")
    git(path, "init", "-q", "tool")
    bench.land_on_tip(theirs__txt="t\n")
    assert bench.merge_in() == [] and {"tool/x.py", "theirs.txt"} <= set(tree(path))


def test_marks_are_lines_and_not_words(tmp_path: Path) -> None:
    write(tmp_path, "a", "text with <<<<<<< in it\n=======\n")
    write(tmp_path, "b", b"\xff\n>>>>>>> abc\n")
    (tmp_path / "c").symlink_to("b")
    assert conflict_marks(tmp_path, ("a", "b", "c", "absent")) == ["b"]


def test_joining_what_is_there_already_changes_nothing(bench: Bench) -> None:
    path = bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    found = join(bench.keeper.git, where, team="main", task="T1", epoch=1, commit=bench.base)
    assert found.conflicts == () and git(path, "status", "--porcelain") == ""
    assert bench.commit() is None

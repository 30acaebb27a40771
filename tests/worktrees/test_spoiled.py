"""What a teammate's own git, a reset, or a repository of somebody's choice does to a worktree: nothing is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.errors import Refused, UsageError
from coterie.worktrees import Keeper, Unmergeable, find_repository, land, plan_land, prepare, refuse_foreign_state
from coterie.worktrees.in_hand import work_in_hand
from coterie.worktrees.joining import joined_ref
from coterie.worktrees.survey import changed

from .conftest import Bench, git, listed, start, write

# ---------------------------------------------------------------- metadata


def index_damaged(path: Path, metadata: Path, root: Path) -> None:
    (metadata / "index").write_bytes(b"garbage" * 50)


def index_empty(path: Path, metadata: Path, root: Path) -> None:
    (metadata / "index").write_bytes(b"")


def index_gone(path: Path, metadata: Path, root: Path) -> None:
    (metadata / "index").unlink()


def orphan_branch(path: Path, metadata: Path, root: Path) -> None:
    git(path, "switch", "-q", "--orphan", "pages")
    write(path, "x.txt", "precious")
    write(path, "one.txt", "one\n")


def head_garbage(path: Path, metadata: Path, root: Path) -> None:
    write(metadata, "HEAD", "garbage\n")


def head_empty(path: Path, metadata: Path, root: Path) -> None:
    write(metadata, "HEAD", "")


def branch_gone(path: Path, metadata: Path, root: Path) -> None:
    git(root, "update-ref", "-d", "refs/heads/coterie/main/T1/e1")


SPOILS = [index_damaged, index_empty, index_gone, orphan_branch, head_garbage, head_empty, branch_gone]


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("then", ["close", "open another", "open again"])
def test_a_worktree_with_spoiled_metadata_is_kept_and_used_again(
    bench: Bench, root: Path, said: list[str], spoil: Callable[[Path, Path, Path], None], then: str
) -> None:
    path = bench.open()
    write(path, "x.txt", "precious")
    where = bench.keeper.where("ada")
    assert where is not None
    spoil(path, where.metadata, root)
    if then == "close":
        kept = bench.keeper.close("ada")
    else:
        task = "T1" if then == "open again" else "T2"
        kept = bench.keeper.open("ada", task=task, epoch=1, base=bench.base).snapshot
        bench.keeper.check("ada", task=task, epoch=1, path=path, branch=f"coterie/main/{task}/e1")
    if then == "open again" and spoil in (index_damaged, index_empty, index_gone):
        assert kept is None and (path / "x.txt").read_text() == "precious", "nothing was switched"
        assert git(path, "status", "--porcelain") == "?? x.txt"
    else:
        assert kept is not None and git(root, "show", f"{kept.commit}:x.txt") == "precious"
        assert git(path, "status", "--porcelain") == ""
    assert any("the files stay" in each for each in said)


def test_a_tracked_file_that_is_ignored_is_handed_in_though_the_index_is_gone(bench: Bench, root: Path) -> None:
    path = bench.open("ben", task="T9")
    write(path, "kept.log", "l")
    git(path, "add", "-f", "kept.log")
    head = bench.commit("ben", task="T9")
    assert head is not None
    bench.queue(head, task="T9")
    path = bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    (where.metadata / "index").unlink()
    write(path, "x.txt", "x")
    head = bench.commit()
    assert head is not None and {"kept.log", "x.txt"} <= set(listed(root, head))


def test_an_entry_without_content_is_removed_for_a_name_that_ends_in_a_number(bench: Bench, root: Path) -> None:
    (root / ".git" / "worktrees" / "mate2").mkdir(parents=True)
    bench.open("mate2")
    assert [each.name for each in (root / ".git" / "worktrees").iterdir()] == ["mate2"]


def test_grafts_do_not_change_what_has_been_merged(bench: Bench, root: Path) -> None:
    write(bench.open(), "x.txt", "x")
    head = bench.commit()
    tip = bench.land_on_tip(y__txt="y")
    write(root, ".git/info/grafts", f"{head} {bench.base} {tip}\n")
    assert head is not None and not bench.keeper.git.is_ancestor(tip, head)


# ---------------------------------------------------------------- merges that are undone, or killed


@pytest.mark.parametrize("undo", [("reset", "-q", "--hard"), ("stash", "-u", "-q"), ("checkout", "HEAD", "--", ".")])
def test_a_merge_that_was_undone_in_the_files_is_refused_and_made_again(
    bench: Bench, root: Path, undo: tuple[str, ...]
) -> None:
    """Its commit would say that it has the work of others, and take that away again."""
    path = bench.open()
    write(path, "mine.txt", "m\n")
    bench.commit()
    tip = bench.land_on_tip(theirs__txt="t\n", one__txt="theirs\n")
    bench.merge_in()
    git(path, *undo)
    (path / "theirs.txt").unlink(missing_ok=True)
    write(path, "mine.txt", "m2\n")
    with pytest.raises(Unmergeable, match="undone"):
        bench.commit(base=tip)
    assert bench.keeper.needs_merge("ada", tip) and bench.merge_in() == []
    assert (path / "one.txt").read_text() == "theirs\n" and (path / "mine.txt").read_text() == "m2\n"
    head = bench.commit(base=tip)
    assert head is not None and "theirs.txt" in listed(root, bench.merger.plan_merge(head, tip).tree)


def test_work_that_was_carried_over_may_be_dropped(bench: Bench, root: Path) -> None:
    write(bench.open(), "parked.txt", "p")
    kept = bench.keeper.close("ada")
    assert kept is not None
    path = bench.open(epoch=2, carry=kept.commit)
    (path / "parked.txt").unlink()
    write(path, "other.txt", "o")
    head = bench.commit(epoch=2)
    assert head is not None and git(root, "log", "-1", "--format=%P", head) == bench.base


def test_a_conflict_may_be_resolved_with_ones_own_side(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "two.txt", "ada\n")
    tip = bench.land_on_tip(two__txt="ben\n")
    assert bench.merge_in() == ["two.txt"]
    write(path, "two.txt", "ada\n")
    head = bench.commit(base=tip)
    assert head is not None and git(root, "log", "-1", "--format=%P", head) == f"{bench.base} {tip}"


def half_merged(bench: Bench) -> None:
    """As a kill leaves it between writing the outcome down and the files."""
    done = joined_ref("main", "T1", 1)
    bench.keeper.git.run("update-ref", "-d", done)


def test_a_half_made_merge_keeps_the_tools_shut_even_for_an_older_base(bench: Bench) -> None:
    bench.open()
    bench.land_on_tip(theirs__txt="t\n")
    assert not bench.keeper.needs_merge("ada", bench.base)
    bench.merge_in()
    half_merged(bench)
    assert bench.keeper.needs_merge("ada", bench.base)
    bench.merge_in(commit=bench.base)
    assert not bench.keeper.needs_merge("ada", bench.keeper.tip()), "what was begun is finished first"


def test_a_merge_that_is_undone_once_more_is_meant(bench: Bench, root: Path) -> None:
    path = bench.open()
    tip = bench.land_on_tip(theirs__txt="t\n")
    for _ in range(2):
        bench.merge_in()
        (path / "theirs.txt").unlink()
        write(path, "mine.txt", "m\n")
        with contextlib.suppress(Unmergeable):
            head = bench.commit(base=tip)
            assert head is not None and git(root, "log", "-1", "--format=%P", head) == f"{bench.base} {tip}"
            assert "theirs.txt" not in listed(root, head)
            return
    pytest.fail("it is refused again and again")


@pytest.mark.parametrize("committed", [True, False])
def test_work_done_on_a_half_made_merge_is_not_lost(bench: Bench, root: Path, committed: bool) -> None:
    path = bench.open()
    write(path, "mine.txt", "m\n")
    bench.land_on_tip(theirs__txt="t\n")
    bench.merge_in()
    half_merged(bench)
    write(path, "later.txt", "precious")
    if committed:
        bench.commit()
    tip = bench.land_on_tip("T8", more__txt="1")
    assert bench.merge_in() == []
    if committed:
        assert (path / "later.txt").exists()
    else:
        refs = git(root, "for-each-ref", "--format=%(refname)", "refs/coterie/main/rescue/T1-e1-joining").split("\n")
        assert git(root, "show", f"{refs[0]}:later.txt") == "precious"
    assert {"theirs.txt", "more.txt", "mine.txt"} <= {each.name for each in path.iterdir()}
    head = bench.commit(base=tip)
    assert head is not None and git(root, "merge-base", head, tip) == tip


def test_a_merge_newer_than_the_base_without_work_of_ones_own_is_no_change(bench: Bench) -> None:
    bench.open()
    bench.land_on_tip(theirs__txt="t\n")
    bench.merge_in()
    assert bench.commit(base=bench.base) is None


def test_merge_rules_of_the_repository_are_followed(root: Path, make_keeper: Callable[..., Keeper]) -> None:
    write(root, ".gitattributes", "CHANGES merge=union\n")
    write(root, "CHANGES", "base\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "rules")
    bench = Bench(make_keeper(root), root)
    path = bench.open()
    write(path, "CHANGES", "base\nada\n")
    head = bench.commit()
    tip = bench.land_on_tip(CHANGES="base\nben\n")
    assert head is not None and bench.merger.plan_merge(head, tip).conflicts == ()
    assert bench.merge_in() == [] and sorted((path / "CHANGES").read_text().split()) == ["ada", "base", "ben"]


# ---------------------------------------------------------------- submodules


@pytest.fixture
def with_submodule(root: Path, tmp_path: Path, make_keeper: Callable[..., Keeper]) -> Bench:
    inner = start(tmp_path / "inner")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "dep")
    git(root, "commit", "-q", "-m", "submodule")
    return Bench(make_keeper(root), root)


@pytest.mark.parametrize("then", ["snapshot", "commit", "close", "open", "look", "look at the work"])
def test_no_git_is_run_in_a_submodule_with_the_settings_a_teammate_gave_it(
    with_submodule: Bench, root: Path, tmp_path: Path, then: str
) -> None:
    bench = with_submodule
    path = bench.open()
    mark = tmp_path / "ran"
    evil = write(tmp_path, "evil.sh", f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    evil.chmod(0o755)
    (path / "dep").rmdir()
    git(path, "clone", "-q", str(tmp_path / "inner"), "dep")
    git(path / "dep", "config", "core.fsmonitor", str(evil))
    git(path / "dep", "config", "filter.evil.clean", str(evil))
    write(path, "dep/.git/info/attributes", "*.txt filter=evil\n")
    os.utime(write(path, "dep/one.txt", "two\n"), (1, 1))  # as long as it was: only its content can tell
    write(path, "y.txt", "y")
    where = bench.keeper.where("ada")
    assert where is not None
    match then:
        case "snapshot":
            bench.keeper.snapshot("ada", label="x")
        case "commit":
            bench.commit()
        case "close":
            bench.keeper.close("ada")
        case "open":
            bench.open(task="T2")
        case "look":
            assert changed(bench.keeper.git, where) == ["y.txt"]
        case "look at the work":
            work_in_hand(bench.keeper.git, where, branch="coterie/main/T1/e1", base=bench.base)
    assert not mark.exists()


def test_a_submodule_stays_as_it_is_and_its_new_commit_is_handed_in(
    with_submodule: Bench, root: Path, tmp_path: Path
) -> None:
    bench = with_submodule
    path = bench.open()
    write(path, "y.txt", "y")
    head = bench.commit()
    assert head is not None and git(root, "ls-tree", head, "dep") == git(root, "ls-tree", "HEAD", "dep")
    (path / "dep").rmdir()
    git(path, "clone", "-q", str(tmp_path / "inner"), "dep")
    git(path / "dep", "commit", "-q", "--allow-empty", "-m", "newer")
    head = bench.commit()
    assert head is not None and git(path / "dep", "rev-parse", "HEAD") in git(root, "ls-tree", head, "dep")
    shutil.rmtree(path / "dep")
    head = bench.commit()
    assert head is not None and git(root, "ls-tree", head, "dep") == ""


def test_files_in_a_submodule_that_is_not_checked_out_are_refused_and_kept(with_submodule: Bench, root: Path) -> None:
    bench = with_submodule
    path = bench.open()
    write(path, "dep/deep/new.py", "work")
    with pytest.raises(Unmergeable, match="submodule dep"):
        bench.commit()
    kept = bench.keeper.close("ada")
    assert kept is not None and git(root, "show", f"{kept.commit}:dep/deep/new.py") == "work"
    assert list((path / "dep").iterdir()) == [] and git(path, "status", "--porcelain") == ""


# ---------------------------------------------------------------- the person's repository


def test_state_that_a_repository_brings_along_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / ".coterie").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="link or a file"):
        prepare(find_repository(root), "main")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (root / ".coterie").unlink()
    write(root, ".coterie", "x")
    with pytest.raises(UsageError, match="link or a file"):
        prepare(find_repository(root), "main")
    (root / ".coterie").unlink()
    prepare(find_repository(root), "main")
    refuse_foreign_state(find_repository(root))
    shutil.rmtree(root / ".coterie")
    write(root, ".coterie/main/team.json", "{}")
    git(root, "add", "-f", ".coterie")
    git(root, "commit", "-q", "-m", "a board of somebody's choice")
    with pytest.raises(UsageError, match="git rm -r --cached"):
        prepare(find_repository(root), "main")


def test_among_the_files_of_a_run_the_repository_is_the_one_around_them(root: Path) -> None:
    prepare(find_repository(root), "main")
    (root / ".coterie" / "main" / "tasks").mkdir(parents=True)
    assert find_repository(root / ".coterie" / "main" / "tasks") == find_repository(root)


def test_a_repository_of_that_name_is_one_like_any_other(tmp_path: Path) -> None:
    own = start(tmp_path / ".coterie")
    assert find_repository(own / "sub").root == own


def test_landing_does_not_count_its_own_folder_whatever_the_ignore_rules_say(
    root: Path, make_keeper: Callable[..., Keeper]
) -> None:
    write(root, ".gitignore", "*\n!*/\n!*.txt\n!.gitignore\n")
    git(root, "commit", "-q", "-am", "only text")
    prepare(find_repository(root), "main")
    write(root, ".coterie/main/x.txt", "x")
    bench = Bench(make_keeper(root), root)
    write(bench.open(), "n.txt", "n")
    head = bench.commit()
    assert head is not None and bench.queue(head)
    repository = find_repository(root)
    land(repository, plan_land(repository, "main"))
    assert (root / "n.txt").exists()


def test_landing_waits_for_the_persons_own_git_and_names_its_lock(bench: Bench, root: Path) -> None:
    write(bench.open(), "n.txt", "n")
    head = bench.commit()
    assert head is not None and bench.queue(head)
    repository = find_repository(root)
    plan = plan_land(repository, "main")
    lock = write(root, ".git/index.lock", "")
    with pytest.raises(Refused, match=r"index\.lock"):
        land(repository, plan, patience=0.1)
    assert not (root / "n.txt").exists()
    ended = threading.Timer(0.5, lock.unlink)
    ended.start()
    land(repository, plan)
    ended.join()
    assert (root / "n.txt").exists() and not os.path.lexists(lock)

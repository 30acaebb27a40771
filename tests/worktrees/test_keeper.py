"""Worktrees: opened, checked, closed, rebuilt, healed; and what of the user's stays as it is."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.errors import EnvironmentFault, Refused
from coterie.worktrees import Keeper, NotBound, find_repository

from .conftest import Bench, git, listed, start, tree, write


def users(root: Path) -> dict[str, object]:
    """All that is the user's, byte for byte: checkout, index, HEAD, branches, configuration, reflogs."""
    kept: dict[str, object] = dict(tree(root))
    for name in ("index", "HEAD", "config", "logs/HEAD", "logs/refs/heads/trunk", "refs/heads/trunk", "info/exclude"):
        path = root / ".git" / name
        kept[f".git/{name}"] = (path.read_bytes(), path.stat().st_mtime_ns)
    kept["config.worktree"] = (root / ".git" / "config.worktree").exists()
    kept["hooks"] = sorted(each.name for each in (root / ".git" / "hooks").glob("*"))
    return kept


def test_nothing_of_the_users_is_touched_by_a_whole_life(bench: Bench, root: Path) -> None:
    write(root, "one.txt", "not committed\n")
    write(root, "new.txt", "untracked\n")
    write(root, "two.txt", "staged\n")
    git(root, "add", "two.txt")
    before = users(root)
    path = bench.open()
    write(path, "one.txt", "ada\n")
    bench.land_on_tip(two__txt="ben\n")
    bench.merge_in()
    head = bench.commit()
    assert head is not None
    bench.queue(head)
    bench.keeper.reader("queue", bench.keeper.tip())
    write(path, "left.txt", "x")
    bench.keeper.snapshot("ada", label="T1-e1")
    bench.keeper.close("ada")
    bench.keeper.heal(["ada", "ben", "queue"])
    assert users(root) == before
    assert not list((root / ".git" / "worktrees").glob("*/config.worktree"))
    mine = git(root, "for-each-ref", "--format=%(refname)", "refs/heads").split("\n")
    assert [each for each in mine if not each.startswith("refs/heads/coterie/main/")] == ["refs/heads/trunk"]


def test_a_worktree_starts_at_the_tip_and_opening_it_again_changes_nothing(bench: Bench, said: list[str]) -> None:
    tip = bench.land_on_tip(new__txt="n\n")
    opened = bench.keeper.open("ada", task="T1", epoch=1, base=tip)
    assert (opened.branch, opened.base, opened.snapshot) == ("coterie/main/T1/e1", tip, None)
    assert git(opened.path, "status", "--porcelain", "--branch") == "## coterie/main/T1/e1"
    write(opened.path, "work.txt", "w")
    assert bench.keeper.open("ada", task="T1", epoch=1, base=tip) == opened
    assert (opened.path / "work.txt").exists() and (opened.path / "new.txt").exists()
    assert said == []


def test_what_lay_there_is_kept_before_the_switch_and_build_folders_stay(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "one.txt", "mine\n")
    write(path, "build/out", "warm")
    second = bench.keeper.open("ada", task="T2", epoch=1, base=bench.base)
    assert second.snapshot is not None and second.snapshot.files == ("one.txt",)
    assert git(root, "show", f"{second.snapshot.ref}:one.txt") == "mine"
    assert (path / "one.txt").read_text() == "one\n" and (path / "build/out").read_text() == "warm"


def test_a_begun_merge_or_rebase_does_not_hold_a_worktree(bench: Bench, root: Path) -> None:
    path = bench.open()
    metadata = Path(git(path, "rev-parse", "--absolute-git-dir"))
    write(metadata, "MERGE_HEAD", bench.base + "\n")
    write(metadata, "rebase-merge/head-name", "refs/heads/x\n")
    assert bench.keeper.close("ada") is None
    said = git(path, "status")
    assert "merging" not in said and "rebas" not in said and not (metadata / "rebase-merge").exists()
    write(metadata, "CHERRY_PICK_HEAD", bench.base + "\n")
    assert bench.open(task="T2") == path and not (metadata / "CHERRY_PICK_HEAD").exists()


def test_closing_keeps_the_work_and_leaves_it_clean_and_detached_at_the_tip(bench: Bench, root: Path) -> None:
    path = bench.open()
    write(path, "new.txt", "kept")
    tip = bench.land_on_tip(other__txt="o")
    kept = bench.keeper.close("ada")
    assert kept is not None and git(root, "show", f"{kept.ref}:new.txt") == "kept"
    assert git(path, "rev-parse", "HEAD") == tip and git(path, "status", "--porcelain") == ""
    assert (Path(git(path, "rev-parse", "--absolute-git-dir")) / "HEAD").read_text().strip() == tip
    assert bench.keeper.close("ada") is None and bench.keeper.close("nobody") is None


def test_an_opening_that_was_killed_before_its_end_is_done_over(bench: Bench, root: Path) -> None:
    """HEAD is put on the branch last; until then nothing of an earlier task may pass for work on this one."""
    path = bench.open()
    write(path, "stale.txt", "of T1")
    where = bench.keeper.where("ada")
    assert where is not None
    bench.keeper.git.update_ref("refs/heads/coterie/main/T2/e1", bench.base, "")  # then the kill, files half switched
    write(path, "one.txt", "half")
    write(where.metadata, "index.lock", "")
    opened = bench.keeper.open("ada", task="T2", epoch=1, base=bench.base)
    assert tree(path) == tree(root) and opened.snapshot is not None
    assert set(opened.snapshot.files) == {"one.txt", "stale.txt"}


def test_a_checkout_that_was_killed_is_finished_before_anything_is_kept_of_it(bench: Bench, root: Path) -> None:
    path = bench.open("cleo", task="T3")
    bench.keeper.close("cleo")
    where = bench.keeper.where("cleo")
    assert where is not None
    (where.metadata / "index").unlink()
    (path / "one.txt").unlink()
    write(where.metadata, "index.lock", "half")
    opened = bench.keeper.open("cleo", task="T4", epoch=1, base=bench.base)
    assert opened.snapshot is None and tree(path) == tree(root)


def test_a_deleted_worktree_is_rebuilt_from_its_branch_and_the_loss_is_said(bench: Bench, said: list[str]) -> None:
    path = bench.open()
    write(path, "done.txt", "handed in")
    bench.commit()
    write(path, "lost.txt", "not handed in")
    shutil.rmtree(path)
    assert bench.open() == path
    assert (path / "done.txt").exists() and not (path / "lost.txt").exists()
    assert any("uncommitted work is lost" in each for each in said)


def test_a_rebuilt_worktree_has_what_was_merged_into_it(bench: Bench, root: Path) -> None:
    """Else its next commit would name the tip as merged and undo what the tip has."""
    path = bench.open()
    tip = bench.land_on_tip(theirs__txt="theirs\n")
    bench.merge_in()
    shutil.rmtree(path)
    bench.open()
    assert (path / "theirs.txt").exists()
    write(path, "mine.txt", "m")
    head = bench.commit(base=tip)
    assert head is not None and {"mine.txt", "theirs.txt"} <= set(listed(root, head))


def test_what_lies_where_a_worktree_has_to_be_is_moved_aside_and_said(bench: Bench, said: list[str]) -> None:
    write(bench.keeper.path("ada"), "precious.txt", "p")
    path = bench.open()
    assert not (path / "precious.txt").exists()
    assert (path.with_name("ada.lost-1") / "precious.txt").read_text() == "p" and "ada.lost-1" in said[0]


def test_a_place_that_cannot_be_made_is_an_environment_fault(
    root: Path, tmp_path: Path, make_keeper: Callable[..., Keeper]
) -> None:
    keeper = make_keeper(root, place=write(tmp_path, "file", "x") / "state")
    with pytest.raises(EnvironmentFault, match="file"):
        keeper.open("ada", task="T1", epoch=1, base=keeper.tip())


def test_eight_open_at_once(bench: Bench) -> None:
    failed: list[BaseException] = []

    def one(number: int) -> None:
        try:
            path = bench.open(f"m{number}", task=f"T{number}")
            write(path, f"{number}.txt", str(number))
            assert bench.commit(f"m{number}", task=f"T{number}") is not None
            bench.keeper.reader(f"r{number}", bench.base)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert failed == []
    assert len({bench.keeper.where(f"m{number}") for number in range(8)}) == 8


# ---------------------------------------------------------------- the check at every tool call


def other_branch(path: Path, metadata: Path) -> None:
    git(path, "switch", "-q", "-c", "elsewhere")


def detached(path: Path, metadata: Path) -> None:
    git(path, "switch", "-q", "--detach")


def dot_git_rewritten(path: Path, metadata: Path) -> None:
    write(path, ".git", f"gitdir: {path.parent}/evil\n")


def dot_git_gone(path: Path, metadata: Path) -> None:
    (path / ".git").unlink()


def dot_git_a_folder(path: Path, metadata: Path) -> None:
    (path / ".git").unlink()
    git(path, "init", "-q")


def registry_changed(path: Path, metadata: Path) -> None:
    write(metadata, "gitdir", f"{path.parent}/other/.git\n")


def registry_gone(path: Path, metadata: Path) -> None:
    shutil.rmtree(metadata)


def common_directory_changed(path: Path, metadata: Path) -> None:
    write(metadata, "commondir", f"{path.parent}/evil\n")


def a_symlink(path: Path, metadata: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def gone(path: Path, metadata: Path) -> None:
    shutil.rmtree(path)


BREAKS = [other_branch, detached, dot_git_rewritten, dot_git_gone, dot_git_a_folder, registry_changed, registry_gone]
BREAKS += [common_directory_changed, a_symlink, gone]


@pytest.mark.parametrize("spoil", BREAKS, ids=lambda each: each.__name__)
def test_a_worktree_that_is_not_the_assignments_is_refused(bench: Bench, spoil: Callable[[Path, Path], None]) -> None:
    path = bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    bench.keeper.check("ada", task="T1", epoch=1, path=path, branch="coterie/main/T1/e1")
    spoil(path, where.metadata)
    with pytest.raises(NotBound):
        bench.keeper.check("ada", task="T1", epoch=1, path=path, branch="coterie/main/T1/e1")


def test_another_epoch_task_name_or_path_is_refused(bench: Bench, tmp_path: Path) -> None:
    path = bench.open()
    bench.open("ben", task="T2")
    branch = "coterie/main/T1/e1"
    for name, task, epoch, at, on in (
        ("ada", "T1", 2, path, branch),
        ("ada", "T1", 2, path, "coterie/main/T1/e2"),
        ("ada", "T2", 1, path, "coterie/main/T2/e1"),
        ("ben", "T1", 1, path, branch),
        ("ben", "T1", 1, bench.keeper.path("ben"), branch),
        ("ada", "T1", 1, tmp_path, branch),
        ("eve", "T1", 1, bench.keeper.path("eve"), branch),
    ):
        with pytest.raises(NotBound):
            bench.keeper.check(name, task=task, epoch=epoch, path=at, branch=on)


@pytest.mark.parametrize("spoil", [other_branch, detached, registry_gone, gone], ids=lambda each: each.__name__)
def test_nothing_is_committed_or_merged_in_a_worktree_that_is_not_the_assignments(
    bench: Bench, spoil: Callable[[Path, Path], None]
) -> None:
    path = bench.open()
    write(path, "x.txt", "x")
    where = bench.keeper.where("ada")
    assert where is not None
    spoil(path, where.metadata)
    with pytest.raises(NotBound):
        bench.commit()
    with pytest.raises(NotBound):
        bench.merge_in()


def test_a_branch_that_the_user_has_checked_out_is_not_taken(bench: Bench, root: Path, tmp_path: Path) -> None:
    git(root, "branch", "coterie/main/T1/e1", bench.base)
    git(root, "worktree", "add", "-q", str(tmp_path / "look"), "coterie/main/T1/e1")
    with pytest.raises(Refused, match="look"):
        bench.open()
    git(tmp_path / "look", "switch", "-q", "--detach")
    bench.open()


# ---------------------------------------------------------------- healing


def entry(root: Path, name: str, **contents: str) -> Path:
    """A registry entry as a killed `git worktree add` leaves it."""
    metadata = root / ".git" / "worktrees" / name
    metadata.mkdir(parents=True)
    for key, text in contents.items():
        write(metadata, key, text)
    return metadata


def test_a_killed_worktree_add_is_healed_in_each_of_its_states(bench: Bench, root: Path, said: list[str]) -> None:
    path = bench.keeper.path("ada")

    def ready(task: str) -> None:
        bench.keeper.heal(["ada"])
        assert bench.open(task=task) == path
        bench.keeper.check("ada", task=task, epoch=1, path=path, branch=f"coterie/main/{task}/e1")
        assert tree(path) == tree(root)
        git(root, "worktree", "unlock", str(path))
        git(root, "worktree", "remove", "--force", str(path))
        assert not list((root / ".git").glob("worktrees/*"))

    git(root, "branch", "coterie/main/T1/e1", bench.base)  # the branch only
    ready("T1")
    entry(root, "ada")  # an empty folder
    ready("T2")
    entry(root, "ada", locked="coterie main/ada")  # locked, and no more
    ready("T3")
    entry(root, "ada", locked="initializing", gitdir=f"{path}/.git\n")  # before its .git file
    ready("T4")
    made = entry(root, "ada", locked="coterie main/ada", gitdir=f"{path}/.git\n")  # before HEAD
    write(path, ".git", f"gitdir: {made}\n")
    ready("T5")
    bench.open(task="T6")  # half a checkout
    where = bench.keeper.where("ada")
    assert where is not None
    bench.keeper.git.run("update-ref", "--no-deref", "HEAD", bench.base, where=where)
    (where.metadata / "index").unlink()
    write(where.metadata, "index.lock", "half")
    (path / "two.txt").unlink()
    ready("T6")
    assert not list(path.parent.glob("*.lost*"))


def test_only_entries_of_ours_are_removed(bench: Bench, root: Path, tmp_path: Path, said: list[str]) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "users"), "-b", "mine")
    shutil.rmtree(tmp_path / "users")  # gone, but the user's
    entry(root, "ada7x", locked="coterie other/ada", gitdir=f"{tmp_path}/elsewhere/.git")
    bench.keeper.heal(["ada", "users"])
    assert sorted(each.name for each in (root / ".git/worktrees").iterdir()) == ["ada7x", "users"]


def test_a_worktree_that_somebody_moved_is_left_alone(bench: Bench, root: Path, tmp_path: Path) -> None:
    path = bench.open()
    write(path, "work.txt", "w")
    git(root, "worktree", "move", "-f", "-f", str(path), str(tmp_path / "moved"))
    bench.keeper.heal(["ada"])
    assert git(tmp_path / "moved", "status", "--porcelain") == "?? work.txt"


def test_locks_and_temporary_indexes_of_dead_hosts_are_removed(bench: Bench, root: Path, said: list[str]) -> None:
    bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    write(where.metadata, "index.lock", "")
    write(where.metadata, "coterie-abc-1.index", "")
    write(where.metadata, "coterie-abc-1.index.lock", "")
    write(root / ".git", "index.lock", "")  # the user's
    bench.keeper.heal(each for each in ["ada"])
    assert [each.name for each in where.metadata.glob("*index*")] == ["index"]
    assert (root / ".git" / "index.lock").exists() and "index.lock" in said[0]


def test_the_integration_branch_is_made_once_and_missed_by_name(bench: Bench, root: Path) -> None:
    tip = bench.land_on_tip(x__txt="x")
    assert bench.keeper.create_integration(bench.base) == tip
    git(root, "update-ref", "-d", "refs/heads/coterie/main/integration")
    with pytest.raises(Refused, match="coterie/main/integration is gone"):
        bench.keeper.tip()


# ---------------------------------------------------------------- readers and odd places


def test_a_reader_has_exactly_the_files_of_its_commit(bench: Bench, root: Path) -> None:
    first = bench.keeper.tip()
    second = bench.land_on_tip(one__txt="two\n", fresh__txt="f")
    path = bench.keeper.reader("queue", second)
    assert "fresh.txt" in tree(path)
    write(path, "build/stale.o", "ignored")
    write(path, "stale.txt", "untracked")
    git(path, "init", "-q", "inner")
    write(path, "one.txt", "owt\n")  # the same size, in the same second
    (path / "two.txt").unlink()
    git(path, "update-index", "--assume-unchanged", "sub/three.txt")
    write(path, "sub/three.txt", "EERHT\n")
    git(path, "update-index", "--skip-worktree", ".gitignore")
    write(path, ".gitignore", "*\n")
    write(path, ".git", "gitdir: /nowhere\n")
    assert bench.keeper.reader("queue", first) == path
    assert tree(path) == tree(root) and git(path, "status", "--porcelain", "--ignored") == ""
    assert bench.keeper.reader("queue", second) == path and (path / "one.txt").read_text() == "two\n"


def test_needs_merge_costs_no_process_once_it_is_known(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.open()
    tip = bench.land_on_tip(x__txt="x")
    assert bench.keeper.needs_merge("ada", tip) and not bench.keeper.needs_merge("ada", bench.base)
    bench.merge_in()
    assert not bench.keeper.needs_merge("ada", tip)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path / "no-git"))
        assert not bench.keeper.needs_merge("ada", tip)
        bench.keeper.check("ada", task="T1", epoch=1, path=bench.keeper.path("ada"), branch="coterie/main/T1/e1")
    assert bench.keeper.needs_merge("ada", bench.land_on_tip("T8", y__txt="y"))


def test_needs_merge_sees_refs_that_were_packed_or_moved(bench: Bench, root: Path) -> None:
    path = bench.open()
    tip = bench.land_on_tip(x__txt="x")
    bench.merge_in()
    assert not bench.keeper.needs_merge("ada", tip)
    git(root, "pack-refs", "--all")
    assert not bench.keeper.needs_merge("ada", tip)
    bench.commit(base=tip)
    assert not bench.keeper.needs_merge("ada", tip)
    git(root, "update-ref", "-d", "refs/coterie/main/joined/T1/e1")
    git(path, "reset", "-q", "--hard", bench.base)
    assert bench.keeper.needs_merge("ada", tip)


@pytest.mark.parametrize("branch", ["a/b/c/d", "coterie/main/T1/eX", "coterie/other/T1/e1", "x"])
def test_a_branch_that_is_no_assignments_has_nothing_to_merge_and_is_refused(bench: Bench, branch: str) -> None:
    path = bench.open()
    git(path, "switch", "-q", "-c", branch)
    assert not bench.keeper.needs_merge("ada", bench.land_on_tip(x__txt="x"))
    with pytest.raises(NotBound):
        bench.keeper.check("ada", task="T1", epoch=1, path=path, branch="coterie/main/T1/e1")


@pytest.mark.parametrize("name", ["my répo ☃", "-dash", "semi;colon $(x)"])
def test_any_path_will_do(tmp_path: Path, make_keeper: Callable[..., Keeper], name: str) -> None:
    root = start(tmp_path / "in" / name)
    bench = Bench(make_keeper(root, place=tmp_path / f"state {name}"), root)
    path = bench.open()
    write(path, "x.txt", "x")
    head = bench.commit()
    assert head is not None and bench.queue(head)
    bench.keeper.reader("queue", bench.keeper.tip())


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no second file system")
def test_worktrees_may_lie_on_another_file_system(root: Path, make_keeper: Callable[..., Keeper]) -> None:
    place = Path("/dev/shm") / f"coterie-test-{os.getpid()}"
    try:
        bench = Bench(make_keeper(root, place=place), root)
        write(bench.open(), "x.txt", "x")
        assert bench.commit() is not None and bench.keeper.close("ada") is None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_a_repository_with_sha256_ids_works(tmp_path: Path, make_keeper: Callable[..., Keeper]) -> None:
    root = tmp_path / "long"
    root.mkdir()
    git(root, "init", "-q", "--object-format=sha256")
    write(root, "one.txt", "1")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")
    bench = Bench(make_keeper(root), root)
    write(bench.open(), "x.txt", "x")
    head = bench.commit()
    assert head is not None and len(bench.queue(head)) == 64
    bench.land_on_tip(y__txt="y")
    bench.open(task="T2")
    assert bench.keeper.snapshot("ada", label="x") is None


def test_a_sparse_checkout_of_the_users_has_whole_worktrees(root: Path, make_keeper: Callable[..., Keeper]) -> None:
    git(root, "sparse-checkout", "set", "--no-cone", "/one.txt")
    bench = Bench(make_keeper(root), root)
    path = bench.open()
    assert set(tree(path)) == {".gitignore", "one.txt", "two.txt", "sub/three.txt"}
    write(path, "two.txt", "changed\n")
    head = bench.commit()
    assert head is not None and listed(root, head) == listed(root, "HEAD")
    assert set(tree(root)) == {"one.txt"}


def test_a_shallow_repository_works(root: Path, tmp_path: Path, make_keeper: Callable[..., Keeper]) -> None:
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    shallow = tmp_path / "shallow"
    bench = Bench(make_keeper(shallow), shallow)
    write(bench.open(), "x.txt", "x")
    head = bench.commit()
    assert head is not None and bench.queue(head)
    assert bench.merger.find_merged(task="T1", epoch=1, head=head, base=bench.base) == bench.keeper.tip()


def test_two_teams_and_two_repositories_keep_out_of_each_others_way(
    root: Path, tmp_path: Path, make_keeper: Callable[..., Keeper]
) -> None:
    one, two = Bench(make_keeper(root, "one"), root), Bench(make_keeper(root, "two"), root)
    write(one.open(), "x.txt", "1")
    write(two.open(), "x.txt", "2")
    one.keeper.heal(["ada"])
    assert one.commit() != two.commit()
    assert find_repository(root).branch == "refs/heads/trunk"

"""Landing: computed, said, and only onto a clean checkout of the branch that was planned for."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import Refused
from coterie.worktrees import Git, LandingKind, find_repository, land, plan_land

from .conftest import Bench, git, tree, write


def trunk_moves(root: Path, name: str = "users.txt", text: str = "u\n") -> str:
    write(root, name, text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "the user goes on")
    return git(root, "rev-parse", "HEAD")


def everything(root: Path) -> tuple[dict[str, bytes], str, bytes]:
    return tree(root), git(root, "for-each-ref", "refs/heads"), (root / ".git/index").read_bytes()


def test_there_has_to_be_something_and_a_branch_to_land_on(root: Path, bench: Bench) -> None:
    with pytest.raises(Refused, match="nothing to land"):
        plan_land(find_repository(root), "other")
    git(root, "switch", "-q", "--detach")
    with pytest.raises(Refused, match="detached"):
        plan_land(find_repository(root), "main")


def linked(root: Path, branch: str = "side", *flags: str) -> Path:
    """A second checkout of the person's."""
    place = root.parent / f"linked-{branch}"
    git(root, "worktree", "add", "-q", *flags, str(place), branch)
    return place


def test_the_branch_that_was_started_from_gets_the_work_in_the_checkout_that_is_on_it(root: Path, bench: Bench) -> None:
    git(root, "branch", "side")
    side = linked(root)
    tip = bench.land_on_tip(new__txt="n\n", one__txt="changed\n")
    before = everything(root)
    for start in (root, side, root / "sub"):  # wherever one stands
        assert plan_land(find_repository(start), "main", target="refs/heads/side").new == tip
    write(root, "one.txt", "work of the person's on another branch\n")
    repository = find_repository(root)
    land(repository, plan_land(repository, "main", target="refs/heads/side"))
    assert git(root, "rev-parse", "side") == tip and (side / "one.txt").read_text() == "changed\n"
    assert git(side, "status", "--porcelain", "--branch") == "## side"
    assert everything(root)[0] == before[0] | {"one.txt": b"work of the person's on another branch\n"}
    assert git(root, "rev-parse", "trunk") == bench.base


def test_changes_in_the_checkout_that_gets_the_work_are_refused_and_others_do_not_count(
    root: Path, bench: Bench
) -> None:
    git(root, "branch", "side")
    side = linked(root)
    bench.land_on_tip(one__txt="changed\n")
    repository = find_repository(root)
    landing = plan_land(repository, "main", target="refs/heads/side")
    write(root, "one.txt", "somewhere else")
    write(side, "two.txt", "the person's")
    with pytest.raises(Refused, match=rf"{side} has changes \(two.txt\)"):
        land(repository, landing)
    git(side, "restore", "two.txt")
    land(repository, landing)


def test_the_persons_sparse_worktree_stays_sparse(root: Path, bench: Bench) -> None:
    git(root, "branch", "side")
    side = linked(root)
    git(side, "sparse-checkout", "set", "--no-cone", "/one.txt")
    tip = bench.land_on_tip(one__txt="changed\n", two__txt="changed too\n")
    repository = find_repository(side)
    land(repository, plan_land(repository, "main"))
    assert git(side, "rev-parse", "HEAD") == tip and git(side, "status", "--porcelain") == ""
    assert (side / "one.txt").read_text() == "changed\n" and not (side / "two.txt").exists()


def test_a_branch_that_is_checked_out_nowhere_twice_or_gone_is_refused(root: Path, bench: Bench) -> None:
    git(root, "branch", "side")
    bench.land_on_tip(new__txt="n\n")
    repository = find_repository(root)
    before = everything(root)
    with pytest.raises(Refused, match="checked out nowhere"):
        plan_land(repository, "main", target="refs/heads/side")
    with pytest.raises(Refused, match="is gone"):
        plan_land(repository, "main", target="refs/heads/nobody")
    landing = plan_land(repository, "main", target="refs/heads/trunk")
    twice = linked(root, "trunk", "--force")
    with pytest.raises(Refused, match=f"{root}, {twice}"):
        land(repository, landing)
    git(root, "worktree", "remove", str(twice))
    assert everything(root) == before
    land(repository, landing)


def test_what_the_target_has_already_is_up_to_date(root: Path, bench: Bench) -> None:
    before = everything(root)
    landing = plan_land(find_repository(root), "main")
    assert landing.kind is LandingKind.UP_TO_DATE
    land(find_repository(root), landing)
    assert everything(root) == before


def test_an_unmoved_target_goes_forward_and_its_status_is_clean(root: Path, bench: Bench) -> None:
    tip = bench.land_on_tip(new__txt="n\n", one__txt="changed\n")
    landing = plan_land(find_repository(root), "main")
    assert landing.kind is LandingKind.FAST_FORWARD and landing.new == tip
    land(find_repository(root), landing)
    assert git(root, "rev-parse", "trunk") == tip == git(root, "rev-parse", "HEAD")
    assert git(root, "status", "--porcelain", "--branch") == "## trunk"
    assert (root / "new.txt").exists() and (root / "one.txt").read_text() == "changed\n"
    assert "coterie land" in git(root, "reflog", "-1") and "coterie land" in git(root, "reflog", "-1", "trunk")


def test_a_target_that_moved_gets_a_merge_that_was_checked_first(root: Path, bench: Bench) -> None:
    tip = bench.land_on_tip(new__txt="n\n")
    mine = trunk_moves(root)
    landing = plan_land(find_repository(root), "main")
    assert landing.kind is LandingKind.MERGE
    checked: list[str] = []
    before = everything(root)
    with pytest.raises(Refused, match="boom"):
        land(find_repository(root), landing, check=lambda commit: "boom")
    assert everything(root) == before
    land(find_repository(root), landing, check=lambda commit: checked.append(commit))
    assert checked == [landing.new]
    assert git(root, "log", "-1", "--format=%P") == f"{mine} {tip}"
    assert git(root, "status", "--porcelain") == "" and {"new.txt", "users.txt"} <= set(tree(root))


def test_a_conflict_names_the_files_and_changes_nothing(root: Path, bench: Bench) -> None:
    bench.land_on_tip(one__txt="team\n")
    trunk_moves(root, "one.txt", "user\n")
    before = everything(root)
    landing = plan_land(find_repository(root), "main")
    assert (landing.kind, landing.files, landing.new) == (LandingKind.CONFLICT, ("one.txt",), None)
    with pytest.raises(Refused, match=r"one\.txt"):
        land(find_repository(root), landing)
    assert everything(root) == before


@pytest.mark.parametrize("what", ["modified", "staged", "untracked", "in the way", "deleted"])
def test_a_checkout_with_changes_is_refused_by_name(root: Path, bench: Bench, what: str) -> None:
    bench.land_on_tip(new__txt="n\n", one__txt="team\n")
    name = {"untracked": "mine.txt", "in the way": "new.txt"}.get(what, "two.txt")
    if what == "deleted":
        (root / name).unlink()
    else:
        write(root, name, "users\n")
    if what == "staged":
        git(root, "add", name)
    before = everything(root)
    with pytest.raises(Refused, match=name):
        land(find_repository(root), plan_land(find_repository(root), "main"))
    assert everything(root) == before


@pytest.mark.parametrize("ignored", ["kept.log", "build", "build/x/y", "deep/kept.log"])
def test_an_ignored_file_that_would_be_overwritten_is_refused_by_name(root: Path, bench: Bench, ignored: str) -> None:
    path = bench.open()
    added = {"build": "build/out", "build/x/y": "build/x"}.get(ignored, ignored)
    write(root, ".git/info/exclude", "build\n")
    write(path, added, "team\n")
    git(path, "add", "-f", added)
    head = bench.commit()
    assert head is not None
    bench.queue(head)
    write(root, ignored, "the only copy\n")
    assert git(root, "status", "--porcelain") == ""
    with pytest.raises(Refused, match=ignored.split("/")[0]):
        land(find_repository(root), plan_land(find_repository(root), "main"))
    assert (root / ignored).read_text() == "the only copy\n" and git(root, "status", "--porcelain") == ""


def test_a_target_that_moved_or_was_left_meanwhile_is_refused(root: Path, bench: Bench) -> None:
    bench.land_on_tip(new__txt="n\n")
    repository = find_repository(root)
    landing = plan_land(repository, "main")
    git(root, "switch", "-q", "-c", "elsewhere")
    before = everything(root)
    with pytest.raises(Refused, match="checked out nowhere"):
        land(repository, landing)
    assert everything(root) == before
    git(root, "switch", "-q", "trunk")
    trunk_moves(root)
    before = everything(root)
    with pytest.raises(Refused, match="moved meanwhile"):
        land(repository, landing)
    assert everything(root) == before


def test_what_the_user_does_while_checks_run_is_seen(root: Path, bench: Bench) -> None:
    bench.land_on_tip(new__txt="n\n")
    trunk_moves(root)
    repository = find_repository(root)
    landing = plan_land(repository, "main")

    def works_on(commit: str) -> None:
        write(root, "one.txt", "in the meantime\n")

    with pytest.raises(Refused, match=r"one\.txt"):
        land(repository, landing, check=works_on)
    assert (root / "one.txt").read_text() == "in the meantime\n" and not (root / "new.txt").exists()
    git(root, "checkout", "-q", "one.txt")

    def commits(commit: str) -> None:
        trunk_moves(root, "more.txt")

    with pytest.raises(Refused, match="moved meanwhile"):
        land(repository, landing, check=commits)
    assert git(root, "status", "--porcelain") == "" and not (root / "new.txt").exists()


@pytest.mark.parametrize("moved", [False, True])
def test_a_landing_that_was_killed_after_the_files_is_gone_on_with(root: Path, bench: Bench, moved: bool) -> None:
    bench.land_on_tip(new__txt="n\n", one__txt="changed\n")
    if moved:
        trunk_moves(root)
    repository = find_repository(root)
    landing = plan_land(repository, "main")
    assert landing.new is not None
    where = repository.here
    Git(repository.common_dir).run("read-tree", "-m", "-u", landing.old, landing.new, where=where)
    land(repository, plan_land(repository, "main"))
    assert git(root, "status", "--porcelain") == "" and (root / "new.txt").exists()
    assert git(root, "rev-parse", "HEAD^{tree}") == git(root, "rev-parse", f"{landing.new}^{{tree}}")


def test_a_locked_index_of_the_users_is_waited_for_by_them_and_not_removed(root: Path, bench: Bench) -> None:
    bench.land_on_tip(new__txt="n\n")
    lock = write(root, ".git/index.lock", "")
    before = everything(root)
    with pytest.raises(Exception, match=r"index\.lock"):
        land(find_repository(root), plan_land(find_repository(root), "main"), patience=0.2)
    assert lock.exists() and everything(root) == before


def test_a_sparse_checkout_stays_sparse(root: Path, bench: Bench) -> None:
    git(root, "sparse-checkout", "set", "--no-cone", "/one.txt", "/new.txt")
    bench.land_on_tip(new__txt="n\n", two__txt="not here\n")
    land(find_repository(root), plan_land(find_repository(root), "main"))
    assert set(tree(root)) == {"one.txt", "new.txt"} and git(root, "status", "--porcelain") == ""


def test_the_integration_branch_itself_is_up_to_date(root: Path, bench: Bench) -> None:
    bench.land_on_tip(new__txt="n\n")
    git(root, "switch", "-q", "coterie/main/integration")
    assert plan_land(find_repository(root), "main").kind is LandingKind.UP_TO_DATE


def half_written(root: Path, bench: Bench) -> None:
    """As a kill leaves it while the files are written: one is there, one is cut off, one is gone, the index is old."""
    path = bench.open("ben", task="T8")
    write(path, "new.txt", "new and long\n")
    write(path, "one.txt", "one changed\n")
    write(path, "deep/er.txt", "deep\n")
    (path / "sub/three.txt").unlink()
    head = bench.commit("ben", task="T8")
    assert head is not None and bench.queue(head, task="T8")
    repository = find_repository(root)
    landing = plan_land(repository, "main")
    index = (root / ".git/index").read_bytes()
    before = git(root, "rev-parse", "HEAD")
    land(repository, landing)
    git(root, "update-ref", "refs/heads/trunk", before)
    write(root, ".git/index", index)
    write(root, "one.txt", "one chan")
    (root / "new.txt").unlink()


def test_a_landing_that_was_killed_while_it_wrote_the_files_is_finished(root: Path, bench: Bench) -> None:
    half_written(root, bench)
    write(root, ".git/index.lock", "half an index")
    repository = find_repository(root)
    with pytest.raises(Refused, match=r"index\.lock"):
        land(repository, plan_land(repository, "main"), patience=0.0)
    (root / ".git/index.lock").unlink()
    land(repository, plan_land(repository, "main"))
    assert git(root, "status", "--porcelain") == "" and git(root, "rev-parse", "trunk") == bench.keeper.tip()
    assert (root / "one.txt").read_text() == "one changed\n" and (root / "deep/er.txt").exists()
    assert not (root / "sub/three.txt").exists() and (root / "new.txt").read_text() == "new and long\n"


@pytest.mark.parametrize("name", ["one.txt", "two.txt", "mine.txt", "deep/mine.txt"])
def test_what_the_person_wrote_after_such_a_kill_is_not_taken_for_the_landing(
    root: Path, bench: Bench, name: str
) -> None:
    half_written(root, bench)
    write(root, name, "the person's\n")
    before = everything(root)
    repository = find_repository(root)
    with pytest.raises(Refused, match="has changes"):
        land(repository, plan_land(repository, "main"))
    assert everything(root) == before

"""Worktrees on a real repository: bound, snapshotted before anything is taken away, merged without losing a side."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from coterie.errors import CoterieError, Refused, UsageError
from coterie.worktrees import (
    Keeper,
    LandingKind,
    Merger,
    NotBound,
    Unmergeable,
    find_repository,
    land,
    plan_land,
    prepare,
)


def git(root: Path, *argv: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=U", "-c", "user.email=u@example.org", *argv],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "my repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "trunk")
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / ".gitignore").write_text("build/\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "start")
    return root


@pytest.fixture
def keeper(repo: Path, tmp_path: Path) -> Keeper:
    found = find_repository(repo)
    prepare(found, "main")
    made = Keeper(
        found,
        team="main",
        root=tmp_path / "state" / "main",
        repo_lock=repo / ".coterie" / "repo.lock",
        intents=repo / ".coterie" / "main" / "intents",
        process="p",
    )
    made.create_integration(found.head)
    return made


def handed_in(keeper: Keeper, name: str, task: str, text: str, path: str = "a.txt") -> tuple[str, str]:
    """A task's commit with `text` in `path`; answers it and its base."""
    base = keeper.tip()
    opened = keeper.open(name, task=task, epoch=1, base=base)
    (opened.path / path).write_text(text)
    commit = keeper.commit(name, task=task, epoch=1, base=base, message=f"{task}\n\ntext", author=name)
    assert commit is not None
    return commit, base


def merged(merger: Merger, task: str, head: str, message: str = "a summary") -> str:
    tip = merger.keeper.tip()
    trailers = {"Coterie-Team": "main", "Coterie-Task": task, "Coterie-Epoch": "1", "Coterie-Head": head}
    commit = merger.commit_merge(
        merger.plan_merge(head, tip),
        tip=tip,
        head=head,
        message=message,
        trailers=trailers | {"Coterie-Plan": "none"},
        author="ada",
    )
    merger.advance(tip, commit)
    return commit


def prints(root: Path) -> dict[str, str]:
    """A fingerprint of everything of the user's: files, index, HEAD, config, hooks, reflog, branches."""
    chosen = [path for path in root.rglob("*") if path.is_file() and ".coterie" not in path.parts]
    ours = (
        "/refs/heads/coterie",
        "/refs/coterie",
        "/logs/refs/heads/coterie",
        "/objects/",
        "/worktrees/",
        "/info/exclude",
    )
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in chosen
        if not any(each in str(path) or each in f"{path}/" for each in (*ours, "/logs/refs/coterie"))
    }


def test_the_users_checkout_is_byte_for_byte_untouched_by_all_of_it(repo: Path, keeper: Keeper) -> None:
    (repo / "a.txt").write_text("dirty\n")
    (repo / "new.txt").write_text("untracked\n")
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{repo}/hook-ran'\n")
    hook.chmod(0o755)
    for name in ("post-commit", "reference-transaction", "post-merge"):
        shutil.copy(hook, hook.with_name(name))
    before = prints(repo)
    merger = Merger(keeper)
    commit, _ = handed_in(keeper, "ada", "T1", "one\nTWO\nthree\n")
    merged(merger, "T1", commit)
    keeper.reader("queue", keeper.tip())
    keeper.snapshot("ada", label="x")
    keeper.close("ada")
    keeper.heal(["ada", "queue"])
    assert prints(repo) == before
    assert git(repo, "status", "--porcelain").split() == ["M", "a.txt", "??", "new.txt"]
    assert (repo / ".git" / "info" / "exclude").read_text().count("/.coterie/") == 1
    git(repo, "clean", "-fdxq")
    assert (repo / ".coterie").is_dir(), "git clean passes over it"


def test_a_worktree_is_bound_and_every_disagreement_is_refused(keeper: Keeper, tmp_path: Path) -> None:
    opened = keeper.open("ada", task="T1", epoch=2, base=keeper.tip())
    good = {"task": "T1", "epoch": 2, "path": opened.path, "branch": "coterie/main/T1/e2"}
    keeper.check("ada", **good)  # type: ignore[arg-type]
    for wrong in ({"epoch": 1}, {"task": "T2"}, {"branch": "coterie/main/T1/e1"}, {"path": tmp_path}):
        with pytest.raises(NotBound):
            keeper.check("ada", **{**good, **wrong})  # type: ignore[arg-type]
    link = opened.path / ".git"
    text = link.read_text()
    link.write_text(f"gitdir: {tmp_path}\n")
    with pytest.raises(NotBound, match="changed"):
        keeper.check("ada", **good)  # type: ignore[arg-type]
    link.write_text(text)
    git(opened.path, "switch", "-q", "--detach")
    with pytest.raises(NotBound, match="branch"):
        keeper.check("ada", **good)  # type: ignore[arg-type]
    shutil.rmtree(opened.path)
    with pytest.raises(NotBound):
        keeper.check("ada", **good)  # type: ignore[arg-type]


def test_what_lies_in_a_worktree_is_kept_before_it_is_switched(keeper: Keeper, repo: Path) -> None:
    opened = keeper.open("ada", task="T1", epoch=1, base=keeper.tip())
    (opened.path / "a.txt").write_text("changed\n")
    (opened.path / "new.txt").write_text("new\n")
    (opened.path / "build").mkdir()
    (opened.path / "build" / "big").write_text("warm\n")
    nested = opened.path / "inner"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "file").write_text("inside\n")
    again = keeper.open("ada", task="T2", epoch=1, base=keeper.tip())
    kept = again.snapshot
    assert kept is not None and "new.txt" in kept.files and kept.ref.startswith("refs/coterie/main/rescue/")
    for path, text in (("a.txt", "changed\n"), ("new.txt", "new\n"), ("inner/file", "inside\n")):
        assert git(repo, "show", f"{kept.commit}:{path}") == text
    assert "build/" in kept.ignored and (again.path / "build" / "big").exists(), "build folders stay warm"
    assert not (again.path / "new.txt").exists() and (again.path / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert keeper.snapshot("ada", label="again") is None, "a clean worktree needs none"


def test_a_repository_inside_is_refused_by_name_when_work_is_handed_in(keeper: Keeper) -> None:
    opened = keeper.open("ada", task="T1", epoch=1, base=keeper.tip())
    nested = opened.path / "inner"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "file").write_text("x")
    git(nested, "add", "-A")
    git(nested, "commit", "-q", "-m", "x")
    with pytest.raises(Unmergeable, match="inner"):
        keeper.commit("ada", task="T1", epoch=1, base=keeper.tip(), message="m", author="ada")


def test_a_conflict_is_marked_in_the_files_and_the_repair_has_both_parents(keeper: Keeper, repo: Path) -> None:
    merger = Merger(keeper)
    mine, base = handed_in(keeper, "ada", "T1", "one\nmine\nthree\n")
    theirs, _ = handed_in(keeper, "ben", "T2", "one\ntheirs\nthree\n")
    merged(merger, "T2", theirs)
    plan = merger.plan_merge(mine, keeper.tip())
    assert [each.path for each in plan.conflicts] == ["a.txt"] and "mine" in plan.output and "theirs" in plan.output
    tip = keeper.tip()
    assert keeper.needs_merge("ada", tip) and not keeper.needs_merge("ada", base)
    assert keeper.merge_in("ada", task="T1", epoch=1, commit=tip) == ["a.txt"]
    path = keeper.path("ada") / "a.txt"
    text = path.read_text()
    assert "<<<<<<< " in text and "mine" in text and "theirs" in text and ">>>>>>> " in text
    assert keeper.merge_in("ada", task="T1", epoch=1, commit=tip) == ["a.txt"] and path.read_text() == text
    assert not keeper.needs_merge("ada", tip)
    with pytest.raises(Unmergeable, match=r"a\.txt"):
        keeper.commit("ada", task="T1", epoch=1, base=tip, message="m", author="ada")
    path.write_text("one\nmine\ntheirs\nthree\n")
    commit = keeper.commit("ada", task="T1", epoch=1, base=tip, message="m", author="ada")
    assert commit is not None
    assert git(repo, "log", "-1", "--format=%P %an %cn", commit).split() == [mine, tip, "ada", "(coterie)", "coterie"]
    assert keeper.commit("ada", task="T1", epoch=1, base=tip, message="m", author="ada") == commit, "again: the same"
    assert merger.plan_merge(commit, tip).conflicts == ()


def test_a_merge_that_was_killed_in_the_middle_is_gone_on_with(keeper: Keeper, repo: Path) -> None:
    merger = Merger(keeper)
    handed_in(keeper, "ada", "T1", "one\nmine\nthree\n")
    theirs, _ = handed_in(keeper, "ben", "T2", "one\ntheirs\nthree\n")
    tip = merged(merger, "T2", theirs)
    keeper.merge_in("ada", task="T1", epoch=1, commit=tip)
    path = keeper.path("ada") / "a.txt"
    text = path.read_text()
    record = git(repo, "rev-parse", "refs/coterie/main/joined/T1/e1").strip()
    # as it was after the outcome was written down and half of the files were there
    git(repo, "update-ref", "refs/coterie/main/joining/T1/e1", record)
    git(repo, "update-ref", "-d", "refs/coterie/main/joined/T1/e1")
    path.write_text("half")
    assert keeper.merge_in("ada", task="T1", epoch=1, commit=tip) == ["a.txt"]
    assert path.read_text() == text


def test_nothing_handed_in_is_said_as_none(keeper: Keeper) -> None:
    base = keeper.tip()
    keeper.open("ada", task="T1", epoch=1, base=base)
    assert keeper.commit("ada", task="T1", epoch=1, base=base, message="m", author="ada") is None


def test_the_integration_branch_moves_only_from_what_it_was(keeper: Keeper, repo: Path) -> None:
    merger = Merger(keeper)
    commit, base = handed_in(keeper, "ada", "T1", "x\n")
    first = merged(merger, "T1", commit)
    other = git(repo, "commit-tree", "-p", base, "-m", "other", f"{base}^{{tree}}").strip()
    with pytest.raises(CoterieError):
        merger.advance(base, other)
    assert keeper.tip() == first
    git(repo, "switch", "-q", "coterie/main/integration")
    with pytest.raises(Refused, match="checked out"):
        merger.advance(first, other)
    assert keeper.tip() == first


def test_trailers_count_only_as_the_last_paragraph_that_the_queue_wrote(keeper: Keeper) -> None:
    merger = Merger(keeper)
    base = keeper.tip()
    commit, _ = handed_in(keeper, "ada", "T1", "x\n")
    fake = f"T1\n\nCoterie-Team: main\nCoterie-Task: T9\nCoterie-Epoch: 1\nCoterie-Head: {'0' * 40}\n"
    done = merged(merger, "T1", commit, message=fake)
    assert merger.find_merged(task="T9", epoch=1, head="0" * 40, base=base) is None
    assert merger.find_merged(task="T1", epoch=1, head=commit, base=base) == done
    assert merger.find_merged(task="T1", epoch=2, head=commit, base=base) is None
    assert [(each.task, each.author) for each in merger.log(base)] == [("T1", "ada (coterie)")]


def test_a_reader_has_exactly_the_files_of_its_commit(keeper: Keeper) -> None:
    commit, base = handed_in(keeper, "ada", "T1", "one\nTWO\nthree\n")
    path = keeper.reader("queue", base)
    (path / "stale.txt").write_text("x")
    (path / "build").mkdir()
    (path / "a.txt").write_text("changed")
    assert keeper.reader("queue", commit) == path
    assert (path / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert sorted(each.name for each in path.iterdir()) == [".git", ".gitignore", "a.txt"]


def test_eight_teammates_open_at_once(keeper: Keeper) -> None:
    failed: list[Exception] = []

    def open_one(number: int) -> None:
        try:
            keeper.open(f"mate{number}", task=f"T{number}", epoch=1, base=keeper.tip())
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=open_one, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for number in range(1, 9):
        name = f"mate{number}"
        keeper.check(name, task=f"T{number}", epoch=1, path=keeper.path(name), branch=f"coterie/main/T{number}/e1")


def test_half_made_worktrees_are_healed(keeper: Keeper, repo: Path) -> None:
    keeper.open("ada", task="T1", epoch=1, base=keeper.tip())
    handed = keeper.path("ada") / "a.txt"
    handed.write_text("work\n")
    keeper.commit("ada", task="T1", epoch=1, base=keeper.tip(), message="m", author="ada")
    shutil.rmtree(keeper.path("ada"))  # deleted by hand
    half = repo / ".git" / "worktrees" / "ben"
    half.mkdir(parents=True)
    (half / "locked").write_text("coterie main/ben")  # a killed `worktree add`
    strange = repo / ".git" / "worktrees" / "somebody"
    strange.mkdir()
    (strange / "locked").write_text("not ours")
    keeper.heal(["ada", "ben"])
    assert strange.exists() and not half.exists()
    again = keeper.open("ada", task="T1", epoch=1, base=keeper.tip())
    assert (again.path / "a.txt").read_text() == "work\n", "rebuilt from its branch"
    lock = next((repo / ".git" / "worktrees").glob("ada*")) / "index.lock"
    lock.touch()
    keeper.heal(["ada"])
    assert not lock.exists()


@pytest.mark.parametrize("taken", ["coterie", "coterie/main", "coterie/main/integration"])
def test_a_branch_name_of_ours_that_is_taken_is_refused_by_name(repo: Path, taken: str) -> None:
    git(repo, "branch", taken)
    with pytest.raises(UsageError, match=taken):
        prepare(find_repository(repo), "main")
    assert not (repo / ".coterie").exists()


def test_what_is_no_repository_with_a_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in a git repository"):
        find_repository(tmp_path)
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(UsageError, match="no commit"):
        find_repository(tmp_path / "empty")
    git(tmp_path, "init", "-q", "--bare", "bare")
    with pytest.raises(UsageError, match="bare"):
        find_repository(tmp_path / "bare")


def test_landing_goes_forward_merges_or_says_what_conflicts_onto_a_clean_checkout(repo: Path, keeper: Keeper) -> None:
    merger = Merger(keeper)
    commit, _ = handed_in(keeper, "ada", "T1", "one\ntheirs\nthree\n")
    merged(merger, "T1", commit)
    plan = plan_land(find_repository(repo), "main")
    assert plan.kind is LandingKind.FAST_FORWARD
    (repo / "b.txt").write_text("mine\n")
    with pytest.raises(Refused, match=r"b\.txt"):
        land(find_repository(repo), plan)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "mine")
    with pytest.raises(Refused, match="moved"):
        land(find_repository(repo), plan)
    plan = plan_land(find_repository(repo), "main")
    assert plan.kind is LandingKind.MERGE and plan.new is not None
    with pytest.raises(Refused, match="red"):
        land(find_repository(repo), plan, check=lambda commit: "the check")
    land(find_repository(repo), plan, check=lambda commit: None)
    assert (repo / "a.txt").read_text() == "one\ntheirs\nthree\n" and (repo / "b.txt").exists()
    assert git(repo, "status", "--porcelain") == ""
    assert plan_land(find_repository(repo), "main").kind is LandingKind.UP_TO_DATE
    other, _ = handed_in(keeper, "ben", "T2", "one\nother\nthree\n")
    merged(merger, "T2", other)
    (repo / "a.txt").write_text("one\nmine\nthree\n")
    git(repo, "commit", "-q", "-am", "conflict")
    found = plan_land(find_repository(repo), "main")
    assert found.kind is LandingKind.CONFLICT and found.files == ("a.txt",)

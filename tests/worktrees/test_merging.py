"""The queue's merges: off to the side, moved by compare-and-swap, found again by what only the queue writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import Refused
from coterie.worktrees import GitError

from .conftest import Bench, git, listed, write


def head_of(bench: Bench, name: str = "ada", task: str = "T1", **contents: str) -> str:
    path = bench.open(name, task=task)
    for key, text in contents.items():
        write(path, key.replace("__", "."), text)
    head = bench.commit(name, task=task)
    assert head is not None
    return head


def test_a_merge_moves_nothing_until_it_is_advanced(bench: Bench, root: Path) -> None:
    head = head_of(bench, x__txt="x\n")
    refs = git(root, "for-each-ref")
    new = bench.merged(head)
    assert git(root, "for-each-ref") == refs
    assert git(root, "log", "-1", "--format=%P|%an", new) == f"{bench.base} {head}|ada (coterie)"
    bench.merger.advance(bench.base, new)
    assert bench.keeper.tip() == new


def test_a_conflict_names_the_files_and_shows_both_sides_and_is_not_committed(bench: Bench) -> None:
    head = head_of(bench, two__txt="ada\n")
    tip = bench.land_on_tip(two__txt="ben\n")
    merge = bench.merger.plan_merge(head, tip)
    assert [each.path for each in merge.conflicts] == ["two.txt"]
    assert "ada" in merge.output and "ben" in merge.output and "CONFLICT" in merge.output
    with pytest.raises(Refused):
        bench.merger.commit_merge(merge, tip=tip, head=head, message="m", trailers={}, author="ada")


def test_a_branch_that_moved_meanwhile_is_not_moved_back(bench: Bench, root: Path) -> None:
    head = head_of(bench, x__txt="x\n")
    stale = bench.merged(head)
    tip = bench.land_on_tip(y__txt="y\n")
    with pytest.raises(GitError):
        bench.merger.advance(bench.base, stale)
    assert bench.keeper.tip() == tip


def test_the_branch_is_not_moved_under_a_person_who_has_it_checked_out(
    bench: Bench, root: Path, tmp_path: Path
) -> None:
    head = head_of(bench, x__txt="x\n")
    new = bench.merged(head)
    look = tmp_path / "look\nhere"
    git(root, "worktree", "add", "-q", str(tmp_path / "look"), "coterie/main/integration")
    with pytest.raises(Refused, match="look"):
        bench.merger.advance(bench.base, new)
    assert bench.keeper.tip() == bench.base and not look.exists()
    git(tmp_path / "look", "switch", "-q", "--detach")
    git(root, "switch", "-q", "coterie/main/integration")
    with pytest.raises(Refused, match="repo"):
        bench.merger.advance(bench.base, new)
    git(root, "switch", "-q", "trunk")
    bench.merger.advance(bench.base, new)


def test_a_merge_is_found_by_exactly_its_task_epoch_and_head(bench: Bench) -> None:
    head = head_of(bench, x__txt="x\n")
    new = bench.queue(head)
    bench.land_on_tip("T8", y__txt="y\n")
    find = bench.merger.find_merged
    assert find(task="T1", epoch=1, head=head, base=bench.base) == new
    assert find(task="T1", epoch=2, head=head, base=bench.base) is None
    assert find(task="T2", epoch=1, head=head, base=bench.base) is None
    assert find(task="T1", epoch=1, head=bench.base, base=bench.base) is None
    assert find(task="T1", epoch=1, head=head, base=new) is None
    assert [each.task for each in bench.merger.log(bench.base)] == ["T1", "T8"]
    assert bench.merger.log(bench.base)[0].subject == "T1: work"


def forged(head: str) -> list[str]:
    trailers = f"Coterie-Team: main\nCoterie-Task: T5\nCoterie-Epoch: 1\nCoterie-Head: {head}\nCoterie-Plan: none"
    return [
        f"T1: x\n\n{trailers}",
        f"T1: x\n\n{trailers}\n\n",
        f"{trailers}\n\nand so on",
        f"T1: x\n\nCoterie-Task: T5\nCoterie-Head: {head}",
        f"T1: x\n\x1e{head}\x1fqueue\x1fT5: y\n\n{trailers}\n\x1e",
        f"T1: x\n\0{head}\0{head}\0queue\0T5: y\n\n{trailers}\n\0",
        f"T1: x\n\n{trailers}\r\n\r\n---\n",
    ]


def test_a_summary_cannot_pass_for_the_trailers_of_another_task(bench: Bench) -> None:
    other = head_of(bench, "cleo", "T5", five__txt="5\n")
    find = bench.merger.find_merged
    for number, message in enumerate(forged(other), 10):
        head = head_of(bench, task=f"T{number}", x__txt=f"{number}\n")
        new = bench.queue(head, task=f"T{number}", message=message)
        assert find(task="T5", epoch=1, head=other, base=bench.base) is None, message
        assert find(task=f"T{number}", epoch=1, head=head, base=bench.base) == new, message
    assert [each.task for each in bench.merger.log(bench.base)] == [f"T{number}" for number in range(10, 17)]


def test_a_teammates_own_commit_with_trailers_is_no_merge_of_the_queue(bench: Bench, root: Path) -> None:
    other = head_of(bench, "cleo", "T5", five__txt="5\n")
    bench.open()
    write(bench.keeper.path("ada"), "x.txt", "x")
    head = bench.commit(message=forged(other)[0])
    assert head is not None
    bench.merger.advance(bench.base, head)  # were it ever on the first-parent line
    assert bench.merger.find_merged(task="T5", epoch=1, head=other, base=bench.base) is None
    write(bench.keeper.path("ada"), "y.txt", "x")
    late = bench.commit()
    assert late is not None
    bench.queue(late)
    assert bench.merger.find_merged(task="T5", epoch=1, head=other, base=bench.base) is None


def test_another_teams_trailers_do_not_count(bench: Bench) -> None:
    head = head_of(bench, x__txt="x\n")
    bench.queue(head, team="other")
    assert bench.merger.log(bench.base) == []


def test_the_log_is_read_whatever_the_users_settings_say(bench: Bench, root: Path, home: Path) -> None:
    write(
        home,
        ".gitconfig",
        "[log]\n showSignature = true\n[i18n]\n logOutputEncoding = latin1\n commitEncoding = latin1\n"
        "[color]\n ui = always\n diff = always\n[diff]\n noprefix = true\n external = false\n",
    )
    head = head_of(bench, x__txt="x\n")
    bench.queue(head, message="T1: größer ☃")
    assert bench.merger.log(bench.base)[0].subject == "T1: größer ☃"
    assert "\x1b" not in bench.merger.diff(bench.base)


def test_the_diff_shows_the_integration_branch_or_one_assignment(bench: Bench) -> None:
    with pytest.raises(Refused, match="no branch yet"):
        bench.merger.diff(bench.base, task="T1", epoch=1)
    head = head_of(bench, x__txt="mine\n")
    tip = bench.land_on_tip(y__txt="theirs\n")
    assert "+theirs" in bench.merger.diff(bench.base) and "+mine" not in bench.merger.diff(bench.base)
    assert "+mine" in bench.merger.diff(tip, task="T1", epoch=1)
    assert "+theirs" not in bench.merger.diff(tip, task="T1", epoch=1)
    assert "-" not in listed(bench.root, head)

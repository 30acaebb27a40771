"""The work that lies in a worktree can be seen, and is not touched by that."""

from __future__ import annotations

from pathlib import Path

from coterie.worktrees import work_in_hand

from .conftest import Bench, git, write


def stored(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below `root`, `.git` too, with its time and content."""
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def seen(bench: Bench, base: str, branch: str = "coterie/main/T1/e1") -> str | None:
    where = bench.keeper.where("ada")
    assert where is not None
    return work_in_hand(bench.merger.git, where, branch=branch, base=base)


def test_changed_new_deleted_and_committed_files_are_seen_and_nothing_is_written(bench: Bench, root: Path) -> None:
    base = bench.keeper.tip()
    place = bench.open()
    write(place, "done.txt", "committed\n")
    assert bench.commit() is not None
    write(place, "one.txt", "changed\n")
    (place / "two.txt").unlink()
    write(place, "deep/new ä.txt", "new\n")
    write(place, "script", "#!/bin/sh\n").chmod(0o755)
    write(place, "noise.log", "ignored\n")
    write(place, "staged.txt", "staged\n")
    git(place, "add", "staged.txt")
    (place / "link").symlink_to("one.txt")
    before = stored(root), stored(place)
    text = seen(bench, base)
    assert (stored(root), stored(place)) == before
    assert text is not None
    for each in ("+committed", "-one\n+changed", "deleted file mode 100644", "+++ b/deep/new ä.txt", "+staged"):
        assert each in text, each
    assert "new file mode 100755" in text and "new file mode 120000" in text and "noise.log" not in text


def test_what_the_index_is_told_not_to_see_is_seen(bench: Bench) -> None:
    base = bench.keeper.tip()
    place = bench.open()
    git(place, "update-index", "--assume-unchanged", "one.txt")
    write(place, "one.txt", "changed\n")
    assert "+changed" in str(seen(bench, base))
    assert git(place, "ls-files", "-v", "one.txt").startswith("h ")


def test_an_untouched_worktree_has_nothing_and_another_branch_is_told_apart(bench: Bench) -> None:
    base = bench.keeper.tip()
    bench.open()
    assert seen(bench, base) == ""
    assert seen(bench, base, branch="coterie/main/T1/e2") is None

"""The host is killed in the middle of the git commands it runs: what they leave half made is healed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.lead import create_team, open_team
from coterie.lead.recovery import recover
from coterie.teammates.settings import TeamSettings
from coterie.worktrees import Keeper
from coterie.worktrees.locks import drop_ref_locks

from .conftest import Bench, git, write
from .gitkills import OPERATIONS, REFUSED

SCRIPT = Path(__file__).with_name("gitkills.py")
SAMPLE = os.environ.get("COTERIE_GIT_KILLS", "1")  # points of each git call; 0: all of them


USUAL = ("a first worktree", "snapshot", "submit", "merge by the queue")  # the others are long: in the soak


@pytest.mark.parametrize("name", [each for each in OPERATIONS if SAMPLE == "0" or each in USUAL])
def test_an_operation_whose_git_is_killed_anywhere_ends_like_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    argv = [sys.executable, str(SCRIPT), str(tmp_path / "place"), SAMPLE, name]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == REFUSED:
        pytest.skip("no process may trace another here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-2]) >= 3, done.stdout


# ---------------------------------------------------------------- git that outlives its host

HOST = """
import sys
from pathlib import Path
from coterie import files
from coterie.lead import open_team

root = Path(sys.argv[1])
hold = files.hold(root / "processes" / f"{files.token()}.lock", {})
team = open_team(root)
team.keeper.open("ada", task="T1", epoch=1, base=team.keeper.tip())
"""


def test_git_that_outlives_its_host_is_ended_before_its_locks_are_taken_away(
    root: Path, home: Path, tmp_path: Path
) -> None:
    started, flag = tmp_path / "started", write(tmp_path, "slow", "")
    os.mkfifo(started)
    os.mkfifo(tmp_path / "never")
    write(
        tmp_path, "smudge", f"#!/bin/sh\nif [ -e {flag} ]; then echo $PPID > {started}; cat {tmp_path}/never; fi\ncat\n"
    )
    (tmp_path / "smudge").chmod(0o755)
    git(root, "config", "--global", "filter.slow.smudge", str(tmp_path / "smudge"))
    write(root, ".gitattributes", "one.txt filter=slow\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "slow")
    folder = create_team(root, goal="g", name=None, settings=TeamSettings())
    team = open_team(folder)
    team.keeper.create_integration(team.record.base.commit)
    team.roster.spawn("ada", model="m")
    with subprocess.Popen([sys.executable, "-c", HOST, str(folder)]) as host:
        git_pid = int(started.read_text())
        host.kill()
    assert (Path("/proc") / str(git_pid)).exists(), "it still writes the files of the worktree"
    flag.unlink()
    recover(team)
    status = Path("/proc") / str(git_pid) / "stat"
    assert not status.exists() or ") Z " in status.read_text()
    assert not list((root / ".git").rglob("*.lock"))
    path = team.keeper.open("ada", task="T1", epoch=1, base=team.keeper.tip()).path
    assert git(path, "status", "--porcelain") == "" and (path / "one.txt").read_text() == "one\n"


# ---------------------------------------------------------------- half-made entries


def only_a_folder(metadata: Path, path: Path) -> None:
    metadata.mkdir(parents=True)


def a_lock_without_text(metadata: Path, path: Path) -> None:
    write(metadata, "locked", "")


def initializing(metadata: Path, path: Path) -> None:
    write(metadata, "locked", "initializing")
    write(metadata, "gitdir", f"{path}/.git\n")
    write(path, ".git", f"gitdir: {metadata}\n")


def initializing_and_no_place(metadata: Path, path: Path) -> None:
    write(metadata, "locked", "initializing")


def a_place_without_text(metadata: Path, path: Path) -> None:
    write(metadata, "locked", "")
    write(metadata, "gitdir", "")
    path.mkdir(parents=True)


def no_commit_yet(metadata: Path, path: Path) -> None:
    initializing(metadata, path)
    write(metadata, "HEAD", "0" * 40 + "\n")
    write(metadata, "commondir", "../..\n")


def half_removed(metadata: Path, path: Path) -> None:
    write(metadata, "locked", "coterie main/ada")


def half_a_checkout(metadata: Path, path: Path) -> None:
    root = metadata.parents[2]
    git(root, "worktree", "add", "-q", "--no-checkout", "--detach", "--lock", "--reason", "coterie main/ada", str(path))
    write(path, "one.txt", "on")
    write(metadata, "index.lock", "half an index")


def deleted_by_hand(metadata: Path, path: Path) -> None:
    half_a_checkout(metadata, path)
    shutil.rmtree(path)


STATES = [only_a_folder, a_lock_without_text, initializing, initializing_and_no_place, a_place_without_text]
STATES += [no_commit_yet, half_removed, half_a_checkout, deleted_by_hand]


@pytest.mark.parametrize("healed", [True, False], ids=["after recovery", "without"])
@pytest.mark.parametrize("state", STATES, ids=lambda each: each.__name__)
def test_each_half_of_a_worktree_is_made_whole(
    keeper: Keeper, root: Path, state: Callable[[Path, Path], None], healed: bool
) -> None:
    git(root, "branch", "coterie/main/T1/e1")  # all that a kill before `worktree add` left
    path, metadata = keeper.path("ada"), root / ".git" / "worktrees" / "ada"
    state(metadata, path)
    strange = write(root, ".git/worktrees/somebody/locked", "not ours")
    if healed:
        keeper.heal(["ada"])
        assert not list((root / ".git").rglob("*.lock"))
    opened = keeper.open("ada", task="T1", epoch=1, base=keeper.tip())
    keeper.check("ada", task="T1", epoch=1, path=path, branch="coterie/main/T1/e1")
    assert opened.snapshot is None, "a half is no work"
    assert opened.path == path and git(path, "status", "--porcelain") == ""
    assert (path / "one.txt").read_text() == "one\n"
    assert strange.exists() and sorted(each.name for each in strange.parent.parent.iterdir()) == ["ada", "somebody"]
    assert sorted(each.name for each in keeper.root.iterdir()) == ["ada"], "nothing lies beside it"


def test_the_entry_of_a_persons_own_worktree_of_that_name_is_left_alone(keeper: Keeper, root: Path) -> None:
    place = root.parent / "elsewhere" / "ada"
    git(root, "worktree", "add", "-q", "--detach", str(place))
    keeper.heal(["ada"])
    path = keeper.open("ada", task="T1", epoch=1, base=keeper.tip()).path
    assert git(place, "status", "--porcelain") == "" and path != place
    assert len(list((root / ".git" / "worktrees").iterdir())) == 2


# ---------------------------------------------------------------- locks on refs


def test_a_stale_lock_on_a_ref_of_ours_is_removed_and_one_of_anybody_elses_is_not(
    bench: Bench, root: Path, said: list[str]
) -> None:
    ours = ["heads/coterie/main/integration", "heads/coterie/main/T1/e1", "coterie/main/rescue/T1-e1/1"]
    others = ["heads/trunk", "heads/coterie/other/integration", "coterie/other/rescue/x/1"]
    write(bench.open(), "x.txt", "x")
    locks = [write(root, f".git/refs/{each}.lock", "") for each in (*ours, *others)]
    bench.keeper.heal(["ada"])
    assert [each.exists() for each in locks] == [False] * 3 + [True] * 3
    assert len(said) == 3 and all("removed the stale refs/" in each for each in said)
    head = bench.commit()
    assert head is not None and bench.queue(head)


def test_a_ref_whose_git_alone_was_killed_is_moved_without_a_restart(bench: Bench, root: Path) -> None:
    bench.keeper.git.patience = 0.2
    write(bench.open(), "x.txt", "x")
    for ref in ("T1/e1", "integration"):
        write(root, f".git/refs/heads/coterie/main/{ref}.lock", "")
    head = bench.commit()
    assert head is not None and bench.queue(head) == bench.keeper.tip()
    assert not list((root / ".git/refs").rglob("*.lock"))


def test_a_lock_that_a_living_git_holds_is_not_taken_from_it(bench: Bench, root: Path) -> None:
    """Where other hosts are alive: it goes by itself, or another one takes its place."""
    gone = write(root, ".git/refs/heads/coterie/main/T1/e1.lock", "")
    new = write(root, ".git/refs/heads/coterie/main/integration.lock", "")
    stale = write(root, ".git/refs/coterie/main/joined/T1/e1.lock", "")

    def live() -> None:
        gone.unlink()
        write(root, ".git/beside", "").replace(new)

    ending = threading.Timer(0.1, live)
    ending.start()
    found = drop_ref_locks(root / ".git", "main", patience=1.0)
    ending.join()
    assert found == ["refs/coterie/main/joined/T1/e1.lock"] and new.exists() and not stale.exists()


def test_the_lock_of_a_persons_own_git_on_the_packed_refs_stops_nothing_and_stays(bench: Bench, root: Path) -> None:
    path = bench.open()
    lock = write(root, ".git/packed-refs.lock", "")
    write(path, "one.txt", "ada\n")
    bench.keeper.snapshot("ada", label="T1-e1")
    tip = bench.land_on_tip(one__txt="ben\n")
    assert bench.merge_in() == ["one.txt"]
    git(path, "reset", "-q", "--hard")
    write(path, "one.txt", "both\n")
    head = bench.commit(base=tip)
    assert head is not None and bench.queue(head)
    bench.keeper.close("ada")
    bench.keeper.heal(["ada", "ben"])
    assert lock.exists()


def test_an_entry_that_is_being_removed_is_known_until_the_last_file(keeper: Keeper, root: Path) -> None:
    """Killed at each removal: what is left is still ours, and the next one removes it."""
    for left in range(12):
        path, metadata = keeper.path("ada"), root / ".git" / "worktrees" / "ada"
        keeper.reader("ada", keeper.tip())
        shutil.rmtree(path)
        code = f"""
import os, signal, sys
from pathlib import Path
from coterie.worktrees.registry import Registry
left = {left}
def watch(event, arguments):
    global left
    if event in ("os.remove", "os.rmdir"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
Registry(Path({str(root / ".git")!r}), team="main", report=print).drop_halves("ada", Path({str(path)!r}))
"""
        done = subprocess.run([sys.executable, "-c", code], check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        assert metadata.exists() == (done.returncode != 0)
        keeper.heal(["ada"])
        assert not metadata.exists()
        if done.returncode == 0:
            break
    else:
        pytest.fail("it was never removed whole")
    assert left > 3

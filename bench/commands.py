"""What the sandbox costs for each command: `true`, run to its end, by three ways in turn so that all are slowed alike.

* plain: `subprocess.run`, an emptied environment, no boundary.
* bubblewrap: the same behind `bwrap` alone, with the namespaces and mounts that everybody names first.
* sandbox: as a teammate's command is run: recorded, watched, limited, with git's private view, by `Commands`.
* no sandbox: the same without the boundary, so that the difference to the line above is what the boundary costs.

The best and the median of each count, as milliseconds and as a multiple of plain. Exit code 1 if the boundary costs
more than `MOST` times bare bubblewrap in both. Without bubblewrap it says so and measures the rest.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from coterie.lead import create_team, find_boundary, open_team, sandbox_of
from coterie.taskboard import NewTask
from coterie.teammates.commands import Commands
from coterie.teammates.sandbox import Level, NoSandbox
from coterie.teammates.settings import TeamSettings

ROUNDS = 60
MOST = 5.0
PLAIN = ["/bin/bash", "-c", "true"]
BARE = [
    *("bwrap", "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
    *("--unshare-net", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--ro-bind", "/", "/"),
    *("--proc", "/proc", "--dev", "/dev", "--", *PLAIN),
]


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def make_team(folder: Path) -> tuple[Path, Path, TeamSettings]:
    """A repository with a team and one worktree on a task; the team's folder and the worktree."""
    repository = folder / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    for number in range(200):
        (repository / f"file{number}.txt").write_text("text\n" * 20)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "start")
    settings = TeamSettings(worktrees_root=str(folder / "trees"))
    team = open_team(create_team(repository, goal="measure", name="main", settings=settings))
    team.keeper.create_integration(team.record.base.commit)
    team.board.create([NewTask(ref="a", subject="A")], by="lead")
    return team.root, team.keeper.open("ada", task="T1", epoch=1, base=team.keeper.tip()).path, settings


def seconds(act: Callable[[], object]) -> float:
    """How long it takes once."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def main() -> int:
    """Measure and print; answers the exit code."""
    with tempfile.TemporaryDirectory() as name:
        root, worktree, settings = make_team(Path(name))
        team = open_team(root)
        found = find_boundary(settings, team.repository)
        ways: dict[str, Callable[[], object]] = {
            "plain": lambda: subprocess.run(PLAIN, cwd=worktree, env={"PATH": os.defpath}, check=True)
        }
        with (
            Commands(root / "output", sandbox=NoSandbox()) as open_,
            Commands(root / "output", sandbox=sandbox_of(found, team, settings)) as kept,
        ):
            ways["no sandbox"] = lambda: open_.run("true", cwd=worktree, timeout_s=30)
            if found.level is Level.FULL:
                ways["bubblewrap"] = lambda: subprocess.run(BARE, cwd=worktree, env={}, check=True)
                ways["sandbox"] = lambda: kept.run("true", cwd=worktree, timeout_s=30)
            else:
                print(f"the sandbox is not measured: {found.detail}")
            for act in ways.values():
                act()  # what is made once is not counted
            taken: dict[str, list[float]] = {each: [] for each in ways}
            for _ in range(ROUNDS):
                for each, act in ways.items():
                    taken[each].append(seconds(act))
    best = {each: min(times) for each, times in taken.items()}
    median = {each: statistics.median(times) for each, times in taken.items()}
    for each in ways:
        times = f"{best[each] * 1000:7.1f} ms best {median[each] * 1000:7.1f} ms median"
        print(f"{each:12} {times}  {median[each] / median['plain']:5.1f}x of plain")
    if "sandbox" not in ways:
        return 0
    ratio = min(
        (best["sandbox"] - best["no sandbox"]) / best["bubblewrap"],
        (median["sandbox"] - median["no sandbox"]) / median["bubblewrap"],
    )
    verdict = "ok" if ratio <= MOST else "MISSED"
    print(f"the boundary costs {ratio:.1f}x of bare bubblewrap, at most {MOST:g}x: {verdict}")
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())

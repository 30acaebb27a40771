"""Kills a host together with the git command it runs, in the middle of that command; run as a script by test_killed.py.

For each operation: a wrapper that stands first on PATH counts the git calls. It lets one of them run under
`tracing.py`, which kills git just before its k-th change of the file system; then the wrapper kills the host. What is
on disk is what git left there. Another process recovers, as a restart does, and makes the operation again: what is
there in the end has to be what an undisturbed operation leaves, nothing of git's may be left over, no work may be lost,
and the person's checkout may not have changed.

usage: gitkills.py FOLDER SAMPLE NAME …    SAMPLE: points of each git call that are tried, 0 for all of them.
Prints how many kills there were; ends with 1 and says what went wrong, with 76 where nothing can be traced.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from coterie import files
from coterie.lead import create_team, open_team
from coterie.lead.checks import Checks
from coterie.lead.integration import Queue
from coterie.lead.recovery import recover
from coterie.taskboard import Assignment, NewTask, Status
from coterie.teammates.commands import Commands
from coterie.teammates.model import ScriptedModel, reply
from coterie.teammates.roster import Status as Life
from coterie.teammates.sandbox import NoSandbox
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Runtime, Team

TRACER = Path(__file__).with_name("tracing.py")
KILLED, REFUSED = 75, 76
WRAPPER = """#!/bin/sh
here=${{0%/*}}
read -r n < "$here/calls"
n=$((n + 1))
echo $n > "$here/calls"
read -r call at < "$here/plan"
[ "$call" = 0 ] || [ "$call" = "$n" ] || exec {git} "$@"
{python} -IS {tracer} "$at" "$here/log" {git} "$@"
code=$?
[ "$call" = 0 ] && exit $code
[ $code = 76 ] || read -r host < "$here/host"
kill -9 "$host"
exit $code
"""


def git(root: Path, *argv: str) -> str:
    identity = ("-c", "user.name=S", "-c", "user.email=s@example.org")
    done = subprocess.run([GIT, *identity, *argv], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {argv}: {done.stderr}"
    return done.stdout.strip()


GIT = shutil.which("git") or "git"


class Place:
    """A repository with a team at one path; put back for each kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live = folder / "live"
        self.repo = self.live / "repo"
        self.kept = folder / "kept"
        self.tools = folder / "tools"
        self.tools.mkdir(parents=True)
        wrapper = self.tools / "git"
        wrapper.write_text(WRAPPER.format(python=sys.executable, tracer=TRACER, git=GIT))
        wrapper.chmod(0o755)
        os.environ |= {"HOME": str(folder / "home"), "XDG_STATE_HOME": str(self.live / "state")}
        os.environ.pop("XDG_CONFIG_HOME", None)

    def keep(self) -> None:
        shutil.copytree(self.live, self.kept, symlinks=True)

    def put_back(self) -> None:
        shutil.rmtree(self.live, ignore_errors=True)
        shutil.copytree(self.kept, self.live, symlinks=True)

    def team(self) -> Team:
        return open_team(self.repo / ".coterie" / "main")

    def fingerprint(self) -> str:
        """What differs between two states of the disk, without the names and times of temporary things."""
        found = hashlib.sha256()
        for path in sorted(self.live.rglob("*")):
            if path.is_file() and not path.is_symlink() and "tmp_obj" not in path.name:
                name = str(path.relative_to(self.live))
                data = b"" if "/logs/" in name or name.endswith("index") else path.read_bytes()
                found.update(name.encode() + b"\0" + data + b"\0")
        return found.hexdigest()

    def persons(self) -> dict[str, bytes | str]:
        """All that is the person's: files, index, HEAD, settings, refs."""
        found: dict[str, bytes | str] = {"refs": "\n".join(self._others())}
        for path in sorted(self.repo.rglob("*")):
            name = path.relative_to(self.repo)
            if path.is_file() and name.parts[0] not in (".git", ".coterie"):
                found[str(name)] = path.read_bytes()
        for each in ("index", "HEAD", "config", "info/exclude", "packed-refs"):
            path = self.repo / ".git" / each
            found[f".git/{each}"] = path.read_bytes() if path.exists() else b""
        return found

    def _others(self) -> list[str]:
        refs = git(self.repo, "for-each-ref", "--format=%(refname) %(objectname)").split("\n")
        return [each for each in refs if not each.startswith(("refs/heads/coterie/", "refs/coterie/"))]


# ---------------------------------------------------------------- where it begins


def start(place: Place) -> None:
    """ada works on T1, ben's T2 waits in the queue, cleo's T3 was merged and conflicts with T1, dan holds T4 without a
    worktree, eve holds T5 and her worktree has work of before; T6 was merged too, eve's. The person has changes."""
    repo = place.repo
    (place.folder / "home").mkdir()
    repo.mkdir(parents=True)
    git(repo, "init", "-q", "-b", "trunk", "--template=")
    for name in ("one", "two", "three"):
        (repo / f"{name}.txt").write_text(f"{name}\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "start")
    git(repo, "pack-refs", "--all")
    (repo / "two.txt").write_text("the person's\n")
    (repo / "untracked.txt").write_text("the person's\n")
    create_team(repo, goal="g", name=None, settings=TeamSettings())
    team = place.team()
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ada", "ben", "cleo", "dan", "eve"):
        team.roster.spawn(name, model="m")
    names = [NewTask(ref=f"T{n}", subject=f"Task {n}", priority=9 - n) for n in range(1, 6)]
    team.board.create(names, by="lead")
    for task, owner in (("T1", "ada"), ("T2", "ben"), ("T3", "cleo"), ("T4", "dan"), ("T5", "eve")):
        claimed = team.board.claim(owner=owner, instance=f"{owner}#1")
        assert claimed is not None and claimed.id == task
        if task in ("T1", "T2", "T3"):
            bind(team, owner, task)
    work(team, "ben", "two.txt", "ben\n")
    submit(team, "ben", "T2")
    work(team, "cleo", "one.txt", "cleo\n")
    submit(team, "cleo", "T3")
    merge_now(team, "T3")
    team.keeper.close("cleo")
    work(team, "ada", "one.txt", "precious of ada\n")
    work(team, "ada", "deep/new.txt", "precious and new\n")
    team.keeper.open("eve", task="T9", epoch=1, base=team.keeper.tip())
    work(team, "eve", "left.txt", "precious of eve\n")


def work(team: Team, name: str, path: str, text: str) -> None:
    place = team.keeper.path(name) / path
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)


def bind(team: Team, owner: str, task: str) -> None:
    found = team.board.get(task)
    if found.assignment is None:
        opened = team.keeper.open(owner, task=task, epoch=1, base=team.keeper.tip())
        bound = Assignment(worktree=str(opened.path), branch=opened.branch, base=opened.base)
        team.board.bind(task, 1, bound, made_by=f"{task}/bind")


def submit(team: Team, owner: str, task: str) -> None:
    found = team.board.get(task)
    if found.status is Status.IN_PROGRESS:
        assert found.assignment is not None
        commit = team.keeper.commit(
            owner, task=task, epoch=1, base=found.assignment.base, message=f"{task} by {owner}", author=owner
        )
        team.board.submit(task, 1, by=owner, summary="s", commit=commit, made_by=f"{task}/submit")


def queue(team: Team) -> Queue:
    commands = Commands(team.root / "output", sandbox=NoSandbox())
    runtime = Runtime(team=team, settings=TeamSettings(), model=ScriptedModel(reply), commands=commands)
    return Queue(runtime, Checks(runtime))


def merge_now(team: Team, task: str) -> None:
    """The queue's own steps for an entry that is not the first; it has no checks."""
    own = queue(team)
    found = team.board.get(task)
    assert found.result is not None and found.result.commit is not None
    tip = team.keeper.tip()
    merge = team.merger.plan_merge(found.result.commit, tip)
    own.move(found, tip, own.commit(found, merge, found.result.commit, "s", tip), [])


def give_back(team: Team) -> None:
    """ada's life ends: recovery takes her task back."""
    team.roster.update("ada", "ada#1", status=Life.STOPPED)
    recover(team)


def carry_over(team: Team) -> None:
    """dan gets T4 with the work that ada was parked with merged in."""
    kept = team.keeper.snapshot("ada", label="T1-e1")
    assert kept is not None
    opened = team.keeper.open("dan", task="T4", epoch=1, base=team.keeper.tip(), carry=kept.commit)
    assert opened.conflicts == ("one.txt",)


def read_for_lead(team: Team) -> None:
    path = team.keeper.reader("lead", team.keeper.tip())
    assert (path / "one.txt").read_text() == "cleo\n"


def merge_into(team: Team) -> None:
    """ada's task is returned: the tip is merged into her worktree, then handed in with the conflict solved."""
    tip = team.keeper.tip()
    if team.keeper.needs_merge("ada", tip):
        assert team.keeper.merge_in("ada", task="T1", epoch=1, commit=tip) == ["one.txt"]
    text = (team.keeper.path("ada") / "one.txt").read_text()
    assert "precious of ada" in text and "cleo" in text


OPERATIONS: dict[str, Callable[[Team], object]] = {
    "a first worktree": lambda team: bind(team, "dan", "T4"),
    "a worktree for the next task": lambda team: bind(team, "eve", "T5"),
    "a worktree that carries work over": carry_over,
    "snapshot": lambda team: team.keeper.snapshot("ada", label="T1-e1"),
    "submit": lambda team: submit(team, "ada", "T1"),
    "merge into a worktree": merge_into,
    "merge by the queue": lambda team: queue(team).step(),
    "close": lambda team: team.keeper.close("eve"),
    "take back from a life that ended": give_back,
    "reader": read_for_lead,
}


# ---------------------------------------------------------------- what has to hold


def check(place: Place, persons: dict[str, bytes | str]) -> None:
    """After recovery: nothing of git's half-made things is left, nothing is lost, nothing of the person's changed."""
    team = place.team()
    now = place.persons()
    changed = sorted(each for each in {*persons, *now} if now.get(each) != persons.get(each))
    assert not changed, f"the person's {changed} changed"
    metadata = place.repo / ".git"
    left = [str(each.relative_to(metadata)) for each in metadata.rglob("*.lock")]
    left += [str(each.relative_to(metadata)) for each in metadata.rglob("coterie-*index*")]
    assert not left, f"left over: {left}"
    git(place.repo, "fsck", "--connectivity-only", "--no-dangling")
    pruned = git(place.repo, "worktree", "prune", "--dry-run", "--verbose", "--expire=now")
    assert not pruned, f"git would prune {pruned}"
    for entry in (metadata / "worktrees").iterdir():
        place_of = Path((entry / "gitdir").read_text().strip()).parent
        assert place_of == team.keeper.path(entry.name) and place_of.is_dir(), f"{entry} leads to {place_of}"
        assert (entry / "locked").read_text().strip() == f"coterie main/{entry.name}", f"{entry} is not locked by us"
    for task in team.board.tasks():
        bound = task.assignment
        if task.status in (Status.IN_PROGRESS, Status.SUBMITTED) and bound is not None and task.claim is not None:
            owner = task.claim.owner
            team.keeper.check(owner, task=task.id, epoch=task.epoch, path=Path(bound.worktree), branch=bound.branch)
    trailers = "--format=%(trailers:key=Coterie-Task,valueonly)"
    merged = sorted(git(place.repo, "log", "--first-parent", trailers, "trunk..coterie/main/integration").split())
    completed = sorted(task.id for task in team.board.tasks() if task.status is Status.COMPLETED)
    assert merged == sorted(set(merged)) and set(completed) <= set(merged), f"merged {merged}, completed {completed}"
    kept = set(everywhere(place, team))
    for each in ("precious of ada\n", "precious and new\n", "precious of eve\n"):
        assert any(each in text for text in kept), f"{each!r} is lost"


def everywhere(place: Place, team: Team) -> list[str]:
    """The texts of all files in worktrees, in branches and in snapshots of the team."""
    found = []
    for path in team.keeper.root.rglob("*.txt"):
        found.append(path.read_text())
    refs = git(place.repo, "for-each-ref", "--format=%(refname)", "refs/coterie", "refs/heads/coterie").split()
    blobs = {line.split()[2] for ref in refs for line in git(place.repo, "ls-tree", "-r", ref).split("\n") if line}
    found += [git(place.repo, "cat-file", "blob", each) + "\n" for each in sorted(blobs)]
    return found


def end(place: Place) -> dict[str, object]:
    """What the operation leaves, without times and the ids of commits."""
    team = place.team()
    found: dict[str, object] = {}
    for task in team.board.tasks():
        found[task.id] = (str(task.status), task.epoch, task.assignment is not None, task.merging is not None)
    for ref in git(place.repo, "for-each-ref", "--format=%(refname)", "refs/heads/coterie").split():
        tree = git(place.repo, "rev-parse", f"{ref}^{{tree}}")
        parents = len(git(place.repo, "log", "-1", "--format=%P", ref).split())
        found[ref] = (tree, parents, git(place.repo, "rev-list", "--count", ref))
    for path in sorted(team.keeper.root.iterdir()):
        status = git(path, "status", "--porcelain", "--untracked-files=all") if path.is_dir() else ""
        on = git(path, "rev-parse", "--symbolic-full-name", "HEAD") if path.is_dir() else ""
        texts = {each: re.sub("[0-9a-f]{40}", "id", each.read_text()) for each in sorted(path.rglob("*.txt"))}
        files_there = {str(each.relative_to(path)): text for each, text in texts.items()}
        found[path.name] = (on, status, files_there)
    return found


# ---------------------------------------------------------------- the kills


def forked(act: Callable[[], object]) -> None:
    """Do it in a child. Raises what it said if it failed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            act()
        except BaseException:
            os.write(write, traceback.format_exc()[-3000:].encode())
            code = 3
        os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        text = said.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, text or f"ended with {os.waitstatus_to_exitcode(status)}"


def killed(place: Place, operation: Callable[[Team], object], call: int, at: int) -> bool:
    """Run the operation in a child whose `call`-th git is killed before its `at`-th change; 0, 0: count only."""
    (place.tools / "calls").write_text("0\n")
    (place.tools / "plan").write_text(f"{call} {at}\n")
    (place.tools / "log").write_text("")
    child = os.fork()
    if child == 0:
        os.environ["PATH"] = f"{place.tools}:{os.environ['PATH']}"
        (place.tools / "host").write_text(f"{os.getpid()}\n")
        try:
            operation(place.team())
        except BaseException:
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -9), f"git call {call} at {at}: the operation failed with {code}"
    return code == -9


def counted(place: Place, operation: Callable[[Team], object]) -> list[int]:
    """How many changes each git call of the operation makes. Raises `Refused` where nothing can be traced."""
    killed(place, operation, 0, 0)
    return [int(each) for each in (place.tools / "log").read_text().split()]


def every(place: Place, name: str, sample: int, chance: random.Random) -> int:
    """Kill one operation; answers how many kills there were."""
    operation = OPERATIONS[name]
    place.put_back()
    persons = place.persons()
    forked(lambda: operation(place.team()))
    forked(lambda: operation(place.team()))
    forked(lambda: recover(place.team()))
    forked(lambda: check(place, persons))
    expected = end(place)
    place.put_back()
    counts = counted(place, operation)
    if not counts:
        raise SystemExit(REFUSED)
    kills, seen = 0, set()
    for call, changes in enumerate(counts, 1):
        points = list(range(1, changes + 2))  # the last one is after its last change
        if changes < 3:  # opens of /dev/null
            points = points[-1:] if not sample else []
        if sample:
            points = sorted(chance.sample(points, min(sample, len(points))))
        for at in points:
            place.put_back()
            assert killed(place, operation, call, at), f"git call {call} at {at} was not reached"
            kills += 1
            if (state := place.fingerprint()) in seen:
                continue
            seen.add(state)
            try:
                forked(lambda: recover(place.team()))
                forked(lambda: check(place, persons))
                forked(lambda: operation(place.team()))
                forked(lambda: recover(place.team()))
                forked(lambda: check(place, persons))
                found = end(place)
                keys = sorted({*found, *expected})
                differ = [(each, found.get(each), expected.get(each)) for each in keys]
                differ = [each for each in differ if each[1] != each[2]]
                assert not differ, f"found and expected: {differ}"
            except AssertionError as error:
                where = f"git call {call} of {len(counts)} at {at} of {changes}"
                raise AssertionError(f"{name}: {where}: {error}") from None
    return kills


def main(folder: Path, sample: int, names: list[str]) -> int:
    files.promise(files.Durability.PROCESS)
    place = Place(folder)
    start(place)
    place.keep()
    for name in names or OPERATIONS:
        try:
            kills = every(place, name, sample, random.Random(name))
        except AssertionError as error:
            print(error)
            return 1
        print(f"{name}: {kills} kills", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))

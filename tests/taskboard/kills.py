"""Kills a process at each of its writes, then lets another one go on; run as a script by test_crash.py.

For each call of the board: in a forked child, SIGKILL arrives just before its n-th write, for n = 1, 2, 3 … until the
call survives. Then a fresh board makes the same call with the same key, and so does one that was in step before the
kill; for some calls the repetition is killed at each of its writes too, and a third board finishes. What the folder
says in the end has to be what an undisturbed call leaves behind.

usage: kills.py FOLDER NAME …    prints how many kills there were; ends with 1 and says what differed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.taskboard import Assignment, Board, NewTask

Call = Callable[[Board], object]
SPECS = [NewTask(ref=f"r{n}", subject="s", blocked_by=(f"r{n - 1}",) if n else ("T1",)) for n in range(4)]
CALLS: dict[str, Call] = {
    "create one": lambda b: b.create(SPECS[:1], by="lead", made_by="k"),
    "create batch": lambda b: b.create(SPECS, by="lead", made_by="k"),
    "claim": lambda b: b.claim(owner="eve", instance="eve#1", made_by="k"),
    "bind": lambda b: b.bind("T2", 1, Assignment(worktree="/w", branch="b", base="c"), "k"),
    "submit": lambda b: b.submit("T3", 1, by="bob", summary="s", commit="c", made_by="k"),
    "set_merging": lambda b: b.set_merging("T4", 1, "m", "k"),
    "complete": lambda b: b.complete("T4", 1, merged_commit="m", made_by="k"),
    "give_back": lambda b: b.give_back("T4", 1, reason="r", base="b", owner_available=True, made_by="k"),
    "give_up": lambda b: b.give_up("T3", 1, by="bob", reason="r", made_by="k"),
    "park": lambda b: b.park("T3", 1, by="bob", reason="r", blocked_by=["T1"], made_by="k"),
    "release": lambda b: b.release("T3", 1, by="runtime", reason="r", made_by="k"),
    "want": lambda b: b.want("T3", move="cancel", by="human", reason="r", made_by="k"),
    "retry": lambda b: b.retry("T5", by="human", reason="r", made_by="k"),
    "update": lambda b: b.update("T1", by="lead", add_blocked_by=["T5"], priority=9, made_by="k"),
}

TWICE = ("create batch", "claim", "complete")
"""The calls whose repetition is killed at each of its writes too."""
ONCE = 1_000


def open_board(root: Path) -> Board:
    return Board(root, process="p1", settle=0.0)


def prepare(root: Path) -> None:
    """T1 pending, T2 claimed, T3 bound, T4 submitted, T5 cancelled."""
    root.mkdir(parents=True)
    board = open_board(root)
    board.create([NewTask(ref=f"T{n}", subject="s", priority=5 if n > 1 else 0) for n in range(1, 6)], by="lead")
    for number, owner in ((2, "ada"), (3, "bob"), (4, "cleo")):
        task = board.claim(owner=owner, instance=f"{owner}#1")
        assert task is not None and task.id == f"T{number}"
        if number > 2:
            board.bind(task.id, 1, Assignment(worktree="/w", branch="b", base="c"))
    board.submit("T4", 1, by="cleo", summary="s", commit="c")
    board.want("T5", move="cancel", by="lead", reason="r")


def killed_at(root: Path, call: Call, write: int) -> bool:
    """Make the call in a child that dies before its `write`-th write; False if it made fewer."""
    child = os.fork()
    if child == 0:
        left = write

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            writes = event in ("os.rename", "os.remove", "os.mkdir", "os.truncate")
            if event == "open":
                writes = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) and str(root) in str(arguments[0])
            if writes:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            call(open_board(root))
        except BaseException as error:
            print(f"{error!r}", file=sys.stderr)
            os._exit(3)
        os._exit(0)
    _, ended = os.waitpid(child, 0)
    assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0, "the call was refused"
    return os.WIFSIGNALED(ended)


def state(root: Path) -> dict[str, Any]:
    """All that is stored, without the times."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix == ".json":
            found[str(path.relative_to(root))] = without_times(json.loads(path.read_bytes()))
    return found


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in ("at", "created_at")}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def main(folder: Path, names: list[str]) -> int:
    kills = 0
    prepare(folder / "start" / "main")
    for name in names:
        call = CALLS[name]
        undisturbed = folder / "undisturbed" / name / "main"
        shutil.copytree(folder / "start" / "main", undisturbed)
        call(open_board(undisturbed))
        expected = state(undisturbed)
        first = 1
        while True:
            after_first = folder / "first" / name / str(first) / "main"
            shutil.copytree(folder / "start" / "main", after_first)
            if not killed_at(after_first, call, first):
                break
            alive = folder / "alive" / name / str(first) / "main"
            shutil.copytree(folder / "start" / "main", alive)
            running = open_board(alive)
            running.update("T1", by="human", priority=0)  # changes nothing, but brings it in step
            killed_at(alive, call, first)
            call(running)
            if state(alive) != expected:
                print(f"{name}, killed at write {first} beside a running board: {state(alive)} instead of {expected}")
                return 1
            second = 1 if name in TWICE else ONCE
            while True:
                root = folder / "second" / name / f"{first}-{second}" / "main"
                shutil.copytree(after_first, root)
                again = killed_at(root, call, second)
                kills += 1
                call(open_board(root))
                found = state(root)
                if found != expected:
                    print(f"{name}, killed at write {first}, then at {second}: {found} instead of {expected}")
                    return 1
                if not again:
                    break
                second += 1
            first += 1
        if first < 4:
            print(f"{name}: only {first - 1} writes were seen: the watch does not see them")
            return 1
    print(kills)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

"""Deaths: of the host, of the spawner, of a warden. Nothing of a command outlives any of them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.teammates.commands import Commands, ProcessMark, kill_leftovers
from coterie.teammates.processes import boot_id, descendants, is_alive, process, processes
from coterie.teammates.sandbox import NoSandbox
from coterie.teammates.spawner import BOOTSTRAP

LONG = 30.0  # seconds: a limit that is not meant to be reached

TREE = "setsid sleep 1001 & (nohup sleep 1002 >/dev/null 2>&1 &) ; sleep 1003 & echo up; "

# A host in a process of its own: starts what it is told, says that all runs, and waits to be killed.
HOST = """
import os, sys, threading
from pathlib import Path
from coterie.teammates.commands import Commands
from coterie.teammates.sandbox import NoSandbox

folder, mode = Path(sys.argv[1]), sys.argv[2]
commands = Commands(folder / "output", sandbox=NoSandbox())
tree = sys.argv[3]
if mode == "dies while it records":
    name = f"dies{os.getpid()}"
    commands.run("touch begun", cwd=folder, timeout_s=None, command_id=name, started=lambda mark: os._exit(9))
if mode == "starts one after another":
    print(commands._launcher.pid, flush=True)
    for number in range(10_000):
        name = f"many{os.getpid()}.{number}"
        commands.start(tree + "sleep 1000", cwd=folder, timeout_s=None, owner="x", command_id=name)
        commands.stop_all("x") if number % 8 == 7 else None
up = threading.Event()
for number in (1, 2):
    name = f"{mode}{os.getpid()}.{number}"
    commands.start(tree + "sleep 1000", cwd=folder, timeout_s=None, owner="x", command_id=name,
                   on_output=lambda text: up.set())
    up.wait()
    up.clear()
print(commands._launcher.pid, flush=True)
threading.Event().wait()
"""


def soon(what: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether `what` becomes true before the deadline."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def named(name: str) -> str:
    """A command id of this run of the tests: what an earlier one may have left is not counted."""
    return f"{name}.{os.getpid()}"


def carrying(prefix: str) -> list[int]:
    """The pids of the living processes that carry the id of a command which begins so."""
    found = []
    for pid, each in processes().items():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if any(entry.startswith(f"COTERIE_COMMAND={prefix}".encode()) for entry in environ.split(b"\0")):
            found += [] if each.dead else [pid]
    return found


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def commands(tmp_path: Path, said: list[str]) -> Iterator[Commands]:
    with Commands(tmp_path / "output", sandbox=NoSandbox(), report=said.append) as made:
        yield made


@contextlib.contextmanager
def host(folder: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """A host process of its own; killed at the end of the block, so that a failed test never waits for it."""
    command = [sys.executable, "-c", HOST, str(folder), mode, TREE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as made:
        try:
            yield made
        finally:
            made.kill()


def spawner_of(commands: Commands) -> int:
    pid = commands._launcher.pid
    assert pid is not None
    return pid


# --- the host ---


def test_when_the_host_is_killed_nothing_of_its_commands_is_left(tmp_path: Path) -> None:
    with host(tmp_path, "killed") as dying:
        assert dying.stdout is not None
        spawner = int(dying.stdout.readline())
        # a process that is just becoming another program has no environment to be read: so it is waited for
        assert soon(lambda: len(carrying(f"killed{dying.pid}.")) >= 8)
        dying.kill()
    assert soon(lambda: not carrying(f"killed{dying.pid}."))
    assert soon(lambda: process(spawner) is None)


def test_a_host_that_dies_while_it_records_leaves_a_command_that_never_began(tmp_path: Path) -> None:
    with host(tmp_path, "dies while it records") as dying:
        assert dying.wait(20) == 9
    assert soon(lambda: not carrying(f"dies{dying.pid}"))
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("after_s", [0.0, 0.011, 0.037, 0.09, 0.2])
def test_a_host_may_be_killed_at_any_instant(tmp_path: Path, after_s: float) -> None:
    with host(tmp_path, "starts one after another") as dying:
        assert dying.stdout is not None
        dying.stdout.readline()
        time.sleep(after_s)  # the instant is what is tried
        below = set(descendants([dying.pid]))
        dying.kill()
    assert soon(lambda: not carrying(f"many{dying.pid}."))
    assert soon(lambda: not below & {pid for pid, each in processes().items() if not each.dead})


# --- the spawner ---


def test_when_the_spawner_is_killed_its_commands_end_and_the_next_gets_a_new_one(
    commands: Commands, tmp_path: Path
) -> None:
    commands.run("true", cwd=tmp_path, timeout_s=LONG)
    first = spawner_of(commands)
    done = commands.run(
        TREE + f"kill -9 {first}; sleep 1000", cwd=tmp_path, timeout_s=LONG, command_id=named("orphaned")
    )
    assert done.cancelled == "the process that starts commands was killed"
    assert (done.exit_code, done.text) == (None, "up\n")
    assert carrying(named("orphaned")) == []
    assert commands.run("echo again", cwd=tmp_path, timeout_s=LONG).text == "again\n"
    assert spawner_of(commands) != first


def test_the_spawner_holds_nothing_of_the_host(commands: Commands, tmp_path: Path) -> None:
    commands.run("true", cwd=tmp_path, timeout_s=LONG)
    spawner = spawner_of(commands)
    assert Path(f"/proc/{spawner}/environ").read_bytes() == b""
    assert os.getsid(spawner) == spawner  # a Ctrl-C in the host's terminal is not sent to it
    assert Path(f"/proc/{spawner}/cwd").readlink() == Path("/")
    links = [str(each.readlink()) for each in Path(f"/proc/{spawner}/fd").iterdir()]
    assert all(link.startswith(("socket:", "pipe:")) or link == "/dev/null" for link in links)


def test_the_spawner_imports_the_standard_library_alone() -> None:
    folder = str(Path(__file__).parents[2] / "src/coterie/teammates")
    asking = BOOTSTRAP.replace("serve(int(sys.argv[2]))", "print(*sorted(sys.modules))")
    out = subprocess.run([sys.executable, "-I", "-S", "-c", asking, folder], capture_output=True, text=True, check=True)
    names = out.stdout.split()
    assert {name for name in names if name.startswith("coterie")} == {
        "coterie", "coterie.teammates", "coterie.teammates.processes", "coterie.teammates.spawner",
        "coterie.teammates.warden",
    }  # fmt: skip
    assert not {"pydantic", "threading", "subprocess", "logging", "asyncio", "typing_extensions"} & set(names)


def test_finished_commands_leave_no_process_and_no_descriptor(commands: Commands, tmp_path: Path) -> None:
    def held() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    commands.run("true", cwd=tmp_path, timeout_s=LONG)
    spawner = spawner_of(commands)
    ours, theirs = held(), sum(1 for _ in Path(f"/proc/{spawner}/fd").iterdir())
    for _ in range(20):
        commands.run("sleep 100 & true", cwd=tmp_path, timeout_s=LONG)
    assert held() == ours
    assert soon(lambda: sum(1 for _ in Path(f"/proc/{spawner}/fd").iterdir()) == theirs)
    assert soon(lambda: not [each for each in processes().values() if each.parent == spawner])


# --- a warden ---


def test_when_a_warden_is_killed_its_tree_is_ended_all_the_same(commands: Commands, tmp_path: Path) -> None:
    done = commands.run(TREE + "kill -9 $PPID; sleep 1000", cwd=tmp_path, timeout_s=LONG, command_id=named("unwatched"))
    assert done.cancelled == "the process that watched it was killed"
    assert done.text == "up\n"
    assert carrying(named("unwatched")) == []
    assert commands.run("echo again", cwd=tmp_path, timeout_s=LONG).text == "again\n"


def test_the_spawner_ends_what_a_killed_warden_watched_though_it_hides_its_mark(
    commands: Commands, tmp_path: Path
) -> None:
    hidden = "env -i setsid bash -c 'echo $$ >hidden; sleep 1004; true' & while [ ! -s hidden ]; do sleep 0.01; done; "
    commands.run(hidden + "kill -9 $PPID; sleep 1000", cwd=tmp_path, timeout_s=LONG, command_id=named("hidden"))
    pid = int((tmp_path / "hidden").read_text())
    assert soon(lambda: (found := process(pid)) is None or found.dead)


def test_a_killed_warden_costs_no_other_command(commands: Commands, tmp_path: Path) -> None:
    other = commands.start(TREE + "sleep 1000", cwd=tmp_path, timeout_s=None, owner="bob", command_id=named("other"))
    assert soon(lambda: commands.progress(other).text == "up\n")
    before = set(carrying(named("other")))
    commands.run(TREE + "kill -9 $PPID; sleep 1000", cwd=tmp_path, timeout_s=LONG, command_id=named("unwatched"))
    assert soon(lambda: not carrying(named("unwatched")))
    assert set(carrying(named("other"))) == before
    assert commands.progress(other).finished is None


def test_a_warden_that_its_command_stopped_still_keeps_the_limit(commands: Commands, tmp_path: Path) -> None:
    done = commands.run(TREE + "kill -STOP $PPID; sleep 1000", cwd=tmp_path, timeout_s=0.5, command_id=named("stopped"))
    assert done.timed_out
    assert done.seconds < 5
    assert carrying(named("stopped")) == []


def test_a_command_that_kills_both_who_watch_it_is_found_by_its_mark(commands: Commands, tmp_path: Path) -> None:
    commands.run("true", cwd=tmp_path, timeout_s=LONG)
    both = f"kill -9 {spawner_of(commands)} $PPID; sleep 1000"
    done = commands.run(TREE + both, cwd=tmp_path, timeout_s=LONG, command_id=named("both"))
    assert done.cancelled == "the process that watched it was killed"
    assert carrying(named("both")) == []


# --- what a dead host left ---


@pytest.fixture
def left() -> Iterator[subprocess.Popen[bytes]]:
    """A tree in a session of its own that carries the mark of the command `left`."""
    made = subprocess.Popen(
        ["bash", "-c", "setsid sleep 1001 & sleep 1002 & echo up; sleep 1003"],
        env={"PATH": os.environ["PATH"], "COTERIE_COMMAND": named("left")},
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert made.stdout is not None
    assert made.stdout.readline() == b"up\n"
    assert soon(
        lambda: sorted(Path(f"/proc/{pid}/comm").read_text() for pid in carrying(named("left"))) == ["sleep\n"] * 3
    )
    yield made
    for pid in {made.pid, *descendants([made.pid]), *carrying(named("left"))}:
        os.kill(pid, signal.SIGKILL)
    made.stdout.close()
    made.wait()


def mark_of(left: subprocess.Popen[bytes], **changes: object) -> ProcessMark:
    found = process(left.pid)
    assert found is not None
    mark = ProcessMark(command_id=named("left"), pid=left.pid, start=found.start, boot=boot_id())
    return mark.model_copy(update=changes)


def test_leftovers_are_ended_whole_by_their_mark(left: subprocess.Popen[bytes]) -> None:
    mark = mark_of(left)
    assert len(carrying(named("left"))) == 3
    assert kill_leftovers([mark]) == [mark]
    assert carrying(named("left")) == []
    assert kill_leftovers([mark]) == []


def test_leftovers_are_found_by_pid_and_start_though_they_hide_their_mark(left: subprocess.Popen[bytes]) -> None:
    mark = mark_of(left, command_id="other.1")
    assert kill_leftovers([mark]) == [mark]
    assert not is_alive(mark.pid, mark.start)
    assert not descendants([left.pid])


@pytest.mark.parametrize("changes", [{"start": 1, "command_id": "other.1"}, {"boot": "an earlier one"}])
def test_a_namesake_pid_and_an_earlier_boot_are_left_alone(
    left: subprocess.Popen[bytes], changes: dict[str, object]
) -> None:
    assert kill_leftovers([mark_of(left, **changes)]) == []
    assert len(carrying(named("left"))) == 3


def test_what_only_sits_in_the_session_is_told_and_not_killed(left: subprocess.Popen[bytes]) -> None:
    told: list[str] = []
    mark = mark_of(left, start=1, command_id="other.1")
    assert kill_leftovers([mark], unproved=lambda mark, reason: told.append(reason)) == []
    assert len(told) == 2  # all but the one with a session of its own
    assert all("other.1" in each for each in told)


def test_this_process_and_those_above_it_are_never_ended() -> None:
    asking = """
import os
from coterie.teammates.commands import ProcessMark, kill_leftovers
from coterie.teammates.processes import boot_id, process
pid, name = os.getpid(), os.environ["COTERIE_COMMAND"]
print(kill_leftovers([ProcessMark(command_id=name, pid=pid, start=process(pid).start, boot=boot_id())]))
"""
    done = subprocess.run([sys.executable, "-c", asking], env=os.environ | {"COTERIE_COMMAND": named("self")},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")

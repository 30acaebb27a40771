"""Running a command: what comes back, and when it is over."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.errors import Refused
from coterie.teammates.cancel import Cancel
from coterie.teammates.commands import Commands, Finished, ProcessMark
from coterie.teammates.launcher import CommandNotStarted
from coterie.teammates.output import TEXT_CAP, read_output
from coterie.teammates.processes import is_alive, processes
from coterie.teammates.sandbox import NoSandbox

LONG = 30.0  # seconds: a limit that is not meant to be reached


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def commands(tmp_path: Path, said: list[str]) -> Iterator[Commands]:
    with Commands(tmp_path / "output", sandbox=NoSandbox(), ceiling=[tmp_path], report=said.append) as made:
        yield made


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


def carrying(command_id: str) -> list[int]:
    """The pids of the living processes that carry the id of a command."""
    found = []
    for pid, each in processes().items():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if f"COTERIE_COMMAND={command_id}".encode() in environ.split(b"\0") and not each.dead:
            found.append(pid)
    return found


# --- what comes back ---


def test_a_command_answers_its_exit_code_and_both_streams_in_order(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("echo one; echo two >&2; pwd; exit 3", cwd=tmp_path, timeout_s=LONG)
    assert (done.exit_code, done.text) == (3, f"one\ntwo\n{tmp_path}\n")
    assert (done.timed_out, done.cancelled, done.output_id, done.ok) == (False, None, None, False)


def test_a_list_runs_without_a_shell(commands: Commands, tmp_path: Path) -> None:
    assert commands.run(["echo", "$HOME; *"], cwd=tmp_path, timeout_s=LONG).text == "$HOME; *\n"


def test_a_signal_of_its_own_making_is_told_as_a_shell_tells_it(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("kill -9 $$", cwd=tmp_path, timeout_s=LONG)
    assert (done.exit_code, done.cancelled, done.timed_out) == (137, None, False)


def test_a_program_that_is_not_there_ends_with_127_and_its_name(commands: Commands, tmp_path: Path) -> None:
    done = commands.run(["no-such-program"], cwd=tmp_path, timeout_s=LONG)
    assert done.exit_code == 127
    assert "no-such-program" in done.text


def test_a_command_that_is_longer_than_the_kernel_takes_is_an_answer_too(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("true " + "x" * 300_000, cwd=tmp_path, timeout_s=LONG)
    assert done.exit_code == 126
    assert "too long" in done.text


@pytest.mark.parametrize("command", ["", "  ", "echo \0", []])
def test_what_cannot_be_a_command_is_refused(commands: Commands, tmp_path: Path, command: str) -> None:
    with pytest.raises(Refused):
        commands.run(command, cwd=tmp_path, timeout_s=LONG)


def test_a_folder_that_is_not_there_is_refused_and_no_other_is_taken(commands: Commands, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gone"):
        commands.run("touch here", cwd=tmp_path / "gone", timeout_s=LONG)


def test_reading_only_is_refused_where_nothing_keeps_it(commands: Commands, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="sandbox"):
        commands.run("true", cwd=tmp_path, timeout_s=LONG, writable=False)


def test_names_and_arguments_that_are_not_utf8_arrive_as_they_are(commands: Commands, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    done = commands.run(["sh", "-c", 'pwd | od -An -c; printf %s "$1" | od -An -tx1', "-", os.fsdecode(b"\xff")],
                        cwd=folder, timeout_s=LONG)  # fmt: skip
    assert "351" in done.text
    assert done.text.strip().endswith("ff")


def test_many_commands_at_once_keep_their_outputs_apart(commands: Commands, tmp_path: Path) -> None:
    texts: dict[int, str] = {}

    def one(number: int) -> None:
        for _ in range(5):
            texts[number] = commands.run(f"echo {number}", cwd=tmp_path, timeout_s=LONG).text

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: f"{number}\n" for number in range(12)}


# --- when it is over ---


def test_waiting_for_input_ends_at_once(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("cat; read x || echo none; (read y </dev/tty) 2>&1 | wc -l", cwd=tmp_path, timeout_s=LONG)
    assert done.text.split() == ["none", "1"]
    assert done.seconds < 5


def test_a_child_that_holds_the_pipe_does_not_hold_the_call(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("sleep 1000 & echo started", cwd=tmp_path, timeout_s=LONG, command_id=named("holds"))
    assert (done.exit_code, done.text) == (0, "started\n")
    assert done.seconds < 5
    assert carrying(named("holds")) == []


ESCAPES = """
setsid sleep 1001 &
nohup sleep 1002 >/dev/null 2>&1 &
(setsid sh -c 'sleep 1003 & sleep 1004 &' &)
sh -c 'trap "" TERM HUP INT; sleep 1005' & disown
python3 -c 'import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("deep", "w").write(str(os.getpid()))
        time.sleep(1006)' &
while [ ! -s deep ]; do sleep 0.02; done
echo all there
"""


@pytest.mark.parametrize("ending", ["exit 0", "sleep 1000", "kill -STOP $$"])
def test_nothing_of_a_tree_outlives_the_command(commands: Commands, tmp_path: Path, ending: str) -> None:
    limit = LONG if ending == "exit 0" else 2.0
    done = commands.run(ESCAPES + ending, cwd=tmp_path, timeout_s=limit, command_id=named("tree"))
    assert done.timed_out is (ending != "exit 0")
    assert done.exit_code == (None if done.timed_out else 0)
    assert done.text.endswith("all there\n")
    assert carrying(named("tree")) == []


def test_a_command_that_is_killed_answers_with_what_it_printed_and_leaves_nothing(
    commands: Commands, tmp_path: Path
) -> None:
    done = commands.run(ESCAPES + "kill -KILL $$", cwd=tmp_path, timeout_s=LONG, command_id=named("killed"))
    assert (done.exit_code, done.timed_out) == (128 + 9, False)
    assert done.text.endswith("all there\n")
    assert carrying(named("killed")) == []


def test_a_tree_that_forks_as_fast_as_it_can_is_ended(commands: Commands, tmp_path: Path) -> None:
    storm = "f() { while :; do (exec sleep 0.2) & (f2 &) ; sleep 0.01; done; }; f2() { sleep 0.3 & }; f & f & f & wait"
    done = commands.run(storm, cwd=tmp_path, timeout_s=0.7, command_id=named("storm"))
    assert done.timed_out
    assert carrying(named("storm")) == []


def test_at_the_limit_what_was_printed_is_returned(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("echo before; sleep 1000; echo after", cwd=tmp_path, timeout_s=0.3)
    assert (done.text, done.timed_out, done.exit_code, done.cancelled) == ("before\n", True, None, None)
    assert 0.3 <= done.seconds < 5


def test_a_command_that_closed_its_output_is_still_waited_for(commands: Commands, tmp_path: Path) -> None:
    assert commands.run("exec >&- 2>&-; sleep 0.2; exit 4", cwd=tmp_path, timeout_s=LONG).exit_code == 4


def test_output_through_a_child_that_ends_a_moment_later_arrives(commands: Commands, tmp_path: Path) -> None:
    command = 'exec > >(sleep 0.03; while read -r line; do echo "got $line"; done); echo it'
    assert commands.run(command, cwd=tmp_path, timeout_s=LONG).text == "got it\n"


def test_a_cancel_ends_the_tree_and_is_told_with_its_reason(commands: Commands, tmp_path: Path) -> None:
    cancel = Cancel()

    def heard(text: str) -> None:
        threading.Thread(target=cancel.set, args=("an urgent message",)).start()

    command = ESCAPES + "sleep 1000"
    done = commands.run(command, cwd=tmp_path, timeout_s=LONG, cancel=cancel, on_output=heard, command_id=named("cut"))
    assert (done.cancelled, done.exit_code, done.timed_out) == ("an urgent message", None, False)
    assert done.text.endswith("all there\n")
    assert done.seconds < 10
    assert carrying(named("cut")) == []


def test_a_command_that_was_cancelled_before_never_begins(commands: Commands, tmp_path: Path) -> None:
    cancel = Cancel()
    cancel.set("too late")
    started: list[ProcessMark] = []
    done = commands.run("touch it", cwd=tmp_path, timeout_s=LONG, cancel=cancel, started=started.append)
    assert (done.cancelled, done.exit_code, started) == ("too late", None, [])
    assert not (tmp_path / "it").exists()


def test_a_cancel_while_it_is_being_recorded_comes_in_time(commands: Commands, tmp_path: Path) -> None:
    for _ in range(30):  # the two words to the warden may arrive as one piece, or as two
        cancel = Cancel()
        done = commands.run(
            "touch it",
            cwd=tmp_path,
            timeout_s=LONG,
            cancel=cancel,
            started=lambda mark, cancel=cancel: cancel.set("now"),
        )
        assert done.cancelled == "now"
        assert not (tmp_path / "it").exists()


# --- it is recorded before it begins ---


def test_a_command_begins_only_after_it_was_recorded(commands: Commands, tmp_path: Path) -> None:
    seen: list[tuple[ProcessMark, bool, bool]] = []

    def started(mark: ProcessMark) -> None:
        seen.append((mark, is_alive(mark.pid, mark.start), (tmp_path / "it").exists()))

    done = commands.run("touch it; echo $$", cwd=tmp_path, timeout_s=LONG, started=started, command_id="c1")
    mark, alive, begun = seen[0]
    assert (alive, begun, mark.command_id) == (True, False, "c1")
    assert done.text == f"{mark.pid}\n"
    assert not is_alive(mark.pid, mark.start)


def test_a_command_that_could_not_be_recorded_never_begins(commands: Commands, tmp_path: Path) -> None:
    marks: list[ProcessMark] = []

    def started(mark: ProcessMark) -> None:
        marks.append(mark)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        commands.run("touch it", cwd=tmp_path, timeout_s=LONG, started=started)
    assert soon(lambda: not is_alive(marks[0].pid, marks[0].start))
    assert not (tmp_path / "it").exists()
    assert commands.running() == ()


# --- background ---


def test_a_background_command_can_be_looked_at_and_stopped(commands: Commands, tmp_path: Path) -> None:
    command_id = commands.start("echo ready; sleep 1000 & sleep 1000", cwd=tmp_path, timeout_s=None, owner="ada")
    assert command_id.startswith("ada.")
    assert soon(lambda: commands.progress(command_id).text == "ready\n")
    assert commands.progress(command_id).finished is None
    assert commands.running("ada") == (command_id,)
    stopped = commands.stop(command_id, "not needed")
    assert stopped.finished is not None
    assert (stopped.finished.cancelled, stopped.finished.exit_code) == ("not needed", None)
    assert carrying(command_id) == []
    assert commands.running() == ()


def test_a_background_command_says_when_it_has_ended(commands: Commands, tmp_path: Path) -> None:
    ended: list[Finished] = []
    over = threading.Event()

    def finished(done: Finished) -> None:
        ended.append(done)
        over.set()

    command_id = commands.start("echo x; exit 5", cwd=tmp_path, timeout_s=LONG, owner="ada", on_finished=finished)
    assert over.wait(10)
    assert (ended[0].exit_code, ended[0].text) == (5, "x\n")
    assert commands.progress(command_id).finished == ended[0]


def test_stopping_all_of_an_owner_leaves_those_of_others(commands: Commands, tmp_path: Path) -> None:
    mine = [commands.start("sleep 1000", cwd=tmp_path, timeout_s=None, owner="ada") for _ in range(3)]
    other = commands.start("sleep 1000", cwd=tmp_path, timeout_s=None, owner="bob")
    commands.stop_all("ada")
    assert commands.running() == (other,)
    assert [carrying(each) for each in mine] == [[], [], []]
    with pytest.raises(Refused, match="bob"):
        commands.progress(mine[0])


def test_closing_ends_everything_and_starts_nothing_more(commands: Commands, tmp_path: Path) -> None:
    command_id = commands.start("setsid sleep 1000; sleep 1000", cwd=tmp_path, timeout_s=None, owner="ada")
    commands.close()
    assert carrying(command_id) == []
    with pytest.raises((Refused, CommandNotStarted)):
        commands.run("true", cwd=tmp_path, timeout_s=LONG)
    commands.close()


# --- output ---


def test_a_long_output_is_read_on_by_lines(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("seq 20000", cwd=tmp_path, timeout_s=LONG, owner="ada")
    assert done.output_id is not None
    assert len(done.text.encode()) <= TEXT_CAP + 200
    assert read_output(tmp_path / "output", done.output_id, offset=9000, limit=2, owner="ada").startswith(
        "9000\n9001\n[…"
    )


def test_binary_and_coloured_output_is_readable(commands: Commands, tmp_path: Path) -> None:
    done = commands.run(r"printf '\033[31mred\033[0m \xff\x00\x07ok\r\n\033]0;title\007end'", cwd=tmp_path,
                        timeout_s=LONG)  # fmt: skip
    assert done.text == "red \ufffdok\nend"


def test_a_short_output_is_kept_when_asked(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("echo proof", cwd=tmp_path, timeout_s=LONG, keep_output=True, command_id="queue.1")
    again = commands.run("echo proof 2", cwd=tmp_path, timeout_s=LONG, keep_output=True, command_id="queue.1")
    assert (done.output_id, again.output_id) == ("queue.1", "queue.1.2")
    assert (tmp_path / "output/queue.1").read_text() == "proof\n"


def test_a_folder_that_cannot_be_written_costs_the_file_and_not_the_command(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("a file where the folder should be")
    with Commands(tmp_path / "output", sandbox=NoSandbox()) as commands:
        done = commands.run("seq 20000", cwd=tmp_path, timeout_s=LONG)
    assert (done.exit_code, done.output_id) == (0, None)
    assert "could not be kept" in done.text

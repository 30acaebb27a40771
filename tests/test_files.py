"""The write path and the locks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie import files
from coterie.errors import Refused


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"schema": 1, "text": "é\n"})
    assert files.read_json(tmp_path / "a.json") == {"schema": 1, "text": "é\n"}
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty file"),
        (b"\0\0\0\0", "NUL"),
        (b'{"a": 1', "JSON object"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'{"a": 1, "history": [{}, {"at": 1, "by": {"x": 1, "y": 2, "x": 3}}]}', "'history.1.by.x' twice"),
        (b'[{"a": 1, "a": 2}]', "'0.a' twice"),
        (b'{"a": NaN}', "NaN"),
        (b"[1]", "list"),
        (b'{"a": "\xff"}', "UTF-8"),
    ],
)
def test_what_is_no_record_is_said_and_never_becomes_a_default(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "T1.json"
    path.write_bytes(data)
    with pytest.raises(files.Unreadable, match=says):
        files.read_json(path)


def test_symlinks_fifos_folders_and_large_files_are_not_read(tmp_path: Path) -> None:
    import os

    (tmp_path / "real").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"{" + b" " * 100)
    for name in ("link", "fifo", "folder"):
        with pytest.raises(files.Unreadable, match="regular file"):
            files.read_json(tmp_path / name)
    with pytest.raises(files.Unreadable, match="at most 50 bytes"):
        files.read_json(tmp_path / "large", limit=50)


def test_a_file_that_an_editor_is_still_writing_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"")
    writer = threading.Timer(0.1, lambda: path.write_bytes(b'{"a": 1}'))
    writer.start()
    assert files.read_json(path, settle=10.0) == {"a": 1}
    writer.join()


def test_a_file_set_aside_never_replaces_another(tmp_path: Path) -> None:
    for content in ("one", "two"):
        (tmp_path / "T1.json").write_text(content)
        files.set_aside(tmp_path / "T1.json")
    assert sorted(each.name for each in (tmp_path / "bad").iterdir()) == ["T1.json", "T1.json.1"]


def test_threads_get_a_lock_one_at_a_time_and_may_nest_it(tmp_path: Path) -> None:
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with files.locked(tmp_path / "lock"), files.locked(tmp_path / "lock"):
                inside += 1
                most = max(most, inside)
                time.sleep(0)  # lets another thread in, if the lock does
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_processes_get_a_lock_one_at_a_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    child = (
        "import sys; from pathlib import Path; from coterie import files\n"
        "root = Path(sys.argv[1])\n"
        "for _ in range(100):\n"
        "    with files.locked(root / 'lock'):\n"
        "        (root / 'counter').write_text(str(int((root / 'counter').read_text()) + 1))\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", child, str(tmp_path)]) for _ in range(3)]
    assert [each.wait(60) for each in children] == [0, 0, 0]
    assert counter.read_text() == "300"


def test_a_lock_that_another_thread_keeps_times_out_and_says_so(tmp_path: Path) -> None:
    taken = threading.Event()
    done = threading.Event()

    def keep() -> None:
        with files.locked(tmp_path / "lock"):
            taken.set()
            done.wait(20)

    thread = threading.Thread(target=keep)
    thread.start()
    taken.wait(20)
    with pytest.raises(files.LockTimeout, match="not free"), files.locked(tmp_path / "lock", timeout=0.05):
        pass
    done.set()
    thread.join()


def process_that_has(lock: Path) -> subprocess.Popen[bytes]:
    """Another process with a lock, until its standard input ends."""
    code = (
        "import sys; from pathlib import Path; from coterie import files\n"
        "with files.locked(Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"locked\n"
    return child


def test_a_lock_that_another_process_keeps_says_its_pid(tmp_path: Path) -> None:
    child = process_that_has(tmp_path / "lock")
    with pytest.raises(files.LockTimeout, match=f"process {child.pid} holds it") as told:
        with files.locked(tmp_path / "lock", timeout=0.05):
            pass
    assert told.value.pid == child.pid == files.holder(tmp_path / "lock")
    child.communicate()
    assert files.holder(tmp_path / "lock") is None


def test_a_lock_whose_holder_is_killed_is_free_at_once_for_who_waits(tmp_path: Path) -> None:
    child = process_that_has(tmp_path / "lock")
    got = threading.Event()

    def wait() -> None:
        with files.locked(tmp_path / "lock", timeout=60):
            got.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not got.wait(0.1)
    child.kill()
    assert got.wait(20), "the next gets it without any time-out"
    waiter.join()
    child.communicate()


def test_the_lock_of_a_dead_process_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "p.lock"
    kept = files.hold(path, {"pid": 1})
    assert not files.drop_lock(path) and path.exists()
    kept.release()
    assert files.drop_lock(path) and not path.exists() and files.drop_lock(path)
    again = files.hold(path, {"pid": 2})
    assert files.held(path) and files.read_info(path) == {"pid": 2}
    again.release()


def test_a_hold_is_seen_by_others_says_who_and_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "p.lock"
    assert not files.held(path)
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from coterie import files\n"
            "kept = files.hold(Path(sys.argv[1]), {'pid': 42, 'started': 'then'}); print('held', flush=True)\n"
            "sys.stdin.read()",
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stdout.readline() == b"held\n"
    assert files.held(path)
    with pytest.raises(files.Held, match="pid 42"):
        files.hold(path, {}, patience=0.05)
    child.kill()
    child.communicate()
    assert not files.held(path)
    files.hold(path, {"pid": 1}).release()


@pytest.mark.parametrize("name", ["", "Ada", "../x", "a/b", "-a", "a\n", "a" * 33, "lead", "human", "1a"])
def test_names_that_cannot_be_paths_are_refused(name: str) -> None:
    with pytest.raises(Refused):
        files.check_name(name)


def test_text_that_is_shown_has_no_control_sequences() -> None:
    assert files.clean("a\x1b[31mred\u202e\n") == "a[31mred\n"
    assert len(files.clean("x" * 100_000, 200)) == 200


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is fsynced and what is renamed, in order."""
    seen: list[str] = []
    fsync, replace = os.fsync, os.replace

    def see_fsync(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().name
        seen.append("fsync of a temp file" if name.endswith(".tmp") else "fsync of the folder")
        fsync(handle)

    def see_replace(source: str, target: str) -> None:
        seen.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", see_fsync)
    monkeypatch.setattr(os, "replace", see_replace)
    yield seen
    files.promise(files.Durability.POWER)


def test_a_write_is_on_the_disk_before_its_name_and_its_name_before_it_is_acknowledged(
    tmp_path: Path, synced: list[str]
) -> None:
    files.write_json(tmp_path / "a.json", {"schema": 1})
    assert synced == ["fsync of a temp file", "replace", "fsync of the folder"]
    synced.clear()
    with files.locked(tmp_path / "lock"):
        files.write_json(tmp_path / "a.json", {"schema": 1})
        assert synced[-2:] == ["fsync of a temp file", "replace"]
    assert synced[-1] == "fsync of the folder"


def test_where_only_processes_may_die_nothing_is_fsynced(tmp_path: Path, synced: list[str]) -> None:
    files.promise(files.Durability.PROCESS)
    files.write_json(tmp_path / "a.json", {"schema": 1})
    files.append(tmp_path / "a.jsonl", b"{}\n")
    files.make_folder(tmp_path / "b" / "c")
    files.move(tmp_path / "a.json", tmp_path / "b" / "a.json")
    files.truncate(tmp_path / "a.jsonl", 0)
    assert [each for each in synced if each != "replace"] == []
    assert files.read_json(tmp_path / "b" / "a.json") == {"schema": 1}


def test_a_file_that_is_to_be_replaced_keeps_its_name_while_it_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "T1.json"
    path.write_bytes(b"{")
    assert files.set_aside(path, stays=True) == tmp_path / "bad" / "T1.json"
    assert path.read_bytes() == (tmp_path / "bad" / "T1.json").read_bytes() == b"{"
    files.write_bytes(path, b"{}")
    assert (tmp_path / "bad" / "T1.json").read_bytes() == b"{"
    path.unlink()
    path.mkdir()  # a folder has but one name
    assert files.set_aside(path, stays=True) == tmp_path / "bad" / "T1.json.1"
    assert not path.exists()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO])
def test_a_machine_that_cannot_open_a_file_now_is_no_damage_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    files.write_json(tmp_path / "a.json", {"schema": 1})

    def fails(path: object, flags: int, mode: int = 0o777) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as lack:
        lack.setattr(os, "open", fails)
        with pytest.raises(OSError, match=os.strerror(number)):
            files.read_json(tmp_path / "a.json")
    assert files.read_json(tmp_path / "a.json") == {"schema": 1}


TRIES = """
import sys
from pathlib import Path
from coterie import files
tries = 0
def hear(event, arguments):
    global tries
    tries += event == "fcntl.flock"
sys.addaudithook(hear)
try:
    with files.locked(Path(sys.argv[1]), timeout=1.0):
        pass
except files.LockTimeout:
    print(tries)
"""


def test_who_waits_longer_for_a_lock_tries_more_seldom(tmp_path: Path) -> None:
    """Else fifty that wait take the processor from the one that has it. At 2 ms a second would see some 500 tries."""
    with files.locked(tmp_path / "lock"):
        done = subprocess.run([sys.executable, "-c", TRIES, str(tmp_path / "lock")], capture_output=True, text=True)
    assert done.stderr == "" and 5 < int(done.stdout) < 150

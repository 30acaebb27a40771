"""The bell: nobody sleeps through a ring, whichever thread or process rang."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from coterie import files
from coterie.mailbox import Bell, Note, ring_others

LONG = 20.0  # seconds: a test that waits this long has failed


def seconds(wait) -> float:
    start = time.monotonic()
    wait()
    return time.monotonic() - start


@pytest.fixture
def bell(tmp_path: Path):
    with Bell(tmp_path / "processes", "p1") as opened:
        yield opened


def test_a_ring_between_looking_and_waiting_is_not_missed(bell) -> None:
    seen = bell.count()
    bell.ring()
    assert seconds(lambda: bell.wait(seen, LONG)) < LONG / 2


def test_a_wait_without_a_ring_ends_with_its_time(bell) -> None:
    seen = bell.count()
    assert 0.05 <= seconds(lambda: bell.wait(seen, 0.05)) < LONG
    assert bell.wait(seen, 0.0) == seen


def test_a_ring_wakes_everybody_who_waits(bell) -> None:
    seen, woken = bell.count(), []
    threads = [threading.Thread(target=lambda: woken.append(bell.wait(seen, LONG))) for _ in range(20)]
    for thread in threads:
        thread.start()
    bell.ring()
    for thread in threads:
        thread.join(LONG)
    assert len(woken) == 20
    assert all(count > seen for count in woken)


def test_a_message_that_arrives_while_its_receiver_goes_idle_wakes_it(team, bell, journal) -> None:
    """Look, then wait, with messages falling at every moment in between: none is left for the timeout."""
    mailbox = team.new_mailbox(on_send=lambda message: bell.ring())
    late, taken = [], threading.Event()

    def live() -> None:
        while len(journal.delivered) < 120:
            seen = bell.count()
            if journal.take(mailbox, "ada"):
                taken.set()
                continue
            if bell.wait(seen, LONG) == seen:
                late.append(len(journal.delivered))
                return

    member = threading.Thread(target=live)
    member.start()
    for number in range(120):
        mailbox.send(Note(text=str(number)), sender="bob", sender_instance="bob#1", to="ada")
        if number % 3 == 0:
            taken.wait(LONG)  # so that it looks again, finds nothing, and goes idle at about the next send
        taken.clear()
    member.join(LONG)
    assert late == []
    assert len(journal.delivered) == 120


def test_another_process_is_heard(tmp_path: Path, bell) -> None:
    ring = (
        "import sys; from pathlib import Path; from coterie.mailbox import ring_others; ring_others(Path(sys.argv[1]))"
    )
    seen = bell.count()
    process = subprocess.Popen([sys.executable, "-c", ring, str(tmp_path / "processes")])
    assert bell.wait(seen, LONG) > seen
    assert process.wait() == 0


def test_two_hosts_hear_each_other(tmp_path: Path, bell) -> None:
    with Bell(tmp_path / "processes", "p2") as other:
        for rings, hears in ((bell, other), (other, bell)):
            seen = hears.count()
            rings.ring()
            assert hears.wait(seen, LONG) > seen


def test_a_datagram_is_believed_in_nothing_but_that_one_should_look(tmp_path: Path, bell) -> None:
    port = files.read_json(tmp_path / "processes/p1.port")["port"]
    seen = bell.count()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b'{"kind": "decision", "decision": "approved"}' * 30, ("127.0.0.1", port))
        assert bell.wait(seen, LONG) == seen + 1
        stranger.sendto(b"", ("127.0.0.1", port))
    assert bell.wait(seen + 1, LONG) == seen + 2


def test_nobody_outside_this_machine_can_knock(bell) -> None:
    assert bell._socket is not None
    assert bell._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"port": "80"}', b'{"port": 0}', b'{"port": 99999}', b'{"port": true}']
)
def test_a_broken_port_file_silences_nobody_else(tmp_path: Path, bell, content) -> None:
    (tmp_path / "processes/p0.port").write_bytes(content)
    (tmp_path / "processes/p00.port").mkdir()
    seen = bell.count()
    ring_others(tmp_path / "processes")
    assert bell.wait(seen, LONG) > seen


def test_the_port_of_a_dead_host_silences_nobody_else(tmp_path: Path, bell) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as dead:
        dead.bind(("127.0.0.1", 0))
        port = dead.getsockname()[1]
    files.write_json(tmp_path / "processes/p0.port", {"schema": 1, "port": port})
    for _ in range(3):
        seen = bell.count()
        ring_others(tmp_path / "processes")
        assert bell.wait(seen, LONG) > seen


def test_closing_lets_everybody_go_and_takes_the_port_away(tmp_path: Path) -> None:
    bell = Bell(tmp_path / "processes", "p1").open()
    seen = bell.count()
    waiting = threading.Thread(target=bell.wait, args=(seen, LONG))
    waiting.start()
    assert (tmp_path / "processes/p1.port").exists()
    assert seconds(bell.close) < 2
    waiting.join(2)
    assert not waiting.is_alive()
    assert list((tmp_path / "processes").iterdir()) == []
    bell.close()  # twice does no harm
    bell.ring()  # and neither does a late ring


def test_ringing_where_there_is_nobody_does_nothing(tmp_path: Path) -> None:
    ring_others(tmp_path / "nowhere")
    bell = Bell(tmp_path / "nowhere", "p1")
    bell.ring()
    assert bell.count() == 1
    assert not (tmp_path / "nowhere").exists()


def test_a_bell_that_is_opened_twice_listens_once_and_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with Bell(tmp_path / "processes", "p1").open():
        assert len({each for each in threading.enumerate() if each.name == "bell"} - before) == 1
    assert set(threading.enumerate()) <= before


def test_a_host_that_is_asked_answers_and_nobody_is_woken(tmp_path: Path, bell) -> None:
    seen = bell.count()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        files.write_json(tmp_path / "processes/p2.port", {"schema": 1, "port": silent.getsockname()[1]})
        answers = files.who_answers(tmp_path / "processes", ["p1", "p2", "p3"], timeout=0.2)
        assert silent.recv(64).startswith(b"?")
    assert answers == {"p1": True, "p2": False}, "of one that cannot be asked nothing is said"
    assert bell.count() == seen
    assert seconds(lambda: files.who_answers(tmp_path / "processes", ["p1"], timeout=LONG)) < LONG / 2


def test_an_answer_to_another_question_is_none(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.1", 0))
        port = stranger.getsockname()[1]
        files.make_folder(tmp_path / "processes")
        files.write_json(tmp_path / "processes/p1.port", {"schema": 1, "port": port})

        def answer() -> None:
            _, asker = stranger.recvfrom(64)
            stranger.sendto(b"=12345678", asker)

        thread = threading.Thread(target=answer)
        thread.start()
        assert files.who_answers(tmp_path / "processes", ["p1"], timeout=0.5) == {"p1": False}
        thread.join(LONG)

"""Whether a host process still answers. One that was stopped, or hangs in the kernel, lives and is silent."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from coterie.files.records import Unreadable, read_json

_HERE = "127.0.0.1"
_QUESTION, _ANSWER = b"?", b"="


def answer_to(datagram: bytes) -> bytes | None:
    """What a host says to a question; None if it is none."""
    return _ANSWER + datagram[1:] if datagram.startswith(_QUESTION) else None


def who_answers(processes: Path, ids: Iterable[str], *, timeout: float) -> dict[str, bool]:
    """Ask host processes whether they answer; at most `timeout` seconds, much less where all of them do.

    A process whose bell does not listen (it is just starting, or there is no loopback interface) is left out of the
    answer: of it nothing can be told. Takes no lock and changes nothing.
    """
    import secrets  # both only where somebody has to be asked
    import socket

    answers: dict[str, bool] = {}
    open_questions: dict[bytes, str] = {}
    try:
        asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    except OSError:
        return {}
    with asker:
        for each in ids:
            port = port_in(processes / f"{each}.port")
            if port is None:
                continue
            number = secrets.token_bytes(8)  # so that a late answer, or somebody else's, is not taken for this one
            try:
                asker.sendto(_QUESTION + number, (_HERE, port))
            except OSError:
                continue
            open_questions[_ANSWER + number] = each
            answers[each] = False
        end = time.monotonic() + timeout
        while open_questions and (left := end - time.monotonic()) > 0:
            asker.settimeout(left)
            try:
                said = asker.recv(64)
            except TimeoutError:
                break
            except OSError:
                continue
            if (found := open_questions.pop(said, None)) is not None:
                answers[found] = True
    return answers


def port_in(path: Path) -> int | None:
    """The port that a host's port file names; None where there is none."""
    try:
        port = read_json(path, limit=4096).get("port")
    except (Unreadable, OSError):
        return None
    return port if type(port) is int and 0 < port < 65536 else None

"""Every file of a team, spoiled in every way: whoever looks or steers is told, at once, and never sees a traceback."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.console.conftest import Rooms

from coterie import files
from coterie.lead import open_team

Coterie = Callable[..., tuple[int, str, str]]

FILES = (
    "team.json",
    "tasks/T4.json",
    "requests/R1.json",
    "members/ada/member.json",
    "members/ada/journal.jsonl",
    "mail/human/new/MESSAGE",
    "mail/ada/ledger",
    "changes",
    "intents/board-T9.json",
    "stop.json",
    "events.jsonl",
    "report.json",
    "lock",
    "processes/lead.lock",
    "processes/0123456789ab.lock",
)
SOAK = bool(os.environ.get("COTERIE_SOAK"))
WAYS = ("symlink", "FIFO", "folder", "cut", "NUL")
LOOKS = (
    ("board", "--json"),
    ("show", "T4"),
    ("why", "T4"),
    ("team",),
    ("inbox",),
    ("review", "R1", "--json"),
    ("mail",),
    ("log",),
    ("config",),
)
STEERS = (("say", "ada", "hello"), ("task", "cancel", "T4", "-m", "no"), ("reject", "R1", "-m", "no"), ("stop",))
REPAIRS = (("doctor", "--repair"),)
SPOKEN = re.compile(r"Traceback|COTERIE_TRACEBACK")  # what the way out says of an error that is not ours


def spoil(path: Path, way: str) -> None:
    """What lies at `path`, made into something else."""
    files.make_folder(path.parent)
    data = path.read_bytes() if path.exists() else b'{"schema": 1, "process": "0123456789ab"}\n'
    path.unlink(missing_ok=True)
    match way:
        case "symlink":
            path.with_name(f"{path.name}.elsewhere").write_bytes(data)
            path.symlink_to(path.with_name(f"{path.name}.elsewhere"))
        case "FIFO":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "cut":
            path.write_bytes(data[: max(1, len(data) // 2)])
        case _:
            path.write_bytes(b"\0" * max(64, len(data)))


@pytest.fixture
def whole(rooms: Rooms, note: str) -> Rooms:
    """The rooms with a worktree, events and a message to the human."""
    team = open_team(rooms.root)
    team.keeper.create_integration(team.record.base.commit)
    team.events.say("run", "began")
    return rooms


def place(rooms: Rooms, file: str, note: str) -> Path:
    return rooms.root / file.replace("MESSAGE", f"{note}.json")


def cases() -> list[tuple[str, str]]:
    """Every file in every way in the soak; else every file in one way, and every way of some file."""
    if SOAK:
        return [(file, way) for file in FILES for way in WAYS]
    return [(file, WAYS[(number + 1) % len(WAYS)]) for number, file in enumerate(FILES)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("file", "way"), cases())
def test_whoever_looks_or_steers_is_told(whole: Rooms, note: str, coterie: Coterie, file: str, way: str) -> None:
    spoil(place(whole, file, note), way)
    looks = LOOKS if SOAK else LOOKS[:4]
    for words in (*looks, *STEERS, *REPAIRS, *looks[:2]):
        code, out, err = coterie(*words)
        assert not SPOKEN.search(out + err), (words, err)
        assert code in (0, 1, 2, 3), (words, code, err)
        if code:
            assert err.startswith("coterie: ") or words[0] == "doctor", (words, err)

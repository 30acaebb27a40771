"""`coterie doctor`: what it says, that it changes nothing, and what `--repair` puts right."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.console.conftest import Rooms, git

from coterie import files
from coterie.lead import open_team
from coterie.taskboard import Assignment
from coterie.worktrees import Keeper

Coterie = Callable[..., tuple[int, str, str]]
GONE = "ba9876543210"  # a host process that is not there


@pytest.fixture
def team(rooms: Rooms, repository: Path) -> Rooms:
    """The rooms, with ada's worktree really there and the integration branch made."""
    keeper = open_team(rooms.root).keeper
    base = keeper.create_integration(git(repository, "rev-parse", "HEAD").strip())
    opened = keeper.open("ada", task="T1", epoch=1, base=base)
    assignment = Assignment(worktree=str(opened.path), branch=opened.branch, base=base)
    rooms.board.bind("T1", 1, assignment)
    rooms.roster.update("ada", "ada#1", worktree=str(opened.path))
    return rooms


def said(coterie: Coterie, *words: str) -> tuple[int, dict[str, Any]]:
    code, out, err = coterie("doctor", "--json", *words)
    assert out, err
    view: dict[str, Any] = json.loads(out)
    return code, view


def everything(rooms: Rooms, repository: Path) -> dict[str, str]:
    """A checksum of all there is of a team, in its folder, in git and among the worktrees."""
    state = Path(json.loads((rooms.root / "team.json").read_text())["worktrees_root"])
    found = {}
    for top in (repository / ".coterie", repository / ".git", state):
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder) / name
                if path.is_symlink() or not path.is_file():
                    found[str(path)] = "no regular file"
                else:
                    at = path.stat()
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    found[str(path)] = f"{digest} {at.st_ino} {at.st_mtime_ns} {at.st_mode}"
    return found


def spoil(rooms: Rooms) -> None:
    """What a killed host leaves."""
    files.write_json(rooms.root / "processes" / f"{GONE}.lock", {"pid": 1 << 30, "start": 1, "boot": "b"})
    (rooms.root / f"tasks/.T9.json.{GONE}-1.tmp").write_text("{")
    (rooms.root / "mail/ada/tmp/0000000099-ada.json").write_text("{")
    (rooms.root / "tasks/T6.json").write_text('{"schema": 1, ')
    with (rooms.root / "members/ada/journal.jsonl").open("ab") as journal:
        journal.write(b'{"seq": 1')


def rules(view: dict[str, Any]) -> set[str]:
    return {fault["rule"] for fault in view["teams"][0]["faults"]}


LEFT = {"dead-host", "temp-file", "half-sent", "unreadable", "torn-journal"}


def test_a_sound_team_ends_with_0(team: Rooms, coterie: Coterie) -> None:
    code, view = said(coterie)
    assert (code, view["exit"], view["teams"][0]["faults"], view["machine"]["problems"]) == (0, 0, [], [])
    code, out, err = coterie("doctor")
    assert code == 0 and "as it has to be" in out and "git 2." in out and "sandbox full" in out and err == ""


def test_damage_ends_with_3_and_says_where_and_what_to_do(team: Rooms, coterie: Coterie) -> None:
    spoil(team)
    code, view = said(coterie)
    assert (code, view["exit"], rules(view)) == (3, 3, LEFT)
    code, out, _ = coterie("doctor")
    assert code == 3 and "tasks/T6.json" in out and "coterie doctor --repair" in out


@pytest.mark.parametrize("words", [(), ("--json",), ("--team", "main")])
def test_nothing_is_changed_without_repair(
    team: Rooms, repository: Path, coterie: Coterie, words: tuple[str, ...]
) -> None:
    spoil(team)
    for damaged in (False, True):
        if damaged:  # worktrees in every bad state too
            place = Keeper.path(open_team(team.root).keeper, "ada")
            (place / "left.txt").write_text("left\n")
            (place / "one.txt").write_text("changed\n")
            at_rest = open_team(team.root).keeper.reader("ben", git(repository, "rev-parse", "HEAD").strip())
            os.utime(at_rest / "one.txt", (1, 1))  # git would refresh its index for it
        before = everything(team, repository)
        assert coterie("doctor", *words)[0] == 3
        assert everything(team, repository) == before


def test_repair_does_what_a_start_does_and_looks_again(team: Rooms, coterie: Coterie) -> None:
    spoil(team)
    code, view = said(coterie, "--repair")
    assert (code, rules(view)) == (0, set())
    repaired = "\n".join(view["teams"][0]["repaired"])
    for word in (GONE, ".tmp", "0000000099-ada.json", "T6", "torn bytes"):
        assert word in repaired
    assert view["teams"][0]["set_aside"] == ["tasks/bad/T6.json"]
    assert said(coterie)[0] == 0
    assert said(coterie, "--repair")[1]["teams"][0]["repaired"] == [], "nothing is left to do"


def test_what_repair_cannot_put_right_stays_said(team: Rooms, coterie: Coterie) -> None:
    record = json.loads((team.root / "requests/R1.json").read_text())
    files.write_json(team.root / "requests/R1.json", record | {"status": "approved", "decided_by": "ada"})
    code, view = said(coterie, "--repair")
    assert (code, rules(view)) == (3, {"own-decision"})


def test_repair_is_refused_while_a_host_runs_the_team(team: Rooms, coterie: Coterie) -> None:
    info = {"process": "0123456789ab", "started": "today", **files.process_mark(os.getpid())}
    held = files.hold(team.root / "processes" / "lead.lock", info)
    try:
        code, _, err = coterie("doctor", "--repair")
    finally:
        held.release()
    assert code == 4 and str(os.getpid()) in err and "today" in err


def test_without_a_team_only_the_machine_is_looked_at(repository: Path, coterie: Coterie) -> None:
    code, view = said(coterie)
    assert (code, view["teams"]) == (0, [])
    assert "no team here yet" in coterie("doctor")[1]
    assert not (repository / ".coterie").exists()


def test_a_machine_without_git_ends_with_5(
    team: Rooms, coterie: Coterie, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    env = subprocess.run(["which", "env"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "empty" / "env").symlink_to(env)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    code, view = said(coterie)
    assert code == 5 and "git" in view["machine"]["problems"][0]


def test_outside_of_a_repository_and_with_an_unknown_team_it_ends_with_2(
    team: Rooms, coterie: Coterie, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert coterie("doctor", "--team", "nobody")[0] == 2
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "outside")
    assert coterie("doctor")[0] == 2


def test_a_newer_schema_ends_with_2_and_is_not_repaired(team: Rooms, repository: Path, coterie: Coterie) -> None:
    record = json.loads((team.root / "tasks/T4.json").read_text())
    files.write_json(team.root / "tasks/T4.json", record | {"schema": 9})
    code, view = said(coterie)
    assert code == 2 and rules(view) == {"newer-schema"}
    before = everything(team, repository)
    assert said(coterie, "--repair")[0] == 2
    after = everything(team, repository)
    lock = str(team.root / "processes/lead.lock")
    assert {**after, lock: ""} == {**before, lock: ""}


def test_a_team_whose_record_is_gone_is_told_of(team: Rooms, coterie: Coterie) -> None:
    (team.root / "team.json").unlink()
    code, view = said(coterie)
    assert code == 3 and [fault["where"] for fault in view["teams"][0]["faults"]] == ["team.json"]
    assert coterie("doctor", "--repair")[0] == 3

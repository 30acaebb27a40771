"""A journal or a record that is damaged at a start stops its member, and nobody else."""

from __future__ import annotations

import os

import pytest
from tests.acceptance.crew import crew
from tests.teammates.stage import Stage

from coterie.lead.audit import audit

TASKS = [{"ref": "a", "subject": "A", "description": "write a.txt a"}]


@pytest.mark.parametrize("name", ["lead", "ada"])
@pytest.mark.parametrize("way", ["garbage", "FIFO"])
def test_a_damaged_journal_is_set_aside_and_the_team_goes_on(stage: Stage, name: str, way: str) -> None:
    team = stage.create()
    team.roster.spawn(name, model="m")
    path = stage.root / "members" / name / "journal.jsonl"
    if way == "FIFO":
        os.mkfifo(path)
    else:
        path.write_bytes(b"no record\nand another\n")
    outcome = stage.go(crew(TASKS, ("ben",)))
    assert outcome.exit_code == 0 and stage.merged("a.txt") == "a\n"
    assert os.path.lexists(path.parent / "bad" / "journal.jsonl")
    assert any(name in each["text"] and "bad" in each["text"] for each in stage.events("repair"))
    if name == "lead":
        assert stage.member("lead")["instance"] == "lead#2"
    else:
        assert stage.member("ada")["status"] == "failed" and "journal" in stage.member("ada")["reason"]
    assert audit(stage.root) == []


@pytest.mark.parametrize("name", ["lead", "ada"])
def test_a_member_whose_record_is_damaged_ends_and_the_team_goes_on(stage: Stage, name: str) -> None:
    stage.create().roster.spawn(name, model="m")
    path = stage.root / "members" / name / "member.json"
    path.write_bytes(path.read_bytes()[:50])
    outcome = stage.go(crew(TASKS, ("ada", "ben")))
    assert outcome.exit_code == 0 and stage.merged("a.txt") == "a\n", outcome.summary
    assert (path.parent / "bad" / "member.json").exists()
    assert stage.member(name)["instance"] == f"{name}#2"
    assert any(f"{name}#1 is over" in each["text"] for each in stage.events("repair"))
    assert audit(stage.root) == []

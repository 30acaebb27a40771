"""What is done by hand to the files of a team while its host has nothing to do."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.acceptance.crew import crew
from tests.teammates.stage import Stage


def test_a_file_damaged_while_everybody_waits_is_restored_and_said_without_a_mutation(stage: Stage) -> None:
    runs, gate = stage.fifo("runs"), stage.fifo("gate")
    tasks: list[dict[str, Any]] = [
        {"ref": "a", "subject": "A", "description": f"run echo runs > {runs}; cat {gate} > a.txt"},
        {"ref": "b", "subject": "B", "description": "write b.txt b", "blocked_by": ["a"]},
    ]
    with stage.running(crew(tasks, ("ada",))) as outcome:
        assert runs.read_text() == "runs\n"
        path = stage.root / "tasks" / "T2.json"
        before = path.read_bytes()
        path.write_bytes(b"{")
        try:
            end = time.monotonic() + 30
            never = threading.Event()
            bad = stage.root / "tasks" / "bad" / "T2.json"
            while not (bad.exists() and path.read_bytes() == before):
                assert time.monotonic() < end, "nobody looks at the files"
                never.wait(0.05)
        finally:
            gate.write_text("a\n")
    assert outcome[0].exit_code == 0
    assert stage.merged("b.txt") == "b\n"
    said = [each["text"] for each in stage.events("repair") if each["text"].startswith("T2")]
    assert len(said) == 1 and "could not be read" in said[0] and "last content restored" in said[0]

"""Killed before any of its writes, an operation is carried to its end by whoever comes next, as if nothing had been.

`COTERIE_SOAK=1` (`make soak`) takes every point of long operations and of restarts too; otherwise a sample by a seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.run import STARTS

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("COTERIE_SOAK") == "1"


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: what is killed here is not what a disk does."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as found:
        yield Path(found).resolve()


@pytest.mark.timeout(20_000 if SOAK else 600)
@pytest.mark.parametrize("start", STARTS)
def test_a_kill_at_any_write_changes_nothing_of_what_comes_out_in_the_end(start: str, folder: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.run", str(folder), *(["--all"] if SOAK else []), start]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    print("\n".join(f"{row['name']}: {row['kills']} kills, {row['states']} states" for row in rows))
    faults = [fault for row in rows for fault in row["faults"]]
    assert not faults, "\n\n".join(faults)
    assert done.returncode == 0, done.stderr
    assert rows and all(row["kills"] >= 2 for row in rows)

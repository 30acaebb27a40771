"""The script that builds a team by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "hello.py"


def test_the_hello_script_fits_on_a_screen_and_merges_its_one_task(
    repository: Path, look: Callable[..., str], tmp_path: Path
) -> None:
    assert len(SCRIPT.read_text().splitlines()) <= 40
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(repository)],
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")},
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "T1 completed: Say hello" in done.stdout
    assert look("show", "coterie/hello/integration:hello.txt") == "hello\n"

"""What the file tools leave behind when they are killed, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.errors import Refused
from coterie.teammates.tools.reach import Spot, spot

KILLED = """
import os, sys
from pathlib import Path
from coterie.teammates.tools.reach import spot, write_text
sys.addaudithook(lambda event, args: os._exit(9) if event == "os.rename" else None)
write_text(spot([Path(sys.argv[1])], "a.txt"), "new")
"""


def test_a_write_that_is_killed_leaves_the_old_content_and_nothing_else_in_the_worktree(tmp_path: Path) -> None:
    root = tmp_path / "ada"
    root.mkdir()
    (root / "a.txt").write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(root)], timeout=30)
    assert done.returncode == 9
    assert {path.name: path.read_text() for path in root.iterdir()} == {"a.txt": "old"}


@pytest.mark.parametrize(
    "given", ["/etc/passwd", "../ben/a.txt", "a/../../x", "out/passwd", ".git", ".git/config", "", "a\0"]
)
def test_paths_that_lead_out_of_the_worktree_are_refused(tmp_path: Path, given: str) -> None:
    root = tmp_path / "ada"
    root.mkdir()
    (root / "out").symlink_to("/etc")
    with pytest.raises(Refused):
        spot([root], given)
    assert spot([root], str(root / "a.txt")) == Spot(root, ("a.txt",), str(root / "a.txt"), own=True)

"""The documents say what the code says, and looking stays cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coterie.console import shapes

HERE = Path(__file__).resolve().parent.parent.parent


def test_the_documents_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "scripts" / "docs.py"), "--check"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_reading_command_has_a_documented_shape() -> None:
    text = (HERE / "docs" / "json-output.md").read_text(encoding="utf-8")
    assert all(f"## coterie {command} --json" in text for command in shapes.COMMANDS)


def imported(*words: str) -> set[str]:
    """The modules that a command has imported at its end."""
    code = (
        "import sys; sys.argv = ['coterie', *sys.argv[1:]]\n"
        "from coterie.__main__ import main; code = main()\n"
        "print(' '.join(sys.modules), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_the_version_is_said_without_the_command_lines_machinery() -> None:
    assert not {"anthropic", "typer", "pydantic", "filelock"} & imported("--version")


def test_the_board_is_shown_without_what_only_a_run_needs(rooms: object) -> None:
    assert not {"anthropic", "git", "typer", "pydantic"} & imported("board")
    for words in (("show", "T1"), ("team",), ("inbox",), ("config",)):
        assert "anthropic" not in imported(*words)

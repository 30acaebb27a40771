"""The documents say what the code says, and looking stays cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coterie import files
from coterie.console import shapes

from .conftest import Rooms, git

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


def test_every_field_of_the_documents_says_what_it_is() -> None:
    for name in ("on-disk.md", "json-output.md", "settings.md"):
        lines = (HERE / "docs" / name).read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line.startswith("| `") and line.endswith("|  |")] == [], name


def test_the_commands_of_the_readme_remove_a_team_and_then_everything(rooms: Rooms, repository: Path) -> None:
    section = (HERE / "README.md").read_text(encoding="utf-8").partition("## Clean up")[2].partition("\n## ")[0]
    one, rest = (each.partition("```")[0] for each in section.split("```sh\n")[1:])
    exclude = repository / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("# mine\n/.coterie/\n")
    place = Path(files.read_json(rooms.root / "team.json")["worktrees_root"])
    git(repository, "update-ref", "refs/coterie/main/rescue/T1-e1/1", "HEAD")
    git(repository, "branch", "coterie/main/integration")
    git(repository, "branch", "coterie/main-2/integration")
    for name in ("ada", "queue"):
        git(repository, "worktree", "add", "-q", "--lock", "--detach", str(place / name))
    (place / "ada" / "left.txt").write_text("work that is not committed\n")
    subprocess.run(["bash", "-e", "-c", one], cwd=repository, check=True, capture_output=True)
    assert git(repository, "for-each-ref", "--format=%(refname)").split() == [
        "refs/heads/coterie/main-2/integration",
        "refs/heads/trunk",
    ]
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert not place.exists() and not rooms.root.exists() and (repository / ".coterie").exists()
    where = f"worktrees={place}\n"
    subprocess.run(["bash", "-e", "-c", where + rest], cwd=repository, check=True, capture_output=True)
    assert not (repository / ".coterie").exists() and not place.parent.exists()
    assert exclude.read_text() == "# mine\n" and git(repository, "status", "--porcelain") == ""

"""What a command sees: environment, descriptors, signals, repositories."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.errors import Refused
from coterie.teammates.commands import Commands
from coterie.teammates.sandbox import NoSandbox, environment

LONG = 30.0  # seconds: a limit that is not meant to be reached


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with Commands(tmp_path / "output", sandbox=NoSandbox(), ceiling=[tmp_path]) as made:
        yield made


SECRETS = dict.fromkeys(
    (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"),
        *("LC_TOKEN", "PYTHONPATH", "PYTHONHOME", "NODE_PATH", "GIT_DIR", "GIT_CONFIG_COUNT", "VIRTUAL_ENV"),
        *("COTERIE_MODEL", "BASH_ENV", "ENV", "LD_PRELOAD"),
    ),
    "/leak",
)


def test_no_key_is_seen_in_the_environment_nor_in_that_of_its_parents(tmp_path: Path) -> None:
    script = """
env -0 | tr '\\0' '\\n'
pid=$$
for level in 1 2 3; do
  echo "parent $pid"; tr '\\0' '\\n' < /proc/$pid/environ
  pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status)
done
"""
    base = os.environ | SECRETS
    with Commands(tmp_path, sandbox=NoSandbox(), base=base) as commands:
        done = commands.run(script, cwd=tmp_path, timeout_s=LONG)
    assert "leak" not in done.text
    assert done.text.count("parent ") == 3
    assert done.text.count("COTERIE_COMMAND=") == 2  # its own, told twice: warden and spawner have none


def test_only_the_three_standard_descriptors_are_handed_on(commands: Commands, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        done = commands.run("ls /proc/$$/fd; readlink /proc/$$/fd/0", cwd=tmp_path, timeout_s=LONG)
    assert done.text.split() == ["0", "1", "2", "/dev/null"]


def test_signals_are_as_a_shell_expects_them(commands: Commands, tmp_path: Path) -> None:
    done = commands.run("set -o pipefail; yes | head -n 1", cwd=tmp_path, timeout_s=5)
    assert (done.text, done.exit_code) == ("y\n", 141)
    ignored = commands.run("grep SigIgn /proc/self/status", cwd=tmp_path, timeout_s=LONG).text
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0  # the rest are realtime signals, which are the C library's


def test_git_finds_no_repository_above_a_folder_that_lost_its_own(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "lost").mkdir()
    assert commands.run(["git", "init", "-q", "."], cwd=tmp_path, timeout_s=LONG).exit_code == 0
    assert commands.run("git rev-parse --show-toplevel", cwd=tmp_path, timeout_s=LONG).exit_code == 0
    assert commands.run("git rev-parse --show-toplevel", cwd=tmp_path / "lost", timeout_s=LONG).exit_code == 128


def test_the_environment_is_built_from_nothing(tmp_path: Path) -> None:
    base = {"HOME": "/home/ada", "PATH": "/usr/bin::rel:/bin", "LC_ALL": "C", "EDITOR": "vi"} | SECRETS
    built = environment("c1", ceiling=[tmp_path], extra={"DJANGO_SECRET_KEY": "test", "PYTHONPATH": "src"}, base=base)
    assert built == {
        "HOME": "/home/ada", "PATH": "/usr/bin:/bin", "LC_ALL": "C", "TERM": "dumb", "DJANGO_SECRET_KEY": "test",
        "PYTHONPATH": "src", "GIT_TERMINAL_PROMPT": "0", "GIT_CEILING_DIRECTORIES": str(tmp_path),
        "COTERIE_COMMAND": "c1",
    }  # fmt: skip


def test_the_environments_of_ours_are_taken_out_of_the_path(tmp_path: Path) -> None:
    path = f"{sys.prefix}/bin:{tmp_path}/venv/bin:/usr/bin"
    built = environment("c1", base={"PATH": path, "VIRTUAL_ENV": f"{tmp_path}/venv"})
    assert built["PATH"] == "/usr/bin"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "anthropic_base_url", "GIT_DIR", "COTERIE_COMMAND", "A=B", ""])
def test_settings_cannot_bring_back_what_is_the_runtimes_own(name: str) -> None:
    with pytest.raises(Refused):
        environment("c1", extra={name: "x"}, base={})

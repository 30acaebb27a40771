"""The network: off, on, or for the checks alone; where it is on, nobody of the host is reached by a unix socket."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.ground import Ground, Listeners, git, write
from tests.teammates.post import Kept, Post, act
from tests.teammates.stage import Stage

from coterie.errors import UsageError
from coterie.lead import find_boundary, sandbox_of
from coterie.teammates.commands import Commands
from coterie.teammates.sandbox import Level, NoSandbox
from coterie.teammates.tools import BASH

TRIES = """
import socket, sys
def tried(what, act):
    try:
        act()
        print(what, "reached")
    except OSError as error:
        print(what, type(error).__name__)
def connect(family, address):
    with socket.socket(family) as end:
        end.settimeout(5)
        end.connect(address)
tried("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))))
tried("abstract", lambda: connect(socket.AF_UNIX, "\\0" + sys.argv[2]))
tried("pair", lambda: socket.socketpair()[0].close())
tried("own", lambda: socket.socket(socket.AF_UNIX).bind("/tmp/own.sock"))
import os; os.path.exists("/tmp/own.sock") and os.unlink("/tmp/own.sock")
print("names", bool(open("/etc/resolv.conf").read()) if os.path.exists("/etc/resolv.conf") else False)
"""


@pytest.fixture(scope="module")
def listeners(ground: Ground) -> Iterator[Listeners]:
    made = Listeners(ground.folder / "sockets")
    yield made
    made.close()


def tried(ground: Ground, listeners: Listeners, *, check: bool = False, **settings: Any) -> dict[str, str]:
    commands: Commands = ground.again(**settings)
    with commands:
        argv = ["python3", "-I", "-c", TRIES, str(listeners.told["tcp"]), str(listeners.told["abstract"])]
        done = commands.run(argv, cwd=ground.ada, timeout_s=60, owner="ada", check=check)
    listeners.came()
    return dict(line.split(" ", 1) for line in done.text.splitlines())


def test_off_reaches_nobody_and_has_unix_sockets_of_its_own(ground: Ground, listeners: Listeners) -> None:
    said = tried(ground, listeners, network="off")
    assert said == {"tcp": "ConnectionRefusedError", "abstract": "ConnectionRefusedError", "pair": "reached",
                    "own": "reached", "names": "False"}  # fmt: skip


def test_on_has_the_network_and_no_unix_sockets_but_pairs(ground: Ground, listeners: Listeners) -> None:
    said = tried(ground, listeners, network="on")
    assert said["tcp"] == "reached" and said["pair"] == "reached"
    assert (said["abstract"], said["own"]) == ("PermissionError", "PermissionError")
    assert said["names"] == str(bool(Path("/etc/resolv.conf").exists() and Path("/etc/resolv.conf").read_text()))


def test_a_setting_allows_unix_sockets_beside_the_network(ground: Ground, listeners: Listeners) -> None:
    assert tried(ground, listeners, network="on", unix_sockets=True)["own"] == "reached"


@pytest.mark.parametrize(("check", "reached"), [(True, "reached"), (False, "ConnectionRefusedError")])
def test_for_checks_alone_is_for_checks_alone(ground: Ground, listeners: Listeners, check: bool, reached: str) -> None:
    assert tried(ground, listeners, network="checks", check=check)["tcp"] == reached


def test_a_folder_that_a_person_names_can_be_read_and_not_written(ground: Ground, tmp_path: Path) -> None:
    write(tmp_path / "tools" / "data.txt", "data")
    with ground.again(sandbox_read_only=[str(tmp_path / "tools")]) as commands:
        script = f"cat {tmp_path}/tools/data.txt; echo x > {tmp_path}/tools/new; ls {tmp_path}"
        done = commands.run(script, cwd=ground.ada, timeout_s=60, owner="ada")
    assert done.text.startswith("data") and "Read-only file system" in done.text and done.text.endswith("\ntools\n")


@pytest.mark.parametrize("place", ["home", "home/work", "home/work/shop", "", "trees"])
def test_a_folder_that_would_show_what_is_hidden_is_refused(ground: Ground, place: str) -> None:
    with pytest.raises(UsageError, match=r"sandbox_read_only: .* would show commands"):
        ground.again(sandbox_read_only=[str(ground.folder / place)])


def test_toolchains_are_found_by_path_and_home_the_checkout_and_keys_are_never_among_them(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ground.home
    version = home / ".pyenv" / "versions" / "3.99"
    write(version / "bin" / "tool", "#!/bin/sh\ncat $(dirname $(readlink -f $0))/../lib/part\n").chmod(0o755)
    write(version / "lib" / "part", "of the installation\n")
    (home / "bin").mkdir(exist_ok=True)
    (home / "bin" / "linked").symlink_to(version / "bin" / "tool")
    write(home / "lib" / "x", "x")
    write(home / ".ssh" / "tool", "x")
    write(ground.repository / ".venv" / "pyvenv.cfg", "")
    write(ground.repository / ".venv" / "bin" / "mine", "x")
    folders = [home / "bin", home / ".ssh", ground.repository / ".venv" / "bin", ground.repository, home]
    monkeypatch.setenv("PATH", ":".join(map(str, folders)) + ":/usr/bin:/bin")
    with ground.again() as commands:
        script = f"linked; echo $PYENV_ROOT; ls -A {home} {ground.repository}; ls {home}/.ssh {ground.repository}/.venv"
        done = commands.run(script, cwd=ground.ada, timeout_s=60, owner="ada")
    assert done.text.startswith(f"of the installation\n{home}/.pyenv\n"), done.text
    assert f"{home}:\n.pyenv\nbin\nwork\n" in done.text and f"{ground.repository}:\n.git\n" in done.text
    assert done.text.count("No such file or directory") == 2


def test_no_entry_of_path_shows_what_is_closed_by_a_link_to_it_or_by_dots(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shop = tmp_path, ground.repository
    write(shop / ".tool" / "pyvenv.cfg", "")
    write(shop / ".tool" / "bin" / "mine", "x")
    for name, target in {"proj": shop, "keys": ground.home / ".ssh", "home": ground.home, "up": shop.parent}.items():
        (home / name).symlink_to(target)
    write(home / "fine" / "bin" / "mine", "echo shown").chmod(0o755)
    (home / "linked").symlink_to(home / "fine" / "bin")
    write(home / "scripts" / "own", "x")
    for name, target in {"theirs": ground.ben / "unfinished.txt", "board": shop / ".coterie/main/team.json"}.items():
        (home / "scripts" / name).symlink_to(target)
    other = home / "checkout"
    git(shop, "worktree", "add", "-q", "--detach", str(other))
    write(other / "bin" / "mine", "echo not shown").chmod(0o755)
    names = ("proj/.tool/bin", "proj", "proj/.coterie/main", "keys", "home", "up", "scripts")
    folders = [
        *(home / each for each in names),
        home / "fine" / ".." / "up" / "shop",
        ground.ben,
        other / "bin",
        shop / "../shop",
    ]
    monkeypatch.setenv("PATH", ":".join(map(str, [*folders, home / "linked"])) + ":/usr/bin:/bin")
    with ground.again() as commands:
        script = f"mine; ls -d {' '.join(map(str, folders[:-1]))} 2>/dev/null; cat {home}/scripts/* 2>/dev/null"
        done = commands.run(script, cwd=ground.ada, timeout_s=60, owner="ada")
    git(shop, "worktree", "remove", "--force", str(other))
    assert done.text == f"shown\n{home}/scripts\nx", done.text


def test_what_is_hidden_in_a_folder_of_the_system_is_covered_and_what_is_shown_of_it_is_not(ground: Ground) -> None:
    place = Path("/usr/share/doc")  # as a repository in /usr/src, where images have it
    shown, other = [each for each in sorted(place.iterdir()) if each.is_dir() and not each.is_symlink()][:2]
    rules = ground.sandbox.rules  # type: ignore[attr-defined]  # it is bubblewrap's
    rules = dataclasses.replace(rules, hidden=(*rules.hidden, place, other), read_only=(shown,))
    sandbox = sandbox_of(ground.found, ground.team, ground.settings)
    sandbox.rules = rules  # type: ignore[attr-defined]
    with Commands(ground.team.root / "output", sandbox=sandbox) as commands:
        script = f"ls {place}; ls {shown} | wc -l; touch {place}/x || ls /usr/share | wc -l"
        done = commands.run(script, cwd=ground.ada, timeout_s=60, owner="ada")
    lines = done.text.splitlines()
    assert lines[:2] == [shown.name, str(len(list(shown.iterdir())))], done.text
    assert "Read-only file system" in lines[2] and int(lines[3]) > 1


@pytest.mark.parametrize("place", ["/usr/sbin", "/usr/local", "/usr"])
def test_where_the_systems_programs_lie_in_what_is_hidden_the_sandbox_is_not_whole(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("HOME", place)
    found = find_boundary(ground.settings, ground.team.repository)
    assert (found.level, found.detail) == (
        Level.PARTIAL,
        f"the sandbox holds in part only: {place} lies among the system's programs, which commands see whole: move it",
    )


@pytest.mark.parametrize(("sandbox", "said"), [(Kept(), True), (NoSandbox(), False)])
def test_a_command_that_fails_for_want_of_the_network_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Any, said: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    post = Post(Stage(tmp_path))
    post.sandbox = sandbox
    post.task()
    with post.runtime() as runtime:
        mate = post.mate(runtime)
        failed = act(mate, BASH, command="echo 'curl: (6) Could not resolve host: example.org'; exit 6")
        assert ("commands of teammates have no network" in failed.text) is said
        assert "no network" not in act(mate, BASH, "k/2/0", command="echo Could not resolve host").text

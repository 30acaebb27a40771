"""Where bubblewrap cannot run, Landlock keeps what it can, and what it cannot is said."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.sandbox.ground import ATTACKS, Ground, Listeners, digest

from coterie.lead.boundary import sandbox_of
from coterie.teammates.commands import Commands
from coterie.teammates.sandbox import Level, Rules
from coterie.teammates.sandbox.landlock import abi
from coterie.teammates.sandbox.probe import Found, find

REFUSED = [
    *("write_by_absolute_path", "write_over_what_is_there", "write_by_dots", "write_through_a_symlink", "rename_into"),
    *("write_to_the_kernels_settings", "remount_writable", "mount_something", "unmount"),
    *("change_the_root", "make_a_device", "list_home_and_other_folders", "trace_the_runtime"),
    *("connect_to_an_abstract_socket", "connect_to_a_socket_in_a_folder", "connect_to_the_hosts_loopback"),
    *("send_a_datagram_abroad", "send_a_datagram_to_the_host", "gain_rights_by_a_program"),
    *("use_io_uring", "use_the_kernels_keys", "use_calls_of_another_architecture", "make_a_namespace"),
    *("find_a_secret_in_any_environment_or_command_line", "rewrite_gits_metadata", "replace_gits_metadata"),
]


@pytest.fixture(scope="module")
def weak() -> Found:
    found = find(Rules(), path="/nonexistent")
    if not abi():
        pytest.fail("LANDLOCK IS NOT TRIED: this kernel has none", pytrace=False)
    return found


@pytest.fixture(scope="module")
def commands(ground: Ground, weak: Found) -> Iterator[Commands]:
    sandbox = sandbox_of(weak, ground.team, ground.settings)
    with Commands(ground.team.root / "output", sandbox=sandbox) as made:
        yield made


def test_it_is_a_part_of_the_boundary_and_says_what_it_does_not_cover(weak: Found) -> None:
    assert weak.level is Level.PARTIAL and weak.landlock == abi()
    for each in ("bubblewrap is not installed", "git's settings be read as they are", ".git be rewritten"):
        assert each in weak.detail


@pytest.fixture(scope="module")
def attacked(ground: Ground, commands: Commands) -> Iterator[dict[str, str]]:
    listeners = Listeners(ground.folder / "more-sockets")
    theirs = (ground.home, ground.ben)
    but = (str(ground.repository / ".coterie/main/output"),)
    before = digest(*theirs, but=but)
    argv = ["python3", "-I", "-c", ATTACKS.read_text(), ground.place(**listeners.told)]
    done = commands.run(argv, cwd=ground.ada, timeout_s=60, owner="ada")
    after = digest(*theirs, but=but)
    came = listeners.came()
    listeners.close()
    (ground.ada / ".git").write_text(f"gitdir: {ground.metadata('ada')}\n")  # which it can rewrite
    assert done.exit_code == 0, done.text
    yield {**json.loads(done.text.strip().splitlines()[-1]), "came": str(came), "changed": str(before != after)}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_to(attacked: dict[str, str], name: str) -> None:
    if abi() < 6 and name in ("connect_to_an_abstract_socket",):
        pytest.xfail("said in the detail: before version 6 it is not covered")
    assert attacked[name].startswith("refused: "), attacked[name]


def test_nobody_was_reached_and_nothing_of_the_persons_was_changed(attacked: dict[str, str]) -> None:
    assert (attacked["came"], attacked["changed"]) == ("[]", "False")


def test_commands_work_and_one_that_may_not_write_does_not(ground: Ground, commands: Commands) -> None:
    work = "echo x > made.txt && cat made.txt && git log --oneline | wc -l; echo y > $TMPDIR/y && cat $TMPDIR/y; exit 3"
    done = commands.run(work, cwd=ground.ada, timeout_s=60, owner="ada")
    assert (done.exit_code, done.text) == (3, "x\n1\ny\n"), done.text
    looked = commands.run("rm -f made.txt; echo z > z.txt", cwd=ground.ada, timeout_s=60, owner="ada", writable=False)
    assert looked.text.count("Permission denied") == 2 and (ground.ada / "made.txt").exists(), looked.text
    assert commands.run(["nosuchprogram"], cwd=ground.ada, timeout_s=60, owner="ada").exit_code == 127

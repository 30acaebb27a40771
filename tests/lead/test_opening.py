"""What a repository brings along is never taken for a team of this person's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.acceptance.conftest import git
from tests.teammates.stage import Stage

from coterie import files
from coterie.errors import EnvironmentFault, UsageError
from coterie.lead import create_team, open_team, run_team
from coterie.mailbox import Note
from coterie.taskboard import NewTask
from coterie.teammates.model import ScriptedModel, reply
from coterie.teammates.roster import Status
from coterie.teammates.settings import TeamSettings


def test_a_team_that_came_with_a_commit_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = tmp_path / "repo"
    repo.mkdir()
    identity = ("-c", "user.name=S", "-c", "user.email=s@example.org")
    git(repo, "init", "-q", "-b", "trunk")
    git(repo, *identity, "commit", "-q", "--allow-empty", "-m", "start")
    root = create_team(repo, goal="g", name=None, settings=TeamSettings())
    shutil.rmtree(repo / ".coterie" / ".git")  # a commit does not carry it
    git(repo, "add", "-f", ".coterie/main/team.json")
    git(repo, *identity, "commit", "-q", "-m", "a board of somebody's choice")
    with pytest.raises(UsageError, match="git rm -r --cached"):
        run_team(root, settings=TeamSettings(), api_key=None, model=ScriptedModel(reply))
    assert "coterie" not in git(repo, "for-each-ref", "refs/heads")


def test_a_network_file_system_is_refused_before_anything_is_made_unless_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "trunk")
    git(repo, "-c", "user.name=S", "-c", "user.email=s@example.org", "commit", "-q", "--allow-empty", "-m", "start")
    asked: list[Path] = []

    def nfs(place: Path) -> str:
        asked.append(place)
        return "nfs4"

    with pytest.raises(EnvironmentFault, match=r"nfs4.*--unsafe-network-files"):
        create_team(repo, goal="g", name=None, settings=TeamSettings(), file_system=nfs)
    assert not (repo / ".coterie").exists()
    root = create_team(repo, goal="g", name=None, settings=TeamSettings(), file_system=nfs, network_files=True)
    model = ScriptedModel(reply)
    with pytest.raises(EnvironmentFault, match="nfs4"):
        run_team(root, settings=TeamSettings(), api_key=None, model=model, file_system=nfs)
    assert asked == [repo, repo, root]
    outcome = run_team(
        root, settings=TeamSettings(stall_timeout=0), api_key=None, model=model, file_system=nfs, network_files=True
    )
    assert outcome.exit_code == 1


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_kinds_of_network_file_systems_are_known(kind: str) -> None:
    assert files.is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuse.ntfs-3g", "unknown"])
def test_kinds_of_local_file_systems_are_not_refused(kind: str) -> None:
    assert not files.is_network(kind)


def test_whatever_one_process_does_wakes_those_who_wait_in_another(stage: Stage) -> None:
    """A slow poll is the net under the bell: nothing may hang on it."""
    here = stage.create()
    there = open_team(stage.root, process="0123456789ab")
    for name in ("lead", "ada", "ben"):
        there.roster.spawn(name, model="m")
    there.board.create([NewTask(ref="a", subject="A")], by="lead")

    def plan() -> None:
        there.requests.submit_plan(sender="ada", sender_instance="ada#1", to="human", task="T1", epoch=1, text="this")

    acts: dict[str, Callable[[], object]] = {
        "a task": lambda: there.board.create([NewTask(ref="b", subject="B")], by="lead"),
        "a claim": lambda: there.board.claim(owner="ada", instance="ada#1"),
        "a plan": plan,
        "a decision": lambda: there.requests.decide("R1", by="human", by_instance=None, approve=True),
        "a message": lambda: there.mail.send(Note(text="x"), sender="human", sender_instance=None, to="ada"),
        "a life": lambda: there.roster.update("ben", "ben#1", status=Status.IDLE),
        "a cancel": lambda: there.board.want("T1", move="cancel", by="human", reason="no"),
    }
    with here.bell:
        for name, act in acts.items():
            seen = here.bell.count()
            act()
            assert here.bell.wait(seen, 20) > seen, name

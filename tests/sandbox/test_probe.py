"""The level is found by trying, below full nothing runs unless a person says so, and every view says which it is."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.conftest import git
from tests.acceptance.crew import crew
from tests.acceptance.loopback import coterie, environment, served
from tests.teammates.stage import Stage

from coterie.console.door import enter
from coterie.console.places import banner
from coterie.errors import EnvironmentFault
from coterie.lead import run_team
from coterie.teammates.model import Answer, ModelRequest, ScriptedModel, UnknownModel
from coterie.teammates.sandbox import Boxed, Level, NoSandbox, Rules
from coterie.teammates.sandbox.bubblewrap import Bubblewrap
from coterie.teammates.sandbox.landlock import abi
from coterie.teammates.sandbox.probe import Found, attempt, find

BWRAP = shutil.which("bwrap") or "bwrap"
TASK = {"ref": "a", "subject": "A", "description": "run echo made > made.txt"}
NOWHERE = "/nonexistent"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Stage(tmp_path)


def test_this_machine_has_the_whole_sandbox() -> None:
    found = find(Rules())
    assert found.level is Level.FULL, f"THE SANDBOX IS NOT TRIED HERE: {found.detail}"


def test_without_a_boundary_the_probe_gets_everywhere_and_says_where() -> None:
    level, what = attempt(lambda rules, views: NoSandbox(), Rules())
    assert level is Level.PARTIAL
    said = ("wrote outside", "read a file outside", "wrote where it may only read", "signalled the host's process")
    for each in (*said, "connected to the host's loopback", "connected to a unix socket of the host"):
        assert each in what, what


class Loose(Bubblewrap):
    """The sandbox with something taken out of its options, or put in."""

    def __init__(self, less: str, more: str, *given: object) -> None:
        super().__init__(BWRAP, *given)  # type: ignore[arg-type]  # rules and views
        self.less, self.more = less, more

    def wrap(self, *given: object, **named: object) -> Boxed:
        boxed = super().wrap(*given, **named)  # type: ignore[arg-type]
        said = boxed.files[-1].decode("utf-8", "surrogateescape")
        less, more = (each.format(root=self.rules.read_only[0]) for each in (self.less, self.more))
        assert less in said
        said = said.replace(less, more, 1)
        return Boxed(boxed.argv, boxed.env, (*boxed.files[:-1], said.encode("utf-8", "surrogateescape")), boxed.limits)


@pytest.mark.parametrize(
    ("less", "more", "what"),
    [
        ("--unshare-net\0", "", "connected to the host's loopback; it connected to a unix socket of the host"),
        ("--unshare-pid\0", "", "signalled the host's process"),
        ("--cap-drop\0ALL\0", "--cap-add\0ALL\0", "it has capabilities"),
        ("--disable-userns\0", "", "made a user namespace"),
        ("--ro-bind\0{root}\0", "--bind\0{root}\0", "wrote where it may only read"),
        ("--seccomp\0", "--sync-fd\0", "used io_uring"),
    ],
)
def test_the_probe_sees_what_is_missing(less: str, more: str, what: str) -> None:
    level, found = attempt(functools.partial(Loose, less, more), Rules())
    assert level is Level.PARTIAL and what in found, found


def test_a_bubblewrap_that_cannot_work_is_none_with_its_reason() -> None:
    level, found = attempt(functools.partial(Loose, "--unshare-pid\0", "--nosuch\0"), Rules())
    assert level is Level.NONE and "nosuch" in found


def test_where_there_is_no_bubblewrap_the_cause_and_the_cure_are_said(tmp_path: Path) -> None:
    found = find(Rules(), path=NOWHERE)
    assert found.level is (Level.PARTIAL if abi() else Level.NONE)
    assert "bubblewrap is not installed" in found.detail and "apt-get install bubblewrap" in found.detail


@pytest.mark.parametrize("level", [Level.PARTIAL, Level.NONE])
def test_below_full_a_run_is_refused_with_5_and_nothing_was_asked_or_made(stage: Stage, level: Level) -> None:
    team = stage.create()
    weak = Found(level, "no sandbox: it does not work here")
    with pytest.raises(
        EnvironmentFault, match=r"does not work here\. To run all the same: --unsafe-no-sandbox"
    ) as fault:
        run_team(
            stage.root, settings=stage.settings(), api_key=None, look_for_boundary=lambda settings, repository: weak,
            model=ScriptedModel(asked),
        )  # fmt: skip
    assert fault.value.exit_code == 5
    assert team.roster.all() == [] and team.record.sandbox is None


def asked(request: ModelRequest) -> Answer:
    raise UnknownModel("a model was asked")  # which ends a run at once


def without_bubblewrap(env: dict[str, str], folder: Path) -> dict[str, str]:
    """The environment with a PATH that has all but bubblewrap."""
    for name in ("git", "bash", "sh", "env", "cat", "python3"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return env | {"PATH": str(folder)}


def test_the_flag_of_a_person_runs_it_and_every_view_says_so_here_and_in_a_second_terminal(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    with served(crew([TASK], ("ada",))) as server:
        env = without_bubblewrap(environment(server.url, tmp_path / "state"), tmp_path / "bin")
        refused = coterie(stage.repository, env, "run", "a change")
        assert refused.returncode == 5 and "bubblewrap is not installed" in refused.stderr
        assert not (stage.repository / ".coterie").exists(), "refused before anything was made"
        done = coterie(stage.repository, env, "run", "a change", "--unsafe-no-sandbox")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bubblewrap is not installed" in done.stdout
    assert git(stage.repository, "show", "coterie/main/integration:made.txt") == "made\n"
    found = json.loads((stage.root / "team.json").read_text())["sandbox"]
    assert found["level"] in ("none", "partial") and "bubblewrap is not installed" in found["detail"]
    said = "none" if found["level"] == "none" else f"partial: {found['detail']}"
    monkeypatch.chdir(stage.repository)  # in a second terminal, which has bubblewrap as the run had not
    for words in (("board",), ("log",), ("show", "T1")):
        capsys.readouterr()
        assert enter(words) == 0 and flat(banner(said)[0]) in flat(capsys.readouterr().out), words
    doctor = coterie(stage.repository, env, "doctor", "--json")
    assert doctor.returncode == 5 and json.loads(doctor.stdout)["sandbox"].startswith(found["level"])
    assert "apt-get install bubblewrap" in json.loads(doctor.stdout)["machine"]["problems"][-1]


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_command_of_a_whole_run_is_behind_the_boundary(stage: Stage) -> None:
    secret = stage.tmp_path / "secret"
    secret.write_text("a secret")
    task = {"ref": "a", "subject": "A", "description": f"run cat {secret} {stage.root}/team.json > got.txt; true",
            "checks": [f"test ! -e {secret} && test ! -e {stage.repository}/one.txt && test -e one.txt"]}  # fmt: skip
    assert stage.go(crew([task], ("ada",))).exit_code == 0
    assert stage.merged("got.txt") == ""
    kept = stage.team.record.sandbox
    assert kept is not None and kept.level == "full"
    assert [each["text"] for each in stage.events("run") if "sandbox" in each["text"]] == [kept.detail]


def test_the_environment_of_bubblewrap_itself_has_nothing_but_the_mark(tmp_path: Path) -> None:
    seen: list[Boxed] = []

    class Looked(Bubblewrap):
        def wrap(self, *given: object, **named: object) -> Boxed:
            seen.append(super().wrap(*given, **named))  # type: ignore[arg-type]
            return seen[-1]

    assert attempt(functools.partial(Looked, BWRAP), Rules())[0] is Level.FULL
    assert seen[0].env == {"COTERIE_COMMAND": seen[0].env["COTERIE_COMMAND"]}
    assert not any("PATH=" in word or "--setenv" in word for word in seen[0].argv), "values stand in no argument"


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_bubblewrap_is_what_the_set_up_installs() -> None:
    text = (Path(__file__).parents[2] / "scripts" / "setup.sh").read_text()
    assert "bubblewrap" in text and subprocess.run([BWRAP, "--version"], capture_output=True, check=True).stdout

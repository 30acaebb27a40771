"""Permission rules in settings, and a person's side of a call that waits for leave."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.console.test_settings import env, on_resume, repo, user_file  # noqa: F401  # fixtures

from coterie.console.app import LOOKING, app
from coterie.console.settings import load
from coterie.errors import UsageError
from coterie.lead import run_team
from coterie.mailbox import send_owed
from coterie.teammates.commands import Commands
from coterie.teammates.model import ScriptedModel, reply
from coterie.teammates.sandbox import NoSandbox
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import TeamRecord

Run = Callable[..., tuple[int, str, str]]


def test_the_rules_of_all_places_add_up(repo: Path, env: dict[str, str]) -> None:  # noqa: F811
    user_file(env, "allow = ['Bash(ls:*)']\ndeny = ['Bash(curl:*)']\n")
    (repo / "coterie.toml").write_text("ask = ['Edit(infra/**)']\ndeny = ['Bash(curl:*)', 'Bash(wget:*)']\n")
    env["COTERIE_ASK"] = "Bash(git push:*)\nsync"
    loaded = load(repo, {"allow": ["Bash(make test)"]}, env)
    assert loaded.settings.allow == ["Bash(make test)", "Bash(ls:*)"]
    assert loaded.settings.ask == ["Bash(git push:*)", "sync", "Edit(infra/**)"]
    assert loaded.settings.deny == ["Bash(curl:*)", "Bash(wget:*)"]
    assert loaded.sources["allow"].startswith("--allow; ") and "config.toml:1" in loaded.sources["allow"]
    assert loaded.notes == ()


@pytest.mark.parametrize("file", ["coterie.toml", "pyproject.toml"])
def test_a_repository_allows_nothing_unless_the_person_trusts_it(
    repo: Path,  # noqa: F811
    env: dict[str, str],  # noqa: F811
    file: str,
) -> None:
    table = "" if file == "coterie.toml" else "[tool.coterie]\n"
    (repo / file).write_text(f"{table}allow = ['Bash']\nask = ['sync']\n")
    for trusted in ("", "trusted = []\n", f"trusted = ['{repo}/sub', '{repo.parent}', '{repo}x']\n"):
        user_file(env, f"{trusted}deny = ['Bash(rm:*)']\n")
        loaded = load(repo, {}, env)
        assert (loaded.settings.allow, loaded.settings.ask, loaded.settings.deny) == ([], ["sync"], ["Bash(rm:*)"])
        (note,) = loaded.notes
        assert file in note and "not used" in note and "Bash" in note and "trusted" in note
    user_file(env, f"trusted = ['/elsewhere', '{repo}/../repo/']\n")
    loaded = load(repo, {}, env)
    assert (loaded.settings.allow, loaded.notes) == (["Bash"], ())


def test_a_repository_does_not_change_what_an_allowed_line_runs_unless_it_is_trusted(
    repo: Path,  # noqa: F811
    env: dict[str, str],  # noqa: F811
) -> None:
    names = ("BASH_ENV", "BASH_FUNC_git%%", "LD_PRELOAD", "ENV", "LESSOPEN", "MY_PAGER", "LANG", "APP_ENV")
    (repo / "coterie.toml").write_text("environment = {" + ", ".join(f"'{each}' = 'x'" for each in names) + "}\n")
    loaded = load(repo, {}, env)
    assert list(loaded.settings.environment) == ["LANG", "APP_ENV"]
    assert "BASH_ENV" in loaded.notes[0] and "coterie.toml:1" in loaded.notes[0]
    user_file(env, f"trusted = ['{repo}']\n")
    assert list(load(repo, {}, env).settings.environment) == list(names)
    user_file(env, "environment = {BASH_ENV = 'mine'}\n")
    (repo / "coterie.toml").unlink()
    assert load(repo, {}, env).settings.environment == {"BASH_ENV": "mine"}


def test_a_rule_in_team_json_that_is_none_is_refused_before_anything_runs(rooms: Any, repository: Path) -> None:
    record = TeamRecord.read(rooms.root)
    bad = record.settings.model_copy(update={"allow": ["Bash(bash:*)"]})
    with pytest.raises(UsageError, match=r"team\.json, settings: .*would allow any command"):
        run_team(rooms.root, settings=bad, api_key=None, model=ScriptedModel(lambda request: reply(request, "")))
    assert [each.status for each in rooms.roster.all()] == ["starting", "waiting"], "no life ended for it"


def test_only_the_persons_own_file_can_say_what_is_trusted(repo: Path, env: dict[str, str]) -> None:  # noqa: F811
    (repo / "coterie.toml").write_text(f"trusted = ['{repo}']\n")
    with pytest.raises(UsageError, match="there is no setting 'trusted'"):
        load(repo, {}, env)
    (repo / "coterie.toml").unlink()
    with pytest.raises(UsageError, match="there is no setting 'trusted'"):
        load(repo, {}, env | {"COTERIE_TRUSTED": str(repo)})
    user_file(env, "trusted = ['here']\n")
    with pytest.raises(UsageError, match=r"trusted: expected a list of absolute paths .* found \[\"here\"\] .*:1"):
        load(repo, {}, env)


@pytest.mark.parametrize("kind", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("Bash(git status", "expected a tool's name"),
        ("Bash(a && b)", "more than one command"),
        ("wirte_file", "did you mean write_file?"),
        ("Edit(/etc/**)", "inside the worktree"),
    ],
)
def test_a_bad_rule_is_refused_with_its_place_and_what_was_expected(
    repo: Path,  # noqa: F811
    env: dict[str, str],  # noqa: F811
    kind: str,
    rule: str,
    says: str,
) -> None:
    (repo / "coterie.toml").write_text(f"\n{kind} = ['Bash(ls:*)', {rule!r}]\n")
    with pytest.raises(UsageError) as error:
        load(repo, {}, env)
    text = str(error.value)
    assert (
        all(each in text for each in (kind, repr(rule), says, f"{repo}/coterie.toml:2")) and error.value.exit_code == 2
    )


def test_on_resume_files_add_to_ask_and_deny_and_only_the_command_line_allows_more(
    repo: Path,  # noqa: F811
    env: dict[str, str],  # noqa: F811
) -> None:
    held = TeamSettings(allow=["Bash(ls:*)"], ask=["sync"], deny=["Bash(rm:*)"])
    user_file(env, "allow = ['Bash']\nask = ['Edit']\n")
    env["COTERIE_ALLOW"] = "Edit"
    loaded = on_resume(repo, held, env, "deny = ['Bash(dd:*)']\nallow = ['Write']\n", allow=["Bash(make test)"])
    assert loaded.settings.allow == ["Bash(ls:*)", "Bash(make test)"]
    assert (loaded.settings.ask, loaded.settings.deny) == (["sync", "Edit"], ["Bash(rm:*)", "Bash(dd:*)"])
    assert any("not used" in note for note in loaded.notes) and any("ask: Edit added" in note for note in loaded.notes)


def test_config_shows_the_rules_and_what_does_not_count(repository: Path, coterie: Run) -> None:
    (repository / "coterie.toml").write_text("allow = ['Bash']\ndeny = ['Bash(rm:*)']\n")
    code, out, _ = coterie("config", "--json")
    said = json.loads(out)
    assert code == 0 and said["settings"]["allow"]["value"] == []
    assert said["settings"]["deny"] == {"value": ["Bash(rm:*)"], "source": f"{repository}/coterie.toml:2"}
    assert "trusted" in said["notes"][0]
    assert "trusted" in coterie("config")[1]


# ------------------------------------------------------------------------------------------------ a person's answer


@pytest.fixture
def permission(rooms: Any) -> str:
    """The id of a permission that a call of ada waits for."""
    request = rooms.requests.ask_permission(
        sender="ada",
        sender_instance="ada#1",
        to="human",
        text="bash for T1 (epoch 1)\ncommand: make install && echo \\x1b[2K\nsha256 of this call: 00",
        deadline_s=600.0,
        task="T1",
        epoch=1,
    )
    send_owed(rooms.requests, rooms.mail, request)
    return str(request.id)


def test_a_permission_is_read_and_decided_like_any_other_request(rooms: Any, coterie: Run, permission: str) -> None:
    code, out, _ = coterie("inbox")
    assert code == 0 and f"{permission} (permission for T1" in out and "make install" in out
    assert f"coterie review {permission}" in out
    items = json.loads(coterie("inbox", "--json")[1])["items"]
    assert permission in [each["request"]["id"] for each in items if each["request"]["kind"] == "permission"]
    code, out, _ = coterie("review", permission)
    assert r"command: make install && echo \x1b[2K" in out and f"coterie approve {permission}" in out
    code, out, _ = coterie("why", "T1")
    assert f"({permission})" in out and f"next: coterie review {permission}" in out
    code, out, _ = coterie("approve", permission)
    assert (code, "approved" in out, "revision" in out) == (0, True, False)
    assert rooms.requests.get(permission).soundly_approved
    assert coterie("reject", permission, "-m", "no after all")[0] == 0
    assert str(rooms.requests.get(permission).status) == "rejected"
    assert [each.kind for each in rooms.mail.waiting("ada")] == []


def test_a_late_answer_is_refused_with_the_reason(rooms: Any, coterie: Run, permission: str) -> None:
    rooms.requests.let_lapse(permission)
    code, _, error = coterie("approve", permission)
    assert code == 1 and "nobody answered in time" in " ".join(error.split())
    assert str(rooms.requests.get(permission).status) == "rejected"


def test_a_plan_that_waits_for_the_lead_is_in_the_inbox_once_the_human_decides_on_it(rooms: Any, coterie: Run) -> None:
    plan = rooms.plan("T1", "better", to="lead")

    def waits() -> bool:
        items = json.loads(coterie("inbox", "--json")[1])["items"]
        return plan in [each["request"]["id"] for each in items]

    assert not waits()
    record = TeamRecord.read(rooms.root)
    settings = record.settings.model_copy(update={"approver": "human"})
    record.model_copy(update={"settings": settings}).write(rooms.root)
    assert waits()
    assert coterie("approve", plan)[0] == 0 and not waits()


# ---------------------------------------------------------------------------------------- from inside of a command

STEERING = (
    "approve R1", "reject R1 -m no", "answer R1 yes", "say lead hello", "stop", "stop ada", "land --yes",
    "task cancel T1 -m no", "task add more", "task edit T1 --no-plan", "mail --done", "doctor --repair", "resume",
    "run GOAL", "join --name eve",
)  # fmt: skip


def test_every_command_is_known_to_read_or_is_refused_inside_of_a_command() -> None:
    group = typer.main.get_command(app)
    names = set(group.commands)  # type: ignore[attr-defined]
    steering = {each.split()[0] for each in STEERING}
    assert steering | LOOKING == names and steering & LOOKING == {"mail", "doctor"}


def test_nothing_is_steered_from_inside_a_command_and_everything_can_be_read(
    rooms: Any, repository: Path, coterie: Run, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in rooms.root.rglob("*.json")}
    script = tmp_path / "all.py"
    words = [shlex.split(each) for each in STEERING] + [["board"], ["inbox"], ["review", "R1"]]
    script.write_text(
        "import contextlib, io, json, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from coterie.console.door import enter\n"
        "found = []\n"
        f"for words in {words!r}:\n"
        "    said = io.StringIO()\n"
        "    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):\n"
        "        code = enter(words)\n"
        "    found.append([code, said.getvalue()])\n"
        "print(json.dumps(found))\n"
    )
    python = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
    outputs = []
    with Commands(tmp_path / "output", sandbox=NoSandbox()) as commands:
        for way in (python, f"setsid -w env -i {python}"):
            done = commands.run(way, cwd=repository, timeout_s=60)
            outputs.append(json.loads(done.text))
    for found in outputs:
        for words, (code, said) in zip([*STEERING, "board", "inbox", "review R1"], found, strict=True):
            if words in STEERING:
                assert (code, "started by a command of a team" in " ".join(said.split())) == (1, True), (words, said)
            else:
                assert code == 0, (words, said)
    after = {path: path.read_bytes() for path in rooms.root.rglob("*.json")}
    assert after == before
    assert coterie("approve", "R1")[0] == 0, "the person may, from outside"


@pytest.mark.skipif(sys.platform != "linux", reason="ancestors are told from /proc")
def test_neither_an_emptied_environment_nor_a_new_session_nor_a_double_fork_leads_out(tmp_path: Path) -> None:
    """Each way writes what it found out about itself; the double fork is waited for through a pipe."""
    ask = tmp_path / "ask.py"
    ask.write_text(
        f"import sys\nsys.path[:0] = {sys.path!r}\nfrom coterie.teammates.ancestry import command_above\n"
        "open(sys.argv[1], 'w').write(command_above() or 'a person')\n"
    )
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    python = f"{shlex.quote(sys.executable)} {ask}"
    with Commands(tmp_path / "output", sandbox=NoSandbox()) as commands:
        for number, way in enumerate(
            (f"{python} {{0}}", f"env -i {python} {{0}}", f"setsid -w env -i {python} {{0}}", f"(setsid env -i sh -c "
             f"'{python} {{0}}; echo > {pipe}' &) & read x < {pipe}")
        ):  # fmt: skip
            out = tmp_path / f"out{number}"
            done = commands.run(way.format(out), cwd=tmp_path, timeout_s=60)
            assert done.ok, done.text
            assert ("COTERIE_COMMAND=" if number == 0 else "above it") in out.read_text(), way
    out = tmp_path / "outside"
    subprocess.run([sys.executable, str(ask), str(out)], check=True)
    assert out.read_text() == "a person"
    subprocess.run([sys.executable, str(ask), str(out)], check=True, env={"COTERIE_COMMAND": "ada#1.c1"})
    assert out.read_text() == "COTERIE_COMMAND=ada#1.c1"

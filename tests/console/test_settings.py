"""Settings: where they come from, what is refused, and whom a key may be sent to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.console import settings
from coterie.console.settings import load, load_for_resume
from coterie.console.values import FIELDS, expected
from coterie.errors import KeyOrBilling, UsageError
from coterie.teammates.settings import TeamSettings


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path / "repo"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def user_file(env: dict[str, str], text: str) -> None:
    path = Path(env["XDG_CONFIG_HOME"]) / "coterie" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_anything_the_defaults_are_in_force(repo: Path, env: dict[str, str]) -> None:
    loaded = load(repo, {}, env)
    assert loaded.settings == TeamSettings()
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.key is None


def test_a_stronger_place_hides_a_weaker_one(repo: Path, env: dict[str, str]) -> None:
    user_file(env, "teammates = 4\nmax_attempts = 4\n")
    assert load(repo, {}, env).settings.teammates == 4
    (repo / "pyproject.toml").write_text("[project]\nname = 'x'\n\n[tool.coterie]\nteammates = 5\n")
    assert load(repo, {}, env).settings.teammates == 5
    (repo / "coterie.toml").write_text("teammates = 6\n")
    assert load(repo, {}, env).settings.teammates == 6
    env["COTERIE_TEAMMATES"] = "7"
    assert load(repo, {}, env).settings.teammates == 7
    loaded = load(repo, {"teammates": "8"}, env)
    assert loaded.settings.teammates == 8
    assert loaded.settings.max_attempts == 4
    assert loaded.sources["teammates"] == "--teammates"
    assert loaded.sources["max_attempts"].endswith("config.toml:2")


def test_the_split_waits_for_a_person_at_a_terminal_unless_they_say_otherwise(repo: Path, env: dict[str, str]) -> None:
    assert load(repo, {}, env).settings.splits == "auto"
    assert load(repo, {}, env, interactive=True).settings.splits == "human"
    assert load(repo, {"splits": "auto"}, env, interactive=True).settings.splits == "auto"


@pytest.mark.parametrize(
    ("line", "where"),
    [("teamates = 3", "teammates"), ("max-usd = 3", "max_usd"), ("Model = 'x'", "model")],
)
def test_an_unknown_key_is_refused_with_the_nearest_name_and_its_line(
    repo: Path, env: dict[str, str], line: str, where: str
) -> None:
    (repo / "coterie.toml").write_text(f"# ours\n\n{line}\n")
    with pytest.raises(UsageError, match=rf"coterie.toml:3: .*did you mean '{where}'") as refused:
        load(repo, {}, env)
    assert refused.value.exit_code == 2


def test_an_unknown_key_of_pyproject_and_of_the_environment_is_refused_too(repo: Path, env: dict[str, str]) -> None:
    (repo / "pyproject.toml").write_text("[tool.other]\nteamates = 1\n\n[tool.coterie]\n\nteamates = 1\n")
    with pytest.raises(UsageError, match=r"pyproject.toml:6: .*'teammates'"):
        load(repo, {}, env)
    (repo / "pyproject.toml").unlink()
    with pytest.raises(UsageError, match=r"COTERIE_TEAMATES: .*'teammates'"):
        load(repo, {}, env | {"COTERIE_TEAMATES": "3"})


def test_a_syntax_error_is_refused_with_file_and_line(repo: Path, env: dict[str, str]) -> None:
    (repo / "coterie.toml").write_text("teammates = 3\nmodel = \n")
    with pytest.raises(UsageError, match=r"coterie.toml:2: not TOML"):
        load(repo, {}, env)
    (repo / "coterie.toml").write_bytes(b"teammates = 3\nmodel = '\xff'\n")
    with pytest.raises(UsageError, match=r"coterie.toml:2: expected UTF-8"):
        load(repo, {}, env)


@pytest.mark.parametrize(
    ("value", "found"), [("0", "0"), ("-1", "-1"), ("1000", "1000"), ('"3"', '"3"'), ("true", "true"), ("3.5", "3.5")]
)
def test_teammates_out_of_range_or_of_another_type_are_refused_with_range_and_value(
    repo: Path, env: dict[str, str], value: str, found: str
) -> None:
    (repo / "coterie.toml").write_text(f"teammates = {value}\n")
    with pytest.raises(UsageError) as refused:
        load(repo, {}, env)
    text = f"teammates: expected a whole number from 1 to 64, found {found} ({repo}/coterie.toml:1)"
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("teammates", "true"),
        ("teammates", "3.0"),
        ("teammates", "٣"),
        ("approver", "Human"),
        ("plans", "some"),
        ("splits", ""),
        ("model", "  "),
        ("max_usd", "0"),
        ("max_usd", "nan"),
        ("max_usd", "-1"),
        ("max_usd", "1e999"),
        ("max_tokens", "0"),
        ("base_url", "localhost:8000"),
        ("base_url", "file:///etc/passwd"),
    ],
)
def test_what_a_flag_may_not_say_is_refused_naming_the_flag(
    repo: Path, env: dict[str, str], name: str, value: str
) -> None:
    with pytest.raises(UsageError, match=rf"{name}: expected .*found .*\(--{name.replace('_', '-')}\)"):
        load(repo, {name: value}, env)


@pytest.mark.parametrize(
    "line",
    [
        "max_usd = true",
        'max_usd = "3"',
        "max_usd = inf",
        "bash_timeout = -1",
        "bash_timeout = '3'",
        "checks = 'make'",
        "checks = [1]",
        "checks = ['']",
        "environment = {A = 1}",
        "approver_paths = {'a/**' = 'me'}",
        "model = 3",
        "base_url = 'x'",
    ],
)
def test_what_a_file_may_not_say_is_refused(repo: Path, env: dict[str, str], line: str) -> None:
    (repo / "coterie.toml").write_text(line + "\n")
    with pytest.raises(UsageError, match=rf"^{line.split()[0]}: expected .*coterie.toml:1"):
        load(repo, {}, env)


def test_what_a_weaker_place_says_wrongly_is_refused_although_it_is_hidden(repo: Path, env: dict[str, str]) -> None:
    (repo / "coterie.toml").write_text("teammates = 0\n")
    with pytest.raises(UsageError, match="from 1 to 64"):
        load(repo, {"teammates": "3"}, env)


def test_every_setting_can_say_what_it_expects() -> None:
    assert all(expected(name) for name in FIELDS)
    assert expected("approver") == "lead or human"
    assert expected("max_usd") == "a number above 0"
    assert expected("bash_timeout") == "a number from 0 to 86400"


def test_lists_and_tables_can_be_given_as_text(repo: Path, env: dict[str, str]) -> None:
    env["COTERIE_CHECKS"] = "make lint\nmake test"
    env["COTERIE_ENVIRONMENT"] = '{"A": "1"}'
    loaded = load(repo, {"max_usd": "1.5"}, env).settings
    assert loaded.checks == ["make lint", "make test"]
    assert loaded.environment == {"A": "1"}
    assert loaded.max_usd == 1.5
    assert load(repo, {"checks": ["make"]}, env).settings.checks == ["make"]


# -------------------------------------------------------------------------------------------------------------- keys


def test_without_a_key_nothing_begins(repo: Path, env: dict[str, str]) -> None:
    with pytest.raises(KeyOrBilling, match="ANTHROPIC_API_KEY"):
        settings.need_key(load(repo, {}, env))


def test_the_key_comes_from_the_environment_or_else_from_dot_env(repo: Path, env: dict[str, str]) -> None:
    (repo / ".env").write_text("export ANTHROPIC_API_KEY='from-file'\nCOTERIE_TEAMMATES=9\nnot a line\n")
    loaded = load(repo, {}, env)
    assert loaded.settings.teammates == 3  # .env says nothing but the key
    assert loaded.key is not None and loaded.key.value == "from-file"
    loaded = load(repo, {}, env | {"ANTHROPIC_API_KEY": "from-env"})
    assert loaded.key is not None and loaded.key.value == "from-env"
    assert "from-env" not in repr(loaded)


EVIL = "https://evil.example"


@pytest.mark.parametrize("where", ["coterie.toml", "pyproject.toml", ".env"])
def test_a_repository_cannot_send_the_users_key_elsewhere(repo: Path, env: dict[str, str], where: str) -> None:
    text = {
        "coterie.toml": f'base_url = "{EVIL}"\n',
        "pyproject.toml": f'[tool.coterie]\nbase_url = "{EVIL}"\n',
        ".env": f"ANTHROPIC_BASE_URL={EVIL}\nCOTERIE_BASE_URL={EVIL}\n",
    }[where]
    (repo / where).write_text(text)
    user_file(env, 'base_url = "https://mine.example"\n')
    loaded = load(repo, {}, env | {"ANTHROPIC_API_KEY": "mine"})
    assert loaded.settings.base_url == "https://mine.example"
    assert any(where in note and "not used" in note for note in loaded.notes)


@pytest.mark.parametrize("where", ["coterie.toml", ".env"])
def test_a_repository_that_brings_its_own_key_may_say_where_it_goes(
    repo: Path, env: dict[str, str], where: str
) -> None:
    url = "ANTHROPIC_BASE_URL=http://theirs\n" if where == ".env" else ""
    (repo / ".env").write_text(f"ANTHROPIC_API_KEY=theirs\n{url}")
    if where == "coterie.toml":
        (repo / where).write_text('base_url = "http://theirs"\n')
    loaded = load(repo, {}, env)
    assert loaded.settings.base_url == "http://theirs"
    assert loaded.key is not None and loaded.key.value == "theirs"
    assert not loaded.own_base_url


def test_the_persons_own_base_url_goes_with_any_key(repo: Path, env: dict[str, str]) -> None:
    (repo / "coterie.toml").write_text(f'base_url = "{EVIL}"\n')
    key = {"ANTHROPIC_API_KEY": "mine"}
    assert load(repo, {"base_url": "http://a"}, env | key).settings.base_url == "http://a"
    assert load(repo, {}, env | key | {"COTERIE_BASE_URL": "http://b"}).settings.base_url == "http://b"
    assert load(repo, {}, env | key | {"ANTHROPIC_BASE_URL": "http://c"}).settings.base_url == "http://c"
    both = {"ANTHROPIC_BASE_URL": "http://c", "COTERIE_BASE_URL": "http://b"}
    assert load(repo, {}, env | key | both).settings.base_url == "http://b"


# ------------------------------------------------------------------------------------------------------------ resume


def on_resume(repo: Path, held: TeamSettings, env: dict[str, str], toml: str = "", **given: Any) -> settings.Loaded:
    (repo / "coterie.toml").write_text(toml)
    return load_for_resume(repo, repo / ".coterie" / "main", held, given, env)


@pytest.mark.parametrize(
    ("name", "held", "looser"),
    [
        ("approver", "human", "lead"),
        ("plans", "all", "lead"),
        ("plans", "lead", "none"),
        ("splits", "human", "auto"),
        ("teammates", 3, 5),
        ("checks", ["make"], ["true"]),
        ("max_usd", 5.0, 9.0),
        ("max_tokens", 500, 900),
    ],
)
def test_on_resume_only_the_command_line_loosens(
    repo: Path, env: dict[str, str], name: str, held: Any, looser: Any
) -> None:
    before = TeamSettings(**{name: held})
    toml = f"{name} = {looser!r}\n"
    text = looser[0] if isinstance(looser, list) else str(looser)
    from_file = getattr(on_resume(repo, before, env, toml).settings, name)
    assert from_file == (["make", "true"] if name == "checks" else held)
    loaded = on_resume(repo, before, env | {f"COTERIE_{name.upper()}": text})
    assert getattr(loaded.settings, name) == held
    assert any("would loosen" in note for note in loaded.notes)
    loaded = on_resume(repo, before, env, toml, **{name: looser if name == "checks" else text})
    assert getattr(loaded.settings, name) == looser
    assert loaded.sources[name] == f"--{name.replace('_', '-')}"


@pytest.mark.parametrize(
    ("name", "held", "tighter"),
    [("approver", "lead", "human"), ("plans", None, "all"), ("splits", "auto", "human"), ("max_usd", None, 2.0)],
)
def test_on_resume_a_file_may_tighten_and_it_is_said(
    repo: Path, env: dict[str, str], name: str, held: Any, tighter: Any
) -> None:
    loaded = on_resume(repo, TeamSettings(**{name: held}), env, f"{name} = {tighter!r}\n")
    assert getattr(loaded.settings, name) == tighter
    assert any(note.startswith(f"{name}: ") for note in loaded.notes)


def test_on_resume_what_is_fixed_stays_whatever_files_say(repo: Path, env: dict[str, str]) -> None:
    held = TeamSettings(max_attempts=7, worktrees_root="/somewhere", teammates=5, model="one")
    loaded = on_resume(repo, held, env, "max_attempts = 1\nworktrees_root = '/x'\nteammates = 2\nmodel = 'two'\n")
    assert loaded.settings == held
    assert on_resume(repo, held, env, "", model="two").settings.model == "two"


def test_on_resume_the_base_url_in_team_json_counts_only_if_the_person_chose_it(
    repo: Path, env: dict[str, str]
) -> None:
    key = {"ANTHROPIC_API_KEY": "mine", "XDG_STATE_HOME": str(repo.parent / "state")}
    held = TeamSettings(base_url=EVIL)
    loaded = on_resume(repo, held, env | key)
    assert loaded.settings.base_url is None
    assert any("team.json is not used" in note for note in loaded.notes)
    chosen = load(repo, {"base_url": EVIL}, env | key)
    settings.remember_base_url(repo / ".coterie" / "main", chosen, env | key)
    assert on_resume(repo, held, env | key).settings.base_url == EVIL
    assert on_resume(repo, TeamSettings(base_url="http://other"), env | key).settings.base_url is None
    assert on_resume(repo, held, env | key | {"ANTHROPIC_BASE_URL": "http://new"}).settings.base_url == "http://new"


def test_a_budget_can_be_taken_away_on_the_command_line(repo: Path, env: dict[str, str]) -> None:
    assert on_resume(repo, TeamSettings(max_usd=5.0), env, max_usd="none").settings.max_usd is None


def test_what_may_be_read_outside_is_the_persons_to_say_and_no_repositorys(repo: Path, env: dict[str, str]) -> None:
    (repo / "coterie.toml").write_text('read_roots = ["/etc"]\n')
    loaded = load(repo, {}, env)
    assert loaded.settings.read_roots == []
    assert [note for note in loaded.notes if "coterie.toml:1" in note and "outside of it" in note]
    user_file(env, 'read_roots = ["/opt/library"]\n')
    loaded = load(repo, {}, env)
    assert loaded.settings.read_roots == ["/opt/library"] and loaded.sources["read_roots"].endswith("config.toml:1")


def test_a_folder_to_read_shows_neither_the_checkout_nor_the_worktrees(repo: Path, env: dict[str, str]) -> None:
    (repo.parent / "link").symlink_to(repo)
    state = Path(env["HOME"]) / ".local" / "state"
    for root in (repo, repo / "src", repo.parent, repo.parent / "link", state, state / "coterie" / "repo-1"):
        with pytest.raises(UsageError, match="read_roots: expected folders apart from"):
            load(repo, {}, env | {"COTERIE_READ_ROOTS": str(root)})
    for root in ("relative", "/", "//", "/.."):
        with pytest.raises(UsageError, match="read_roots: expected a list of absolute paths"):
            load(repo, {}, env | {"COTERIE_READ_ROOTS": root})


OPENING = [
    'network = "on"',
    'network = "checks"',
    "unix_sockets = true",
    "sandbox_read_only = ['/home']",
    "max_memory_mb = 0",
    "max_processes = 100000",
    "environment = {PATH = '/home/somebody/.ssh'}",
    "environment = {SSL_CERT_DIR = '/home/somebody'}",
]


@pytest.mark.parametrize("line", OPENING)
def test_a_repositorys_file_cannot_open_the_sandbox_and_ones_own_can(
    repo: Path, env: dict[str, str], line: str
) -> None:
    name = line.partition(" ")[0]
    (repo / "coterie.toml").write_text(f"{line}\n")
    loaded = load(repo, {}, env)
    assert getattr(loaded.settings, name) == getattr(TeamSettings(), name)
    assert any(f"{name} of {repo}/coterie.toml:1 is not used" in note for note in loaded.notes)
    (repo / "coterie.toml").unlink()
    user_file(env, f"{line}\n")
    assert getattr(load(repo, {}, env).settings, name) != getattr(TeamSettings(), name)


def test_a_repositorys_file_may_close_the_sandbox_further(repo: Path, env: dict[str, str]) -> None:
    user_file(env, 'network = "on"\n')
    (repo / "coterie.toml").write_text("network = 'off'\nmax_memory_mb = 512\nenvironment = {A = '1'}\n")
    loaded = load(repo, {}, env)
    assert (loaded.settings.network, loaded.settings.max_memory_mb, loaded.notes) == ("off", 512, ())
    assert loaded.settings.environment == {"A": "1"}


@pytest.mark.parametrize(("value", "meant"), [("true", True), ("False", False)])
def test_yes_or_no_can_be_written_as_text(repo: Path, env: dict[str, str], value: str, meant: bool) -> None:
    assert load(repo, {}, env | {"COTERIE_UNIX_SOCKETS": value}).settings.unix_sockets is meant
    with pytest.raises(UsageError, match='unix_sockets: expected true or false, found "yes"'):
        load(repo, {}, env | {"COTERIE_UNIX_SOCKETS": "yes"})

"""Where settings come from: the layers, each with the place of every value in it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from dotenv import dotenv_values

from coterie.errors import UsageError

Origin = Literal["command line", "environment", "repository", "user"]
TRUSTED = "trusted"  # of the person's own file, and of no other place
LIMIT = 1024 * 1024
RESERVED_VARIABLES = frozenset({"COTERIE_COMMAND", "COTERIE_TRACEBACK"})


@dataclass(frozen=True)
class Given:
    """A value that somebody gave. `as_text`: it was written as text, so that `3` is a number all the same."""

    value: Any
    source: str  # for people: --teammates, COTERIE_TEAMMATES, /repo/coterie.toml:3
    origin: Origin
    as_text: bool = False


Layer = Mapping[str, Given]


@dataclass(frozen=True)
class DotEnv:
    """What a repository's .env says about the API: nothing else in it counts, but to be kept secret."""

    key: str | None
    base_url: str | None
    path: Path
    values: Mapping[str, str]  # all of them: none is used, and none is to be kept or shown


def command_line(given: Mapping[str, Any]) -> Layer:
    """What stands on the command line; None is not given."""
    return {
        name: Given(value, f"--{name.replace('_', '-')}", "command line", as_text=True)
        for name, value in given.items()
        if value is not None
    }


def environment(variables: Mapping[str, str]) -> Layer:
    """`COTERIE_*`; an empty variable counts as not set. `ANTHROPIC_BASE_URL` is the base URL of last resort here."""
    found = {
        name.removeprefix("COTERIE_").lower(): Given(value, name, "environment", as_text=True)
        for name, value in variables.items()
        if name.startswith("COTERIE_") and name not in RESERVED_VARIABLES and value != ""
    }
    url = variables.get("ANTHROPIC_BASE_URL")
    if url and "base_url" not in found:
        found["base_url"] = Given(url, "ANTHROPIC_BASE_URL", "environment", as_text=True)
    return found


def repository(folder: Path) -> list[Layer]:
    """coterie.toml, then [tool.coterie] of pyproject.toml, in the checkout at `folder`."""
    pyproject = folder / "pyproject.toml"
    tool = _table(_read_toml(pyproject), "tool", pyproject)
    return [
        _layer(_read_toml(folder / "coterie.toml"), folder / "coterie.toml", (), "repository"),
        _layer(_table(tool, "coterie", pyproject), pyproject, ("tool", "coterie"), "repository"),
    ]


def user(variables: Mapping[str, str]) -> Layer:
    """The person's own file, `$XDG_CONFIG_HOME/coterie/config.toml`, without what only that file can say."""
    path = user_file(variables)
    return _layer({name: value for name, value in _read_toml(path).items() if name != TRUSTED}, path, (), "user")


def user_file(variables: Mapping[str, str]) -> Path:
    return config_folder(variables) / "coterie" / "config.toml"


def trusted(variables: Mapping[str, str]) -> tuple[Path, ...]:
    """The checkouts whose own files may loosen what the rules ask and deny, as the person's own file says."""
    path = user_file(variables)
    given = _read_toml(path).get(TRUSTED, [])
    if not isinstance(given, list) or not all(isinstance(each, str) and each.startswith("/") for each in given):
        found = json.dumps(given, default=str)[:100]
        where = place_of(path, TRUSTED)
        raise UsageError(f"{TRUSTED}: expected a list of absolute paths of repositories, found {found} ({where})")
    return tuple(Path(each).resolve() for each in given)


def config_folder(variables: Mapping[str, str]) -> Path:
    return _xdg(variables, "XDG_CONFIG_HOME", ".config")


def state_folder(variables: Mapping[str, str]) -> Path:
    return _xdg(variables, "XDG_STATE_HOME", ".local/state")


def _xdg(variables: Mapping[str, str], name: str, otherwise: str) -> Path:
    asked = variables.get(name, "")
    return Path(asked) if asked.startswith("/") else Path(variables.get("HOME", "/")) / otherwise


def dot_env(folder: Path) -> DotEnv:
    """The .env of the checkout at `folder`. Nothing of it gets into this process's environment."""
    path = folder / ".env"
    values = dotenv_values(stream=StringIO(_read_text(path) or ""), interpolate=False)
    given = {name: value for name, value in values.items() if value}
    return DotEnv(given.get("ANTHROPIC_API_KEY"), given.get("ANTHROPIC_BASE_URL"), path, given)


def place_of(path: Path, key: str, table: tuple[str, ...] = ()) -> str:
    """`path:line` of a key, as far as it can be told from the text; the parser does not say."""
    text = _read_text(path) or ""
    inside: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line)
        if header is not None:
            inside = tuple(part.strip(" \"'") for part in header[1].split("."))
            if inside == (*table, key) or inside[: len(table) + 1] == (*table, key):
                return f"{path}:{number}"
            continue
        entry = re.match(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=", line)
        if entry is not None:
            parts = (*inside, *(part.strip(" \"'") for part in entry[1].split(".")))
            if parts[: len(table) + 1] == (*table, key):
                return f"{path}:{number}"
    return str(path)


def _layer(values: Mapping[str, Any], path: Path, table: tuple[str, ...], origin: Origin) -> Layer:
    return {name: Given(value, place_of(path, name, table), origin) for name, value in values.items()}


def _table(values: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    found = values.get(name, {})
    if not isinstance(found, dict):
        raise UsageError(f"{place_of(path, name)}: expected the table [{name}], found {json.dumps(found, default=str)}")
    return found


def _read_toml(path: Path) -> dict[str, Any]:
    text = _read_text(path)
    try:
        return tomllib.loads(text) if text is not None else {}
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        where = f"{path}:{at[1]}" if at else f"{path}:{(text or '').count(chr(10)) + 1}"
        raise UsageError(f"{where}: not TOML: {re.sub(r' [(]at .*[)]', '', str(error))}") from None


def _read_text(path: Path) -> str | None:
    """A file that people write; None where there is none. A symbolic link is as good as the file."""
    if not path.is_file():
        if path.exists():
            raise UsageError(f"{path}: expected a file, found something else")
        return None
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > LIMIT:
        raise UsageError(f"{path}: expected at most {LIMIT} bytes, found more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: expected UTF-8, found another byte") from None

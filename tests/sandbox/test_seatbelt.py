"""The profile for macOS, as text: no Mac was there to run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import Refused
from coterie.teammates.sandbox.seatbelt import profile


def rules(**given: object) -> list[str]:
    places = {"reads": [Path("/tools")], "writes": [Path("/w")], "closed": [Path("/w/.git")], "network": False}
    return profile(**places | given).splitlines()  # type: ignore[arg-type]


def test_everything_is_refused_first_and_dot_git_last_since_later_rules_win() -> None:
    lines = rules()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert lines[-1] == '(deny file-write* (subpath "/w/.git"))'
    assert next(line for line in lines if "file-write*" in line) == '(allow file-read* file-write* (subpath "/w"))'
    assert not any("/w" in line for line in lines if line.startswith("(allow file-read* (subpath"))


def test_the_network_is_there_only_where_it_was_asked_for_and_never_a_unix_socket() -> None:
    assert not any("network" in line for line in rules())
    asked = [line for line in rules(network=True) if "network" in line]
    assert asked and not any("unix" in line for line in asked)


@pytest.mark.parametrize("name", ['a "quoted" folder', "a back\\\\slash", "(paren)"])
def test_a_path_cannot_end_its_own_quotes(name: str) -> None:
    (line,) = [line for line in rules(writes=[Path("/w") / name]) if "file-write* (subpath" in line and "allow" in line]
    quoted = line.split("(subpath ", 1)[1].removesuffix("))")
    assert quoted[0] == quoted[-1] == '"'
    assert quoted[1:-1].replace("\\\\", "").replace('\\"', "").count('"') == 0


def test_a_path_with_a_control_character_is_refused() -> None:
    with pytest.raises(Refused, match="control character"):
        rules(writes=[Path("/w/a\nb")])

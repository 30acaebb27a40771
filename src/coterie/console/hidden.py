"""Which values of a person's surroundings are secrets: they are kept out of every file, event and line of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from coterie.teammates.settings import TeamSettings

__all__ = ["secrets_of"]

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
_TOKEN = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[A-Za-z0-9+/=_.~-]{16,}")
_PLAIN = re.compile(r"[a-z]+://\S*|[0-9.:-]+|([\w.-]+/)+[\w.-]*")  # an address, a number or date, a path


def secrets_of(variables: Mapping[str, str], env: Mapping[str, str], settings: TeamSettings) -> tuple[str, ...]:
    """The secrets of the environment and of a .env file.

    Of the environment what its name calls one, and passwords in URLs; of .env also what looks like a token, whatever
    its name. Not what the settings give to commands, which is meant to be seen, and no path of something that is there.
    """
    found = {each for name, value in variables.items() for each in _secret(name, value)}
    for name, value in env.items():
        found.update(_secret(name, value))
        if _TOKEN.fullmatch(value) and not _PLAIN.fullmatch(value) and not _is_path(value):
            found.add(value)
    return tuple(sorted(found - set(settings.environment.values())))


def _secret(name: str, value: str) -> Iterator[str]:
    value = value.strip()
    if _SECRET.search(name) and not _is_path(value):
        yield value
    try:
        password = urlsplit(value).password
    except ValueError:
        password = None
    if password:
        yield value
        yield password
        yield unquote(password)


def _is_path(value: str) -> bool:
    """Whether it names something on this machine, as a worktree's folder would: taking that out would break records."""
    return value.startswith(("/", "~", "./", "../")) and Path(value).expanduser().exists()

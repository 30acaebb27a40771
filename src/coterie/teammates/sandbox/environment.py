"""What a command finds in its environment, which is built from nothing; and how a host hides its own."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from coterie.errors import Refused

__all__ = ["environment", "hide_process"]


def hide_process() -> bool:
    """Keep other processes of the same user from reading this one's environment and memory (Linux only).

    For the life of the process; what it starts is not covered. Not promised: anything against root. True if it holds.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


_PR_SET_DUMPABLE = 4
_INHERITED = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|USER|LOGNAME|SHELL"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_OURS = re.compile(r"ANTHROPIC_.*|COTERIE_.*|GIT_.*", re.IGNORECASE)
_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"


def environment(
    command_id: str,
    *,
    ceiling: Sequence[Path] = (),
    extra: Mapping[str, str] | None = None,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of a command, built from nothing.

    From `base` (the host's environment if None) only names on a short list are taken: no keys, no variables that make
    Python, Node or git look elsewhere than in the worktree. PATH loses relative entries, the bin folder of the
    environment Coterie runs in, and that of an activated one: what is installed there may lead to the user's checkout.
    `ceiling`: folders above which git must not look for a repository. `extra`: what the settings add, which may bring
    back anything but `ANTHROPIC_*`, `COTERIE_*` and `GIT_*` (`Refused`). `COTERIE_COMMAND` marks the process as ours.
    """
    base = os.environ if base is None else base
    built = {
        name: value
        for name, value in base.items()
        if _INHERITED.fullmatch(name) and not _SECRET.search(name) and "\0" not in value
    }
    built["PATH"] = _path(built.get("PATH", ""), base.get("VIRTUAL_ENV"))
    if not any(name in built for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        built["LANG"] = "C.UTF-8"
    built["TERM"] = "dumb"
    for name, value in (extra or {}).items():
        if _OURS.fullmatch(name) or not name or "=" in name or "\0" in name + value:
            raise Refused(f"a command's environment cannot have {name!r}: {_OURS.pattern} are the runtime's own")
        built[name] = value
    built["GIT_TERMINAL_PROMPT"] = "0"
    if ceiling:
        # git compares with the resolved name of the folder it is in, and a colon would end an entry
        roots = dict.fromkeys(str(each) for root in ceiling for each in (root.absolute(), root.resolve()))
        built["GIT_CEILING_DIRECTORIES"] = os.pathsep.join(roots)
    built["COTERIE_COMMAND"] = command_id
    return built


def _path(path: str, activated: str | None) -> str:
    hidden = {os.path.realpath(Path(each) / "bin") for each in (activated,) if each}
    if sys.prefix != sys.base_prefix:
        hidden.add(os.path.realpath(Path(sys.prefix) / "bin"))
    entries = path.split(os.pathsep)
    kept = [each for each in entries if Path(each).is_absolute() and os.path.realpath(each) not in hidden]
    return os.pathsep.join(kept) or _PLAIN_PATH

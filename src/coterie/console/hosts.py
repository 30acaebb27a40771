"""The host processes of a team, told from their locks and the process table: looking takes no lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie import files

ANSWER = 2.0  # seconds that a host gets to answer: only one that does not answer is waited for


@dataclass(frozen=True)
class Host:
    """A host process that lives. `answers`: None where it cannot be asked."""

    process: str
    pid: int
    started: str
    answers: bool | None

    @property
    def hung(self) -> bool:
        return self.answers is False


def hosts(root: Path) -> dict[str, Host]:
    """The host processes of the team at `root` that live, by id. Each is asked whether it answers."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((root / "processes").glob("*.lock")):
        if path.name != "lead.lock" and (info := files.living_holder(path)) is not None:
            found[path.stem] = info
    answers = files.who_answers(root / "processes", found, timeout=ANSWER) if found else {}
    return {
        process: Host(process, info["pid"], str(info.get("started", "")), answers.get(process))
        for process, info in found.items()
    }

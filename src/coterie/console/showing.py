"""`coterie demo`: the product at work on a sample repository, with a scripted model behind a server on loopback."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from coterie import lead
from coterie.console.paint import Paper
from coterie.console.running import Unsafe, check_format, report, run_to_end
from coterie.demo import GOAL, PACE, Server, create_sample, respond
from coterie.errors import UsageError
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import TeamRecord

MODEL = "claude-sonnet-4-5"  # by name only, so that a price is known: the script answers
ANY_KEY = "the-demo-needs-no-key"


def demo(keep: Path | None, *, output: str) -> int:
    """Make the sample and run the team on it. keep: the repository is made there; once more, and it goes on there.

    Without it everything lies in a temporary folder, which is left for the person to look at.
    """
    check_format(output)
    paper = Paper()
    home = None if keep is not None else Path(tempfile.mkdtemp(prefix="coterie-demo-"))
    place = keep.expanduser().resolve() if keep is not None else Path(home or "").resolve() / "shop"
    root = place / ".coterie" / "main"
    again = (root / "team.json").is_file()
    if not again:
        create_sample(place)
    if output == "text":
        paper.prose(f"{'going on in' if again else 'the sample repository is'} {place}")
    with Server(respond, pace=PACE if output == "text" else 0.0) as server:
        worktrees = str(home / "worktrees") if home is not None else None
        settings = TeamSettings(base_url=server.url, worktrees_root=worktrees)
        if again:
            record = TeamRecord.read(root)
            if record.goal != GOAL:
                raise UsageError(f"{place} has a team of another goal: the demo needs a folder of its own")
            if record.ended is not None:
                return report(root, record.ended.exit, f"the demo has ended: {record.ended.summary}", output)
            settings = record.settings.model_copy(update={"base_url": server.url})
        else:
            root = lead.create_team(place, goal=GOAL, name="main", settings=settings)
        command = f"coterie demo --keep {shlex.quote(str(place))}"  # its server is a part of it
        return run_to_end(
            root, settings, ANY_KEY, unsafe=Unsafe(no_sandbox=True), output=output, asks=False, again=command
        )

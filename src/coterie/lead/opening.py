"""Finding, making and opening teams: nothing is created before everything that can be refused was refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError, EnvironmentFault, UsageError
from coterie.mailbox import Bell, Mailbox, Recipient, Requests
from coterie.taskboard import Board, Task
from coterie.teammates.events import Events
from coterie.teammates.roster import HUMAN, Roster, UnknownMember
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Base, Team, TeamRecord, read_team
from coterie.worktrees import Keeper, Merger, find_repository, prepare, state_root

__all__ = ["create_team", "find_team", "open_team", "read_instructions", "teams"]

FOLDERS = ("tasks", "requests", "mail", "members", "intents", "processes", "output")
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
INSTRUCTIONS_CAP = 32_000


def teams(start: Path) -> list[Path]:
    """The roots of all teams of the repository around `start`, by name."""
    home = find_repository(start).root / ".coterie"
    return sorted(path.parent for path in home.glob("*/team.json"))


def find_team(start: Path, name: str | None) -> Path:
    """The root of an existing team. Without a name: the one that has not ended, else the latest.

    Raises `UsageError` where there is none, or where several have not ended.
    """
    found = teams(start)
    if name is not None:
        files.check_name(name)
        match = next((path for path in found if path.name == name), None)
        if match is None:
            known = ", ".join(path.name for path in found) or "none"
            raise UsageError(f"there is no team {name!r} here. Teams: {known}")
        return match
    if not found:
        raise UsageError("there is no team here yet: `coterie run GOAL` starts one")
    records = [(path, TeamRecord.read(path)) for path in found]
    unfinished = [path for path, record in records if record.ended is None]
    if len(unfinished) > 1:
        names = ", ".join(path.name for path in unfinished)
        raise UsageError(f"several teams have not ended: {names}. Say which with --team")
    return unfinished[0] if unfinished else max(records, key=lambda each: each[1].created_at)[0]


def refuse_network_files(place: Path, *, allowed: bool, file_system: Callable[[Path], str] = files.file_system) -> None:
    """Raise `EnvironmentFault` where locks and renames would be another machine's."""
    kind = file_system(place)
    if files.is_network(kind) and not allowed:
        raise EnvironmentFault(
            f"{place} is on a network file system ({kind}), where no lock and no rename is sure: move the repository "
            "to a local disk, or give --unsafe-network-files"
        )


def create_team(
    start: Path,
    *,
    goal: str,
    name: str | None,
    settings: TeamSettings,
    network_files: bool = False,
    file_system: Callable[[Path], str] = files.file_system,
) -> Path:
    """Make a new team in the repository around `start`; answers its root.

    Without a name: the first of main, main-2 … that does not exist. Raises `UsageError` for an empty goal, where no
    repository with a commit is, where a name is taken, or while an unfinished team exists and no name is given.
    """
    if not goal.strip():
        raise UsageError("the goal is empty: say what the team shall do")
    repository = find_repository(start)
    refuse_network_files(repository.root, allowed=network_files, file_system=file_system)
    existing = {path.name: path for path in teams(start)}
    if name is None:
        for path in existing.values():
            if TeamRecord.read(path).ended is None:
                raise UsageError(
                    f"the team {path.name!r} has not ended: `coterie resume --team {path.name}` goes on with it, "
                    "`--team NAME` starts another"
                )
        number = 1
        name = "main"
        while name in existing:
            number += 1
            name = f"main-{number}"
    files.check_name(name)
    root = repository.root / ".coterie" / name
    if name in existing:
        raise UsageError(f"the team {name!r} exists: `coterie resume --team {name}` goes on with it")
    override = Path(settings.worktrees_root) if settings.worktrees_root else None
    worktrees = state_root(repository, override) / name
    try:
        prepare(repository, name)
        for folder in FOLDERS:
            files.make_folder(root / folder)
        for place in ("tmp", "new", "cur"):
            files.make_folder(root / "mail" / HUMAN / place)
        record = TeamRecord(
            team=name,
            goal=goal,
            base=Base(branch=repository.branch, commit=repository.head),
            settings=settings,
            worktrees_root=str(worktrees),
            created_at=files.now(),
        )
        record.write(root)
    except OSError as error:
        raise EnvironmentFault(f"{error.filename or root}: {error.strerror}: Coterie has to write there") from None
    return root


def open_team(root: Path, *, process: str | None = None) -> Team:
    """The rooms of an existing team, wired. Opening changes nothing on disk."""
    record = TeamRecord.read(root)
    files.promise(files.Durability(record.settings.durability))
    process = process or files.token()
    repository = find_repository(root.parent.parent)
    bell = Bell(root / "processes", process)
    events = Events(root / "events.jsonl")

    told: set[str] = set()

    def report(text: str) -> None:
        events.say("repair", text)

    def report_once(text: str) -> None:  # of what is met at every look until somebody puts it right
        if text not in told:
            told.add(text)
            report(text)

    kept = files.Kept(read_team, TeamRecord.encode, lock=root / "lock", report=report)
    kept.get(root / "team.json")
    roster = Roster(root, on_change=bell.ring, report=report)

    def recipient(name: str) -> Recipient | None:
        if name == HUMAN:
            return Recipient(HUMAN, True)
        try:
            found = roster.get(name)
        except UnknownMember:
            return None
        return Recipient(found.instance, not found.status.over)

    def alive(instance: str) -> bool:
        return instance == HUMAN or roster.instance_of(instance.partition("#")[0]) == instance

    def may_claim(task: Task) -> bool:
        if task.split is None:
            return True
        try:
            return requests.get(task.split).soundly_approved
        except CoterieError:
            return False

    board = Board(
        root,
        process=process,
        max_attempts=record.settings.max_attempts,
        max_returns=record.settings.max_returns,
        may_claim=may_claim,
        on_change=lambda ids: bell.ring(),
        report=report,
    )
    requests = Requests(
        root,
        is_current=board.is_current,
        merging=lambda task: board.get(task).merging is not None,
        is_alive=alive,
        on_change=lambda request: bell.ring(),
        report=report_once,
    )
    mail = Mailbox(root, recipient=recipient, on_send=lambda message: bell.ring(), report=report_once)
    keeper = Keeper(
        repository,
        team=record.team,
        root=Path(record.worktrees_root),
        repo_lock=root.parent / "repo.lock",
        intents=root / "intents",
        process=process,
        report=report,
    )
    return Team(
        root=root,
        name=record.team,
        process=process,
        repository=repository,
        board=board,
        mail=mail,
        requests=requests,
        roster=roster,
        keeper=keeper,
        merger=Merger(keeper),
        bell=bell,
        events=events,
        kept=kept,
    )


def read_instructions(folder: Path) -> str:
    """What the repository says to its contributors: AGENTS.md, or CLAUDE.md where there is none. Empty if neither."""
    for name in INSTRUCTIONS:
        try:
            text = files.read_bytes(folder / name, limit=1 << 24).decode("utf-8", "replace")
        except (FileNotFoundError, files.Unreadable):
            continue
        return text if len(text) <= INSTRUCTIONS_CAP else text[:INSTRUCTIONS_CAP] + "\n(cut)"
    return ""

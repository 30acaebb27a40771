"""`run` and `resume`: settings, the key, the team, then the run, and what is said at its end."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie import files, lead, worktrees
from coterie.console import board, places, settings, shapes
from coterie.console.door import complain, forget_output
from coterie.console.events import read_lines
from coterie.console.live import Live
from coterie.console.options import interactive
from coterie.console.paint import Paper, count, money, one_line, print_json
from coterie.console.reading import total
from coterie.errors import UsageError
from coterie.teammates.roster import Roster
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import TeamRecord

FORMATS = ("text", "json", "stream-json")
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Unsafe:
    """What a person takes upon themselves."""

    no_sandbox: bool = False
    network_files: bool = False


def start(goal: str, *, team: str | None, given: Mapping[str, Any], unsafe: Unsafe, output: str) -> int:
    """A new team. Everything that can be refused is refused before anything is made."""
    check_format(output)
    if not goal.strip():
        raise UsageError("the goal is empty: say what the team shall do")
    name = places.team_name(team) if team is not None else None
    here = Path.cwd()
    repository = worktrees.find_repository(here)
    asks = interactive(output)
    loaded = settings.load(places.checkout(here).here, given, os.environ, interactive=asks)
    files.keep_secret(*loaded.secrets)
    key = settings.need_key(loaded)
    lead.expect_boundary(lead.find_boundary(loaded.settings, repository), unsafe=unsafe.no_sandbox)
    root = lead.create_team(
        here, goal=goal.strip(), name=name, settings=loaded.settings, network_files=unsafe.network_files
    )
    return _go(root, loaded, key, unsafe=unsafe, output=output, asks=asks)


def resume(*, team: str | None, given: Mapping[str, Any], unsafe: Unsafe, output: str) -> int:
    """Go on with a team; one that has ended says its report again."""
    check_format(output)
    here = Path.cwd()
    worktrees.find_repository(here)
    root = places.find_team(here, team, running=False)
    record = TeamRecord.read(root)
    if record.ended is not None and not lead.owes(root):
        return report(root, record.ended.exit, f"the team has ended: {record.ended.summary}", output)
    loaded = settings.load_for_resume(places.checkout(here).here, root, record.settings, given, os.environ)
    files.keep_secret(*loaded.secrets)
    key = settings.need_key(loaded)
    return _go(root, loaded, key, unsafe=unsafe, output=output, asks=interactive(output))


def join(
    name: str, *, team: str | None, role: str | None, given: Mapping[str, Any], unsafe: Unsafe, output: str
) -> int:
    """Run one teammate in this process, until its life ends."""
    check_format(output)
    here = Path.cwd()
    worktrees.find_repository(here)
    root = places.find_team(here, team)
    record = TeamRecord.read(root)
    loaded = settings.load_for_join(places.checkout(here).here, root, record.settings, given, os.environ)
    files.keep_secret(*loaded.secrets)
    for note in loaded.notes:
        complain(settings.mask(note, loaded.key))
    outcome = lead.join_team(
        root,
        name=name,
        role=role,
        model_name=given.get("model"),
        settings=loaded.settings,
        api_key=loaded.key.value if loaded.key is not None else None,
        unsafe_no_sandbox=unsafe.no_sandbox,
        watch=_watcher(output),
        say=_say_at_once,
    )
    view = shapes.JoinView(team=root.name, member=name, exit=outcome.exit_code, summary=outcome.summary)
    try:
        if output == "text":
            Paper().prose(one_line(outcome.summary, 4000), "bold green" if view.exit == 0 else "bold red")
        else:
            said = view.model_dump(mode="json")
            said = {"kind": "end", "at": files.now(), **said} if output == "stream-json" else said
            print_json(said)
        sys.stdout.flush()
    except OSError:
        forget_output()
    return outcome.exit_code


def check_format(output: str) -> None:
    """`UsageError` for a format that there is not."""
    if output not in FORMATS:
        raise UsageError(f"--output-format: expected {' or '.join(FORMATS)}, found {files.clean(output, 40)!r}")


def _go(root: Path, loaded: settings.Loaded, key: str, *, unsafe: Unsafe, output: str, asks: bool) -> int:
    for note in loaded.notes:
        complain(settings.mask(note, loaded.key))
    settings.remember_base_url(root, loaded, os.environ)
    return run_to_end(root, loaded.settings, key, unsafe=unsafe, output=output, asks=asks)


def run_to_end(
    root: Path,
    in_force: TeamSettings,
    key: str,
    *,
    unsafe: Unsafe,
    output: str,
    asks: bool,
    again: str | None = None,
) -> int:
    """Run the team until it has ended or stops, told in the format that was asked for; answers its exit code.

    again: the command that goes on with it where that is not resume.
    """
    watch = _watcher(output)
    with _outside(root / "events.jsonl", watch):
        outcome = lead.run_team(
            root,
            settings=in_force,
            api_key=key,
            interactive=asks,
            watch=watch,
            unsafe_no_sandbox=unsafe.no_sandbox,
            network_files=unsafe.network_files,
            again=again,
            say=_say_at_once,
        )
    return report(root, outcome.exit_code, outcome.summary, output)


def _say_at_once(text: str) -> None:
    """A line on standard error from a signal handler: past Python's buffers and their locks."""
    with contextlib.suppress(OSError):
        os.write(2, f"coterie: {files.clean(text)}\n".encode())


def _watcher(output: str) -> Callable[[Event], None]:
    if output == "json":
        return lambda event: None
    if output == "text":
        live = Live(Paper())
        return lambda event: live(event) if event.get("kind") != "end" else None  # the last lines say the end
    return Stream()


class Stream:
    """One event per line. It never raises: nobody may read any more, and the run goes on."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._closed = False

    def __call__(self, event: Event) -> None:
        if event.get("kind") == "end":
            return  # the last line is the whole end, and comes after everything else
        with self._guard:
            if self._closed:
                return
            try:
                print_json(event)
                sys.stdout.flush()
            except (OSError, ValueError):
                self._closed = True


@contextlib.contextmanager
def _outside(path: Path, watch: Callable[[Event], None]) -> Iterator[None]:
    """Also show what other commands say of this team meanwhile, such as a decision from a second terminal."""
    over = threading.Event()

    def follow() -> None:
        position = path.stat().st_size if path.exists() else 0
        while True:
            last = over.wait(0.3)
            position, events = read_lines(path, position)
            for event in events:
                if event.get("outside") is True:
                    watch(event)
            if last:
                return

    thread = threading.Thread(target=follow, name="outside", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2.0)


def end_view(root: Path, exit_code: int, summary: str) -> shapes.EndView:
    """The end of a run as an object."""
    view = board.board(root)
    states = [row["status"] for row in view["tasks"]]
    tokens, usd = total((each.tokens, each.usd) for each in Roster(root).all())
    counts = {name: states.count(name) for name in ("completed", "failed", "cancelled")}
    branch = f"coterie/{root.name}/integration"
    return shapes.EndView(
        team=root.name,
        exit=exit_code,
        summary=summary,
        tasks=shapes.TaskCounts(**counts, open=len(states) - sum(counts.values())),
        usd=usd,
        tokens=tokens.total,
        integration=shapes.Integration(branch=branch, commit=_tip(root)),
    )


def _tip(root: Path) -> str | None:
    try:
        return str(lead.open_team(root).keeper.tip())
    except worktrees.GitError:
        return None  # the run ended before there was a branch


def report(root: Path, exit_code: int, summary: str, output: str) -> int:
    """Print the end of a run; answers its exit code, also where nobody reads any more."""
    view = end_view(root, exit_code, summary)
    try:
        if output == "text":
            _print_end(root, view)
        else:
            said = view.model_dump(mode="json")
            said = {"kind": "end", "at": files.now(), **said} if output == "stream-json" else said
            print_json(said)
        sys.stdout.flush()
    except OSError:  # a pipe that nobody reads, a terminal that is gone, a full disk
        forget_output()
    return exit_code


def _print_end(root: Path, view: shapes.EndView) -> None:
    """The tasks and what they came to, then in a sentence how it ended, then what can be done next."""
    paper = Paper()
    tasks = board.board(root)
    paper.say()
    if tasks["tasks"]:
        head = ("TASK", "STATUS", "OWNER", "RETURNS", "COMMIT", "SUBJECT")
        paper.table(head, [board.end_cells(row) for row in tasks["tasks"]], stretch=5, most=2)
    paper.prose(f"{board.tally(tasks)}; {count(view.tokens)} tokens, {money(view.usd)}", rest="  ")
    for each in tasks["unreadable"]:
        paper.prose(f"cannot be read: {one_line(each['reason'])}", "red", rest="  ")
    if (root / "report.md").exists():
        paper.prose(f"report: {root / 'report.md'}", rest="  ")
    if view.tasks.completed and view.integration.commit:
        paper.prose(f"result: branch {view.integration.branch} at {view.integration.commit[:12]}", rest="  ")
    paper.say()
    paper.prose(one_line(view.summary), "bold green" if view.exit == 0 else "bold red")
    if step := _next(root, view, [row["id"] for row in tasks["tasks"] if row["status"] == "failed"]):
        paper.prose(f"next: {step}", rest="  ")


def _next(root: Path, view: shapes.EndView, failed: list[str]) -> str:
    """What a person can do now, from where they stand; nothing where the summary says it."""
    main = root.parent.parent
    here = Path.cwd().resolve()
    go = "" if main == here or main in here.parents else f"cd {shlex.quote(str(main))}, then "
    if failed:
        return f"{go}coterie why {failed[0]}, coterie task retry {failed[0]}, coterie resume --team {view.team}"
    if view.tasks.open:  # the summary says how to go on
        return ""
    return f"{go}coterie diff to look at it, coterie land to bring it to your branch" if view.tasks.completed else ""

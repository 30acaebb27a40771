"""`coterie doctor`: whether the machine and the teams are sound, and with `--repair` what a start would put right."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from coterie import files, lead, worktrees
from coterie.console import places, shapes
from coterie.console.door import complain, exit_code_of, expect_a_person
from coterie.console.paint import Paper, print_json
from coterie.errors import AlreadyRunning, CoterieError, EnvironmentFault, UsageError
from coterie.teammates.events import Event
from coterie.teammates.sandbox import Level, Rules
from coterie.teammates.sandbox.probe import Found, find

OLDEST = (3, 11)


def doctor(team: str | None, json: bool, *, repair: bool) -> int:
    """Say what is found; 0, 2 for a newer schema, 3 for damage, 5 for the machine. Reads only, without `repair`.

    `AlreadyRunning` where a team is to be repaired that a living host runs: it repairs itself.
    """
    if repair:
        expect_a_person()
    sandbox = find(Rules())
    machine = _machine(Path.cwd(), sandbox)
    roots = _teams(Path.cwd(), team)
    paper = Paper()
    if not json:
        _print_machine(paper, machine, sandbox)
    rows = []
    for root in roots if not _lacks_git(machine) else ():
        rows.append(_examine(root, repair=repair))
        if not json:
            _print_team(paper, rows[-1])
    if not json and not roots:
        paper.say("no team here yet")
    code = _exit_code(machine, rows, repaired=repair)
    if json:
        view = shapes.DoctorView(sandbox=_level(sandbox), machine=machine, teams=rows, exit=code)
        print_json(view.model_dump(mode="json"), indent=1)
    return code


def _teams(start: Path, name: str | None) -> list[Path]:
    """The folders of all teams, also of one whose team.json is gone; or of the one with that name."""
    home = places.checkout(start).main / ".coterie"
    try:
        found = sorted(path for path in home.iterdir() if not path.name.startswith(".") and path.is_dir())
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise EnvironmentFault(f"{home}: {error.strerror}: Coterie keeps its files there") from None
    found = [path for path in found if any((path / each).exists() for each in ("team.json", "tasks", "members"))]
    if name is None:
        return found
    name = places.team_name(name)
    if home / name not in found:
        known = ", ".join(path.name for path in found) or "none"
        raise UsageError(f"there is no team {name!r} here. Teams: {known}")
    return [home / name]


def _machine(start: Path, sandbox: Found) -> shapes.Machine:
    problems: list[str] = []
    if sys.version_info[:2] < OLDEST:
        problems.append(f"expected Python {OLDEST[0]}.{OLDEST[1]} or later, found {platform.python_version()}: upgrade")
    git = ""
    try:
        git = worktrees.check_version()
    except EnvironmentFault as error:
        problems.append(str(error))
    main = places.checkout(start).main
    home = main / ".coterie"
    place = home if home.is_dir() else main
    if not os.access(place, os.W_OK | os.X_OK):
        problems.append(f"{place} cannot be written: Coterie keeps its files there, give yourself leave to write")
    kind = files.file_system(place)
    if files.is_network(kind):
        problems.append(f"{place} is on a network file system ({kind}): no lock and no rename is sure there, move it")
    if git:
        try:
            worktrees.state_root(worktrees.find_repository(start))
        except EnvironmentFault as error:
            problems.append(str(error))
    if sandbox.level is not Level.FULL:
        problems.append(f"{sandbox.detail}. Without: --unsafe-no-sandbox")
    return shapes.Machine(python=platform.python_version(), git=git, file_system=kind, problems=problems)


def _lacks_git(machine: shapes.Machine) -> bool:
    return not machine.git


def _examine(root: Path, *, repair: bool) -> shapes.Examined:
    repaired: list[str] = []
    if repair:

        def note(event: Event) -> None:
            if event["kind"] == "repair":
                repaired.append(str(event["text"]))

        try:
            lead.repair(root, watch=note)
        except AlreadyRunning:
            raise
        except CoterieError as error:  # what cannot be repaired: the audit says where
            complain(f"{root.name} is not repaired: {error}")
            if exit_code_of(error) == EnvironmentFault.exit_code:
                raise
    host = files.living_holder(root / "processes" / "lead.lock")
    if host is not None and not (root / "processes" / f"{host.get('process')}.lock").exists():
        host = None  # that process lives and has let go of the team
    return shapes.Examined(
        team=root.name,
        pid=host["pid"] if host is not None else None,
        repaired=repaired,
        faults=[
            shapes.FaultRow(
                rule=each.rule, where=each.where, found=each.found, cure=each.cure, repairable=each.repairable
            )
            for each in lead.audit(root)
        ],
        set_aside=lead.set_aside(root),
    )


def _exit_code(machine: shapes.Machine, rows: list[shapes.Examined], *, repaired: bool) -> int:
    """After a repair, what a member puts right by itself when it goes on is no damage any more."""
    faults = [each for row in rows for each in row.faults if not (repaired and each.repairable)]
    if faults:
        return 2 if all(each.rule == "newer-schema" for each in faults) else 3
    return EnvironmentFault.exit_code if machine.problems else 0


def _level(sandbox: Found) -> str:
    return f"partial: {sandbox.detail}" if sandbox.level is Level.PARTIAL else str(sandbox.level)


def _print_machine(paper: Paper, machine: shapes.Machine, sandbox: Found) -> None:
    git = f"git {machine.git}" if machine.git else "no git"
    paper.say(f"python {machine.python}, {git}, file system {machine.file_system}, sandbox {sandbox.level}")
    for problem in machine.problems:
        paper.prose(problem, "red")


def _print_team(paper: Paper, row: shapes.Examined) -> None:
    paper.say()
    running = f", run by pid {row.pid}" if row.pid is not None else ""
    paper.say(paper.style(f"team {row.team}", "bold") + running)
    for text in row.repaired:
        paper.prose(text, "green", first="  repaired: ", rest="    ")
    for fault in row.faults:
        paper.prose(f"{fault.rule}: {fault.where}", "red", first="  ", rest="    ")
        paper.prose(fault.found, first="    ", rest="    ")
        paper.prose(fault.cure, first="    what to do: ", rest="    ")
    if not row.faults:
        paper.say("  every file, branch and worktree is as it has to be")
    for text in row.set_aside:
        paper.prose(text, first="  was set aside: ", rest="    ")

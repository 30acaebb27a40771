"""The commands that steer a team from anywhere, in the name of the human. The host that runs it is woken."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie import files, lead
from coterie.console import places
from coterie.console.door import expect_a_person
from coterie.console.hidden import secrets_of
from coterie.console.hosts import hosts
from coterie.console.paint import Paper, one_line
from coterie.console.reading import Reading, normal
from coterie.console.sources import dot_env
from coterie.errors import CoterieError, Refused, UsageError
from coterie.mailbox import Note, Request, RequestKind, send_owed

if TYPE_CHECKING:
    from coterie.teammates.team import Team

HUMAN = "human"
HUNG_AFTER = 20.0  # seconds that a host gets after `stop --now` before it is killed
LOCK, LOCK_NOW = 30.0, 3.0  # seconds for the team's lock
AT_ONCE = 0.01  # seconds: a deadline has to be above 0


def open_team(name: str | None) -> Team:
    """The rooms of the team that is meant, for a person.

    What a person types is kept as little as what a model says: no secret.
    """
    expect_a_person()
    team: Team = lead.open_team(places.find_team(Path.cwd(), name))
    env: Mapping[str, str] = {}
    with contextlib.suppress(CoterieError):  # a .env that cannot be read stops nobody from stopping a team
        env = dot_env(places.checkout(Path.cwd()).here).values
    files.keep_secret(*secrets_of(os.environ, env, team.record.settings))
    return team


def tell(team: Team, kind: str, text: str, **fields: Any) -> None:
    """Say it to the person and in events.jsonl, and wake the host."""
    Paper().prose(one_line(text, 4000))
    team.events.say(kind, text, member=HUMAN, outside=True, **fields)
    team.bell.ring()


def decide(identifier: str, name: str | None, *, approve: bool, feedback: str) -> int:
    """Approve or reject; the mail that the decision owes is sent."""
    if not approve and not feedback.strip():
        raise UsageError("the reason is empty: say what should change (-m TEXT)")
    team = open_team(name)
    request = team.requests.decide(
        normal(identifier, "R"), by=HUMAN, by_instance=HUMAN, approve=approve, feedback=feedback
    )
    send_owed(team.requests, team.mail, request)
    said = f": {feedback}" if feedback else ""
    tell(team, "decision", f"{request.status} {_named(request)}{said}", request=request.id, task=request.task)
    return 0


def answer(identifier: str, text: str, name: str | None) -> int:
    """Answer a question."""
    team = open_team(name)
    request = team.requests.answer(normal(identifier, "R"), by=HUMAN, by_instance=HUMAN, text=text)
    send_owed(team.requests, team.mail, request)
    tell(team, "decision", f"answered {_named(request)}: {text}", request=request.id, task=request.task)
    return 0


def _named(request: Request) -> str:
    about = f" of {request.sender}"
    if request.task is not None:
        about += f" for {request.task}"
    if request.kind is RequestKind.PLAN:
        about += f", revision {request.revision}"
    return f"{request.id} ({request.kind}{about})"


def say(to: str, text: str, name: str | None, *, urgent: bool) -> int:
    """A message to a member."""
    if not text.strip():
        raise UsageError("the message is empty: say something")
    team = open_team(name)
    if to == HUMAN:
        raise UsageError("that is you: name the lead or a teammate (coterie team lists them)")
    message = team.mail.send(Note(text=text), sender=HUMAN, sender_instance=HUMAN, to=to, urgent=urgent)
    team.events.say("message", files.clean(text, 400), member=HUMAN, to=to, what="note", outside=True)
    team.bell.ring()
    Paper().prose(f"sent to {message.to_instance or message.to} as {message.id}{_not_running(team)}")
    return 0


def mail_done(ids: list[str], name: str | None) -> int:
    """Mark messages to the human as read."""
    team = open_team(name)
    if ids:
        done = _acknowledge(team, ids)
    else:
        taken = team.mail.receive(
            HUMAN,
            instance=HUMAN,
            seen=lambda message: False,
            journal=lambda mail: None,
            journal_undelivered=lambda mail: None,
            room=1 << 40,
        )
        done = [each.id for each in taken]
    Paper().prose(
        f"{files.counted(len(done), 'message')} marked as read" + (f": {', '.join(done[:20])}" if done else "")
    )
    return 0


def _acknowledge(team: Team, ids: list[str]) -> list[str]:
    box = team.root / "mail" / HUMAN
    waiting = {each.id for each in team.mail.waiting(HUMAN)}
    unknown = [each for each in ids if each not in waiting]
    if unknown:
        raise UsageError(f"no unread message is called {', '.join(files.clean(each, 40) for each in unknown)}")
    with files.locked(team.root / "lock"):
        for each in ids:
            source = box / "new" / f"{each}.json"
            if source.exists():
                files.move(source, box / "cur" / source.name)
    return ids


def stop_member(member: str, name: str | None, *, now: bool) -> int:
    """Ask a teammate's life to end: within the team's limit, or at once."""
    team = open_team(name)
    if member == "lead":
        raise Refused("the lead ends with the run: coterie stop, without a name, stops the run in order")
    record = team.roster.get(member)
    if record.status.over:
        raise Refused(f"{record.instance} is {record.status} already: {record.reason}")
    request = team.requests.ask_shutdown(
        sender=HUMAN,
        sender_instance=HUMAN,
        to=member,
        to_instance=record.instance,
        reason="the person asked for it",
        deadline_s=AT_ONCE if now else max(AT_ONCE, team.record.settings.shutdown_timeout),
    )
    send_owed(team.requests, team.mail, request)
    how = "at once" if now else f"within {request.deadline_s:g} s"
    text = f"asked {record.instance} to stop {how} ({request.id}){_not_running(team)}"
    tell(team, "member", text, request=request.id, stops=member)
    host = hosts(team.root).get(record.process or "") if now and record.joined else None
    if host is not None and host.hung:  # nobody there to obey; the lead's host does what is left to do
        _kill(files.read_info(team.root / "processes" / f"{host.process}.lock"))
        Paper().say(f"its host process (pid {host.pid}) was alive and did not answer: it was killed")
    return 0


def stop_run(name: str | None, *, now: bool) -> int:
    """Stop the run in order. With `now` also its model calls; a host that does not end then is killed.

    So is, with `now`, a host process of the team that has the team's lock and does not let go of it: while it hangs,
    nobody can change anything.
    """
    root = places.find_team(Path.cwd(), name)
    lock = root / "processes" / "lead.lock"
    if not files.held(lock):
        others = ", ".join(f"{name} (pid {pid})" for name, pid in _joined(root))
        more = f". Still there: {others}: coterie stop NAME, or Ctrl-C in that terminal" if others else ""
        raise Refused(f"the team {root.name} is not running: there is nothing to stop{more}")
    info = files.read_info(lock)
    wanted = {"schema": 1, "at": files.now(), "by": HUMAN, "process": info.get("process"), "now": now}
    try:
        with files.locked(root / "lock", timeout=LOCK_NOW if now else LOCK):
            files.write_json(root / "stop.json", wanted)
    except files.LockTimeout as error:
        if not now:
            raise
        _kill_holder(root, error)
        with files.locked(root / "lock"):
            files.write_json(root / "stop.json", wanted)
    team = open_team(root.name)
    tell(team, "run", f"asked the run (pid {info.get('pid')}) to stop{' now' if now else ' in order'}")
    if now and not _ended(lock, HUNG_AFTER):
        _kill(info)
        Paper().prose(f"pid {info.get('pid')} did not end within {HUNG_AFTER:g} s and was killed")
    return 0


def _joined(root: Path) -> list[tuple[str, int]]:
    """The teammates that other processes run, and the pid of each."""
    reading = Reading(root)
    found = ((each.name, reading.host_of(each.name)) for each in reading.members.values() if each.joined)
    return [(name, host.pid) for name, host in found if host is not None]


def _ended(lock: Path, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while files.held(lock):
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)
    return True


def _kill(info: dict[str, Any]) -> None:
    """Kill the host, once it is proved to be the process that took the lock: pid, start time and boot id."""
    import signal

    from coterie.teammates.processes import send_signal

    pid = info.get("pid")
    if type(pid) is not int or pid <= 1 or info.get("start") is None:
        raise Refused("the lock does not say which process holds it: end it by hand")
    if any(info.get(key) != value for key, value in files.process_mark(pid).items()):
        raise Refused(f"pid {pid} is another process by now: end the one that holds the lock by hand")
    send_signal(pid, info["start"], signal.SIGKILL)


def _kill_holder(root: Path, error: files.LockTimeout) -> None:
    """Kill the host process that does not let go of the team's lock; what is no host of this team is only named."""
    for path in (root / "processes").glob("*.lock"):
        info = files.living_holder(path)
        if info is not None and error.pid is not None and info["pid"] == error.pid:
            _kill(info)
            Paper().say(f"the host process pid {error.pid} had the team's lock and did not let go of it: it was killed")
            return
    raise error


def _not_running(team: Team) -> str:
    return "" if Reading(team.root).running() else f". Nothing runs: coterie resume --team {team.name} goes on"

"""What is put right before anybody works: the same at a start and at a restart. Each step may be run again."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError
from coterie.lead.integration import send_returned
from coterie.mailbox import Message, send_owed
from coterie.taskboard import Status
from coterie.teammates.commands import ProcessMark, kill_leftovers
from coterie.teammates.journal import DamagedJournal, Journal, Started, Undelivered, whole_records
from coterie.teammates.roster import MemberRecord
from coterie.teammates.team import Team

__all__ = ["recover", "release_orphans", "settle_ended"]

_TEMP = re.compile(r"\.(?P<name>.+)\.(?P<token>[0-9a-f]{12})-\d+\.tmp")


def recover(team: Team) -> None:
    """Run every step in its order. The caller holds lead.lock, so no other host moves claims of this team."""
    _end_leftovers(team)
    _drop_temp_files(team)
    _drop_dead_processes(team)
    members = team.roster.all()
    team.keeper.heal(sorted({each.name for each in members if each.name != "lead"} | {"lead", "queue"}))
    release_orphans(team, members)
    _settle_mail(team, members)


def _say(team: Team, text: str) -> None:
    team.events.say("repair", text)


def _end_leftovers(team: Team) -> None:
    """Commands of dead hosts that still run."""
    marks: list[ProcessMark] = []
    for path in sorted((team.root / "members").glob("*/journal.jsonl")):
        records = whole_records(path)[0]
        marks += [ProcessMark(**record.process) for record in records if isinstance(record, Started) and record.process]
    for mark in kill_leftovers(marks, unproved=lambda mark, reason: _say(team, f"{mark.command_id}: {reason}")):
        _say(team, f"ended what a dead host left running: {mark.command_id} (pid {mark.pid})")


def _drop_temp_files(team: Team) -> None:
    """Halves of writes. Under the team's lock: who writes there holds it, so what is there now is nobody's any more."""
    worktrees = Path(team.record.worktrees_root)  # the file tools write beside the worktrees
    with files.locked(team.root / "lock"):
        for path in sorted([*team.root.rglob(".*.tmp"), *worktrees.glob(".*.tmp")]):
            found = _TEMP.fullmatch(path.name)
            if found is None or found["token"] == files.token():
                continue
            if not files.held(team.root / "processes" / f"{found['token']}.lock"):
                files.remove(path)
                _say(team, f"removed the half-written {path}")


def _drop_dead_processes(team: Team) -> None:
    """Locks and ports of host processes that are proved dead."""
    for lock in sorted((team.root / "processes").glob("*.lock")):
        if lock.name != "lead.lock" and not files.held(lock):
            files.remove(lock)
            files.remove(lock.with_suffix(".port"))
            _say(team, f"the host process {lock.stem} is gone")


def release_orphans(team: Team, members: list[MemberRecord]) -> None:
    """A task in progress whose owner's life has ended goes back to the board, its work kept.

    The thread of that life, if it was one of this host, has ended.
    """
    living = {each.instance for each in members if not each.status.over}
    for task in team.board.tasks():
        claim = task.claim
        if task.status is not Status.IN_PROGRESS or claim is None or claim.instance in living:
            continue
        kept = ""
        with contextlib.suppress(CoterieError):
            snapshot = team.keeper.snapshot(claim.owner, label=f"{task.id}-e{task.epoch}")
            kept = f", snapshot {snapshot.commit}" if snapshot is not None else ""
        if task.wanted is not None:
            team.board.carry_out(task.id, task.epoch, by="runtime")
        else:
            team.board.release(task.id, task.epoch, by="runtime", reason=f"{claim.instance} is gone{kept}", lost=True)
        _say(team, f"{task.id} goes back to the board: {claim.instance} is gone")


def _settle_mail(team: Team, members: list[MemberRecord]) -> None:
    """Mail that records owe, and mail of lives that ended."""
    for request in team.requests.all():
        with contextlib.suppress(CoterieError):
            send_owed(team.requests, team.mail, request)
    for task in team.board.tasks():
        with contextlib.suppress(CoterieError):
            send_returned(team, task)
    for member in members:
        settle_ended(team, member)


def settle_ended(team: Team, member: MemberRecord) -> None:
    """Mail that an ended life has not read is told back to its senders. The life's thread has ended."""
    if not member.status.over or not team.mail.has_mail(member.name):
        return
    try:
        journal = Journal(team.roster.folder(member.name) / "journal.jsonl")
    except DamagedJournal as error:
        _say(team, f"the unread mail of {member.instance} stays where it is: {error}")
        return

    def undelivered(mail: list[Message]) -> None:
        journal.append(Undelivered(instance=member.instance, ids=[each.id for each in mail]))

    team.mail.end_of_life(member.name, instance=member.instance, seen=journal.seen, journal_undelivered=undelivered)

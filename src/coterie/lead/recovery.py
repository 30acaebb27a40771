"""What is put right before anybody works: the same at a start and at a restart. Each step may be run again."""

from __future__ import annotations

import contextlib
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError, Refused
from coterie.lead import steps
from coterie.lead.audit import Fault
from coterie.lead.checks import marks_of
from coterie.lead.host import forget_process
from coterie.lead.integration import send_returned
from coterie.mailbox import Event, Message, send_owed
from coterie.taskboard import NotCurrent, Status
from coterie.teammates.commands import ProcessMark, kill_leftovers
from coterie.teammates.journal import DamagedJournal, Finished, Journal, Started, Undelivered, unanswered, whole_records
from coterie.teammates.outcomes import send_outcome
from coterie.teammates.processes import boot_id
from coterie.teammates.roster import MemberRecord, UnknownMember
from coterie.teammates.roster import Status as MemberStatus
from coterie.teammates.team import Team
from coterie.worktrees import git_command

__all__ = ["bury", "dead_processes", "end_commands", "held_process", "recover", "sweep_life"]


def recover(team: Team) -> list[Fault]:
    """Put right what an earlier host left, step by step, and answer what is wrong all the same.

    The caller holds lead.lock and has started no thread of a member, so no other host moves claims of this team. What
    a living joined process has in hand (commands, worktree, claim, mail) is left alone. Each step may be killed and
    run again; each tells the events what it repaired. The calls that a member was interrupted in are the member's own
    to repair, when its thread starts: they take its tools. Raises `NewerSchema` before anything is changed, and
    `DamagedError` where going on would build on work that is not there.
    """
    steps.expect_known_schema(team)
    others = (path.stem for path in (team.root / "processes").glob("*.lock") if path.name != "lead.lock")
    alone = not any(held_process(team, each) for each in others if each != team.process)
    if alone:  # else their own host has their records, and puts them back
        _end_unknown(team)
    dead = dead_processes(team)
    members = team.roster.all()
    elsewhere = {each.name for each in members if _lives_elsewhere(team, each)}
    _end_leftovers(team, dead, elsewhere)
    _drop_temp_files(team)
    steps.drop_unsent(team)
    steps.cut_torn_journals(team, elsewhere)
    team.board.settle()  # quarantine, and batches that were begun
    team.requests.heal()
    steps.open_branch(team)
    for process in dead:
        bury(team, process)
    steps.drop_stray_ports(team)
    for record in team.roster.all():
        if record.status is MemberStatus.FAILED and record.name != "lead":
            sweep_life(team, record)
    names = {each.name for each in members if each.name != "lead"} | {"lead", "queue"}
    team.keeper.heal(sorted(names - elsewhere), alone=alone)
    steps.settle_merges(team)
    steps.carry_out_wanted(team, elsewhere)
    release_orphans(team)
    steps.rest_worktrees(team, elsewhere)
    steps.put_mail_away(team, elsewhere)
    _settle_mail(team, team.roster.all())
    return steps.tell_faults(team)


def _end_unknown(team: Team) -> None:
    """The lives of members end whose record nobody can read any more."""
    for path in sorted((team.root / "members").glob("*")):
        with contextlib.suppress(Refused):  # a folder of somebody else's
            steps.end_unknown(team, files.check_name(path.name, reserved=True))


def held_process(team: Team, process: str | None) -> bool:
    """Whether that host process lives. No proves it dead, whatever became of its pid."""
    return process is not None and files.held(team.root / "processes" / f"{process}.lock")


def dead_processes(team: Team) -> list[str]:
    """The host processes that are proved dead, and are owed something by whoever runs the team."""
    locks = {path.stem for path in (team.root / "processes").glob("*.lock") if path.name != "lead.lock"}
    joined = {each.process for each in team.roster.living() if each.joined and each.process is not None}
    return sorted(each for each in locks | joined if each != team.process and not held_process(team, each))


def _lives_elsewhere(team: Team, member: MemberRecord) -> bool:
    return member.joined and not member.status.over and held_process(team, member.process)


def _end_leftovers(team: Team, dead: list[str], elsewhere: set[str]) -> None:
    """Commands of dead hosts that still run."""
    marks: list[ProcessMark] = []
    for path in sorted((team.root / "members").glob("*/journal.jsonl")):
        if path.parent.name not in elsewhere:
            marks += _marks_in(path)
    for process in dead:
        marks += marks_of(team.root, process)
    _end(team, marks)


def end_commands(team: Team, name: str) -> None:
    """End what still runs of the commands of a member whose host is dead, or does not answer."""
    _end(team, _marks_in(team.roster.folder(name) / "journal.jsonl"))


def _marks_in(journal: Path) -> list[ProcessMark]:
    records = whole_records(journal)[0]
    return [ProcessMark(**record.process) for record in records if isinstance(record, Started) and record.process]


def _end(team: Team, marks: list[ProcessMark]) -> None:
    for mark in kill_leftovers(marks, unproved=lambda mark, reason: steps.say(team, f"{mark.command_id}: {reason}")):
        which = f" (pid {mark.pid})" if mark.pid > 0 else ""
        steps.say(team, f"ended what a host left running: {mark.command_id}{which}")


def bury(team: Team, process: str) -> None:
    """What a dead host process leaves behind. Safe to run again: its lock goes last.

    Its git ends first. The life of a teammate that joined with it ends: commands first, then its task goes back after a
    snapshot, its unread mail to the senders. Tasks that it handed in stay in the queue. Of a dead host of the lead
    nothing is moved.
    """
    _end(team, [ProcessMark(command_id=git_command(process), pid=-1, start=0, boot=boot_id())])
    for record in team.roster.all():
        if not record.joined or record.process != process:
            continue
        end_commands(team, record.name)
        if not record.status.over:
            text = f"its host process ({_pid_of(team, process)}) is dead"
            over = {"status": MemberStatus.FAILED, "reason": text, "task": None, "epoch": None}
            record = team.roster.update(record.name, record.instance, **over)
            team.events.say("member", f"failed: {text}", member=record.name, status="failed")
        team.keeper.heal([record.name], alone=False)
        sweep_life(team, record)
        with contextlib.suppress(CoterieError):  # no snapshot, no removal: the next start looks at it again
            team.keeper.close(record.name)
    _end(team, marks_of(team.root, process))
    _drop_temp_files(team, of=process)
    forget_process(team.root, process)
    steps.say(team, f"the host process {process} is gone")


def _pid_of(team: Team, process: str) -> str:
    return f"pid {files.read_info(team.root / 'processes' / f'{process}.lock').get('pid', 'unknown')}"


def sweep_life(team: Team, record: MemberRecord) -> None:
    """A life that has ended leaves nothing in hand: its task goes back to the board, its mail to the senders.

    The lead hears of one that has failed. Nothing of that life runs any more.
    """
    release_orphans(team, only=record.instance)
    _answer_open_calls(team, record)
    settle_ended(team, record)
    if record.status is not MemberStatus.FAILED:
        return
    with contextlib.suppress(CoterieError):  # the key is that of the member's own word: it is told once
        team.mail.send(
            Event(text=f"{record.name} failed: {record.reason}", event="member-failed", wakes=True),
            sender="runtime",
            sender_instance=None,
            to="lead",
            made_by=f"{record.instance}/failed",
        )


def _answer_open_calls(team: Team, record: MemberRecord) -> None:
    """A life that ended in the middle of its calls: each has an answer all the same, as every journal's calls do."""
    try:
        journal = Journal(team.roster.folder(record.name) / "journal.jsonl", instance=record.instance)
    except DamagedJournal:
        return  # it is said where its mail is looked after, and by the audit
    for block in unanswered(journal.conversation())[1]:
        text = f"interrupted: {record.instance} ended in it"
        result = Finished(
            instance=record.instance, call=block["id"], tool=block["name"], text=text, is_error=True, ends=True
        )
        journal.append(result)


def _drop_temp_files(team: Team, *, of: str | None = None) -> None:
    """Halves of writes, of one process or of all that are dead.

    Under the team's lock: who writes there holds it, so what is there now is nobody's any more.
    """
    worktrees = Path(team.record.worktrees_root)  # the file tools write beside the worktrees
    with files.locked(team.root / "lock"):
        for path in sorted([*team.root.rglob(".*.tmp"), *worktrees.glob(".*.tmp")]):
            owner = files.temp_owner(path.name)
            if owner in (None, files.token()) or of not in (None, owner) or path.is_dir():
                continue
            if not held_process(team, owner):
                files.remove(path)
                steps.say(team, f"removed the half-written {path}")


def release_orphans(team: Team, *, only: str | None = None) -> None:
    """A task in progress whose owner's life has ended goes back to the board, its work kept.

    only: of this life. Its thread, if it was one of this host, has ended.
    """
    for task in team.board.tasks():
        claim = task.claim
        if task.status is not Status.IN_PROGRESS or claim is None or only not in (None, claim.instance):
            continue
        if _may_live(team, claim.owner, claim.instance):
            continue
        kept = steps.keep_work(team, task, claim.owner)
        try:
            if task.wanted is not None:
                team.board.carry_out(task.id, task.epoch, by="runtime", kept=kept)
            else:
                reason = f"{claim.instance} is gone"
                team.board.release(task.id, task.epoch, by="runtime", reason=reason, kept=kept, lost=True)
        except NotCurrent:
            continue  # a process that joined gave it back itself just now
        steps.say(team, f"{task.id} goes back to the board: {claim.instance} is gone")


def _may_live(team: Team, name: str, instance: str) -> bool:
    """Whether that life may still go on. Looked at after the claim was read, since who claims has a record before."""
    try:
        record = team.roster.get(name)
    except UnknownMember:
        return False
    except CoterieError:
        return True  # another host has its record, and puts it back
    return record.instance == instance and not record.status.over


def _settle_mail(team: Team, members: list[MemberRecord]) -> None:
    """Mail that records owe, and mail of lives that ended."""
    for request in team.requests.all():
        with contextlib.suppress(CoterieError):
            send_owed(team.requests, team.mail, request)
    for task in team.board.tasks():
        with contextlib.suppress(CoterieError):
            send_returned(team, task)
            send_outcome(team, task)
    for member in members:
        settle_ended(team, member)


def settle_ended(team: Team, member: MemberRecord) -> None:
    """Mail that an ended life has not read is told back to its senders. The life's thread has ended."""
    if not member.status.over or not team.mail.has_mail(member.name):
        return
    try:
        journal = Journal(team.roster.folder(member.name) / "journal.jsonl")
    except DamagedJournal as error:
        steps.say(team, f"the unread mail of {member.instance} stays where it is: {error}")
        return

    def undelivered(mail: list[Message]) -> None:
        journal.append(Undelivered(instance=member.instance, ids=[each.id for each in mail]))

    team.mail.end_of_life(member.name, instance=member.instance, seen=journal.seen, journal_undelivered=undelivered)

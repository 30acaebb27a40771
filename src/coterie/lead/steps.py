"""The steps of recovery that need nothing of one another. Each may be killed and run again, and tells what it did."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError, DamagedError, NewerSchema
from coterie.lead.audit import LEFT_FOR_RESUME, Fault, audit, trees
from coterie.lead.audit.sight import look
from coterie.lead.integration import complete
from coterie.taskboard import Status, Task
from coterie.teammates.journal import Answered, DamagedJournal, Journal, Opened, whole_records
from coterie.teammates.roster import MemberRecord, UnknownMember, billed
from coterie.teammates.roster import Status as MemberStatus
from coterie.teammates.team import Team

__all__ = [
    "carry_out_wanted",
    "cut_torn_journals",
    "drop_stray_ports",
    "drop_unsent",
    "end_unknown",
    "expect_known_schema",
    "keep_work",
    "open_branch",
    "put_mail_away",
    "rest_worktrees",
    "say",
    "settle_merges",
    "tell_faults",
]


def say(team: Team, text: str) -> None:
    """Tell what was repaired."""
    team.events.say("repair", text)


def expect_known_schema(team: Team) -> None:
    newer = next((fault for fault in look(team.root).faults if fault.rule == "newer-schema"), None)
    if newer is not None:
        raise NewerSchema(f"{team.root / newer.where}: {newer.found}. {newer.cure}")


def end_unknown(team: Team, name: str) -> None:
    """End the life of a member whose record nobody can read any more. One that can be read is left as it is.

    Which life that was, and what it cost, its journal, its claims, its requests and its mail tell: no number of a life
    is given twice.
    """
    path = team.roster.folder(name) / "journal.jsonl"
    try:
        team.roster.get(name)
        return
    except UnknownMember:
        if not os.path.lexists(path) and not list(path.parent.glob("bad/member.json*")):
            return  # who spawned it died at once, or a person took all of it away
    except files.Unreadable:
        pass
    records = whole_records(path)[0]
    lives = {each.instance for each in records}
    lives |= {task.claim.instance for task in team.board.tasks() if task.claim is not None}
    lives |= {
        each for request in team.requests.all() for each in (request.sender_instance, request.to_instance) if each
    }
    lives |= {each.to_instance for _, each in team.mail.history(name) if each.to_instance}
    life = max((int(each.partition("#")[2]) for each in lives if each.startswith(f"{name}#")), default=1)
    tokens, usd = billed(records)
    model = next((each.model for each in reversed(records) if isinstance(each, Opened)), "")
    team.roster.end_unknown(
        MemberRecord(
            name=name,
            instance=f"{name}#{life}",
            model=model,
            status=MemberStatus.FAILED,
            reason="its record could not be read",
            since=files.now(),
            turn=sum(isinstance(each, Answered) for each in records),
            tokens=tokens,
            usd=usd,
        )
    )


def drop_unsent(team: Team) -> None:
    """Messages that were being written when their sender died."""
    for name in team.mail.names():
        for path in team.mail.heal(name):
            say(team, f"removed {path}: a message that was never sent")


def cut_torn_journals(team: Team, elsewhere: set[str]) -> None:
    for path in sorted((team.root / "members").glob("*/journal.jsonl")):
        name = path.parent.name
        if name in elsewhere:
            continue
        with contextlib.suppress(DamagedJournal):  # that member cannot be resumed, and the audit says why
            if torn := Journal(path).torn:
                say(team, f"cut {torn} torn bytes off the journal of {name}")


def drop_stray_ports(team: Team) -> None:
    """What a host that died while it began, or while it ended, left without its lock."""
    folder = team.root / "processes"
    for path in sorted([*folder.glob("*.port"), *folder.glob("*.commands")]):
        if path.stem != team.process and not path.with_suffix(".lock").exists():
            files.remove(path)


def open_branch(team: Team) -> None:
    """The integration branch at the base, if nothing was merged yet."""
    keeper = team.keeper
    done = [task for task in team.board.tasks() if task.result is not None and task.result.merged_commit is not None]
    if done and keeper.git.resolve(keeper.integration) is None:
        last = max(done, key=lambda task: task.queued or 0)
        assert last.result is not None
        raise DamagedError(
            f"{keeper.integration} is gone, and with it the work of {files.counted(len(done), 'task')}: "
            "what follows would lack that. Put it back, then go on: "
            f"git update-ref {keeper.integration} {last.result.merged_commit}"
        )
    keeper.create_integration(team.record.base.commit)


def settle_merges(team: Team) -> None:
    """An entry is completed if and only if the branch has its merge; a mark of merging without one is taken away."""
    for task in team.board.queue():
        commit = task.result.commit if task.result is not None else None
        merged = None  # what was handed in without a change is never merged
        if commit is not None:
            merged = team.merger.find_merged(task=task.id, epoch=task.epoch, head=commit, base=team.record.base.commit)
        if merged is not None:
            assert task.result is not None
            complete(team, task, merged, task.result.evidence)
        elif task.merging is not None:
            team.board.set_merging(task.id, task.epoch, None)
            say(team, f"{task.id} was about to be merged and was not: it waits in the queue again")


def carry_out_wanted(team: Team, elsewhere: set[str]) -> None:
    """What somebody wants back from a member that no host runs: kept as a snapshot, then moved."""
    for task in team.board.tasks():
        claim = task.claim
        if task.status is not Status.IN_PROGRESS or task.wanted is None or claim is None or claim.owner in elsewhere:
            continue
        kept = keep_work(team, task, claim.owner)
        team.board.carry_out(task.id, task.epoch, by="runtime", kept=kept)
        said = f", snapshot {kept}" if kept is not None else ""
        say(team, f"{task.id} is taken back from {claim.instance}, as {task.wanted.by} wanted{said}")
        with contextlib.suppress(CoterieError):  # that life is over
            team.roster.update(claim.owner, claim.instance, task=None, epoch=None)


def keep_work(team: Team, task: Task, owner: str) -> str | None:
    """Keep what lies in the worktree of an owner: the snapshot's commit; None where nothing was to be kept.

    Also where it cannot be kept: the worktree is left as it lies then, and nothing takes it away without a snapshot.
    Only a lack of room is raised, since what is done again once there is room keeps it.
    """
    try:
        snapshot = team.keeper.snapshot(owner, label=f"{task.id}-e{task.epoch}")
    except CoterieError as error:
        if files.shortage(error):
            raise
        say(team, f"what lies in the worktree of {owner} could not be kept yet, and stays there: {error}")
        return None
    return snapshot.commit if snapshot is not None else None


def rest_worktrees(team: Team, elsewhere: set[str]) -> None:
    """A worktree that nothing is bound to: what lies in it is kept, then it is clean and detached."""
    for fault in trees.faults(look(team.root, team)):
        name = Path(fault.where).name
        if fault.rule in ("half-worktree", "loose-worktree") and name not in elsewhere:
            try:
                kept = team.keeper.close(name)
            except CoterieError as error:  # no snapshot, no removal
                say(team, f"{fault.where} is left as it lies: {error}")
                continue
            say(team, f"{fault.where} is at rest" + (f": what lay in it is kept as {kept.ref}" if kept else ""))


def put_mail_away(team: Team, elsewhere: set[str]) -> None:
    """Messages that a journal has, and that a kill left in `new`."""
    for member in team.roster.all():
        if member.name not in elsewhere and team.mail.has_mail(member.name):
            with contextlib.suppress(DamagedJournal):
                journal = Journal(team.roster.folder(member.name) / "journal.jsonl")
                for each in team.mail.put_away(member.name, seen=journal.seen):
                    say(team, f"{each} was delivered before: it is put away")


def tell_faults(team: Team) -> list[Fault]:
    """The audit, as the last step: what is wrong all the same is told to whoever watches. Nothing is decided by it."""
    left = audit(team.root, team, left=LEFT_FOR_RESUME)
    for fault in left:
        team.events.say("warning", f"{fault.where}: {fault.found}. {fault.cure}", rule=fault.rule)
    return left

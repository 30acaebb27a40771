"""The run of a team: one host process with the lead, the teammates, the merge queue, and a watch over all of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError, KeyOrBilling, Refused
from coterie.lead.boundary import expect_boundary, find_boundary, kept, sandbox_of, say_boundary
from coterie.lead.checks import Checks
from coterie.lead.ending import OPEN, Ending, write_report
from coterie.lead.host import Outcome, leading, make_runtime, real_model
from coterie.lead.integration import Queue
from coterie.lead.joined import Joined
from coterie.lead.lead import Lead
from coterie.lead.opening import open_team, refuse_network_files
from coterie.lead.pause import RETRY, Pause
from coterie.lead.recovery import recover, sweep_life
from coterie.lead.signals import interruptible
from coterie.lead.stall import Stall
from coterie.lead.steps import end_unknown
from coterie.mailbox import Request, RequestStatus, Standing, send_owed, unsound
from coterie.taskboard import Status as TaskStatus
from coterie.teammates.events import Event
from coterie.teammates.journal import DamagedJournal
from coterie.teammates.member import Member
from coterie.teammates.model import Model
from coterie.teammates.roster import MemberRecord, Status
from coterie.teammates.sandbox import Sandbox
from coterie.teammates.sandbox.probe import Found
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Team, TeamRecord
from coterie.teammates.teammate import Teammate
from coterie.worktrees import Repository, find_repository, refuse_foreign_state, uncommitted

__all__ = ["Outcome", "Run", "owes", "run_team"]

TICK = 0.5  # seconds between two looks where nothing rang
SWEEP = 1.0  # seconds between two looks at the team's files, however often it rings


def run_team(
    root: Path,
    *,
    settings: TeamSettings,
    api_key: str | None,
    model: Model | None = None,
    interactive: bool = False,
    watch: Callable[[Event], None] = lambda event: None,
    unsafe_no_sandbox: bool = False,
    look_for_boundary: Callable[[TeamSettings, Repository], Found] = find_boundary,
    network_files: bool = False,
    file_system: Callable[[Path], str] = files.file_system,
    again: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Start the team at `root`, or go on with it; returns when it has ended or stopped in order.

    settings: in force from now on, and written to team.json. model: instead of the API, for tests and demos.
    watch: called with every event. again: the command that goes on with it, for people; else resume. say: told a line
    when a signal comes, in its handler. Raises errors of ours with their exit code for what is refused before any work:
    `EnvironmentFault` where the sandbox of commands is below full, unless `unsafe_no_sandbox`, and `UsageError` for
    settings of it that cannot be; `AlreadyRunning` where another process runs this team, `KeyOrBilling` without a
    key, `EnvironmentFault` on a network file system unless `network_files`.
    """
    repository = find_repository(root.parent.parent)
    refuse_foreign_state(repository)
    refuse_network_files(root, allowed=network_files, file_system=file_system)
    record = TeamRecord.read(root)
    if record.ended is not None and not owes(root):
        return Outcome(record.ended.exit, f"the team {record.team} has ended: {record.ended.summary}")
    if model is None and not api_key:
        raise KeyOrBilling("no API key: set ANTHROPIC_API_KEY, or put it into .env")
    boundary = look_for_boundary(settings, repository)
    expect_boundary(boundary, unsafe=unsafe_no_sandbox)
    chosen = model or real_model(settings, api_key)
    with leading(root, kept(boundary)) as process:
        TeamRecord.read(root).model_copy(update={"settings": settings, "sandbox": kept(boundary)}).write(root)
        team = open_team(root, process=process)
        if _open_tasks(team):
            team.change(ended=None)  # created or retried after the end
        team.events.watch(watch)
        with team.bell:
            sandbox = sandbox_of(boundary, team, settings)
            return Run(team, settings, chosen, sandbox, interactive=interactive, again=again, say=say).go()


def owes(root: Path) -> bool:
    """Whether a team still has something to do: it has not ended, has open tasks, lives to end, or owes its report."""
    ended = TeamRecord.read(root).ended
    if ended is None:
        return True
    try:
        written = files.read_json(root / "report.json").get("summary") == ended.summary
    except (FileNotFoundError, files.Unreadable):
        written = False
    team = open_team(root)
    return not written or bool(team.roster.living()) or _open_tasks(team)


def _open_tasks(team: Team) -> bool:
    return any(task.status in OPEN for task in team.board.tasks())


class Run:
    """One run, from the first look at what is there to the report."""

    def __init__(
        self,
        team: Team,
        settings: TeamSettings,
        model: Model,
        sandbox: Sandbox,
        *,
        interactive: bool,
        again: str | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.team = team
        self.again = again or f"coterie resume --team {team.name}"
        self.say = say
        self.runtime = make_runtime(team, settings, model, sandbox)
        self.checks = Checks(self.runtime)
        self.ending = Ending(self.runtime, self.checks)
        self.queue = Queue(self.runtime, self.checks)
        self.members: dict[str, Member] = {}
        self.joined = Joined(self.runtime)
        self._swept: set[str] = set()  # lives whose thread has ended, and what they held was looked after
        self._settled: set[tuple[str, int, Standing]] = set()  # requests whose mail is sent, as they stood
        self.pause = Pause(self.runtime, interactive=interactive)
        self._sweep_due = 0.0  # monotonic
        self.stall = Stall(self.runtime, self.queue, self.members, self.joined, interactive=interactive)

    def go(self) -> Outcome:
        """Recover, run, stop, report."""
        team = self.team
        signals = interruptible(self.runtime.stop, again=self.again, say=self.say)
        with signals, self.runtime.commands, self.joined:
            team.events.say("run", f"team {team.name}: {team.record.goal}", team=team.name, process=team.process)
            say_boundary(team, self.runtime.commands.sandbox)
            left = uncommitted(team.repository, team.record.base.branch) if not team.board.tasks() else []
            if left:  # said where it begins
                names = ", ".join(left[:5]) + (" …" if len(left) > 5 else "")
                text = f"work starts from HEAD: what is uncommitted in your checkout is no part of it ({names})"
                team.events.say("warning", text)
            if team.record.ended is not None:  # killed after it had ended: lives and the report are still owed
                self.runtime.finished.set("finished")
            else:
                end_unknown(team, "lead")
                with contextlib.suppress(Refused):  # it lives; after a fault its next life begins
                    team.roster.spawn("lead", model=self.runtime.settings.model)
            recover(team)
            self.queue.thread.start()
            try:
                self.watch()
            except Exception as error:
                team.events.say("warning", f"the run failed: {type(error).__name__}: {error}")
                self.runtime.stop(f"the run failed: {error}", 3, drop_calls=True)
                raise
            finally:
                self.wind_down()
        return self.outcome()

    def watch(self) -> None:
        """Until the team has finished or stops: start threads, let everybody look, see whether anything moves."""
        stop, finished = self.runtime.stop.wanted, self.runtime.finished
        unhook = [each.on(self.team.bell.ring) for each in (stop, finished)]
        try:
            while not stop.is_set():
                seen = self.team.bell.count()
                try:
                    self.sweep()
                    self.joined.look()
                    self.start_members()
                    if finished.is_set() and not self.remaining():
                        return
                    self.look()
                    self.stall.look(seen)
                    self.pause.look(next((each.paused for each in self.members.values() if each.paused), None))
                except Exception as error:
                    if not files.shortage(error):
                        raise
                    self.pause.look(files.shortage(error))
                self.team.bell.wait(seen, TICK)
        finally:
            for each in unhook:
                each()

    def remaining(self) -> bool:
        """Whether somebody still has a life to end: here, or in a joined process that answers."""
        return self.joined.remaining() or any(each.thread.is_alive() for each in self.members.values())

    def start_members(self) -> None:
        """A thread for every living member of this host that has none."""
        for record in self.team.roster.living():
            if record.joined:
                continue
            running = self.members.get(record.name)
            if running is not None and running.thread.is_alive():
                continue  # two lives of a name never write its journal at once
            if running is not None and running.over and running.instance not in self._swept:
                continue  # nor does one begin before what the other held is looked after
            if running is not None and running.instance == record.instance and not running.may_go_on(RETRY):
                continue
            try:
                member = self._member(record)
            except CoterieError as error:
                self.team.events.say("warning", f"{record.name} cannot be resumed: {error}", member=record.name)
                self.team.roster.update(record.name, record.instance, status=Status.FAILED, reason=str(error)[:500])
                if isinstance(error, DamagedJournal):
                    self._set_journal_aside(record)
                self._sweep(record.instance)
                continue
            self.members[record.name] = member
            member.thread.start()

    def _set_journal_aside(self, record: MemberRecord) -> None:
        """What is damaged stops this life only, and no later one of that name: the lead's begins at once."""
        where = files.set_aside(self.team.roster.folder(record.name) / "journal.jsonl")
        text = f"the journal of {record.name} cannot be gone on with: it is in {where}"
        self.team.events.say("repair", text, member=record.name)
        if record.name == "lead" and not self.runtime.finished.is_set():
            self.team.roster.spawn("lead", model=self.runtime.settings.model)

    def sweep(self) -> None:
        """A life that has failed leaves nothing in hand: its task goes back to the board, its mail to the senders."""
        for member in list(self.members.values()):
            if member.over and not member.thread.is_alive() and member.instance not in self._swept:
                self._swept.add(member.instance)
                self._sweep(member.instance)

    def _sweep(self, instance: str) -> None:
        team = self.team
        record = team.roster.get(instance.partition("#")[0])
        if record.instance == instance and not record.status.over:  # it could not even say so
            record = team.roster.update(record.name, instance, status=Status.FAILED, reason="see the events")
        if record.instance != instance:  # a person has made another life of it
            record = record.model_copy(update={"instance": instance, "status": Status.STOPPED})
        elif record.status is not Status.FAILED:
            return
        self.runtime.commands.stop_all(instance)
        sweep_life(team, record)

    def _member(self, record: MemberRecord) -> Member:
        if record.name == "lead":
            return Lead(self.runtime, record, self.ending)
        return Teammate(self.runtime, record)

    def look(self) -> None:
        """What came from outside: stop files, rejected splits, mail and moves that end what runs."""
        team = self.team
        path = team.root / "stop.json"
        with contextlib.suppress(FileNotFoundError, files.Unreadable):
            wanted = files.read_json(path)
            if wanted.get("process") == team.process:
                self.runtime.stop(
                    f"stopped by {wanted.get('by', 'somebody')}", 7, drop_calls=bool(wanted.get("now", False))
                )
        for request in team.requests.all():
            self._settle(request)
            if request.kind == "split" and request.status is RequestStatus.REJECTED:
                with contextlib.suppress(Refused):  # somebody moved one of its tasks: the next look sees it
                    self._drop_split(request.id)
        self._look_at_files()
        self.queue.look()
        for member in list(self.members.values()):
            if member.thread.is_alive():
                with contextlib.suppress(CoterieError):  # a file that is being rewritten is read again soon
                    member.look()
                if self.runtime.finished.is_set() and member.name != "lead":
                    member.halt.set("the team has finished")

    def _settle(self, request: Request) -> None:
        """Send what a request owes since it changed: whoever did that may have been killed, or have used an editor."""
        standing = self.team.requests.standing(request)
        now = (request.id, request.rev, standing)
        if now in self._settled:
            return
        with contextlib.suppress(Refused):
            if send_owed(self.team.requests, self.team.mail, request) and standing is Standing.UNSOUND:
                self.team.events.say("warning", f"{unsound(request)}; {request.sender} is told", request=request.id)
            self._settled.add(now)

    def _look_at_files(self) -> None:
        """What a person or a disk did to the team's files, while nobody changes them."""
        if time.monotonic() >= self._sweep_due:
            with contextlib.suppress(CoterieError, OSError):  # what is in the way is met by the mutations, too
                self.team.sweep()
            self._sweep_due = time.monotonic() + SWEEP

    def _drop_split(self, request: str) -> None:
        """The tasks of a rejected proposal are cancelled, and edges to them are taken out."""
        board = self.team.board
        tasks = board.tasks()
        gone = {task.id for task in tasks if task.split == request}
        for task in tasks:
            edges = gone & set(task.blocked_by)
            if edges and task.id not in gone and task.status is TaskStatus.PENDING:
                board.update(
                    task.id,
                    by="runtime",
                    remove_blocked_by=sorted(edges),
                    may_lower_plan=False,
                    made_by=f"{request}/rejected/{task.id}",
                )
            if task.id in gone and task.status is TaskStatus.PENDING:
                board.want(
                    task.id,
                    move="cancel",
                    by="runtime",
                    reason=f"{request} was rejected",
                    made_by=f"{request}/rejected/{task.id}",
                )

    def wind_down(self) -> None:
        """Wait until every thread has come to its boundary; a model call that runs is finished and journaled."""
        self.team.bell.ring()
        if not self.runtime.finished.is_set():
            if not self.runtime.stop.wanted.is_set():
                self.runtime.stop("the run ends", 7)
            self.joined.stop()
        for member in list(self.members.values()):
            while member.thread.is_alive():
                member.thread.join(0.5)
                with contextlib.suppress(CoterieError, OSError):
                    member.look()
        while self.queue.thread.is_alive():
            self.queue.thread.join(0.5)

    def outcome(self) -> Outcome:
        """The report, the exit code, and what the person is told."""
        team = self.team
        record = team.record
        if record.ended is not None:
            code, summary = record.ended.exit, record.ended.summary
        else:
            code, summary = self.runtime.stop.exit_code, self.runtime.stop.wanted.reason
        kept = summary
        if record.ended is None:
            summary = f"stopped: {summary}. `{self.again}` goes on"
        try:
            write_report(team, exit_code=code, summary=kept)
            team.events.say("end", summary, exit_code=code)
        except OSError as error:  # what stopped the run stands against this too
            summary += f" (the report could not be written: {error.strerror})"
            team.events.show({"at": files.now(), "kind": "end", "text": summary, "exit_code": code})
        return Outcome(code, summary)

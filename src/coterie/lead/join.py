"""One teammate in a host process of its own, from a second terminal, on a team that runs."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from coterie import files
from coterie.errors import CoterieError, KeyOrBilling, Refused, UsageError
from coterie.lead.boundary import expect_boundary, find_boundary, kept, sandbox_of, say_boundary
from coterie.lead.host import Outcome, hosting, make_runtime, real_model
from coterie.lead.opening import open_team
from coterie.lead.pause import RETRY, Pause
from coterie.lead.recovery import sweep_life
from coterie.lead.signals import interruptible
from coterie.mailbox import Event as Told
from coterie.teammates.events import Event
from coterie.teammates.model import Model
from coterie.teammates.roster import MemberRecord, Status
from coterie.teammates.sandbox import Sandbox
from coterie.teammates.sandbox.probe import Found
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Team, TeamRecord
from coterie.teammates.teammate import Teammate
from coterie.worktrees import Repository, find_repository

__all__ = ["JoinedRun", "join_team"]

TICK = 0.5  # seconds between two looks where nothing rang
LEAVING = 10.0  # seconds that the end of an earlier life of the same name may take
LEFT = 7


def join_team(
    root: Path,
    *,
    name: str,
    settings: TeamSettings,
    api_key: str | None,
    role: str | None = None,
    model_name: str | None = None,
    model: Model | None = None,
    unsafe_no_sandbox: bool = False,
    look_for_boundary: Callable[[TeamSettings, Repository], Found] = find_boundary,
    watch: Callable[[Event], None] = lambda event: None,
    say: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run the teammate `name` in this process until its life ends; it ends with the process at the latest.

    settings: the team's, with the base URL of this process. say: told a line when a signal comes, in its handler.
    Refused where the name is taken by a life that goes on, the team has all the teammates it may have, has ended, or no
    host runs its lead. `UsageError` for what is no name, `EnvironmentFault` where the sandbox of commands is below full
    unless `unsafe_no_sandbox`.
    """
    try:
        files.check_name(name)
    except Refused as error:
        raise UsageError(f"--name: {error}") from None
    record = TeamRecord.read(root)
    if record.ended is not None:
        raise Refused(f"the team {record.team} has ended: {record.ended.summary}. There is nothing to join")
    if not _lead_lives(root):
        raise Refused(
            f"no process runs the lead of the team {record.team}: `coterie resume --team {record.team}` goes on with "
            "it, then join"
        )
    if model is None and not api_key:
        raise KeyOrBilling("no API key: set ANTHROPIC_API_KEY, or put it into .env")
    boundary = look_for_boundary(settings, find_repository(root.parent.parent))
    expect_boundary(boundary, unsafe=unsafe_no_sandbox)
    chosen = model or real_model(settings, api_key)
    with hosting(root, kept(boundary)) as process:
        team = open_team(root, process=process)
        _await_last_life(team, name)
        team.events.outside = True
        team.events.watch(watch)
        with team.bell:
            life = team.roster.spawn(
                name, role=role, model=model_name or settings.model, most=record.settings.teammates, joined=process
            )
            return JoinedRun(team, settings, chosen, sandbox_of(boundary, team, settings), life, say=say).go()


def _lead_lives(root: Path) -> bool:
    """Whether a host runs the lead: it holds lead.lock and its own lock. A command that repairs has the first alone."""
    if not files.held(root / "processes" / "lead.lock"):
        return False
    process = _leads_process(root)
    return process is None or files.held(root / "processes" / f"{process}.lock")


def _leads_process(root: Path) -> str | None:
    found = files.read_info(root / "processes" / "lead.lock").get("process")
    return found if isinstance(found, str) else None


def _await_last_life(team: Team, name: str) -> None:
    """Until what an earlier life of that name left is put away: two lives never write one journal at once."""
    end = time.monotonic() + LEAVING
    while team.roster.instance_of(name) is None and team.mail.has_mail(name):
        seen = team.bell.count()
        if time.monotonic() >= end:
            raise Refused(f"the mail of the last life of {name} is not put away yet: try again, or take another name")
        team.bell.wait(seen, 0.1)


class JoinedRun:
    """The life of one joined teammate: the same member, loop and gate as in the lead's host, and no lead or queue."""

    def __init__(
        self,
        team: Team,
        settings: TeamSettings,
        model: Model,
        sandbox: Sandbox,
        life: MemberRecord,
        *,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.team = team
        self.say = say
        self.life = life
        self.runtime = make_runtime(team, settings, model, sandbox, hold_claims=self.hold_claims)
        self.runtime.claims_open.set()  # of this process; what holds claims is looked at each time
        self._held = team.record.settings
        self.pause = Pause(self.runtime, interactive=False)
        self._lead = _leads_process(team.root)  # the lead's host that was there last
        self._alone: float | None = None  # since when the lead's host is gone and nothing is left to do without it

    def go(self) -> Outcome:
        """Live, then leave: nothing stays in hand."""
        team = self.team
        again = f"coterie join --team {team.name} --name {self.life.name}"
        with interruptible(self.runtime.stop, again=again, say=self.say), self.runtime.commands:
            self._hello()
            try:
                self.member = Teammate(self.runtime, self.life)
            except CoterieError as error:
                team.roster.update(self.life.name, self.life.instance, status=Status.FAILED, reason=str(error)[:500])
                raise
            self.member.thread.start()
            try:
                self.watch()
            finally:
                self.leave()
        return self.outcome()

    def _hello(self) -> None:
        team, life = self.team, self.life
        role = f" (role {life.role})" if life.role else ""
        team.events.say("member", f"joins the team {team.name}{role}", member=life.name, process=team.process)
        say_boundary(team, self.runtime.commands.sandbox, member=life.name)
        with contextlib.suppress(CoterieError):
            team.mail.send(
                Told(text=f"{life.instance}{role} has joined from another terminal", event="member-joined"),
                sender="runtime",
                sender_instance=None,
                to="lead",
                made_by=f"{life.instance}/joined",
            )

    # ------------------------------------------------------------ what it sees of the lead's host

    def hold_claims(self) -> str:
        """Why it may claim nothing now: without the lead's host nobody merges, decides or ends anything."""
        if not _lead_lives(self.team.root):
            return "the lead's host is gone: it waits for `coterie resume`"
        return "" if self.team.record.base_checked else "waits until the base is checked"

    def watch(self) -> None:
        """Until the member's thread has ended; where only room was lacking, it goes on as after a restart."""
        unhook = self.runtime.stop.wanted.on(self.team.bell.ring)
        try:
            while self.member.thread.is_alive() or self.member.paused:
                seen = self.team.bell.count()
                try:
                    self.pause.look(self.member.paused)
                    self.look()
                    self.member.look()
                    if self.member.may_go_on(RETRY):
                        self.member = Teammate(self.runtime, self.life)
                        self.member.thread.start()
                except CoterieError:
                    pass  # a file that is being rewritten is read again soon
                except OSError as error:
                    if not files.shortage(error):
                        raise
                    self.pause.look(files.shortage(error))
                if self.runtime.stop.wanted.is_set() and not self.member.thread.is_alive():
                    return
                self.team.bell.wait(seen, TICK)
        finally:
            unhook()

    def look(self) -> None:
        """What came from outside: the end of the team, a stop of the run, the death and return of the lead's host."""
        if _lead_lives(self.team.root):
            if self._alone is not None:
                self.member.say("repair", "the lead's host is back")
            self._alone = None
            self._lead = _leads_process(self.team.root) or self._lead
        elif self._alone is None:
            self._alone = time.monotonic()
            self.member.say("warning", "the lead's host is gone: work in hand is finished, nothing more is claimed")
        elif self.member.record.status is Status.WORKING:
            self._alone = time.monotonic()
        elif time.monotonic() - self._alone >= self.runtime.settings.orphan_timeout:
            seconds = f"{self.runtime.settings.orphan_timeout:g} s"
            self.runtime.stop(f"the lead's host has been gone for {seconds}", LEFT)
        self._stop_with_the_run()
        self.team.roster.sweep(self.team.process)
        record = self.team.record
        if record.settings != self._held:  # a resume has changed what the team runs by
            self._held = record.settings
            settings = record.settings.model_copy(update={"base_url": self.runtime.settings.base_url})
            self.runtime = self.member.runtime = dataclasses.replace(self.runtime, settings=settings)
        if record.ended is not None and not self.runtime.finished.is_set():
            self.runtime.finished.set("finished")
            self.team.bell.ring_here()
        if self.runtime.finished.is_set():
            self.member.halt.set("the team has finished")

    def _stop_with_the_run(self) -> None:
        """Stop if the run that this member works in is stopped in order; an earlier one does not count."""
        with contextlib.suppress(FileNotFoundError, files.Unreadable):
            wanted = files.read_json(self.team.root / "stop.json")
            if self._lead is not None and wanted.get("process") == self._lead:
                by = str(wanted.get("by", "somebody"))
                self.runtime.stop(f"the run was stopped by {by}", LEFT, drop_calls=bool(wanted.get("now", False)))

    # ------------------------------------------------------------ the end

    def leave(self) -> None:
        """Wait for the turn boundary, then end the life: what it holds goes back to the board, with its work kept."""
        if not self.runtime.stop.wanted.is_set() and self.member.thread.is_alive():
            self.runtime.stop("the process ends", LEFT)
        while self.member.thread.is_alive():
            self.member.thread.join(TICK)
            with contextlib.suppress(CoterieError, OSError):
                self.member.look()
        if not self.member.over:
            self.member.leave(self.runtime.stop.wanted.reason or "the process ends")
        record = self.team.roster.get(self.life.name)
        if record.instance == self.life.instance and record.status is Status.FAILED:
            sweep_life(self.team, record)

    def outcome(self) -> Outcome:
        """How it ended, for the person at this terminal."""
        record = self.team.roster.get(self.life.name)
        reason = record.reason if record.instance == self.life.instance else "its life is over"
        if record.instance == self.life.instance and record.status is Status.FAILED:
            return Outcome(1, f"{self.life.instance} failed: {reason}")
        code = self.runtime.stop.exit_code if self.runtime.stop.wanted.is_set() else 0
        return Outcome(code, f"{self.life.instance} has left: {reason}")

"""The merge queue: one entry at a time, merged off to the side, checked, and only then moved to the branch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable

from coterie import files
from coterie.errors import CoterieError, Refused
from coterie.lead.checks import Checks, Ended
from coterie.mailbox import Event, Returned
from coterie.taskboard import Evidence, Status, Task
from coterie.teammates.cancel import Cancel, linked
from coterie.teammates.outcomes import send_outcome
from coterie.teammates.team import Runtime, Team
from coterie.worktrees import Merge

__all__ = ["Queue", "complete", "send_returned"]

POLL = 2.0
CONFLICT = "conflict: "  # begins the lines of a kept output that name the files in conflict


class Queue:
    """The thread that merges. Stateless: what it has to do stands on the board and in git."""

    def __init__(self, runtime: Runtime, checks: Checks) -> None:
        self.runtime = runtime
        self.team: Team = runtime.team
        self.checks = checks
        self.busy = False
        self._aside: dict[tuple[str, int], str] = {}  # entry -> the tip on which it cannot be judged
        self.blocked: str | None = None  # why nothing can be merged now, where that is in the person's hands
        self._entry = Cancel()  # the entry in hand is not current any more
        self._in_hand: tuple[str, int] | None = None
        self.thread = threading.Thread(target=self.live, name="queue", daemon=True)

    def live(self) -> None:
        """Until the team stops or has finished."""
        ends = (self.runtime.stop.wanted, self.runtime.finished)
        unhook = [end.on(self.team.bell.ring) for end in ends]
        try:
            while not any(end.is_set() for end in ends):
                seen = self.team.bell.count()
                try:
                    went_on = self.go_on()
                except Exception as error:
                    if not files.shortage(error):
                        raise
                    went_on = False  # the host says what is lacking; the same is done again
                if not went_on:
                    self.team.bell.wait(seen, POLL)
        except Exception as error:
            self.team.events.say("warning", f"the merge queue failed: {type(error).__name__}: {error}")
            self.runtime.stop(f"the merge queue failed: {error}", 3)
        finally:
            self.busy = False
            for each in unhook:
                each()

    def go_on(self) -> bool:
        """The next thing to do; False if there is nothing."""
        if not self.runtime.claims_open.is_set():
            self.check_base()
        return self.step()

    def check_base(self) -> None:
        """Before the first claim: what is red before anybody has changed anything."""
        team, checks = self.team, self.runtime.settings.checks
        if checks and all(task.epoch == 0 for task in team.board.tasks()):
            self.busy = True
            with contextlib.suppress(Ended):
                for each in self.checks.on(team.keeper.tip(), checks, cancel=self.runtime.stop.wanted):
                    if each.exit_code != 0:
                        text = f"red on the base, before any change: {each.command}\n{self.checks.output(each, 2000)}"
                        team.events.say("warning", text)
                        _tell_lead(self.team, "base-red", text, made_by=f"base/{each.command[:150]}")
            self.busy = False
        if not self.runtime.stop.wanted.is_set() and not team.record.base_checked:
            team.change(base_checked=True)  # for processes that join: this one has its event
        self.runtime.claims_open.set()
        team.bell.ring()

    def waiting(self) -> list[Task]:
        """The entries that can be judged now, in order."""
        tip = self.team.keeper.tip()
        return [task for task in self.team.board.queue() if self._aside.get((task.id, task.epoch)) != tip]

    def look(self) -> None:
        """Called whenever something changed: end the checks of an entry that is not current any more."""
        if self._in_hand is not None and not self.team.board.is_current(*self._in_hand):
            self._entry.set("the entry is not current any more")

    def step(self) -> bool:
        """Judge the first entry; False if there is none."""
        entries = self.waiting()
        if not entries:
            return False
        task = entries[0]
        if self.wait_for_branch(task):
            return False
        self.busy = True
        self._in_hand = (task.id, task.epoch)
        self._entry.clear()
        try:
            with linked(self._entry, self.runtime.stop.wanted) as cancel:
                self.judge(task, cancel)
        except (Ended, Refused) as error:
            self.team.events.say("merge", f"{task.id} is left for now: {error}", task=task.id)
            return False  # tried again when something changes, and after a while
        finally:
            self._in_hand = None
            self.busy = False
        return True

    def wait_for_branch(self, task: Task) -> bool:
        """Whether somebody has the integration branch checked out: the queue stops and says so once."""
        before, self.blocked = self.blocked, self.team.merger.checked_out()
        if self.blocked is not None and before is None:
            self.team.events.say("warning", f"the merge queue waits: {self.blocked}", task=task.id)
            _tell_lead(
                self.team,
                "queue-waits",
                self.blocked,
                made_by=f"{task.id}/e{task.epoch}/{self.team.keeper.tip()}/waits",
            )
        return self.blocked is not None

    # ------------------------------------------------------------ one entry

    def judge(self, task: Task, cancel: Cancel) -> None:
        """Merge, check, move: or give back with the reason."""
        team = self.team
        result = task.result
        assert result is not None
        tip = team.keeper.tip()
        if task.requires_plan and not team.requests.plan_approved(task.id, task.epoch):
            self.give_back(task, "its required plan is not approved (any more)", tip, counted=False)
            return
        commands = [*task.checks, *self.runtime.settings.checks]
        if result.commit is None:
            evidence = self.checks.on(tip, commands, cancel=cancel)
            if self.judged_red(task, tip, evidence, cancel, same=True):
                return
            complete(self.team, task, None, evidence)
            return
        merged = team.merger.find_merged(
            task=task.id, epoch=task.epoch, head=result.commit, base=team.record.base.commit
        )
        if merged is not None:
            complete(self.team, task, merged, result.evidence)
            return
        if task.merging is not None:
            task = team.board.set_merging(task.id, task.epoch, None)
        merge = team.merger.plan_merge(result.commit, tip)
        if merge.conflicts:
            paths = [each.path for each in merge.conflicts]
            conflict = self._keep_conflict(task, result.commit, paths, merge.output)
            self.give_back(
                task, f"merge conflict with what was merged meanwhile, in {', '.join(paths)}", tip, evidence=[conflict]
            )
            return
        commit = self.commit(task, merge, result.commit, result.summary, tip)
        evidence = self.checks.on(commit, commands, cancel=cancel)
        if self.judged_red(task, tip, evidence, cancel):
            return
        self.move(task, tip, commit, evidence)

    def commit(self, task: Task, merge: Merge, head: str, summary: str, tip: str) -> str:
        """The merge as a commit with the queue's trailers. Nothing points to it yet."""
        team = self.team
        plan = team.requests.plan_of(task.id, task.epoch) if task.requires_plan else None
        return team.merger.commit_merge(
            merge,
            tip=tip,
            head=head,
            message=f"{task.id}: {task.subject}\n\n{summary}",
            trailers={
                "Coterie-Team": team.name,
                "Coterie-Task": task.id,
                "Coterie-Epoch": str(task.epoch),
                "Coterie-Head": head,
                "Coterie-Plan": plan.digest if plan is not None else "none",
            },
            author=task.claim.owner if task.claim is not None else "runtime",
        )

    def move(self, task: Task, tip: str, commit: str, evidence: list[Evidence]) -> None:
        """Set `merging`, move the branch, complete. Stopping in order carries this through."""
        team = self.team
        if self.runtime.stop.wanted.is_set():
            raise Ended(self.runtime.stop.wanted.reason)
        if task.requires_plan and not team.requests.plan_approved(task.id, task.epoch):
            self.give_back(task, "its required plan is not approved (any more)", tip, counted=False)
            return
        team.board.set_merging(task.id, task.epoch, commit, evidence=evidence)
        try:
            team.merger.advance(tip, commit)
        except CoterieError as error:  # it moved, or was checked out, since it was looked at
            team.board.set_merging(task.id, task.epoch, None)
            raise Ended(f"the integration branch could not be moved: {error}") from None
        complete(self.team, task, commit, evidence)

    def judged_red(self, task: Task, tip: str, evidence: list[Evidence], cancel: Cancel, *, same: bool = False) -> bool:
        """Whether a check is red; then the entry is given back, or set aside where the tip is red without it too."""
        red = next((each for each in evidence if each.exit_code != 0), None)
        if red is None:
            return False
        before = red if same else self.checks.on(tip, [red.command], cancel=cancel)[0]
        if before.exit_code != 0 and red.command in self.runtime.settings.checks:
            self._aside[(task.id, task.epoch)] = tip
            if task.assignment is not None:  # its owner is free for other tasks meanwhile
                self.team.board.unbind(
                    task.id, task.epoch, by="queue", reason=f"set aside: {red.command} is red anyway"
                )
            text = f"{task.id} cannot be judged: {red.command} is red on the integration branch without it too"
            self.team.events.say("warning", text, task=task.id)
            _tell_lead(
                self.team,
                "base-red",
                f"{text}\n{self.checks.output(red, 3000)}",
                made_by=f"{tip}/{task.id}/aside",
                task=task.id,
            )
            return True
        self.give_back(
            task,
            f"check failed on the merged tree: {red.command} (exit code {red.exit_code})",
            tip,
            evidence=evidence,
        )
        return True

    def _keep_conflict(self, task: Task, commit: str, paths: list[str], output: str) -> Evidence:
        """A conflict as evidence: what git said and both sides of each file, in output/."""
        name = f"queue.{task.id}-e{task.epoch}-{commit[:12]}-{files.token()}"
        text = "".join(f"{CONFLICT}{path}\n" for path in paths) + output + "\n"
        files.write_bytes(self.team.root / "output" / name, text.encode("utf-8", "surrogateescape"))
        return Evidence(command="git merge-tree", exit_code=1, commit=commit, output=name)

    def give_back(
        self,
        task: Task,
        reason: str,
        tip: str,
        *,
        evidence: Iterable[Evidence] = (),
        counted: bool = True,
    ) -> None:
        """Return the entry to its owner, or to the board where the owner is gone or holds another task."""
        team = self.team
        owner = task.claim
        available = owner is not None and team.roster.instance_of(owner.owner) == owner.instance
        after = team.board.give_back(
            task.id,
            task.epoch,
            reason=reason,
            base=tip,
            evidence=list(evidence),
            counted=counted,
            owner_available=available,
            made_by=f"{task.id}/e{task.epoch}/{(task.result.commit if task.result else None) or 'none'}/{tip}/back",
        )
        team.events.say("merge", f"{task.id} is returned: {reason}", task=task.id)
        if after.status is Status.IN_PROGRESS:
            send_returned(team, after)
        send_outcome(team, after)


def complete(team: Team, task: Task, commit: str | None, evidence: Iterable[Evidence]) -> None:
    """The task is done: merged as `commit`, or without a change. The lead is told. Again: nothing happens twice."""
    after = team.board.complete(
        task.id,
        task.epoch,
        merged_commit=commit,
        evidence=list(evidence),
        made_by=f"{task.id}/e{task.epoch}/complete",
    )
    said = f"merged as {commit[:12]}" if commit else "no change"
    team.events.say("merge", f"{task.id} is completed: {said}: {task.subject}", task=task.id, commit=commit)
    send_outcome(team, after)


def _tell_lead(team: Team, event: str, text: str, *, made_by: str, task: str | None = None, wakes: bool = True) -> None:
    with contextlib.suppress(CoterieError):
        team.mail.send(
            Event(text=text, event=event, task=task, wakes=wakes),
            sender="queue",
            sender_instance=None,
            to="lead",
            made_by=made_by[:300],
        )


def send_returned(team: Team, task: Task) -> None:
    """The mail that a returned task owes its owner, made from the task's own record. Again: it is there already."""
    change = next((each for each in reversed(task.history) if each.from_ == Status.SUBMITTED != each.to), None)
    if task.claim is None or task.status is not Status.IN_PROGRESS or change is None or change.epoch != task.epoch:
        return
    number = sum(each.from_ == Status.SUBMITTED != each.to and each.epoch == task.epoch for each in task.history)
    output = _red_output(team, task)
    paths = [line.removeprefix(CONFLICT) for line in output.split("\n") if line.startswith(CONFLICT)]
    team.mail.send(
        Returned(
            text=f"{change.reason}\nThe integration branch is merged into your worktree now: repair it there, run the "
            "checks, and call submit_work again.",
            task=task.id,
            epoch=task.epoch,
            returns=task.returns,
            files=tuple(paths),
            output=output[-16_000:] or None,
            base=task.assignment.base if task.assignment is not None else None,
        ),
        sender="queue",
        sender_instance=None,
        to=task.claim.owner,
        to_instance=task.claim.instance,
        made_by=f"{task.id}/e{task.epoch}/return{number}",
    )


def _red_output(team: Team, task: Task) -> str:
    """What the red command, or git, said when the task was returned last."""
    evidence = task.result.evidence if task.result is not None else ()
    red = next((each for each in evidence if each.exit_code != 0 and each.output is not None), None)
    if red is None or red.output is None:
        return ""
    try:
        data = files.read_bytes(team.root / "output" / red.output, limit=1 << 27)
    except (FileNotFoundError, files.Unreadable):
        return ""
    text = data.decode("utf-8", "replace")
    return files.clean(text, len(text) + 1)

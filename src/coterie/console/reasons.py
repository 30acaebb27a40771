"""`coterie why`: what stands between a task and its completion, the nearest first, and what moves it."""

from __future__ import annotations

from coterie.console import places, shapes
from coterie.console.reading import Reading
from coterie.files import counted
from coterie.mailbox import RequestKind, Standing
from coterie.taskboard import Status, Task
from coterie.teammates.roster import MemberRecord
from coterie.teammates.roster import Status as MemberStatus

_ACTIVE = (MemberStatus.STARTING, MemberStatus.WORKING, MemberStatus.STOPPING)
GOES_ON = "nothing: it goes on by itself"


def why(reading: Reading, identifier: str) -> shapes.WhyView:
    """The reasons, and what a person can do."""
    task = reading.task(identifier)
    found = _Reasons(reading)
    step = found.explain(task.id)
    over = task.status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
    if not over and reading.running() is None:
        found.add(f"no process runs the team {reading.name}")
        resume = f"coterie resume --team {reading.name}"
        step = f"{step}, then {resume}" if step else resume
    elif not over and not step and found.nobody_moves():
        found.add("nobody on the team works: the run is stalled")
        step = f"coterie say lead TEXT (what to do about {task.id}), or coterie task cancel {task.id}"
    return shapes.WhyView(
        team=reading.name,
        sandbox=places.sandbox_of(reading.root),
        task=task.id,
        status=str(task.status),
        reasons=found.reasons,
        next=step or GOES_ON,
    )


class _Reasons:
    """The reasons for one task and those that it waits for. Each `explain…` answers what a person can do, or ""."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.reasons: list[shapes.Reason] = []
        self._seen: set[str] = set()

    def add(self, text: str, **about: str) -> None:
        self.reasons.append(shapes.Reason(text=text, **about))

    def nobody_moves(self) -> bool:
        """Whether no member does anything and nothing lies in the queue, so that nothing can come of waiting."""
        members = self.reading.members.values()
        tasks = self.reading.tasks.values()
        queue = [task for task in tasks if task.status is Status.SUBMITTED and not _set_aside(task)]
        return not queue and not any(each.status in _ACTIVE for each in members)

    def explain(self, identifier: str) -> str:
        self._seen.add(identifier)
        task = self.reading.tasks.get(identifier)
        if task is None:
            self.add(f"{identifier} is not on the board, or cannot be read", task=identifier)
            return "repair the file of that task, or take it out of what waits for it: coterie task unblock"
        match task.status:
            case Status.COMPLETED:
                return "nothing: it is completed"
            case Status.FAILED | Status.CANCELLED:
                last = task.history[-1].reason if task.history else ""
                self.add(f"{task.id} is {task.status}: {last}".rstrip(": "), task=task.id)
                return f"coterie task retry {task.id}"
            case Status.SUBMITTED:
                return self.submitted(task)
            case Status.IN_PROGRESS:
                return self.in_progress(task)
        return self.pending(task)

    # -- on the board ---------------------------------------------------------------------------------------------

    def pending(self, task: Task) -> str:
        reading = self.reading
        step = ""
        split = reading.open_split(task)
        if split is not None:
            standing = reading.standing(split)
            text = f"{task.id} came with the split {split.id}, which is {standing} and waits for {split.to}"
            self.add(text, task=task.id, request=split.id)
            step = f"coterie review {split.id}" if split.open else ""
        blockers = reading.open_blockers(task)
        for each in blockers:
            status = reading.tasks[each].status if each in reading.tasks else "not on the board"
            self.add(f"{task.id} waits for {each} ({status})", task=each)
            if each not in self._seen:
                step = step or self.explain(each)
        if not blockers and split is None:
            step = self.unclaimed(task)
        return step

    def unclaimed(self, task: Task) -> str:
        """Why nobody has taken a ready task."""
        role = task.role
        mates = [each for each in self.reading.members.values() if each.name != "lead" and not each.status.over]
        fitting = [each for each in mates if role is None or each.role == role]
        wanted = f" of the role {role}" if role else ""
        if not fitting:
            self.add(f"it is ready, and no teammate{wanted} lives: the lead has to spawn one", task=task.id)
            lead = self.reading.members.get("lead")
            if lead is not None and lead.status in _ACTIVE:
                return ""  # it may be about to
            return f'coterie say lead "spawn a teammate{wanted} for {task.id}"'
        busy = ", ".join(f"{each.name} ({_doing(each)})" for each in fitting)
        self.add(f"it is ready, and goes to the next teammate{wanted} that is free: {busy}", task=task.id)
        for each in fitting:  # where all of them are stuck, what frees the first of them moves this one too
            held = self.reading.tasks.get(each.task or "")
            if each.status is not MemberStatus.WAITING or held is None or held.id in self._seen:
                return ""
        first = next(each.task for each in fitting if each.task)
        return self.explain(first)

    # -- in hand --------------------------------------------------------------------------------------------------

    def in_progress(self, task: Task) -> str:
        owner = self.reading.members.get(task.claim.owner) if task.claim is not None else None
        if task.wanted is not None:
            text = f"{task.wanted.by} wants {task.id} back ({task.wanted.move}): {task.wanted.reason}"
            self.add(text, task=task.id)
        if owner is None or task.claim is None or owner.instance != task.claim.instance or owner.status.over:
            return self.orphaned(task, owner)
        returned = f", returned {counted(task.returns, 'time')}" if task.returns else ""
        verb = "works on it" if owner.status in _ACTIVE else "owns it"
        text = f"{owner.name} ({_doing(owner)}) {verb}, in epoch {task.epoch}{returned}"
        self.add(text, task=task.id, member=owner.name)
        host = self.reading.host_of(owner.name)
        if host is not None and host.hung:
            text = f"the host process of {owner.name} (pid {host.pid}) is alive and does not answer"
            self.add(text, task=task.id, member=owner.name)
            return f"coterie task release {task.id} --now"
        if task.wanted is not None:
            return ""
        if (leave := self.permission(task)) is not None:
            return leave
        plan = self.plan(task)
        if plan or owner.status in _ACTIVE:
            return plan
        if owner.status is MemberStatus.WAITING and owner.reason == "no result":
            self.add(
                f"{owner.name} ended its turn twice without handing in {task.id}, and waits for word", task=task.id
            )
        if self.reading.running() is None or self.reading.mail_of(owner.name):
            return ""  # resumed, it goes on with it; mail wakes it
        return _word(owner, task)

    def orphaned(self, task: Task, owner: MemberRecord | None) -> str:
        """In progress in the name of a life that has ended."""
        gone = task.claim.instance if task.claim is not None else "its owner"
        how = ""
        if owner is not None and task.claim is not None and owner.instance == task.claim.instance:
            how = f" ({_doing(owner)})"
        self.add(f"{gone}{how} owned {task.id} and is gone: it has to go back to the board", task=task.id)
        return "" if self.reading.running() is None or task.wanted is not None else f"coterie task release {task.id}"

    def submitted(self, task: Task) -> str:
        reading = self.reading
        if task.merging is not None:
            self.add(f"{task.id} is being merged as {task.merging[:12]}", task=task.id)
            return ""
        if _set_aside(task):
            self.add(f"{task.id} is handed in and {task.history[-1].reason}: it waits for another merge", task=task.id)
            return 'coterie task add "repair what is red on the integration branch"'
        if (blocked := reading.integration_checked_out()) is not None:
            self.add(f"{task.id} is handed in, and the merge queue waits: {blocked}", task=task.id)
            return "git switch BRANCH there"
        queue = [each for each in reading.tasks.values() if each.status is Status.SUBMITTED and not _set_aside(each)]
        queue.sort(key=lambda each: each.queued or 0)
        place = [each.id for each in queue].index(task.id)
        before = f"after {', '.join(each.id for each in queue[:place])}" if place else "as the next"
        self.add(f"{task.id} is handed in and waits in the merge queue, {before}", task=task.id)
        return self.plan(task)

    def permission(self, task: Task) -> str | None:
        """What a call of its owner waits for, where a person is asked about one."""
        for each in self.reading.plans(task.id):
            if each.kind is RequestKind.PERMISSION and self.reading.standing(each) is Standing.SUBMITTED:
                text = f"a call of {each.sender} waits for your leave ({each.id})"
                self.add(text, task=task.id, request=each.id)
                return f"coterie review {each.id}"
        return None

    def plan(self, task: Task) -> str:
        """What the plan of a task waits for, where one is required and not approved."""
        if not task.requires_plan:
            return ""
        plans = [
            each for each in self.reading.plans(task.id) if each.kind is RequestKind.PLAN and each.epoch == task.epoch
        ]
        if not plans:
            self.add(f"{task.id} needs an approved plan, and none is submitted", task=task.id)
            return ""
        last = max(plans, key=lambda each: each.revision)
        standing = self.reading.standing(last)
        if standing is Standing.APPROVED:
            return ""
        if standing is Standing.SUBMITTED:
            text = f"its plan {last.id} (revision {last.revision}) waits for {last.to}"
            self.add(text, task=task.id, request=last.id)
            return f"coterie review {last.id}"
        text = f"its plan {last.id} (revision {last.revision}) is {standing}: {last.feedback or ''}".rstrip(": ")
        self.add(text, task=task.id, request=last.id)
        return ""


def _set_aside(task: Task) -> bool:
    """Whether the queue passes a task over until the integration branch moves."""
    return task.status is Status.SUBMITTED and not task.held


def _doing(member: MemberRecord) -> str:
    return f"{member.status}: {member.reason}" if member.reason else str(member.status)


def _word(owner: MemberRecord, task: Task) -> str:
    """What wakes a member that waits for somebody, or gives its task to another."""
    return f"coterie say {owner.name} TEXT (what to do), or coterie task release {task.id} (for another to claim)"

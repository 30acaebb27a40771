"""What the reading commands say, as objects: the same for `--json` and for the text that people read."""

from __future__ import annotations

from coterie.console import places, shapes
from coterie.console.reading import Reading, spent_on
from coterie.mailbox import Request, RequestKind, Standing
from coterie.taskboard import Status


def show(reading: Reading, identifier: str) -> shapes.ShowView:
    """Everything of one task."""
    task = reading.task(identifier)
    tokens, usd = spent_on(reading.root, task.id)
    return shapes.ShowView(
        team=reading.name,
        sandbox=places.SANDBOX,
        task=task,
        state=reading.state(task),
        open_blockers=reading.open_blockers(task),
        dependants=reading.dependants(task.id),
        requests=[_row(reading, each) for each in reading.plans(task.id)],
        tokens=tokens,
        usd=usd,
    )


def team(reading: Reading) -> shapes.TeamView:
    """Who is on the team and what they do."""
    tokens, usd = reading.spent()
    running = reading.running()
    rows = []
    for each in reading.members.values():
        known = {name: getattr(each, name) for name in shapes.MemberRow.model_fields if name != "waiting_mail"}
        waiting = len(reading.mail_of(each.name))
        rows.append(shapes.MemberRow(**known | {"status": str(each.status)}, waiting_mail=waiting))
    return shapes.TeamView(
        team=reading.name,
        sandbox=places.SANDBOX,
        goal=reading.goal,
        ended=ended if isinstance(ended := reading.record.get("ended"), dict) else None,
        running=shapes.Running(**running) if running else None,
        members=rows,
        tokens=tokens.total,
        usd=usd,
    )


def inbox(reading: Reading) -> shapes.InboxView:
    """What waits for the person; what unblocks the most comes first."""
    items = []
    for each in reading.waiting_for_human():
        about = reading.tasks.get(each.task or "")
        items.append(
            shapes.InboxItem(
                request=each,
                standing=str(reading.standing(each)),
                unblocks=reading.unblocks(each),
                subject=about.subject if about is not None else None,
            )
        )
    items.sort(key=lambda item: (-len(item.unblocks), int(item.request.id[1:])))
    waiting = len(reading.mail_of("human"))
    return shapes.InboxView(team=reading.name, sandbox=places.SANDBOX, items=items, waiting_mail=waiting)


def review(reading: Reading, identifier: str) -> shapes.ReviewView:
    """One request as it is to be decided on, with what came before."""
    request = reading.request(identifier)
    about = reading.tasks.get(request.task or "")
    earlier = [
        _row(reading, each)
        for each in reading.requests
        if request.kind is RequestKind.PLAN
        and each.kind is RequestKind.PLAN
        and (each.task, each.epoch) == (request.task, request.epoch)
        and each.revision < request.revision
    ]
    return shapes.ReviewView(
        team=reading.name,
        sandbox=places.SANDBOX,
        request=request,
        standing=str(reading.standing(request)),
        earlier=earlier,
        subject=about.subject if about is not None else None,
    )


def mail(reading: Reading) -> shapes.MailView:
    """The mail that waits for the person."""
    return shapes.MailView(team=reading.name, sandbox=places.SANDBOX, messages=reading.mail_of("human"))


def why(reading: Reading, identifier: str) -> shapes.WhyView:
    """What stands between a task and its completion, the nearest first, and what a person can do."""
    task = reading.task(identifier)
    reasons: list[shapes.Reason] = []
    step = _explain(reading, task.id, reasons, set())
    if reasons and reading.running() is None and task.status not in (Status.FAILED, Status.CANCELLED):
        reasons.append(shapes.Reason(text=f"no process runs the team {reading.name}"))
        step = step or f"coterie resume --team {reading.name}"
    return shapes.WhyView(
        team=reading.name,
        sandbox=places.SANDBOX,
        task=task.id,
        status=str(task.status),
        reasons=reasons,
        next=step or "nothing: it goes on by itself",
    )


def _explain(reading: Reading, identifier: str, reasons: list[shapes.Reason], seen: set[str]) -> str:
    """Adds the reasons for one task and those it waits for; answers what a person can do, empty for nothing."""
    seen.add(identifier)
    task = reading.tasks.get(identifier)
    if task is None:
        reasons.append(shapes.Reason(text=f"{identifier} is not on the board, or cannot be read", task=identifier))
        return "repair the file of that task, or unblock what waits for it: coterie task unblock"
    match task.status:
        case Status.COMPLETED:
            return "nothing: it is completed"
        case Status.FAILED | Status.CANCELLED:
            last = task.history[-1].reason if task.history else ""
            reasons.append(shapes.Reason(text=f"{task.id} is {task.status}: {last}".rstrip(": "), task=task.id))
            return f"coterie task retry {task.id}"
        case Status.SUBMITTED:
            return _explain_submitted(reading, task.id, reasons)
        case Status.IN_PROGRESS:
            return _explain_in_progress(reading, task.id, reasons)
        case Status.PENDING:
            pass
    split = reading.open_split(task)
    step = ""
    if split is not None:
        text = f"{task.id} came with the split {split.id}, which is {reading.standing(split)} and waits for {split.to}"
        reasons.append(shapes.Reason(text=text, task=task.id, request=split.id))
        step = f"coterie review {split.id}" if split.open and split.to == "human" else ""
    blockers = reading.open_blockers(task)
    for each in blockers:
        status = reading.tasks[each].status if each in reading.tasks else "not on the board"
        reasons.append(shapes.Reason(text=f"{task.id} waits for {each} ({status})", task=each))
        if each not in seen:
            step = step or _explain(reading, each, reasons, seen)
    if not blockers and split is None:
        reasons.append(shapes.Reason(text=_why_unclaimed(reading, task.role), task=task.id))
    return step


def _why_unclaimed(reading: Reading, role: str | None) -> str:
    mates = [each for each in reading.members.values() if each.name != "lead" and not each.status.over]
    fitting = [each for each in mates if role is None or each.role == role]
    wanted = f" of the role {role}" if role else ""
    if not fitting:
        return f"it is ready, and no teammate{wanted} lives: the lead has to spawn one"
    busy = ", ".join(f"{each.name} ({each.status})" for each in fitting)
    return f"it is ready, and goes to the next teammate{wanted} that is idle: {busy}"


def _explain_submitted(reading: Reading, identifier: str, reasons: list[shapes.Reason]) -> str:
    task = reading.tasks[identifier]
    if task.merging is not None:
        reasons.append(shapes.Reason(text=f"{task.id} is being merged as {task.merging[:12]}", task=task.id))
        return ""
    queue = sorted(
        (each for each in reading.tasks.values() if each.status is Status.SUBMITTED), key=lambda each: each.queued or 0
    )
    place = [each.id for each in queue].index(task.id)
    before = f"after {', '.join(each.id for each in queue[:place])}" if place else "as the next"
    reasons.append(shapes.Reason(text=f"{task.id} is handed in and waits in the merge queue, {before}", task=task.id))
    return _explain_plan(reading, identifier, reasons)


def _explain_in_progress(reading: Reading, identifier: str, reasons: list[shapes.Reason]) -> str:
    task = reading.tasks[identifier]
    owner = reading.members.get(task.claim.owner) if task.claim is not None else None
    if task.wanted is not None:
        text = f"{task.wanted.by} wants it back ({task.wanted.move}): {task.wanted.reason}"
        reasons.append(shapes.Reason(text=text, task=task.id))
    if owner is None or task.claim is None or owner.instance != task.claim.instance or owner.status.over:
        gone = task.claim.instance if task.claim is not None else "its owner"
        reasons.append(shapes.Reason(text=f"{gone} owns it and is gone: it goes back to the board", task=task.id))
        return ""
    doing = f"{owner.name} ({owner.status}{f': {owner.reason}' if owner.reason else ''}) works on it"
    returned = f", returned {task.returns} times" if task.returns else ""
    text = f"{doing}, in epoch {task.epoch}{returned}"
    reasons.append(shapes.Reason(text=text, task=task.id, member=owner.name))
    return _explain_plan(reading, identifier, reasons)


def _explain_plan(reading: Reading, identifier: str, reasons: list[shapes.Reason]) -> str:
    task = reading.tasks[identifier]
    if not task.requires_plan:
        return ""
    plans = [each for each in reading.plans(identifier) if each.kind is RequestKind.PLAN and each.epoch == task.epoch]
    if not plans:
        reasons.append(shapes.Reason(text=f"{task.id} needs an approved plan, and none is submitted", task=task.id))
        return ""
    last = max(plans, key=lambda each: each.revision)
    standing = reading.standing(last)
    if standing is Standing.APPROVED:
        return ""
    if standing is Standing.SUBMITTED:
        text = f"its plan {last.id} (revision {last.revision}) waits for {last.to}"
        reasons.append(shapes.Reason(text=text, task=task.id, request=last.id))
        return f"coterie review {last.id}"
    text = f"its plan {last.id} (revision {last.revision}) is {standing}: {last.feedback or ''}".rstrip(": ")
    reasons.append(shapes.Reason(text=text, task=task.id, request=last.id))
    return ""


def _row(reading: Reading, request: Request) -> shapes.RequestRow:
    return shapes.RequestRow(request=request, standing=str(reading.standing(request)))

"""What the reading commands say, as objects: the same for `--json` and for the text that people read."""

from __future__ import annotations

from coterie.console import places, shapes
from coterie.console.reading import Reading, spent_on
from coterie.mailbox import Request, RequestKind


def show(reading: Reading, identifier: str) -> shapes.ShowView:
    """Everything of one task."""
    task = reading.task(identifier)
    tokens, usd = spent_on(reading.root, task.id)
    return shapes.ShowView(
        team=reading.name,
        sandbox=places.sandbox_of(reading.root),
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
    lead = reading.hosts.get(running["process"]) if running is not None else None
    rows = []
    for each in reading.members.values():
        host = reading.host_of(each.name)
        seen = {
            "status": str(each.status),
            "pid": host.pid if host is not None else None,
            "answers": host.answers if host is not None else None,
            "waiting_mail": len(reading.mail_of(each.name)),
        }
        known = {name: getattr(each, name) for name in shapes.MemberRow.model_fields if name not in seen}
        rows.append(shapes.MemberRow(**known | seen))
    return shapes.TeamView(
        team=reading.name,
        sandbox=places.sandbox_of(reading.root),
        goal=reading.goal,
        ended=ended if isinstance(ended := reading.record.get("ended"), dict) else None,
        running=shapes.Running(**running, answers=lead.answers if lead is not None else None) if running else None,
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
    sandbox = places.sandbox_of(reading.root)
    return shapes.InboxView(team=reading.name, sandbox=sandbox, items=items, waiting_mail=waiting)


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
        sandbox=places.sandbox_of(reading.root),
        request=request,
        standing=str(reading.standing(request)),
        earlier=earlier,
        subject=about.subject if about is not None else None,
    )


def mail(reading: Reading) -> shapes.MailView:
    """The mail that waits for the person."""
    return shapes.MailView(
        team=reading.name, sandbox=places.sandbox_of(reading.root), messages=reading.mail_of("human")
    )


def _row(reading: Reading, request: Request) -> shapes.RequestRow:
    return shapes.RequestRow(request=request, standing=str(reading.standing(request)))

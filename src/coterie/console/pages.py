"""The views as text for people. Foreign text is stripped of control sequences; every page says what the sandbox is."""

from __future__ import annotations

from coterie.console import shapes
from coterie.console.board import STYLES, heading, silent
from coterie.console.paint import Cell, Paper, count, money, one_line
from coterie.files import counted
from coterie.mailbox import Message, Request, RequestKind
from coterie.taskboard import Evidence, Task
from coterie.teammates.settings import TeamSettings

MEMBER_STYLES = {"working": "yellow", "waiting": "cyan", "idle": "dim", "stopped": "dim", "failed": "red"}
PLAN_LINES = 12  # of an earlier revision
UNSET = "-"


def print_show(paper: Paper, view: shapes.ShowView) -> None:
    task = view.task
    heading(paper, view.team, view.sandbox, f"{task.id} {task.subject}")
    paper.say(f"status: {paper.style(view.state, STYLES.get(view.state, ''))}")
    _facts(paper, task, view)
    if task.description:
        paper.say("description:")
        paper.block(task.description)
    if task.result is not None:
        _result(paper, task)
    for row in view.requests:
        _request(paper, row)
    paper.say("history:")
    for change in task.history:
        moved = f"{change.from_ or '-'} -> {change.to}" if change.from_ != change.to else str(change.to)
        reason = f": {one_line(change.reason)}" if change.reason else ""
        line = f"{_clock(change.at)} {moved} by {change.by} (epoch {change.epoch}){reason}"
        paper.prose(line, first="  ", rest="    ")
    paper.prose(f"cost: {count(view.tokens.total)} tokens, {money(view.usd)}")


def _facts(paper: Paper, task: Task, view: shapes.ShowView) -> None:
    claim, place = task.claim, task.assignment
    facts = {
        "waits for": ", ".join(view.open_blockers),
        "blocked by": ", ".join(task.blocked_by),
        "blocks": ", ".join(view.dependants),
        "owner": f"{claim.instance}, since {_clock(claim.at)}" if claim else "",
        "epoch": str(task.epoch) if task.epoch else "",
        "worktree": place.worktree if place else "",
        "branch": place.branch if place else "",
        "base": place.base[:12] if place else "",
        "plan required": "yes" if task.requires_plan else "",
        "role": task.role or "",
        "priority": str(task.priority) if task.priority != 5 else "",
        "split": task.split or "",
        "wanted": f"{task.wanted.move} by {task.wanted.by}: {task.wanted.reason}" if task.wanted else "",
        "merging": (task.merging or "")[:12],
        "returned": counted(task.returns, "time") if task.returns else "",
        "given up": counted(task.attempts, "time") if task.attempts else "",
        "lost": counted(task.losses, "time") if task.losses else "",
        "created": f"{_clock(task.created_at)} by {task.created_by}",
    }
    for name, fact in facts.items():
        if fact:
            paper.prose(one_line(fact), first=f"{name}: ", rest="  ")
    for name, items in {"checks": task.checks, "scope": task.scope}.items():
        if items:
            paper.say(f"{name}:")
            for item in items:
                paper.prose(one_line(item), first="  ", rest="    ")


def _result(paper: Paper, task: Task) -> None:
    result = task.result
    assert result is not None
    where = f" as {result.merged_commit[:12]}" if result.merged_commit else ""
    what = "no change" if result.no_change else f"commit {(result.commit or '')[:12]}"
    paper.prose(f"handed in: {what}{', merged' + where if where else ''}")
    paper.block(result.summary)
    for each in result.evidence:
        _evidence(paper, each)


def _evidence(paper: Paper, each: Evidence) -> None:
    green = each.exit_code == 0
    mark = paper.style("green" if green else f"red ({each.exit_code})", "green" if green else "red")
    kept = f", output/{each.output}" if each.output else ""
    text = f"on {each.commit[:12]}: {one_line(each.command)} ({each.seconds:.1f} s{kept})"
    paper.prose(text, first=f"  check {mark} ", rest="    ")


def _request(paper: Paper, row: shapes.RequestRow, *, lines: int | None = None) -> None:
    each = row.request
    paper.prose(f"{describe(each)}: {row.standing}{_decided(each)}", "bold")
    text = each.text.split("\n")
    paper.block("\n".join(text[:lines]))
    if lines is not None and len(text) > lines:
        paper.prose(f"({counted(len(text) - lines, 'more line')}: coterie review {each.id})", first="  ", rest="  ")
    if each.feedback:
        paper.say(f"{'answer' if each.kind is RequestKind.QUESTION else 'feedback'}:")
        paper.block(each.feedback)


def describe(request: Request) -> str:
    """A request in a few words."""
    about = f" for {request.task}" if request.task else ""
    what = str(request.kind)
    if request.kind is RequestKind.PLAN:
        what = f"plan, revision {request.revision}"
    elif request.kind is RequestKind.SHUTDOWN:
        about = f" of {request.to}"
    return f"{request.id} ({what}{about}, from {request.sender} to {request.to})"


def _decided(request: Request) -> str:
    return f" by {request.decided_by} at {_clock(request.decided_at or '')}" if request.decided_by else ""


def print_team(paper: Paper, view: shapes.TeamView) -> None:
    heading(paper, view.team, view.sandbox, view.goal)
    running = view.running
    paper.prose(
        f"run by pid {running.pid} since {_clock(running.started)}"
        if running
        else f"ended with {view.ended.get('exit')}: {one_line(str(view.ended.get('summary', '')))}"
        if view.ended
        else f"not running: coterie resume --team {view.team} goes on"
    )
    rows: list[list[Cell]] = []
    for each in view.members:
        held = f"{each.task} e{each.epoch}" if each.task and each.epoch else each.task or "-"
        mail = f"; {each.waiting_mail} unread" if each.waiting_mail else ""
        mail += f"; joined, pid {each.pid}" if each.joined and each.pid else ""
        rows.append(
            [
                one_line(each.instance),
                (each.status, MEMBER_STYLES.get(each.status, "")),
                held,
                _clock(each.since),
                str(each.turn),
                count(each.tokens.total),
                money(each.usd),
                one_line(each.reason) + mail or "-",
            ]
        )
    paper.table(("MEMBER", "STATUS", "TASK", "SINCE", "TURN", "TOKENS", "USD", "REASON"), rows, stretch=7)
    hung: dict[int, list[str]] = {}
    for each in view.members:
        if each.pid is not None and each.answers is False:
            hung.setdefault(each.pid, []).append(each.name)
    for pid, names in hung.items():
        paper.prose(silent(pid, names), "red")
    paper.prose(f"{counted(len(view.members), 'member')}, {count(view.tokens)} tokens, {money(view.usd)}")


def print_inbox(paper: Paper, view: shapes.InboxView) -> None:
    heading(paper, view.team, view.sandbox, "what waits for you")
    for item in view.items:
        each = item.request
        paper.prose(one_line(f"{describe(each)}{': ' + item.subject if item.subject else ''}"), "bold", rest="  ")
        if item.unblocks:
            text = f"unblocks {counted(len(item.unblocks), 'task')}: {', '.join(item.unblocks)}"
            paper.prose(text, first="  ", rest="    ")
        lines = [line for line in each.text.split("\n") if line.strip()]
        for line in lines[:3]:
            paper.say("  " + paper.fit(line, 2))
        if len(lines) > 3:
            paper.say(f"  ({counted(len(lines) - 3, 'more line')})")
        verb = f"answer {each.id} TEXT" if each.kind is RequestKind.QUESTION else f"review {each.id}"
        paper.prose(f"coterie {verb}", "dim", first="  ", rest="    ")
    if view.waiting_mail:
        paper.prose(f"{counted(view.waiting_mail, 'unread message')}: coterie mail")
    if not view.items and not view.waiting_mail:
        paper.prose("nothing waits for you")


def print_review(paper: Paper, view: shapes.ReviewView) -> None:
    heading(paper, view.team, view.sandbox, describe(view.request) + (f": {view.subject}" if view.subject else ""))
    for row in view.earlier:
        _request(paper, row, lines=PLAN_LINES)
    _request(paper, view)
    if view.request.open and view.standing == view.request.status:
        word = view.request.id
        steps = f"coterie approve {word}, or coterie reject {word} -m FEEDBACK"
        paper.prose(f"coterie answer {word} TEXT" if view.request.kind is RequestKind.QUESTION else steps)


def print_mail(paper: Paper, view: shapes.MailView) -> None:
    heading(paper, view.team, view.sandbox, "your mail")
    for message in view.messages:
        _message(paper, message)
    if view.messages:
        paper.prose("coterie mail --done marks all of it as read, coterie mail --done ID one message")
    else:
        paper.say("no unread mail")


def _message(paper: Paper, message: Message) -> None:
    sender = message.sender_instance or message.sender
    request = getattr(message.body, "request", None)
    about = f" about {request}" if request else ""
    head = f"{message.id} {_clock(message.sent_at)} {message.kind} from {sender}{about}"
    paper.prose(one_line(head), "bold", rest="  ")
    paper.block(message.body.text)


def print_why(paper: Paper, view: shapes.WhyView) -> None:
    heading(paper, view.team, view.sandbox, f"why {view.task} is {view.status}")
    for each in view.reasons:
        paper.prose(one_line(each.text), first="- ", rest="  ")
    paper.prose(view.next, first="next: ", rest="  ")


def print_config(paper: Paper, view: shapes.ConfigView) -> None:
    rows: list[list[Cell]] = []
    for name, setting in view.settings.items():
        value, source = setting.value, setting.source
        if name == "plans" and value is None:  # what it comes to, since its own values are words too
            value = TeamSettings(approver=view.settings["approver"].value).plans_in_force
            source = f"{source}: follows from approver"
        rows.append([name, one_line(_value(value), 2000), one_line(source)])
    rows.append(["api key", "set, not shown" if view.key else UNSET, view.key.source if view.key else UNSET])
    paper.table(("SETTING", "VALUE", "FROM"), rows, stretch=1)
    for note in view.notes:
        paper.prose(f"note: {one_line(note)}", "yellow")


def _value(value: object) -> str:
    """A setting for people; `-` where it is not set, since `none` is a value of some."""
    if isinstance(value, dict):
        return "; ".join(f"{name} = {each}" for name, each in value.items()) or UNSET
    if isinstance(value, list):
        return "; ".join(value) or UNSET
    return UNSET if value is None else str(value)


def _clock(at: str) -> str:
    """A stored time as local time of day, with the date where it is not today's."""
    from datetime import datetime

    try:
        then = datetime.fromisoformat(at).astimezone()
    except ValueError:
        return one_line(at, 40) or "-"
    today = datetime.now().astimezone().date()
    return then.strftime("%H:%M:%S" if then.date() == today else "%Y-%m-%d %H:%M:%S")

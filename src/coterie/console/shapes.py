"""What `--json` says, command by command. The documents are made from these models; tests hold the output to them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from coterie.mailbox import Message, Request
from coterie.taskboard import Task
from coterie.teammates.roster import Tokens


class Shape(BaseModel):
    """A JSON object. Later versions may add fields, they take none away."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class View(Shape):
    """What every reading command says first."""

    team: str
    sandbox: str = Field(description="what keeps commands in: full, partial: and what is not kept, or none")


class BoardRow(Shape):
    """A task on the board, in short."""

    id: str
    subject: str
    status: str
    state: str = Field(description="the status, where pending is told apart: ready or blocked (computed)")
    blocked_by: list[str]
    open_blockers: list[str] = Field(description="those of blocked_by that are not completed; empty unless pending")
    waits_for_split: str | None = Field(description="the request that has to be approved before it may be claimed")
    owner: str | None
    instance: str | None
    last_owner: str | None = Field(description="who claimed it last")
    epoch: int
    returns: int
    attempts: int
    losses: int
    priority: int
    role: str | None
    requires_plan: bool
    wanted: dict[str, Any] | None
    queued: int | None
    merging: str | None
    merged_commit: str | None = Field(description="the commit of the integration branch that has it, once completed")


class UnreadableFile(Shape):
    """A task file that cannot be read, or (`newer`) was written by a newer Coterie."""

    path: str
    reason: str
    newer: bool


class SilentHost(Shape):
    """A host process that lives and does not answer, and the members that it runs."""

    pid: int
    process: str
    members: list[str]


class BoardView(View):
    """`coterie board --json`"""

    goal: str
    ended: dict[str, Any] | None
    counts: dict[str, int] = Field(description="how many tasks are in each state")
    silent: list[SilentHost]
    tasks: list[BoardRow]
    unreadable: list[UnreadableFile]


class RequestRow(Shape):
    """A request with what it is worth now."""

    request: Request
    standing: str = Field(description="its status, or superseded, or void")


class ShowView(View):
    """`coterie show T7 --json`"""

    task: Task
    state: str
    open_blockers: list[str]
    dependants: list[str] = Field(description="the tasks that wait for this one")
    requests: list[RequestRow] = Field(description="plans and other requests of this task, the oldest first")
    tokens: Tokens
    usd: float | None = Field(description="dollars; null where a model's price is not known")


class Running(Shape):
    """The process that runs the team."""

    pid: int
    started: str
    process: str
    answers: bool | None = Field(description="false: it lives and does not answer; null: it cannot be asked")


class MemberRow(Shape):
    """A member, in its latest life."""

    name: str
    instance: str
    role: str | None
    model: str
    status: str
    reason: str
    since: str
    task: str | None
    epoch: int | None
    worktree: str | None
    todo: list[dict[str, str]]
    turn: int
    tokens: Tokens
    usd: float | None
    joined: bool = Field(description="it has a host process of its own, and its life ends with that")
    pid: int | None = Field(description="of the host process that runs it; null: none does")
    answers: bool | None = Field(description="false: that process lives and does not answer; null: it cannot be asked")
    waiting_mail: int


class TeamView(View):
    """`coterie team --json`"""

    goal: str
    ended: dict[str, Any] | None = Field(description="{at, exit, summary} once the run has ended")
    running: Running | None = Field(description="null: no process runs the team, resume goes on with it")
    members: list[MemberRow]
    tokens: int
    usd: float | None


class InboxItem(RequestRow):
    """Something that waits for the person."""

    unblocks: list[str] = Field(description="the tasks that can go on only after this")
    subject: str | None = Field(description="of the task that it is about")


class InboxView(View):
    """`coterie inbox --json`: the first unblocks the most."""

    items: list[InboxItem]
    waiting_mail: int


class ReviewView(View, RequestRow):
    """`coterie review R4 --json`"""

    earlier: list[RequestRow] = Field(description="earlier revisions of the same plan")
    subject: str | None


class MailView(View):
    """`coterie mail --json`: what waits for the person, the oldest first."""

    messages: list[Message]


class Reason(Shape):
    """One thing that stands between a task and its completion."""

    text: str
    task: str | None = None
    request: str | None = None
    member: str | None = None


class WhyView(View):
    """`coterie why T7 --json`"""

    task: str
    status: str
    reasons: list[Reason] = Field(description="the nearest first; empty where it is completed")
    next: str = Field(description="what a person can do")


class DiffView(View):
    """`coterie diff [T7] --json`"""

    task: str | None = Field(description="null: all that was merged since the team's base")
    what: Literal["merged", "handed in", "in hand", "kept", "nothing"] = Field(
        description="where the difference comes from: the integration branch; a branch that waits in the queue; the "
        "worktree of a task in progress, uncommitted and not submitted; the branch of a task that nobody owns now"
    )
    note: str = Field(description="the same in a sentence; empty where the difference speaks for itself")
    diff: str = Field(description="as git prints it; empty where nothing differs")


class Commit(Shape):
    """A commit that comes, one for each merge of the queue."""

    commit: str
    subject: str


class LandView(View):
    """`coterie land --json`: what is to be done, and whether it was done."""

    kind: Literal["up-to-date", "fast-forward", "merge", "conflict"]
    target: str = Field(description="the branch that is checked out, which gets the work")
    old: str = Field(description="the commit that the branch is at")
    new: str | None = Field(description="the commit that it comes to; null for a conflict")
    commits: list[Commit] = Field(description="what comes, the oldest first")
    files: list[str] = Field(description="the files that change, or that are in conflict")
    checks: list[str] = Field(description="commands that have to pass on a merge commit before anything moves")
    landed: bool = Field(description="false without --yes: nothing was changed")


class Setting(Shape):
    """The value of a setting and where it came from."""

    value: Any
    source: str


class KeySource(Shape):
    """Where the API key comes from. The key itself is never said."""

    source: str


class ConfigView(Shape):
    """`coterie config --json`"""

    team: str | None = Field(description="null: what a new team would run by")
    settings: dict[str, Setting]
    key: KeySource | None
    notes: list[str]


class Machine(Shape):
    """What the teams run on. `problems` say what a run would be refused for."""

    python: str
    git: str = Field(description="its version; empty where there is none, or one that is too old")
    file_system: str = Field(description="the kind that .coterie is on, as the kernel names it")
    problems: list[str]


class FaultRow(Shape):
    """One thing that is not as it has to be."""

    rule: str
    where: str = Field(description="a path below the team's folder, else an absolute path, a ref or an id")
    found: str
    cure: str
    repairable: bool = Field(description="whether going on with the team puts it right")


class Examined(Shape):
    """One team."""

    team: str
    pid: int | None = Field(description="of the host that runs it")
    repaired: list[str]
    faults: list[FaultRow]
    set_aside: list[str] = Field(description="files in `bad` folders, for a person to look at; no fault")


class DoctorView(Shape):
    """What `coterie doctor` found. `exit` is its exit code."""

    sandbox: str = Field(description="what keeps commands in: full, partial: and what is not kept, or none")
    machine: Machine
    teams: list[Examined]
    exit: int


class TaskCounts(Shape):
    """How many tasks ended how; `open` are pending, in_progress or submitted."""

    completed: int
    failed: int
    cancelled: int
    open: int


class Integration(Shape):
    """Where the tested work is."""

    branch: str
    commit: str | None


class EndView(Shape):
    """What `run` and `resume` print at the end with `--output-format json`, and in the last line of stream-json."""

    team: str
    exit: int
    summary: str
    tasks: TaskCounts
    usd: float | None
    tokens: int
    integration: Integration


class JoinView(Shape):
    """What `join` prints at the end with `--output-format json`, and in the last line of stream-json."""

    team: str
    member: str
    exit: int
    summary: str


class EventLine(BaseModel):
    """One line of events.jsonl, of `coterie log --json` and of stream-json. What is known beside these is added."""

    model_config = ConfigDict(extra="allow", frozen=True)

    at: str = Field(description="ISO 8601, UTC")
    kind: str = Field(
        description="run, task, plan, decision, message, merge, check, member, tool, answer, warning, repair, end; "
        "in stream-json also text (a piece of an answer, which is not kept)"
    )
    text: str
    member: str | None = None
    task: str | None = None
    request: str | None = None
    outside: bool = Field(
        default=False, description="said by a command of a person or a joined teammate, not by the process that runs it"
    )


class EndLine(EndView):
    """The last line of stream-json."""

    kind: Literal["end"]
    at: str


COMMANDS: dict[str, type[BaseModel]] = {
    "board": BoardView,
    "show": ShowView,
    "team": TeamView,
    "inbox": InboxView,
    "review": ReviewView,
    "mail": MailView,
    "log": EventLine,
    "why": WhyView,
    "diff": DiffView,
    "doctor": DoctorView,
    "land": LandView,
    "config": ConfigView,
}
"""command -> what it says with --json; `log` says one object per line."""

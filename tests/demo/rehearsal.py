"""A team without threads: the script's answers are carried out on real worktrees, in an order that a test says.

The tools that touch files are the real ones; board, mail and queue are the least that the script has to see.
"""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.demo import GOAL, Reply, respond
from coterie.demo.stream import whole
from coterie.demo.validity import problem
from coterie.errors import Refused
from coterie.lead.tools import LEAD_TOOLS
from coterie.teammates.cancel import Cancel
from coterie.teammates.tool import Call, ToolResult
from coterie.teammates.tools import TEAMMATE_TOOLS

FILES = ("read_file", "write_file", "edit_file", "glob", "grep")
ENDS = ("submit_plan", "submit_work", "give_up", "finish")


def git(root: Path, *argv: str, ok: Sequence[int] = (0,)) -> str:
    who = ["-c", "user.name=Team", "-c", "user.email=team@example.org"]
    done = subprocess.run(["git", *who, *argv], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode in ok, (argv, done.stdout, done.stderr)
    return done.stdout.strip()


def letter(kind: str, sender: str, text: str, number: int, **fields: object) -> str:
    lines = [f"{name}: {value}" for name, value in fields.items() if name != "output" and value is not None]
    lines += [f"output:\n{fields['output']}"] if fields.get("output") else []
    body = "\n".join([*lines, f"text:\n{text}"])
    boundary = f"message-b0{number:x}"
    return f'<{boundary} kind="{kind}" from="{sender}" id="{number:010d}-{kind}">\n{body}\n</{boundary}>'


@dataclass
class Task:
    id: str
    given: dict[str, Any]
    status: str = "pending"
    owner: str | None = None
    base: str = ""
    head: str = ""
    returns: list[str] = field(default_factory=list)  # why it came back

    @property
    def subject(self) -> str:
        return str(self.given["subject"])


@dataclass
class Player:
    name: str
    path: Path
    messages: list[dict[str, Any]] = field(default_factory=list)
    news: list[dict[str, Any]] = field(default_factory=list)  # blocks of the next user message
    open: bool = False
    task: Task | None = None
    seen: dict[str, str] = field(default_factory=dict)  # the digest of each file as it knows it

    def told(self, text: str) -> None:
        self.news.append({"type": "text", "text": text})
        self.open = True


@dataclass(frozen=True)
class Hands:
    """What the file tools ask of a member."""

    player: Player

    @property
    def journal(self) -> Hands:
        return self

    def directory(self) -> Path:
        return self.player.path

    def read_roots(self) -> tuple[Path, ...]:
        return ()

    def digest_of(self, path: str) -> str | None:
        return self.player.seen.get(path)


class Rehearsal:
    """Everything that happened stands in `log`, as tuples that begin with a word."""

    def __init__(self, repository: Path, folder: Path, *, order: Sequence[str] = (), lose: int = 0) -> None:
        self.repository = repository
        self.folder = folder
        self.order = list(order)  # subjects: what is ranked first is done and merged first; none: turn by turn
        self.lose = lose  # each so many-th result of a file tool or a command is lost: "interrupted"
        self.tip = git(repository, "rev-parse", "HEAD")
        self.tasks: list[Task] = []
        self.requests: dict[str, tuple[Player, str, int]] = {}
        self.log: list[tuple[Any, ...]] = []
        self.numbers = itertools.count(1)
        self.acts = itertools.count(1)
        self.finished = False
        self.players = {"lead": self.player("lead")}
        self.queue = self.player("queue").path
        opening = f"# Goal\n{GOAL}\n\n# Team\n(nobody yet)\nAt most 3 teammates at once.\n\n# Board\n(empty)\n\n"
        self.players["lead"].told(opening + "# Open requests\n(none)")

    def player(self, name: str) -> Player:
        path = self.folder / name
        git(self.repository, "worktree", "add", "--quiet", "--detach", str(path), self.tip)
        return Player(name, path)

    # ------------------------------------------------------------ what happens

    def run(self, most: int = 400) -> None:
        for _ in range(most):
            if self.finished:
                return
            actor = self.next_actor()
            if actor is not None:
                self.turn(actor)
            elif not self.merge_one() and not self.claim():
                nothing = "Nothing moves.\nNo task is open any more: call finish, or create what is missing."
                stuck = [task.id for task in self.tasks if task.status != "completed"]
                self.mail(
                    self.players["lead"], "event", "runtime", f"Nothing moves. {stuck}" if stuck else nothing,
                    event="stalled", wakes="true",
                )  # fmt: skip
        raise AssertionError(f"no end: {self.log[-20:]}")

    def next_actor(self) -> Player | None:
        waiting = [each for each in self.players.values() if each.open]
        if any(each.name == "lead" for each in waiting):
            return self.players["lead"]
        if not self.order:
            self.claim()
            waiting = [each for each in self.players.values() if each.open]
            return min(waiting, key=lambda each: len(each.messages), default=None)
        if any(task.status == "submitted" for task in self.tasks) or self.claim():
            return None
        return min(waiting, key=self.rank, default=None)

    def rank(self, player: Player) -> int:
        subject = player.task.subject if player.task else ""
        return self.order.index(subject) if subject in self.order else 0

    def claim(self) -> bool:
        done = {task.given["ref"] for task in self.tasks if task.status == "completed"}
        ready = [
            task for task in self.tasks if task.status == "pending" and set(task.given.get("blocked_by", ())) <= done
        ]
        free = [each for each in self.players.values() if each.name != "lead" and each.task is None]
        for player, task in zip(free, ready, strict=False):
            player.task, task.owner, task.status, task.base = task, player.name, "in_progress", self.tip
            git(player.path, "switch", "--quiet", "-C", f"work/{task.id}", self.tip)
            player.messages.clear()
            player.news.clear()
            lines = [
                f"# Task {task.id}: {task.subject}", "epoch: 1", f"directory: {player.path}", f"branch: work/{task.id}",
                f"base: {self.tip}", f"plan required: {'yes' if task.given['requires_plan'] else 'no'}", "checks:",
                *(f"- {check}" for check in task.given["checks"]), "scope:",
                *(f"- {path}" for path in task.given["scope"]), "", task.given["description"],
            ]  # fmt: skip
            player.told("\n".join(lines))
            self.log.append(("claim", task.subject, player.name, self.tip))
        return bool(free and ready)

    def mail(self, to: Player, kind: str, sender: str, text: str, **fields: object) -> None:
        to.told(letter(kind, sender, text, next(self.numbers), **fields))

    # ------------------------------------------------------------ one turn

    def turn(self, player: Player) -> None:
        player.messages.append({"role": "user", "content": list(player.news)})
        player.news.clear()
        player.open = False
        request = {
            "model": "scripted",
            "max_tokens": 1000,
            "metadata": {"user_id": f"main/{player.name}#1"},
            "messages": copy.deepcopy(player.messages),
        }
        assert problem(request) is None, problem(request)
        reply: Reply = respond(request)
        assert reply == respond(copy.deepcopy(request)), "the script is not pure"
        message = whole(request, reply, {})
        player.messages.append({"role": "assistant", "content": message["content"]})
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        words = " ".join(block["text"] for block in message["content"] if block["type"] == "text")
        self.log.append(("turn", player.name, words, [call["name"] for call in calls]))
        ended = False
        for call in calls:
            result, is_error = self.act(player, call["name"], call["input"])
            block = {"type": "tool_result", "tool_use_id": call["id"], "content": result or "(no output)"}
            player.news.append(block | ({"is_error": True} if is_error else {}))
            ended = ended or (call["name"] in ENDS and not is_error)
        player.open = player.open or bool(calls and not ended)

    def act(self, player: Player, name: str, given: dict[str, Any]) -> tuple[str, bool]:
        tools = LEAD_TOOLS if player.name == "lead" else TEAMMATE_TOOLS
        arguments = tools[name].parse(given)
        lost = self.lose and name in (*FILES, "bash") and next(self.acts) % self.lose == 0
        try:
            if name in FILES:
                done = tools[name].act(Hands(player), arguments, Call("c", "k", Cancel()))
                player.seen.update(done.seen if isinstance(done, ToolResult) else {})
                result = done.text if isinstance(done, ToolResult) else done, False
            else:
                result = getattr(self, f"do_{name}")(player, given)
        except Refused as error:
            result = str(error), True
        return ("interrupted: it may have taken effect, inspect first", True) if lost else result

    def do_bash(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        done = self.command(given["command"], player.path)
        return f"exit code: {done.returncode}\n{done.stdout}", done.returncode != 0

    def command(self, command: str, path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command], cwd=path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )

    def do_create_tasks(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        self.tasks = [Task(f"T{number}", task) for number, task in enumerate(given["tasks"], 1)]
        return json.dumps({"created": {task.given["ref"]: task.id for task in self.tasks}, "request": None}), False

    def do_spawn_teammate(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        name = given["name"]
        self.players[name] = self.player(name)
        return json.dumps({"name": name, "instance": f"{name}#1"}), False

    def do_todo_write(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        return "the list is kept", False

    def do_list_tasks(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        rows = [
            {"id": task.id, "subject": task.subject, "status": task.status, "owner": task.owner} for task in self.tasks
        ]
        return json.dumps(rows), False

    def do_send_message(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        self.log.append(("message", player.name, given["to"], given["text"]))
        self.mail(self.players[given["to"]], "note", f"{player.name}#1", given["text"])
        return f"sent to {given['to']}", False

    def do_submit_plan(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        assert player.task is not None
        before = [each for each in self.requests.values() if each[1] == player.task.id]
        id, revision = f"R{len(self.requests) + 1}", len(before) + 1
        self.requests[id] = (player, player.task.id, revision)
        self.log.append(("plan", player.task.subject, revision, given["plan"]))
        about = {"request": id, "request_kind": "plan", "task": player.task.id, "epoch": 1, "revision": revision}
        self.mail(self.players["lead"], "notice", f"{player.name}#1", given["plan"], **about)
        return json.dumps({"request": id, "revision": revision, "status": "submitted"}), False

    def do_review(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        to, task, revision = self.requests[given["request_id"]]
        decision = {"approve": "approved", "reject": "rejected"}[given["decision"]]
        subject = next(each.subject for each in self.tasks if each.id == task)
        self.log.append(("decision", subject, revision, decision, given.get("feedback", "")))
        about = {"request": given["request_id"], "request_kind": "plan", "decision": decision, "revision": revision}
        self.mail(to, "decision", "lead#1", given.get("feedback", ""), **about)
        return json.dumps({"request": given["request_id"], "status": decision}), False

    def do_submit_work(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        task = player.task
        assert task is not None and task.status == "in_progress"
        git(player.path, "add", "--all")
        marked = git(player.path, "grep", "--cached", "-l", "-e", "^<<<<<<< ", "-e", "^>>>>>>> ", ok=(0, 1))
        assert not marked, marked
        git(player.path, "commit", "--quiet", "--message", given["summary"])
        task.head, task.status = git(player.path, "rev-parse", "HEAD"), "submitted"
        self.log.append(("submit", task.subject, player.name))
        return json.dumps({"status": "submitted", "task": task.id, "epoch": 1, "commit": task.head}), False

    def do_give_up(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        raise AssertionError(f"{player.name} gives up: {given['reason']}")

    def do_finish(self, player: Player, given: dict[str, Any]) -> tuple[str, bool]:
        if any(task.status != "completed" for task in self.tasks):
            raise Refused("work is still open")
        self.finished = True
        return "the run ends (done)", False

    # ------------------------------------------------------------ the queue

    def merge_one(self) -> bool:
        task = next((task for task in self.tasks if task.status == "submitted"), None)
        if task is None:
            return False
        merged = git(self.repository, "merge-tree", "--write-tree", "--name-only", self.tip, task.head, ok=(0, 1))
        tree, *names = merged.split("\n\n")[0].splitlines()
        if names:
            self.give_back(task, "conflict", files=", ".join(names))
            return True
        commit = git(self.repository, "commit-tree", tree, "-p", self.tip, "-p", task.head, "-m", task.subject)
        git(self.queue, "switch", "--quiet", "--detach", commit)
        for check in task.given["checks"]:
            done = self.command(check, self.queue)
            if done.returncode != 0:
                self.give_back(task, "red", output=done.stdout)
                return True
        owner = self.players[task.owner or ""]
        self.tip, task.status, owner.task = commit, "completed", None
        self.log.append(("completed", task.subject))
        lead = self.players["lead"]
        was_open = lead.open
        self.mail(lead, "event", "queue", f"{task.id} is completed", event="task-completed", task=task.id)
        lead.open = was_open  # it waits for the next batch
        return True

    def give_back(self, task: Task, why: str, **about: str) -> None:
        owner = self.players[task.owner or ""]
        task.returns.append(why)
        task.status = "in_progress"
        self.log.append(("returned", task.subject, why, about.get("files", "")))
        git(owner.path, "merge", "--no-edit", "--quiet", self.tip, ok=(0, 1))
        self.mail(
            owner, "returned", "queue", "It came back. Repair it and call submit_work again.",
            task=task.id, epoch=1, returns=len(task.returns), base=self.tip, **about,
        )  # fmt: skip

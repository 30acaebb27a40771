"""What the scripted lead does: read, split, spawn, decide on plans, react to what happens, finish."""

from __future__ import annotations

import json
import re

from coterie.demo.desk import Desk
from coterie.demo.pieces import SETTINGS, TASKS, WAVES
from coterie.demo.reading import Mail
from coterie.demo.work import OLD_NAMES

__all__ = ["NAMES", "lead"]

NAMES = ("ada", "ben", "cleo")
CHARGE = "small steps; run the checks before you hand in; tell others when a name moves"
FEEDBACK = (
    "Do not change notices.py and invoices.py: their imports belong to the task that joins the modules, and others "
    f"would meet you there. Say what becomes of the old names: {OLD_NAMES}, by an import in place of the section."
)


def lead(desk: Desk) -> None:
    """One run of the script; it ends the desk's run with an answer."""
    if "# Board\n(empty)" in desk.talk.opening:
        split(desk)
    if "# Team\n(nobody yet)" in desk.talk.opening:
        desk.say("Three of these can be worked on at the same time: three teammates.")
        desk.make(*(("spawn_teammate", {"name": name, "prompt": CHARGE}) for name in NAMES))
    decide(desk)
    repair(desk)
    finish(desk)
    desk.say(words_for_now(desk))
    desk.answer()


def split(desk: Desk) -> None:
    """Read first, then put the whole graph on the board."""
    desk.say("First I read the module, and see who imports from it.")
    desk.make(
        ("glob", {"pattern": "shopfront/*.py"}),
        ("read_file", {"path": SETTINGS}),
        ("grep", {"pattern": r"from shopfront\.settings import", "glob": "*.py"}),
    )
    desk.say(
        "Five concerns in one module. Paths and the log are used by the other three, so they move first; money, flags "
        "and mails can then move at the same time, settings.py handing on their names; at the end the imports are "
        "updated and settings.py goes."
    )
    (created,) = desk.make(("create_tasks", {"tasks": TASKS}))
    if not created.ok:
        desk.say(f"The tasks could not be created: {created.result}")
        desk.answer()


# ------------------------------------------------------------ plans


def decide(desk: Desk) -> None:
    """Decide on what waits for me. Plans of tasks that meet each other are read together."""
    decided = {each.input.get("request_id") for each in desk.talk.calls("review") if not each.undone}
    notices = [each for each in desk.talk.mail("notice") if each.fields.get("request_kind") in ("plan", "split")]
    open_ones = [each for each in notices if each.fields["request"] not in decided]
    latest = {(each.fields.get("task"), each.fields["request_kind"]): each for each in notices}
    wanted = [each for each in open_ones if each in latest.values() or each.fields["request_kind"] == "split"]
    ready = [each for each in wanted if stalled(desk) or not early(desk, each, notices)]
    if ready:
        desk.say("I have read the plans beside each other." if len(ready) > 1 else "I have read the plan.")
        desk.answer(*(("review", decision(each)) for each in ready))


def early(desk: Desk, notice: Mail, notices: list[Mail]) -> bool:
    """Whether plans that have to be read together with this one are still to come."""
    subjects = subjects_of(desk)
    mine = subjects.get(notice.fields.get("task", ""), "")
    wave = next((wave for wave in WAVES if mine in wave), frozenset())
    hands = sum(each.ok for each in desk.talk.calls("spawn_teammate"))
    shown = {subjects.get(each.fields.get("task", "")) for each in notices} & wave
    return len(shown) < min(len(wave), hands)


def decision(notice: Mail) -> dict[str, str]:
    """A plan to move something has to say what becomes of the old names."""
    request = notice.fields["request"]
    if notice.fields["request_kind"] == "plan" and OLD_NAMES not in notice.text:
        return {"request_id": request, "decision": "reject", "feedback": FEEDBACK}
    return {"request_id": request, "decision": "approve"}


def subjects_of(desk: Desk) -> dict[str, str]:
    """Task id -> subject: as created, or as the opening shows the board."""
    found = dict(re.findall(r"^- (T\d+) \[[^\]]*\] (.*)$", desk.talk.opening, re.MULTILINE))
    by_ref = {str(task["ref"]): str(task["subject"]) for task in TASKS}
    for each in desk.talk.calls("create_tasks"):
        if each.ok:
            created = json.loads(each.result or "{}").get("created", {})
            found |= {id: by_ref[ref] for ref, id in created.items() if ref in by_ref}
    return found


# ------------------------------------------------------------ events


def events(desk: Desk, name: str, *, new: bool = False) -> list[Mail]:
    mail = desk.talk.news if new else desk.talk.mail()
    return [each for each in mail if each.kind == "event" and each.fields.get("event") == name]


def stalled(desk: Desk) -> bool:
    return bool(events(desk, "stalled", new=True))


def repair(desk: Desk) -> None:
    """What failed is tried once more; where no teammate lives, new ones are spawned."""
    for each in events(desk, "task-failed"):
        task = each.fields.get("task", "")
        if not any(call.input.get("task_id") == task for call in desk.talk.calls("retry_task") if not call.undone):
            desk.say(f"{task} has failed: once more, from the beginning.")
            desk.answer(("retry_task", {"task_id": task, "reason": "once more, from the beginning"}))
    if any("No teammate lives" in each.text for each in events(desk, "stalled", new=True)):
        desk.say("Nobody is left to do the work: I spawn teammates again.")
        desk.answer(*(("spawn_teammate", {"name": name, "prompt": CHARGE}) for name in NAMES))


def finish(desk: Desk) -> None:
    """When every task is completed, or nothing is open any more."""
    tasks = {id for id, subject in subjects_of(desk).items() if subject in {task["subject"] for task in TASKS}}
    completed = {each.fields.get("task") for each in events(desk, "task-completed")}
    over = any("No task is open" in each.text for each in events(desk, "stalled", new=True))
    tried = [call for call in desk.talk.calls("finish") if not call.undone]
    if over or (tasks and tasks <= completed and not tried):
        desk.say("All of it is merged and tested together.")
        desk.answer(
            (
                "finish",
                {
                    "summary": "settings.py is split into paths, logs, money, flags and mail; every import names the "
                    "module where the name lives, settings.py is deleted, and `python3 -m shopfront.about` shows what "
                    "is set. Look at CONCERNS in shopfront/__init__.py: three teammates added to it at the same time."
                },
            )
        )


def words_for_now(desk: Desk) -> str:
    """What to say when there is nothing to do."""
    tried = desk.talk.calls("finish")
    if tried and tried[-1].is_error and not desk.talk.news:
        return f"It cannot be finished yet: {(tried[-1].result or '')[:300]}"
    if any(each.fields.get("request_kind") == "plan" for each in desk.talk.news if each.kind == "notice"):
        return "These tasks go on at the same time: I read their plans together, and decide when I have all of them."
    return "Nothing for me to do now; I wait for the team."

"""The scripted team: a model that says what the demo's lead and teammates say."""

from __future__ import annotations

import re
from typing import Any

from coterie.demo.desk import Desk, Next
from coterie.demo.leading import lead
from coterie.demo.pieces import SETTINGS
from coterie.demo.reading import Conversation, read
from coterie.demo.reply import Reply
from coterie.demo.work import WORK

__all__ = ["respond"]

STRANGER = (
    "I am the scripted model of Coterie's demo. I know one job only: to split shopfront/settings.py in the sample "
    "repository that `coterie demo` makes. For any other work, give Coterie a real model: set ANTHROPIC_API_KEY, and "
    "leave the base URL out."
)


def respond(request: dict[str, Any]) -> Reply:
    """What the model says to a request of the Messages API.

    Pure: it follows from the request alone, so that the same is said again after a kill. A request that is no part of
    the demo gets a polite text.
    """
    talk = read(request)
    desk = Desk(talk)
    try:
        try:
            _play(talk, desk)
        except (SyntaxError, ValueError, KeyError) as error:  # files that somebody else has changed
            desk.stuck(f"something is not as the script expects it: {type(error).__name__}: {error}")
    except Next as answer:
        return answer.reply
    raise AssertionError("a script ends with an answer")


def _play(talk: Conversation, desk: Desk) -> None:
    """Run the script that the conversation asks for, from its beginning; it ends with `Next`."""
    _leave_if_asked(desk)
    if talk.member == "lead" and SETTINGS in talk.opening:
        lead(desk)
    task = re.match(r"# Task (T\d+): (.*)", talk.opening)
    if task is not None and task[2].strip() in WORK:
        WORK[task[2].strip()](desk)
        desk.say("Handed in; I wait for what becomes of it.")
        desk.answer()
    if task is not None:
        desk.stuck(f"this task is not part of the script. {STRANGER}")
    if talk.member and talk.member != "lead" and not talk.opening and talk.mail():
        desk.say("I have read it.")  # mail outside of any assignment
        desk.answer()
    desk.say(STRANGER)
    desk.answer()


def _leave_if_asked(desk: Desk) -> None:
    """A request to shut down is accepted."""
    answered = {call.input.get("request_id") for call in desk.talk.calls("answer_shutdown") if not call.undone}
    for each in desk.talk.mail("shutdown_request"):
        if (request := each.fields.get("request")) not in answered:
            desk.say("I stop here; what I have is kept.")
            desk.answer(("answer_shutdown", {"request_id": request, "accept": True}))

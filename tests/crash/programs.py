"""Turns in which a program runs: commands of a teammate, checks of the merge queue; and the edit of a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from tests.acceptance.crew import called, texts
from tests.crash.calls import hand_in, take, tree
from tests.crash.harness import Operation
from tests.crash.host import Host
from tests.crash.place import Place
from tests.crash.points import Acknowledge
from tests.crash.turns import SUBMIT, Script, call, driven, mate_says, work

from coterie import files
from coterie.taskboard import NewTask
from coterie.teammates.model import Answer, ModelRequest, reply
from coterie.teammates.team import Team


def stops_what_it_started(request: ModelRequest) -> Answer:
    """A command in the background, ended by name; where a restart has ended it already, there is nothing to end."""
    started = re.findall(r"started in the background as (\S+)", texts(request))
    if not started:
        return reply(request, "", ("bash", {"command": "echo more > new.txt; exec sleep 600", "background": True}))
    if "stop_command" not in texts(request) and "ended" not in texts(request) and "of yours runs" not in texts(request):
        return reply(request, "", ("stop_command", {"command_id": started[-1]}))
    if not {"write_file"} & {*called(request)}:  # however far the command came
        return reply(request, "", ("write_file", {"path": "new.txt", "content": "more\n"}))
    return mate_says(SUBMIT)(request)


def checked(place: Place) -> None:
    """T1 of ada and T2 of ben are handed in; each has a check: ben's is green, ada's is red on what she made."""
    place.make(splits="auto", approver="lead", teammates=3)
    team = place.open()
    team.keeper.create_integration(team.record.base.commit)
    for name in ("lead", "ada", "ben"):
        team.roster.spawn(name, model="m")
    checks = {"T1": ("test -e repaired.txt",), "T2": ("grep -q ben new.txt", "test ! -e one.tmp")}
    team.board.create([NewTask(ref=name, subject=name, checks=each) for name, each in checks.items()], by="lead")
    host = Host(team, mate_says(), ("ada",), claims=True)
    ada = host.member("ada")
    assert ada is not None
    while not ada.journal.conversation():
        assert ada.do_next()
    (tree(team, "ada") / "ada.txt").write_text("ada\n")
    driven(mate_says(SUBMIT), "ada")(team, lambda key: None)
    take(team, "ben")
    team.roster.update("ben", "ben#1", task="T2", epoch=1, worktree=str(tree(team, "ben")))
    (tree(team, "ben") / "new.txt").write_text("ben\n")
    hand_in(team, "ben", "T2")
    files.write_json(place.root / "processes" / f"{team.process}.lock", {"schema": 1, "process": team.process})


def repairs_the_check(request: ModelRequest) -> Answer:
    if 'kind="returned"' not in texts(request):
        return reply(request, "nothing")
    done = called(request, since_mail="returned")
    left = [each for each in (("write_file", {"path": "repaired.txt", "content": "\n"}), SUBMIT) if each[0] not in done]
    return reply(request, "repaired", left[0]) if left else reply(request, "done")


def one_entry(team: Team, say: Acknowledge) -> None:
    """The first in the queue is judged: ada's, and then ben's."""
    assert Host(team, repairs_the_check, ()).queue.step()


def watched(place: Place) -> None:
    """As `work`, in a team whose person is asked about every command, and answers nothing."""
    work(place)
    record = place.open().record
    asking = record.settings.model_copy(update={"ask": ["Bash"], "permission_timeout": 0.001})
    record.model_copy(update={"settings": asking}).write(place.root)


def takes_no_for_an_answer(request: ModelRequest) -> Answer:
    if "not permitted" not in texts(request):
        return reply(request, "on it", ("bash", {"command": "echo more > new.txt"}))
    return mate_says(SUBMIT)(request)


to_the_end = driven(repairs_the_check, "queue", "ada")
STARTS: dict[str, Callable[[Place], None]] = {"working": work, "checked": checked, "watched": watched}
READ: Script = ("read_file", {"path": "one.txt"})
EDIT: Script = ("edit_file", {"path": "one.txt", "old_text": "ada", "new_text": "ada and eve"})  # not to be done twice
PROGRAMS = [
    call("ada: bash", "working", mate_says(("bash", {"command": "echo more > new.txt"}), SUBMIT), "ada"),
    call("ada: edit_file", "working", mate_says(READ, EDIT, SUBMIT), "ada", ahead=1),
    dataclasses.replace(
        call("ada: bash that nobody gives leave for", "watched", takes_no_for_an_answer, "ada"), sampled=4
    ),
    Operation("ada: stop_command", "working", driven(stops_what_it_started, "ada"), sampled=4),
    Operation("the queue checks one and returns it", "checked", one_entry, finish=to_the_end, sampled=4),
    Operation(
        "the queue checks one and merges it", "checked", one_entry, finish=to_the_end, before=one_entry, sampled=4
    ),
]

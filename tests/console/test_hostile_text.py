"""Whatever stands in a record, no view moves the cursor, sets a title, fills the clipboard or turns text around."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from coterie import files
from coterie.console.live import Live
from coterie.console.paint import Paper
from coterie.lead import open_team
from coterie.lead.ending import write_report
from coterie.mailbox import Report, Returned
from coterie.mailbox.message import Message
from coterie.mailbox.request import Request
from coterie.taskboard import Task
from coterie.teammates.roster import MemberRecord

from .conftest import Rooms

Coterie = Callable[..., tuple[int, str, str]]
HOSTILE = (
    "X\x1b[2J\x1b[31m\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\x1bP+q\x1b\\\x9b2J\x9d0;t\x9c"
    "\x85\u202egnp.exe\u2066\u2069\u200b\u200f\u2028\u2029\u2060\u061c\ufeff\U000e0041\x7f\x08\x08\rover\r\nZ\x00"
)
KINDS_OF_RECORD = {"tasks": Task, "requests": Request, "members": MemberRecord, "mail": Message}
RECORDS: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(kind) for name, kind in KINDS_OF_RECORD.items()}
VIEWS = """board/show T1/show T5/team/inbox/review R1/mail/why T1/why T6/log/diff T1/doctor/config --team main"""

IDENTITIES = {"id", "name", "instance", "team", "owner", "digest", "blocked_by", "task", "to", "from", "process"}
"""With another one of these it is another record, or none: looked at among the damaged ones."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all texts in a record."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        if isinstance(each, str):
            yield (*path, key)
        yield from leaves(each, (*path, key))


def spoiled(record: Any, path: tuple[Any, ...]) -> Any:
    copy = json.loads(json.dumps(record))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] += HOSTILE
    return copy


def spoil(root: Path, *, everything: bool) -> int:
    """Add the hostile text to every text of every record that may have any, or to every text there is."""
    count = 0
    for path in [*root.rglob("*.json")]:
        record = json.loads(path.read_text())
        kind = RECORDS.get(path.relative_to(root).parts[0])
        for place in leaves(record):
            changed = spoiled(record, place)
            named = {str(each) for each in place} & IDENTITIES
            try:
                if named and not everything:
                    continue
                if kind is not None and not everything:
                    kind.validate_json(json.dumps(changed))
                elif place[0] in ("base", "settings", "worktrees_root"):
                    continue  # of team.json: git and the settings would refuse it before anything is shown
            except ValueError:
                continue
            record = changed
            count += 1
        path.write_bytes(json.dumps(record).encode())  # as somebody's editor may: nothing is escaped by us
    return count


def fill(rooms: Rooms) -> None:
    """Something of every kind."""
    mail = {"sender": "ada", "sender_instance": "ada#1", "to": "human"}
    rooms.mail.send(Report(text="all is well", task="T1", epoch=1), **mail)
    rooms.mail.send(Returned(text="red", task="T1", epoch=1, returns=1, files=("a.py",), output="E", base="c"), **mail)
    rooms.requests.ask_question(sender="lead", sender_instance="lead#1", to="human", text="which?")
    rooms.roster.update("ada", "ada#1", todo=[{"text": "first", "status": "pending"}])
    events = [
        {"at": files.now(), "kind": kind, "text": f"a: {HOSTILE}\n{HOSTILE}", "member": HOSTILE} for kind in KINDS
    ]
    more = {"tool": HOSTILE, "is_error": True, "result": HOSTILE, "to": HOSTILE, "status": HOSTILE, "task": HOSTILE}
    lines = [json.dumps(each | more, ensure_ascii=False) for each in events]
    lines.append(json.dumps({"at": HOSTILE, "kind": HOSTILE, "text": HOSTILE}, ensure_ascii=False))
    (rooms.root / "events.jsonl").write_text("\n".join(lines) + "\n")


KINDS = ("warning", "repair", "tool", "member", "decision", "merge", "end", "plan", "message", "task", "check", "run")


def seen(text: str) -> str:
    """What of it a terminal would not show as a character."""
    found = files.CONTROL.findall(text)
    return " ".join(sorted({f"U+{ord(each):04X}" for each in found}))


@pytest.mark.parametrize("everything", [False, True], ids=["valid", "damaged"])
def test_no_view_shows_a_control_sequence_of_any_record(rooms: Rooms, coterie: Coterie, everything: bool) -> None:
    fill(rooms)
    assert spoil(rooms.root, everything=everything) > (150 if everything else 40)
    shown = 0
    for view in ("board/team/show T1/doctor" if everything else VIEWS).split("/"):
        for more in ((), ("--json",)):
            code, out, err = coterie(*view.split(), *more)
            assert not seen(out) and not seen(err), f"coterie {view} {more}: {seen(out)}; {seen(err)}"
            assert code in (0, 1, 2, 3), f"coterie {view} {more}: {code}"
            assert "Traceback" not in err
            if more and code == 0:
                json.loads(out) if view != "log" else [json.loads(line) for line in out.splitlines()]
            shown += "gnp.exe" in out + err
    assert shown >= (4 if everything else 18), "what is harmless of it is shown"


def test_what_a_person_types_comes_back_without_control_sequences(rooms: Rooms, coterie: Coterie) -> None:
    for words in (("show", HOSTILE), ("review", HOSTILE), ("say", HOSTILE, HOSTILE), ("board", "--team", HOSTILE)):
        words = tuple(each.replace("\0", "") for each in words)
        code, out, err = coterie(*words)
        assert code != 0 and not seen(out + err), (words[0], seen(out + err))


def test_live_lines_and_records_have_none_and_colours_are_ours_alone(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    paper = Paper(stream)
    paper.colour = True
    for kind in KINDS:
        Live(paper)({"at": files.now(), "kind": kind, "text": HOSTILE, "member": HOSTILE, "result": HOSTILE})
    paper.say(paper.style("ours", "bold red") + HOSTILE + "\x1b[5m\x1b[8m\x1b[999m")
    plain = stream.getvalue()
    for code in ("0", "1", "2", "31", "32", "33", "36", "1;31", "1;32", "35", "34"):
        plain = plain.replace(f"\x1b[{code}m", "")
    assert not seen(plain) and "\x1b[1;31mours\x1b[0m" in stream.getvalue()


def test_the_report_can_be_shown_and_the_records_can_be_shown_by_cat(rooms: Rooms, repository: Path) -> None:
    fill(rooms)
    spoil(rooms.root, everything=False)
    team = open_team(rooms.root)
    team.keeper.create_integration(team.record.base.commit)
    write_report(team, exit_code=0, summary=HOSTILE)
    rooms.board.update("T4", by="human", description=HOSTILE)
    for name in ("report.md", "report.json", "tasks/T4.json"):
        assert not seen((rooms.root / name).read_text()), name
    assert json.loads((rooms.root / "report.json").read_text())["summary"] == HOSTILE

"""Rules on mail: one folder for each message, one record for each that was put away, requests that exist."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from coterie import files
from coterie.errors import NewerSchema
from coterie.lead.audit.fault import AGAIN, Fault
from coterie.lead.audit.sight import UPGRADE, Sight, names
from coterie.mailbox import Message, parse_message
from coterie.teammates.journal import Delivered, Undelivered

__all__ = ["faults"]

PLACES = ("tmp", "new", "cur")  # a copy that was set aside in bad/ is no second delivery
UNREAD = "it is moved to bad/ when its recipient reads mail; ask its sender to send it again"


def faults(sight: Sight) -> Iterator[Fault]:
    for name in names(sight.root / "mail", sight):
        if not name.startswith("."):
            yield from _box(sight, name)


def _box(sight: Sight, name: str) -> Iterator[Fault]:
    box = sight.root / "mail" / name
    places: dict[str, list[str]] = defaultdict(list)
    for place in PLACES:
        for file in names(box / place, sight):
            if file.startswith("."):
                continue  # an editor's
            places[file].append(place)
            if place == "tmp":
                text = "a message that was never sent: whoever wrote it died before"
                yield Fault(rule="half-sent", where=f"mail/{name}/tmp/{file}", found=text, cure=AGAIN, repairable=True)
            else:
                yield from _message(sight, box / place / file)
    for file, found in places.items():
        if len(found) > 1:
            text = f"the message {file.removesuffix('.json')} is in {' and in '.join(found)}"
            where = f"mail/{name}/{found[0]}/{file}"
            yield Fault(rule="message-twice", where=where, found=text, cure=AGAIN, repairable="cur" in found)
    if name != "human":  # what a person has read is moved by the person
        yield from _records(sight, name, places)


def _records(sight: Sight, name: str, places: dict[str, list[str]]) -> Iterator[Fault]:
    told = sight.journals.get(name)
    if (told is not None and told.fault is not None) or list(
        (sight.root / "members" / name).glob("bad/journal.jsonl*")
    ):
        return  # damaged, or an earlier one was and was set aside: nothing more can be told from it
    kept = f"members/{name}/journal.jsonl"
    noted = Counter(
        each
        for record in (told.records if told is not None else ())
        if isinstance(record, Delivered | Undelivered)
        for each in record.ids
    )
    for each, times in noted.items():
        if times > 1:
            text = f"the message {each} has {times} records of having been delivered or given up"
            yield Fault(
                rule="delivered-twice", where=kept, found=text, cure=f"coterie say {name} which of the two counts"
            )
    for file, found in places.items():
        each = file.removesuffix(".json")
        if found == ["cur"] and not noted[each]:
            text = f"{each} lies in cur, and the journal of {name} has no record that it was delivered or given up"
            cure = f"move it to mail/{name}/new: it is delivered then"
            yield Fault(rule="not-recorded", where=f"mail/{name}/cur/{file}", found=text, cure=cure)
        elif found == ["new"] and noted[each]:
            text = f"{each} was delivered or given up, and lies in new still"
            where = f"mail/{name}/new/{file}"
            yield Fault(rule="not-put-away", where=where, found=text, cure=AGAIN, repairable=True)


def _message(sight: Sight, path: Path) -> Iterator[Fault]:
    where = sight.place(path)
    try:
        message = parse_message(files.read_json(path), path)
    except FileNotFoundError:
        return
    except NewerSchema as error:
        yield Fault(rule="newer-schema", where=where, found=str(error), cure=UPGRADE)
    except files.Unreadable as error:
        waits = path.parent.name == "new"
        cure = UNREAD if waits else "its text stands in the journal of its recipient: move it to bad/"
        yield Fault(rule="unreadable", where=where, found=error.reason, cure=cure, repairable=waits)
    else:
        yield from _request(sight, message, where)


def _request(sight: Sight, message: Message, where: str) -> Iterator[Fault]:
    request = getattr(message.body, "request", None)
    if request is None or request in sight.requests:
        return
    file = f"requests/{request}.json"
    if any(each.where == file for each in sight.faults) or list((sight.root / "requests/bad").glob(f"{request}.json*")):
        return  # it is there and cannot be read: that is told on its own
    text = f"this {message.kind} is of {request}, and there is no such request"
    yield Fault(rule="unknown-request", where=where, found=text, cure=f"put {file} back, or ask for it again")

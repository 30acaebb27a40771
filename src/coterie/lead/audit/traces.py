"""Rules on what a dead host must not leave behind: temp files, locks, batches, processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coterie import files
from coterie.lead.audit.fault import AGAIN, Fault
from coterie.lead.audit.sight import Sight, names
from coterie.lead.checks import marks_of
from coterie.teammates.commands import ProcessMark, find_leftovers
from coterie.teammates.journal import Started

__all__ = ["faults", "marks"]


def faults(sight: Sight) -> Iterator[Fault]:
    yield from _temp_files(sight)
    yield from _locks(sight)
    for name in names(sight.root / "intents", sight):
        if name.startswith("board-"):
            text = "a batch of tasks that was begun and not finished"
            yield Fault(rule="half-batch", where=f"intents/{name}", found=text, cure=AGAIN, repairable=True)
    yield from _processes(sight)
    yield from _lists(sight)


def _temp_files(sight: Sight) -> Iterator[Fault]:
    found = list(sight.root.rglob(".*.tmp"))
    if sight.record is not None:
        found += Path(sight.record.worktrees_root).glob(".*.tmp")
    for path in sorted(found):
        owner = files.temp_owner(path.name)
        if owner is not None and owner not in sight.hosts:
            text = "half of a write, by a process that is gone"
            yield Fault(rule="temp-file", where=sight.place(path), found=text, cure=AGAIN, repairable=True)


def _locks(sight: Sight) -> Iterator[Fault]:
    there = names(sight.root / "processes", sight)
    for name in there:
        stem, _, ending = name.rpartition(".")
        if ending not in ("lock", "port", "commands") or stem.startswith(".") or stem == "lead" or stem in sight.hosts:
            continue
        if ending == "lock" or f"{stem}.lock" not in there:  # one fault for each host
            text = f"the host process {stem} is gone and its {ending} file is there"
            yield Fault(rule="dead-host", where=f"processes/{name}", found=text, cure=AGAIN, repairable=True)


def marks(sight: Sight) -> Iterator[ProcessMark]:
    """The commands that hosts which are gone have started."""
    for name, told in sight.journals.items():
        if not sight.is_hosted(name):
            for record in told.records:
                if isinstance(record, Started) and record.process:
                    yield ProcessMark(**record.process)
    for each in names(sight.root / "processes", sight):  # its checks
        if each.endswith(".commands") and each.removesuffix(".commands") not in sight.hosts:
            yield from marks_of(sight.root, each.removesuffix(".commands"))


def _processes(sight: Sight) -> Iterator[Fault]:
    for mark, pids in find_leftovers(marks(sight)):
        text = f"the command {mark.command_id} of a host that is gone runs on (pid {', '.join(map(str, pids))})"
        yield Fault(rule="left-process", where=mark.command_id, found=text, cure=AGAIN, repairable=True)


def _lists(sight: Sight) -> Iterator[Fault]:
    """What is only appended to, or read in passing: anything but a regular file stands in the way of the team."""
    mail = [f"mail/{name}/ledger" for name in names(sight.root / "mail", sight)]
    for name in ("events.jsonl", "changes", "stop.json", "lock", "report.json", "report.md", *mail):
        path = sight.root / name
        try:
            files.expect_regular(path)
        except FileNotFoundError:
            continue
        except files.Unreadable as error:
            cure = "move it aside: what the team needs of it is written anew"
            yield Fault(rule="unreadable", where=name, found=error.reason, cure=cure)

"""Rules on journals: no holes, and what they tell a model is a request that a model's server takes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from coterie.lead.audit.fault import AGAIN, Fault
from coterie.lead.audit.sight import Sight
from coterie.teammates.journal import Answered, Finished, Opened, Record, messages, tool_calls

__all__ = ["faults"]

SHOWN = 5


def faults(sight: Sight) -> Iterator[Fault]:
    for name, told in sight.journals.items():
        where = f"members/{name}/journal.jsonl"
        if told.fault is not None:
            cure = f"nothing before it is lost; {name} cannot go on with it: spawn another teammate, or repair the line"
            yield Fault(rule="damaged-journal", where=where, found=told.fault, cure=cure)
        if told.torn:
            text = f"its last record is torn ({told.torn} bytes): it was being written when its host died"
            yield Fault(rule="torn-journal", where=where, found=text, cure=AGAIN, repairable=True)
        for index, (records, last) in enumerate(_conversations(told.records), 1):
            yield from _conversation(sight, name, f"{where}, conversation {index}", records, last and not told.fault)


def _conversations(records: Sequence[Record]) -> Iterator[tuple[Sequence[Record], bool]]:
    """Each conversation's records, and whether it is the last one."""
    starts = [index for index, record in enumerate(records) if isinstance(record, Opened)]
    for start, end in itertools.pairwise([*starts, len(records)]):  # a life that ended at once has none
        yield records[start:end], end == len(records)


def _conversation(sight: Sight, name: str, where: str, records: Sequence[Record], last: bool) -> Iterator[Fault]:
    instance = records[0].instance
    open_calls: list[str] = []
    wrong: list[str] = list(_strange_results(records))
    said = messages(records)
    for index, message in enumerate(said):
        role = "assistant" if index % 2 else "user"
        if message["role"] != role:
            wrong.append(f"message {index} is of the {message['role']}, expected one of the {role}")
            break
        calls = [block["id"] for block in message["content"] if block.get("type") == "tool_use"]
        after = said[index + 1]["content"] if index + 1 < len(said) else []
        at_end = last and not any(each["role"] == "assistant" for each in said[index + 1 :])
        answered = [block["tool_use_id"] for block in after if block.get("type") == "tool_result"]
        missing = [call for call in calls if call not in answered]
        if missing and at_end:
            open_calls = missing
        elif missing:
            wrong.append(f"these calls have no result: {', '.join(missing[:SHOWN])}")
    if wrong:
        cure = f"no server takes it as it is: stop {name}, and give its task to another"
        yield Fault(rule="bad-conversation", where=where, found="; ".join(wrong[:SHOWN]), cure=cure)
    if open_calls and sight.lives(instance) and not sight.running and not sight.is_hosted(name):
        text = f"{name} was interrupted in these calls: {', '.join(open_calls[:SHOWN])}"
        cure = "coterie resume: what never began is answered so, what may have taken effect is looked at first"
        yield Fault(rule="open-call", where=where, found=text, cure=cure, repairable=True)


def _strange_results(records: Sequence[Record]) -> Iterator[str]:
    """Results of calls that nobody made, and second results of one call."""
    made: set[str] = set()
    results: Counter[str] = Counter()
    for record in records:
        if isinstance(record, Answered):
            made.update(tool_calls(record))
        elif isinstance(record, Finished):
            results[record.call] += 1
            if record.call not in made:
                yield f"record {record.seq} is the result of {record.call}, which nobody called"
            elif results[record.call] > 1:
                yield f"record {record.seq} is another result of {record.call}"

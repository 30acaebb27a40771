"""The journal of a member: everything its model was told and said, append-only, one file for all its conversations.

A line is a JSON object; its last two keys, `len` and `crc`, are over the text before them, so that a torn last line
is told from a whole one. What the model is sent is a pure function of these records: nothing is kept beside them.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from coterie import files
from coterie.errors import DamagedError

__all__ = [
    "Answered",
    "DamagedJournal",
    "Delivered",
    "Ended",
    "Finished",
    "Journal",
    "Opened",
    "Record",
    "Spent",
    "Started",
    "Told",
    "Undelivered",
    "messages",
]


class DamagedJournal(DamagedError):
    """A journal is damaged before its last record."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)

    seq: int = 0
    at: str = ""
    instance: str


class Opened(_Record):
    """A conversation begins. Its system text, tools and model stay what they are here."""

    kind: Literal["conversation"] = "conversation"
    number: int
    reason: str
    task: str | None
    epoch: int | None
    system: str
    tools: list[dict[str, Any]]
    model: str
    opening: str = Field(description="the first user message; empty where the first mail is the first message")


class Delivered(_Record):
    """Mail entered the conversation: all that waited at one turn boundary, as one text."""

    kind: Literal["mail"] = "mail"
    turn: int
    ids: list[str]
    kinds: list[str]
    text: str


class Told(_Record):
    """The runtime said something to the model."""

    kind: Literal["told"] = "told"
    reason: str
    text: str


class Answered(_Record):
    """The model answered: the content exactly as received."""

    kind: Literal["answer"] = "answer"
    turn: int
    answer_id: str
    content: list[dict[str, Any]]
    stop_reason: str
    model: str
    usage: dict[str, int]
    usd: float | None
    broken: dict[str, str] = Field(default_factory=dict, description="tool_use id -> arguments that were no JSON")


class Started(_Record):
    """A tool call is about to act."""

    kind: Literal["started"] = "started"
    call: str
    tool: str
    key: str
    process: dict[str, Any] | None = None


class Finished(_Record):
    """A tool call has its result, which is what the model is told."""

    kind: Literal["result"] = "result"
    call: str
    tool: str
    text: str
    is_error: bool
    ends: bool = Field(default=False, description="the stretch ends after this turn's calls")
    seen: dict[str, str] = Field(
        default_factory=dict, description="path in the worktree -> sha256 of the file as the model knows it now"
    )


class Spent(_Record):
    """A model call was paid for whose answer is not part of the conversation."""

    kind: Literal["spent"] = "spent"
    reason: str
    usage: dict[str, int]
    usd: float | None


class Undelivered(_Record):
    """Mail that a life left unread."""

    kind: Literal["undelivered"] = "undelivered"
    ids: list[str]


class Ended(_Record):
    """A life is over."""

    kind: Literal["ended"] = "ended"
    reason: str


Record = Annotated[
    Opened | Delivered | Told | Answered | Started | Finished | Spent | Undelivered | Ended,
    Field(discriminator="kind"),
]
SIGNED = ("thinking", "redacted_thinking")
HEARD = ("result", "mail")  # kinds of record whose text comes from commands, files and messages
_records: TypeAdapter[Record] = TypeAdapter(Record)


def encode_line(record: _Record) -> bytes:
    """A record as its line."""
    text = files.as_json(_without_secrets(record.model_dump(mode="json")), separators=(", ", ": "))
    data = text.encode("utf-8", "replace")
    return data[:-1] + f', "len": {len(data)}, "crc": "{zlib.crc32(data):08x}"}}\n'.encode()


def _without_secrets(record: dict[str, Any]) -> dict[str, Any]:
    """The record as it may be kept. What the model thought is signed: it stays as it came, or no server takes it."""
    found = {key: files.redacted_value(value) for key, value in record.items() if key != "content"}
    if record["kind"] in HEARD:
        found["text"] = files.redacted_text(record["text"])
    if "content" in record:
        blocks = [each if each.get("type") in SIGNED else files.redacted_value(each) for each in record["content"]]
        found["content"] = blocks
    return found


def decode_line(line: bytes) -> Record | None:
    """The record in a line, or None if the line is torn or was changed."""
    head, mark, tail = line.rpartition(b', "len": ')
    if not mark or not line.endswith(b"\n"):
        return None
    data = head + b"}"
    if tail != f'{len(data)}, "crc": "{zlib.crc32(data):08x}"}}\n'.encode():
        return None
    try:
        return _records.validate_json(data)
    except ValueError:
        return None


class Journal:
    """One journal file, read once and then appended to by its one owner (the member's host).

    instance: the life that goes on with it. What an earlier life of the name left in the middle is not its own.
    report: told where what somebody made of the file meanwhile was set aside.
    """

    def __init__(
        self, path: Path, *, instance: str | None = None, report: Callable[[str], None] = lambda text: None
    ) -> None:
        self.path = path
        self.instance = instance
        self.records, torn = read_journal(path)
        self.torn = torn
        if torn:
            files.truncate(path, path.stat().st_size - torn)
        self._report = report
        self._as_written = self._mark()
        self._seen: set[str] = set()
        for record in self.records:
            self._note(record)

    def _note(self, record: Record) -> None:
        if isinstance(record, Delivered | Undelivered):
            self._seen.update(record.ids)

    def append(self, record: Record) -> Record:
        """Give the record its number and time, make it durable, and return it."""
        line = encode_line(record.model_copy(update={"seq": self.next_seq, "at": files.now()}))
        stamped = decode_line(line)  # what is said to the model is what a restart would read, to the byte
        if stamped is None:
            raise DamagedJournal(f"{self.path}: record {self.next_seq} cannot be written so that it is read again")
        self.mend()
        before = self._as_written
        files.append(self.path, line, as_is=True)
        after = self._mark()
        mine = after is not None and after[0] == (before[0] if before else 0) + len(line)
        self._as_written = after if mine else None
        self.records.append(stamped)
        self._note(stamped)
        return stamped

    def mend(self) -> None:
        """Put the file back as it was written, if somebody changed, replaced or removed it: what it had is known here.

        Size and time only say whether it has to be read again. Raises `DamagedJournal` where whole records were added
        behind it: another owner has taken over.
        """
        mark = self._mark()
        if mark is not None and mark == self._as_written:
            return
        found, torn, fault = whole_records(self.path)
        if (found, torn, fault) == (self.records, 0, None):
            self._as_written = mark
            return
        if len(found) > len(self.records) and found[: len(self.records)] == self.records:
            raise DamagedJournal(f"{self.path}: another process has written to it, so this one does not any more")
        where = files.set_aside(self.path, stays=True) if os.path.lexists(self.path) else None
        files.write_bytes(self.path, b"".join(map(encode_line, self.records)), as_is=True)
        self._as_written = self._mark()
        what = f"is not as it was written: it is in {where} now" if where is not None else "is gone"
        self._report(f"{self.path} {what}, what it had is put back")

    def _mark(self) -> tuple[int, int, int] | None:
        """Size, time of change and inode of the file; None where there is none, or no regular one."""
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return None
        return (found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None

    @property
    def next_seq(self) -> int:
        return self.records[-1].seq + 1 if self.records else 1

    def seen(self, message_id: str) -> bool:
        """Whether a message has been delivered, or has been recorded as undelivered."""
        return message_id in self._seen

    def conversation(self) -> list[Record]:
        """The records of this life's latest conversation, its `Opened` first; empty before the first."""
        for index in range(len(self.records) - 1, -1, -1):
            record = self.records[index]
            if isinstance(record, Opened):
                return self.records[index:] if self.instance in (None, record.instance) else []
        return []

    def digest_of(self, path: str) -> str | None:
        """The file at `path` of the worktree as the model knows it from this conversation; None if it does not."""
        for record in reversed(self.conversation()):
            if isinstance(record, Finished) and path in record.seen:
                return record.seen[path]
        return None


def read_journal(path: Path) -> tuple[list[Record], int]:
    """The records of a journal and the number of torn bytes at its end. Changes nothing.

    Raises `DamagedJournal` where a record before the last is damaged or a number is missing.
    """
    found, torn, fault = whole_records(path)
    if fault is not None:
        raise DamagedJournal(fault)
    return found, torn


def whole_records(path: Path) -> tuple[list[Record], int, str | None]:
    """As `read_journal`, for whoever adds up: where it is damaged, what is whole before that, and what is wrong."""
    found: list[Record] = []
    try:
        data = files.read_bytes(path, limit=1 << 30)
    except FileNotFoundError:
        return found, 0, None
    except files.Unreadable as error:
        return found, 0, str(error)
    lines = data.splitlines(keepends=True)
    for index, line in enumerate(lines):
        record = decode_line(line)
        if record is None and index == len(lines) - 1:
            return found, len(line), None
        expected = found[-1].seq + 1 if found else 1
        if record is None or record.seq != expected:
            return found, 0, f"{path}: line {index + 1} is not the whole record number {expected}"
        found.append(record)
    return found, 0, None


def messages(records: Sequence[Record]) -> list[dict[str, Any]]:
    """What the model is sent for a conversation: roles alternate, every call is answered in the next user message.

    Pure: the same records give the same messages, to the byte, which prompt caching rests on.
    """
    said: list[dict[str, Any]] = []
    results: dict[str, dict[str, Any]] = {}
    texts: list[dict[str, Any]] = []
    order: list[str] = []

    def flush() -> None:
        content = [results[call] for call in order if call in results] + texts
        if content:
            said.append({"role": "user", "content": content})
        results.clear()
        texts.clear()
        order.clear()

    for record in records:
        match record:
            case Opened(opening=text) if text:
                texts.append({"type": "text", "text": text})
            case Delivered(text=text) | Told(text=text):
                texts.append({"type": "text", "text": text})
            case Answered():
                flush()
                said.append({"role": "assistant", "content": record.content})
                order.extend(tool_calls(record))
            case Finished():
                block: dict[str, Any] = {
                    "type": "tool_result",
                    "tool_use_id": record.call,
                    "content": record.text or "(no output)",
                }
                results[record.call] = block | ({"is_error": True} if record.is_error else {})
    flush()
    return said


def tool_calls(answer: Answered) -> list[str]:
    """The ids of the tool calls of an answer, in order."""
    return [block["id"] for block in answer.content if block.get("type") == "tool_use"]


def unanswered(records: Iterable[Record]) -> tuple[Answered | None, list[dict[str, Any]]]:
    """The last answer, and those of its tool calls that have no result yet."""
    last: Answered | None = None
    done: set[str] = set()
    for record in records:
        if isinstance(record, Answered):
            last, done = record, set()
        elif isinstance(record, Finished):
            done.add(record.call)
    if last is None:
        return None, []
    calls = [block for block in last.content if block.get("type") == "tool_use"]
    return last, [block for block in calls if block["id"] not in done]

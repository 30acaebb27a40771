"""What a command printed: made readable, capped in memory and on disk, and read again as `output:<id>`."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from coterie import files
from coterie.errors import Refused

__all__ = ["DISK_CAP", "TEXT_CAP", "Output", "Readable", "check_output_id", "head_and_tail", "read_output"]

TEXT_CAP = 30_000  # bytes of UTF-8 that a model is shown
DISK_CAP = 64 << 20  # bytes that are kept on disk, the last _TAIL among them
_TAIL = 1 << 20

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._#-]{0,127}")

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, links, queries
    r"|\x1b[ -/]*[0-~]"  # the other escapes
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)|\x9b[0-?]*[ -/]*|\r)\Z")
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_DROPPED = bytes(each for each in [*range(0x20), 0x7F] if each not in b"\a\b\t\n\r\x1b")  # mean nothing to anybody
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_HOLD = 4096  # characters: an escape sequence that is longer was none


class Readable:
    """Bytes in, text out: UTF-8 with replacement characters, no control sequences, lines that end with a newline.

    A carriage return begins a new line, so that a progress bar can be read. Sequences may be cut between two chunks.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""

    def feed(self, data: bytes, *, last: bool = False) -> str:
        """The text that `data` adds. `last`: nothing follows."""
        text = self._held + self._decode(data.translate(None, _DROPPED), last)
        self._held = ""
        if not last and (cut := _UNFINISHED.search(text, max(0, len(text) - _HOLD))):
            text, self._held = text[: cut.start()], cut.group()
        if not _CONTROL.search(text):
            return text
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if "\x1b" in text or "\x9b" in text:
            text = _ESCAPE.sub("", text)
        if "\x08" in text:
            text = _OVERSTRUCK.sub("", text)
        return _CONTROL.sub("", text)


def check_output_id(output_id: str) -> str:
    """`output_id` itself if it can name an output, else `Refused`. Such a name never leads out of its folder."""
    if not _ID.fullmatch(output_id):
        raise Refused(f"not the id of an output: {output_id[:80]!r}. Take it from the line that names `output:<id>`")
    return output_id


def head_and_tail(head: bytes, tail: bytes, left_out: int, output_id: str | None) -> str:
    """Two ends of a text (UTF-8, cut anywhere) and between them a line that says how many bytes are not shown."""
    where = f", the rest: output:{output_id}" if output_id else ""
    first = head.decode("utf-8", "ignore")
    end = tail.decode("utf-8", "ignore")
    return f"{first}{'' if first.endswith(chr(10)) else chr(10)}[… {left_out} bytes left out{where} …]\n{end}"


class Output:
    """One command's output while it grows. One thread feeds; any may ask for the text.

    Up to `TEXT_CAP` bytes it lives in memory alone, unless `keep`. Beyond, it is also in `folder/<id>`: a log that is
    appended to in place and not a record, so what a killed host leaves behind is its beginning. A disk that is full
    costs the rest of the file, which is said, and not the command. Memory stays flat whatever comes. `on_text` hears
    the readable text until the file is full.
    """

    def __init__(
        self,
        folder: Path,
        output_id: str,
        *,
        keep: bool = False,
        on_text: Callable[[str], object] | None = None,
        disk_cap: int = DISK_CAP,
    ) -> None:
        self._folder = folder
        self._wanted = check_output_id(output_id)
        self._on_text = on_text
        self._cap = disk_cap
        self._tail_cap = min(_TAIL, disk_cap // 4)
        self._room = disk_cap - self._tail_cap - 100  # bytes of the file before its end is added
        self._readable = Readable()
        self._secrets = files.RedactedStream()
        self._lock = threading.Lock()
        self._file: int | None = None
        self._id: str | None = None
        self._fault = ""
        self._head = bytearray()  # the first TEXT_CAP bytes
        self._tail = bytearray()  # the last ones, at most twice _tail_cap
        self._size = 0  # bytes so far: of readable text, and past `_room` as they came
        self._written = 0  # of these, how many the file holds, without what `finish` adds
        if keep:
            self._open()

    @property
    def id(self) -> str | None:
        """What `read_output` takes; None as long as nothing is in a file."""
        return self._id

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """Take what the command printed."""
        if self._size >= self._room:  # only the end of it will ever be looked at: made readable then
            with self._lock:
                self._size += len(data)
                self._keep_end(data)
            return
        text = self._secrets.feed(self._readable.feed(data, last=last), last=last)
        if not text:
            return
        new = text.encode("utf-8", "replace")
        with self._lock:
            if self._file is None and not self._fault and self._size + len(new) > TEXT_CAP:
                self._open()
                self._write(bytes(self._head))
            self._size += len(new)
            if (room := TEXT_CAP - len(self._head)) > 0:
                self._head += new[:room]
            self._keep_end(new)
            self._write(new)
        if self._on_text:
            self._on_text(text)

    def text(self) -> str:
        """Everything so far if that is at most `TEXT_CAP` bytes, else both ends of it."""
        with self._lock:
            if self._size <= TEXT_CAP:
                text = self._head.decode("utf-8", "ignore")
            else:
                half = TEXT_CAP // 2
                text = head_and_tail(bytes(self._head[:half]), self._end(half), self._size - 2 * half, self._id)
            return text + (f"\n[the output could not be kept: {self._fault}]\n" if self._fault else "")

    def finish(self) -> None:
        """Nothing more comes: the end of a cut file is added, and the file is on the disk when this returns."""
        self.feed(b"", last=True)
        with self._lock:
            if self._file is None:
                return
            if (missing := self._size - self._written) > 0 and not self._fault:
                end = self._end(min(self._tail_cap, missing))
                note = f"\n[… {missing - len(end)} bytes left out: more than {self._cap} are not kept …]\n"
                self._put(note.encode() + end)
            with contextlib.suppress(OSError):  # its loss was told, or is told by whoever writes next
                files.sync(self._file)
            os.close(self._file)
            self._file = None

    def _keep_end(self, data: bytes) -> None:
        self._tail += data
        if len(self._tail) > 2 * self._tail_cap:
            del self._tail[: -self._tail_cap]

    def _end(self, size: int) -> bytes:
        end = bytes(self._tail[-size:])
        return end if self._size < self._room else files.redacted_text(Readable().feed(end, last=True)).encode()[-size:]

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for number in range(1, 1000):  # an id comes again when an interrupted call is made again
                name = self._wanted if number == 1 else f"{self._wanted[:120]}.{number}"
                with contextlib.suppress(FileExistsError):
                    self._file = os.open(self._folder / name, flags, 0o600)
                    self._id = name
                    return
            self._fault = f"{self._wanted} was used too often"
        except OSError as error:
            self._fault = error.strerror or str(error)

    def _write(self, data: bytes) -> None:
        room = self._room - self._written
        if self._file is not None and not self._fault and room > 0 and data:
            self._written += self._put(data[:room])

    def _put(self, data: bytes) -> int:
        view = memoryview(data)
        try:
            while view and self._file is not None:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self._fault = error.strerror or str(error)
        return len(data) - len(view)


def read_output(folder: Path, output_id: str, *, offset: int = 1, limit: int = 2000, owner: str = "") -> str:
    """Lines `offset` to `offset + limit - 1` of an output (the first is 1), at most `TEXT_CAP` bytes of them.

    A last line in brackets says where to go on. `owner` is a name or one of its lives: `ada` reads `ada.…` and
    `ada#2.…`. Raises `Refused` for an id that is none, that is not the owner's, or that nothing was kept under. Memory:
    what is returned.
    """
    if not check_output_id(output_id).startswith((f"{owner}.", f"{owner}#") if owner else ""):
        raise Refused(f"output:{output_id} is not yours: you can read your own outputs")
    if offset < 1 or limit < 1:
        raise Refused(f"offset and limit count lines from 1, found {offset} and {limit}")
    try:
        handle = os.open(folder / output_id, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileNotFoundError
    except OSError:
        raise Refused(f"there is no output:{output_id}. Short outputs are shown whole and not kept") from None
    shown = bytearray()
    number = 0
    with os.fdopen(handle, "rb") as file:
        while line := file.readline(TEXT_CAP):
            number += 1
            cut = 0
            while not line.endswith(b"\n") and (more := file.readline(TEXT_CAP)):
                cut += len(more)
                if more.endswith(b"\n"):
                    break
            if cut:
                line += f" [… {cut} bytes of this line left out …]".encode()
            if number < offset:
                continue
            if number >= offset + limit or (shown and len(shown) + len(line) > TEXT_CAP):
                return shown.decode("utf-8", "replace") + f"[… more from line {number}: offset {number} …]\n"
            shown += line if line.endswith(b"\n") else line + b"\n"
    if number < offset:
        raise Refused(f"output:{output_id} has {number} lines, found offset {offset}")
    return shown.decode("utf-8", "replace")

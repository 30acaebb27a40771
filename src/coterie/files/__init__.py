"""The only code that writes state.

Two kinds of death are planned for. After `kill -9` the page cache lives, so order and atomic renames are enough; after
a power loss only what was fsynced is there. Everything here promises both on a local journaling file system, once
the call has returned:

* `write_json`, `write_bytes`: readers see the old content or the new, never a part.
* `write_copy`: the same after a kill; after a power loss the content may be old or gone. For copies alone.
* `deliver`, `move`: a file is at one place or the other.
* `append`: a whole line or, after a crash, a torn last one that the reader has to recognise.

Inside `locked()` the fsync of directories is put off until the lock is released, and done before `locked()` returns:
nobody waits for a disk that is not theirs, and nothing is acknowledged early. Network file systems promise nothing.
`promise(Durability.PROCESS)` leaves the second kind of death out, and all fsyncs with it.
"""

from __future__ import annotations

from coterie.files.answers import answer_to, port_in, who_answers
from coterie.files.below import kind_of, make_below, open_below
from coterie.files.kept import Kept
from coterie.files.locks import (
    Held,
    Hold,
    LockTimeout,
    drop_lock,
    held,
    hold,
    holder,
    living_holder,
    locked,
    read_info,
)
from coterie.files.names import RESERVED, check_name, counted, now, process_mark, token
from coterie.files.records import (
    Unreadable,
    decode,
    encode,
    expect_regular,
    file_mark,
    read_bytes,
    read_json,
    read_open,
)
from coterie.files.redaction import RedactedStream, keep_secret, redacted, redacted_text, redacted_value
from coterie.files.room import shortage
from coterie.files.shown import CONTROL, as_json, clean, escaped
from coterie.files.systems import file_system, is_network
from coterie.files.writing import (
    Durability,
    append,
    deliver,
    deliver_below,
    make_folder,
    move,
    promise,
    remove,
    set_aside,
    survives,
    sync,
    temp_name,
    temp_owner,
    truncate,
    write_bytes,
    write_copy,
    write_json,
)

__all__ = [
    "CONTROL",
    "RESERVED",
    "Durability",
    "Held",
    "Hold",
    "Kept",
    "LockTimeout",
    "RedactedStream",
    "Unreadable",
    "answer_to",
    "append",
    "as_json",
    "check_name",
    "clean",
    "counted",
    "decode",
    "deliver",
    "deliver_below",
    "drop_lock",
    "encode",
    "escaped",
    "expect_regular",
    "file_mark",
    "file_system",
    "held",
    "hold",
    "holder",
    "is_network",
    "keep_secret",
    "kind_of",
    "living_holder",
    "locked",
    "make_below",
    "make_folder",
    "move",
    "now",
    "open_below",
    "port_in",
    "process_mark",
    "promise",
    "read_bytes",
    "read_info",
    "read_json",
    "read_open",
    "redacted",
    "redacted_text",
    "redacted_value",
    "remove",
    "set_aside",
    "shortage",
    "survives",
    "sync",
    "temp_name",
    "temp_owner",
    "token",
    "truncate",
    "who_answers",
    "write_bytes",
    "write_copy",
    "write_json",
]

"""What a machine runs out of for a while: space on the disk, file handles. It is waited for, not taken for damage."""

from __future__ import annotations

import errno

__all__ = ["shortage"]

_SHORT = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "too many open files in this process",
    errno.ENFILE: "too many open files on this machine",
    errno.ENOMEM: "no memory left",
}


def shortage(error: BaseException) -> str | None:
    """What `error` comes from a lack of, with the file where it is known; None for every other error.

    Looks through what an error was raised from. Promised: whoever meets one has written nothing or the whole, so that
    doing the same again, once there is room, is right.
    """
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return None
        if isinstance(seen, OSError) and seen.errno in _SHORT:
            return _SHORT[seen.errno] + (f" ({seen.filename})" if seen.filename else "")
        seen = seen.__cause__ or seen.__context__
    return None

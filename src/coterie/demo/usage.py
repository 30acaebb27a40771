"""How many tokens a request and an answer are said to have, cached ones among them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["PromptCache", "tokens"]

CHARACTERS = 4  # of one token, about
LOOK_BACK = 20  # blocks before a mark at which an earlier entry is found, as the API does


def tokens(value: Any) -> int:
    """About how many tokens a piece of a request or an answer has; at least 1."""
    return max(1, len(_spelled(value)) // CHARACTERS)


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


class PromptCache:
    """What a service remembers of the prompts it saw, for as long as it runs. For any number of threads.

    Like the API's: an entry is a whole prefix (tools, then system, then messages) that ended in a cache mark. Unlike
    it, nothing is too short to be kept and nothing is forgotten.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def count(self, request: dict[str, Any]) -> dict[str, int]:
        """The input side of a request's usage, and the request's prefixes remembered from now on."""
        digest = hashlib.sha256()
        size, sizes, digests, marks = 0, [0], [""], []
        for block, marked in _prefix(request):
            digest.update(_spelled(block).encode("utf-8", "replace") + b"\0")
            size += tokens(block)
            sizes.append(size)
            digests.append(digest.hexdigest())
            if marked:
                marks.append(len(sizes) - 1)
        with self._lock:
            read = max((self._found(digests, mark) for mark in marks), default=0)
            self._known.update(digests[mark] for mark in marks)
        written = max(marks, default=0)
        return {
            "input_tokens": max(1, size - sizes[written]),
            "cache_creation_input_tokens": sizes[written] - sizes[read],
            "cache_read_input_tokens": sizes[read],
        }

    def _found(self, digests: list[str], mark: int) -> int:
        """The latest boundary at or a little before a mark that was a mark once; 0 if there is none."""
        for boundary in range(mark, max(0, mark - LOOK_BACK), -1):
            if digests[boundary] in self._known:
                return boundary
        return 0


def _prefix(request: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """The pieces of a request in the order in which they are cached, without their marks, and whether they had one."""
    system = request.get("system") or []
    pieces = [("tools", each) for each in request.get("tools") or []]
    pieces += [("system", each) for each in ([{"text": system}] if isinstance(system, str) else system)]
    for message in request.get("messages") or []:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        pieces += [(message["role"], block) for block in blocks]
    for place, piece in pieces:
        plain = {name: value for name, value in piece.items() if name != "cache_control"}
        yield [place, plain], piece.get("cache_control") is not None

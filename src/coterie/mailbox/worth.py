"""What a request is worth now. What is not its status is computed whenever somebody looks, and stored nowhere."""

from __future__ import annotations

from collections.abc import Callable

from coterie.mailbox.request import Request, RequestKind, RequestStatus, Standing
from coterie.mailbox.shelf import Shelf


class Worth:
    """Compares a request with the other requests, the current assignments and the lives that go on."""

    def __init__(
        self, shelf: Shelf, *, is_current: Callable[[str, int], bool], is_alive: Callable[[str], bool]
    ) -> None:
        self._shelf = shelf
        self._is_current = is_current
        self._is_alive = is_alive

    def standing(self, request: Request) -> Standing:
        counts = request.open or request.status is RequestStatus.APPROVED
        if counts and self.later(request) is not None:
            return Standing.SUPERSEDED
        if request.open and self.is_void(request):
            return Standing.VOID
        if request.status is RequestStatus.APPROVED and not request.soundly_approved:
            return Standing.UNSOUND
        return Standing(request.status.value)

    def waits(self, request: Request) -> bool:
        """Whether somebody can still decide on an open request."""
        return self.standing(request) not in (Standing.SUPERSEDED, Standing.VOID)

    def later(self, request: Request) -> str | None:
        """The id of the revision that took the place of this one."""
        if request.kind is RequestKind.SPLIT:
            return self._shelf.made_for(f"{request.id}/edit")
        if request.kind is RequestKind.PLAN and request.task is not None and request.epoch is not None:
            latest = self._shelf.latest_plan(request.task, request.epoch)
            return latest[1] if latest is not None and latest[0] > request.revision else None
        return None

    def is_void(self, request: Request) -> bool:
        """Whether the assignment or the life that a request belongs to is not the current one."""
        if request.task is not None and request.epoch is not None:
            return not self._is_current(request.task, request.epoch)
        if request.kind is RequestKind.SHUTDOWN:
            return request.to_instance is None or not self._is_alive(request.to_instance)
        if request.kind in (RequestKind.QUESTION, RequestKind.PERMISSION):
            return request.sender_instance is not None and not self._is_alive(request.sender_instance)
        return False  # a proposal outlives the life that made it

"""Requests and decisions: plans, shutdowns, splits, permissions and questions.

The file is the truth, mail is only the notice: `send_owed` (see `owed`) sends it, in the normal path and in recovery.
A decision is a compare-and-swap under the team's lock. Nothing but an explicit decision approves anything: no time, no
restart, no prose.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from coterie import files
from coterie.mailbox import rules
from coterie.mailbox.errors import NotYours, RequestRefused, UnknownRequest, Void
from coterie.mailbox.message import CAP
from coterie.mailbox.request import OPENING, Request, RequestKind, RequestStatus, Standing, Step, digest
from coterie.mailbox.shelf import Shelf
from coterie.mailbox.worth import Worth


class Requests:
    """The requests of one team.

    root: the team's folder. is_current: whether `(task, epoch)` is the current assignment; merging: whether a task is
    being merged; is_alive: whether the life of an instance goes on. All three are called under the team's lock.
    on_change: called after a request was made or moved: send what it owes here, or right after the call.
    report: told of every file that was set aside. settle: seconds an unreadable file is given before.
    """

    def __init__(
        self,
        root: Path,
        *,
        is_current: Callable[[str, int], bool],
        merging: Callable[[str], bool],
        is_alive: Callable[[str], bool] = lambda instance: True,
        on_change: Callable[[Request], None] = lambda request: None,
        report: Callable[[str], None] = lambda text: None,
        cap: int = CAP,
        settle: float = 2.0,
    ) -> None:
        self._lock = root / "lock"
        self._shelf = Shelf(root / "requests", report=report, settle=settle)
        self._worth = Worth(self._shelf, is_current=is_current, is_alive=is_alive)
        self._merging = merging
        self._on_change = on_change
        self._cap = cap

    # --- asking --------------------------------------------------------------------------------------------------

    def submit_plan(
        self,
        *,
        sender: str,
        sender_instance: str,
        to: str,
        task: str,
        epoch: int,
        text: str,
        made_by: str | None = None,
    ) -> Request:
        """The next revision of the plan for an assignment; earlier ones are superseded by it.

        to: lead or human. Raises `Void` where the assignment is not the current one. As everywhere, a key `made_by`
        that was used before returns the first result.
        """
        if to not in ("lead", "human"):
            raise RequestRefused(f"a plan goes to the lead or the human, not to {files.clean(to, 40)!r}")
        return self._ask(
            RequestKind.PLAN,
            text=text,
            made_by=made_by,
            sender=sender,
            sender_instance=sender_instance,
            to=to,
            task=task,
            epoch=epoch,
        )

    def propose_split(
        self, *, sender: str, sender_instance: str | None, to: str, text: str, made_by: str | None = None
    ) -> Request:
        """Tasks that shall not be claimed before somebody approves of them; `text` is their graph."""
        return self._ask(
            RequestKind.SPLIT, text=text, made_by=made_by, sender=sender, sender_instance=sender_instance, to=to
        )

    def revise_split(self, identifier: str, *, by: str, text: str) -> Request:
        """The person's own version of a split: a new revision whose sender stays, the editor in its history."""
        if by != "human":
            raise NotYours(f"only the human may edit a split; {by} may approve it, reject it or propose another")
        key = f"{identifier}/edit"
        with files.locked(self._lock):
            earlier = self._shelf.made_for(key)
            if earlier is not None and self._shelf.take(earlier).digest == digest(rules.checked_text(text, self._cap)):
                return self._shelf.take(earlier)
            old = self._shelf.take(identifier)
            if old.kind is not RequestKind.SPLIT:
                raise RequestRefused(f"{identifier} is a {old.kind}: only a split can be edited", old)
            rules.refuse_stale(old, self.standing(old), self._worth.later(old))
            rules.refuse_decided(old)
            return self._ask(
                RequestKind.SPLIT,
                text=text,
                made_by=key,
                by=by,
                reason=f"edited {identifier}",
                sender=old.sender,
                sender_instance=old.sender_instance,
                to=old.to,
                revision=old.revision + 1,
            )

    def ask_permission(
        self,
        *,
        sender: str,
        sender_instance: str,
        to: str,
        text: str,
        deadline_s: float,
        task: str | None = None,
        epoch: int | None = None,
        reason: str = "",
        made_by: str | None = None,
    ) -> Request:
        """Leave to do one thing. After `deadline_s` seconds the asking host calls `let_lapse`: silence means no."""
        return self._ask(
            RequestKind.PERMISSION,
            text=text,
            made_by=made_by,
            sender=sender,
            sender_instance=sender_instance,
            to=to,
            task=task,
            epoch=epoch,
            deadline_s=rules.checked_deadline(deadline_s),
            reason=reason,
        )

    def ask_question(
        self,
        *,
        sender: str,
        sender_instance: str,
        text: str,
        to: str = "human",
        task: str | None = None,
        epoch: int | None = None,
        made_by: str | None = None,
    ) -> Request:
        """A question; it waits for as long as it takes."""
        return self._ask(
            RequestKind.QUESTION,
            text=text,
            made_by=made_by,
            sender=sender,
            sender_instance=sender_instance,
            to=to,
            task=task,
            epoch=epoch,
        )

    def ask_shutdown(
        self,
        *,
        sender: str,
        sender_instance: str | None,
        to: str,
        to_instance: str,
        reason: str = "",
        deadline_s: float = 60.0,
        made_by: str | None = None,
    ) -> Request:
        """That one life ends. Only lead and human may ask, and only a teammate can be asked."""
        if sender not in ("lead", "human"):
            raise RequestRefused(f"{sender} may not ask for a shutdown: only the lead and the human may")
        if to in files.RESERVED:
            raise RequestRefused(f"{to} cannot be shut down by request: it ends with the run")
        if to_instance.partition("#")[0] != to:
            raise RequestRefused(
                f"expected an instance of {to}, such as {to}#1, found {files.clean(to_instance, 40)!r}"
            )
        return self._ask(
            RequestKind.SHUTDOWN,
            text=reason,
            made_by=made_by,
            sender=sender,
            sender_instance=sender_instance,
            to=to,
            to_instance=to_instance,
            deadline_s=rules.checked_deadline(deadline_s),
        )

    # --- deciding ------------------------------------------------------------------------------------------------

    def decide(
        self,
        identifier: str,
        *,
        by: str,
        by_instance: str | None,
        approve: bool,
        feedback: str = "",
        made_by: str | None = None,
    ) -> Request:
        """Approve or reject a plan, a split or a permission. The first decision counts.

        Raises `UnknownRequest`, `Superseded`, `Void`, `AlreadyDecided`, `NotYours`, or their base `RequestRefused`;
        the `request` of an error carries what is recorded. The human may reject what was approved, as long as the task
        is not being merged.
        """
        after = RequestStatus.APPROVED if approve else RequestStatus.REJECTED
        kinds = (RequestKind.PLAN, RequestKind.SPLIT, RequestKind.PERMISSION)
        return self._move(identifier, kinds, after, by=by, by_instance=by_instance, text=feedback, made_by=made_by)

    def answer(
        self, identifier: str, *, by: str, text: str, by_instance: str | None = None, made_by: str | None = None
    ) -> Request:
        """Answer a question: whom it was put to, or the human."""
        if not text.strip():
            raise RequestRefused("the answer is empty: say something")
        kinds = (RequestKind.QUESTION,)
        after = RequestStatus.ANSWERED
        return self._move(identifier, kinds, after, by=by, by_instance=by_instance, text=text, made_by=made_by)

    def settle_shutdown(
        self,
        identifier: str,
        *,
        status: RequestStatus,
        by: str,
        by_instance: str | None = None,
        reason: str = "",
        made_by: str | None = None,
    ) -> Request:
        """Acknowledged (by the life that is asked, or the runtime), declined (by it alone), forced (by the runtime)."""
        kinds = (RequestKind.SHUTDOWN,)
        return self._move(identifier, kinds, status, by=by, by_instance=by_instance, text=reason, made_by=made_by)

    def let_lapse(
        self,
        identifier: str,
        *,
        reason: str = "nobody answered in time, which means no",
        made_by: str | None = None,
    ) -> Request:
        """Reject a permission that nobody answered in time, or that nobody waits for any more."""
        return self._move(
            identifier,
            (RequestKind.PERMISSION,),
            RequestStatus.REJECTED,
            by="runtime",
            by_instance=None,
            text=reason,
            made_by=made_by,
        )

    # --- looking: no lock ----------------------------------------------------------------------------------------

    def get(self, identifier: str) -> Request:
        """A request from its file. Raises `UnknownRequest`, `files.Unreadable`."""
        return self._shelf.read(identifier)

    def all(self) -> list[Request]:
        """Every request that can be read, in the order of the ids."""
        return self._shelf.all()

    def made_for(self, key: str) -> Request | None:
        """The request that was made by the call of this key; None if there is none, or its file cannot be read."""
        return self._shelf.find(self._shelf.made_for(key))

    def standing(self, request: Request) -> Standing:
        """What a request is worth now. One that was rejected stays so; only what could still count is superseded."""
        return self._worth.standing(request)

    def open_for(self, name: str) -> list[Request]:
        """What waits for the decision of `name`, oldest first."""
        return [each for each in self.all() if each.to == name and each.open and self._worth.waits(each)]

    def plan_of(self, task: str, epoch: int) -> Request | None:
        """The latest revision of an assignment's plan; None also where its file cannot be read: the gate stays shut."""
        found = self._shelf.latest_plan(task, epoch)
        request = self._shelf.find(found[1]) if found is not None else None
        if request is None or request.kind is not RequestKind.PLAN or (request.task, request.epoch) != (task, epoch):
            return None
        return request

    def plan_approved(self, task: str, epoch: int) -> bool:
        """Whether the latest revision is approved, by somebody who may, on exactly the text it has now."""
        request = self.plan_of(task, epoch)
        return request is not None and request.soundly_approved

    # --- recovery ------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Set aside what cannot be read, and what went back behind a `rev` that was seen."""
        for identifier in self._shelf.unsound():
            self._set_aside(identifier)

    def sweep(self) -> None:
        """The same now and then while a host runs: it waits for no file to settle, and looks again instead."""
        for identifier in self._shelf.overdue():
            self._set_aside(identifier)

    def holding(self) -> AbstractContextManager[None]:
        """The team's lock: while it is held, no request is made or moved by anybody else."""
        return files.locked(self._lock)

    # --- inside --------------------------------------------------------------------------------------------------

    def _set_aside(self, identifier: str) -> None:
        with suppress(UnknownRequest):
            with files.locked(self._lock):
                request = self._shelf.take(identifier)
            self._on_change(request)

    def _ask(
        self,
        kind: RequestKind,
        *,
        text: str,
        made_by: str | None,
        sender: str,
        to: str,
        by: str | None = None,
        reason: str = "",
        **fields: Any,
    ) -> Request:
        files.check_name(sender, reserved=True)
        files.check_name(to, reserved=True)
        if sender == to:
            raise RequestRefused("nobody decides on their own request: address it to somebody else")
        if not text.strip() and kind is not RequestKind.SHUTDOWN:
            raise RequestRefused(f"the text of the {kind} is empty: say what is to be decided on")
        text = files.redacted(rules.checked_text(text, self._cap))  # before its sum is taken: so it will lie on disk
        with files.locked(self._lock):
            if made_by is not None and (earlier := self._shelf.made_for(made_by)) is not None:
                return self._shelf.take(earlier)
            at = files.now()
            if kind is RequestKind.PLAN:
                latest = self._shelf.latest_plan(fields["task"], fields["epoch"])
                fields["revision"] = (latest[0] if latest else 0) + 1
            opening = Step(at=at, before=None, after=OPENING[kind], by=by or sender, reason=reason, made_by=made_by)
            request = Request(
                id=self._shelf.next_id(),
                kind=kind,
                sender=sender,
                to=to,
                digest=digest(text),
                text=text,
                status=OPENING[kind],
                made_by=made_by,
                history=(opening,),
                **fields,
            )
            if self._worth.is_void(request):
                raise Void(rules.void(request))
            self._shelf.save(request)
        self._on_change(request)
        return request

    def _move(
        self,
        identifier: str,
        kinds: tuple[RequestKind, ...],
        after: RequestStatus,
        *,
        by: str,
        by_instance: str | None,
        text: str,
        made_by: str | None,
    ) -> Request:
        files.check_name(by, reserved=True)
        rules.checked_text(text, self._cap)
        self._shelf.let_settle(identifier)
        with files.locked(self._lock):
            request = self._shelf.take(identifier)
            if made_by is not None and any(step.made_by == made_by for step in request.history):
                return request
            rules.refuse_wrong_kind(request, kinds)
            parts = rules.parts_of(request, by, by_instance)
            rules.refuse_stale(request, self.standing(request), self._worth.later(request))
            rules.refuse_move(request, after, parts)
            if request.status is RequestStatus.APPROVED:
                self._refuse_late_revocation(request)
            moved = request.moved(after, by=by, instance=by_instance, text=files.redacted(text), made_by=made_by)
            self._shelf.save(moved, as_is=True)
        self._on_change(moved)
        return moved

    def _refuse_late_revocation(self, request: Request) -> None:
        if self._worth.is_void(request):
            raise Void(rules.void(request), request)
        if request.task is not None and self._merging(request.task):
            raise RequestRefused(f"{request.task} is being merged: use undo", request)

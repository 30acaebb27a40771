"""Maildir for a team: `mail/<member>/{tmp,new,cur,bad}/`, one message a file.

A message is in exactly one of the four folders. `new` waits, `cur` has a record in the recipient's journal (delivered,
or undelivered), `bad` could not be read. Nothing is deleted.

Promised: a message that `send` returned survives kill -9 and power loss, reaches the life it was sent to exactly once,
and no other; messages of one sender arrive in the order they were sent, whatever the clock does. Not promised: an order
between senders that do not know of one another.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coterie import files
from coterie.errors import NewerSchema
from coterie.mailbox.errors import MailRefused, RecipientGone, TooLong, UnknownRecipient
from coterie.mailbox.ledger import Ledger
from coterie.mailbox.message import CAP, Body, Event, Message, Note, encode, parse, stamp

Place = Literal["new", "cur"]
FOLDERS = ("tmp", "new", "cur", "bad")
ROOM = 256 * 1024  # characters of text that one turn takes in; what is over waits for the next


@dataclass(frozen=True)
class Recipient:
    """What the team knows of a member: its latest life (`ada#2`), and whether that life can still read mail.

    A life that crashed and can be resumed is alive; one that was stopped or failed is not.
    """

    instance: str
    alive: bool


class Mailbox:
    """The mail of one team.

    root: the team's folder; its `lock` is taken by everything that moves a file.
    recipient: a member's latest life, None for a name that never was a member. Called under the lock.
    on_send: called once a new message lies in its box: ring the bell here. It must not block, since a caller that
    sends from within the team's lock still holds it.
    report: told of every file that was set aside.
    cap: bytes of one message's text. settle: seconds an unreadable file is given before it is set aside.
    """

    def __init__(
        self,
        root: Path,
        *,
        recipient: Callable[[str], Recipient | None],
        on_send: Callable[[Message], None] = lambda message: None,
        report: Callable[[str], None] = lambda text: None,
        cap: int = CAP,
        settle: float = 2.0,
    ) -> None:
        self._mail = root / "mail"
        self._lock = root / "lock"
        self._recipient = recipient
        self._on_send = on_send
        self._report = report
        self._cap = cap
        self._settle = settle
        self._ledgers: dict[str, Ledger] = {}

    # --- sending -------------------------------------------------------------------------------------------------

    def send(
        self,
        body: Body,
        *,
        sender: str,
        sender_instance: str | None,
        to: str,
        to_instance: str | None = None,
        in_reply_to: str | None = None,
        urgent: bool = False,
        made_by: str | None = None,
    ) -> Message:
        """Put a message into a box and return it as it lies there.

        made_by: where a message of this key is in the box already, that one is returned and nothing is sent.
        to_instance: the life it is for; without it, the recipient's present one. No namesake ever receives it.
        Raises `UnknownRecipient`, `RecipientGone`, `TooLong`, `MailRefused`; each text is for the sender.
        """
        files.check_name(sender, reserved=True)
        files.check_name(to, reserved=True)
        self._check_content(body, sender, urgent)
        with files.locked(self._lock):
            ledger = self._ledgers.setdefault(to, Ledger(self._box(to)))
            ledger.catch_up()
            if made_by is not None and (earlier := self._sent_for(to, ledger.find(made_by))) is not None:
                return earlier
            life = self._life_of(to, to_instance)
            for folder in FOLDERS:
                files.make_folder(self._box(to) / folder)
            seq = self._free_seq(to, ledger)
            message = stamp(
                body,
                id=f"{seq:010d}-{to}",
                sender=sender,
                sender_instance=sender_instance,
                to=to,
                to_instance=life,
                sent_at=files.now(),
                seq=seq,
                in_reply_to=in_reply_to,
                urgent=urgent,
                made_by=made_by,
            )
            data = encode(message)
            ledger.add(message.seq, message.id, made_by)
            name = f"{message.id}.json"
            files.deliver(self._box(to) / "tmp" / name, self._box(to) / "new" / name, data)
        self._on_send(message)
        return message

    def _check_content(self, body: Body, sender: str, urgent: bool) -> None:
        if urgent and sender not in ("lead", "human"):
            raise MailRefused(f"{sender} may not send urgent mail: only the lead and the human may. Send it plainly")
        try:
            size = len(body.text.encode())
            rest = len(body.model_dump_json(exclude={"text"}).encode())
        except ValueError:  # half a surrogate pair, which no file can hold
            raise MailRefused("the text is not valid Unicode: write it again without broken characters") from None
        if isinstance(body, Note) and not body.text.strip():
            raise MailRefused("the message is empty: say something")
        if size > self._cap or rest > self._cap:
            raise TooLong(
                f"the message is too long: at most {self._cap} bytes, found {max(size, rest)}. "
                "Shorten it, or name a file that the recipient can read"
            )

    def _life_of(self, to: str, wanted: str | None) -> str | None:
        if to == "human":
            return wanted
        found = self._recipient(to)
        if found is None:
            if to == "lead":  # it may not have begun yet; its box is there for its first turn
                return wanted
            raise UnknownRecipient(f"nobody is called {to!r} in this team", see="team")
        if not found.alive:
            raise RecipientGone(f"{found.instance} has stopped and reads no more mail: nothing was sent")
        if wanted is not None and wanted != found.instance:
            raise RecipientGone(f"{wanted} is gone, {to} is now {found.instance}: nothing was sent")
        return found.instance

    def _sent_for(self, to: str, identifier: str | None) -> Message | None:
        """The message of that id if it is whole. One that lies in `bad` may be sent again: nobody has read it."""
        for place in ("new", "cur") if identifier is not None else ():
            path = self._box(to) / place / f"{identifier}.json"
            try:
                return parse(files.read_json(path), path)
            except (files.Unreadable, FileNotFoundError):
                continue
        return None

    def _free_seq(self, to: str, ledger: Ledger) -> int:
        """The next number. A file that has it already means that the ledger is not the one it was."""
        seq = ledger.next_seq()
        box, name = self._box(to), f"{seq:010d}-{to}.json"
        if any((box / folder / name).exists() for folder in FOLDERS):
            ledger.read_again()
        return ledger.next_seq()

    # --- looking: no lock, nothing is moved ----------------------------------------------------------------------

    def has_mail(self, name: str) -> bool:
        """Whether something lies in `new`. Cheap enough to ask at every turn."""
        return bool(self._new(name, first_only=True))

    def has_urgent(self, name: str) -> bool:
        """Whether something in `new` should end a running tool, so that the boundary comes now."""
        return any(message.urgent for message in self.waiting(name))

    def waiting(self, name: str) -> list[Message]:
        """What lies in `new`, in order. What cannot be read is reported and left where it is."""
        return [message for place, message in self.history(name, places=("new",))]

    def history(self, name: str, *, places: Iterable[Place] = ("cur", "new")) -> list[tuple[Place, Message]]:
        """Every readable message of a box with the folder it is in, in order."""
        found: list[tuple[Place, Message]] = []
        for place in places:
            for path in self._listed(name, place):
                try:
                    found.append((place, parse(files.read_json(path), path)))
                except FileNotFoundError:
                    continue  # it was moved on meanwhile
                except (files.Unreadable, NewerSchema) as error:
                    self._report(str(error))
        return sorted(found, key=lambda each: each[1].seq)

    # --- receiving -----------------------------------------------------------------------------------------------

    def receive(
        self,
        name: str,
        *,
        instance: str | None,
        seen: Callable[[str], bool],
        journal: Callable[[list[Message]], None],
        journal_undelivered: Callable[[list[Message]], None],
        room: int = ROOM,
    ) -> list[Message]:
        """Take the waiting mail of a life, at its turn boundary, and return it in order.

        seen: whether the recipient's journal has a record of a message id, delivered or undelivered.
        journal: called at most once, with everything that is new; it must be durable when it returns. After a crash
        between that and the move, `seen` finds the ids, and the files are only moved. If it raises, nothing is moved.
        journal_undelivered: as `journal`, for mail that was meant for another life; its senders have been told.
        room: characters of text taken in at once (one message always is); `has_mail` stays true for the rest.
        """
        if not self.has_mail(name):
            return []
        read = self._read(name, room)
        with files.locked(self._lock):
            still = {path.name for path in self._new(name)}
            read = [each for each in read if each.path.name in still]
            fresh = [each.message for each in read if each.message is not None and not seen(each.message.id)]
            mine = [message for message in fresh if message.to_instance in (None, instance)]
            strange = [message for message in fresh if message.to_instance not in (None, instance)]
            self._give_up_on(strange, journal_undelivered)
            if mine:
                journal(mine)
            said = self._put_away(name, read)
        for text in said:
            self._report(text)
        return mine

    def end_of_life(
        self,
        name: str,
        *,
        instance: str,
        seen: Callable[[str], bool],
        journal_undelivered: Callable[[list[Message]], None],
    ) -> list[Message]:
        """Clear the box of a life that has ended and return what it never read. Safe to run again after a crash.

        To be called after the life's end is on disk (`send` refuses from then on) and before a namesake begins. The
        senders that still live get an event; then the ids are journaled once; then the files are moved.
        """
        read = self._read(name, room=None)
        with files.locked(self._lock):
            # Under the lock nothing comes or goes: leave out what was received meanwhile, add what came in.
            still = {path.name for path in self._new(name)}
            read = [each for each in read if each.path.name in still]
            late = still - {each.path.name for each in read}
            read += [self._read_one(self._box(name) / "new" / each) for each in sorted(late)]
            read = [each for each in read if each.message is None or not _later(each.message.to_instance, instance)]
            lost = [each.message for each in read if each.message is not None and not seen(each.message.id)]
            self._give_up_on(lost, journal_undelivered)
            said = self._put_away(name, read)
        for text in said:
            self._report(text)
        return lost

    def heal(self, name: str) -> list[Path]:
        """Remove what a killed `send` left in `tmp`, and say what. Every send holds the lock: under it all are dead."""
        with files.locked(self._lock):
            left = [path for path in self._listed(name, "tmp") if not path.is_dir() or path.is_symlink()]
            for path in left:
                files.remove(path)
        return left

    def put_away(self, name: str, *, seen: Callable[[str], bool]) -> list[str]:
        """Move what the journal has (see `receive`) out of `new`; answers these ids. Safe to run again."""
        read = [each for each in self._read(name, room=None) if each.message is not None and seen(each.message.id)]
        with files.locked(self._lock):
            still = {path.name for path in self._new(name)}
            read = [each for each in read if each.path.name in still]
            said = self._put_away(name, read)
        for text in said:
            self._report(text)
        return [each.message.id for each in read if each.message is not None]

    def names(self) -> list[str]:
        """Everybody who has a box."""
        if not self._mail.is_dir():
            return []
        return sorted(path.name for path in self._mail.iterdir() if path.is_dir() and not path.name.startswith("."))

    # --- inside --------------------------------------------------------------------------------------------------

    def _box(self, name: str) -> Path:
        return self._mail / files.check_name(name, reserved=True)

    def _new(self, name: str, *, first_only: bool = False) -> list[Path]:
        return self._listed(name, "new", first_only=first_only)

    def _listed(self, name: str, folder: str, *, first_only: bool = False) -> list[Path]:
        """The files of a folder in order. Names with a leading dot are an editor's, not ours."""
        found = []
        try:
            for path in (self._box(name) / folder).iterdir():
                if not path.name.startswith("."):
                    found.append(path)
                    if first_only:
                        break
        except FileNotFoundError:
            return []
        return sorted(found)

    def _read(self, name: str, room: int | None) -> list[_Read]:
        """The front of `new` that fits into `room`. All that is unreadable is given `settle` seconds together."""
        found: list[_Read] = []
        size = 0
        end: float | None = None
        for path in self._new(name):
            each = self._read_one(path)
            if each.fault is not None and not each.gone:
                end = end if end is not None else time.monotonic() + self._settle
                each = self._read_one(path, settle=max(0.0, end - time.monotonic()))
            if each.gone:
                continue
            size += each.size
            if room is not None and found and size > room:
                break
            found.append(each)
        return found

    def _read_one(self, path: Path, settle: float = 0.0) -> _Read:
        try:
            message = parse(files.read_json(path, settle=settle), path)
            return _Read(path, message, None)
        except FileNotFoundError:
            return _Read(path, None, None, gone=True)
        except files.Unreadable as error:
            return _Read(path, None, str(error))

    def _give_up_on(self, messages: list[Message], journal_undelivered: Callable[[list[Message]], None]) -> None:
        """Tell the senders, then journal: after a crash in between, telling them again is a no-op by its key."""
        if not messages:
            return
        for message in messages:
            if message.sender in ("queue", "runtime") or message.sender == message.to:
                continue
            text = f"{message.to_instance or message.to} ended before it read your message {message.id}."
            try:
                self.send(
                    Event(text=text, event="undelivered"),
                    sender="runtime",
                    sender_instance=None,
                    to=message.sender,
                    to_instance=message.sender_instance if message.sender != "human" else None,
                    in_reply_to=message.id,
                    made_by=f"{message.id}/undelivered",
                )
            except MailRefused:
                continue  # that life has ended too: nobody is left to tell
        journal_undelivered(messages)

    def _put_away(self, name: str, read: Iterable[_Read]) -> list[str]:
        """Move what was read to `cur`, and what could not be read to `bad`; says what was set aside."""
        said = []
        for each in read:
            final = self._box(name) / "cur" / each.path.name
            if each.gone:
                continue
            if each.message is not None and not final.exists():
                files.move(each.path, final)
                continue
            where = self._free_in_bad(name, each.path.name)
            files.move(each.path, where)
            why = each.fault or f"{each.path}: this message was received before"
            said.append(f"{why}. It was set aside as {where}; the other mail is not affected")
        return said

    def _free_in_bad(self, name: str, file: str) -> Path:
        folder = files.make_folder(self._box(name) / "bad")
        return next(
            path
            for number in itertools.count()
            if not (path := folder / (file if not number else f"{file}.{number}")).exists() and not path.is_symlink()
        )


@dataclass(frozen=True)
class _Read:
    """A file of `new`: its message, or why there is none, or that it was moved on meanwhile."""

    path: Path
    message: Message | None
    fault: str | None
    gone: bool = False

    @property
    def size(self) -> int:
        return len(self.message.body.text) if self.message is not None else 0


def _later(instance: str | None, than: str) -> bool:
    """Whether a message is for a later life of the same name."""
    return instance is not None and int(instance.partition("#")[2] or 0) > int(than.partition("#")[2] or 0)

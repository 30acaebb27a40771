"""The files of the requests: `requests/R1.json` …, read strictly, and what this process remembers of them.

The file decides. What is remembered only says which file to read: who made which request, and which is the latest plan
of an assignment. It also holds the highest `rev` seen, so that a file which goes back behind it is noticed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from coterie import files
from coterie.errors import NewerSchema
from coterie.mailbox.errors import UnknownRequest
from coterie.mailbox.request import Request, RequestKind, encode, parse

_FILE = re.compile(r"(R[1-9][0-9]{0,11})\.json")
_ANY_ID = re.compile(r"R([1-9][0-9]{0,11})\.json(?:\.[0-9]+)?")


class Shelf:
    """All requests of a team. What changes a file is called under the team's lock, what reads needs none."""

    def __init__(self, folder: Path, *, report: Callable[[str], None], settle: float) -> None:
        self._folder = folder
        self._report = report
        self._settle = settle
        self._guard = threading.RLock()
        self._seen: dict[str, Request] = {}
        self._keys: dict[str, str] = {}
        self._plans: dict[tuple[str, int], tuple[int, str]] = {}
        self._missed: dict[str, float] = {}  # files that could not be used, and since when (monotonic)

    # --- reading -------------------------------------------------------------------------------------------------

    def read(self, identifier: str) -> Request:
        """A request from its file. Where that lies behind what was seen, what was seen: nobody writes backwards.

        Raises `UnknownRequest`, `files.Unreadable`, `NewerSchema`.
        """
        path = self._path(identifier)
        try:
            for _ in range(2):  # the first look may have been overtaken by a write
                request = parse(files.read_json(path), path)
                if self._remember(request):
                    return request
        except FileNotFoundError:
            raise UnknownRequest(f"there is no request {identifier}", see="inbox") from None
        with self._guard:
            return self._seen[identifier]

    def find(self, identifier: str | None) -> Request | None:
        """The same; None where there is no such request, or its file cannot be read."""
        try:
            return self.read(identifier) if identifier is not None else None
        except (files.Unreadable, UnknownRequest):
            return None

    def all(self) -> list[Request]:
        """Every readable request in the order of the ids; what is not readable is reported and left alone."""
        found = []
        for identifier in self._listed():
            try:
                found.append(self.read(identifier))
            except UnknownRequest:
                continue
            except (files.Unreadable, NewerSchema) as error:
                self._report(str(error))
        return found

    def made_for(self, key: str) -> str | None:
        """The id of the request that was made for `key`."""
        self._catch_up()
        with self._guard:
            return self._keys.get(key)

    def latest_plan(self, task: str, epoch: int) -> tuple[int, str] | None:
        """Revision and id of the latest plan of an assignment."""
        self._catch_up()
        with self._guard:
            return self._plans.get((task, epoch))

    # --- changing: under the team's lock -------------------------------------------------------------------------

    def let_settle(self, identifier: str) -> None:
        """Give an unreadable file its time, before the lock is taken."""
        path = self._path(identifier)
        try:
            parse(files.read_json(path, settle=self._settle), path)
        except (files.Unreadable, FileNotFoundError):
            return

    def take(self, identifier: str) -> Request:
        """A request that is about to be changed. A file that is unreadable or behind is set aside and said."""
        path = self._path(identifier)
        try:
            request = parse(files.read_json(path), path)
            if self._remember(request):
                return request
            fault = f"{path}: expected a rev of at least {self._seen[identifier].rev}, found {request.rev}"
        except FileNotFoundError:
            raise UnknownRequest(f"there is no request {identifier}", see="inbox") from None
        except files.Unreadable as error:
            fault = str(error)
        return self._restore(identifier, fault)

    def save(self, request: Request, *, as_is: bool = False) -> None:
        """Store it. as_is: its text lies on disk already, and a decision is on exactly that: nothing is taken out."""
        files.make_folder(self._folder)
        files.write_bytes(self._path(request.id), encode(request), as_is=as_is)
        self._remember(request)

    def next_id(self) -> str:
        """An id that was never used, also not by a file that was set aside."""
        numbers = [0]
        for folder in (self._folder, self._folder / "bad"):
            if folder.is_dir():
                matches = (_ANY_ID.fullmatch(path.name) for path in folder.iterdir())
                numbers += [int(match[1]) for match in matches if match]
        with self._guard:
            numbers += [int(identifier[1:]) for identifier in self._seen]
        return f"R{max(numbers) + 1}"

    def unsound(self) -> list[str]:
        """The ids of files that cannot be used, each after its time to settle. To be set aside by `take`."""
        found = []
        for identifier in self._listed():
            self.let_settle(identifier)
            if not self._is_sound(identifier):
                found.append(identifier)
        return found

    def overdue(self) -> list[str]:
        """As `unsound`, for who looks now and then and never waits: those that were so for all their time to settle."""
        now = time.monotonic()
        found = [identifier for identifier in self._listed() if not self._is_sound(identifier)]
        self._missed = {identifier: self._missed.get(identifier, now) for identifier in found}
        return [identifier for identifier, since in self._missed.items() if now - since >= self._settle]

    # --- inside --------------------------------------------------------------------------------------------------

    def _is_sound(self, identifier: str) -> bool:
        """Whether its file can be used. One that was removed is nobody's to repair, nor is that of a newer version."""
        path = self._path(identifier)
        try:
            return self._remember(parse(files.read_json(path), path))
        except (FileNotFoundError, NewerSchema):
            return True
        except files.Unreadable:
            return False

    def _path(self, identifier: str) -> Path:
        if not isinstance(identifier, str) or not _FILE.fullmatch(f"{identifier}.json"):
            shown = files.clean(str(identifier), 40)
            raise UnknownRequest(f"not the id of a request: {shown!r}. Expected R and a number, such as R4")
        return self._folder / f"{identifier}.json"

    def _listed(self) -> list[str]:
        try:
            matches = [_FILE.fullmatch(path.name) for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted((match[1] for match in matches if match), key=lambda identifier: int(identifier[1:]))

    def _catch_up(self) -> None:
        """Read what this process has not seen yet. What cannot be read is looked at again next time."""
        with self._guard:
            for identifier in self._listed():
                if identifier not in self._seen:
                    try:
                        self.read(identifier)
                    except (files.Unreadable, UnknownRequest):
                        continue

    def _remember(self, request: Request) -> bool:
        """False where a higher `rev` was seen before."""
        with self._guard:
            earlier = self._seen.get(request.id)
            if earlier is not None and earlier.rev > request.rev:
                return False
            self._seen[request.id] = request
            if request.made_by is not None:
                self._keys.setdefault(request.made_by, request.id)
            if request.kind is RequestKind.PLAN and request.task is not None and request.epoch is not None:
                assignment = (request.task, request.epoch)
                mine = (request.revision, request.id)
                self._plans[assignment] = max(self._plans.get(assignment, mine), mine, key=lambda each: each[0])
            return True

    def _restore(self, identifier: str, fault: str) -> Request:
        with self._guard:
            last = self._seen.get(identifier)
        aside = files.set_aside(self._path(identifier), stays=last is not None)
        if last is None:
            self._report(f"{fault}. It was set aside as {aside}; the other requests are not affected")
            raise UnknownRequest(f"{identifier} could not be read and was set aside as {aside}: ask for it again")
        files.write_bytes(self._path(identifier), encode(last))
        self._report(f"{fault}. It was set aside as {aside}, and the last content was put back")
        return last

"""Every operation is killed at each of its points; whoever comes next ends where an undisturbed run ends."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.crash.place import Place
from tests.crash.points import Acknowledge, Died, Life, forked, live, ordered

from coterie.lead.audit import Fault, audit
from coterie.lead.host import forget_process
from coterie.lead.recovery import recover
from coterie.teammates.team import Team

BEGINNING = "beginning"
SHARE = 0.1  # of the operations whose restart is killed too
Act = Callable[[Team, Acknowledge], None]


@dataclass(frozen=True)
class Operation:
    """Something that a process does in a team's folder, with the keys that make it the same thing when done again."""

    name: str
    start: str  # the kept place that it begins from
    act: Act  # in the process that dies
    finish: Act | None = None  # after the restart, and after an undisturbed run; where there is none, `act` again
    before: Act | None = None  # brings the place to where it begins
    sampled: int | None = None  # so long that only so many of its points are tried, unless all are wanted
    abandoned: bool = False  # nobody makes it again, as with a command of a terminal: it is there whole or not at all
    beside: bool = False  # also: a process that ran all the while goes on with it, without any restart
    fewest: int = 4  # points, below which the watch does not see it

    def go_on(self, team: Team, say: Acknowledge = lambda key: None) -> list[Fault]:
        """What a restart does after its recovery, and what is wrong then.

        A call is made again, and at the next start all is at rest.
        """
        if self.finish is not None:
            self.finish(team, say)
            forget_process(team.root, team.process)
            return audit(team.root, team)
        if not self.abandoned:
            self.act(team, say)
        forget_process(team.root, team.process)  # as a host does that ends in order
        return recover(team)


@dataclass
class Outcome:
    """What was tried."""

    kills: int = 0
    states: int = 0  # states on disk that differ, from each of which it was started again
    faults: list[str] = field(default_factory=list)


class Trial:
    """Operations on one place. `teams`: opened by this process, nothing read yet, so that each child has them fresh:
    for the process that dies, for the one after it, and for the one after that where the restart dies too."""

    def __init__(
        self, place: Place, teams: Sequence[Team], *, seed: int = 1, sample: int | None = 3, every: bool = False
    ) -> None:
        self.place = place
        self.team, self.next, self.last = teams
        self.chance = random.Random(seed)
        self.untouched: Any = None
        self.tried: set[str] = set()  # states that a killed restart left, and from which another one came to the end
        self.recovered: set[str] = set()  # states after a recovery, of one operation, from which it came to its end
        self.every = every or sample is None  # point of an operation, also of those that are sampled
        self.sample = sample  # points of a restart that are tried for each operation; None: all of them

    def every_point(self, operation: Operation) -> Outcome:
        """Kill it everywhere, look after each kill. The first fault ends it."""
        outcome = Outcome()
        self.recovered.clear()
        self.tried.clear()
        try:
            self.place.put_back(operation.start)
            if operation.before is not None:
                forked(lambda: operation.before(self.team, lambda key: None))  # type: ignore[misc]
            self.place.keep(BEGINNING)
            wrong = ordered(lambda say: operation.act(self.team, say), self.place.folder)
            if wrong:
                raise AssertionError("\n".join(wrong))
            self.place.put_back(BEGINNING)
            self.untouched = forked(self._untouched) if operation.abandoned else None
            self.place.put_back(BEGINNING)
            expected = forked(lambda: self._undisturbed(operation))
            found: dict[str, set[str]] = {}  # state on disk -> the keys that a restart finds in it
            states: list[tuple[int, bool]] = []  # the kill that came to each
            for torn in (False, True):
                points = self._kill_everywhere(operation, torn, expected, found, states, outcome)
                if not torn and points < operation.fewest:
                    raise AssertionError(f"only {points} points were seen: the watch does not see them")
            outcome.states = len(found)
            self._kill_restarts(operation, expected, states, outcome)
        except (AssertionError, Died) as error:
            outcome.faults.append(f"{operation.name}: {error}")
        return outcome

    # ------------------------------------------------------------ one operation

    def _undisturbed(self, operation: Operation) -> Any:
        operation.act(self.team, lambda key: None)
        recover(self.next)  # as after a death right behind it
        if operation.finish is not None:
            operation.go_on(self.next)
        return self.place.end()

    def _untouched(self) -> Any:
        recover(self.next)
        return self.place.end()

    def _kill_everywhere(
        self,
        operation: Operation,
        torn: bool,
        expected: Any,
        found: dict[str, set[str]],
        states: list[tuple[int, bool]],
        outcome: Outcome,
    ) -> int:
        points: Iterable[int] = itertools.count(1)
        count = 0
        if operation.sampled is not None and not self.every:
            self.place.put_back(BEGINNING)
            count = self._killed(operation, 0, torn).count
            some = min(1 if torn else operation.sampled, count)
            points = [*sorted(self.chance.sample(range(1, count + 1), some)), count + 1]
        for at in points:
            self.place.put_back(BEGINNING)
            life = self._killed(operation, at, torn)
            if not life.killed:
                return at - 1
            outcome.kills += 1
            where = f"killed {'in the middle of append' if torn else 'before change'} {at}"
            state = self.place.fingerprint()
            if state not in found:
                states.append((at, torn))
                found[state] = self._go_on(operation, expected, where)
                if operation.beside:
                    self.place.put_back(BEGINNING)
                    forked(partial(self._beside, operation, at, torn, expected, where))
            missing = set(life.acknowledged) - found[state]
            if missing:
                raise AssertionError(f"{where}: acknowledged, but not there after the restart: {sorted(missing)}")
        return count  # more changes than in the count, as where a program's end is seen earlier or later

    def _killed(self, operation: Operation, at: int, torn: bool) -> Life:
        return live(
            lambda say: operation.act(self.team, say), self.place.folder, at=at, torn=torn, every=self.sample is None
        )

    def _go_on(self, operation: Operation, expected: Any, where: str, team: Team | None = None) -> set[str]:
        """Restart: recover, look, carry it to its end, look again. Answers the keys that were there."""
        try:
            keys, state = forked(lambda: self._restart(operation, expected, team or self.next))
        except Died as error:
            raise AssertionError(f"{where}: {error}") from None
        self.recovered.add(state)
        return set(keys)

    def _restart(self, operation: Operation, expected: Any, team: Team) -> tuple[list[str], str]:
        """Answers the keys that were there after the recovery, and the state that it led to.

        Most kills lead to one of a few states: from each of them it is carried to its end once.
        """
        self.place.check_kill()
        wrong = recover(team)
        assert not wrong, wrong
        self.place.check()
        keys, state = sorted(self.place.keys()), self.place.fingerprint()
        if state in self.recovered:
            return keys, state
        wrong = operation.go_on(team)
        assert not wrong, wrong
        self.place.check()
        end = self.place.end()
        if not (operation.abandoned and end == self.untouched):
            same(end, expected)
        return keys, state

    def _beside(self, operation: Operation, at: int, torn: bool, expected: Any, where: str) -> None:
        """Another process that was in step before the kill makes the same call, with nothing restarted."""
        self.team.board.update("T1", by="human", priority=self.team.board.get("T1").priority)
        life = live(
            lambda say: operation.act(self.team, say), self.place.folder, at=at, torn=torn, every=self.sample is None
        )
        assert life.killed
        operation.act(self.team, lambda key: None)
        same(_records(self.place.end()), _records(expected), f"{where}, beside a running process")

    # ------------------------------------------------------------ the restart itself is killed

    def _kill_restarts(
        self, operation: Operation, expected: Any, states: list[tuple[int, bool]], outcome: Outcome
    ) -> None:
        """Killed once more while it recovers and goes on: at points by a seed, or at all of them."""

        def again(say: Acknowledge) -> None:
            recover(self.next)
            operation.go_on(self.next, say)

        if self.sample is not None and self.chance.random() > SHARE:
            return
        for first, torn in [self.chance.choice(states)] if self.sample is not None else states:
            self.place.put_back(BEGINNING)
            self._killed(operation, first, torn)
            self.place.keep("killed")
            count = live(again, self.place.folder, at=0).count
            points = list(range(1, count + 1))
            if self.sample is not None:
                points = sorted(self.chance.sample(points, min(self.sample, len(points))))
            for at in points:
                self.place.put_back("killed")
                life = live(again, self.place.folder, at=at)
                outcome.kills += life.killed
                if (state := self.place.fingerprint()) in self.tried:
                    continue
                self.tried.add(state)
                where = f"killed before change {first}, then before change {at} of {count} of the restart"
                self._go_on(operation, expected, where, self.last)


def _records(end: dict[str, Any]) -> dict[str, Any]:
    """Without the worktrees, which only their owner and a restart put at rest."""
    return {key: value for key, value in end.items() if not key.startswith("worktrees/")}


def same(found: Any, expected: Any, where: str = "") -> None:
    """Raise with what differs. A kill may lead to one more snapshot, never to one less."""
    found, expected = json.loads(json.dumps(found)), json.loads(json.dumps(expected))
    more = {name for name in found["refs"] if "/rescue/" in name} - {*expected["refs"]}
    found["refs"] = {name: at for name, at in found["refs"].items() if name not in more}
    if found == expected:
        return
    lines = [where] if where else []
    for key in sorted({*found, *expected}):
        if found.get(key) != expected.get(key):
            lines.append(
                f"{key}: found\n    {json.dumps(found.get(key))}\n  undisturbed\n    {json.dumps(expected.get(key))}"
            )
    raise AssertionError("\n".join(lines))

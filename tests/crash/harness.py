"""Every operation is killed at each of its points; whoever comes next ends where an undisturbed run ends."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.crash.place import Place
from tests.crash.points import Acknowledge, Died, Life, forked, live, ordered

from coterie.lead.audit import Fault, audit
from coterie.lead.recovery import recover
from coterie.teammates.team import Team

BEGINNING = "beginning"
SAMPLE = 2  # points of a long operation
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
    sampled: bool = False  # so long that only some of its points are tried, unless all are wanted
    abandoned: bool = False  # nobody makes it again, as with a command of a terminal: it is there whole or not at all
    beside: bool = False  # also: a process that ran all the while goes on with it, without any restart
    audited: bool = True  # its assignments have real worktrees, so that the audit finds all well in the end
    fewest: int = 4  # points, below which the watch does not see it

    def go_on(self, team: Team, say: Acknowledge = lambda key: None) -> list[Fault]:
        """What a restart does after its recovery, and what is wrong then.

        A call is made again, and at the next start all is at rest.
        """
        if self.finish is not None:
            self.finish(team, say)
            return audit(team.root, team)
        if not self.abandoned:
            self.act(team, say)
        return recover(team)


@dataclass
class Outcome:
    """What was tried."""

    kills: int = 0
    states: int = 0  # states on disk that differ, from each of which it was started again
    faults: list[str] = field(default_factory=list)


class Trial:
    """Operations on one place. `team` was opened by this process and has read nothing: each child has it fresh."""

    def __init__(self, place: Place, team: Team, *, seed: int = 1, sample: int | None = 3, every: bool = False) -> None:
        self.place = place
        self.team = team
        self.chance = random.Random(seed)
        self.untouched: Any = None
        self.every = every or sample is None  # point of an operation, also of those that are sampled
        self.sample = sample  # points of a restart that are tried for each operation; None: all of them

    def every_point(self, operation: Operation) -> Outcome:
        """Kill it everywhere, look after each kill. The first fault ends it."""
        outcome = Outcome()
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
        recover(self.team)  # as after a death right behind it
        if operation.finish is not None:
            operation.go_on(self.team)
        return self.place.end()

    def _untouched(self) -> Any:
        recover(self.team)
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
        points = itertools.count(1)
        if operation.sampled and not self.every:
            self.place.put_back(BEGINNING)
            count = self._killed(operation, 0, torn).count
            points = iter(
                [*sorted(self.chance.sample(range(1, count + 1), min(1 if torn else SAMPLE, count))), count + 1]
            )
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
        raise AssertionError("unreachable")

    def _killed(self, operation: Operation, at: int, torn: bool) -> Life:
        return live(
            lambda say: operation.act(self.team, say), self.place.folder, at=at, torn=torn, every=self.sample is None
        )

    def _go_on(self, operation: Operation, expected: Any, where: str) -> set[str]:
        """Restart: recover, look, carry it to its end, look again. Answers the keys that were there."""
        try:
            return set(forked(lambda: self._restart(operation, expected)))
        except Died as error:
            raise AssertionError(f"{where}: {error}") from None

    def _restart(self, operation: Operation, expected: Any) -> list[str]:
        self.place.check_kill()
        wrong = recover(self.team)
        assert not (wrong and operation.audited), wrong
        self.place.check()
        keys = sorted(self.place.keys())
        wrong = operation.go_on(self.team)
        assert not (wrong and operation.audited), wrong
        self.place.check()
        end = self.place.end()
        if not (operation.abandoned and end == self.untouched):
            same(end, expected)
        return keys

    def _beside(self, operation: Operation, at: int, torn: bool, expected: Any, where: str) -> None:
        """Another process that was in step before the kill makes the same call, with nothing restarted."""
        self.team.board.update("T1", by="human", priority=self.team.board.get("T1").priority)
        life = live(
            lambda say: operation.act(self.team, say), self.place.folder, at=at, torn=torn, every=self.sample is None
        )
        assert life.killed
        operation.act(self.team, lambda key: None)
        same(self.place.end(), expected, f"{where}, beside a running process")

    # ------------------------------------------------------------ the restart itself is killed

    def _kill_restarts(
        self, operation: Operation, expected: Any, states: list[tuple[int, bool]], outcome: Outcome
    ) -> None:
        """Killed once more while it recovers and goes on: at points by a seed, or at all of them."""

        def again(say: Acknowledge) -> None:
            recover(self.team)
            operation.go_on(self.team, say)

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
                where = f"killed before change {first}, then before change {at} of {count} of the restart"
                self._go_on(operation, expected, where)


def same(found: Any, expected: Any, where: str = "") -> None:
    """Raise with what differs."""
    found, expected = json.loads(json.dumps(found)), json.loads(json.dumps(expected))
    if found == expected:
        return
    lines = [where] if where else []
    for key in sorted({*found, *expected}):
        if found.get(key) != expected.get(key):
            lines.append(
                f"{key}: found\n    {json.dumps(found.get(key))}\n  undisturbed\n    {json.dumps(expected.get(key))}"
            )
    raise AssertionError("\n".join(lines))

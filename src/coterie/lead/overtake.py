"""Taking a task back without its owner's host: only where that is dead, or answers nothing for long enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from coterie import files
from coterie.errors import Refused
from coterie.lead.host import mark_of_host
from coterie.lead.recovery import end_commands, held_process
from coterie.taskboard import NotCurrent, Task
from coterie.teammates.outcomes import send_outcome
from coterie.teammates.team import Team

__all__ = ["ASK", "Silence", "take_now", "take_over"]

ASK = 1.0  # seconds that a host gets to answer
PATIENCE = 120.0  # seconds that a host which answers gets to make a move that is wanted


class Silence:
    """For how long host processes have answered nothing, by this observer's own monotonic clock.

    Only time in which it asked counts: an observer that was stopped itself has heard nothing, and seen nothing.
    """

    def __init__(self, processes: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._clock = clock
        self._silent: dict[str, float] = {}

    def ask(self, ids: Iterable[str]) -> None:
        """Ask once; returns at once where all answer, else after a second."""
        begun = self._clock()
        answers = files.who_answers(self._processes, ids, timeout=ASK)
        passed = min(self._clock() - begun, 2 * ASK)
        for each, answered in answers.items():
            self._silent[each] = 0.0 if answered else self._silent.get(each, 0.0) + passed

    def of(self, process: str | None) -> float:
        """Seconds without an answer; 0 for one that answered last, or cannot be asked."""
        return self._silent.get(process or "", 0.0)


def take_over(team: Team, task: Task, *, why: str, dead: bool = False) -> bool:
    """Make the move that is wanted of `task` in its owner's place; False if somebody else made it meanwhile.

    The caller has proved the owner's host dead, or has found it silent for `hung_after`. Its commands are ended, what
    lies in its worktree is kept as a snapshot, and the worktree is left as it is: the owner's life goes on, so nobody
    else is given it. When that host wakes, its epoch is over, and so is every effect that names it.
    dead: of a dead host the next owner is given the work; of one that was only silent it is told where it lies, since
    nobody knows in the middle of what it was.
    """
    assert task.claim is not None and task.wanted is not None
    owner = task.claim.owner
    end_commands(team, owner)
    kept = team.keeper.snapshot(owner, label=f"{task.id}-e{task.epoch}")
    try:
        work = None if kept is None else kept.commit if dead else kept.ref  # a ref is told, and carried over by nobody
        send_outcome(team, team.board.carry_out(task.id, task.epoch, by="runtime", kept=work))
    except NotCurrent:
        return False
    text = f"{task.id} is taken from {task.claim.instance}: {why}; {task.wanted.reason}"
    team.events.say("task", text, task=task.id, member=owner)
    return True


def take_now(team: Team, id: str, epoch: int, *, tell: Callable[[str], object]) -> str:
    """Wait until the move that is wanted of a task has been made, and say by whom.

    Its owner's host makes it. Where that is proved dead, or answers nothing for `hung_after`, the caller does. `tell`
    hears what is waited for. Refused where a host answers and does not make it in two minutes.
    """
    silence = Silence(team.root / "processes")
    limit = team.record.settings.hung_after
    begun, said = time.monotonic(), False
    while True:
        seen = team.bell.count()
        task = team.board.get(id)
        if task.epoch != epoch or task.claim is None or task.wanted is None:
            return f"{id} is {task.status}"
        member = team.roster.get(task.claim.owner)
        pid = files.read_info(team.root / "processes" / f"{member.process}.lock").get("pid")
        if not held_process(team, member.process):
            if _in_place_of_the_dead(team, task):
                return f"{id} is {team.board.get(id).status}: the host process of {member.name} is dead"
        else:
            silence.ask([member.process] if member.process is not None else [])
            quiet = silence.of(member.process)
            if quiet >= limit:
                why = f"the host process of {member.name} (pid {pid}) is alive and has answered nothing for {limit:g} s"
                if take_over(team, task, why=why):
                    return f"{id} is {team.board.get(id).status}: {why}. Its worktree is not used until it is gone"
                continue
            if quiet and not said:
                said = True
                tell(f"the host process of {member.name} (pid {pid}) does not answer: waiting up to {limit:g} s for it")
            if not quiet and time.monotonic() - begun > PATIENCE:
                raise Refused(
                    f"the host process of {member.name} (pid {pid}) answers and has not handed {id} over in "
                    f"{PATIENCE:g} s. It is still wanted, and done as soon as that host can"
                )
        team.bell.wait(seen, 0.2)


def _in_place_of_the_dead(team: Team, task: Task) -> bool:
    """Take over as long as nobody else runs the lead: whoever does moves the claims of dead processes itself."""
    try:
        lead = files.hold(team.root / "processes" / "lead.lock", mark_of_host(), patience=0.0)
    except files.Held:
        return False
    try:
        return take_over(team, task, why="its host process is dead", dead=True)
    finally:
        lead.release()

"""The pause of a run for which the machine has no room: said once, waited out, and ended where nobody is there."""

from __future__ import annotations

import time

from coterie import files
from coterie.errors import EnvironmentFault
from coterie.teammates.team import Runtime

__all__ = ["RETRY", "Pause"]

RETRY = 1.0  # seconds before a member that lacked something tries again
QUIET = 3.0  # seconds without a lack before it is believed to be over


class Pause:
    """Whether something is lacking (space, file handles). It is only shown: there may be no room to write it down."""

    def __init__(self, runtime: Runtime, *, interactive: bool) -> None:
        self._runtime = runtime
        self._interactive = interactive
        self._since: float | None = None
        self._last = 0.0

    def look(self, lacking: str | None) -> None:
        """One look of the host: `lacking` is what somebody met just now, None where nobody did.

        Without a terminal the run is stopped in order after `stall_timeout`; with one it waits.
        """
        now = time.monotonic()
        if lacking is None:
            if self._since is not None and now - self._last > QUIET:
                self._since = None
                self._show("there is room again: the run goes on")
            return
        self._last = now
        if self._since is None:
            self._since = now
            self._show(f"paused, the run goes on by itself as soon as there is room: {lacking}")
        if not self._interactive and now - self._since > self._runtime.settings.stall_timeout:
            self._runtime.stop(f"there was no room for too long: {lacking}", EnvironmentFault.exit_code)

    def _show(self, text: str) -> None:
        self._runtime.team.events.show({"at": files.now(), "kind": "warning", "text": text})

"""The errors of Coterie: one base, and a subclass for each way a command can end.

    CoterieError              1   anything of ours
    ├── Refused               1   an action that is not allowed now; the text tells a model or a person what to do
    │   └── Unknown           2   an id or a name that nothing here has
    ├── UsageError            2   bad words on the command line, or bad settings
    ├── NewerSchema           2   a record was written by a newer Coterie
    ├── DamagedError          3   state on disk that cannot be trusted
    ├── AlreadyRunning        4   another process runs this team
    ├── EnvironmentFault      5   the machine lacks something: git, a writable folder, a sandbox
    └── KeyOrBilling          6   no key, a key that was refused, or no credit

The docstring of a class is its message where none is given. `exit_code` is what the command line ends with.

An error says what is wrong and not where to look, since that differs: a person has commands, a model has tools. `see`
names what would show more (`T7`, `R4`, `board`, `team` or `inbox`); whoever tells the error adds the way there.
"""

from __future__ import annotations

import inspect
from typing import ClassVar

__all__ = [
    "AlreadyRunning",
    "CoterieError",
    "DamagedError",
    "EnvironmentFault",
    "KeyOrBilling",
    "NewerSchema",
    "Refused",
    "Unknown",
    "UsageError",
]


class CoterieError(Exception):
    """Something went wrong inside Coterie."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str | None = None, *, see: str | None = None) -> None:
        super().__init__(message or inspect.getdoc(type(self)) or type(self).__name__)
        self.see = see


class Refused(CoterieError):
    """This is not allowed now."""


class Unknown(Refused):
    """Nothing here has this id or name."""

    exit_code = 2


class UsageError(CoterieError):
    """The command or its settings cannot be used as given."""

    exit_code = 2


class NewerSchema(CoterieError):
    """This was written by a newer Coterie: upgrade to change it. Reading still works."""

    exit_code = 2


class DamagedError(CoterieError):
    """The state on disk is damaged. `coterie doctor` says where."""

    exit_code = 3


class AlreadyRunning(CoterieError):
    """Another process runs this team."""

    exit_code = 4


class EnvironmentFault(CoterieError):
    """The machine lacks something that Coterie needs."""

    exit_code = 5


class KeyOrBilling(CoterieError):
    """No usable API key, or no credit."""

    exit_code = 6

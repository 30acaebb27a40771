"""How the tests are shared out to the workers of pytest-xdist."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LONG = ("tests/crash/", "tests/acceptance/", "tests/mailbox/test_order.py", "tests/worktrees/test_killed.py")
"""Where single tests take long: they begin first, one by one. Of other files a worker takes a whole one, so that what
its tests look at together is made once."""


class Sharing(LoadScopeScheduling):
    """Units of work: a test where tests are long, else a file."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(LONG) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    config.option.loadscopereorder = False
    return Sharing(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))

"""One machine of a person for all attacks of a module; where no sandbox can be had, the suite says so and fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.ground import Ground


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("ground")
    (folder / "home").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.delenv(name, raising=False)
        made = Ground(folder)
        if not made.full:
            pytest.fail(f"THE SANDBOX IS NOT TRIED: {made.found.detail}", pytrace=False)
        yield made
        made.close()


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path

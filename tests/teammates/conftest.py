"""Whole runs for the tests of teammates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.teammates.stage import Stage


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Stage(tmp_path)

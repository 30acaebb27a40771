"""What PATH leads to, and is shown."""

from __future__ import annotations

from pathlib import Path

from coterie.teammates.sandbox.toolchains import toolchains


def test_links_that_lead_in_a_circle_are_passed_over(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "circle").symlink_to(tools / "circle")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    (tools / "program").write_text("#!/bin/sh\n")
    found = toolchains(f"{tools}:{tmp_path}/round:{tmp_path}/round/bin", home=tmp_path / "home", hidden=(), closed=())
    assert set(found.roots) == {tools}

"""The reading commands: find the team, look, print."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from coterie import files
from coterie.console import pages, places, reasons, shapes, views
from coterie.console.door import complain
from coterie.console.events import read_lines
from coterie.console.paint import Paper, print_json
from coterie.console.reading import Reading


def _reading(team: str | None) -> Reading:
    return Reading(places.find_team(Path.cwd(), team))


def _print(view: BaseModel, reading: Reading | None = None) -> int:
    data = view.model_dump(mode="json", by_alias=True)
    print_json(data, indent=1)
    _faults(reading)
    return 0


def _faults(reading: Reading | None) -> None:
    for fault in reading.faults[:20] if reading is not None else ():
        complain(f"cannot be read: {fault}")


def show(task: str, team: str | None, json: bool) -> int:
    reading = _reading(team)
    view = views.show(reading, task)
    if json:
        return _print(view, reading)
    pages.print_show(Paper(), view)
    _faults(reading)
    return 0


def team(name: str | None, json: bool) -> int:
    reading = _reading(name)
    view = views.team(reading)
    if json:
        return _print(view, reading)
    pages.print_team(Paper(), view)
    _faults(reading)
    return 0


def inbox(team: str | None, json: bool) -> int:
    reading = _reading(team)
    view = views.inbox(reading)
    if json:
        return _print(view, reading)
    pages.print_inbox(Paper(), view)
    _faults(reading)
    return 0


def review(request: str, team: str | None, json: bool) -> int:
    """In a terminal, a request that waits for a decision can be decided on at once."""
    from coterie.console import steer
    from coterie.console.options import interactive

    reading = _reading(team)
    view = views.review(reading, request)
    if json:
        return _print(view, reading)
    pages.print_review(Paper(), view)
    _faults(reading)
    each = view.request
    if not interactive() or not each.open or view.standing != each.status or each.kind in ("question", "shutdown"):
        return 0
    said = _ask("approve, reject or leave it? [a/r/L] ").lower()
    if said in ("a", "approve"):
        return steer.decide(each.id, reading.name, approve=True, feedback="")
    if said in ("r", "reject"):
        return steer.decide(each.id, reading.name, approve=False, feedback=_ask("what should change? "))
    return 0


def _ask(question: str) -> str:
    sys.stdout.write(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip()


def mail(team: str | None, json: bool) -> int:
    reading = _reading(team)
    view = views.mail(reading)
    if json:
        return _print(view, reading)
    pages.print_mail(Paper(), view)
    _faults(reading)
    return 0


def why(task: str, team: str | None, json: bool) -> int:
    reading = _reading(team)
    view = reasons.why(reading, task)
    if json:
        return _print(view, reading)
    pages.print_why(Paper(), view)
    _faults(reading)
    return 0


def log(team: str | None, json: bool, *, follow: bool, last: int | None) -> int:
    """What events.jsonl says; with `follow` until the run ends, or until it is interrupted."""
    from coterie.console.live import Live, is_noise

    root = places.find_team(Path.cwd(), team)
    path = root / "events.jsonl"
    paper = Paper()
    live = Live(paper)
    if not json:
        paper.prose(*places.banner(places.sandbox_of(root)))
    with contextlib.suppress(FileNotFoundError):
        files.expect_regular(path)
    position, lines = read_lines(path, 0)
    seen = [number for number, event in enumerate(lines) if json or not is_noise(event)]
    start = 0 if last is None or last >= len(seen) else seen[-last] if last else len(lines)
    for event in lines[:start]:
        live.count(event)
    shown = lines[start:]
    while True:
        for event in shown:
            if json:
                print_json(event)
            else:
                live(event)
        sys.stdout.flush()
        if not follow or (lines and lines[-1].get("kind") == "end"):
            return 0
        time.sleep(0.2)  # no bell: to look leaves nothing behind, not even a port file
        position, lines = read_lines(path, position)
        shown = lines


def diff(task: str | None, team: str | None, json: bool) -> int:
    """What a task changed: merged, handed in, or in hand; without a task all that was merged since the base."""
    from coterie.console import changes

    root = places.find_team(Path.cwd(), team)
    view = changes.diff(Reading(root), task)
    if json:
        return _print(view)
    paper = Paper()
    if view.note:
        paper.prose(view.note, "yellow" if view.what == "in hand" else "")
    if view.diff:
        paper.say(files.clean(view.diff, len(view.diff) + 1).rstrip("\n"))
    return 0


def config(team: str | None, json: bool) -> int:
    """Without --team what a new team would run by; with it, what that team runs by."""
    from coterie.console import settings

    spot = places.checkout(Path.cwd())
    loaded = settings.load(spot.here, {}, os.environ)
    values, sources, name = loaded.settings.model_dump(), dict(loaded.sources), None
    if team is not None:
        root = places.find_team(Path.cwd(), team)
        name = root.name
        held = places.team_record(root).get("settings")
        if not isinstance(held, dict):
            raise files.Unreadable(root / "team.json", "settings: expected an object")
        values = {**values, **held}
        sources |= dict.fromkeys(held, "team.json")
    shown = {each: shapes.Setting(value=_masked(values[each], loaded), source=sources[each]) for each in sources}
    view = shapes.ConfigView(
        team=name,
        settings=shown,
        key=shapes.KeySource(source=loaded.key.source) if loaded.key else None,
        notes=[settings.mask(note, loaded.key) for note in loaded.notes],
    )
    if json:
        return _print(view)
    pages.print_config(Paper(), view)
    return 0


def _masked(value: Any, loaded: Any) -> Any:
    """A value without the key, wherever somebody put it."""
    from coterie.console.settings import mask

    if isinstance(value, str):
        return mask(value, loaded.key)
    if isinstance(value, list):
        return [_masked(each, loaded) for each in value]
    if isinstance(value, dict):
        return {name: _masked(each, loaded) for name, each in value.items()}
    return value

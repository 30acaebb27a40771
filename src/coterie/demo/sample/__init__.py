"""The sample repository: a small Python package with tests, a history, and one module that does far too much.

Its files are kept as package data with `.txt` behind their names, so that no tool takes them for ours.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from coterie.errors import EnvironmentFault, UsageError

__all__ = ["create_sample", "sample_files"]

KEPT_AS = ".txt"
RENAMED = {"gitignore": ".gitignore"}  # under its own name it would hide files of ours

HISTORY = {
    "Catalog, and where its data lies": (
        *(".gitignore", "README.md", "shopfront/__init__.py", "shopfront/settings.py", "shopfront/catalog.py"),
        *("shopfront/storage.py", "tests/__init__.py", "tests/shop.py", "tests/test_catalog.py"),
        *("tests/test_checks.py", "tests/test_settings.py"),
    ),
    "Cart and search": ("shopfront/cart.py", "shopfront/search.py", "tests/test_cart.py", "tests/test_search.py"),
    "Orders, invoices and mails": (
        *("shopfront/invoices.py", "shopfront/notices.py", "shopfront/orders.py", "tests/test_orders.py"),
    ),
    "Reports and a command line": ("shopfront/cli.py", "shopfront/reports.py", "tests/test_reports.py"),
    "Notes for contributors": ("AGENTS.md",),
}
"""What each commit added, oldest first."""

WHO = {"NAME": "Robin Shopkeeper", "EMAIL": "robin@shop.example"}
FIRST_DAY = 1_772_442_000  # of the history, in seconds since 1970; one commit a day
DAY = 86_400


def sample_files() -> dict[str, str]:
    """The files of the sample: path -> text."""
    return dict(sorted(_walk(files(__package__) / "files", "")))


def _walk(folder: Traversable, prefix: str) -> Iterable[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(KEPT_AS):
            name = entry.name.removesuffix(KEPT_AS)
            yield prefix + RENAMED.get(name, name), entry.read_text(encoding="utf-8")


def create_sample(path: Path) -> str:
    """Make the sample repository at `path`; answers its last commit, which is the same every time.

    The branch is `main`, the author fixed, the user's git settings and hooks play no part.
    Raises `UsageError` where `path` is there and not an empty folder, `EnvironmentFault` where git is missing or fails
    or the place cannot be written.
    """
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise UsageError(f"{path} is not empty: the sample repository needs a folder of its own")
    try:
        path.mkdir(parents=True, exist_ok=True)
        _git(path, 0, "init", "--quiet", "--template=", "--initial-branch=main")
        texts = sample_files()
        for day, (subject, names) in enumerate(HISTORY.items()):
            for name in names:
                (path / name).parent.mkdir(exist_ok=True)
                (path / name).write_text(texts[name], encoding="utf-8", newline="\n")
            _git(path, day, "add", "--", *names)
            _git(path, day, "commit", "--quiet", "--no-verify", "--message", subject)
        return _git(path, 0, "rev-parse", "HEAD").strip()
    except OSError as error:
        raise EnvironmentFault(f"the sample repository cannot be made at {path}: {error}") from None


def _git(path: Path, day: int, *argv: str) -> str:
    """Run git with an identity, a clock and settings of our own."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    mine |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    for role in ("AUTHOR", "COMMITTER"):
        mine |= {f"GIT_{role}_{name}": value for name, value in WHO.items()}
        mine[f"GIT_{role}_DATE"] = f"{FIRST_DAY + day * DAY} +0000"
    settings = ["-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]
    done = subprocess.run(
        ["git", *settings, *argv], cwd=path, env=mine, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise EnvironmentFault(f"git {argv[0]} failed at {path}: {done.stderr.strip()}")
    return done.stdout

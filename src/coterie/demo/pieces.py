"""The goal of the demo, and how its lead splits it."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ABOUT",
    "FLAGS",
    "FOUNDATION",
    "GOAL",
    "IMPORTS",
    "INIT",
    "MAIL",
    "MONEY",
    "SETTINGS",
    "TASKS",
    "TESTS",
    "WAVES",
]

GOAL = (
    "shopfront/settings.py has grown far too large: it mixes paths, the log, money, feature flags and mails. Split it "
    "into one module for each of these concerns, update every import, and delete it."
)

SETTINGS = "shopfront/settings.py"
INIT = "shopfront/__init__.py"
TESTS = "python3 -m unittest -q"

FOUNDATION = "Move paths and the log out of settings"
MONEY = "Move money out of settings"
FLAGS = "Move feature flags out of settings"
MAIL = "Move mails out of settings"
IMPORTS = "Import from the new modules and delete settings"
ABOUT = "Show all that is set on one page"

WAVES = (frozenset({MONEY, FLAGS, MAIL}), frozenset({IMPORTS, ABOUT}))
"""Tasks that are worked on at the same time. Their plans are read together."""

_MOVE = (
    "Move the section '{name}' of shopfront/settings.py, with everything in it, to a new module, shopfront/{name}.py. "
    "In its place settings.py imports the same names from there, so that nobody who imports from settings notices: "
    "their imports are updated by a later task. Put '{name}' into CONCERNS in shopfront/__init__.py, in the order of "
    "the sections, for its check_… function. Leave the other sections alone: others move them at the same time."
)


def _move(ref: str, subject: str) -> dict[str, Any]:
    return {
        "ref": ref,
        "subject": subject,
        "description": _MOVE.format(name=ref),
        "blocked_by": ["foundation"],
        "requires_plan": True,
        "checks": [TESTS, f"python3 -c 'import shopfront.{ref}'"],
        "scope": [f"shopfront/{ref}.py", SETTINGS, INIT],
    }


TASKS: list[dict[str, Any]] = [
    {
        "ref": "foundation",
        "subject": FOUNDATION,
        "description": (
            "The other sections of shopfront/settings.py use paths and the log, so these two move first: to "
            "shopfront/paths.py and shopfront/logs.py. In their place settings.py imports the same names from there. "
            "Put both into CONCERNS in shopfront/__init__.py, before 'settings'."
        ),
        "requires_plan": False,
        "checks": [TESTS, "python3 -c 'import shopfront.paths, shopfront.logs'"],
        "scope": ["shopfront/paths.py", "shopfront/logs.py", SETTINGS, INIT],
    },
    _move("money", MONEY),
    _move("flags", FLAGS),
    _move("mail", MAIL),
    {
        "ref": "imports",
        "subject": IMPORTS,
        "description": (
            "Every import from shopfront.settings, in shopfront/ and in tests/, becomes one from the module where the "
            "name lives now. Then delete shopfront/settings.py and take it out of CONCERNS."
        ),
        "blocked_by": ["money", "flags", "mail"],
        "requires_plan": True,
        "checks": [TESTS, f"test ! -e {SETTINGS}"],
        "scope": ["shopfront/*.py", "tests/*.py"],
    },
    {
        "ref": "about",
        "subject": ABOUT,
        "description": (
            "A new module shopfront/about.py: `python3 -m shopfront.about` prints on one page what is set (currency, "
            "shipping, flags, folders, log level, sender) and which concerns are checked. With a test, and a line in "
            "README.md in place of the paragraph about settings.py."
        ),
        "blocked_by": ["money", "flags", "mail"],
        "requires_plan": True,
        "checks": [TESTS, "python3 -m shopfront.about"],
        "scope": ["shopfront/about.py", "tests/test_about.py", "README.md"],
    },
]
"""What the lead gives to create_tasks: a foundation, three at the same time, two that join them."""

"""One setting: what it may be, said in words, and whether a given value is that."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from coterie.console.sources import Given
from coterie.errors import UsageError
from coterie.files import clean
from coterie.teammates.settings import TeamSettings

FIELDS = TeamSettings.model_fields
RULES = ("allow", "ask", "deny")
"""The settings that are permission rules. Those of all places count together."""


def checked(name: str, given: Given) -> Any:
    """The value of a setting, as its type. Raises `UsageError`: what was expected, what was found, and where."""
    value = _from_text(name, given.value) if given.as_text else given.value
    if given.as_text and value is None:
        return None
    if not _fits(name, value):
        raise UsageError(f"{name}: expected {expected(name)}, found {_found(given.value)} ({given.source})")
    if name in RULES and value:
        _expect_rules(name, value, given.source)
    return float(value) if _kind(name) is float else value


def _expect_rules(name: str, texts: list[str], source: str) -> None:
    """`UsageError` for what is no permission rule, or names a tool that nobody has."""
    from coterie.teammates.permissions import parse_rule  # only where there are rules: they cost time to import

    for text in texts:
        try:
            rule = parse_rule(text, name)  # type: ignore[arg-type]  # RULES are its kinds
        except UsageError as error:
            raise UsageError(f"{name}: {error} ({source})") from None
        known = _tools()
        for each in rule.tools:
            if each not in known:
                near = difflib.get_close_matches(each, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"tools are {', '.join(sorted(known))}"
                raise UsageError(f"{name}: {text!r}: there is no tool {clean(each, 60)!r}: {hint} ({source})")


def _tools() -> frozenset[str]:
    from coterie.lead.tools import LEAD_TOOLS
    from coterie.teammates.tools import TEAMMATE_TOOLS

    return frozenset({*LEAD_TOOLS, *TEAMMATE_TOOLS})


def unknown(name: str, given: Given) -> UsageError:
    """What is said of a key that no setting has."""
    near = difflib.get_close_matches(name, list(FIELDS), n=1, cutoff=0.5)
    what = f"{given.source}: there is no setting {clean(name, 60)!r}"
    if "key" in name.lower():
        return UsageError(f"{what}: the API key goes into ANTHROPIC_API_KEY or .env, never into settings")
    return UsageError(f"{what}: did you mean {near[0]!r}?" if near else f"{what}: coterie config lists them")


def expected(name: str) -> str:
    """What a setting may be, in words with its range."""
    kind, choices = _kind(name), _choices(name)
    if choices and kind is not dict:
        return " or ".join(choices)
    if name == "base_url":
        return "a URL such as https://api.example.com"
    if name == "read_roots":
        return "a list of absolute paths of folders"
    if name in RULES:
        return "a list of permission rules"
    if kind is bool:
        return "true or false"
    if kind is list:
        return "a list of commands" if name == "checks" else "a list of paths"
    if kind is dict:
        return "a table of name = " + (" or ".join(repr(each) for each in choices) if choices else "text")
    if kind is str:
        return "a text that is not empty"
    noun = "a whole number" if kind is int else "a number"
    low, high, above = _bound(name, "ge"), _bound(name, "le"), _bound(name, "gt")
    if above is not None and high is not None:
        return f"{noun} above {above}, at most {high}"
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    return f"{noun} above {above}" if above is not None else noun


def _kind(name: str) -> type:
    annotation = _bare(FIELDS[name].annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return str
    found: type = origin or annotation
    return found


def _choices(name: str) -> tuple[str, ...]:
    annotation = _bare(FIELDS[name].annotation)
    if get_origin(annotation) is dict:
        annotation = get_args(annotation)[1]
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _bare(annotation: Any) -> Any:
    """The annotation without `| None`."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(each for each in get_args(annotation) if each is not type(None))
    return annotation


def _optional(name: str) -> bool:
    return type(None) in get_args(FIELDS[name].annotation)


def _bound(name: str, which: str) -> Any:
    for each in FIELDS[name].metadata:
        if getattr(each, which, None) is not None:
            found = getattr(each, which)
            return int(found) if float(found).is_integer() else found
    return None


def _fits(name: str, value: Any) -> bool:
    kind, choices = _kind(name), _choices(name)
    if kind is bool:
        return type(value) is bool
    if kind is int:
        return type(value) is int and _in_range(name, value)
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value) and _in_range(name, value)
    if kind is list:
        texts = isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value)
        return texts and (name != "read_roots" or all(_is_folder_path(each) for each in value))
    if kind is dict:
        return isinstance(value, dict) and all(
            isinstance(key, str) and key and (each in choices if choices else isinstance(each, str))
            for key, each in value.items()
        )
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return False
    return value in choices if choices else name != "base_url" or _is_url(value)


def _in_range(name: str, value: float) -> bool:
    low, high, above = _bound(name, "ge"), _bound(name, "le"), _bound(name, "gt")
    return (low is None or value >= low) and (high is None or value <= high) and (above is None or value > above)


def _is_folder_path(value: str) -> bool:
    """A folder by its whole name; not the root of everything, in which no place would be outside."""
    return "\0" not in value and Path(value).is_absolute() and os.path.normpath(value).strip("/") != ""


def _is_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.username is None
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        return False


def _from_text(name: str, value: Any) -> Any:
    """A value that was written as text. What does not look like its type stays text, and is refused as such."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _optional(name) and text.lower() == "none" and "none" not in _choices(name):
        return None
    match _kind(name):
        case k if k is bool:
            return {"true": True, "false": False}.get(text.lower(), value)
        case k if k is int:
            return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else value
        case k if k is float:
            return float(text) if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text) else value
        case k if k is list:
            lines = [line.strip() for line in value.splitlines()]
            return _json(text) if text.startswith("[") else [line for line in lines if line]
        case k if k is dict:
            return _json(text)
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _found(value: Any) -> str:
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        shown = str(value)
    return clean(shown, 100)

"""What a run goes by, and where each value came from.

Command line > `COTERIE_*` > coterie.toml or [tool.coterie] > the user's file > default. A base URL that comes from a
repository is used only with a key that comes from there too: a cloned repository cannot send the user's key elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie import files
from coterie.console import places, sources
from coterie.console.hidden import secrets_of
from coterie.console.sources import DotEnv, Given, Layer
from coterie.console.values import FIELDS, RULES, checked, unknown
from coterie.errors import CoterieError, KeyOrBilling, UsageError
from coterie.teammates.settings import TeamSettings

__all__ = ["Key", "Loaded", "load", "load_for_join", "load_for_resume", "mask", "need_key", "remember_base_url"]

LEADS_TO_FILES = frozenset(
    {"PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
)
"""Variables of commands: what they name is shown in the sandbox."""
RANK: Mapping[str, Sequence[Any]] = {
    "approver": ("lead", "human"),
    "plans": ("none", "lead", "all"),
    "splits": ("auto", "human"),
}
"""The values of a setting, the loosest first."""
MAY_CHANGE = (
    *("approver", "plans", "splits", "teammates", "checks", "max_usd", "max_tokens", "model"),
    *("network", "unix_sockets", "sandbox_read_only"),
    *("max_file_mb", "max_memory_mb", "max_processes", "max_open_files"),
)
"""What a resume may change, the base URL and the permission rules besides.

What has no word on the command line, a variable may loosen."""
NEVER_FROM_REPOSITORY = ("read_roots",)
_BENDS = re.compile(
    r"PATH|IFS|ENV|PS4|BASH.*|SHELLOPTS|CDPATH|PROMPT_COMMAND|LD_.*|DYLD_.*|(.*_)?(PAGER|EDITOR)|LESS.*"
)
TIGHTENED_BY_FILES = ("approver", "plans", "splits", "checks", "max_usd", "max_tokens")


@dataclass(frozen=True)
class Key:
    """The API key. It is never shown."""

    value: str = field(repr=False)
    source: str
    of_repository: bool


@dataclass(frozen=True)
class Loaded:
    """Settings, the place each came from, the key if there is one, and what a person should know about them."""

    settings: TeamSettings
    sources: Mapping[str, str]
    key: Key | None
    notes: tuple[str, ...] = ()
    own_base_url: bool = True  # the base URL is the person's, not the repository's
    secrets: tuple[str, ...] = field(default=(), repr=False)  # what is to be kept out of files and off the screen


def load(
    folder: Path,
    given: Mapping[str, Any],
    variables: Mapping[str, str],
    *,
    interactive: bool = False,
) -> Loaded:
    """The settings for a new team.

    folder: the checkout's top. given: the command line's values by name, as text; None is not given. interactive:
    somebody sits at a terminal, so that the split waits for them unless they say otherwise.
    Raises `UsageError` naming the place, the range and what was found.
    """
    layers = _layers(folder, given, variables)
    env = sources.dot_env(folder)
    key = _key(variables, env)
    url, notes = _base_url(layers, env, key)
    chosen: dict[str, Given] = {}
    for layer in reversed(layers):
        kept = {name: each for name, each in layer.items() if not _reaches_out(name, each)}
        notes += [
            f"{name} of {each.source} is not used: a repository must not say what can be reached outside of it, "
            f"COTERIE_{name.upper()} or your own file may"
            for name, each in layer.items()
            if name not in kept
        ]
        chosen |= {name: each for name, each in kept.items() if name not in RULES}
    chosen.pop("base_url", None)
    if url is not None:
        chosen["base_url"] = url
    rules, more = _rules(folder, layers, variables)
    notes += more
    chosen |= rules
    values = {name: checked(name, each) for name, each in chosen.items()}
    origin = dict.fromkeys(FIELDS, "default") | {name: each.source for name, each in chosen.items()}
    _refuse_roots(values.get("read_roots", ()), folder, sources.state_folder(variables) / "coterie")
    values |= _straightened(values, chosen, notes, trusted=_is_trusted(folder, variables))
    if interactive and "splits" not in values:
        values["splits"] = "human"
        origin["splits"] = "default with a terminal"
    own = url is None or url.origin != "repository"
    in_force = TeamSettings(**values)
    return Loaded(in_force, origin, key, tuple(notes), own, secrets_of(variables, env.values, in_force))


def load_for_resume(
    folder: Path,
    root: Path,
    held: TeamSettings,
    given: Mapping[str, Any],
    variables: Mapping[str, str],
) -> Loaded:
    """The settings for a team that exists: what team.json holds, and what may change on resume.

    The command line changes anything that may change, `COTERIE_*` whatever does not loosen it; files only tighten who
    decides, the checks and the budgets. `root`: the team's folder. Raises `UsageError`.
    """
    layers = _layers(folder, given, variables)
    notes: list[str] = []
    values = held.model_dump()
    origin = dict.fromkeys(FIELDS, "team.json")
    for name in MAY_CHANGE:
        for each in (layer[name] for layer in layers if name in layer):
            old, new = values[name], checked(name, each)
            if each.origin in ("repository", "user"):
                if name not in TIGHTENED_BY_FILES:
                    continue
                if name == "checks":  # a file may ask for more, it takes nothing away
                    new = [*old, *(check for check in new if check not in old)]
            if each.origin != "command line" and _loosens(name, held, new):
                if each.origin == "environment":
                    notes.append(f"{each.source} would loosen {name}: it stays {_said(old)}; --{_flag(name)} may")
                continue
            if new != old:
                notes.append(f"{name}: {_said(old)} -> {_said(new)} ({each.source})")
                values[name] = new
            origin[name] = each.source
            break
    rules, more = _rules(folder, layers, variables)
    notes += more
    for name, each in rules.items():
        # a file may ask and deny more than before; what runs without asking grows on the command line alone
        known = checked(name, each) if name != "allow" else _said_now(layers, name)
        if new := [rule for rule in known if rule not in values[name]]:
            notes.append(f"{name}: {_said(new)} added ({each.source})")
            values[name] = [*values[name], *new]
            origin[name] = f"team.json; {each.source}"
    env = sources.dot_env(folder)
    key = _key(variables, env)
    url, more = _base_url([*layers[:2], _held_url(root, held, variables)], env, key)
    values["base_url"] = checked("base_url", url) if url is not None else None
    origin["base_url"] = url.source if url is not None else "default"
    own = url is None or url.origin != "repository"
    in_force = TeamSettings(**values)
    return Loaded(in_force, origin, key, (*notes, *more), own, secrets_of(variables, env.values, in_force))


def load_for_join(
    folder: Path, root: Path, held: TeamSettings, given: Mapping[str, Any], variables: Mapping[str, str]
) -> Loaded:
    """The settings for one more process of a team: what team.json holds. Only the server may be another one."""
    layers = _layers(folder, given, variables)
    env = sources.dot_env(folder)
    key = _key(variables, env)
    url, notes = _base_url([*layers[:2], _held_url(root, held, variables)], env, key)
    base_url = checked("base_url", url) if url is not None else None
    origin = dict.fromkeys(FIELDS, "team.json") | {"base_url": url.source if url is not None else "default"}
    in_force = held.model_copy(update={"base_url": base_url})
    return Loaded(in_force, origin, key, tuple(notes), secrets=secrets_of(variables, env.values, in_force))


def need_key(loaded: Loaded) -> str:
    """The key, or `KeyOrBilling` saying where one can be put."""
    if loaded.key is None:
        raise KeyOrBilling("there is no API key: set ANTHROPIC_API_KEY, or put it into .env in the repository")
    return loaded.key.value


def mask(text: str, key: Key | None) -> str:
    """`text` without the key, should it stand in it."""
    return text.replace(key.value, "***") if key is not None else text


def remember_base_url(root: Path, loaded: Loaded, variables: Mapping[str, str]) -> None:
    """Note in the user's own folder that the base URL of the team at `root` is the person's choice.

    team.json lies in the repository, where it may have come from anywhere: what it says of the URL counts on resume
    only if it is what stands here. No note, no harm: then the URL has to be given again.
    """
    path = _note_of(root, variables)
    url = loaded.settings.base_url
    if url is None or not loaded.own_base_url:
        return
    try:
        files.make_folder(path.parent)
        files.write_json(path, {"schema": 1, "team": str(root), "base_url": url})
    except OSError:
        return


def _rules(folder: Path, layers: Sequence[Layer], variables: Mapping[str, str]) -> tuple[Layer, list[str]]:
    """The permission rules of all places together, and what is said of those that do not count.

    A repository's own files can ask and deny. What they allow counts only where the person trusts that repository.
    """
    trusted = _is_trusted(folder, variables)
    found: dict[str, Given] = {}
    notes: list[str] = []
    for name in RULES:
        count: list[Given] = []
        for each in (layer[name] for layer in layers if name in layer):
            if name == "allow" and each.origin == "repository" and not trusted:
                said = _said(checked(name, each))
                notes.append(
                    f"{each.source}: not used, since a repository cannot allow anything by itself: {said}. Where you "
                    f'trust it, your own {sources.user_file(variables)} can say trusted = ["{folder}"]'
                )
            else:
                count.append(each)
        if count:
            texts = dict.fromkeys(rule for each in count for rule in checked(name, each))
            origin = count[0].origin if len(count) == 1 else "user"
            found[name] = Given(list(texts), "; ".join(each.source for each in count), origin)
    return found, notes


def _is_trusted(folder: Path, variables: Mapping[str, str]) -> bool:
    """Whether the person's own file names this checkout, or the main one of its repository."""
    mine = {folder.resolve()}
    with contextlib.suppress(UsageError):  # no repository, which is told elsewhere
        mine.add(places.checkout(folder).main.resolve())
    return not mine.isdisjoint(sources.trusted(variables))


def _straightened(values: Mapping[str, Any], chosen: Layer, notes: list[str], *, trusted: bool) -> dict[str, Any]:
    """Of an environment that a repository gives to commands, what does not change what a shell makes of a line.

    A rule that allows `git status` would allow what such a variable has it run.
    """
    given = chosen.get("environment")
    if given is None or given.origin != "repository" or trusted:
        return {}
    bent = [name for name in values["environment"] if _BENDS.fullmatch(name)]
    if bent:
        notes.append(f"{given.source}: {', '.join(bent)} not used, since it changes what commands run: trust it first")
    return {"environment": {name: each for name, each in values["environment"].items() if name not in bent}}


def _said_now(layers: Sequence[Layer], name: str) -> list[str]:
    """What the command line says."""
    return list(checked(name, layers[0][name])) if name in layers[0] else []


def _held_url(root: Path, held: TeamSettings, variables: Mapping[str, str]) -> Layer:
    if held.base_url is None:
        return {}
    try:
        noted = files.read_json(_note_of(root, variables)).get("base_url")
    except (CoterieError, OSError):
        noted = None
    own = noted == held.base_url
    return {"base_url": Given(held.base_url, str(root / "team.json"), "user" if own else "repository")}


def _note_of(root: Path, variables: Mapping[str, str]) -> Path:
    name = hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return sources.state_folder(variables) / "coterie" / "base-urls" / f"{name}.json"


def _layers(folder: Path, given: Mapping[str, Any], variables: Mapping[str, str]) -> list[Layer]:
    """The layers, the strongest first. Raises `UsageError` for a key that no setting has."""
    layers = [
        sources.command_line(given),
        sources.environment(variables),
        *sources.repository(folder),
        sources.user(variables),
    ]
    for layer in layers:
        for name, each in layer.items():
            if name not in FIELDS:
                raise unknown(name, each)
            checked(name, each)  # what a stronger layer hides is wrong all the same
    return layers


def _key(variables: Mapping[str, str], env: DotEnv) -> Key | None:
    value = variables.get("ANTHROPIC_API_KEY", "").strip()
    if value:
        return Key(value, "ANTHROPIC_API_KEY", of_repository=False)
    return Key(env.key.strip(), str(env.path), of_repository=True) if env.key and env.key.strip() else None


def _base_url(layers: Sequence[Layer], env: DotEnv, key: Key | None) -> tuple[Given | None, list[str]]:
    """The strongest base URL that may be used with this key, and what is said of those that may not."""
    found = [layer["base_url"] for layer in layers if "base_url" in layer]
    if env.base_url is not None:
        found.append(Given(env.base_url, str(env.path), "repository", as_text=True))
        found.sort(key=lambda each: each.origin == "user")  # stable: .env is of the repository, before the user's file
    notes: list[str] = []
    for each in found:
        if each.origin != "repository" or (key is not None and key.of_repository):
            return each, notes
        whose = f"the key comes from {key.source}" if key is not None else "there is no key from there"
        notes.append(
            f"the base URL of {each.source} is not used, since {whose} and a repository must not send it elsewhere: "
            "--base-url or ANTHROPIC_BASE_URL may name it"
        )
    return None, notes


def _refuse_roots(roots: Sequence[str], checkout: Path, worktrees: Path) -> None:
    """A folder that can be read must not show the checkout, the team's own files, or the worktrees of others."""
    for each in roots:
        root = Path(each).resolve()
        for taken in (checkout.resolve(), worktrees.resolve()):
            if root.is_relative_to(taken) or taken.is_relative_to(root):
                raise UsageError(f"read_roots: expected folders apart from {taken}, found {each}: leave it out")


def _reaches_out(name: str, given: Given) -> bool:
    """Whether a repository's own file would open what lies outside of it."""
    return given.origin == "repository" and (name in NEVER_FROM_REPOSITORY or _opens(name, checked(name, given)))


def _loosens(name: str, held: TeamSettings, new: Any) -> bool:
    if name in RANK:
        ranks = RANK[name]
        old = held.plans_in_force if name == "plans" else getattr(held, name)
        return new is None or ranks.index(new) < ranks.index(old)
    old = getattr(held, name)
    match name:
        case "teammates":
            return bool(new > old)
        case "checks":
            return not set(old) <= set(new)
        case "max_usd" | "max_tokens":
            return old is not None and (new is None or new > old)
    return False


def _opens(name: str, value: Any) -> bool:
    """Whether such a value lets commands reach more than they do without it."""
    match name:
        case "network":
            return bool(value != "off")
        case "unix_sockets" | "sandbox_read_only":
            return bool(value)
        case "environment":
            return bool(LEADS_TO_FILES & set(value))
        case "max_file_mb" | "max_memory_mb" | "max_processes" | "max_open_files":
            return bool(value == 0 or value > FIELDS[name].default)
    return False


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _said(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(value) or "none"
    return "none" if value is None else files.clean(str(value), 200)

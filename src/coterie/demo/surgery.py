"""Changes to the text of the sample's modules. Pure, and each leaves alone what it has changed already."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

__all__ = ["homes", "imports_from", "moved", "ordered", "register", "rewired", "smallest_edit", "union", "unregister"]

BANNER = re.compile(r"^# -+ (\w+)$")
WIDTH = 120
ORDER = ("paths", "logs", "money", "flags", "mail", "settings")


def moved(text: str, concern: str) -> tuple[str, str] | None:
    """The section of a concern as a module of its own, and what is left; None where it is not there (any more)."""
    lines = text.splitlines()
    banners = [(number, found[1]) for number, line in enumerate(lines) if (found := BANNER.match(line))]
    ends = [number for number, _ in banners[1:]] + [len(lines)]
    for (start, name), end in zip(banners, ends, strict=True):
        body = lines[start + 1 : end]
        if name != concern or not body or body[0].startswith(f"from shopfront.{concern} import"):
            continue
        about = body.pop(0).removeprefix("# ") if body[0].startswith("#") else f"All about {concern}."
        code = "\n".join(body).strip("\n")
        module = f'"""{about}"""\n\n{_needed(text, code)}\n{_gap(code)}{code}\n'
        left = [*lines[: start + 1], *imported(concern, names_of(code)).splitlines()]
        after = ["", "", *lines[end:]] if end < len(lines) else []
        return module, "\n".join([*left, *after]) + "\n"
    return None


def _gap(code: str) -> str:
    """Two blank lines before a class or a function, one before a constant."""
    return "\n" if code.startswith(("def ", "class ", "@")) else ""


def names_of(code: str) -> list[str]:
    """The public names that a piece of code defines: constants, classes, functions, each sorted."""
    found: set[str] = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    public = (name for name in found if not name.startswith("_"))
    return sorted(public, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def imported(module: str, names: Iterable[str]) -> str:
    """The statement that imports names from a module of the shop, in lines of at most 120 characters."""
    names = list(names)
    line = f"from shopfront.{module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"from shopfront.{module} import (", *(f"    {name}," for name in names), ")"])


def _needed(text: str, code: str) -> str:
    """The imports of `text` that `code` uses, one blank line between the library's and the shop's."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    library, shop = [], []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            library += [f"import {each.name}" for each in node.names if (each.asname or each.name) in used]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [each.name for each in node.names if each.name in used]
            if names and node.module.startswith("shopfront."):
                shop.append(imported(node.module.removeprefix("shopfront."), names))
            elif names:
                library.append(f"from {node.module} import {', '.join(names)}")
    blocks = ["\n".join(each) + "\n" for each in (library, sorted(shop)) if each]
    return "\n".join(blocks)


def homes(settings: str) -> dict[str, str]:
    """Where the names live that a module hands on: name -> module of the shop."""
    return {
        each.name: node.module.removeprefix("shopfront.")
        for node in ast.parse(settings).body
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("shopfront.")
        for each in node.names
    }


def imports_from(text: str, module: str) -> bool:
    """Whether a module of the shop is imported from."""
    return any(
        isinstance(node, ast.ImportFrom) and node.module == f"shopfront.{module}" for node in ast.parse(text).body
    )


def rewired(text: str, where: Mapping[str, str]) -> str:
    """`text` with what it takes from settings taken from where it lives; the shop's imports in order of module."""
    if not imports_from(text, "settings"):
        return text
    lines = text.splitlines()
    block = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "shopfront"
    ]
    wanted: dict[str, list[str]] = {}
    for node in block:
        for each in node.names:
            home = (
                node.module if node.module != "shopfront.settings" else f"shopfront.{where.get(each.name, 'settings')}"
            )
            wanted.setdefault(home or "", []).append(each.name)
    new = []
    for module, names in sorted(wanted.items()):
        plain = module == "shopfront"
        line = f"from shopfront import {', '.join(names)}" if plain else imported(module.partition(".")[2], names)
        new += line.splitlines()
    start, end = block[0].lineno - 1, block[-1].end_lineno or block[-1].lineno
    return "\n".join([*lines[:start], *new, *lines[end:]]) + "\n"


def register(text: str, *names: str) -> str:
    """The package's list of concerns with `names` in it, in order, settings last."""
    for name in names:
        if f'    "{name}",\n' not in text:
            text = text.replace('    "settings",\n', f'    "{name}",\n    "settings",\n', 1)
    return ordered(text)


def ordered(text: str) -> str:
    """The list of concerns in the order of their sections, whoever has added to it first."""
    places = {f'    "{name}",': place for place, name in enumerate(ORDER)}
    lines = text.splitlines()
    found = [number for number, line in enumerate(lines) if line in places]
    for number, line in zip(found, sorted((lines[each] for each in found), key=lambda each: places[each]), strict=True):
        lines[number] = line
    return "\n".join(lines) + "\n" if found else text


def unregister(text: str, name: str) -> str:
    return text.replace(f'    "{name}",\n', "", 1)


def union(text: str) -> str:
    """Both sides of each conflict that is marked in `text`, what both have only once, the marks gone."""
    kept: list[str] = []
    ours: list[str] = []
    side = ""
    for line in text.splitlines():
        mark = line[:7]
        if mark == "<<<<<<<":
            side, ours = "ours", []
        elif mark in ("|||||||", "=======") and side:
            side = "base" if mark == "|||||||" else "theirs"
        elif mark == ">>>>>>>" and side:
            side = ""
        elif side != "base" and not (side == "theirs" and line in ours):
            kept.append(line)
            if side == "ours":
                ours.append(line)
    return "\n".join(kept) + "\n" if text else text


def smallest_edit(old: str, new: str) -> tuple[str, str]:
    """What to replace by what to make `new` of `old`: whole lines, with as many around as make it the only match."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    while True:
        piece = "".join(before[head : len(before) - tail])
        if piece and old.count(piece) == 1:
            return piece, "".join(after[head : len(after) - tail])
        if head == 0 and tail == 0:
            return old, new
        head, tail = max(0, head - 1), max(0, tail - 1)

"""Permission rules: `Bash(git status:*)`, `Bash(make test)`, `Edit(src/**)`, `Read(docs/**)`, `Write(*.md)`, a tool.

They are advice on top of the sandbox. deny comes before ask, ask before allow. A rule that allows a command line has to
match every simple command in it, in a line that was understood whole; a rule that denies or asks matches what commands
could be found in it, which somebody who wants to hides easily.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Literal

from coterie.errors import UsageError
from coterie.teammates.permissions import shell
from coterie.teammates.permissions.programs import can_run_others, hazard, runs_others

__all__ = ["FAMILIES", "Rule", "Rules", "Say", "Verdict", "parse_rule"]

Kind = Literal["allow", "ask", "deny"]
FAMILIES = {
    "Bash": ("bash",),
    "Read": ("read_file", "glob", "grep"),
    "Edit": ("edit_file", "write_file"),
    "Write": ("write_file",),
}
"""The names that rules are known by, and the tools that each of them speaks of."""
_FORM = "a tool's name, or Bash(words), Bash(words:*), Read(path), Edit(path), Write(path)"


class Say(StrEnum):
    """What the rules say of a call."""

    NOTHING = "nothing"
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True)
class Verdict:
    """What the rules say of a call, and why."""

    say: Say = Say.NOTHING
    why: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule. What it holds in parentheses is words of a command, or a pattern of paths."""

    text: str
    tools: tuple[str, ...]
    words: tuple[str, ...] = ()
    more: bool = False  # other words may follow
    path: re.Pattern[str] | None = None

    def allows_command(self, words: Sequence[shell.Word]) -> bool:
        """Whether it allows this simple command: word for word, and nothing in it that starts what no rule sees."""
        if len(words) < len(self.words) or (len(words) > len(self.words) and not self.more):
            return False
        same = all(word.literal == mine for word, mine in zip(words, self.words, strict=False))
        return same and (not self.more or hazard(words) is None)

    def finds_command(self, words: Sequence[str]) -> bool:
        """Whether it speaks of this command, by the name of its program: also behind one that runs others."""
        if words and can_run_others(_base(words[0])):
            words = " ".join(words).split()
            return any(self._is_at(words[start:]) for start in range(len(words)))
        return bool(words) and self._is_at(words)

    def _is_at(self, words: Sequence[str]) -> bool:
        mine = (_base(self.words[0]), *self.words[1:])
        found = (_base(words[0]), *words[1:])
        return found[: len(mine)] == mine and (self.more or len(found) == len(mine))


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def parse_rule(text: str, kind: Kind) -> Rule:
    """A rule from its text. Raises `UsageError` with what was expected."""
    match = re.fullmatch(r"\s*([A-Za-z_]+)(?:\((.*)\))?\s*", text, re.DOTALL)
    if match is None:
        raise UsageError(f"{text!r}: expected {_FORM}")
    name, inside = match[1], match[2]
    tools = FAMILIES.get(name, (name,))
    if inside is not None and not inside.strip():
        raise UsageError(f"{text!r}: there is nothing in the parentheses: expected {_FORM}")
    if inside is None or inside.strip() == "*":
        if inside is not None and name not in FAMILIES:
            raise UsageError(f"{text!r}: {name} takes nothing in parentheses: expected {_FORM}")
        if name[0].isupper() and name not in FAMILIES:
            raise UsageError(f"{text!r}: there is no tool {name}: expected {_FORM}")
        return Rule(text, tools)
    if name not in FAMILIES:
        raise UsageError(f"{text!r}: {name} takes nothing in parentheses: expected {_FORM}")
    if name == "Bash":
        return _of_command(text, inside.strip(), kind)
    from coterie.teammates.tools.searching import pattern  # the tools lean on the gate, and that on the rules

    parts = PurePosixPath(inside.strip()).parts
    if inside.strip().startswith(("/", "~")) or ".." in parts:
        raise UsageError(f"{text!r}: expected a path pattern inside the worktree, such as src/**")
    try:
        return Rule(text, tools, path=pattern(str(PurePosixPath(*parts))))
    except re.error as error:
        raise UsageError(f"{text!r}: expected a path pattern such as src/**: {error}") from None


def _of_command(text: str, inside: str, kind: Kind) -> Rule:
    more = inside.endswith(":*")
    line = shell.read(inside.removesuffix(":*"))
    if line.doubt is not None or len(line.commands) != 1:
        why = line.doubt or "it is more than one command"
        raise UsageError(f"{text!r}: expected the words of one simple command, with :* for any that follow: {why}")
    words = []
    for word in line.commands[0]:
        if word.literal is None:
            raise UsageError(
                f"{text!r}: expected plain words: {word.text} stands for others. Any words that follow are :*, "
                "a star that is meant is quoted"
            )
        words.append(word.literal)
    if kind == "allow" and more and runs_others(_base(words[0])):
        raise UsageError(
            f"{text!r}: {words[0]} runs what its arguments say, so this would allow any command: "
            "expected the whole command without :*, or Bash for all"
        )
    return Rule(text, FAMILIES["Bash"], words=tuple(words), more=more)


@dataclass(frozen=True)
class Rules:
    """All rules that are in force."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, allow: Sequence[str], ask: Sequence[str], deny: Sequence[str]) -> Rules:
        """From their texts. Raises `UsageError`."""
        return cls(
            allow=tuple(parse_rule(each, "allow") for each in allow),
            ask=tuple(parse_rule(each, "ask") for each in ask),
            deny=tuple(parse_rule(each, "deny") for each in deny),
        )

    def verdict(
        self, tool: str, *, changes: bool, command: str | None = None, path: str | None = None, root: Path | None = None
    ) -> Verdict:
        """What they say of a call of `tool`. changes: whether it can change something, so that it is asked about where
        there are rules that allow and none of them does. command: the line it would run. path: what it would touch,
        as the model wrote it, in the worktree `root`."""
        if not (self.allow or self.ask or self.deny):
            return Verdict()
        line = shell.read(command) if command is not None else None
        paths = _paths(path, root) if path is not None and root is not None else None
        for say, rules in ((Say.DENY, self.deny), (Say.ASK, self.ask)):
            for rule in rules:
                if tool in rule.tools and _speaks_of(rule, line, paths):
                    return Verdict(say, f"the rule {say} {rule.text}")
        mine = [rule for rule in self.allow if tool in rule.tools]
        if any(_is_bare(rule) for rule in mine):
            return Verdict(Say.ALLOW)
        inside = paths is not None and not any(PurePosixPath(each).parts[:1] == (os.pardir,) for each in paths)
        if inside and any(rule.path and all(rule.path.fullmatch(each) for each in paths or ()) for rule in mine):
            return Verdict(Say.ALLOW)
        why = "no rule allows it"
        if line is not None:
            left = _not_allowed(mine, line)
            if left is None:
                return Verdict(Say.ALLOW)
            why = f"no rule allows it: {left}"
        return Verdict(Say.ASK, why) if self.allow and changes else Verdict()

    @property
    def speak_of_paths(self) -> bool:
        """Whether any of them names a path."""
        return any(rule.path is not None for rule in (*self.allow, *self.ask, *self.deny))


def _is_bare(rule: Rule) -> bool:
    return not rule.words and rule.path is None


def _speaks_of(rule: Rule, line: shell.Line | None, paths: tuple[str, ...] | None) -> bool:
    if rule.words:
        return line is not None and any(rule.finds_command(words) for words in line.loose)
    if rule.path is not None:
        return bool(paths) and any(rule.path.fullmatch(each) for each in paths or ())
    return True


def _not_allowed(rules: Sequence[Rule], line: shell.Line) -> str | None:
    """The part of a line that no rule allows, in words; None where each of its commands is allowed by one."""
    if line.doubt is not None:
        return line.doubt
    moved = False  # into another folder, where a relative program, and git, are others than here
    for words in line.commands:
        said = " ".join(word.text for word in words)
        if moved and ("/" in words[0].text or words[0].text == "git"):
            return f"{said[:80]!r} runs in another folder"
        if not any(rule.words and rule.allows_command(words) for rule in rules):
            return hazard(words) or f"{said[:80]!r} matches none"
        moved = moved or words[0].text in ("cd", "pushd", "popd")
    return None


def _paths(given: str, root: Path) -> tuple[str, ...]:
    """The path as it was written and as it resolves, from the worktree; one outside of it stays as it is."""
    said = os.path.normpath(root / given)
    real = os.path.realpath(said)
    return tuple(dict.fromkeys((os.path.relpath(said, root), os.path.relpath(real, os.path.realpath(root)))))

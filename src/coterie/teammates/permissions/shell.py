"""What a command line would run, read with tree-sitter-bash: the one door to it.

Two readings. The strict one, for rules that allow: every simple command of the line, or why the line is not understood.
It knows pipes, `&&`, `||`, `;`, new lines, groups, plain and quoted words; everything else (`$(…)`, a function, a
here-doc, an assignment, a file that is written …) is a doubt. Since a grammar of bash is not bash, it believes the
tree only as far as it can check it: each word has to look like one, and between two words there is nothing but blanks.
The loose one, for rules that deny or ask, finds what commands it can, anywhere in the line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Line", "Word", "read"]

LONGEST = 4000  # characters of a line that are read: a longer one is a doubt, and the parser's time is not linear
DEEPEST = 50  # levels of the tree that are looked into

_PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,^~*?\[\]-]+")  # no backslash, brace, bang, hash: nothing that has two readings
_NAME = re.compile(r"[A-Za-z0-9_./@%+,:-]+")  # of a command: nothing in it is expanded, and it is no assignment
_SINGLE = re.compile(r"'[^']*'")
_VARIABLE = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]|\{[A-Za-z_][A-Za-z0-9_]*\})"
_DOUBLE = re.compile(rf'"(?:[^"\\`$]|\\[^\n]|{_VARIABLE})*"')
_EXPANSION = re.compile(_VARIABLE)
_HARMLESS = re.compile(r"(?:[12&]?>>?|0?<)[ \t]*/dev/null|[12]?>&[12]")  # redirections that touch no file
_REDIRECTION = -1  # in place of a command's number: it belongs to the command that it stands in
_GLOB = frozenset("*?[")
_RESERVED = frozenset({
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "time", "until", "while",
})  # fmt: skip
_JOINTS = frozenset({"&&", "||", "|", "|&", ";", "\n"})
_GROUPS = frozenset({"list", "pipeline", "subshell", "compound_statement", "negated_command"})
_BRACKETS = {"subshell": ("(", ")"), "compound_statement": ("{", "}"), "negated_command": ("!",)}
_WORDS = frozenset({"word", "number", "string", "raw_string", "simple_expansion", "expansion", "concatenation"})


@dataclass(frozen=True)
class Word:
    """A word of a command."""

    text: str  # as it is written
    literal: str | None  # what bash makes of it; None where that depends on variables or files

    @property
    def may_be_option(self) -> bool:
        """Whether what it becomes could begin with a dash: a variable, or the name of a file that somebody made."""
        if self.literal is not None:
            return self.literal.startswith("-")
        return self.text.startswith(("$", '"$', "-", *_GLOB))


@dataclass(frozen=True)
class Line:
    """A command line as it was understood."""

    commands: tuple[tuple[Word, ...], ...]  # every simple command, where there is no doubt
    doubt: str | None  # what was not understood
    loose: tuple[tuple[str, ...], ...]  # the words of every command that was found at all, quotes left out


class _Doubt(Exception):
    """A part of the line has another form than those that are known."""


def read(line: str) -> Line:
    """`line` in both readings. Never fails: what cannot be read is a doubt."""
    if len(line) > LONGEST:
        return Line((), f"the line is longer than {LONGEST} characters", read(line[:LONGEST]).loose)
    try:
        source = line.encode()
    except UnicodeEncodeError:
        return Line((), "the line is not valid Unicode", ())
    if "\0" in line or "\r" in line:
        return Line((), "there is a control character in it", ())
    root = _parser().parse(source).root_node
    loose = tuple(words for node in _all(root, "command") if (words := _loosely(node)))
    strict = _Strict()
    try:
        if root.has_error:
            raise _Doubt("it is not complete shell syntax")
        strict.group(root, 0)
        strict.expect_whole(source)
        if not strict.commands:
            raise _Doubt("there is no command in it")
    except _Doubt as doubt:
        return Line((), str(doubt), loose)
    return Line(tuple(strict.commands), None, loose)


@functools.cache
def _parser() -> Any:
    import tree_sitter  # only where there are rules: it is not needed for anything else
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


# ---------------------------------------------------------------------------------------------------------- strictly


class _Strict:
    """The commands of one line, and every piece of it that was taken in."""

    def __init__(self) -> None:
        self.commands: list[tuple[Word, ...]] = []
        self._pieces: list[tuple[Any, int | None]] = []  # a word with the number of its command; a joint, with None

    def group(self, node: Any, depth: int) -> None:
        """Take in what a node joins."""
        if depth > DEEPEST:
            raise _Doubt("it is nested too deeply")
        for child in node.children:
            kind = child.type
            if kind in _GROUPS or kind == "redirected_statement":
                self.group(child, depth + 1)
            elif kind == "command":
                self._command(child)
            elif kind == "file_redirect":
                self._redirection(child)
            elif not child.is_named and (kind in _JOINTS or kind in _BRACKETS.get(node.type, ())):
                self._pieces.append((child, None))
            else:
                raise _Doubt(f"{_shown(child)} is more than words and pipes")

    def _command(self, node: Any) -> None:
        """The words of a simple command, its name first."""
        words: list[Word] = []
        for child in node.children:
            if child.type == "file_redirect":
                self._redirection(child)
                continue
            part = child
            if child.type == "command_name":
                part = child.children[0] if len(child.children) == 1 else child
                if part.type != "word" or not _NAME.fullmatch(_text(part)):
                    raise _Doubt(f"{_shown(child)} is no plain name of a command")
            if part.type not in _WORDS:
                raise _Doubt(f"{_shown(child)} is more than words and pipes")
            words.append(_word(part))
            self._pieces.append((part, len(self.commands)))
        if not words or words[0].text in _RESERVED:
            raise _Doubt(f"{_shown(node)} has no plain name of a command")
        self.commands.append(tuple(words))

    def _redirection(self, node: Any) -> None:
        if not _HARMLESS.fullmatch(_text(node)):
            raise _Doubt(f"{_shown(node)} reads or writes a file")
        self._pieces.append((node, _REDIRECTION))

    def expect_whole(self, source: bytes) -> None:
        """Nothing but blanks may stand between the pieces, and what belongs together or apart has to look it."""
        self._pieces.sort(key=lambda piece: int(piece[0].start_byte))
        end = 0
        before: int | None = None  # the command that the last word was of; None after a joint
        joint = True
        for node, owner in self._pieces:
            gap = source[end : node.start_byte].decode("utf-8", "replace")
            if gap.strip(" \t\n"):
                raise _Doubt(f"{_shown_text(gap)} is more than words and pipes")
            if owner is not None and not joint:
                if not gap:
                    raise _Doubt(f"{_shown(node)} touches what stands before it")
                if before is not None and ("\n" in gap) is (owner in (before, _REDIRECTION)):
                    raise _Doubt(f"{_shown(node)} is no part of the command that it seems to be of")
            end, joint = node.end_byte, owner is None
            before = before if owner == _REDIRECTION else owner
        if source[end:].strip(b" \t\n"):
            raise _Doubt(f"{_shown_text(source[end:].decode('utf-8', 'replace'))} is more than words and pipes")


def _word(node: Any) -> Word:
    text = _text(node)
    parts = node.children if node.type == "concatenation" else [node]
    end = node.start_byte
    made: list[str] | None = []
    for part in parts:
        if part.start_byte != end:
            raise _Doubt(f"{_shown(node)} has something hidden in it")
        end = part.end_byte
        value = _part(part)
        made = None if value is None or made is None else [*made, value]
    if end != node.end_byte:
        raise _Doubt(f"{_shown(node)} has something hidden in it")
    return Word(text, None if made is None else "".join(made))


def _part(node: Any) -> str | None:
    """What bash makes of a piece of a word; None where that depends on variables or files."""
    text = _text(node)
    match node.type:
        case "word" | "number" if _PLAIN.fullmatch(text):
            return None if _GLOB & set(text) or "~" in text else text
        case "raw_string" if _SINGLE.fullmatch(text):
            return text[1:-1]
        case "string" if _DOUBLE.fullmatch(text):
            inner = text[1:-1]
            if _EXPANSION.search(re.sub(r"\\.", "", inner, flags=re.DOTALL)):
                return None
            return re.sub(r'\\([$`"\\])', r"\1", inner)
        case "simple_expansion" | "expansion" if _EXPANSION.fullmatch(text):
            return None
    raise _Doubt(f"{_shown(node)} is no plain word")


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))


def _shown(node: Any) -> str:
    return _shown_text(_text(node))


def _shown_text(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 40 else text[:39] + "…")


# ----------------------------------------------------------------------------------------------------------- loosely


def _all(node: Any, kind: str) -> Iterator[Any]:
    """Every node of a kind, in order, however deep: without recursion, since a line can be made deep."""
    todo = [node]
    while todo:
        each = todo.pop()
        if each.type == kind:
            yield each
        todo += reversed(each.children)


def _loosely(command: Any) -> tuple[str, ...]:
    texts = [_text(each) for each in command.children if each.type not in ("variable_assignment", "file_redirect")]
    return tuple(re.sub(r"['\"\\]|\$(?=['\"])", "", each) for each in texts)

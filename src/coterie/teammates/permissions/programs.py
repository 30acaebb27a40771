"""Programs that start others: those that exist for it, and options of those that do it in passing.

No list of this kind is whole. Where a rule names a program (`Bash(make:*)`, `Bash(pytest:*)`), it allows whatever that
program can be made to do by its arguments and its files; what stands here is what nobody would expect.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from coterie.teammates.permissions.shell import Word

__all__ = ["can_run_others", "hazard", "runs_others"]

_RUN_OTHERS = frozenset({
    ".", "source", "eval", "exec", "command", "builtin", "trap", "alias", "unalias", "enable", "hash", "bind",
    "complete", "compgen", "coproc", "declare", "export", "local", "let", "mapfile", "readarray", "read", "readonly",
    "set", "shopt", "typeset", "unset", "wait", "sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "zsh", "csh",
    "tcsh", "busybox", "toybox", "env", "xargs", "parallel", "chroot", "doas", "fakeroot", "flock", "ionice", "nice",
    "nohup", "nsenter", "pkexec", "runuser", "script", "setarch", "setpriv", "setsid", "ssh", "stdbuf", "strace",
    "ltrace", "gdb", "su", "sudo", "taskset", "time", "timeout", "unshare", "watch", "ld.so",
})  # fmt: skip
_OPTIONS: dict[str, tuple[tuple[str, ...], re.Pattern[str]]] = {
    "fd": (("--exec", "--exec-batch"), re.compile(r"-[a-zA-Z]*[xX].*")),
    "find": ((), re.compile(r"-(exec|ok|delete|fprint|fls).*")),
    "git": (
        ("--exec", "--ext-diff", "--open-files-in-pager", "--output", "--receive-pack", "--textconv", "--upload-pack"),
        re.compile(r"-O.*"),
    ),
    "printf": ((), re.compile(r"-v.*")),
    "rg": (("--hostname-bin", "--pre"), re.compile(r"(?!)")),
    "sort": (("--compress-program", "--output"), re.compile(r"-[a-zA-Z]*o.*")),
    "split": (("--filter",), re.compile(r"(?!)")),
    "tar": (
        ("--checkpoint-action", "--info-script", "--new-volume-script", "--rsh-command", "--to-command",
         "--use-compress-program"),
        re.compile(r"-?[a-zA-Z]*[IF].*"),
    ),
    "test": ((), re.compile(r"-[vR].*")),
}  # fmt: skip
"""By program: long and short options that start another program, evaluate what they are given, or write a file.
A long one may be cut short, as far as these programs take it."""


def runs_others(program: str) -> bool:
    """Whether a program, or a part of the shell, exists to run or evaluate what its arguments say."""
    return program in _RUN_OTHERS


def can_run_others(program: str) -> bool:
    """The same, or by an option that is known."""
    return program in _RUN_OTHERS or program in _OPTIONS


def hazard(words: Sequence[Word]) -> str | None:
    """What in a command may start another one, or write, without being seen; None where nothing is known to."""
    name = words[0].text.rpartition("/")[2]
    if runs_others(name):
        return f"{name} runs what its arguments say"
    if name not in _OPTIONS:
        return None
    if name == "git" and len(words) > 1 and words[1].may_be_option:
        return f"{words[1].text} before a subcommand can make git run others"
    for word in words[1:]:
        if word.literal is None and word.may_be_option:
            return f"{word.text} may become an option of {name} that runs others, or writes"
        if _is_hazardous(name, word.literal if word.literal is not None else word.text):
            return f"{name} {word.text} runs others, or writes"
    return None


def _is_hazardous(program: str, argument: str) -> bool:
    long, short = _OPTIONS[program]
    if argument.startswith("--"):
        option = argument.partition("=")[0]
        return len(option) > 2 and any(each.startswith(option) or option.startswith(each) for each in long)
    return short.fullmatch(argument) is not None

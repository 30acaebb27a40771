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
    "complete", "compgen", "coproc", "declare", "export", "fc", "local", "let", "mapfile", "readarray", "read",
    "readonly", "set", "shopt", "typeset", "unset", "wait", "sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "zsh",
    "csh", "tcsh", "busybox", "toybox", "env", "xargs", "parallel", "chroot", "doas", "fakeroot", "flock", "ionice",
    "nice", "nohup", "nsenter", "pkexec", "runuser", "script", "setarch", "setpriv", "setsid", "ssh", "stdbuf",
    "strace", "ltrace", "gdb", "su", "sudo", "taskset", "time", "timeout", "unshare", "watch", "ld.so",
})  # fmt: skip


def _begins(*options: str) -> re.Pattern[str]:
    return re.compile(rf"-(?:{'|'.join(options)}).*", re.DOTALL)


def _bundled(letters: str) -> re.Pattern[str]:
    """A word of short options with one of these in it, wherever: behind others, digits among them, and with a value."""
    return re.compile(rf"-.*[{letters}].*", re.DOTALL)


_NONE = re.compile(r"(?!)")
_FD = (("--exec", "--exec-batch"), _bundled("xX"))
_OPTIONS: dict[str, tuple[tuple[str, ...], re.Pattern[str]]] = {
    "fd": _FD,
    "fdfind": _FD,
    "find": ((), _begins("exec", "ok", "delete", "fprint", "fls")),
    "git": (
        ("--exec", "--ext-diff", "--open-files-in-pager", "--output", "--receive-pack", "--textconv", "--upload-pack"),
        _begins("O"),
    ),
    "git apply": (("--build-fake-ancestor",), _NONE),
    "git archive": ((), _bundled("o")),
    "git bugreport": ((), _bundled("o")),
    "git clone": (("--config",), _bundled("cu")),
    "git diagnose": ((), _bundled("o")),
    "git difftool": (("--extcmd", "--tool"), _bundled("tx")),
    "git fast-export": (("--export-marks",), _NONE),
    "git format-patch": ((), _bundled("o")),
    "git grep": ((), _bundled("O")),
    "git mergetool": (("--tool",), _bundled("t")),
    "git read-tree": (("--index-output",), _NONE),
    "git rebase": ((), _bundled("x")),
    "jobs": ((), _bundled("x")),
    "man": (("--config-file", "--html", "--pager"), _bundled("CHP")),
    "printf": ((), _begins("v")),
    "rg": (("--hostname-bin", "--pre"), _NONE),
    "sort": (("--compress-program", "--output"), _bundled("o")),
    "split": (("--filter",), _NONE),
    "tar": (
        ("--checkpoint-action", "--info-script", "--new-volume-script", "--rmt-command", "--rsh-command",
         "--to-command", "--use-compress-program"),
        # its first word needs no dash, and an archive that has a colon is on another machine, reached by a program
        re.compile(r"-.*[IF].*|[a-zA-Z0-9]*[IF].*|.*:.*", re.DOTALL),
    ),
    "test": ((), _begins("v", "R")),
}  # fmt: skip
"""By program, and of git by subcommand too: long and short options that start another program, evaluate what they are
given, or write a file. A long one may be cut short, as far as these programs take it. Which options take a value is not
looked at: `git grep -eO` is taken for one that opens a pager, which is asked about and no more."""


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
    tables = [name]
    if name == "git" and len(words) > 1:
        part = f"git {words[1].literal}"  # where it is not known, it may be any
        tables += [each for each in _OPTIONS if each.startswith("git ") and (each == part or words[1].literal is None)]
    for word in words[1:]:
        if word.literal is None and word.may_be_option:
            return f"{word.text} may become an option of {name} that runs others, or writes"
        given = word.literal if word.literal is not None else word.text
        if any(_is_hazardous(each, given) for each in tables):
            return f"{name} {word.text} runs others, or writes"
    return None


def _is_hazardous(program: str, argument: str) -> bool:
    long, short = _OPTIONS[program]
    if argument.startswith("--"):
        option, _, value = argument.partition("=")
        if program == "tar" and ":" in value:
            return True
        return len(option) > 2 and any(each.startswith(option) or option.startswith(each) for each in long)
    return short.fullmatch(argument) is not None

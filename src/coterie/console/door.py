"""The way in and the way out: which command it is, and how its end becomes an exit code and one line of text."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from coterie.errors import CoterieError

PIPE_CLOSED = 141  # what a shell says of a process that wrote to a pipe nobody reads any more
INTERRUPTED = 130


def enter(words: Sequence[str]) -> int:
    """Run the command that `words` (without the program's name) ask for; answers the exit code.

    Whatever goes wrong is one line on standard error, never a traceback (`COTERIE_TRACEBACK=1` shows it).
    """
    _make_readable()
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        forget_output()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except CoterieError as error:
        complain(told(error))
        return exit_code_of(error)
    except Exception as error:
        if os.environ.get("COTERIE_TRACEBACK"):
            raise
        if isinstance(error, OSError):
            complain(f"{error.filename or 'a file or stream'}: {error.strerror or error}")
            forget_output()  # maybe it was that; what is in its buffer must not become an error at exit
            return 5
        complain(f"{type(error).__name__}: {error} (COTERIE_TRACEBACK=1 shows where)")
        return 1


def exit_code_of(error: CoterieError) -> int:
    """What a command ends with for this error: a state file that cannot be read is damage, whoever met it."""
    from coterie.files import Unreadable

    return 3 if isinstance(error, Unreadable) else error.exit_code


def told(error: CoterieError) -> str:
    """An error as a person is told it: what is wrong, and which command shows more."""
    match error.see:
        case None:
            return str(error)
        case "board" | "team" | "inbox":
            return f"{error}: see coterie {error.see}"
        case request if request.startswith("R"):
            return f"{error}: see coterie review {request}"
    return f"{error}: see coterie show {error.see}"


def complain(text: str) -> None:
    """One sentence on standard error: a line, or as many as the window is too narrow for."""
    from coterie.console.paint import Paper, one_line

    with contextlib.suppress(OSError, ValueError):
        Paper(sys.stderr).prose(f"coterie: {one_line(text, 4000)}")
        sys.stderr.flush()


def _dispatch(words: Sequence[str]) -> int:
    if words[:1] == ["board"]:  # looked at over and over: it does without the command line's machinery
        from coterie.console import board

        asked = board.plain(words[1:])
        if asked is not None:
            return board.show(**asked)
    from coterie.console.app import run

    return run(words)


def expect_a_person() -> None:
    """Raise `Refused` where a command of a team started this: nothing is decided or steered from in there."""
    from coterie.errors import Refused
    from coterie.teammates.ancestry import command_above

    if (why := command_above()) is not None:
        raise Refused(f"this was started by a command of a team ({why}): only a person steers it, from outside of it")


def _make_readable() -> None:
    """Characters that the output's encoding lacks become others instead of an error; a closed stream is no stream."""
    from coterie.console.paint import soften

    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        soften(stream)


def forget_output() -> None:
    """Nobody reads standard output any more: what is still in its buffer must not become an error at exit."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)

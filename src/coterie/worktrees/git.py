"""The one runner for git. The only file that imports gitpython, whose option-building never sees outside input."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # without git, gitpython fails at import; we say it ourselves

import git as gitpython
from pydantic import BaseModel, ConfigDict

from coterie import files
from coterie.errors import CoterieError, EnvironmentFault
from coterie.worktrees.locks import PATIENCE, drop_stale

__all__ = ["END", "ZERO", "Git", "GitError", "Where", "execute", "git_command", "leads_to", "place_of"]

END = "--end-of-options"  # what follows is none, whatever it begins with
ZERO = ""  # as the old value of a ref: it must not exist (in SHA-1 and SHA-256 repositories alike)
NOBODY = "runtime@coterie.invalid"

# What a repository's or a user's configuration must not decide for the runtime's own calls.
_PINNED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=true",
    "core.quotePath=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.ignoreStat=false",
    "core.safecrlf=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "color.ui=false",
    "color.diff=false",
    "color.status=false",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "protocol.allow=never",
    "credential.helper=",
    "merge.conflictStyle=merge",
    "worktree.useRelativePaths=false",
)
_OURS = ("core.sparseCheckout=false",)  # our worktrees are whole, whatever the person's checkout is
_PROGRAM = re.compile(
    r"(?:filter\..*\.(?:clean|smudge|process)|merge\..*\.driver|diff\..*\.(?:command|textconv))", re.DOTALL
)
_KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "USER", "LOGNAME")


class GitError(CoterieError):
    """git refused or failed."""

    def __init__(self, argv: Sequence[str], exit_code: int, stderr: str) -> None:
        said = stderr.strip() or f"exit code {exit_code}"
        super().__init__(f"git {' '.join(argv[:6])}: {said[:2000]}")
        self.argv = tuple(argv)
        self.code = exit_code
        self.stderr = stderr
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            if os.strerror(number) in stderr:
                self.__cause__ = OSError(number, os.strerror(number))  # what it ran out of: see `files.shortage`


class Where(BaseModel):
    """Where a call acts, pinned: a worktree's own metadata folder and its files. Without: on the repository alone."""

    model_config = ConfigDict(frozen=True)

    metadata: Path
    path: Path
    ours: bool = True  # made by the runtime; the person's checkouts are not


class Git:
    """Runs git on one repository: no shell, nothing inherited but a few variables, no program of anybody's choice.

    Filters and merge drivers (such as git-lfs) are those of the user's own settings; one that the repository's
    configuration names is not run, and git fails where that says it is required. Calls may be made from any thread.
    """

    def __init__(self, common_dir: Path) -> None:
        self.common_dir = common_dir
        self.patience = PATIENCE
        self._runner = gitpython.Git(str(common_dir))
        self._programs: dict[Path, tuple[object, dict[str, str]]] = {}  # by git dir: what was looked at, the answer

    def run(
        self,
        *argv: str,
        where: Where | None = None,
        index: Path | None = None,
        author: str = "runtime",
        timeout: float = 120.0,
        ok: Sequence[int] = (0,),
        stdin: bytes | None = None,
        attributes: Path | None = None,
    ) -> str:
        """What git prints, without the newline at its end. Raises `GitError` for an exit code that is not in `ok`.

        index: another index file than the worktree's. attributes: a file of them, for calls without a worktree.
        author: who a commit made by this call is by; the committer is always the runtime. timeout: seconds; past it
        git is killed.
        """
        return self.call(
            *argv, where=where, index=index, author=author, timeout=timeout, ok=ok, stdin=stdin, attributes=attributes
        )[1]

    def call(
        self,
        *argv: str,
        where: Where | None = None,
        index: Path | None = None,
        author: str = "runtime",
        timeout: float = 120.0,
        ok: Sequence[int] = (0,),
        stdin: bytes | None = None,
        attributes: Path | None = None,
    ) -> tuple[int, str]:
        """As `run`, with the exit code before the text."""
        pins = {"GIT_DIR": str(self.common_dir), "GIT_COMMON_DIR": str(self.common_dir)}
        git_dir = self.common_dir if where is None else where.metadata
        if not leads_to(git_dir, self.common_dir):  # git looks for refs there, whatever GIT_COMMON_DIR says
            raise GitError(argv, 128, f"{git_dir}/commondir was changed: it has to lead to {self.common_dir}")
        if where is not None:
            pins |= {"GIT_DIR": str(where.metadata), "GIT_WORK_TREE": str(where.path)}
        if index is not None:
            pins["GIT_INDEX_FILE"] = str(index)
        pins["GIT_AUTHOR_NAME"] = author if author == "runtime" else f"{author} (coterie)"
        pins["GIT_AUTHOR_EMAIL"] = NOBODY if author == "runtime" else f"{author}@coterie.invalid"
        settings = _PINNED + _OURS if where is not None and where.ours else _PINNED
        fsync = "all" if files.survives() is files.Durability.POWER else "none"
        settings = (*settings, f"core.fsync={fsync}")
        if attributes is not None:
            settings = (*settings, f"core.attributesFile={attributes}")
        configured = [part for each in settings for part in ("-c", each)]
        if where is not None or argv[0] == "merge-tree":
            off = self._foreign_programs(git_dir)
            pins["GIT_CONFIG_COUNT"] = str(len(off))
            for number, (key, value) in enumerate(off.items()):
                pins |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        cwd = where.path if where is not None else self.common_dir
        command = ["git", "-C", str(cwd), *configured, *argv]
        return execute(command, pins, timeout, ok, shown=argv, runner=self._runner, stdin=stdin)

    def _foreign_programs(self, git_dir: Path) -> dict[str, str]:
        """Settings that undo the filters and merge drivers of the repository's own configuration.

        Looked up again when one of its files has changed.
        """
        looked = tuple(files.file_mark(each) for each in (self.common_dir / "config", git_dir / "config.worktree"))
        known = self._programs.get(git_dir)
        if known is not None and known[0] == looked:
            return known[1]
        pins = {"GIT_DIR": str(git_dir), "GIT_COMMON_DIR": str(self.common_dir)}
        argv = ["git", "-C", str(self.common_dir), "config", "--list", "--show-scope", "-z"]
        said = execute(argv, pins, 20.0, (0,), shown=("config",), runner=self._runner)[1].split("\0")
        own: dict[str, str] = {}
        foreign: set[str] = set()
        includes = False
        for scope, entry in zip(said[::2], said[1::2], strict=False):
            key, _, value = entry.partition("\n")
            repositorys = scope not in ("system", "global")
            includes = includes or (repositorys and key.startswith(("include.", "includeif.")))
            if not _PROGRAM.fullmatch(key):
                continue
            if repositorys:
                foreign.add(key)
            else:
                own[key] = value
        # an empty filter is none; a merge driver has to fail, for what it leaves unmerged must count as a conflict
        found = {key: own.get(key, "false" if key.startswith("merge.") else "") for key in sorted(foreign)}
        self._programs[git_dir] = (None if includes else looked, found)
        return found

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, *, author: str = "runtime") -> str:
        """A commit that nothing points to yet. The message may be any text: what no commit can hold is taken out."""
        flags = [part for parent in parents for part in ("-p", parent)]
        text = files.redacted(message.replace("\0", "")).encode("utf-8", "replace")
        return self.run("commit-tree", tree, *flags, "-F", "-", author=author, stdin=text)

    def resolve(self, name: str) -> str | None:
        """The commit that a full ref name or an id stands for; None if there is none."""
        code, found = self.call("rev-parse", "--verify", "--quiet", END, f"{name}^{{commit}}", ok=(0, 1, 128))
        return found if code == 0 and found else None

    def update_ref(self, ref: str, new: str, old: str) -> None:
        """Move a ref of ours by compare-and-swap. `old`: what it must be now, ZERO for a ref that must not exist.

        A lock on it that stays the same for `patience` seconds is that of a git that was killed, and is removed.
        """
        argv = ("update-ref", "--create-reflog", END, ref, new, old)
        try:
            self.run(*argv)
        except GitError as error:
            lock = self.common_dir / f"{ref}.lock"
            if f"'{lock}': File exists" not in error.stderr or not drop_stale([lock], patience=self.patience):
                raise
            self.run(*argv)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `newer` has all of `older`."""
        return self.call("merge-base", "--is-ancestor", END, older, newer, ok=(0, 1))[0] == 0


def git_command(process: str) -> str:
    """The id that the git commands of a host process carry in their environment."""
    return f"git-{process}"


def execute(
    command: list[str],
    pins: Mapping[str, str],
    timeout: float,
    ok: Sequence[int],
    *,
    shown: Sequence[str],
    runner: gitpython.Git | None = None,
    stdin: bytes | None = None,
) -> tuple[int, str]:
    """One command that is git, in an environment of exactly what it may know; its exit code and what it prints."""
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # in a worktree a relative one would be a teammate's: a filter of the user's own would be looked for there
    entries = variables.get("PATH", os.defpath).split(os.pathsep)
    variables["PATH"] = os.pathsep.join(each for each in entries if Path(each).is_absolute())
    variables |= {
        "LC_ALL": "C",
        "COTERIE_COMMAND": git_command(files.token()),  # so that recovery finds what outlives its host
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_ASKPASS": "true",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # unlike protocol.allow, no configuration can loosen this
        "GIT_COMMITTER_NAME": "coterie",
        "GIT_COMMITTER_EMAIL": NOBODY,
        "GIT_AUTHOR_NAME": "coterie",
        "GIT_AUTHOR_EMAIL": NOBODY,
        **pins,
    }
    if any("\0" in each for each in command):  # a record that somebody changed by hand: no system call takes it
        raise GitError(shown, 128, "expected text without NUL characters")
    # `env -i`: gitpython adds to the inherited environment, and nothing of that may reach git
    full = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *command]
    with contextlib.nullcontext() if stdin is None else tempfile.TemporaryFile() as given:
        if given is not None:
            given.write(stdin or b"")
            given.seek(0)
        try:
            started = (runner or gitpython.Git("/")).execute(
                full,
                istream=given,
                as_process=True,
                start_new_session=True,  # a Ctrl-C is the host's to handle: git ends what it began
            )
        except gitpython.exc.GitCommandNotFound:
            raise EnvironmentFault("git is not installed, or not on PATH: Coterie needs git 2.38 or later") from None
    assert started.proc is not None
    code, out, err = _ended(started.proc, timeout)
    text = out.decode("utf-8", "surrogateescape")
    if code == 127 or (code == 126 and not text):
        raise EnvironmentFault("git is not installed: Coterie needs git 2.38 or later")
    if code not in ok:
        said = err.decode("utf-8", "replace")
        if re.search(r"(clean|smudge) filter '?\S+ failed", said):
            said += (
                "\n(a filter that only the repository's own configuration names is not run: "
                "if you trust it, set it with `git config --global`)"
            )
        raise GitError(shown, code, said)
    return code, text.removesuffix("\n")


def _ended(process: subprocess.Popen[bytes], timeout: float) -> tuple[int, bytes, bytes]:
    """Wait for git; exit code and both outputs. Past its time it is killed, with what it started, such as a filter."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # what left its session may hold the pipes: let it
            process.communicate(timeout=1.0)
        process.kill()
        return process.wait(), b"", f"did not complete in {timeout:g} s, and was ended".encode()
    return process.returncode, out, err


def place_of(metadata: Path) -> Path | None:
    """Where the files of a linked worktree are, by its metadata."""
    try:
        said = os.fsdecode(files.read_bytes(metadata / "gitdir")).strip()
    except (OSError, files.Unreadable):
        return None
    return Path(os.path.normpath(metadata / said)).parent if said else None


def leads_to(metadata: Path, common_dir: Path) -> bool:
    """Whether a worktree's metadata belong to the repository in `common_dir`."""
    try:
        said = os.fsdecode(files.read_bytes(metadata / "commondir")).strip()
    except FileNotFoundError:
        said = "."  # the repository's own
    except (OSError, files.Unreadable):
        return False
    return said == "../.." or (metadata / said).resolve() == common_dir.resolve()

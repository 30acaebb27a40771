"""The one runner for git. The only file that imports gitpython, whose option-building never sees outside input."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import git as gitpython
from pydantic import BaseModel, ConfigDict

from coterie.errors import CoterieError, EnvironmentFault, UsageError

__all__ = ["ZERO", "Git", "GitError", "Repository", "Where", "find_repository"]

MINIMUM = (2, 38)  # merge-tree --write-tree
ZERO = "0" * 40  # as the old value of a ref: it must not exist
NOBODY = "runtime@coterie.invalid"

# What a repository's or a user's configuration must not decide for the runtime's own calls.
_PINNED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=true",
    "core.quotePath=false",
    "core.fsync=all",
    "core.untrackedCache=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "protocol.allow=never",
    "credential.helper=",
    "merge.conflictStyle=merge",
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


class Where(BaseModel):
    """Where a call acts, pinned: a worktree's own metadata folder and its files. Without: on the repository alone."""

    model_config = ConfigDict(frozen=True)

    metadata: Path
    path: Path


class Git:
    """Runs git on one repository: no shell, nothing inherited but a few variables, no program of anybody's choice.

    Filters (such as git-lfs) stay those of the user's own settings. Calls may be made from any thread.
    """

    def __init__(self, common_dir: Path) -> None:
        self.common_dir = common_dir
        self._runner = gitpython.Git(str(common_dir))

    def run(
        self,
        *argv: str,
        where: Where | None = None,
        index: Path | None = None,
        author: str = "runtime",
        timeout: float = 120.0,
        ok: Sequence[int] = (0,),
    ) -> str:
        """What git prints, without the newline at its end. Raises `GitError` for an exit code that is not in `ok`.

        index: another index file than the worktree's. author: who a commit made by this call is by; the committer is
        always the runtime. timeout: seconds; past it git is killed.
        """
        return self.call(*argv, where=where, index=index, author=author, timeout=timeout, ok=ok)[1]

    def call(
        self,
        *argv: str,
        where: Where | None = None,
        index: Path | None = None,
        author: str = "runtime",
        timeout: float = 120.0,
        ok: Sequence[int] = (0,),
    ) -> tuple[int, str]:
        """As `run`, with the exit code before the text."""
        pins = {"GIT_DIR": str(self.common_dir), "GIT_COMMON_DIR": str(self.common_dir)}
        if where is not None:
            pins |= {"GIT_DIR": str(where.metadata), "GIT_WORK_TREE": str(where.path)}
        if index is not None:
            pins["GIT_INDEX_FILE"] = str(index)
        pins["GIT_AUTHOR_NAME"] = author if author == "runtime" else f"{author} (coterie)"
        pins["GIT_AUTHOR_EMAIL"] = NOBODY if author == "runtime" else f"{author}@coterie.invalid"
        configured = [part for each in _PINNED for part in ("-c", each)]
        cwd = where.path if where is not None else self.common_dir
        return _execute(["git", "-C", str(cwd), *configured, *argv], pins, timeout, ok, shown=argv, runner=self._runner)

    def resolve(self, name: str) -> str | None:
        """The commit that a full ref name or an id stands for; None if there is none."""
        code, found = self.call(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1, 128)
        )
        return found if code == 0 and found else None

    def update_ref(self, ref: str, new: str, old: str) -> None:
        """Move a ref by compare-and-swap. `old`: what it must be now, ZERO for a ref that must not exist."""
        self.run("update-ref", "--create-reflog", ref, new, old)

    def delete_ref(self, ref: str, old: str) -> None:
        """Delete a ref that still is `old`."""
        self.run("update-ref", "-d", ref, old)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `newer` has all of `older`."""
        return self.call("merge-base", "--is-ancestor", older, newer, ok=(0, 1))[0] == 0


def _execute(
    command: list[str],
    pins: Mapping[str, str],
    timeout: float,
    ok: Sequence[int],
    *,
    shown: Sequence[str],
    runner: gitpython.Git | None = None,
) -> tuple[int, str]:
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    variables |= {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_ASKPASS": "true",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_COMMITTER_NAME": "coterie",
        "GIT_COMMITTER_EMAIL": NOBODY,
        "GIT_AUTHOR_NAME": "coterie",
        "GIT_AUTHOR_EMAIL": NOBODY,
        **pins,
    }
    # `env -i`: gitpython adds to the inherited environment, and nothing of that may reach git
    full = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *command]
    try:
        code, out, err = (runner or gitpython.Git(os.fspath(Path.home()))).execute(
            full,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            kill_after_timeout=timeout,
        )
    except gitpython.exc.GitCommandNotFound as error:
        raise EnvironmentFault(f"git cannot be run: {error}") from None
    text = (out if isinstance(out, bytes) else str(out).encode()).decode("utf-8", "surrogateescape")
    if code == 127 or (code == 126 and not text):
        raise EnvironmentFault("git is not installed: Coterie needs git 2.38 or later")
    if code not in ok:
        raise GitError(shown, code, err if isinstance(err, str) else str(err))
    return code, text.removesuffix("\n")


class Repository(BaseModel):
    """A repository as it was when a run began to look at it."""

    model_config = ConfigDict(frozen=True)

    root: Path  # the main checkout
    common_dir: Path
    head: str  # commit id
    branch: str | None  # full ref name; None where HEAD is detached


def init_empty(path: Path) -> None:
    """An empty repository in `path`, without templates."""
    _execute(["git", "init", "--quiet", "--template=", "--", str(path)], {}, 20.0, (0,), shown=("init",))


def check_version() -> None:
    """Raise `EnvironmentFault` where git is missing or too old."""
    said = _execute(["git", "version"], {}, 20.0, (0,), shown=("version",))[1]
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < MINIMUM:
        raise EnvironmentFault(f"expected git {MINIMUM[0]}.{MINIMUM[1]} or later, found {said!r}: upgrade git")


def find_repository(start: Path) -> Repository:
    """The repository around `start`; from a linked worktree, that of its main checkout.

    Raises `UsageError` where there is none, a bare one, or one without a commit; `EnvironmentFault` without git.
    """
    check_version()
    start = start.resolve()

    def ask(*argv: str) -> tuple[int, str]:
        ceiling = {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
        return _execute(["git", "-C", str(start), *argv], ceiling, 20.0, range(256), shown=argv)

    if not start.is_dir():
        raise UsageError(f"there is no folder {start}")
    try:
        common = _execute(
            ["git", "-C", str(start), "rev-parse", "--path-format=absolute", "--git-common-dir"],
            {},
            20.0,
            (0,),
            shown=("rev-parse",),
        )[1]
    except GitError as error:
        if "not a git repository" in error.stderr:
            raise UsageError(f"{start} is not in a git repository: `git init` makes one") from None
        raise UsageError(f"git refuses to use the repository at {start}: {error.stderr.strip()}") from None
    if ask("rev-parse", "--is-bare-repository")[1] == "true":
        raise UsageError(f"{common} is a bare repository: Coterie needs a checkout, `git clone` makes one")
    listed = ask("worktree", "list", "--porcelain")[1]
    root = Path(listed.split("\n")[0].removeprefix("worktree ") or start)
    if not (root / ".git").exists():
        root = Path(ask("rev-parse", "--path-format=absolute", "--show-toplevel")[1] or start)
    if not (root / ".git").exists():
        raise UsageError(f"the main checkout of {common} is not there: Coterie keeps its files beside it")
    code, head = ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if code != 0:
        raise UsageError(f"{root} has no commit yet: commit something first, work starts from HEAD")
    code, branch = ask("symbolic-ref", "--quiet", "HEAD")
    return Repository(root=root, common_dir=Path(common), head=head, branch=branch if code == 0 else None)

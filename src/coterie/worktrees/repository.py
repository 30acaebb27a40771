"""The repository around a place, and whether a team can work in it."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coterie.errors import EnvironmentFault, UsageError
from coterie.worktrees.git import GitError, Where, execute, place_of

__all__ = ["Repository", "check_version", "find_repository", "init_empty"]

MINIMUM = (2, 38)  # merge-tree --write-tree


def check_version() -> str:
    """The version of git. Raises `EnvironmentFault` where it is missing or too old."""
    said = _version(os.environ.get("PATH"))
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < MINIMUM:
        raise EnvironmentFault(f"expected git {MINIMUM[0]}.{MINIMUM[1]} or later, found {said!r}: upgrade git")
    return said.removeprefix("git version ")


@functools.cache
def _version(path: str | None) -> str:
    """What the git on that PATH says, asked once in the life of a process."""
    return execute(["git", "version"], {}, 20.0, (0,), shown=("version",))[1]


class Repository(BaseModel):
    """A repository as it was when a run began to look at it."""

    model_config = ConfigDict(frozen=True)

    root: Path  # the main checkout
    common_dir: Path
    here: Where  # the checkout around where one stands: the main one, or a linked worktree
    head: str  # its commit id
    branch: str | None  # its branch, full ref name; None where HEAD is detached


def init_empty(path: Path) -> None:
    """An empty repository in `path`, without templates."""
    execute(["git", "init", "--quiet", "--template=", "--", str(path)], {}, 20.0, (0,), shown=("init",))


def find_repository(start: Path) -> Repository:
    """The repository around `start`, with the HEAD seen there; from a linked worktree, its root is the main checkout.

    Raises `UsageError` where there is none, a bare one, or one without a commit; `EnvironmentFault` without git.
    """
    check_version()
    start = start.resolve()

    def ask(*argv: str) -> str | None:
        code, said = execute(["git", "-C", str(start), *argv], {}, 20.0, range(256), shown=argv)
        return said if code == 0 else None

    if not start.is_dir():
        raise UsageError(f"there is no folder {start}")
    try:
        common_dir, _, git_dir = execute(
            ["git", "-C", str(start), "rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir"],
            {},
            20.0,
            (0,),
            shown=("rev-parse",),
        )[1].partition("\n")
    except GitError as error:
        if "not a git repository" in error.stderr:
            raise UsageError(f"{start} is not in a git repository: `git init` makes one") from None
        raise UsageError(f"git refuses to use the repository at {start}: {error.stderr.strip()}") from None
    common = Path(common_dir)
    if common.name == ".git" and common.parent.name == ".coterie" and ask("rev-parse", "--quiet", "HEAD^{}") is None:
        return find_repository(common.parent.parent)  # among a run's own files, where an empty repository lies
    metadata = Path(git_dir)
    root = _main_checkout(start, common)
    if not (root / ".git").exists():
        raise UsageError(f"the main checkout of {common} is not there: Coterie keeps its files beside it")
    head = ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head is None:
        raise UsageError(f"{root} has no commit yet: commit something first, work starts from HEAD")
    if (common / "reftable").is_dir():
        raise UsageError(
            f"{common} keeps its refs in a reftable: `git refs migrate --ref-format=files` makes them files"
        )
    place = place_of(metadata) if metadata != common else None
    return Repository(
        root=root,
        common_dir=common,
        here=Where(metadata=metadata, path=place or root, ours=False),
        head=head,
        branch=ask("symbolic-ref", "--quiet", "HEAD"),
    )


def _main_checkout(start: Path, common: Path) -> Path:
    """The checkout whose own metadata is the common directory itself."""

    def ask(*argv: str) -> str:
        pins = {"GIT_DIR": str(common)}  # as from the common directory, whichever linked worktree we stand in
        return execute(["git", "-C", str(common), *argv], pins, 20.0, range(256), shown=argv)[1]

    said = ask("config", "-z", "--get-regexp", r"^core\.(bare|worktree)$").split("\0")
    stated: dict[str, str] = {}
    for key, has_value, value in (each.partition("\n") for each in said):
        stated[key] = value if has_value else "true"  # the last counts
    if stated.get("core.bare", "false").lower() not in ("false", "no", "off", "0", ""):
        raise UsageError(f"{common} is a bare repository: Coterie needs a checkout, `git clone` makes one")
    if found := stated.get("core.worktree"):  # a submodule
        return (common / found).resolve()
    if common.name == ".git":
        return common.parent
    # --separate-git-dir: only the checkout knows where its repository is
    argv = ["git", "-C", str(start), "rev-parse", "--path-format=absolute", "--git-dir", "--show-toplevel"]
    git_dir, _, top = execute(argv, {}, 20.0, range(256), shown=("rev-parse",))[1].partition("\n")
    if Path(git_dir) != common or not top:
        raise UsageError(f"the main checkout of {common} cannot be told from here: start Coterie in it")
    return Path(top)

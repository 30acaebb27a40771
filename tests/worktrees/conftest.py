"""A real repository of somebody, and a keeper on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.worktrees import Keeper, Merger, find_repository

IDENTITY = {
    "GIT_AUTHOR_NAME": "Someone",
    "GIT_AUTHOR_EMAIL": "someone@example.org",
    "GIT_COMMITTER_NAME": "Someone",
    "GIT_COMMITTER_EMAIL": "someone@example.org",
}


def git(root: Path, *argv: str) -> str:
    """What git says; from outside, without any of our code."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *argv], cwd=root, capture_output=True, env=plain | IDENTITY, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def write(root: Path, name: str, text: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def start(root: Path) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "trunk")
    write(root, "one.txt", "one\n")
    write(root, "two.txt", "1\n2\n3\n")
    write(root, "sub/three.txt", "three\n")
    write(root, ".gitignore", "*.log\nbuild/\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "start")
    return root


def tree(root: Path) -> dict[str, bytes]:
    """All files below `root` but what is `.git`, with their content."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and name != ".git" and not name.startswith(".git/"):
            found[name] = path.read_bytes()
    return found


def listed(root: Path, rev: str) -> list[str]:
    return [each for each in git(root, "ls-tree", "-r", "--name-only", "-z", rev).split("\0") if each]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings of whoever runs the tests."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return start(tmp_path / "repo")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make_keeper(tmp_path: Path, said: list[str]) -> Callable[..., Keeper]:
    def make(root: Path, team: str = "main", place: Path | None = None) -> Keeper:
        repository = find_repository(root)
        keeper = Keeper(
            repository,
            team=team,
            root=place or tmp_path / "state" / team,
            repo_lock=tmp_path / "repo.lock",
            intents=tmp_path / "intents",
            process="p",
            report=said.append,
        )
        keeper.create_integration(repository.head)
        return keeper

    return make


@pytest.fixture
def keeper(make_keeper: Callable[..., Keeper], root: Path) -> Keeper:
    return make_keeper(root)


@pytest.fixture
def bench(keeper: Keeper, root: Path) -> Bench:
    return Bench(keeper, root)


class Bench:
    """What a run does with a keeper, in short words."""

    def __init__(self, keeper: Keeper, root: Path) -> None:
        self.keeper = keeper
        self.merger = Merger(keeper)
        self.root = root
        self.base = keeper.tip()

    def open(self, name: str = "ada", task: str = "T1", epoch: int = 1, carry: str | None = None) -> Path:
        return self.keeper.open(name, task=task, epoch=epoch, base=self.keeper.tip(), carry=carry).path

    def commit(
        self, name: str = "ada", task: str = "T1", epoch: int = 1, base: str | None = None, message: str = "work"
    ) -> str | None:
        at = base or self.keeper.tip()
        return self.keeper.commit(name, task=task, epoch=epoch, base=at, message=message, author=name)

    def merge_in(self, name: str = "ada", task: str = "T1", epoch: int = 1, commit: str | None = None) -> list[str]:
        return self.keeper.merge_in(name, task=task, epoch=epoch, commit=commit or self.keeper.tip())

    def queue(self, head: str, task: str = "T1", epoch: int = 1, message: str = "T1: work", team: str = "main") -> str:
        """Merge a head into the integration branch."""
        tip = self.keeper.tip()
        new = self.merged(head, task, epoch, message, team)
        self.merger.advance(tip, new)
        return new

    def merged(self, head: str, task: str = "T1", epoch: int = 1, message: str = "m", team: str = "main") -> str:
        trailers = {
            "Coterie-Team": team,
            "Coterie-Task": task,
            "Coterie-Epoch": str(epoch),
            "Coterie-Head": head,
            "Coterie-Plan": "none",
        }
        tip = self.keeper.tip()
        merge = self.merger.plan_merge(head, tip)
        return self.merger.commit_merge(merge, tip=tip, head=head, message=message, trailers=trailers, author="ada")

    def land_on_tip(self, task: str = "T9", **contents: str) -> str:
        """The integration branch gets files from another member."""
        path = self.open("ben", task=task)
        for name, text in contents.items():
            write(path, name.replace("__", "."), text)
        head = self.commit("ben", task=task)
        assert head is not None
        return self.queue(head, task=task)

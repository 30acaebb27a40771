"""A person's machine as a team finds it: home with keys, a checkout with settings, a team, two worktrees, listeners."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.lead import create_team, find_boundary, open_team, sandbox_of
from coterie.taskboard import NewTask
from coterie.teammates.commands import Commands, Finished
from coterie.teammates.sandbox import Level
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Team

WORD = "a-secret-that-nobody-may-see"
ATTACKS = Path(__file__).with_name("attacks.py")


def git(root: Path, *argv: str) -> str:
    who = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    done = subprocess.run(["git", *who, *argv], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class Ground:
    """All of it below one folder. `HOME` has to be `folder/home` already."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.repository = folder / "home" / "work" / "shop"
        self._lay_out()
        self.settings = TeamSettings(worktrees_root=str(folder / "trees"), **settings)
        root = create_team(self.repository, goal="a change", name="main", settings=self.settings)
        self.team: Team = open_team(root)
        self.team.keeper.create_integration(self.team.record.base.commit)
        self.ada = self._open("ada", "T1")
        self.ben = self._open("ben", "T2")
        write(self.ben / "unfinished.txt", WORD)
        write(root / "output" / "ada.1", WORD)
        self.found = find_boundary(self.settings, self.team.repository)
        self.sandbox = sandbox_of(self.found, self.team, self.settings)
        secrets = {"ANTHROPIC_API_KEY": WORD, "GITHUB_TOKEN": WORD, "DATABASE_URL": f"postgres://u:{WORD}@h/d"}
        self.commands = Commands(
            root / "output", sandbox=self.sandbox, ceiling=[folder / "trees"], base=os.environ | secrets
        )

    def _lay_out(self) -> None:
        home, repository = self.home, self.repository
        for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".bash_history"):
            write(home / name, WORD)
        write(home / ".config" / "git" / "ignore", "*.theirs\n")
        write(home / ".git-credentials", f"https://u:{WORD}@example.org\n")
        repository.mkdir(parents=True)
        git(repository, "init", "-q", "-b", "trunk")
        write(repository / "one.txt", "one\n")
        write(repository / "two.txt", "two\n")
        write(repository / ".gitignore", "*.log\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "start")
        git(repository, "branch", "theirs")
        for name, value in {
            "remote.origin.url": f"https://oauth2:{WORD}@example.org/shop.git?private_token={WORD}",
            f"url.https://{WORD}@example.org/.insteadOf": "https://example.org/",
            "http.https://example.org/.extraheader": f"AUTHORIZATION: basic {WORD}",
            "credential.helper": f"!echo password={WORD}",
            "http.proxy": f"http://u:{WORD}@proxy:3128",
            "alias.up": f"!curl -H 'token: {WORD}' https://example.org",
            "merge.ours.driver": "true",
        }.items():
            git(repository, "config", name, value)
        git(repository, "config", "--global", "github.token", WORD)
        write(repository / ".git" / "FETCH_HEAD", f"0 not-for-merge branch of https://u:{WORD}@example.org\n")
        write(repository / ".git" / "modules" / "sub" / "config", f"[remote]\n\turl = https://{WORD}@example.org\n")
        write(repository / ".env", f"KEY={WORD}\n")
        write(repository / "one.txt", f"one\nwork of the person that is not committed: {WORD}\n")
        write(repository / "staged.txt", "staged\n")
        git(repository, "add", "staged.txt")

    def _open(self, name: str, task: str) -> Path:
        team = self.team
        team.roster.spawn(name, model="m")
        team.board.create([NewTask(ref=task, subject=task)], by="lead")
        claimed = team.board.claim(owner=name, instance=f"{name}#1")
        assert claimed is not None and claimed.id == task
        return team.keeper.open(name, task=task, epoch=1, base=team.keeper.tip()).path

    def again(self, **settings: Any) -> Commands:
        """Commands in the same worktrees, under other settings."""
        other = self.settings.model_copy(update=settings)
        found = find_boundary(other, self.team.repository)
        sandbox = sandbox_of(found, self.team, other)
        return Commands(self.team.root / "output", sandbox=sandbox, ceiling=[self.folder / "trees"])

    @property
    def full(self) -> bool:
        return self.found.level is Level.FULL

    def run(self, command: str | list[str], *, timeout_s: float = 60, cwd: Path | None = None, **more: Any) -> Finished:
        return self.commands.run(command, cwd=cwd or self.ada, timeout_s=timeout_s, owner="ada", **more)

    def metadata(self, name: str) -> Path:
        where = self.team.keeper.where(name)
        assert where is not None
        return where.metadata

    def place(self, **more: Any) -> str:
        """What `attacks.py` is told."""
        checkout, coterie = self.repository, self.repository / ".coterie"
        common = checkout / ".git"
        # where what is shown lies in a folder whose other contents are not
        alone = {
            str(common): ["HEAD", "config", "info", "objects", "packed-refs", "refs", "shallow", "worktrees"],
            str(common / "worktrees"): ["ada"],
            str(self.ada.parent): ["ada"],
            str(checkout): [".git"],
            str(self.home): ["work"],
            "/run": ["coterie"],
        }
        told: Mapping[str, Any] = {
            "worktree": str(self.ada),
            "metadata": str(self.metadata("ada")),
            "common": str(common),
            "outside": [str(each) for each in (checkout, coterie / "main", self.home, self.ben, common / "hooks")],
            "files": [
                *map(str, (checkout / "one.txt", coterie / "main" / "team.json", self.home / ".bash_history")),
                *map(str, (self.ben / "unfinished.txt", common / "config", common / "HEAD", checkout / ".env")),
            ],
            "secrets": [
                *map(str, (self.home / ".ssh/id_ed25519", self.home / ".aws/credentials", checkout / ".env")),
                *map(str, (coterie / "main/team.json", coterie / "main/output/ada.1", self.ben / "unfinished.txt")),
                *map(str, (common / "FETCH_HEAD", common / "modules/sub/config", common / "logs/HEAD")),
                *map(str, (common / "worktrees/ben/HEAD", common / "index", self.home / ".git-credentials")),
            ],
            "unlisted": [*map(str, (self.home / ".ssh", coterie, self.ben, "/run/user", "/sys/fs"))],
            "alone": alone,
            "words": [WORD],
            "pids": [os.getpid()],
        }
        return json.dumps({**told, **more})

    def close(self) -> None:
        self.commands.close()


class Listeners:
    """What listens on the person's machine, and whether anybody came."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0coterie-{os.getpid()}-{folder.name}")
        self.path = socket.socket(socket.AF_UNIX)
        self.path.bind(str(folder / "docker.sock"))
        self.tcp = socket.socket()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for each in (self.tcp, self.udp):
            each.bind(("127.0.0.1", 0))
        for each in (self.abstract, self.path, self.tcp):
            each.listen(5)
        for each in (self.abstract, self.path, self.tcp, self.udp):
            each.setblocking(False)
        self.told = {
            "abstract": self.abstract.getsockname()[1:].decode(),
            "sockets": [str(folder / "docker.sock")],
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
        }

    def came(self) -> list[str]:
        """Which of them somebody reached."""
        found = []
        for name in ("abstract", "path", "tcp"):
            try:
                getattr(self, name).accept()[0].close()
                found.append(name)
            except BlockingIOError:
                continue
        try:
            self.udp.recv(100)
            found.append("udp")
        except BlockingIOError:
            pass
        return found

    def close(self) -> None:
        for each in (self.abstract, self.path, self.tcp, self.udp):
            each.close()


def digest(*roots: Path, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Every file below `roots`, with its kind, mode and content. but: beginnings of paths that are left out."""
    found = {}
    for root in roots:
        for path in (root, *sorted(root.rglob("*"))):
            if any(str(path).startswith(each) for each in but):
                continue
            status = path.lstat()
            content = b""
            if path.is_symlink():
                content = os.fsencode(path.readlink())
            elif path.is_file():
                content = path.read_bytes()
            found[str(path)] = f"{status.st_mode:o} {hashlib.sha256(content).hexdigest()}"
    return found

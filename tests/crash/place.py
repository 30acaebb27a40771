"""One team on a tiny repository, what has to hold of it at any time, and its end as a value that two runs can share."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.lead import create_team, open_team
from coterie.teammates.journal import Delivered, Undelivered, whole_records
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import Team

TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
TOKENS = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")
COMMITS = re.compile(r"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
SUMS = re.compile(r'"len": \d+, "crc": "[0-9a-f]{8}"')
KEYS = re.compile(r"\b([a-z][a-z0-9-]*#\d+)/\d+/")
IDS = re.compile(r"\b\d{10}-([a-z]+)\b")
WHEN = frozenset(
    {"at", "created_at", "since", "sent_at", "decided_at", "seconds"}
    | {"process", "output", "seq", "id", "usd", "tokens", "turn", "queued"}
)


def git(root: Path, *argv: str) -> str:
    """What git says, without any of our code."""
    identity = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", *argv], cwd=root, capture_output=True, text=True, check=False, env={**os.environ, **identity}
    )
    assert done.returncode == 0, f"git {' '.join(argv)}: {done.stderr}"
    return done.stdout.rstrip("\n")


class Place:
    """A folder that is always at the same path, since worktrees know where they are; put back as it was at will."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "place"
        self.repository = self.folder / "repo"
        self.root = self.repository / ".coterie" / "main"
        self.kept = folder / "kept"
        self._read: dict[str, tuple[object, bytes]] = {}  # what tells that a file is unchanged; what it is, digested

    def keep(self, name: str) -> None:
        """Remember what is there now, under a name."""
        shutil.rmtree(self.kept / name, ignore_errors=True)
        shutil.copytree(self.folder, self.kept / name, symlinks=True)

    def put_back(self, name: str) -> None:
        """As it was when it was kept."""
        self.folder.mkdir(exist_ok=True)
        _make_same(self.kept / name, self.folder)

    def make(self, **settings: Any) -> None:
        """A repository with one commit and a team that has not begun."""
        self.folder.mkdir(parents=True)
        self.repository.mkdir()
        git(self.repository, "init", "-q", "-b", "trunk", "--template=")
        (self.repository / "one.txt").write_text("one\n")
        git(self.repository, "add", "-A")
        git(self.repository, "commit", "-q", "-m", "start")
        chosen = TeamSettings(worktrees_root=str(self.folder / "state"), **settings)
        create_team(self.repository, goal="a change", name=None, settings=chosen)

    def open(self, process: str = "0123456789ab") -> Team:
        """The team as a process opens it that has read nothing yet."""
        return open_team(self.root, process=process)

    # ------------------------------------------------------------ what git has, read without starting it

    def refs(self) -> dict[str, str]:
        """Every ref and its commit. In a repository this small nothing is packed."""
        folder = self.repository / ".git" / "refs"
        return {
            str(path.relative_to(folder.parent)): path.read_text().strip()
            for path in _files(folder)
            if path.is_file() and path.suffix != ".lock"
        }

    def commit(self, name: str) -> tuple[str, list[str], str] | None:
        """Tree, parents and message of a commit; None if that is the name of no commit."""
        path = self.repository / ".git" / "objects" / name[:2] / name[2:]
        if not path.is_file():
            return None
        head, _, text = zlib.decompress(path.read_bytes()).decode("utf-8", "replace").partition("\0")
        if not head.startswith("commit "):
            return None
        fields, _, message = text.partition("\n\n")
        lines = [line.split(" ") for line in fields.split("\n")]
        return lines[0][1], [line[1] for line in lines if line[0] == "parent"], message

    def _named(self, text: str) -> str:
        """Commits have a time in them: here they are named by their trees, and by how many parents they have."""
        for name in sorted(set(COMMITS.findall(text))):
            if (found := self.commit(name)) is not None:
                text = text.replace(name, f"<tree {found[0][:8]} of {len(found[1])}>")
                text = text.replace(name[:12], f"<tree {found[0][:8]}>")
        return text

    # ------------------------------------------------------------ what was left

    def fingerprint(self) -> str:
        """The same for the same state on disk, whenever it came about. What events and reflogs say is no state."""
        found = hashlib.sha256()
        for path in _files(self.folder):
            name = str(path.relative_to(self.folder))
            if "/objects/" in name or "/logs/" in name or name.endswith("events.jsonl"):
                continue
            known = path.lstat()
            mark = (known.st_mode, known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns)
            if self._read.get(name, (None,))[0] != mark:
                self._read[name] = (mark, self._digest(path, name))
            found.update(self._read[name][1])
        return found.hexdigest()

    def _digest(self, path: Path, name: str) -> bytes:
        text = ""
        if path.is_symlink():
            text = str(path.readlink())
        elif path.is_file():
            data = path.read_bytes()
            if path.suffix == ".tmp":
                data = b""  # half of a write, whichever half
            text = str(len(data)) if "index" in path.name else data.decode("utf-8", "surrogateescape")
        plain = TOKENS.sub("<token>", self._named(SUMS.sub("<sum>", TIMES.sub("<time>", text))))
        return hashlib.sha256(f"{TOKENS.sub('<token>', name)}\0{plain}".encode("utf-8", "surrogateescape")).digest()

    def keys(self) -> set[str]:
        """Every key of a call that stands in a record."""
        found: set[str] = set()
        for path in [
            *self.root.glob("*/*.json"),
            *self.root.glob("mail/*/*/*.json"),
            *self.root.glob("members/*/*.json"),
        ]:
            _collect_keys(json.loads(path.read_bytes()), found)
        for path in self.root.glob("members/*/journal.jsonl"):
            found |= {f"{each.instance}/{each.kind}/{each.seq}" for each in whole_records(path)[0]}
        return found

    # ------------------------------------------------------------ what has to hold

    def check_kill(self) -> None:
        """Right after a kill, before anything is put right: what others rely on at any moment."""
        self._check_merges([json.loads(path.read_bytes()) for path in sorted((self.root / "tasks").glob("T*.json"))])

    def check(self) -> None:
        """After any restart: nothing half there, nothing twice."""
        stray = [
            path for path in _files(self.folder) if path.name.endswith((".tmp", "index.lock")) or ".index" in path.name
        ]
        assert not stray, f"left over: {stray}"
        journaled: dict[str, str] = {}
        for path in sorted(self.root.glob("members/*/journal.jsonl")):
            records, _, fault = whole_records(path)
            assert fault is None, fault
            for record in records:
                if isinstance(record, Delivered | Undelivered):
                    for each in record.ids:
                        assert each not in journaled, f"{each} has two records: {journaled[each]} and {record.kind}"
                        journaled[each] = record.kind
        places: dict[str, str] = {}
        for path in sorted(self.root.glob("mail/*/*/*.json")):
            assert path.stem not in places, f"{path.stem} is in {places[path.stem]} and in {path.parent.name}"
            places[path.stem] = path.parent.name
            assert path.parent.name != "cur" or path.stem in journaled, f"{path.stem} is in cur without a record"
        assert not set(journaled) - set(places), "a record of a message that is not there"
        tasks = [json.loads(path.read_bytes()) for path in sorted((self.root / "tasks").glob("T*.json"))]
        holders = [task["claim"]["owner"] for task in tasks if task["status"] in ("in_progress", "submitted")]
        assert len(holders) == len(set(holders)), f"somebody holds two tasks: {holders}"
        known = {task["id"] for task in tasks}
        for task in tasks:
            assert set(task["blocked_by"]) <= known, f"{task['id']} is blocked by what is not there"
            made = [each.get("made_by") for each in task["history"] if each.get("made_by")]
            assert len(made) == len(set(made)), f"{task['id']}: one call has changed it twice: {made}"
        self._check_merges(tasks)

    def _check_merges(self, tasks: list[dict[str, Any]]) -> None:
        base = json.loads((self.root / "team.json").read_bytes())["base"]["commit"]
        at = self.refs()["refs/heads/coterie/main/integration"]
        merged: dict[str, str] = {}  # commit -> task
        while at != base:
            found = self.commit(at)
            assert found is not None, f"{at} is not there"
            trailers = re.findall(r"^Coterie-Task: (.*)$", found[2], re.MULTILINE)
            merged |= {at: trailers[-1]} if trailers else {}
            at = found[1][0]
        names = sorted(merged.values())
        assert len(names) == len(set(names)), f"merged twice: {names}"
        for task in tasks:
            mine = next((commit for commit, name in merged.items() if name == task["id"]), None)
            assert mine is None or task["status"] == "completed" or task["merging"] == mine, "the tip moved unannounced"
            if task["status"] == "completed" and not task["result"]["no_change"]:
                assert merged.get(task["result"]["merged_commit"]) == task["id"], f"{task['id']} is not merged"

    # ------------------------------------------------------------ the end

    def end(self) -> dict[str, Any]:
        """All that a run leaves behind, without times, numbers of processes, and commits named by their trees."""
        found: dict[str, Any] = {}
        for folder in ("tasks", "requests", "intents"):
            for path in sorted((self.root / folder).glob("*.json")):
                record = json.loads(path.read_bytes())
                if folder == "tasks":  # that `merging` was set again is not what a task came to
                    again = [each for each in record["history"] if (each["from"], each["to"]) == ("submitted",) * 2]
                    record["history"] = [each for each in record["history"] if each not in again]
                    record["rev"] -= len(again)
                    for each in record["history"]:  # its owner makes the move that is wanted, or recovery does
                        each["by"] = "somebody" if "(wanted by " in each["reason"] else each["by"]
                found[f"{folder}/{path.name}"] = record
        for path in sorted(self.root.glob("members/*/member.json")):
            found[f"members/{path.parent.name}"] = json.loads(path.read_bytes())
        for box in sorted((self.root / "mail").iterdir()):
            letters = [json.loads(path.read_bytes()) for path in sorted(box.glob("[bcn]*/*.json"))]
            about = {letter["id"]: letter["made_by"] for letter in letters}
            for letter in letters:  # a killed send may leave a gap in the numbers
                letter["in_reply_to"] = about.get(letter["in_reply_to"], letter["in_reply_to"])
            found[f"mail/{box.name}"] = sorted((_plain(each) for each in letters), key=str)
        ended = json.loads((self.root / "team.json").read_bytes())["ended"]
        found["ended"] = ended and {"exit": ended["exit"], "summary": ended["summary"]}
        found["refs"] = {}
        for name, at in self.refs().items():
            if "/rescue/" in name:
                found["refs"][name.rpartition("/")[0]] = "kept"
            else:
                tree = self.commit(at)
                found["refs"][name] = "kept" if "/join" in name or tree is None else tree[0]
        for each in sorted((self.folder / "state").glob("*/main/*")):
            metadata = Path((each / ".git").read_text().strip().removeprefix("gitdir: "))
            contents = {str(path.relative_to(each)): path.read_text() for path in _files(each) if path.is_file()}
            found[f"worktrees/{each.name}"] = {**contents, ".git": (metadata / "HEAD").read_text()}
        return json.loads(self._named(json.dumps(_plain(found), sort_keys=True)))


def _make_same(source: Path, target: Path) -> None:
    """`target` becomes what `source` is. Of files that nobody has touched since only the names are looked at."""
    there = {each.name: each for each in os.scandir(target)}
    for each in os.scandir(source):
        mine, place = there.pop(each.name, None), target / each.name
        if each.is_dir(follow_symlinks=False):
            if mine is not None and not mine.is_dir(follow_symlinks=False):
                place.unlink()
            place.mkdir(exist_ok=True)
            _make_same(Path(each.path), place)
        elif mine is None or _mark(mine) != _mark(each):
            if mine is not None:
                _remove(mine)
            shutil.copy2(each.path, place, follow_symlinks=False)
    for left in there.values():
        _remove(left)


def _mark(entry: os.DirEntry[str]) -> tuple[int, ...]:
    found = entry.stat(follow_symlinks=False)
    return (found.st_mode, found.st_size, found.st_mtime_ns)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        os.unlink(entry.path)  # noqa: PTH108


def _files(folder: Path) -> Iterator[Path]:
    for each in sorted(os.scandir(folder), key=lambda found: found.name):
        if each.is_dir(follow_symlinks=False):
            yield Path(each.path)
            yield from _files(Path(each.path))
        else:
            yield Path(each.path)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in WHEN}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return IDS.sub(r"<mail to \1>", KEYS.sub(r"\1/call/", TIMES.sub("<time>", value)))
    return value


def _collect_keys(value: Any, found: set[str]) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("made_by"), str):
            found.add(value["made_by"])
        for each in value.values():
            _collect_keys(each, found)
    elif isinstance(value, list):
        for each in value:
            _collect_keys(each, found)

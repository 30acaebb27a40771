"""What the file tools reach: regular files inside the member's own directory, and nothing else."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.errors import Refused
from coterie.teammates.cancel import Cancel
from coterie.teammates.journal import Finished, Journal, Opened
from coterie.teammates.tool import Call, ToolResult
from coterie.teammates.tools import TEAMMATE_TOOLS, reach


class Here:
    """The part of a member that a file tool asks for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.instance = "ada#1"
        self.team = SimpleNamespace(root=root.parent / "team")
        self.roots: tuple[Path, ...] = ()
        self.journal = Journal(root.parent / "journal.jsonl", instance=self.instance)
        self.begin()

    def begin(self) -> None:
        """A new conversation."""
        self.journal.append(
            Opened(
                instance="ada#1",
                number=1,
                reason="mail",
                task=None,
                epoch=None,
                system="",
                tools=[],
                model="m",
                opening="",
            )
        )

    def directory(self) -> Path:
        return self.root

    def read_roots(self) -> tuple[Path, ...]:
        return self.roots


@pytest.fixture
def here(tmp_path: Path) -> Here:
    root = tmp_path / "ada"
    root.mkdir()
    (root / ".git").write_text("gitdir: elsewhere\n")
    (root / "one.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "secret.txt").write_text("secret\n")
    return Here(root)


def use(here: Here, name: str, again: bool = False, **arguments: Any) -> str:
    tool = TEAMMATE_TOOLS[name]
    said = tool.act(here, tool.parse(arguments), Call("c1", "ada#1/1/0", Cancel(), again))
    said = said if isinstance(said, ToolResult) else ToolResult(said)
    here.journal.append(  # as the loop does
        Finished(instance="ada#1", call="c1", tool=name, text=said.text, is_error=False, seen=dict(said.seen))
    )
    return said.text


def traps(here: Here) -> list[str]:
    root = here.root
    (root / "out").symlink_to("../secret.txt")
    (root / "up").symlink_to("..")
    (root / "dangling").symlink_to("../not-there.txt")
    (root / "chain").symlink_to("out")
    return [
        str(root.parent / "secret.txt"),
        "../secret.txt",
        "sub/../../secret.txt",
        "out",
        "chain",
        "up/secret.txt",
        "dangling",
        ".git",
        "./.git",
        "x/../.git",
        ".git/config",
        "",
        "a\0b",
    ]


def test_no_tool_reads_or_writes_outside_the_directory_by_any_spelling(here: Here) -> None:
    for path in traps(here):
        for name, more in (
            ("read_file", {}),
            ("write_file", {"content": "changed"}),
            ("edit_file", {"old_text": "secret", "new_text": "changed"}),
        ):
            with pytest.raises(Refused):
                use(here, name, path=path, **more)
        if path:
            with pytest.raises(Refused):
                use(here, "grep", pattern="secret", path=path)
    assert (here.root.parent / "secret.txt").read_text() == "secret\n"
    assert not (here.root.parent / "not-there.txt").exists()
    assert (here.root / ".git").read_text() == "gitdir: elsewhere\n"
    assert "secret" not in use(here, "grep", pattern="secret") + use(here, "glob", pattern="**/secret.txt")


def test_a_link_inside_the_directory_is_followed_and_an_absolute_path_to_it_is_taken(here: Here) -> None:
    (here.root / "alias").symlink_to("one.txt")
    use(here, "write_file", path="alias", content="new\n")
    assert (here.root / "alias").is_symlink() and (here.root / "one.txt").read_text() == "new\n"
    assert "new" in use(here, "read_file", path=str(here.root / "one.txt"))


def test_a_hard_link_to_a_file_outside_is_not_written(here: Here) -> None:
    (here.root / "hard").hardlink_to(here.root.parent / "secret.txt")
    for name, more in (("write_file", {"content": "x"}), ("edit_file", {"old_text": "secret", "new_text": "x"})):
        with pytest.raises(Refused, match="hard link"):
            use(here, name, path="hard", **more)
    assert (here.root.parent / "secret.txt").read_text() == "secret\n"


def test_nothing_is_read_through_a_hard_link_that_may_lead_outside(here: Here) -> None:
    (here.root / "hard").hardlink_to(here.root.parent / "secret.txt")
    for name, more in (("read_file", {}), ("grep", {"pattern": "secret"})):
        with pytest.raises(Refused, match=r"hard link.* a copy of it can be read"):
            use(here, name, path="hard", **more)
    assert use(here, "grep", pattern="secret") == "no line matches"


def test_what_is_no_regular_file_is_refused_at_once_by_what_it_is(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(here.root / "fifo")
    (here.root / "null").symlink_to("/dev/null")
    (here.root / "round").symlink_to("round")
    (here.root / "folder").mkdir()
    monkeypatch.chdir(here.root)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    kinds = {"fifo": "a FIFO", "null": "outside|leads out", "folder": "a folder", ".": "a folder", "socket": "a socket"}
    kinds["round"] = "in a circle"
    if os.geteuid() == 0:
        os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        kinds["device"] = "a device"
    for path, kind in kinds.items():
        for name, more in (("read_file", {}), ("edit_file", {"old_text": "x", "new_text": "y"})):
            with pytest.raises(Refused, match=kind):
                use(here, name, path=path, **more)
        with pytest.raises(Refused, match=kind.replace("in a circle", "a symbolic link")):
            use(here, "write_file", path=path, content="x")
        if kind != "a folder":
            with pytest.raises(Refused, match=kind):
                use(here, "grep", pattern="x", path=path)
    assert use(here, "grep", pattern="three") == "one.txt:3: three"


SWAPPED = """
import os, sys
from pathlib import Path
from coterie.errors import Refused
from coterie.teammates.tools import paths, reach
sys.path.insert(0, str(Path(paths.__file__).parent))
import searching

name = found = None

def swap(event, args):  # somebody changes the worktree at the very moment when `name` is opened
    global found
    if event == "open" and args[0] == name and found is None:
        found = name
        inner = {"sub": "", "deep": "deep", "x.txt": "deep/x.txt"}[name]
        (root / "sub" / inner).rename(place / "aside")
        (root / "sub" / inner).symlink_to(place / "out" / inner)

sys.addaudithook(swap)
for number, (act, wanted) in enumerate([("read", "sub"), ("read", "x.txt"), ("write", "deep"), ("grep", "deep")]):
    place = Path(sys.argv[1]) / str(number)
    root = place / "ada"
    at = reach.spot([root], "sub/deep/x.txt")
    name, found = wanted, None
    try:
        if act == "read":
            said = reach.read_text(at).text
        elif act == "write":
            said = reach.write_text(at, "written")
        else:
            said = searching.grep_lines(reach.opened(reach.spot([root], ".")), "", False, ".", None, 9)
    except Refused as error:
        said = "refused"
    print(act, wanted, said, found)
"""


def test_a_link_that_is_put_in_the_way_during_the_call_is_not_followed(tmp_path: Path) -> None:
    for number in range(4):
        for name in ("ada/sub/deep", "out/deep"):
            (tmp_path / str(number) / name).mkdir(parents=True)
            (tmp_path / str(number) / name / "x.txt").write_text(name[:3])
    argv = [sys.executable, "-c", SWAPPED, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines() == [
        "read sub refused sub",
        "read x.txt refused x.txt",
        "write deep refused deep",
        "grep deep [] deep",
    ]
    assert [each.read_text() for each in sorted(tmp_path.glob("*/out/deep/x.txt"))] == ["out"] * 4


def test_a_folder_that_comes_and_goes_never_shows_what_is_outside(here: Here) -> None:
    """Somebody else writes in the worktree all the time, as a command in the background does."""
    out = here.root.parent / "out"
    for folder in (out, here.root / "real"):
        folder.mkdir()
        (folder / "x.txt").write_text("secret\n" if folder == out else "plain\n")
    (here.root / "link").symlink_to(out)
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            for name in ("real", "link"):
                (here.root / name).rename(here.root / "door")
                (here.root / "door").rename(here.root / name)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    said = []
    try:
        for number in range(400):
            with contextlib.suppress(Refused):
                said.append(use(here, "read_file", path="door/x.txt"))
            with contextlib.suppress(Refused):
                use(here, "edit_file", path="door/x.txt", old_text="secret", new_text="broken")
            if number % 100 == 0:
                said.append(use(here, "grep", pattern="secret"))
    finally:
        over.set()
        thread.join()
    assert "secret" not in "".join(said) and any("plain" in each for each in said)
    assert (out / "x.txt").read_text() == "secret\n"


def test_text_that_is_no_text_is_refused_before_anything_is_written(here: Here) -> None:
    for name, more in (
        ("write_file", {"content": "\ud83d"}),
        ("edit_file", {"old_text": "two", "new_text": "\udc80"}),
    ):
        with pytest.raises(Refused, match="surrogate"):
            use(here, name, path="one.txt", **more)
    with pytest.raises(Refused, match="expected a path"):
        use(here, "read_file", path="\ud83d")
    with pytest.raises(Refused, match="too long"):
        use(here, "write_file", path="x" * 300, content="x")
    assert (here.root / "one.txt").read_text() == "one\ntwo\nthree\n" and len(list(here.root.iterdir())) == 2


def test_folders_without_end_are_searched_as_deep_as_is_said(here: Here) -> None:
    deep = here.root
    for _ in range(150):
        deep = deep / "d"
        deep.mkdir()
        (deep / "x.txt").write_text("needle\n")
    assert len(use(here, "glob", pattern="**/x.txt").split("\n")) == 100
    assert "needle" in use(here, "read_file", path=str(deep / "x.txt"))


def test_the_roots_of_the_settings_are_read_and_never_written(here: Here) -> None:
    root = here.root.parent / "library"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.py").write_text("needle\n")
    (root / "out").symlink_to("../secret.txt")
    (here.root / "door").symlink_to(root / "sub")
    path = str(root / "sub" / "a.py")
    with pytest.raises(Refused, match="outside your directory"):
        use(here, "read_file", path=path)
    here.roots = (root,)
    assert "needle" in use(here, "read_file", path=path)
    assert "needle" in use(here, "read_file", path="door/a.py")
    assert use(here, "glob", pattern=f"{root}/**/*.py") == path
    assert use(here, "grep", pattern="needle", path=str(root)) == f"{path}:1: needle"
    for name, more in (("write_file", {"content": "x"}), ("edit_file", {"old_text": "needle", "new_text": "x"})):
        for given in (path, "door/a.py"):
            with pytest.raises(Refused, match=r"outside|leads out"):
                use(here, name, path=given, **more)
    for given in (str(root / "out"), str(root / ".." / "secret.txt"), str(root / ".git/x")):
        with pytest.raises(Refused):
            use(here, "read_file", path=given)
    assert (root / "sub" / "a.py").read_text() == "needle\n"


def test_a_path_below_a_file_is_refused_in_a_sentence(here: Here) -> None:
    (here.root / "a.txt").write_text("a")
    for path in ("a.txt/x", "a.txt/x/y"):
        with pytest.raises(Refused, match="is a file"):
            use(here, "write_file", path=path, content="x")
    assert (here.root / "a.txt").read_text() == "a"


def test_what_cannot_be_shown_says_why(here: Here) -> None:
    (here.root / "binary").write_bytes(b"\xff\xfe\0\1")
    (here.root / "huge").write_bytes(b"")
    os.truncate(here.root / "huge", reach.FILE_CAP + 1)
    with pytest.raises(Refused, match="not UTF-8"):
        use(here, "read_file", path="binary")
    with pytest.raises(Refused, match="huge"):
        use(here, "read_file", path="huge")
    with pytest.raises(Refused, match=r"no file two\.txt.*one\.txt"):
        use(here, "read_file", path="two.txt")
    with pytest.raises(Refused, match="at most"):
        use(here, "write_file", path="big", content="x" * (reach.FILE_CAP + 1))
    assert not (here.root / "big").exists() and not list(here.root.parent.glob(".*.tmp"))


def test_lines_are_numbered_from_an_offset_and_the_rest_is_announced(here: Here) -> None:
    (here.root / "long").write_text("".join(f"line {number}\n" for number in range(1, 3001)))
    said = use(here, "read_file", path="long", offset=10, limit=2)
    assert said == "    10\tline 10\n    11\tline 11\n(3000 lines in all: go on with offset 12)"
    assert "(3000 lines in all: go on with offset 1831)" in use(here, "read_file", path="long")
    with pytest.raises(Refused, match="3000 lines"):
        use(here, "read_file", path="long", offset=3001)
    (here.root / "wide").write_text("x" * 1_000_000 + "\nend\n")
    assert len(use(here, "read_file", path="wide")) < 40_000
    (here.root / "empty").write_text("")
    assert use(here, "read_file", path="empty") == "(an empty file)"


def test_an_edit_wants_exactly_one_match_and_keeps_mode_and_line_ends(here: Here) -> None:
    script = here.root / "run.sh"
    script.write_bytes(b"#!/bin/sh\r\necho one\r\necho one two\r\n")
    script.chmod(0o750)
    with pytest.raises(Refused, match="found 2 times"):
        use(here, "edit_file", path="run.sh", old_text="echo one", new_text="echo 1")
    with pytest.raises(Refused, match="found 0 times"):
        use(here, "edit_file", path="run.sh", old_text="echo three", new_text="echo 3")
    with pytest.raises(Refused, match="empty"):
        use(here, "edit_file", path="run.sh", old_text="", new_text="x")
    use(here, "edit_file", path="run.sh", old_text="one two", new_text="two")
    assert script.read_bytes() == b"#!/bin/sh\r\necho one\r\necho two\r\n"
    use(here, "write_file", path="run.sh", content="#!/bin/sh\n")
    assert script.stat().st_mode & 0o777 == 0o750


def test_an_edit_of_a_file_that_changed_since_it_was_read_is_refused_until_it_is_read_again(here: Here) -> None:
    path = here.root / "one.txt"
    edit = {"path": "one.txt", "old_text": "two", "new_text": "2"}
    use(here, "read_file", path="./one.txt", offset=1, limit=1)
    path.write_text("one\ntwo\nfour\n")
    with pytest.raises(Refused, match="changed since you read it"):
        use(here, "edit_file", **edit)
    here.journal = Journal(here.journal.path, instance="ada#1")  # a restart forgets nothing of that
    with pytest.raises(Refused, match="changed since you read it"):
        use(here, "edit_file", **edit)
    assert path.read_text() == "one\ntwo\nfour\n"
    use(here, "read_file", path="one.txt")
    use(here, "edit_file", **edit)
    use(here, "edit_file", path="one.txt", old_text="four", new_text="4")  # it knows what it wrote itself
    assert path.read_text() == "one\n2\n4\n"
    path.write_text("one\nnew\n")
    with pytest.raises(Refused, match="changed since you read it"):
        use(here, "edit_file", path="one.txt", old_text="new", new_text="x")
    here.begin()  # nothing was read in this conversation: that the text stands there once is proof enough
    use(here, "edit_file", path="one.txt", old_text="new", new_text="x")
    assert path.read_text() == "one\nx\n"


def test_an_edit_keeps_the_kind_of_line_ends_and_the_newline_at_the_end(here: Here) -> None:
    path = here.root / "dos.txt"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert "\r" not in use(here, "read_file", path="dos.txt")
    use(here, "edit_file", path="dos.txt", old_text="one\ntwo", new_text="1\n2\n2b")
    assert path.read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"
    use(here, "edit_file", path="dos.txt", old_text="three\n", new_text="3")
    assert path.read_bytes() == b"1\r\n2\r\n2b\r\n3\r\n"
    mixed = here.root / "mixed.txt"
    mixed.write_bytes(b"one\r\ntwo\nthree")
    use(here, "edit_file", path="mixed.txt", old_text="two\nthree", new_text="2\n3")
    assert mixed.read_bytes() == b"one\r\n2\n3"
    use(here, "edit_file", path="mixed.txt", old_text="one\r\n2", new_text="1\r\n2")
    assert mixed.read_bytes() == b"1\r\n2\n3"


def test_an_edit_that_was_done_before_an_interruption_is_not_done_twice(here: Here) -> None:
    arguments = {"path": "one.txt", "old_text": "two\n", "new_text": "2\n"}
    path = here.root / "one.txt"
    path.write_text(path.read_text().replace("two\n", "2\n"))  # and no result of it was journaled
    assert "before the interruption" in use(here, "edit_file", again=True, **arguments)
    with pytest.raises(Refused, match="found 0 times"):
        use(here, "edit_file", **arguments)


@pytest.mark.parametrize("was", ["one\ntwo\nthree\n", "one\r\ntwo\r\nthree\r\n", "two"], ids=["lf", "crlf", "bare"])
@pytest.mark.parametrize("new", ["two and more", "more\ntwo", "2"])
def test_an_edit_that_may_be_done_again_is_decided_by_what_was_read(here: Here, was: str, new: str) -> None:
    """Also where the old text is a part of the new one, so that it is found after the edit too."""
    arguments = {"path": "one.txt", "old_text": "two", "new_text": new}
    path = here.root / "one.txt"
    path.write_bytes(was.encode())
    use(here, "read_file", path="one.txt")
    assert use(here, "edit_file", again=True, **arguments) == "edited one.txt", "it was not done before"
    after = path.read_bytes()
    assert after == was.replace("two", new.replace("\n", "\r\n") if "\r" in was else new).encode()
    path.write_bytes(was.encode())
    use(here, "read_file", path="one.txt")
    path.write_bytes(after)  # as if the call had been interrupted behind its effect
    assert "before the interruption" in use(here, "edit_file", again=True, **arguments)
    assert path.read_bytes() == after
    path.write_bytes(after + b"by somebody else")
    with pytest.raises(Refused, match="changed since you read it"):
        use(here, "edit_file", again=True, **arguments | {"old_text": "one"})


def test_an_interrupted_edit_of_a_file_that_was_never_read_is_not_guessed_at(here: Here) -> None:
    (here.root / "one.txt").write_text("two and more\n")
    with pytest.raises(Refused, match="may have been edited already, read it first"):
        use(here, "edit_file", again=True, path="one.txt", old_text="two", new_text="two and more")
    assert (here.root / "one.txt").read_text() == "two and more\n"


def test_an_interrupted_edit_that_took_away_the_last_newline_is_known_again(here: Here) -> None:
    path = here.root / "one.txt"
    path.write_text("one\ntwo\n")
    use(here, "read_file", path="one.txt")
    path.write_text("one\n2\n")
    done = use(here, "edit_file", again=True, path="one.txt", old_text="two\n", new_text="2")
    assert "before the interruption" in done and path.read_text() == "one\n2\n"


def test_glob_and_grep_look_at_the_files_and_not_at_git_or_links(here: Here) -> None:
    (here.root / "src" / "deep").mkdir(parents=True)
    (here.root / "src" / "a.py").write_text("needle\n")
    (here.root / "src" / "deep" / "b.py").write_text("hay\nneedle in hay\n")
    (here.root / "bin").write_bytes(b"needle\0\n")
    assert use(here, "glob", pattern="**/*.py") == "src/a.py\nsrc/deep/b.py"
    assert use(here, "glob", pattern="src/*.py") == "src/a.py"
    assert use(here, "glob", pattern="*.rs") == "no file matches"
    assert use(here, "grep", pattern="^needle") == "src/a.py:1: needle\nsrc/deep/b.py:2: needle in hay"
    assert use(here, "grep", pattern="needle", path="src/a.py") == "src/a.py:1: needle"
    assert use(here, "grep", pattern="needle", glob="b.*") == "src/deep/b.py:2: needle in hay"
    assert use(here, "grep", pattern="nothing") == "no line matches"
    for pattern in ("(", "a{9999999999999}"):
        with pytest.raises(Refused, match="expected a pattern"):
            use(here, "grep", pattern=pattern)
    for pattern in ("/etc/*", "../*"):
        with pytest.raises(Refused, match="inside your directory"):
            use(here, "glob", pattern=pattern)


def test_a_pattern_that_would_run_for_years_holds_up_nobody_and_is_ended_when_the_team_stops(here: Here) -> None:
    (here.root / "aaa").write_text("a" * 5000 + "!\n")
    cancel = Cancel()
    tool = TEAMMATE_TOOLS["grep"]
    timer = threading.Timer(0.3, cancel.set, ("the run ends",))  # it can only fire if the search lets this process be
    timer.start()
    start = time.monotonic()
    with pytest.raises(Refused, match="the run ends"):
        tool.act(here, tool.parse({"pattern": "(a+)+$"}), Call("c1", "k", cancel))
    assert time.monotonic() - start < 5
    timer.join()


def test_the_output_of_another_member_cannot_be_read(here: Here) -> None:
    output = here.team.root / "output"
    output.mkdir(parents=True)
    (output / "ben#1.0123456789ab").write_text("private\n")
    (output / "ada#1.0123456789ab").write_text("mine\n")
    assert "mine" in use(here, "read_file", path="output:ada#1.0123456789ab")
    for found in ("ben#1.0123456789ab", "ada#1.x/../ben#1.0123456789ab", "../team.json", "ada#1.", ""):
        with pytest.raises(Refused):
            use(here, "read_file", path=f"output:{found}")


GITS = [".git/config", "sub/.git", "sub/.git/hooks/x", "a/b/.git/HEAD", ".GIT/config", ".Git", "sub/.gIt/config"]
GITS += [".git./config", ".git ", ".git . /config", ".git::$INDEX_ALLOCATION/config", ".git:x"]
GITS += ["git~1/config", "GIT~1", "sub/git~1. /x", ".g\u200cit/config", "\ufeff.git/config", ".gi\u202et\u206f/x"]
GITS += ["sub\\.git\\config", ".GIT\\config", "x\\git~1"]
OTHERS = [
    ".gitignore",
    ".gitattributes",
    ".github/w.yml",
    "git",
    "a.git/x",
    ".git-blame",
    "git~2",
    ".gitx",
    " .git",
    "x.git.",
]


@pytest.mark.parametrize("given", GITS + OTHERS)
def test_no_spelling_of_gits_own_folder_is_written_or_read_and_git_itself_agrees(
    here: Here, tmp_path: Path, given: str
) -> None:
    def git(*argv: str) -> int:
        settings = ("-c", "core.protectHFS=true", "-c", "core.protectNTFS=true")
        return subprocess.run(["git", *settings, *argv], cwd=tmp_path, capture_output=True, check=False).returncode

    assert git("init", "-q") == 0
    empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    tracked = git("update-index", "--add", "--cacheinfo", f"100644,{empty},{given}") == 0
    assert tracked == (given in OTHERS)
    before = sorted(here.root.rglob("*"))
    for tool, more in (("write_file", {"content": "x"}), ("edit_file", {"old_text": "x", "new_text": "y"})):
        if given in OTHERS:
            use(here, tool, path=given, **more)
        else:
            with pytest.raises(Refused, match="belongs to git"):
                use(here, tool, path=given, **more)
    if given in GITS:
        assert sorted(here.root.rglob("*")) == before
        with pytest.raises(Refused, match="belongs to git"):
            use(here, "read_file", path=given)


def test_a_link_to_gits_own_folder_and_one_in_its_place_are_refused(here: Here) -> None:
    (here.root / "sub").mkdir()
    (here.root / "sub" / ".git").mkdir()
    (here.root / "door").symlink_to("sub/.git")
    (here.root / "other").mkdir()
    (here.root / "other" / ".git").symlink_to("..")
    for given in ("door/config", "other/.git/config", "other/.git/x/../y"):
        with pytest.raises(Refused, match="belongs to git"):
            use(here, "write_file", path=given, content="x")

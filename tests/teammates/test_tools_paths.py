"""What the file tools reach: regular files inside the member's own directory, and nothing else."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.errors import Refused
from coterie.teammates.cancel import Cancel
from coterie.teammates.tool import Call, ToolResult
from coterie.teammates.tools import TEAMMATE_TOOLS
from coterie.teammates.tools import paths as paths_tools


class Here:
    """The part of a member that a file tool asks for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.instance = "ada#1"
        self.team = SimpleNamespace(root=root.parent / "team")

    def directory(self) -> Path:
        return self.root


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
    return said.text if isinstance(said, ToolResult) else said


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


def test_what_is_no_regular_file_is_refused_at_once_and_never_waited_for(here: Here) -> None:
    os.mkfifo(here.root / "fifo")
    (here.root / "null").symlink_to("/dev/null")
    (here.root / "folder").mkdir()
    for path in ("fifo", "null", "folder", "."):
        with pytest.raises(Refused):
            use(here, "read_file", path=path)
        with pytest.raises(Refused):
            use(here, "write_file", path=path, content="x")
    assert use(here, "grep", pattern="three") == "one.txt:3: three"


def test_a_path_below_a_file_is_refused_in_a_sentence(here: Here) -> None:
    (here.root / "a.txt").write_text("a")
    for path in ("a.txt/x", "a.txt/x/y"):
        with pytest.raises(Refused, match="is a file"):
            use(here, "write_file", path=path, content="x")
    assert (here.root / "a.txt").read_text() == "a"


def test_what_cannot_be_shown_says_why(here: Here) -> None:
    (here.root / "binary").write_bytes(b"\xff\xfe\0\1")
    (here.root / "huge").write_bytes(b"")
    os.truncate(here.root / "huge", paths_tools.FILE_CAP + 1)
    with pytest.raises(Refused, match="not UTF-8"):
        use(here, "read_file", path="binary")
    with pytest.raises(Refused, match="huge"):
        use(here, "read_file", path="huge")
    with pytest.raises(Refused, match=r"no file two\.txt.*one\.txt"):
        use(here, "read_file", path="two.txt")
    with pytest.raises(Refused, match="at most"):
        use(here, "write_file", path="big", content="x" * (paths_tools.FILE_CAP + 1))
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


def test_an_edit_that_was_done_before_an_interruption_is_not_done_twice(here: Here) -> None:
    arguments = {"path": "one.txt", "old_text": "two\n", "new_text": "2\n"}
    use(here, "edit_file", **arguments)
    assert "before the interruption" in use(here, "edit_file", again=True, **arguments)
    with pytest.raises(Refused, match="found 0 times"):
        use(here, "edit_file", **arguments)


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

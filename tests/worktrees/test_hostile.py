"""What a repository, a teammate or an environment may try: our git runs no program of its choice, nothing hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.errors import CoterieError, Refused
from coterie.worktrees import Git, GitError, Keeper, NotBound, Unmergeable, find_repository, land, plan_land, prepare
from coterie.worktrees.in_hand import work_in_hand
from coterie.worktrees.joining import conflict_marks

from .conftest import Bench, git, start, tree, write

HOOKS = (
    "post-checkout post-commit pre-commit commit-msg prepare-commit-msg reference-transaction post-index-change "
    "post-merge pre-merge-commit post-rewrite pre-auto-gc update post-update"
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a trace, and fails."""
    path = write(tmp_path, "trap", f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/sprung'\nexit 1\n")
    path.chmod(0o755)
    return path


def whole_life(bench: Bench) -> None:
    root = bench.root
    prepare_again = find_repository(root)
    assert prepare_again.root == root
    path = bench.open()
    write(path, "one.txt", "ada\n")
    write(path, "two.txt", "1\nada\n3\n")
    bench.keeper.snapshot("ada", label="x")
    bench.land_on_tip(two__txt="1\n2\n3\n4\n5\n", theirs__txt="t\n")
    bench.merge_in()
    write(path, "two.txt", "both\n")
    head = bench.commit()
    assert head is not None
    bench.merger.plan_merge(head, bench.keeper.tip())
    bench.queue(head)
    bench.merger.log(bench.base)
    bench.merger.diff(bench.base)
    bench.keeper.reader("queue", bench.keeper.tip())
    bench.keeper.close("ada")
    land(find_repository(root), plan_land(find_repository(root), "main"))


def test_no_hook_of_the_repository_is_run(root: Path, trap: Path, make_keeper: Callable[..., Keeper]) -> None:
    for name in HOOKS.split():
        shutil.copy2(trap, root / ".git" / "hooks" / name)
    whole_life(Bench(make_keeper(root), root))
    prepare(find_repository(root), "later")
    assert not (trap.parent / "sprung").exists()


PROGRAMS = """
core.fsmonitor core.pager core.editor core.askPass core.sshCommand core.gitProxy core.alternateRefsCommand
credential.helper diff.external diff.evil.command diff.evil.textconv diff.tool difftool.evil.cmd
filter.evil.clean filter.evil.smudge filter.evil.process merge.evil.driver mergetool.evil.cmd
interactive.diffFilter gpg.program gpg.ssh.program gpg.x509.program gpg.ssh.defaultKeyCommand pager.log
pager.diff sequence.editor uploadpack.packObjectsHook gc.recentObjectsHook remote.origin.uploadpack
remote.origin.receivepack trailer.evil.command trailer.evil.cmd man.evil.cmd browser.evil.cmd web.browser
submodule.mod.update alias.commit-tree alias.log alias.status alias.diff alias.update-ref
"""
OTHERS = {
    "commit.gpgSign": "true",
    "tag.gpgSign": "true",
    "log.showSignature": "true",
    "merge.verifySignatures": "true",
    "merge.default": "evil",
    "merge.tool": "evil",
    "merge.guitool": "evil",
    "diff.submodule": "log",
    "status.submoduleSummary": "true",
    "submodule.recurse": "true",
    "gc.auto": "1",
    "maintenance.auto": "true",
    "core.untrackedCache": "true",
    "core.splitIndex": "true",
    "core.checkStat": "minimal",
    "rerere.enabled": "true",
    "protocol.allow": "always",
    "protocol.ext.allow": "always",
    "protocol.file.allow": "always",
    "remote.origin.url": "ext::sh -c 'exit 1'",
}


def armed(folder: Path, trap: Path) -> dict[str, str]:
    """Every setting that names a program, each with a trap of its own, so that the one that ran is known."""
    found = dict(OTHERS)
    for key in PROGRAMS.split():
        path = folder / key
        if not path.exists():
            shutil.copy2(trap, path)
        bang = "!" if key.startswith(("alias.", "submodule.", "credential.")) else ""
        found[key] = f"{bang}{path}" + (" %A" if key.startswith("merge.") else "")
    return found


def configure(file: Path, settings: dict[str, str]) -> None:
    """Settings as one file of them."""
    text = ""
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        top, mark, rest = section.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        text += f'[{top}{mark and f" {chr(34)}{rest}{chr(34)}"}]\n {name} = "{quoted}"\n'
    with file.open("a") as config:
        config.write(text)


def sprung(trap: Path) -> str:
    path = trap.parent / "sprung"
    return path.read_text() if path.exists() else ""


def test_no_program_of_the_repositorys_configuration_is_run(
    root: Path, trap: Path, make_keeper: Callable[..., Keeper], tmp_path: Path
) -> None:
    """In config, in a file it includes, in the checkouts' own config.worktree, in that of a submodule."""
    mod = start(tmp_path / "mod")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(mod), "mod")
    write(root, ".gitattributes", "*.txt filter=evil diff=evil merge=evil\n")
    git(root, "add", ".gitattributes")
    git(root, "commit", "-q", "-m", "attributes")
    write(root, ".git/info/attributes", "theirs.txt filter=evil diff=evil merge=evil\n")
    write(tmp_path, "attributes", "* filter=evil diff=evil merge=evil\n")
    bench = Bench(make_keeper(root), root)
    hooks, settings = root / "elsewhere", armed(tmp_path, trap)
    write(root, ".git/info/exclude", "/elsewhere/\n")
    for name in HOOKS.split():
        write(hooks, name, trap.read_text()).chmod(0o755)
    more = {
        "core.hooksPath": str(hooks),
        "core.attributesFile": str(tmp_path / "attributes"),
        "init.templateDir": str(hooks),
    }
    configure(
        root / ".git" / "config", settings | more | {"include.path": "included", "extensions.worktreeConfig": "true"}
    )
    configure(root / ".git" / "included", settings | more)
    configure(root / ".git" / "config.worktree", settings | more)
    configure(root / ".git" / "modules" / "mod" / "config", settings | more)
    where = bench.keeper.where("ada") or (bench.open() and bench.keeper.where("ada"))
    assert where is not None
    configure(where.metadata / "config.worktree", settings)
    write(root, "mod/one.txt", "changed in the submodule\n")
    whole_life(bench)
    assert not sprung(trap)


def test_nothing_that_a_teammate_can_write_makes_our_git_run_a_program(
    root: Path, trap: Path, make_keeper: Callable[..., Keeper], tmp_path: Path
) -> None:
    """In its files, in its worktree's metadata, in a repository of its own inside; before and while it works."""
    git(root, "config", "extensions.worktreeConfig", "true")
    bench = Bench(make_keeper(root), root)
    bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    settings = armed(tmp_path, trap) | {"core.hooksPath": str(where.path / "hooks")}

    def attack() -> None:
        write(where.path, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
        inner = where.path / "inner"
        if not inner.exists():
            start(inner)
            write(inner, ".gitattributes", "* filter=evil diff=evil\n")
        configure(inner / ".git" / "config", settings)
        configure(where.metadata / "config.worktree", settings)
        configure(where.metadata / "config", settings)
        write(where.metadata, "info/attributes", "* filter=evil diff=evil merge=evil\n")
        for folder in (where.metadata / "hooks", where.path / "hooks", inner / ".git" / "hooks"):
            for name in HOOKS.split():
                write(folder, name, trap.read_text()).chmod(0o755)
        for name in ("git", "env", "sh", "git-merge-tree", "git-lfs"):
            write(where.path, name, trap.read_text()).chmod(0o755)
        write(where.path, ".gitmodules", f'[submodule "inner"]\n path = inner\n url = ext::{trap}\n update = !{trap}\n')

    attack()
    with pytest.raises(Unmergeable):  # there is a repository inside
        bench.commit()
    bench.keeper.changed("ada")
    work_in_hand(bench.keeper.git, where, branch="coterie/main/T1/e1", base=bench.base)
    bench.keeper.snapshot("ada", label="x")
    shutil.rmtree(where.path / "inner")
    write(where.path, "two.txt", "1\nada\n3\n")
    bench.land_on_tip(two__txt="1\n2\n3\n4\n5\n")
    bench.merge_in()
    attack()
    shutil.rmtree(where.path / "inner")
    write(where.path, "two.txt", "both\n")
    head = bench.commit()
    assert head is not None
    attack()
    bench.queue(head)
    bench.merger.diff(bench.base, task="T1", epoch=1)
    bench.keeper.reader("queue", bench.keeper.tip())
    bench.keeper.close("ada")
    attack()
    bench.keeper.open("ada", task="T2", epoch=1, base=bench.keeper.tip())
    (where.path / ".git").unlink()
    write(where.path, ".git", "gitdir: inner/.git\n")
    bench.keeper.heal(["ada"])
    bench.keeper.close("ada")
    assert not sprung(trap)


def test_where_the_work_lies_is_not_the_repositorys_to_say(root: Path, make_keeper: Callable[..., Keeper]) -> None:
    elsewhere = start(root.parent / "elsewhere")
    before = tree(elsewhere), (elsewhere / ".git" / "index").read_bytes()
    bench = Bench(make_keeper(root), root)
    bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    git(root, "config", "extensions.worktreeConfig", "true")
    for file in (root / ".git" / "config", where.metadata / "config.worktree"):
        configure(file, {"core.worktree": str(elsewhere), "core.bare": "false"})
    write(where.path, "one.txt", "work\n")
    assert bench.keeper.changed("ada") == ["one.txt"]
    assert bench.keeper.snapshot("ada", label="x") is not None
    head = bench.commit()
    assert head is not None
    bench.queue(head)
    bench.keeper.reader("queue", bench.keeper.tip())
    bench.keeper.close("ada")
    assert (tree(elsewhere), (elsewhere / ".git" / "index").read_bytes()) == before


def test_a_pipe_in_the_place_of_a_file_of_rules_holds_up_nothing(bench: Bench, root: Path) -> None:
    path = bench.open()
    for folder in (path, path / "sub"):
        folder.mkdir(exist_ok=True)
        for name in (".gitignore", ".gitattributes", ".gitmodules"):
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
        write(folder, "x.txt", "x")
    with pytest.raises(Refused, match="no file, git would wait"):
        bench.keeper.changed("ada")
    kept = bench.keeper.snapshot("ada", label="x")
    assert kept is not None and set(kept.files) == {".gitignore", "x.txt", "sub/x.txt"}
    os.mkfifo(path / "sub" / ".gitignore")
    assert bench.commit() is not None
    os.mkfifo(path / "sub" / ".gitignore")
    bench.keeper.close("ada")
    reader = bench.keeper.reader("queue", bench.base)
    (reader / ".gitignore").unlink()
    os.mkfifo(reader / ".gitignore")  # as a check may
    bench.keeper.reader("queue", bench.base)
    (path / ".git").unlink()
    os.mkfifo(path / ".git")
    with pytest.raises(NotBound):
        bench.keeper.check("ada", task="T1", epoch=1, path=path, branch="coterie/main/T1/e1")


def test_a_folder_that_became_a_link_leads_nothing_of_ours_out_of_the_worktree(
    bench: Bench, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    write(outside, "deep/one.txt", "<<<<<<< mine\n")
    path = bench.open()
    write(path, "sub/deep/one.txt", "1\n")
    bench.commit()
    shutil.rmtree(path / "sub")
    (path / "sub").symlink_to(outside)
    assert conflict_marks(path, ("sub/deep/one.txt",)) == []
    assert bench.keeper.snapshot("ada", label="x") is not None
    assert bench.commit() is not None
    bench.keeper.close("ada")
    assert (outside / "deep" / "one.txt").read_text() == "<<<<<<< mine\n"


def test_objects_that_are_missing_are_fetched_from_nobody(
    root: Path, trap: Path, make_keeper: Callable[..., Keeper]
) -> None:
    bench = Bench(make_keeper(root), root)
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": str(trap),
        "protocol.ext.allow": "always",
        "core.sshCommand": str(trap),
    }.items():
        git(root, "config", key, value)
    gone = git(root, "rev-parse", "HEAD:one.txt")
    (root / ".git" / "objects" / gone[:2] / gone[2:]).unlink()
    for url in (f"ext::{trap} x", str(root), f"file://{root}", f"ssh://-oProxyCommand={trap}/x"):
        git(root, "config", "remote.origin.url", url)
        with pytest.raises(GitError):
            bench.open()
        assert not sprung(trap), url


def test_filters_of_the_users_own_settings_are_run(
    root: Path, home: Path, tmp_path: Path, make_keeper: Callable[..., Keeper]
) -> None:
    write(root, ".gitattributes", "*.up filter=upper\n")
    git(root, "add", ".gitattributes")
    git(root, "commit", "-q", "-m", "attributes")
    write(home, ".gitconfig", '[filter "upper"]\n clean = tr a-z A-Z\n smudge = tr A-Z a-z\n required = true\n')
    git(root, "config", "filter.upper.clean", "false")
    bench = Bench(make_keeper(root), root)
    write(bench.open(), "x.up", "abc\n")
    head = bench.commit()
    assert head is not None and git(root, "cat-file", "-p", f"{head}:x.up") == "ABC"
    assert (bench.keeper.reader("queue", bench.queue(head)) / "x.up").read_text() == "abc\n"


def test_a_required_filter_of_the_repository_alone_fails_loudly_and_stores_nothing_unfiltered(
    root: Path, make_keeper: Callable[..., Keeper]
) -> None:
    write(root, ".gitattributes", "*.secret filter=crypt\n")
    git(root, "add", ".gitattributes")
    git(root, "commit", "-q", "-m", "attributes")
    git(root, "config", "filter.crypt.clean", "rev")
    git(root, "config", "filter.crypt.required", "true")
    bench = Bench(make_keeper(root), root)
    write(bench.open(), "x.secret", "plain\n")
    with pytest.raises(GitError, match="git config --global"):
        bench.commit()


def test_a_configuration_that_changes_later_is_looked_at_again(bench: Bench, root: Path, trap: Path) -> None:
    path = bench.open()
    write(path, ".gitattributes", "*.txt filter=evil\n")
    write(path, "one.txt", "1\n")
    bench.commit()
    git(path, "config", "filter.evil.clean", str(trap))
    write(path, "one.txt", "2\n")
    assert bench.commit() is not None and not (trap.parent / "sprung").exists()


def test_a_worktree_led_to_another_repository_is_not_followed(
    bench: Bench, root: Path, tmp_path: Path, trap: Path
) -> None:
    """`commondir` and `.git` are a teammate's to write; which repository ours acts on is pinned all the same."""
    evil = start(tmp_path / "evil")
    git(evil, "config", "core.fsmonitor", str(trap))
    git(evil, "config", "filter.evil.clean", str(trap))
    path = bench.open()
    where = bench.keeper.where("ada")
    assert where is not None
    write(path, ".gitattributes", "* filter=evil\n")
    write(path, "one.txt", "work\n")
    refs = git(evil, "for-each-ref")
    write(where.metadata, "commondir", f"{evil}/.git\n")
    kept = bench.keeper.snapshot("ada", label="x")
    assert kept is not None and git(root, "show", f"{kept.ref}:one.txt") == "work"
    write(where.metadata, "commondir", f"{evil}/.git\n")
    with pytest.raises(GitError, match="commondir"):
        bench.commit()
    bench.keeper.heal(["ada"])
    write(path, ".git", f"gitdir: {evil}/.git\n")
    head = bench.commit()
    assert head is not None and git(root, "rev-parse", "coterie/main/T1/e1") == head
    assert git(evil, "for-each-ref") == refs and tree(evil) == tree(start(tmp_path / "fresh"))
    assert not (trap.parent / "sprung").exists()


def test_which_repository_is_meant_is_pinned_also_where_its_own_folder_leads_elsewhere(root: Path) -> None:
    evil = start(root.parent / "evil")
    write(evil, "one.txt", "evil\n")
    git(evil, "commit", "-qam", "evil")
    refs, head = git(evil, "for-each-ref"), git(root, "rev-parse", "HEAD")
    write(root, ".git/commondir", f"{evil}/.git\n")
    ours = Git(root / ".git")
    with pytest.raises(GitError, match="commondir was changed"):
        ours.run("rev-parse", "--verify", "HEAD")
    with pytest.raises(GitError, match="commondir was changed"):
        ours.update_ref("refs/coterie/x", head, "")
    (root / ".git" / "commondir").unlink()
    assert ours.run("rev-parse", "--verify", "HEAD") == head and git(evil, "for-each-ref") == refs


SWAPPED = """
import sys
from pathlib import Path
from coterie.worktrees.git import Git, Where

common, metadata, path, evil = map(Path, sys.argv[1:])

def swap(event, args):  # somebody leads it elsewhere after it was looked at, just before git begins
    if event == "subprocess.Popen":
        (metadata / "commondir").write_text(f"{evil}/.git")

sys.addaudithook(swap)
print(Git(common).run("add", "--all", where=Where(metadata=metadata, path=path)))
"""


def test_a_worktree_that_is_led_elsewhere_just_before_git_begins_brings_no_settings_of_others(
    bench: Bench, root: Path, trap: Path
) -> None:
    evil = start(root.parent / "evil")
    git(evil, "config", "filter.evil.clean", str(trap))
    write(bench.open(), ".gitattributes", "* filter=evil\n")
    where = bench.keeper.where("ada")
    assert where is not None
    write(where.path, "x.txt", "x")
    argv = [sys.executable, "-c", SWAPPED, str(root / ".git"), str(where.metadata), str(where.path), str(evil)]
    subprocess.run(argv, check=True, timeout=60)
    assert (where.metadata / "commondir").read_text() == f"{evil}/.git" and not sprung(trap)


def test_variables_of_the_environment_have_no_effect(
    bench: Bench, root: Path, tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = start(tmp_path / "other")
    before = tree(other), git(other, "for-each-ref"), (other / ".git/index").read_bytes()
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / ".git/index",
        "GIT_COMMON_DIR": other / ".git",
        "GIT_OBJECT_DIRECTORY": other / ".git/objects",
        "GIT_EXTERNAL_DIFF": trap,
        "GIT_EDITOR": trap,
        "GIT_PAGER": trap,
        "GIT_NAMESPACE": "evil",
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={trap}'",
        "GIT_TEMPLATE_DIR": other,
        "GIT_LITERAL_PATHSPECS": "1",
    }.items():
        monkeypatch.setenv(name, str(value))
    whole_life(bench)
    assert (tree(other), git(other, "for-each-ref"), (other / ".git/index").read_bytes()) == before
    assert not (trap.parent / "sprung").exists()


def test_no_identity_and_a_locked_signing_key_stop_nothing(bench: Bench, home: Path, trap: Path) -> None:
    write(
        home,
        ".gitconfig",
        f"[user]\n useConfigOnly = true\n signingKey = X\n[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n"
        f"[gpg]\n program = {trap}\n[safe]\n directory = *\n",
    )
    whole_life(bench)
    assert not (trap.parent / "sprung").exists()


def test_a_git_that_hangs_is_ended_at_its_time(root: Path, tmp_path: Path, home: Path) -> None:
    write(home, ".gitconfig", "[alias]\n forever = !sleep 300\n")
    with pytest.raises(CoterieError, match="did not complete"):
        Git(root / ".git").run("forever", timeout=0.3)


def test_a_filter_of_the_users_own_that_hangs_is_ended_with_all_that_it_started(
    root: Path, home: Path, make_keeper: Callable[..., Keeper]
) -> None:
    fifo = root.parent / "fifo"
    os.mkfifo(fifo)
    write(home, ".gitconfig", f'[filter "slow"]\n clean = "sh -c \\"cat {fifo}; true\\""\n')
    bench = Bench(make_keeper(root), root)
    write(bench.open(), ".gitattributes", "*.txt filter=slow\n")
    where = bench.keeper.where("ada")
    assert where is not None
    write(where.path, "x.txt", "x")
    begun = time.monotonic()
    with pytest.raises(GitError, match="did not complete"):
        bench.keeper.git.run("add", "--all", where=where, timeout=0.5)
    assert time.monotonic() - begun < 30, "the one that it started holds the pipe open"
    with pytest.raises(OSError, match="No such device"):  # ENXIO: nobody has it open for reading any more
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))


def test_a_filter_of_the_users_own_is_not_looked_for_in_the_worktree(
    root: Path, home: Path, trap: Path, make_keeper: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}::bin")
    write(home, ".gitconfig", '[filter "own"]\n clean = tidy-up\n')
    bench = Bench(make_keeper(root), root)
    path = bench.open()
    write(path, ".gitattributes", "*.txt filter=own\n")
    for name in ("tidy-up", "bin/tidy-up", "git", "env"):
        write(path, name, trap.read_text()).chmod(0o755)
    write(path, "x.txt", "x")
    assert bench.commit() is not None and not sprung(trap)


def test_what_git_prints_is_given_whole(root: Path) -> None:
    write(root, "ends.txt", "a\n\n\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")
    assert Git(root / ".git").run("cat-file", "blob", "HEAD:ends.txt") == "a\n\n"
    with pytest.raises(GitError, match="git cat-file blob HEAD:absent"):
        Git(root / ".git").run("cat-file", "blob", "HEAD:absent")

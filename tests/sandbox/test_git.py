"""Git for commands: usable for looking and for putting files back, and nothing it writes has an effect outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sandbox.ground import WORD, Ground, git, write

from coterie.teammates.sandbox.space import Space

LOOKING = """
set -e
echo changed >> one.txt; echo new > new.txt; git add new.txt one.txt
git status --short; git diff --cached --stat | cat; git log --oneline | wc -l; git branch --show-current
git ls-files --error-unmatch new.txt > /dev/null; git stash list; git branch --list 'theirs'; git merge-base HEAD HEAD
"""
AGAIN = """
set -e
git status --short
git restore --staged new.txt one.txt; git checkout -q -- one.txt
git restore --source=HEAD two.txt; git checkout -q two.txt
cat one.txt; git status --short; rm new.txt
"""
OWN = """
set -e
cd /tmp; rm -rf own; git init -q own; cd own; echo x > x; git add x
git -c user.name=T -c user.email=t@example.org commit -qm x; git branch side; git checkout -q side; git reset -q --hard
git log --oneline | wc -l; git -C "$OLDPWD/own" rev-parse --abbrev-ref HEAD
"""


def test_status_diff_add_restore_and_checkout_of_files_work_and_what_is_staged_stays(ground: Ground) -> None:
    looked = ground.run(LOOKING)
    assert looked.exit_code == 0, looked.text
    for each in ("A  new.txt\nM  one.txt\n", "2 files changed, 2 insertions(+)", "coterie/main/T1/e1\n", "theirs"):
        assert each in looked.text
    again = ground.run(AGAIN)
    assert (again.exit_code, again.text) == (0, "A  new.txt\nM  one.txt\none\n?? new.txt\n"), again.text


def test_a_repository_that_a_test_suite_makes_for_itself_is_one_like_any(ground: Ground) -> None:
    done = ground.run(OWN)
    assert (done.exit_code, done.text) == (0, "1\nside\n"), done.text


def test_what_the_person_ignores_everywhere_is_ignored_here_too(ground: Ground) -> None:
    assert ground.run("touch a.theirs b.log c.txt; git status --short; rm a.theirs b.log c.txt").text == "?? c.txt\n"


def test_after_the_runtime_has_committed_git_says_so(ground: Ground) -> None:
    assert ground.run("echo more > more.txt; git status --short").text == "?? more.txt\n"
    keeper = ground.team.keeper
    assert keeper.commit("ada", task="T1", epoch=1, base=keeper.tip(), message="the runtime's", author="ada")
    assert ground.run("git status --short; git log -1 --format=%s").text == "the runtime's\n"


REFUSED = [
    *("commit -m x", "commit --allow-empty -am x", "stash", "stash push", "stash pop", "branch x", "branch -D theirs"),
    *("rebase theirs", "merge theirs", "pull", "cherry-pick HEAD", "revert HEAD", "am x", "tag x", "tag -d x"),
    *(
        "reset",
        "reset --hard",
        "reset --soft HEAD~1",
        "reset HEAD one.txt",
        "checkout theirs",
        "checkout -b x",
        "switch x",
    ),
    *(
        "checkout HEAD",
        "checkout --detach",
        "checkout -",
        "switch -c x",
        "-C . commit -m x",
        "-c core.bare=false stash",
    ),
    *("--no-pager commit -m x", "--git-dir=.git commit -m x"),
]


def test_what_would_move_a_branch_is_refused_at_once_and_says_what_to_do(ground: Ground) -> None:
    script = "\n".join(f"git {each} > said 2>&1; echo $? $(cat said | wc -l) $(cat said)" for each in REFUSED)
    lines = ground.run(f"echo work > work.txt\n{script}\ncat work.txt; rm -f said work.txt").text.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["1", "1"]] * len(REFUSED), "\n".join(lines)
    assert all("the runtime commits: use submit_work" in line for line in lines[:-1])
    assert lines[-1] == "work", "nothing was wiped before"


def test_the_real_git_cannot_move_a_branch_either(ground: Ground) -> None:
    tip = ground.team.keeper.git.resolve("refs/heads/coterie/main/T1/e1")
    who = "-c user.name=T -c user.email=t@example.org"
    script = f"""
real=$(which -a git | sed -n 2p)
for each in "{who} commit --allow-empty -qm evil" "branch evil" "{who} stash" "update-ref HEAD HEAD~0" \
        "pack-refs --all" "symbolic-ref HEAD refs/heads/theirs" "worktree prune" "gc --prune=now" \
        "update-ref refs/heads/theirs HEAD^{{tree}}"; do
    echo $each >> one.txt
    $real $each > /dev/null 2>&1 && echo "done: $each"
done
git checkout -q -- one.txt
"""
    before = git(ground.repository, "for-each-ref")
    done = ground.run(script)
    assert (done.exit_code, done.text.replace("done: worktree prune\n", "")) == (0, ""), done.text
    assert git(ground.repository, "for-each-ref") == before
    assert ground.team.keeper.git.resolve("refs/heads/coterie/main/T1/e1") == tip
    assert ground.metadata("ben").is_dir()


EVIL = """
mkdir -p .evil/hooks nested; echo 'touch @CANARY@; cat' > .evil/run; chmod +x .evil/run
cp .evil/run .evil/hooks/pre-commit
run=$PWD/.evil/run
real=$(which -a git | sed -n 2p)
for each in filter.evil.clean filter.evil.smudge diff.evil.textconv diff.evil.command diff.external merge.evil.driver \
        core.fsmonitor core.pager core.editor core.sshCommand gpg.program credential.helper; do
    for place in --local --global --worktree; do $real config $place $each "$run" 2> /dev/null; done
done
$real config --global core.hooksPath $PWD/.evil/hooks; $real config --global core.attributesFile $PWD/.evil/attributes
echo '* filter=evil diff=evil merge=evil' | tee .gitattributes .evil/attributes > /dev/null
cp .evil/hooks/pre-commit @COMMON@/hooks/ 2> /dev/null; cp .evil/attributes @COMMON@/info/attributes 2> /dev/null
cp .evil/hooks/pre-commit @META@/ 2> /dev/null; mkdir -p @META@/hooks; cp .evil/run @META@/hooks/post-index-change
printf '[core]\\n\\tfsmonitor = %s\\n\\tworktree = /\\n' "$run" > @META@/config.worktree
printf '[core]\\n\\tfsmonitor = %s\\n' "$run" > @META@/config
$real init -q nested; $real -C nested config core.fsmonitor "$run"; echo x > nested/x
echo evil >> one.txt; echo new > evil.txt; git add -A
echo written
"""


def test_no_program_that_a_command_named_runs_outside_when_the_runtime_snapshots_commits_and_merges(
    ground: Ground, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    script = EVIL.replace("@CANARY@", str(canary)).replace("@COMMON@", str(ground.repository / ".git"))
    written = ground.run(script.replace("@META@", str(ground.metadata("ben"))), cwd=ground.ben)
    assert written.text.endswith("written\n"), written.text
    keeper, merger = ground.team.keeper, ground.team.merger
    assert keeper.snapshot("ben", label="tried") is not None
    assert "evil.txt" in keeper.changed("ben")
    assert ground.run("rm -rf nested", cwd=ground.ben).exit_code == 0
    commit = keeper.commit("ben", task="T2", epoch=1, base=keeper.tip(), message="evil", author="ben")
    assert commit is not None
    tip = keeper.tip()
    merge = merger.plan_merge(commit, tip)
    merged = merger.commit_merge(
        merge, tip=tip, head=commit, message="T2", trailers={"Coterie-Task": "T2"}, author="ben"
    )
    merger.advance(tip, merged)
    assert (keeper.reader("queue", merged) / "evil.txt").read_text() == "new\n"
    assert "evil.txt" in merger.diff_of(merged)
    git(ground.repository, "log", "-1", "-p", commit)  # the person looks at it
    assert not canary.exists()
    after = ground.run("git -c core.fsmonitor= -c core.attributesFile= log -1 --format=%s", cwd=ground.ben)
    assert after.text == "evil\n", "the command sees what the runtime committed"


def test_gits_settings_are_there_without_what_is_secret(ground: Ground) -> None:
    said = ground.run("git config --list --local; git config --list --system; cat /etc/gitconfig").text
    assert "merge.ours.driver=true" in said and "remote.origin.url=https://example.org/shop.git" in said
    assert WORD not in said and "extraheader" not in said and "credential" not in said


def test_a_new_assignment_finds_nothing_of_the_last_one(ground: Ground) -> None:
    left = "echo x > /tmp/left; echo x > ~/left; git add -f .gitignore; ls /tmp/left ~/left"
    assert ground.run(left).text == "/run/coterie/home/left\n/tmp/left\n"
    assert ground.run("cat /tmp/left ~/left").text == "x\nx\n", "as long as the assignment it stays"
    keeper = ground.team.keeper
    keeper.close("ada")
    keeper.open("ada", task="T9", epoch=1, base=keeper.tip())
    assert ground.run("ls -A /tmp ~ | grep left; git status --short").text == ""


def test_a_link_in_tmp_does_not_lead_a_mount_of_the_next_command_elsewhere(ground: Ground, tmp_path: Path) -> None:
    """The worktrees of these tests lie below /tmp, of which commands have their own."""
    first = Path(ground.ada).relative_to("/tmp").parts[0]
    space = Space(ground.ada)
    held = space.temporary / first
    assert ground.run(f"rmdir /tmp/{first}; mv /tmp/{first} /tmp/x; ln -sfn /oldroot{tmp_path} /tmp/{first}; true").ok
    assert held.is_dir() and not held.is_symlink(), "it is mounted on"
    held.rename(space.temporary / "aside")
    held.symlink_to(f"/oldroot{tmp_path}")  # as if a command had laid it before there was a mount
    assert ground.run("true").ok
    assert list(tmp_path.iterdir()) == [] and held.is_dir() and not held.is_symlink()


def test_a_worktree_whose_dot_git_was_replaced_runs_nothing(ground: Ground, tmp_path: Path) -> None:
    link = ground.ben / ".git"
    said = link.read_text()
    write(tmp_path / "elsewhere", "gitdir: /nowhere\n")
    link.unlink()
    link.symlink_to(tmp_path / "elsewhere")
    try:
        with pytest.raises(Exception, match=r"\.git was changed|not a worktree"):
            ground.run("true", cwd=ground.ben)
    finally:
        link.unlink()
        link.write_text(said)

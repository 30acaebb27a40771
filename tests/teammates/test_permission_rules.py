"""Permission rules: what they allow, and a corpus of command lines that hide a command from a rule."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from coterie.errors import UsageError
from coterie.teammates.permissions import Rules, Say, parse_rule

HARMLESS = (
    "Bash(git status:*)", "Bash(git diff:*)", "Bash(git log:*)", "Bash(ls:*)", "Bash(cd:*)", "Bash(echo:*)",
    "Bash(cat:*)", "Bash(grep:*)", "Bash(find:*)", "Bash(sort:*)", "Bash(printf:*)", "Bash(test:*)", "Bash(true)",
    "Bash(git:*)", "Bash(tar:*)", "Bash(rg:*)", "Bash(pwd)", "Bash(./run.sh:*)",
)  # fmt: skip
HONEST = """
git status
git status --short
git status -- 'a b'
git   status	--short
ls
ls -la src
ls *.py src/**/test_?.py [a-c].txt
ls ~/x
git status && git diff
git diff HEAD~1 -- src | grep -n "foo bar" | sort
git log --oneline -n 5 ; ls
cd src && ls
ls || true
! grep -q x y
(cd src; ls)
{ ls; pwd; }
grep -rn 'a|b;c&&d $(e) `f` > g' src
grep -n "say \\"hi\\" and \\\\ and \\`x\\` and \\$y" f
echo "$HOME" $USER ${LANG} $? done
echo 'a'"'"';id;'
echo "two
lines"
git status 2>&1
git status > /dev/null
git status 2>/dev/null | cat
ls &>/dev/null
cat < /dev/null
find src -name "*.py" -not -name 'x' -type f
find . -path ./a -prune -o -print
echo "x"y'z'w
echo -n
echo a=b --c=d,e +f @g %h ^i
printf '%s\\n' a b
test -f x
sort -u -k 2 names.txt
tar tf a.tar
git log --format='%h %s' --all
git diff --stat
cat é.txt
ls |& cat
./run.sh fast
"""
HIDDEN = r"""
id
cd . && id
cd .;id
cd . & id
git status & id
git status | id
git status |& id
git status || id
git status && id
git status; id
git status;id;
(id)
{ id; }
! id
git status $(id)
git status `id`
git status "$(id)"
git status "`id`"
echo ${x:-$(id)}
echo ${x@P}
echo $((a[$(id)]))
echo $(( $(id) ))
echo "${x:=`id`}"
$(id)
$x
"$x" status
${SHELL} -c id
\git status
g\it status
'git' status
"git" status
g''it status
git'' status
git\ status
$'git' status
$"git" status
{git,status}
git st{atus,}
ls {a,b}
/usr/bin/git status
./git status
~/git status
git* status
PATH=. git status
LD_PRELOAD=./x.so git status
GIT_EXTERNAL_DIFF=id git diff
x=1 y=2 ls
x=$(id)
x=1
export PATH=.
env git status
env -i id
command git status
builtin echo
exec git status
eval git status
eval "id"
source ./x
. ./x
time git status
coproc git status
nohup git status
nice git status
timeout 1 git status
setsid git status
sudo git status
bash -c id
sh x
xargs git status
ls | xargs id
ls | sh
echo aWQ= | base64 -d | sh
find . -exec id ;
find . -exec id {} +
find . -execdir id \;
find . -ok id \;
find . -delete
find . -fprintf x y
find *
find $x
find "$x" -name y
git -c alias.x=!id x
git -C /tmp status
git --exec-path=. status
git -p status
git --git-dir=x status
git $x status
git diff --ext-diff
git diff --output=x
git diff --ou=x
git log --textconv
git grep --open-files-in-pager=id x
git grep -Oid x
git fetch --upload-pack=id x
git fetch --upl=id x
git archive --exec=id x
sort --compress-program=id x
sort --co=id x
sort -o x y
sort -uo x y
tar xf x --to-command=id
tar --checkpoint=1 --checkpoint-action=exec=id -cf x y
tar -I id -cf x y
rg --pre id x
printf -v 'a[$(id)]' x
printf -v x y
printf $x
test -v 'a[$(id)]'
[ -v 'a[$(id)]' ]
[[ -v 'a[$(id)]' ]]
[[ $x -eq 0 ]]
((a[$(id)]))
let a=1
make
awk 'BEGIN{system("id")}'
python3 -c 'import os'
trap id EXIT
trap 'id' EXIT; git status
alias git=id
hash -p ./x git; git status
enable -f ./x echo
git() { id; }; git status
function git { id; }
git () ( id )
if id; then ls; fi
for i in 1; do id; done
while id; do ls; done
until id; do ls; done
case x in x) id;; esac
select x in y; do id; done
ls > x
ls >> x
ls >| x
ls 2> x
ls &> x
ls >& x
ls <> x
ls > /dev/tcp/localhost/80
cat < x
cat < /dev/tcp/localhost/80
cat <(id)
ls >(id)
cat <<< $(id)
cat <<< x
ls 2>&1x
ls 2>&1'x'
2>&1id
ls >/dev/null'x'
ls >/dev/nullx
git status # x
#
# git status
cd /tmp/evil && git status
pushd x; git status
cd x && ./run.sh
cd x; /opt/a/run.sh
echo a\
git status \; id
git status \
  --short
echo !id
echo !!
git log -1 @{u}
ls é
pwd x
true false
"""
ODD = {
    "empty": "",
    "blank": "  \n ",
    "semicolon": ";",
    "unclosed": "git status 'x",
    "unclosed double": 'git status "x',
    "half": "git status &&",
    "pipe to nothing": "git status |",
    "stray bracket": "git status )",
    "missing bracket": "(git status",
    "missing brace": "{ git status;",
    "carriage return": "git status\rid",
    "crlf": "git status\r\nid",
    "nul": "git status\0id",
    "vertical tab": "git status\x0bid",
    "form feed": "git status\x0cid",
    "no-break space": "git\u00a0status",
    "surrogate": "git status \udc80",
    "newline": "git status\nid",
    "newline and tab": "git status\n\tid",
    "here-doc": "cat <<E\n$(id)\nE",
    "here-doc to a shell": "sh <<E\nid\nE",
    "quoted here-doc": "cat <<'E'\nx\nE",
    "here-doc and more": "cat <<E; id\nx\nE",
    "continuation": "git \\\nstatus",
    "continuation in a word": "gi\\\nt status",
    "continuation in quotes": 'echo "a\\\nb"',
    "comment and newline": "git status #\nid",
    "comment that ends": "echo '#' #'\nid\n#'",
    "too long": "git status " + "x" * 20_000,
    "too deep": "(" * 200 + "ls" + ")" * 200,
    "quote that closes early": "echo 'a';id;'b'",
    "dollar quote": "echo $'\\'; id; #'",
    "words that touch a redirection": "ls 2>/dev/null'x'",
}
DENIED = r"""
rm -rf x
/bin/rm x
./rm x
\rm x
r\m x
'rm' x
"rm" x
r''m x
r"m" x
$'rm' x
rm* x
{rm,x}
rm x && ls
ls && rm x
ls | rm x
ls; rm x
ls || rm x
ls & rm x
(rm x)
{ rm x; }
! rm x
$(echo rm) x
`echo rm` x
ls $(rm x)
ls "$(rm x)"
ls `rm x`
cat <(rm x)
x=rm; $x y
LANG=C rm x
env rm x
env LANG=C rm x
command rm x
exec rm x
eval rm x
eval "rm x"
sh -c 'rm x'
bash -c "rm x"
find . -exec rm {} +
find . -delete
ls | xargs rm
timeout 1 rm x
nohup rm x
sudo rm x
if true; then rm x; fi
for i in a; do rm $i; done
f() { rm x; }; f
trap 'rm x' EXIT
busybox rm x
rm \
x
python3 -c 'import os; os.remove("x")'
git rm x
perl -e unlink
> x
: > x
mv x /dev/null
"""


def lines(text: str) -> list[str]:
    return [line for line in text.strip("\n").split("\n") if line]


def honest() -> list[str]:
    """One case a line; a quote that goes on takes the next line with it."""
    found = lines(HONEST)
    at = found.index('echo "two')
    return [*found[:at], "\n".join(found[at : at + 2]), *found[at + 2 :]]


TOKENS = r"""
; & | && || ( ) { } < > ! # $ ` \ ' " * ? [ ] ~ = , : @ - -- $( $(( ${ $' $" << <<< <( >& &> 2>&1 2>/dev/null >/dev/null
;; |& [[ ]] (( )) id id id git:status git:status ls ls echo cd:. printf -v x a[ x=1 E if then fi do done for in
case esac time eval function f() coproc 'a:b' "c:d" $x é
"""
PIECES = (*(each.replace(":", " ") for each in TOKENS.split()), " ", " ", " ", "\n", "\t", "\\\n")


def test_bash_runs_nothing_that_was_not_allowed_in_lines_made_at_random(harmless: Rules, tmp_path: Path) -> None:
    """The grammar is not bash: what it takes for harmless is given to bash, where `id` leaves a trace."""
    programs, place = tmp_path / "bin", tmp_path / "place"
    programs.mkdir()
    place.mkdir()
    for name in ("git", "ls", "cat", "grep", "find", "sort", "tar", "rg"):
        (programs / name).write_text("#!/bin/sh\n")
    (programs / "id").write_text(f"#!/bin/sh\necho > {tmp_path}/ran\n")
    for each in programs.iterdir():
        each.chmod(0o755)
    shell = shutil.which("bash") or "/bin/bash"
    random = Random(20260)
    soak = bool(os.environ.get("COTERIE_SOAK"))
    tried = 0
    for _ in range(400_000 if soak else 6000):
        begin = random.choice(("git status ", "ls ", "echo ", "printf ", ""))
        line = begin + "".join(random.choice(PIECES) + random.choice(("", " ")) for _ in range(random.randint(1, 6)))
        if said(harmless, line) is Say.ALLOW and "id" in line:
            tried += 1
            subprocess.run(
                [shell, "-c", line],
                cwd=place,
                env={"PATH": str(programs)},
                capture_output=True,
                timeout=20,
                check=False,
            )
            assert not (tmp_path / "ran").exists() and not list(place.iterdir()), line
    assert tried >= 50


def said(rules: Rules, command: str) -> Say:
    return rules.verdict("bash", changes=True, command=command).say


@pytest.fixture(scope="module")
def harmless() -> Rules:
    return Rules.of(HARMLESS, (), ())


def test_honest_lines_of_allowed_commands_are_allowed(harmless: Rules) -> None:
    refused = {line: harmless.verdict("bash", changes=True, command=line).why for line in honest()}
    asked = {line: why for line, why in refused.items() if said(harmless, line) is not Say.ALLOW}
    assert len(refused) >= 35
    assert asked == {"cat é.txt": "no rule allows it: 'é.txt' is no plain word"}, "an unquoted one could be a blank"


def test_no_line_that_hides_a_command_is_allowed_by_rules_for_harmless_ones(harmless: Rules) -> None:
    corpus = [*lines(HIDDEN), *ODD.values()]
    assert len(corpus) >= 180
    allowed = [line for line in corpus if said(harmless, line) is not Say.ASK]
    assert allowed == []


def test_an_option_that_runs_or_writes_is_found_in_any_bundle_and_with_its_value() -> None:
    options = {
        "git grep": "O", "git difftool": "xt", "git rebase": "x", "git archive": "o", "git format-patch": "o",
        "git clone": "uc", "git mergetool": "t", "fd": "xX", "fdfind": "xX", "sort": "o", "tar": "IF", "jobs": "x",
    }  # fmt: skip
    for command, letters in options.items():
        rules = Rules.of([f"Bash({command}:*)"], [], [])
        for letter in letters:
            for line in (f"-{letter} ./id y", f"-{letter}./id", f"-n{letter}./id", f"-1{letter} ./id", f"-l9,z{letter}",
                         f"-n{letter}'./id'", f"'-n{letter}./id\n'", f"y -'n'\"{letter}\"./id"):  # fmt: skip
                assert said(rules, f"{command} {line}") is Say.ASK, f"{command} {line}"
        assert said(rules, f"{command} y") is Say.ALLOW, command
    for line in ("git difftool --extc ./id", "git clone --config=a.b=c x", "git gr* -nO./id", "tar cf h:x y",
                 "tar -c --file=h:x y", "tar c0lI ./id y", "tar --rmt-c ./id y", "man -P ./id ls",
                 "find . '-exec\n'", "printf '-va[$(id)]\n' x", "git read-tree --index-output=x HEAD"):  # fmt: skip
        program = line.partition(" ")[0]
        assert said(Rules.of([f"Bash({program}:*)"], [], []), line) is Say.ASK, line
    for line in ("git cherry-pick -x HEAD", "git clean -xn", "git commit -om x", "git log -Sxo", "git grep -n -e Of y",
                 "git rebase --onto x", "git archive HEAD", "test -n x", "jobs -l", "tar -czf a.tgz src"):  # fmt: skip
        program = line.partition(" ")[0]
        assert said(Rules.of([f"Bash({program}:*)"], [], []), line) is Say.ALLOW, line


def test_no_spelling_of_a_denied_command_is_allowed_and_the_plain_ones_are_denied(harmless: Rules) -> None:
    rules = Rules.of(HARMLESS, (), ("Bash(rm:*)",))
    corpus = lines(DENIED)
    found = {line: said(rules, line) for line in corpus}
    assert len(corpus) >= 50 and Say.ALLOW not in found.values() and Say.NOTHING not in found.values()
    denied = [line for line, say in found.items() if say is Say.DENY]
    assert {"rm -rf x", "/bin/rm x", "ls && rm x", "ls $(rm x)", "env LANG=C rm x", "sh -c 'rm x'"} <= set(denied)
    assert len(denied) >= 35, "what can be found is denied; the rest is no more than not allowed"
    assert said(rules, "ls rm") is Say.ALLOW and said(rules, "echo rm x") is Say.ALLOW


def test_an_exact_rule_is_exact_word_for_word() -> None:
    rules = Rules.of(("Bash(make test)", "Bash(env LANG=C make test)", "Bash(echo 'a b' '*')"), (), ())
    for line in (
        "make test",
        "make  test",
        "make 'test'",
        'make "test" 2>&1',
        "env LANG=C make test",
        "echo 'a b' '*'",
    ):
        assert said(rules, line) is Say.ALLOW, line
    for line in ("make", "make test install", "make -n test", "env LANG=C make", "echo a b '*'", "echo 'a b' *"):
        assert said(rules, line) is Say.ASK, line


def test_a_prefix_ends_at_a_word(harmless: Rules) -> None:
    for line in ("git statusx", "git status-x", "gitstatus", "lsblk", "catx", "git stat", "git"):
        rules = Rules.of(("Bash(git status:*)", "Bash(ls:*)", "Bash(cat:*)"), (), ())
        assert said(rules, line) is Say.ASK, line


def test_deny_comes_before_ask_and_ask_before_allow() -> None:
    rules = Rules.of(("Bash",), ("Bash(git push:*)", "write_file"), ("Bash(git push --force:*)", "sync"))
    assert said(rules, "ls > x") is Say.ALLOW, "the tool itself is allowed, whatever the line is"
    assert said(rules, "ls && git push origin") is Say.ASK
    assert said(rules, "git push --force origin") is Say.DENY
    assert rules.verdict("write_file", changes=True, path="a").say is Say.ASK
    assert rules.verdict("sync", changes=True).say is Say.DENY


def test_of_a_line_that_is_too_long_the_beginning_is_looked_at_and_no_rule_allows_it(harmless: Rules) -> None:
    long = " x" * 4000
    assert said(harmless, f"ls{long}") is Say.ASK
    rules = Rules.of((), (), ("Bash(rm:*)",))
    assert said(rules, f"rm{long}") is Say.DENY and said(rules, f"ls{long}; rm x") is Say.NOTHING


def test_without_rules_that_allow_nothing_is_asked_that_no_rule_asks_about() -> None:
    for rules in (Rules(), Rules.of((), ("Bash(git push:*)",), ("Bash(rm:*)",))):
        assert said(rules, "make $(x) > y") is Say.NOTHING
        assert rules.verdict("edit_file", changes=True, path="a").say is Say.NOTHING


def test_with_rules_that_allow_every_other_change_is_asked_about_and_reading_and_coordinating_are_not() -> None:
    rules = Rules.of(("Bash(ls:*)",), (), ())
    assert rules.verdict("edit_file", changes=True, path="a").say is Say.ASK
    assert rules.verdict("sync", changes=True).say is Say.ASK
    assert rules.verdict("read_file", changes=False, path="a").say is Say.NOTHING
    assert rules.verdict("submit_work", changes=False).say is Say.NOTHING


@pytest.mark.parametrize(
    ("path", "edit", "write"),
    [
        ("src/a.py", True, False),
        ("src/deep/er/a.py", True, False),
        ("./src//a.py", True, False),
        ("docs/../src/a.py", True, False),
        ("src/../secret.txt", False, False),
        ("src/../../x", False, False),
        ("../src/a.py", False, False),
        ("/etc/passwd", False, False),
        ("srcx/a.py", False, False),
        ("a.md", False, True),
        ("docs/a.md", False, False),
        ("src/out/a.py", False, False),
        ("src/in.py", True, False),
        ("all/../../x", False, False),
    ],
)
def test_a_path_counts_as_it_is_written_and_as_it_resolves(tmp_path: Path, path: str, edit: bool, write: bool) -> None:
    root = tmp_path / "worktree"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "src" / "out").symlink_to(root / "docs")
    (root / "src" / "in.py").symlink_to("a.py")
    rules = Rules.of(("Edit(src/**)", "Write(*.md)"), (), ())

    def allowed(tool: str, given: str) -> bool:
        return rules.verdict(tool, changes=True, path=given, root=root).say is Say.ALLOW

    assert (allowed("edit_file", path), allowed("write_file", path)) == (edit, edit or write)
    assert allowed("edit_file", str(root / path)) is edit
    wide = Rules.of(("Edit(**)",), (), ())
    outside = path in ("src/../../x", "../src/a.py", "/etc/passwd", "all/../../x")
    assert (wide.verdict("edit_file", changes=True, path=path, root=root).say is Say.ALLOW) is not outside


def test_a_rule_that_denies_a_path_finds_it_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to("secret")
    rules = Rules.of((), (), ("Read(secret/**)", "Edit(secret/**)"))
    for path in ("secret/a", "./secret/a", "link/a", "x/../secret/a", str(tmp_path / "link" / "a")):
        assert rules.verdict("read_file", changes=False, path=path, root=tmp_path).say is Say.DENY, path
        assert rules.verdict("write_file", changes=True, path=path, root=tmp_path).say is Say.DENY, path
    assert rules.verdict("read_file", changes=False, path="open/a", root=tmp_path).say is Say.NOTHING


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("", "expected a tool's name"),
        ("Bash(git status", "expected a tool's name"),
        ("git status", "expected a tool's name"),
        ("Bash(git status:*) x", "expected a tool's name"),
        ("Web(x)", "takes nothing in parentheses"),
        ("Web", "there is no tool Web"),
        ("sync(x)", "takes nothing in parentheses"),
        ("Bash(a && b)", "more than one command"),
        ("Bash(a $(b):*)", "one simple command"),
        ("Bash(git *)", "a star that is meant is quoted"),
        ("Bash(ls $HOME)", "expected plain words"),
        ("Bash(X=1 make)", "one simple command"),
        ("Bash(:*)", "one simple command"),
        ("Bash(bash:*)", "would allow any command"),
        ("Bash(env X=1 make:*)", "would allow any command"),
        ("Bash(/usr/bin/sudo:*)", "would allow any command"),
        ("Edit(/etc/**)", "inside the worktree"),
        ("Edit(../x)", "inside the worktree"),
        ("Edit([z-a].py)", "expected a path pattern"),
        ("Edit()", "nothing in the parentheses"),
        ("Bash( )", "nothing in the parentheses"),
        ("Bash(git 'status)", "not complete shell syntax"),
        ("Read(~/x)", "inside the worktree"),
    ],
)
def test_a_rule_that_cannot_be_kept_says_what_was_expected(rule: str, says: str) -> None:
    with pytest.raises(UsageError, match=r".") as error:
        parse_rule(rule, "allow")
    assert says in str(error.value) and repr(rule) in str(error.value)


def test_what_may_not_be_allowed_by_its_beginning_may_be_denied_by_it() -> None:
    rules = Rules.of((), ("Bash(env:*)",), ("Bash(sudo:*)",))
    assert (said(rules, "sudo ls"), said(rules, "env ls"), said(rules, "ls")) == (Say.DENY, Say.ASK, Say.NOTHING)

"""No secret of the person's stands in anything that a run leaves, sends or shows, whoever says it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.crew import called, crew, is_lead
from tests.acceptance.loopback import coterie, environment, served

from coterie.teammates.model import Answer, ModelRequest, reply

KEY = "sk-ant-w8Jr5q-not-a-real-key-Zt41"
TOKEN = "ghp_7hK2mQ9xWc4VtR8z"
PASSWORD = "correct horse battery"
IN_URL = "p4ss%2Fw0rd-in-url"
NEUTRAL = "a8f5f167f44f4964e6c998dee827110c"
SECRETS = [KEY, TOKEN, PASSWORD, IN_URL, "p4ss/w0rd-in-url", NEUTRAL]
ALL = " ".join([*SECRETS, base64.b64encode(KEY.encode()).decode(), base64.b64encode(b"x" + KEY.encode()).decode()])
SEEN = [*SECRETS, base64.b64encode(KEY.encode()).decode()[:40], base64.b64encode(b"x" + KEY.encode()).decode()[2:40]]


def talkative(request: ModelRequest) -> Answer:
    """A crew that says all secrets wherever it can say anything."""
    done = called(request)
    if is_lead(request):
        if done and "ask_human" not in done:
            return reply(request, f"asking {ALL}", ("ask_human", {"question": f"is it {ALL}?"}))
        if "No task is open any more" in str(request.messages[-1]) and "finish" not in done:
            return reply(request, ALL, ("finish", {"summary": f"done with {ALL}"}))
        tasks = [
            {
                "ref": "a",
                "subject": f"A {TOKEN}",
                "description": f"say {ALL}",
                "checks": ["cat leak.txt", f"echo '{ALL}'"],
            }
        ]
        return crew(tasks, ("ada",))(request)
    if not done:
        halves = "head -c 20 leak.txt; tail -c +21 leak.txt; env; cat /proc/self/cmdline"
        many = "text=$(cat leak.txt); for number in $(seq 1500); do echo $number $text; done; head -c 9 leak.txt"
        return reply(
            request,
            f"what I know: {ALL}",
            ("submit_plan", {"plan": f"use {ALL}"}),
            ("todo_write", {"items": [{"text": ALL, "status": "pending"}]}),
            ("bash", {"command": halves}),
            ("bash", {"command": many}),
            ("read_file", {"path": ALL}),
            ("read_file", {"path": "leak.txt"}),
            ("grep", {"pattern": "not-a-real-key"}),
            ("no_such_tool", {"text": ALL}),
            ("send_message", {"to": "human", "text": ALL}),
            ("send_message", {"to": "lead", "text": ALL}),
            ("write_file", {"path": "a.txt", "content": "a\n"}),
        )
    return reply(request, f"handing in {ALL}", ("submit_work", {"summary": f"with {ALL}"}))


def test_no_secret_is_kept_sent_or_shown(repository: Path, look: Callable[..., str], tmp_path: Path) -> None:
    lines = [f"DB_PASSWORD='{PASSWORD}'", f"DATABASE_URL=postgres://me:{IN_URL}@localhost/x", f"SALT={NEUTRAL}"]
    (repository / ".env").write_text("\n".join([*lines, "STAGE=production", ""]))
    (repository / "leak.txt").write_text(ALL + "\n")
    look("add", "leak.txt")
    look("-c", "user.name=S", "-c", "user.email=s@example.org", "commit", "-q", "-m", "a leak")
    told: list[str] = []

    def respond(request: ModelRequest) -> Answer:
        told.append(request.system + str(request.messages))
        return talkative(request)

    with served(respond) as server:
        env = environment(server.url, tmp_path / "state") | {"ANTHROPIC_API_KEY": KEY, "GITHUB_TOKEN": TOKEN}
        argv = ("run", f"a change for production: {ALL}", "--output-format", "stream-json", "--unsafe-no-sandbox")
        done = coterie(repository, env, *argv)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        said = [done.stdout, done.stderr, coterie(repository, env, "say", "lead", f"it is {ALL}").stderr]
        said += [coterie(repository, env, *words).stdout for words in (("show", "T1"), ("log",))]
    said += told
    said.append(look("log", "--all", "--format=%H%n%B"))
    for path in (repository / ".coterie").rglob("*"):
        if path.is_file():
            said.append(path.read_bytes().decode("utf-8", "replace"))
    spelled = [*SEEN, *(each.replace("/", "\\/") for each in SEEN)]
    left = {secret for text in said for secret in spelled if secret in text}
    assert not left
    kept = [each.read_text() for each in (repository / ".coterie" / "main" / "output").iterdir()]
    assert any("\n1500 ***" in text for text in kept), "a long output is kept, without them"
    assert sum("***" in text for text in said) > 10 and "a change for production: ***" in "".join(said)
    assert look("show", "coterie/main/integration:a.txt") == "a\n"
    commits = look("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
    for line in (line for line in commits.split("\n") if line.startswith("commit ")):
        assert not [each for each in SEEN if each in look("cat-file", "commit", line.split(" ")[1])]

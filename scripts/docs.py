"""Make docs/ from the models: `python scripts/docs.py`, or `--check` to see whether it is current (exit code 1 if not).

The schemas are in docs/schema/, the pages in docs/*.md. What stands there is what the code says: nobody edits it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from coterie import errors
from coterie.console import shapes
from coterie.console.values import expected
from coterie.mailbox import Message, Request
from coterie.taskboard import Task
from coterie.teammates.journal import Record
from coterie.teammates.roster import MemberRecord
from coterie.teammates.settings import TeamSettings
from coterie.teammates.team import TeamRecord

sys.path.insert(0, str(Path(__file__).resolve().parent))
from words import WORDS

DOCS = Path(__file__).resolve().parent.parent / "docs"
MADE = "<!-- made by scripts/docs.py from the models: change those -->\n"

TREE = """\
```
.coterie/
  .git/                         a decoy: an empty git repository, see below
  repo.lock                     of all teams: adding and removing worktrees and refs
  <team>/
    team.json                   the team: goal, base, settings in force, how it ended
    lock                        the one lock of the team: tasks, requests, members, mail
    changes                     ids of changed tasks, in order: tells an index what to read again
    last/T1                     the last content of tasks/T1.json, to put it back; never read as the truth
    tasks/T1.json               one task each
    requests/R1.json            plans, shutdowns, splits, permissions, questions
    mail/<member>/new|cur|tmp|bad/   Maildir: one message a file
    members/<name>/member.json  the member in its latest life
    members/<name>/journal.jsonl   everything its model was told and said
    intents/                    write-ahead records of operations that touch more than one place
    processes/lead.lock         held by the host that runs the team; pid and start time inside
    processes/<id>.lock         held for the life of a host process
    processes/<id>.port         where its bell listens on the loopback interface
    processes/<id>.commands     the checks that it started, for whoever has to end them after it
    output/<id>                 long outputs, named from the records that point to them
    stop.json                   a request to stop the run: {schema, at, by, process, now}
    events.jsonl                what happened; no decision is ever made from it
    report.json, report.md      the final report
```
"""


def main(words: list[str]) -> int:
    """Write the documents, or compare them with `--check`."""
    made = documents()
    if words == ["--check"]:
        found = {str(path.relative_to(DOCS)) for path in [*DOCS.glob("*.md"), *(DOCS / "schema").glob("*.json")]}
        stale = [
            name
            for name, text in made.items()
            if not (DOCS / name).is_file() or (DOCS / name).read_text(encoding="utf-8") != text
        ]
        stale += [name for name in found if name.startswith("schema/") and name not in made]
        for name in sorted(stale):
            print(f"docs/{name} is not current: run python scripts/docs.py", file=sys.stderr)
        return 1 if stale else 0
    if words:
        print("expected --check or nothing", file=sys.stderr)
        return 2
    for name, text in made.items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def documents() -> dict[str, str]:
    """path below docs/ -> content."""
    made: dict[str, str] = {}
    disk = [
        MADE,
        "# On disk\n",
        "Everything a team knows is plain files below `<repository>/.coterie/<team>/`. Read them with `cat`; change"
        " them through the command line. Every record has `schema` (1). Unknown fields are kept when a record is"
        " rewritten.\n",
        TREE,
        "`.coterie/.git` is an empty git repository that nobody uses. `git clean -fdx` in your checkout passes over"
        " folders that are repositories of their own, so it leaves `.coterie` alone; without the decoy it would delete"
        " every team's state. `.git/info/exclude` names `/.coterie/`, so git does not show it either. How to remove a"
        " team, or all of it: [README](../README.md#clean-up).\n",
        *_record(made, "team", "team.json", TypeAdapter(TeamRecord)),
        *_record(made, "task", "tasks/T1.json", TypeAdapter(Task)),
        *_record(made, "request", "requests/R1.json", TypeAdapter(Request)),
        *_record(made, "message", "mail/<member>/new/<id>.json", TypeAdapter(Message)),
        *_record(made, "member", "members/<name>/member.json", TypeAdapter(MemberRecord)),
        *_record(made, "journal", "a line of members/<name>/journal.jsonl", TypeAdapter(Record)),
        "The last two keys of a journal's line, `len` and `crc`, are over the text before them: the number of bytes of"
        " the object without them, and its CRC-32 in hex.\n",
        *_record(made, "event", "a line of events.jsonl", TypeAdapter(shapes.EventLine)),
    ]
    made["on-disk.md"] = "\n".join(disk)
    output = [
        MADE,
        "# What programs read\n",
        "Reading commands print one object with `--json` (`log`: one per line). `run` and `resume` print with"
        " `--output-format json` one object at the end, with `stream-json` one event per line, the last of which has"
        " the kind `end` and the fields of that object. Later versions may add fields.\n",
        "## Exit codes\n",
        *_exit_codes(),
        *_record(made, "end", "run and resume, at the end", TypeAdapter(shapes.EndView)),
        *_record(made, "end-line", "the last line of stream-json", TypeAdapter(shapes.EndLine)),
        *_record(made, "join", "join, at the end", TypeAdapter(shapes.JoinView)),
    ]
    for name, shape in shapes.COMMANDS.items():
        if shape is not shapes.EventLine:
            output += _record(made, f"{name}-view", f"coterie {name} --json", TypeAdapter(shape))
    output.append("## coterie log --json\n\nOne object per line: [event](on-disk.md#a-line-of-eventsjsonl).\n")
    made["json-output.md"] = "\n".join(output)
    made["settings.md"] = "\n".join(_settings())
    return made


def _record(made: dict[str, str], name: str, title: str, adapter: TypeAdapter[Any]) -> list[str]:
    """The section of one record; its schema becomes a file of its own."""
    schema = adapter.json_schema(by_alias=True, mode="serialization")
    named: dict[str, Any] = schema.get("$defs", {})
    for each in (schema, *named.values()):
        for word, field in each.get("properties", {}).items():
            if word in WORDS and not field.get("description"):
                field["description"] = WORDS[word]
    made[f"schema/{name}.json"] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    lines = [f"## {title}\n", f"Schema: [schema/{name}.json](schema/{name}.json)\n"]
    if "properties" in schema:
        lines += _fields(schema)
    for each, inner in named.items():
        if "properties" in inner and not (name != "task" and each in _KNOWN):
            lines += [f"**{each}**{_said(inner)}\n", *_fields(inner)]
        elif "properties" in inner:
            lines.append(f"**{each}**: as in [on-disk.md](on-disk.md).\n")
    return lines


_KNOWN = {"Task", "Request", "Message", "Claim", "Assignment", "Wanted", "Evidence", "Result", "Change"}


def _said(schema: Mapping[str, Any]) -> str:
    text = " ".join(str(schema.get("description", "")).split())
    return f" — {text}" if text else ""


def _fields(schema: Mapping[str, Any]) -> list[str]:
    lines = ["| field | type | what |", "| --- | --- | --- |"]
    for name, field in schema["properties"].items():
        what = " ".join(str(field.get("description", "")).split())
        if not what and "default" in field and field["default"] not in (None, [], {}, ""):
            what = f"default {json.dumps(field['default'])}"
        lines.append(f"| `{name}` | {_type(field)} | {what.replace('|', '/')} |")
    return [*lines, ""]


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    for union in ("anyOf", "oneOf"):
        if union in field:
            return " or ".join(dict.fromkeys(_type(each) for each in field[union]))
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    if kind == "object":
        inner = field.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(kind)


def _exit_codes() -> list[str]:
    """The codes of the errors, and those that a run ends with."""
    rows = {
        0: "done",
        1: "ended with failed tasks, with red checks, with nothing completed, or stalled over failures; or refused",
        2: "usage or settings; or a record of a newer version",
        3: "state on disk is damaged",
        4: "another process runs the team",
        5: "the environment lacks something",
        6: "API key or billing",
        7: "stopped in order and resumable: a budget, limits, or it waits for decisions",
        130: "interrupted by Ctrl-C (SIGINT): stopped in order, or at once by a second one; `coterie resume` goes on",
        141: "nobody reads the output any more (reading commands; a run goes on without a reader)",
        143: "the same by SIGTERM, or by SIGHUP: the terminal went away",
    }
    kinds: dict[int, list[str]] = {}
    for name in errors.__all__:
        kinds.setdefault(getattr(errors, name).exit_code, []).append(f"`{name}`")
    lines = ["| code | what | errors |", "| --- | --- | --- |"]
    return [*lines, *(f"| {code} | {text} | {', '.join(kinds.get(code, []))} |" for code, text in rows.items()), ""]


def _settings() -> list[str]:
    lines = [
        MADE,
        "# Settings\n",
        "Command line > `COTERIE_<NAME>` > `coterie.toml` or `[tool.coterie]` of `pyproject.toml` >"
        " `$XDG_CONFIG_HOME/coterie/config.toml` > default. `coterie config` shows each value and where it came from."
        " Lists in a variable: one item per line, or JSON; tables: JSON.\n",
        "The API key comes from `ANTHROPIC_API_KEY`, else from the repository's `.env`, of which nothing else counts:"
        " what looks like a secret there is kept out of all files and screens."
        " A base URL from a repository's file or `.env` is used only with a key from there."
        " `ANTHROPIC_BASE_URL` stands in for `COTERIE_BASE_URL`.\n",
        "`resume` goes by what team.json holds. The command line may change `approver`, `plans`, `splits`, `teammates`,"
        " `checks`, `max_usd`, `max_tokens`, `base_url` and `model`; a variable may as long as it loosens nothing; a"
        " file only tightens who decides, the checks and the budgets.\n",
        "The permission rules of all places add up: `deny` comes before `ask`, `ask` before `allow`. With neither"
        " `allow` nor `ask`, whatever the gate lets through runs: the sandbox is the boundary. Once there is an"
        " `allow`, every command and change of a file that none of its rules matches is asked about. A repository's"
        " own files can ask and deny; what they allow counts only where"
        ' `trusted = ["/path/of/the/repository"]` stands in the user\'s own file, and what does not count is said.'
        " On `resume`, files add to `ask` and `deny`, the command line to all three; nothing is taken away.\n",
        "A rule is `Bash(git status:*)` (these words, then any), `Bash(make test)` (exactly this), `Edit(src/**)` (to"
        " write or edit such a file), `Write(*.md)`, `Read(docs/**)` (`read_file`, and `grep` given such a path), or a"
        " tool alone: `Bash`, `Edit`, `sync`. A rule that allows has to match every simple command of a line, and"
        " matches word by word; what is more than words, quotes, pipes and `&&` is asked about. See SECURITY.md.\n",
        "| setting | expected | default | what |",
        "| --- | --- | --- | --- |",
    ]
    defaults = TeamSettings()
    for name, field in TeamSettings.model_fields.items():
        value = getattr(defaults, name)
        default = f"`{json.dumps(value)}`" if value not in (None, [], {}) else "-"
        lines.append(f"| `{name}` | {expected(name)} | {default} | {field.description or ''} |")
    schema = json.dumps(TeamSettings.model_json_schema(), indent=2, ensure_ascii=False)
    return [*lines, "", "```json", schema, "```", ""]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

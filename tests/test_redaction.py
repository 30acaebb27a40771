"""Secrets are taken out at the doors where text is kept or shown; what is kept stays readable and whole."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest

from coterie import files
from coterie.files import RedactedStream, keep_secret, redacted, redacted_text
from coterie.teammates.events import Event, Events
from coterie.teammates.journal import Answered, Finished, Journal, messages, read_journal
from coterie.teammates.output import Output

SECRET = "tok-Xy9zQ4mR7vL2"
ODD = 'pa"ss\\wörd/with & odd=chars'


@pytest.fixture(autouse=True)
def known() -> None:
    keep_secret(SECRET, ODD, "short")


def test_a_secret_is_found_in_every_usual_spelling(tmp_path: Path) -> None:
    from urllib.parse import quote, quote_plus

    for secret in (SECRET, ODD):
        spelled = [secret, json.dumps(secret), json.dumps({"a": [secret]}, ensure_ascii=False), repr({"k": SECRET})]
        spelled += [f"https://x/?q={quote(secret, safe='')}&r={quote_plus(secret)}"]
        for before in ("", "a", "ab", "abc"):
            data = f"{before}{secret} and more".encode()
            spelled += [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]
        for text in spelled:
            assert "***" in redacted(text), text
            assert secret not in redacted(text)


def test_each_line_of_a_private_key_is_a_secret() -> None:
    lines = [f"{number}MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" for number in range(3)]
    keep_secret("\n".join(["-----BEGIN KEY-----", *lines, "x="]))
    shown = redacted("\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines)))
    assert "MIIE" not in shown and redacted("x=1\ny=2") == "x=1\ny=2"


def test_what_is_short_is_left_and_what_holds_no_secret_is_the_same() -> None:
    assert redacted("a short text") == "a short text" and redacted("") == ""
    assert files.redacted_value({"a": (1, None, True, ["x", SECRET])}) == {"a": [1, None, True, ["x", "***"]]}


@pytest.mark.parametrize("seed", range(2))
def test_a_secret_that_comes_in_pieces_is_taken_out_wherever_it_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    text = f"{SECRET[:-1]} {SECRET}{SECRET} {SECRET[0]}{SECRET} {ODD} tok- tok {SECRET[:5]}"
    for _ in range(60):
        stream, shown, rest = RedactedStream(), "", text
        while rest:
            size = chance.randint(1, 9)
            shown += stream.feed(rest[:size])
            rest = rest[size:]
        assert shown + stream.feed("", last=True) == redacted(text)
    assert SECRET not in redacted(text) and redacted(text).endswith(SECRET[:5])


def test_what_holds_back_an_end_does_not_hold_back_a_line_that_begins_no_secret() -> None:
    assert RedactedStream().feed("all of it\n") == "all of it\n"


def test_records_and_files_are_written_without_secrets_and_read_back(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"text": f"x {ODD} {SECRET}", "n": 1})
    assert files.read_json(tmp_path / "a.json") == {"text": "x *** ***", "n": 1}
    files.append(tmp_path / "a.log", f"{SECRET}\n".encode())
    files.write_bytes(tmp_path / "a.md", f"# {SECRET}".encode())
    assert (tmp_path / "a.log").read_text() + (tmp_path / "a.md").read_text() == "***\n# ***"


def test_a_journal_has_no_secret_but_in_what_the_model_thought_and_is_whole(tmp_path: Path) -> None:
    """A thought is signed by the server that made it: changed, no request with it is taken any more."""
    thought = {"type": "thinking", "thinking": f"hm {SECRET}", "signature": "c2ln"}
    answer = Answered(
        instance="ada#1",
        turn=1,
        answer_id="m1",
        content=[
            thought,
            {"type": "text", "text": f"it is {SECRET}"},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": f"echo {ODD}", "n": 3}},
        ],
        stop_reason="tool_use",
        model="m",
        usage={"input_tokens": 1},
        usd=None,
    )
    journal = Journal(tmp_path / "journal.jsonl")
    kept = journal.append(answer)
    assert isinstance(kept, Answered) and kept.content[0] == thought
    assert kept.content[1:] == [
        {"type": "text", "text": "it is ***"},
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "echo ***", "n": 3}},
    ]
    again, torn = read_journal(tmp_path / "journal.jsonl")
    assert again == [kept] and not torn
    assert SECRET not in str(messages(again)).replace(str(thought), "")


def test_events_have_no_secret_in_the_file_and_for_whoever_watches(tmp_path: Path) -> None:
    events, heard = Events(tmp_path / "events.jsonl"), list[Event]()
    events.watch(heard.append)
    events.say("tool", f"bash {SECRET}", result=f"{ODD}", member="ada")
    line = json.loads((tmp_path / "events.jsonl").read_text())
    assert line["text"] == "bash ***" and line["result"] == "***" and heard == [line]


def test_an_output_has_no_secret_in_memory_on_disk_or_for_whoever_watches(tmp_path: Path) -> None:
    heard: list[str] = []
    output = Output(tmp_path, "ada#1.x", keep=True, on_text=heard.append, disk_cap=1 << 20)
    for _ in range(3000):
        output.feed(f"one {SECRET[:5]}".encode())
        output.feed(f"\x1b[1m{SECRET[5:]} {'x' * 500}\n".encode())
    output.feed(f"the end {SECRET}".encode())
    output.finish()
    kept = (tmp_path / "ada#1.x").read_text()
    for text in (kept, output.text(), "".join(heard)):
        assert SECRET not in text and "one ***" in text
    assert kept.endswith("the end ***")


def test_what_is_written_as_json_moves_no_cursor_and_loses_nothing() -> None:
    text = "a\x1b[2J\x9b31m\u202egpj.exe\u200b\u2028\U000e0041\x7f é 日本 😀\ttab"
    spelled = files.as_json({"text": text})
    assert json.loads(spelled) == {"text": text}
    assert not files.CONTROL.search(spelled) and "é 日本 😀" in spelled
    assert files.clean(text) == "a[2J31mgpj.exe é 日本 😀\ttab"


def test_a_password_that_is_a_word_is_taken_out_of_what_is_said_and_breaks_no_record(tmp_path: Path) -> None:
    """A word stands in paths, states, ids and commands too: a record without it would be another record."""
    words = ("quetzalcoatl", "quetzal_feather", "quetzal15")
    keep_secret(*words)
    for word in words:
        record = {"status": word, "path": f"/home/{word}/tree", word: 1, "checks": [f"psql -U {word}"]}
        files.write_json(tmp_path / "record.json", record)
        assert files.read_json(tmp_path / "record.json") == record
        assert redacted_text(f"password={word}") == "password=***"
        stream = RedactedStream()
        assert stream.feed(f"it is {word[:5]}") + stream.feed(f"{word[5:]}, it said", last=True) == "it is ***, it said"
        journal = Journal(tmp_path / f"{word}.jsonl")
        told = Finished(instance=f"{word}#1", call="c", tool="bash", text=f"it is {word}", is_error=False)
        assert journal.append(told).text == "it is ***" and read_journal(journal.path)[0][0].instance == f"{word}#1"
    for phrase in ("quetzal feather serpent", "quetzal-7-feather"):
        keep_secret(phrase)
        assert redacted(f"it is {phrase}") == "it is ***"

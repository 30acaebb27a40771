"""How a task is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

import coterie.taskboard
from coterie import files
from coterie.taskboard import (
    Assignment,
    Change,
    Claim,
    Evidence,
    NewTask,
    Result,
    Status,
    Task,
    TaskRefused,
    Wanted,
    encode,
    parse,
)
from coterie.taskboard.task import LIMIT, check_id

GOLDEN = Path(__file__).parent / "golden"
AT = "2025-01-02T03:04:05.678Z"

FRESH = Task(
    schema_=1,
    id="T1",
    subject="Rename the colour",
    status=Status.PENDING,
    epoch=0,
    history=(
        Change(at=AT, from_=None, to=Status.PENDING, by="lead#1", epoch=0, reason="created", made_by="lead#1/4/0"),
    ),
    made_by="lead#1/4/0",
    created_at=AT,
    created_by="lead#1",
    rev=1,
)
FULL = Task(
    schema_=1,
    id="T12",
    subject="Zeichenkette prüfen — 数字",
    description='First line\nsecond "quoted" line\t☃',
    status=Status.SUBMITTED,
    blocked_by=("T1", "T7"),
    priority=10,
    role="tester",
    requires_plan=True,
    checks=("make test", "./lint --all"),
    scope=("src/**", "docs/*.md"),
    split="R2",
    returns=1,
    attempts=2,
    losses=3,
    epoch=4,
    claim=Claim(owner="ada", instance="ada#2", process="p-1a2b", at=AT),
    assignment=Assignment(worktree="/state/ada", branch="coterie/main/T12/e4", base="0123abc"),
    wanted=Wanted(move="release", by="human", reason="too slow"),
    queued=9,
    merging="fedcba9",
    result=Result(
        summary="done",
        commit="abc",
        evidence=(Evidence(command="make test", exit_code=0, commit="abc", output="o-1", seconds=1.5),),
    ),
    history=FRESH.history,
    made_by="lead#1/4/0",
    created_at=AT,
    created_by="lead#1",
    rev=17,
)


@pytest.mark.parametrize(("name", "task"), [("T1", FRESH), ("T12", FULL)])
def test_a_task_is_stored_as_the_golden_file_shows_and_comes_back_whole(name: str, task: Task) -> None:
    path = GOLDEN / f"{name}.json"
    data = path.read_bytes()
    assert encode(task) == data
    assert parse(data, path) == task
    assert files.encode(json.loads(data)) == data, "the form that every state file has"


def test_fields_of_a_later_version_are_kept_at_every_depth(tmp_path: Path) -> None:
    stored = json.loads(encode(FULL))
    stored["colour"] = {"deep": [1, None]}
    stored["claim"]["host"] = "h1"
    stored["history"][0]["why"] = "x"
    data = files.encode(stored)
    assert json.loads(encode(parse(data, tmp_path / "T12.json"))) == stored


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("status", "paused", "status"),
        ("status", 3, "status"),
        ("rev", "7", "rev"),
        ("rev", 0, "rev"),
        ("epoch", True, "epoch"),
        ("epoch", 1.5, "epoch"),
        ("priority", 11, "priority"),
        ("blocked_by", "T1", "blocked_by"),
        ("blocked_by", ["T1", 2], r"blocked_by\.1"),
        ("claim", {"owner": "ada"}, r"claim\.instance"),
        ("wanted", {"move": "burn", "by": "x", "reason": ""}, r"wanted\.move"),
        ("requires_plan", "yes", "requires_plan"),
        ("id", "T2", "expected T12, the file's name"),
        ("claim", None, "claim: expected an owner, since status is submitted"),
        ("schema", "one", "schema"),
    ],
)
def test_a_wrong_value_is_refused_with_the_path_to_its_field(
    tmp_path: Path, field: str, value: object, says: str
) -> None:
    stored = {**json.loads(encode(FULL)), field: value}
    with pytest.raises(files.Unreadable, match=says):
        parse(files.encode(stored), tmp_path / "T12.json")


@pytest.mark.parametrize("field", ["schema", "id", "subject", "status", "epoch", "rev"])
def test_what_decides_about_a_task_never_has_a_default(tmp_path: Path, field: str) -> None:
    stored = json.loads(encode(FRESH))
    del stored[field]
    with pytest.raises(files.Unreadable, match=field):
        parse(files.encode(stored), tmp_path / "T1.json")


def test_a_record_of_a_later_schema_can_be_read(tmp_path: Path) -> None:
    stored = {**json.loads(encode(FRESH)), "schema": 2, "novelty": 1}
    assert parse(files.encode(stored), tmp_path / "T1.json").schema_ == 2


@pytest.mark.parametrize(
    "id",
    ["../T1", "T1/..", "T1\n", "-T1", "T0", "T01", "t1", "", "T" + "9" * 300, "T1.json", "\u0661", "T\u0661", None, 7],
)
def test_nothing_but_a_task_id_can_name_a_file(id: object) -> None:
    with pytest.raises(TaskRefused, match="T and a number"):
        check_id(id)  # type: ignore[arg-type]


def test_a_subject_is_one_line_of_at_most_200_visible_characters() -> None:
    assert NewTask(ref="a", subject="\x1b[31mred\x07\r\n  title\u202e").subject == "[31mred title"
    assert len(NewTask(ref="a", subject="x" * 1_000_000).subject) == 200
    with pytest.raises(ValidationError, match="visible character"):
        NewTask(ref="a", subject=" \x00\n")


@pytest.mark.parametrize(
    "fields",
    [
        {"ref": "../x"},
        {"ref": ""},
        {"ref": "x\n"},
        {"priority": 11},
        {"priority": -1},
        {"description": "x" * 65537},
        {"checks": ("",)},
        {"colour": "red"},
        {"subject": 3},
        {"description": "\ud800"},
    ],
)
def test_a_new_task_with_a_field_out_of_range_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NewTask.model_validate({"ref": "a", "subject": "s", **fields})


def test_a_history_that_outgrows_the_file_keeps_every_entry_and_cuts_old_reasons() -> None:
    change = FRESH.history[0].model_copy(update={"reason": "é" * 8000})
    task = FRESH.model_copy(update={"history": (change,) * 100})
    data = encode(task)
    assert len(data) <= LIMIT
    history = parse(data, Path("T1.json")).history
    assert len(history) == 100
    assert len(history[0].reason) == 200
    assert len(history[-1].reason) == 8000


def test_a_task_that_cannot_be_made_to_fit_is_refused_and_not_cut() -> None:
    with pytest.raises(TaskRefused, match="at most 1048576"):
        encode(FRESH.model_copy(update={"description": "é" * LIMIT, "history": FRESH.history * 4}))


def test_the_room_exports_what_it_says_in_order() -> None:
    names = coterie.taskboard.__all__
    assert all(hasattr(coterie.taskboard, name) for name in names)
    upper = [name for name in names if name.isupper()]
    classes = [name for name in names if name[0].isupper() and not name.isupper()]
    rest = [name for name in names if name.islower()]
    assert names == sorted(upper) + sorted(classes) + sorted(rest)


@pytest.mark.parametrize(
    "glob",
    [
        "",
        " ",
        "/etc/passwd",
        "../x",
        "../../etc",
        "src/../../x",
        "src/..",
        "..",
        ".",
        "./src",
        "a//b",
        "~/x",
        " a",
        "a\nb",
        "a\0b",
        "C:/x",
        "..\\x",
    ],
)
def test_a_scope_outside_the_repository_is_refused_with_field_value_and_what_is_expected(glob: str) -> None:
    with pytest.raises(ValidationError) as caught:
        NewTask(ref="a", subject="a", scope=("src/ok.py", glob))
    (fault,) = caught.value.errors()
    assert fault["loc"] == ("scope", 1)
    assert "Expected a path or glob relative to its root" in fault["msg"]
    assert repr(glob)[:3] in fault["msg"]


@pytest.mark.parametrize(
    "glob", ["src/*.py", "**", "docs/", ".github/**", "a/.hidden", "...", "a..b/c", "[ab]/?.py", "é x"]
)
def test_a_scope_inside_the_repository_is_kept_as_it_is(glob: str) -> None:
    assert NewTask(ref="a", subject="a", scope=(glob,)).scope == (glob,)

"""The files of requests: keys, ids, hand edits, and what cannot be read."""

from __future__ import annotations

import json
import re
import resource
import threading

import pytest

from coterie import files
from coterie.errors import NewerSchema, Refused
from coterie.mailbox import (
    AlreadyDecided,
    RequestStatus,
    UnknownRequest,
)
from coterie.mailbox.request import encode, parse


def plan(team, text="do it", *, to="lead", requests=None, **more):
    asked = {"sender": "ada", "sender_instance": "ada#1", "to": to, "task": "T1", "epoch": 1, "text": text, **more}
    return (requests or team.requests).submit_plan(**asked)


def decide(team, request, approve=True, by="lead", **more):
    return team.requests.decide(request.id, by=by, by_instance=f"{by}#1", approve=approve, **more)


def edit(team, request, **changes):
    path = team.root / f"requests/{request.id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}, indent=2))
    return path


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_request_is_made_once_per_key(team) -> None:
    first = plan(team, made_by="ada#1/4/0")
    assert plan(team, "other", made_by="ada#1/4/0") == first
    decided = decide(team, first)
    assert plan(team, made_by="ada#1/4/0", requests=team.new_requests()) == decided
    assert len(team.requests.all()) == 1


def test_ids_are_never_used_twice_also_not_those_that_were_set_aside(team) -> None:
    plan(team)
    second = plan(team)
    (team.root / f"requests/{second.id}.json").write_bytes(b"")
    fresh = team.new_requests()
    fresh.heal()
    assert plan(team, requests=fresh).id == "R3"
    assert sorted(path.name for path in (team.root / "requests").iterdir()) == ["R1.json", "R3.json", "bad"]


def test_many_processes_number_their_requests_without_a_gap_or_a_double(team) -> None:
    def run(number: int) -> None:
        requests = team.new_requests()
        for turn in range(10):
            plan(team, f"{number} {turn}", requests=requests)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = team.new_requests().all()
    assert [request.id for request in made] == [f"R{number}" for number in range(1, 51)]
    assert [request.revision for request in made] == list(range(1, 51))


def test_fields_that_are_not_known_are_kept(team) -> None:
    request = plan(team)
    edit(team, request, colour="green")
    decide(team, request)
    assert json.loads((team.root / "requests/R1.json").read_text())["colour"] == "green"


def test_a_hand_edit_is_taken_over(team) -> None:
    request = plan(team, to="human")
    edit(team, request, to="lead")
    assert decide(team, request, by="lead").status is RequestStatus.APPROVED


def test_an_edit_that_goes_back_is_set_aside_and_the_last_content_restored(team) -> None:
    request = plan(team)
    old = (team.root / "requests/R1.json").read_bytes()
    decide(team, request, approve=False)
    (team.root / "requests/R1.json").write_bytes(old)
    assert team.requests.get("R1").status is RequestStatus.REJECTED
    with pytest.raises(AlreadyDecided):
        decide(team, request, by="human")
    assert (team.root / "requests/bad/R1.json").read_bytes() == old
    assert "R1.json" in team.said[0]
    assert team.new_requests().get("R1").status is RequestStatus.REJECTED


def test_what_ends_in_the_middle_of_putting_a_request_back_does_not_lose_it_to_who_knows_it(team) -> None:
    decide(team, plan(team))
    other = team.new_requests()
    assert other.plan_approved("T1", 1)
    path = team.root / "requests/R1.json"
    path.write_bytes(b"{ half an ed")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # the write fails, where a kill would end it
    try:
        with pytest.raises(OSError, match="File too large"):
            team.requests.heal()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"{ half an ed", "its name is never empty: a restart says that it cannot be read"
    other.heal()
    assert team.new_requests().plan_approved("T1", 1)
    assert {each.read_bytes() for each in (path.parent / "bad").iterdir()} == {b"{ half an ed"}


def test_a_file_that_cannot_be_read_is_set_aside_and_said_and_the_rest_goes_on(team) -> None:
    first, second = plan(team), plan(team)
    (team.root / f"requests/{first.id}.json").write_bytes(b"\x00\x00")
    fresh = team.new_requests()
    assert [request.id for request in fresh.all()] == ["R2"]
    assert (team.root / "requests/R1.json").exists()  # looking moved nothing
    with pytest.raises(UnknownRequest, match="set aside"):
        fresh.decide("R1", by="lead", by_instance="lead#1", approve=True)
    assert (team.root / "requests/bad/R1.json").exists()
    assert fresh.decide("R2", by="lead", by_instance="lead#1", approve=True).id == second.id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"status": "asked"}, "status"),
        ({"status": "yes"}, "status"),
        ({"epoch": "1"}, "epoch"),
        ({"id": "R2"}, "id"),
        ({"from": "A"}, "from"),
        ({"history": [{"at": "x"}]}, "history.0.from"),
    ],
)
def test_a_wrong_field_is_named(team, changes, field) -> None:
    path = edit(team, plan(team), **changes)
    with pytest.raises(files.Unreadable, match=re.escape(f"field {field}")):
        team.requests.get("R1")
    assert path.exists()


def test_a_request_of_a_newer_coterie_is_neither_changed_nor_moved(team) -> None:
    request = plan(team)
    path = edit(team, request, schema=2)
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match="upgrade"):
        decide(team, request)
    assert path.read_bytes() == before


def test_a_request_comes_back_from_its_file_as_it_was(team) -> None:
    request = decide(team, plan(team, "a\x00\x1b[31m\r\n ü"))
    path = team.root / "requests/R1.json"
    assert path.read_bytes() == encode(request)
    assert parse(files.read_json(path), path) == request
    assert list(json.loads(path.read_text())) == [
        "schema",
        "id",
        "kind",
        "from",
        "from_instance",
        "to",
        "to_instance",
        "task",
        "epoch",
        "revision",
        "digest",
        "text",
        "status",
        "decided_by",
        "decided_at",
        "feedback",
        "deadline_s",
        "made_by",
        "rev",
        "history",
    ]


def test_looking_needs_no_lock_and_makes_no_file(team) -> None:
    plan(team)
    (team.root / "lock").unlink()
    before = sorted(team.root.rglob("*"))
    team.requests.all()
    team.requests.open_for("lead")
    team.requests.plan_approved("T1", 1)
    team.requests.get("R1")
    assert sorted(team.root.rglob("*")) == before


def test_a_name_that_is_no_name_asks_and_decides_nothing(team) -> None:
    request = plan(team)
    for attempt in (lambda: plan(team, sender="../x"), lambda: decide(team, request, by="A B")):
        with pytest.raises(Refused, match="name"):
            attempt()


def test_whoever_waits_is_told_of_each_change_once(team) -> None:
    changed = []
    requests = team.new_requests(on_change=changed.append)
    made = plan(team, requests=requests, made_by="k")
    plan(team, requests=requests, made_by="k")
    moved = requests.decide(made.id, by="lead", by_instance="lead#1", approve=True)
    with pytest.raises(AlreadyDecided):
        requests.decide(made.id, by="lead", by_instance="lead#1", approve=True)
    assert changed == [made, moved]


def test_a_decision_of_who_knows_a_secret_in_the_text_counts_for_the_text_as_it_lies_there(team) -> None:
    """As of a second terminal with other variables than the process that wrote it."""
    asked = plan(team, "log in with qzx-81hT-secret-of-another-terminal")
    files.keep_secret("qzx-81hT-secret-of-another-terminal")
    decide(team, asked)
    assert team.requests.plan_approved("T1", 1) and team.requests.get(asked.id).text == asked.text

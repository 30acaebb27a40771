"""Output: readable, capped, read on by lines, and no way out of its folder."""

import os
from pathlib import Path

import pytest

from coterie.errors import Refused
from coterie.teammates.output import TEXT_CAP, Output, Readable, read_output

CASES = [
    (b"plain \xc3\xa9 \xe2\x82\xac\n", "plain é €\n"),
    (b"\x1b[1;31mred\x1b[0m\x1b[K and \x1b[38;5;12mblue\x1b[m", "red and blue"),
    (b"\x1b]0;a title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "text link"),
    (b"\x1b(B\x1b7\x1bMx\x1b=", "x"),
    (b"10%\r20%\r100%\r\ndone\r\n", "10%\n20%\n100%\ndone\n"),
    (b"NNAAMMEE: N\x08NA\x08A", "NNAAMMEE: NA"),
    (b"\x00\x01\x02a\x7fb\xff\xfe", "ab\ufffd\ufffd"),
    (b"\xc2\x9b31mred \xc2\x85x", "red x"),
    ("a\u202eb\u2066c".encode(), "abc"),
    (b"an end \x1b[3", "an end 3"),
    (b"\x1b]52;no end\nthe next line", "52;no end\nthe next line"),
]


@pytest.mark.parametrize(("data", "text"), CASES)
def test_bytes_become_text_that_can_be_shown(data: bytes, text: str) -> None:
    assert Readable().feed(data, last=True) == text


@pytest.mark.parametrize(("data", "text"), CASES)
def test_sequences_may_be_cut_anywhere(data: bytes, text: str) -> None:
    if b"\x08" in data:
        pytest.skip("a backspace takes back what stands in the same piece")
    for cut in range(len(data) + 1):
        readable = Readable()
        pieces = [readable.feed(data[:cut]), readable.feed(data[cut:]), readable.feed(b"", last=True)]
        assert "".join(pieces) == text, cut
    readable = Readable()
    assert "".join([readable.feed(bytes([each])) for each in data] + [readable.feed(b"", last=True)]) == text


def test_a_sequence_without_end_does_not_hold_the_text_back() -> None:
    readable = Readable()
    text = "".join(readable.feed(b"\x1b]" + b"x" * 1000) for _ in range(20))
    assert len(text) > 10_000


def test_a_short_output_is_shown_whole_and_leaves_no_file(tmp_path: Path) -> None:
    output = Output(tmp_path / "output", "c1")
    output.feed(b"x" * TEXT_CAP)
    output.finish()
    assert (output.text(), output.id) == ("x" * TEXT_CAP, None)
    assert not (tmp_path / "output").exists()


def test_a_long_output_shows_both_ends_and_says_how_much_is_between(tmp_path: Path) -> None:
    output = Output(tmp_path, "c1")
    whole = "".join(f"line {number} é\n" for number in range(10_000))
    for start in range(0, len(whole.encode()), 777):
        output.feed(whole.encode()[start : start + 777])
    output.finish()
    text = output.text()
    missing = len(whole.encode()) - TEXT_CAP
    assert text.startswith("line 0 é\nline 1 é\n")
    assert text.endswith("line 9999 é\n")
    assert f"[… {missing} bytes left out, the rest: output:c1 …]" in text
    assert len(text.encode()) < TEXT_CAP + 100
    assert (tmp_path / "c1").read_text() == whole


def test_what_is_more_than_the_disk_cap_keeps_both_ends(tmp_path: Path) -> None:
    output = Output(tmp_path, "c1", disk_cap=200_000)
    for number in range(100_000):
        output.feed(b"%06d\n" % number)
    output.finish()
    kept = (tmp_path / "c1").read_bytes()
    assert len(kept) <= 200_000
    assert kept.startswith(b"000000\n000001\n")
    assert kept.endswith(b"099998\n099999\n")
    assert b"bytes left out: more than 200000 are not kept" in kept
    assert output.text().endswith("099999\n")


def test_the_text_so_far_can_be_read_while_it_grows(tmp_path: Path) -> None:
    heard: list[str] = []
    output = Output(tmp_path, "c1", on_text=heard.append)
    output.feed(b"one\n")
    assert output.text() == "one\n"
    output.feed(b"x" * 50_000 + b"\n")
    assert output.id == "c1"
    assert read_output(tmp_path, "c1", limit=1) == "one\n[… more from line 2: offset 2 …]\n"
    assert sum(map(len, heard)) == 50_005
    output.finish()


def test_lines_are_read_by_offset_and_limit(tmp_path: Path) -> None:
    (tmp_path / "c1").write_text("".join(f"{number}\n" for number in range(1, 11)))
    assert read_output(tmp_path, "c1", offset=3, limit=2) == "3\n4\n[… more from line 5: offset 5 …]\n"
    assert read_output(tmp_path, "c1", offset=9) == "9\n10\n"
    with pytest.raises(Refused, match="10 lines"):
        read_output(tmp_path, "c1", offset=11)
    with pytest.raises(Refused, match="from 1"):
        read_output(tmp_path, "c1", offset=0)


def test_a_page_is_capped_and_says_where_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "c1").write_text("".join("y" * 999 + "\n" for _ in range(100)))
    page = read_output(tmp_path, "c1")
    assert page.endswith("[… more from line 31: offset 31 …]\n")
    assert len(page.encode()) < TEXT_CAP + 100
    (tmp_path / "c2").write_text("z" * 100_000 + "\nnext\n")
    page = read_output(tmp_path, "c2")
    assert "70001 bytes of this line left out" in page
    assert "offset 2" in page
    assert read_output(tmp_path, "c2", offset=2) == "next\n"


@pytest.mark.parametrize(
    "output_id", ["", ".", "..", "../c1", "a/b", "/etc/passwd", "c1\n", "c1\0", "-c1", ".hidden", "c" * 200, "é"]
)
def test_an_id_never_leads_out_of_the_folder(tmp_path: Path, output_id: str) -> None:
    (tmp_path / "c1").write_text("secret")
    (tmp_path / "inner").mkdir()
    with pytest.raises(Refused):
        read_output(tmp_path / "inner", output_id)
    with pytest.raises(Refused):
        Output(tmp_path / "inner", output_id)


def test_only_regular_files_are_outputs(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "folder", "fifo", "none"):
        with pytest.raises(Refused, match="no output"):
            read_output(tmp_path, name)


def test_a_link_that_lies_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "c1").symlink_to("victim")
    output = Output(tmp_path, "c1", keep=True)
    output.feed(b"new\n")
    output.finish()
    assert (tmp_path / "victim").read_text() == "kept"
    assert output.id == "c1.2"


def test_the_output_of_another_member_is_not_read(tmp_path: Path) -> None:
    for name in ("ada.1", "ada#2.1", "adam.1", "ada-x.1", "bob.1"):
        (tmp_path / name).write_text("text\n")
    assert read_output(tmp_path, "ada.1", owner="ada") == "text\n"
    assert read_output(tmp_path, "ada#2.1", owner="ada") == "text\n"
    for name in ("adam.1", "ada-x.1", "bob.1"):
        with pytest.raises(Refused, match="not yours"):
            read_output(tmp_path, name, owner="ada")


def test_a_full_disk_is_said_and_costs_the_file_alone(tmp_path: Path) -> None:
    (tmp_path / "c1").symlink_to("/dev/full")
    output = Output(tmp_path, "c1", keep=True)
    assert output.id == "c1.2"  # the link is not followed; so the fault is made with the descriptor itself
    full = os.open("/dev/full", os.O_WRONLY)
    assert output._file is not None
    os.dup2(full, output._file)
    os.close(full)
    output.feed(b"text\n" * 10_000)
    output.finish()
    assert "could not be kept: No space left on device" in output.text()
    assert output.text().startswith("text\n")

"""The filter of system calls, its bytes read as the kernel reads them: also for machines that this one is not."""

from __future__ import annotations

import errno
import struct

import pytest

from coterie.teammates.sandbox.seccomp import program

X86_64, AARCH64, I386, ARM = 0xC000003E, 0xC00000B7, 0x40000003, 0x40000028
CALLS = {
    "x86_64": {"read": 0, "socket": 41, "socketpair": 53, "clone": 56, "unshare": 272, "clone3": 435, "add_key": 248,
               "request_key": 249, "keyctl": 250, "setup": 425, "enter": 426, "register": 427},
    "aarch64": {"read": 63, "socket": 198, "socketpair": 199, "clone": 220, "unshare": 97, "clone3": 435,
                "add_key": 217, "request_key": 218, "keyctl": 219, "setup": 425, "enter": 426, "register": 427},
}  # fmt: skip
ARCH = {"x86_64": X86_64, "aarch64": AARCH64}


def verdict(code: bytes, number: int, arch: int, first: int = 0) -> str:
    """What the filter answers: classic BPF over struct seccomp_data."""
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, arch, 0, first, 0, 0, 0, 0, 0)
    lines = list(struct.iter_unpack("=HBBI", code))
    at = accumulator = 0
    while True:
        kind, yes, no, value = lines[at]
        at += 1
        match kind:
            case 0x20:
                accumulator = int(struct.unpack_from("=I", data, value)[0])
            case 0x15:
                at += yes if accumulator == value else no
            case 0x35:
                at += yes if accumulator >= value else no
            case 0x45:
                at += yes if accumulator & value else no
            case 0x06:
                action, number = value & 0xFFFF0000, value & 0xFFFF
                return {0x7FFF0000: "allowed", 0x80000000: "killed"}.get(action) or errno.errorcode[number]
            case _:
                raise AssertionError(f"an instruction that is not used: {kind:#x}")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_io_uring_and_keys_are_refused_and_what_else_is_asked_is_allowed(machine: str) -> None:
    calls, arch = CALLS[machine], ARCH[machine]
    code = program(unix_sockets=True, namespaces=True, machine=machine)
    answers = {name: verdict(code, number, arch, 1) for name, number in calls.items()}
    assert {name for name, answer in answers.items() if answer == "ENOSYS"} == {"setup", "enter", "register"}
    assert {name for name, answer in answers.items() if answer == "EPERM"} == {"add_key", "request_key", "keyctl"}
    assert {answers[name] for name in ("read", "socket", "socketpair", "clone", "unshare", "clone3")} == {"allowed"}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_unix_sockets_are_refused_where_they_could_reach_the_host_and_pairs_stay(machine: str) -> None:
    calls, arch = CALLS[machine], ARCH[machine]
    code = program(unix_sockets=False, namespaces=True, machine=machine)
    assert verdict(code, calls["socket"], arch, 1) == "EPERM"
    assert [verdict(code, calls["socket"], arch, family) for family in (2, 10, 16)] == ["allowed"] * 3
    assert verdict(code, calls["socketpair"], arch, 1) == "allowed"
    assert verdict(code, calls["setup"], arch) == "ENOSYS" and verdict(code, calls["read"], arch, 1) == "allowed"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("unix_sockets", [True, False])
def test_namespaces_of_users_are_refused_where_nothing_else_refuses_them(machine: str, unix_sockets: bool) -> None:
    calls, arch = CALLS[machine], ARCH[machine]
    code = program(unix_sockets=unix_sockets, namespaces=False, machine=machine)
    assert [verdict(code, calls[name], arch, 0x10000011) for name in ("clone", "unshare")] == ["EPERM", "EPERM"]
    assert [verdict(code, calls[name], arch, 0x00000011) for name in ("clone", "unshare")] == ["allowed", "allowed"]
    assert verdict(code, calls["clone3"], arch) == "ENOSYS", "its flags cannot be read, and libraries go on with clone"
    assert verdict(code, calls["read"], arch, 0x10000000) == "allowed"


@pytest.mark.parametrize(("machine", "foreign"), [("x86_64", I386), ("x86_64", AARCH64), ("aarch64", ARM)])
def test_a_call_of_another_architecture_ends_the_process(machine: str, foreign: int) -> None:
    code = program(unix_sockets=True, namespaces=True, machine=machine)
    assert verdict(code, CALLS[machine]["read"], foreign) == "killed"


def test_the_x32_calls_of_a_64_bit_processor_end_the_process() -> None:
    code = program(unix_sockets=False, namespaces=False, machine="x86_64")
    assert [verdict(code, 0x40000000 + number, X86_64, 1) for number in (0, 41, 425)] == ["killed"] * 3


def test_for_a_machine_whose_numbers_are_not_known_there_is_none() -> None:
    assert program(unix_sockets=False, namespaces=False, machine="riscv64") == b""

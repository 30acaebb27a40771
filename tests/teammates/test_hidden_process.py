"""What a host keeps from the commands of its own user."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from coterie.teammates.sandbox import hide_process
if sys.argv[1] == "hide":
    assert hide_process()
child = os.fork()
if child == 0:
    try:
        open(f"/proc/{os.getppid()}/environ", "rb").read()
        os._exit(0)
    except PermissionError:
        os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's switch is Linux's")
@pytest.mark.parametrize(("how", "code"), [("hide", "3"), ("show", "0")])
def test_a_hidden_process_has_an_environment_that_its_children_cannot_read(how: str, code: str) -> None:
    again = [sys.executable, "-c", PROGRAM, how]
    if os.getuid() == 0:  # root may read everything; another user only what is not hidden
        again = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *again]
    done = subprocess.run(again, capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == code, done.stderr

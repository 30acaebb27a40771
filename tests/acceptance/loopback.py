"""The scripted crew behind a Messages API server on loopback, and `coterie` as a process that talks to it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.acceptance.crew import Respond

from coterie.demo.reply import Reply
from coterie.demo.server import Server
from coterie.teammates.model import ModelRequest

KEY = "sk-test-not-a-real-key"


def served(respond: Respond) -> Server:
    """A server whose answers are those of a scripted crew."""

    def answer(body: dict[str, Any]) -> Reply:
        request = ModelRequest(
            model=body["model"],
            system=str(body.get("system", "")),
            tools=(),
            messages=tuple(_plain(message) for message in body["messages"]),
            max_tokens=body["max_tokens"],
            user_id=body["metadata"]["user_id"],
        )
        said = respond(request)
        return Reply(content=said.content, stop_reason=said.stop_reason)

    return Server(answer)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message with its content as blocks, and tool results as text, as the crew reads them."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = []
    for block in content:
        block = {key: value for key, value in block.items() if key != "cache_control"}
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            block["content"] = "".join(part.get("text", "") for part in block["content"])
        blocks.append(block)
    return {"role": message["role"], "content": blocks}


def environment(url: str, state: Path) -> dict[str, str]:
    """What a person would have exported."""
    (pipes := state.parent / "pipes").mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COTERIE_", "ANTHROPIC_"))}
    return kept | {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "XDG_STATE_HOME": str(state),
        "XDG_CONFIG_HOME": str(state / "config"),
        "NO_COLOR": "1",
        "COTERIE_SANDBOX_READ_ONLY": str(pipes),  # a named pipe can be written to where its folder cannot
    }


def pipe(tmp_path: Path, name: str) -> Path:
    """A pipe through which a command of the crew says that it runs, or waits: reading and writing it wait for that."""
    path = tmp_path / "pipes" / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    return path


def coterie(
    repository: Path, env: dict[str, str], *argv: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end."""
    return subprocess.run(
        [sys.executable, "-m", "coterie", *argv],
        cwd=repository,
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
    )


@contextlib.contextmanager
def started(repository: Path, env: dict[str, str], *argv: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command of ours; what still runs at the end of the block is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", *argv],
        cwd=repository,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

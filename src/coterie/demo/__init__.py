"""A team that needs no key: a sample repository, a scripted model, and a Messages API server that speaks for it."""

from __future__ import annotations

from coterie.demo.reply import Reply, failure, text, tool_use
from coterie.demo.server import Respond, Server

__all__ = ["Reply", "Respond", "Server", "failure", "text", "tool_use"]

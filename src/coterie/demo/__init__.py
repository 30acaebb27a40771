"""A team that needs no key: a sample repository, a scripted model, and a Messages API server that speaks for it."""

from __future__ import annotations

from coterie.demo.pieces import GOAL
from coterie.demo.reply import Reply, failure, text, tool_use
from coterie.demo.sample import create_sample
from coterie.demo.script import respond
from coterie.demo.server import Respond, Server

__all__ = ["GOAL", "PACE", "Reply", "Respond", "Server", "create_sample", "failure", "respond", "text", "tool_use"]

PACE = 0.2
"""Seconds over which each answer of the demo is streamed, so that a person can watch."""

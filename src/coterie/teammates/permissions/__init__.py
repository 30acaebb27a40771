"""Permission rules: what they say of a call, and asking a person for leave."""

from __future__ import annotations

from coterie.teammates.permissions.rules import Rule, Rules, Say, Verdict, parse_rule

__all__ = ["Rule", "Rules", "Say", "Verdict", "parse_rule"]

"""The audit: whether a team's files, its git and its processes say what they have to say. It only reads."""

from __future__ import annotations

from coterie.lead.audit.audit import audit, set_aside
from coterie.lead.audit.fault import LEFT_FOR_RESUME, Fault

__all__ = ["LEFT_FOR_RESUME", "Fault", "audit", "set_aside"]

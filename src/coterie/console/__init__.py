"""What a person uses: the settings, the command line, and what people look at."""

from __future__ import annotations

__all__: list[str] = []

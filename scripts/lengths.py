"""No source file over 400 lines: what does not fit is two things."""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 400


def main() -> int:
    root = Path(__file__).parent.parent
    found = [
        (path.relative_to(root), lines)
        for path in sorted((root / "src").rglob("*.py"))
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LIMIT
    ]
    for path, lines in found:
        print(f"{path}: {lines} lines, at most {LIMIT}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

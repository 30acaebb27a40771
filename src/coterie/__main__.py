"""`python -m coterie`, and the `coterie` script."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and answer its exit code."""
    if sys.argv[1:] == ["--version"]:  # what asks for no more than this should not wait for the rest
        from coterie import __version__

        print(f"coterie {__version__}")
        return 0
    from coterie.console.door import enter

    return enter(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

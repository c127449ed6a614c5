"""The command ``onefit``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line; an interrupt while it is being imported ends it like a later one."""
    try:
        from onefit.cli import main as run

        return run(owns_process=True)
    except KeyboardInterrupt:
        print("onefit: interrupted; nothing was written.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""The command ``onefit``."""

from __future__ import annotations

import sys

from onefit.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())

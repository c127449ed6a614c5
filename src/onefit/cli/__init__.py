"""The command line: ``onefit select``, ``predict``, ``inspect``, ``demo`` and ``completion``."""

from __future__ import annotations

from onefit.cli.main import main

__all__ = ["main"]

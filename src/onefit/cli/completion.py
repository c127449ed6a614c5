"""``onefit completion``."""

from __future__ import annotations

import argparse

from onefit.cli.options import make_parser

__all__ = ["run"]


def run(options: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    import shtab

    print(shtab.complete(make_parser(), shell=options.shell))

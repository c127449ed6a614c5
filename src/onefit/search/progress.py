"""A progress bar on terminals, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Progress", "progress_bar", "say"]


class Progress(Protocol):
    """Where a search reports finished candidates."""

    def advance(self, n: int) -> None:
        """``n`` more are done."""


class _Silent:
    def advance(self, n: int) -> None:
        """Say nothing."""


def say(lines: Iterable[str]) -> None:
    """Write lines for the user, where the progress bar is too: standard output is not ours."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def progress_bar(title: str, total: int, *, enabled: bool) -> Iterator[Progress]:
    """A bar with the time left, if wanted, on a terminal, and with rich installed."""
    if not enabled or not sys.stderr.isatty():
        yield _Silent()
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
    except ImportError:
        yield _Silent()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        class _Bar:
            def advance(self, n: int) -> None:
                bar.advance(task, n)

        yield _Bar()

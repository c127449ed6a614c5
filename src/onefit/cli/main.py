"""Run a command; every foreseeable failure is one line on standard error and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from onefit.cli.options import make_parser
from onefit.cli.text import one_line, printable

__all__ = ["main"]

_BAD_INPUT = 2
_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None, *, owns_process: bool = False) -> int:
    """Run the command line; returns the exit code.

    0: done. 2: something about the input, said in one line. 130: interrupted. Ctrl-C may end a
    process that we own.
    """
    _open_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = argparse.Namespace()
    try:
        options = make_parser().parse_args(words)
        options.words = printable(shlex.join(["onefit", *words]))
        with _short_warnings():
            with _ending_at_once(options) if owns_process else nullcontext():
                command = importlib.import_module(f"onefit.cli.{options.command}")
            command.run(options)
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said to them.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return _BROKEN_PIPE
    except (KeyboardInterrupt, Exception) as error:
        if _is_interruption(error):
            return _say(_interruption(getattr(options, "checkpoint", None)), _INTERRUPTED)
        if isinstance(error, ImportError):
            is_ours = "onefit" in str(error)
            return _fail(error, "" if is_ours else "; install it with pip install 'onefit[all]'")
        if isinstance(error, (ValueError, TypeError, OSError, MemoryError)):
            return _fail(error)
        raise
    return 0


@contextmanager
def _ending_at_once(options: argparse.Namespace) -> Iterator[None]:
    """Let Ctrl-C end the process on the spot while modules are imported, and nothing is open.

    Some of them would swallow a KeyboardInterrupt.
    """

    def end(*_: Any) -> None:
        _say(_interruption(getattr(options, "checkpoint", None)), _INTERRUPTED)
        os._exit(_INTERRUPTED)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, in the background of a shell
        yield
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: modules in C make an ImportError of it while they start."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _open_streams() -> None:
    """Nothing in the place of streams that are closed, as by ``>&-``."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _fail(error: Exception, hint: str = "") -> int:
    if os.environ.get("ONEFIT_DEBUG"):
        raise error
    return _say(f"{one_line(error) or type(error).__name__}{hint}", _BAD_INPUT)


def _say(message: str, code: int) -> int:
    print(f"onefit: {message}", file=sys.stderr)
    return code


def _interruption(checkpoint: str | None) -> str:
    if checkpoint is None:
        return "interrupted; nothing was written. With --checkpoint FILE a search can go on later."
    return f"interrupted; what is finished is in {checkpoint}: run the same command to go on."


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings as single lines, each once."""
    said: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        line = one_line(message)
        if line not in said:
            said.add(line)
            print(f"onefit: warning: {line}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield

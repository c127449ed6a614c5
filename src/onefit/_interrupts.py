"""Long calls that Ctrl-C can end.

Python notices Ctrl-C between two of its own instructions, and a call of LAPACK is one instruction.
A long call is therefore made in a thread of its own while the main thread waits, and hears. It must
be one that releases the interpreter's lock: NumPy's products, and what :mod:`onefit._lapack` has.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Thread, current_thread, main_thread
from typing import Any, TypeVar

from sklearn import get_config, set_config

from onefit._threads import set_threads, threads_of_libraries

__all__ = ["aside", "is_long"]

T = TypeVar("T")

#: Multiplications from which on a call is made aside. A core needs a hundredth of a second for
#: them; several that others keep busy can need a hundred times as long.
_LONG = 1e8
#: Seconds after which an interrupt is noticed on systems whose locks do not notice any.
_PATIENCE = 0.1

#: Calls that nobody waits for any more.
_left: list[Thread] = []


def is_long(n_operations: float) -> bool:
    """Whether a call of so many multiplications is worth a thread; only the main one hears."""
    return n_operations >= _LONG and current_thread() is main_thread()


def aside(n_operations: float, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a function; if it is long, in another thread, so that Ctrl-C ends the waiting at once.

    Interrupted, the call goes on to its end with nobody to take what it returns; the thread keeps
    its arguments alive.
    """
    if not is_long(n_operations):
        return function(*arguments, **options)
    outcome: dict[str, Any] = {}
    done = Event()
    threads, context, config = threads_of_libraries(), copy_context(), get_config()

    def work() -> None:
        try:
            set_threads(threads)
            set_config(**config)
            outcome["value"] = context.run(function, *arguments, **options)
        except BaseException as error:  # whatever it is, it belongs to the caller
            outcome["error"] = error
        finally:
            done.set()

    thread = Thread(target=work, name="onefit-aside", daemon=True)
    try:
        thread.start()
        while not done.wait(_PATIENCE):
            pass
    except BaseException:
        _leave(thread)
        raise
    if "error" in outcome:
        raise outcome.pop("error")
    value: T = outcome.pop("value")
    return value


def _leave(thread: Thread) -> None:
    if not _left:
        atexit.register(_end_without_shutdown)
    _left[:] = [one for one in (*_left, thread) if one.is_alive()]


def _end_without_shutdown() -> None:
    """Let the process end at once though a call is under way.

    OpenBLAS takes its threads and buffers down when a process ends, and hangs if they are in use.
    """
    running = [thread for thread in _left if thread.is_alive()]
    if not running or os.name != "posix":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        # Called before all that was registered earlier, with the exit code.
        libc.on_exit(libc._exit, None)
        return
    for thread in running:  # pragma: no cover - C libraries other than GNU's
        thread.join()

"""How many threads BLAS may use, set cheaply."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from weakref import WeakKeyDictionary

from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads", "set_threads", "threads_of_libraries"]

_lock = threading.Lock()


class _Owner:
    """Whoever has set a limit: gone with the context, however that ended."""


#: Limits in force, of all threads: one number holds for the whole process.
_limits: WeakKeyDictionary[_Owner, int] = WeakKeyDictionary()
#: Threads of every library before the first of them; None while there is none.
_before: list[int | None] | None = None


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries costs milliseconds: do it once.
    return ThreadpoolController()


@contextmanager
def blas_threads(n: int | None) -> Iterator[None]:
    """Limit BLAS to ``n`` threads within the context; None changes nothing.

    Loops of small solves are many times slower with threads than without. Of several limits, by
    nesting or by threads, the least holds; after the last one there are as many as before.
    """
    if n is None:
        yield
        return
    owner = _Owner()
    try:
        _limits[owner] = n
        _obey()
        yield
    finally:
        _limits.pop(owner, None)
        del owner
        _obey()


def _obey() -> None:
    """Tell BLAS the least of the limits in force.

    An interrupt may come between any two steps. What was before is written down first and forgotten
    last, so that the next call completes what this one did not.
    """
    global _before
    with _lock:
        now = min(list(_limits.values()), default=None)
        if now is not None:
            _before = threads_of_libraries() if _before is None else _before
            set_threads([now if one else n for one, n in zip(_is_blas(), _before, strict=True)])
        elif _before is not None:
            set_threads(_before)
            _before = None


@cache
def _is_blas() -> tuple[bool, ...]:
    return tuple(library.user_api == "blas" for library in _controller().lib_controllers)


def threads_of_libraries() -> list[int | None]:
    """Threads that each library may use, as this thread sees it."""
    return [library.num_threads for library in _controller().lib_controllers]


def set_threads(numbers: list[int | None]) -> None:
    """Let this thread see what another one saw: OpenMP has a number for every thread."""
    for library, n in zip(_controller().lib_controllers, numbers, strict=True):
        if library.num_threads != n:
            library.set_num_threads(n)

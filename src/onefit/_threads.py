"""How many threads BLAS may use, set cheaply."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads", "set_threads", "threads_of_libraries"]

_lock = threading.Lock()
#: Limits in force, of all threads: there is one number for the whole process.
_limits: list[int] = []
_limiter: Any = None


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
    with _lock:
        _change(_limits.append, n)
    try:
        yield
    finally:
        with _lock:
            _change(_limits.remove, n)


def _change(change: Callable[[int], None], n: int) -> None:
    """Change the limits in force, and tell BLAS if the least is another."""
    global _limiter
    before = min(_limits, default=None)
    change(n)
    now = min(_limits, default=None)
    if now == before:
        return
    if _limiter is not None:
        _limiter.restore_original_limits()
    _limiter = None if now is None else _controller().limit(limits=now, user_api="blas")


def threads_of_libraries() -> list[int | None]:
    """Threads that each library may use, as this thread sees it."""
    return [library.num_threads for library in _controller().lib_controllers]


def set_threads(numbers: list[int | None]) -> None:
    """Let this thread see what another one saw: OpenMP has a number for every thread."""
    for library, n in zip(_controller().lib_controllers, numbers, strict=True):
        if library.num_threads != n:
            library.set_num_threads(n)

"""How many threads BLAS may use, set cheaply."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads"]


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries costs milliseconds: do it once.
    return ThreadpoolController()


def blas_threads(n: int | None) -> AbstractContextManager[Any]:
    """Limit BLAS to ``n`` threads within the context; None changes nothing.

    Loops of small solves are many times slower with threads than without.
    """
    if n is None:
        return nullcontext()
    return _controller().limit(limits=n, user_api="blas")

"""Results below 2.2e-308 as zero, while a search computes held-out decisions.

Kernels that are narrow for the data have entries whose products, and products of these, end among
the subnormal numbers, with which some processors compute many times slower. They mean nothing:
what is below 1e-100 is dropped from kernels anyhow.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

__all__ = ["subnormals_as_zero"]

#: Bit 15 of the MXCSR register: results are flushed to zero.
_FLUSH = 1 << 15
#: The environment of <fenv.h> on x86-64: 28 bytes for the x87 unit, then MXCSR.
_Environment = ctypes.c_uint32 * 8
_MXCSR = 7


@cache
def _libm() -> ctypes.CDLL | None:
    """The C library's functions of <fenv.h>; None where the environment has another form."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:  # pragma: no cover - C libraries other than GNU's
        return None


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Let this thread compute without subnormal numbers.

    Threads that it starts do so, too, for as long as they live; those that BLAS has started before,
    when it was loaded, do not. Elsewhere than on Linux with an x86-64 processor it does nothing.
    """
    libm = _libm()
    if libm is None:
        yield
        return
    before = _control(libm)
    try:
        _set_control(libm, before | _FLUSH)
        yield
    finally:
        _set_control(libm, _control(libm) & ~_FLUSH | before & _FLUSH)


def _control(libm: ctypes.CDLL) -> int:
    environment = _Environment()
    libm.fegetenv(environment)
    return int(environment[_MXCSR])


def _set_control(libm: ctypes.CDLL, control: int) -> None:
    environment = _Environment()
    libm.fegetenv(environment)
    environment[_MXCSR] = control
    libm.fesetenv(environment)

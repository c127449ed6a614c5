"""How much memory bases need, and how much they may take."""

from __future__ import annotations

import os

__all__ = [
    "block_rows",
    "blocked_bytes",
    "default_limit",
    "exact_bytes",
    "gibibytes",
    "nystrom_bytes",
]

_DOUBLE = 8
#: N x N matrices that an exact basis for all penalties holds at its peak: distances, features, and
#: three to reduce.
_EXACT_MATRICES = 6
#: N x c matrices of a Nystrom basis.
_NYSTROM_MATRICES = 4
#: Blocks of features that are held at once: kernel, solution, neighbours, products, copies.
_BLOCKS = 6
#: Entries of a block, where the limit allows them: 64 MiB of doubles.
_BLOCK_ENTRIES = 2**23
#: Smaller blocks would spend their time on overheads.
_SMALLEST_BLOCK = 16


def exact_bytes(n_rows: int) -> int:
    """Peak memory of an exact basis on ``n_rows`` rows."""
    return _EXACT_MATRICES * _DOUBLE * n_rows**2


def nystrom_bytes(n_rows: int, n_components: int) -> int:
    """Peak memory of a Nystrom basis that holds its features."""
    return _NYSTROM_MATRICES * _DOUBLE * n_components * (n_rows + n_components)


def block_rows(n_rows: int, n_components: int, limit: float) -> int:
    """Rows of a block of features under a limit."""
    allowed = (limit / (_DOUBLE * n_components) - _NYSTROM_MATRICES * n_components) / _BLOCKS
    wanted = min(int(allowed), _BLOCK_ENTRIES // n_components)
    return min(n_rows, max(_SMALLEST_BLOCK, wanted))


def blocked_bytes(block: int, n_components: int) -> int:
    """Peak memory of a Nystrom basis whose features are computed in blocks of so many rows."""
    return _DOUBLE * n_components * (_BLOCKS * block + _NYSTROM_MATRICES * n_components)


def default_limit() -> float:
    """Half of the machine's memory."""
    return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gibibytes(n_bytes: float) -> str:
    """A number of bytes for people."""
    return f"{n_bytes / 2**30:.3g} GiB"

"""How much memory bases need, and how much they may take."""

from __future__ import annotations

import math
import os

__all__ = [
    "block_rows",
    "blocked_bytes",
    "default_limit",
    "exact_bytes",
    "fit_bytes",
    "gibibytes",
    "graph_bytes",
    "most_components",
    "nystrom_bytes",
]

_DOUBLE = 8
#: N x N matrices that an exact basis for all penalties holds at its peak: distances, features, and
#: three to reduce.
_EXACT_MATRICES = 6
#: The same for a single fit, measured with half of the rows labelled.
_FIT_MATRICES = 4
#: N x c matrices of a Nystrom basis.
_NYSTROM_MATRICES = 4
#: Blocks of features that are held at once: kernel, solution, neighbours, products, copies.
_BLOCKS = 6
#: Entries of a block, where the limit allows them: 64 MiB of doubles.
_BLOCK_ENTRIES = 2**23
#: The same on the workers of a cluster, which may be small: 4 MiB.
_WORKER_ENTRIES = 2**19
#: Smaller blocks would spend their time on overheads.
_SMALLEST_BLOCK = 16
#: Measured bytes for each neighbour of each row while a graph is made: indices, distances, affinity
#: and Laplacian, with copies. Ties to anchors are not made symmetric.
_EDGE_BYTES = 120
_TIE_BYTES = 86


def exact_bytes(n_rows: int) -> int:
    """Peak memory of an exact basis on ``n_rows`` rows that serves all penalties."""
    return _EXACT_MATRICES * _DOUBLE * n_rows**2


def fit_bytes(n_rows: int) -> int:
    """Peak memory of a single exact fit."""
    return _FIT_MATRICES * _DOUBLE * n_rows**2


def nystrom_bytes(n_rows: int, n_components: int) -> int:
    """Peak memory of a Nystrom basis that holds its features."""
    return _NYSTROM_MATRICES * _DOUBLE * n_components * (n_rows + n_components)


def block_rows(n_rows: int, n_components: int, limit: float, *, on_worker: bool = False) -> int:
    """Rows of a block of features under a limit."""
    allowed = (limit / (_DOUBLE * n_components) - _NYSTROM_MATRICES * n_components) / _BLOCKS
    entries = _WORKER_ENTRIES if on_worker else _BLOCK_ENTRIES
    wanted = int(min(allowed, entries // n_components))
    return min(n_rows, max(_SMALLEST_BLOCK, wanted))


def blocked_bytes(block: int, n_components: int) -> int:
    """Peak memory of a Nystrom basis whose features are computed in blocks of so many rows."""
    return _DOUBLE * n_components * (_BLOCKS * block + _NYSTROM_MATRICES * n_components)


def most_components(limit: float) -> int:
    r"""The largest c whose smallest blocks fit, :math:`8 c (96 + 4 c) \le` limit."""
    linear = _BLOCKS * _SMALLEST_BLOCK
    root = math.sqrt(linear**2 + 4 * _NYSTROM_MATRICES * limit / _DOUBLE)
    return int((root - linear) / (2 * _NYSTROM_MATRICES))


def graph_bytes(n_rows: int, n_neighbors: int, *, anchors: bool) -> int:
    """Peak memory of neighbours and graph, which no limit counts."""
    return (_TIE_BYTES if anchors else _EDGE_BYTES) * n_rows * n_neighbors


def default_limit() -> float:
    """Half of the machine's memory."""
    return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gibibytes(n_bytes: float) -> str:
    """A number of bytes for people."""
    return f"{n_bytes / 2**30:.3g} GiB"

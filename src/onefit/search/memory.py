"""How much memory a search needs, and what to do when that is too much."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace

from onefit.search.candidates import KernelGroup

__all__ = ["exact_bytes", "fit_to_memory", "nystrom_bytes"]

_DOUBLE = 8
#: N x N matrices that an exact basis holds at its peak: distances, features, and three to reduce.
_EXACT_MATRICES = 6
#: N x c matrices of a Nystrom basis.
_NYSTROM_MATRICES = 4


def exact_bytes(n_rows: int) -> int:
    """Peak memory of an exact basis on ``n_rows`` rows."""
    return _EXACT_MATRICES * _DOUBLE * n_rows**2


def nystrom_bytes(n_rows: int, n_components: int) -> int:
    """Peak memory of a Nystrom basis."""
    return _NYSTROM_MATRICES * _DOUBLE * n_components * (n_rows + n_components)


def default_limit() -> float:
    """Half of the machine's memory."""
    return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def fit_to_memory(
    groups: Sequence[KernelGroup], n_rows: int, limit: float | None, n_jobs: int
) -> list[KernelGroup]:
    """Replace exact bases that do not fit by the largest Nystrom bases that do, with a warning."""
    allowed = (default_limit() if limit is None else limit) / n_jobs
    is_exact = any(group.settings.n_components is None for group in groups)
    if not is_exact or exact_bytes(n_rows) <= allowed:
        return list(groups)
    c = n_rows // 2
    while c > 1 and nystrom_bytes(n_rows, c) > allowed:
        c = c * 9 // 10
    if nystrom_bytes(n_rows, c) > allowed:
        raise MemoryError(
            f"memory_limit={allowed:.3g} bytes for each job is too little for {n_rows} rows; even "
            "one landmark does not fit. Raise memory_limit or lower n_jobs."
        )
    warnings.warn(
        f"An exact basis on {n_rows} rows needs {exact_bytes(n_rows) / 2**30:.1f} GiB for each of "
        f"{n_jobs} jobs, more than the {allowed / 2**30:.1f} GiB allowed; using n_components={c} "
        "instead. Set n_components, or raise memory_limit.",
        UserWarning,
        stacklevel=3,
    )
    return [
        group
        if group.settings.n_components is not None
        else replace(group, settings=replace(group.settings, n_components=c))
        for group in groups
    ]

r"""Rows in blocks that live elsewhere: dask arrays and dask data frames.

What a fit asks of all rows are sums over blocks of rows,

.. math:: \sum_I g(X_I),

and these are dask graphs: blocks stay where they are, only sums travel. Some rows are wanted
themselves, and they are few: landmarks, labelled rows, a sample for the widths and the anchors.
dask is imported only once a dask collection has come.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from onefit._typing import FloatArray, IntArray, Rows
from onefit.validation import (
    check_magnitude,
    check_no_disguise,
    check_number_columns,
    check_structure,
)

__all__ = [
    "RowBlocks",
    "by_block",
    "checked_block",
    "data_in_graph",
    "gathered",
    "is_dask",
    "open_blocks",
]

#: Sums that are added in one task.
_ARITY = 8


@dataclass(frozen=True)
class RowBlocks:
    """Rows of a dask collection, used in the place of a matrix of rows.

    Parameters
    ----------
    array : dask array of shape (N, n_features)
        Rows in blocks of known sizes, each with all columns.
    meta : array or data frame without rows
        What the columns are.
    """

    array: Any
    meta: Any
    _gathered: dict[bytes, Rows] = field(default_factory=dict, init=False, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, n_features)."""
        return int(self.array.shape[0]), int(self.array.shape[1])

    @cached_property
    def _blocks(self) -> list[tuple[slice, Any]]:
        """Blocks with the numbers of their rows; empty ones left out."""
        sizes = self.array.chunks[0]
        ends = np.cumsum(sizes)
        blocks = self.array.to_delayed().ravel()
        return [
            (slice(end - size, end), block)
            for size, end, block in zip(sizes, ends.tolist(), blocks, strict=True)
            if size
        ]

    def __getitem__(self, rows: IntArray) -> Rows:
        """Some rows, brought here and remembered: all kernels of a search ask for the same."""
        wanted, places = np.unique(rows, return_inverse=True)
        key = wanted.tobytes()
        if key not in self._gathered:
            self._gathered[key] = self._gather(wanted)
        return self._gathered[key][places]

    def _gather(self, rows: IntArray) -> Rows:
        from dask.delayed import delayed

        parts = []
        for span, block in self._blocks:
            first, last = np.searchsorted(rows, [span.start, span.stop])
            if first < last:
                parts.append(delayed(_taken)(block, rows[first:last] - span.start))
        taken = _computed(parts)
        return sp.vstack(taken, format="csr") if sp.issparse(taken[0]) else np.concatenate(taken)

    def each(self, function: Callable[..., Any], *aligned: Any) -> list[Any]:
        """What ``function`` gives for every block, brought here: it should be little."""
        return _computed(self._tasks(function, aligned))

    def total(self, function: Callable[..., Any], *aligned: Any) -> tuple[FloatArray, ...]:
        """Sums over all blocks of the arrays that ``function`` gives for each.

        Parameters
        ----------
        function : callable
            From a block, and the same rows of ``aligned``, to a tuple of arrays.
        *aligned : arrays of N rows
            What is cut into the same blocks.
        """
        from dask.delayed import delayed

        parts = self._tasks(function, aligned)
        while len(parts) > 1:
            parts = [delayed(_added)(parts[i : i + _ARITY]) for i in range(0, len(parts), _ARITY)]
        result: tuple[FloatArray, ...] = _computed(parts)[0]
        return result

    def _tasks(self, function: Callable[..., Any], aligned: tuple[Any, ...]) -> list[Any]:
        from dask.delayed import delayed

        shared = delayed(function, traverse=False)
        return [
            delayed(_applied)(shared, block, *(values[span] for values in aligned))
            for span, block in self._blocks
        ]

    def lazily(self, function: Callable[[Rows], FloatArray], n_columns: int) -> Any:
        """``function`` of every block as a dask array of shape (N, n_columns), not computed."""
        checked = partial(_checked_first, function)
        return by_block(checked, self.array, np.empty((0, n_columns)))


def is_dask(data: Any) -> bool:
    """Whether it is a collection of dask; tells without importing dask."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr")


def gathered(data: Any) -> Any:
    """Labels or weights here, if they are a dask collection: a number for each row is little."""
    return data.compute() if is_dask(data) else data


def open_blocks(X: Any, *, sizes: bool = True) -> Any:
    """A dask array or data frame as :class:`RowBlocks`; anything else as it is.

    Sizes of blocks that are not known, such as those of data frames, are counted first, if they
    are needed.
    """
    if not is_dask(X):
        return X
    # A delayed object has any attribute one asks for, but not as a number.
    if not isinstance(getattr(X, "ndim", None), int):
        raise TypeError(
            f"X is a {type(X).__name__} of dask; expected a dask array or a dask data frame. See "
            "dask.array.from_delayed and dask.dataframe.from_delayed, or pass X.compute()."
        )
    if X.ndim != 2:
        raise ValueError(
            f"X is a {type(X).__name__} of dask of shape {X.shape}; expected a dask array of shape "
            "(N, n_features), or a dask data frame."
        )
    is_frame = hasattr(X, "to_dask_array")
    meta = X._meta if is_frame else np.empty((0, X.shape[1]), X.dtype)
    # Before blocks are read, to count their rows.
    check_no_disguise(meta)
    check_number_columns(meta)
    if is_frame:
        X = X.to_dask_array(lengths=sizes or None)
    elif sizes and np.isnan(X.shape[0]):
        X = X.copy()
        X.compute_chunk_sizes()
    return RowBlocks(X.rechunk({1: -1}) if X.numblocks[1] > 1 else X, meta)


@contextmanager
def data_in_graph() -> Iterator[None]:
    """No warning of dask about data in a graph: there they are not lost with a worker."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def by_block(function: Callable[[Any], Any], data: Any, like: Any) -> Any:
    """``function`` of an array; of a dask array, lazily and block by block.

    Parameters
    ----------
    function : callable
        From rows to as many rows.
    data : array or dask array of shape (N, p)
        What it is applied to.
    like : array without rows
        Shape and type of what it gives.
    """
    if not is_dask(data):
        return function(data)
    chunks = (data.chunks[0], *((size,) for size in like.shape[1:]))
    drop = [1] if like.ndim == 1 else None
    return data.map_blocks(_unless_empty, function, like, chunks=chunks, drop_axis=drop, meta=like)


def checked_block(block: Any) -> Rows:
    """A block as an array or CSR matrix of finite floats."""
    check_structure(block)
    rows = check_array(block, accept_sparse="csr", dtype=np.float64, input_name="X")
    check_magnitude(rows)
    return rows


# --- what workers do ----------------------------------------------------------------------------


def _taken(block: Any, rows: IntArray) -> Rows:
    return checked_block(block[rows])


def _applied(function: Callable[..., Any], block: Any, *aligned: Any) -> Any:
    return function(checked_block(block), *aligned)


def _checked_first(function: Callable[[Rows], FloatArray], block: Any) -> FloatArray:
    return function(checked_block(block))


def _unless_empty(block: Any, function: Callable[[Any], Any], like: Any) -> Any:
    return function(block) if block.shape[0] else like


def _added(parts: list[tuple[FloatArray, ...]]) -> tuple[FloatArray, ...]:
    return tuple(np.sum(same, axis=0) for same in zip(*parts, strict=True))


def _computed(parts: list[Any]) -> list[Any]:
    from dask.base import compute

    with data_in_graph():
        return list(compute(*parts))

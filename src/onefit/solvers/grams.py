r"""Gram matrices :math:`G = \tilde K_{LL} / \gamma_A` of label problems that are solved together.

Problems on the same rows with other weights share one matrix, an array. Candidates have each their
own; :class:`GramStack` holds one deformed kernel for all ambient penalties of a ratio, and the
functions of this module do for both what solvers need besides the product ``G @ x``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from onefit._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "Gram",
    "GramStack",
    "block_of",
    "blocks",
    "changes",
    "largest_diagonal",
    "some_columns",
]


@dataclass(frozen=True)
class GramStack:
    r"""One Gram matrix a column: :math:`G_j = \tilde K_{k(j)} / \gamma_j`.

    Parameters
    ----------
    kernels : sequence of arrays of shape (l, l)
        Labelled blocks of deformed kernels.
    of : array of shape (m,)
        k(j), which of them a column has; not falling.
    ambient : array of shape (m,)
        gamma_j, ambient penalties.
    """

    kernels: Sequence[FloatArray]
    of: IntArray
    ambient: FloatArray

    @cached_property
    def runs(self) -> list[tuple[FloatArray, slice]]:
        """Every kernel that has columns, with these."""
        numbers, first = np.unique(self.of, return_index=True)
        ends = [*first[1:].tolist(), self.of.size]
        return [
            (self.kernels[number], slice(start, stop))
            for number, start, stop in zip(numbers, first.tolist(), ends, strict=True)
        ]

    def __matmul__(self, x: FloatArray) -> FloatArray:
        """G_j x_j for every column."""
        result = np.empty_like(x)
        for kernel, columns in self.runs:
            result[:, columns] = kernel @ x[:, columns]
        return result / self.ambient


Gram: TypeAlias = FloatArray | GramStack


def some_columns(G: Gram, which: BoolArray) -> Gram:
    """The matrices of some of the columns."""
    if isinstance(G, GramStack):
        return GramStack(G.kernels, G.of[which], G.ambient[which])
    return G


def changes(G: Gram, n_columns: int) -> BoolArray:
    """Whether a column, from the second on, has another matrix than the one before it."""
    if not isinstance(G, GramStack):
        return np.zeros(max(n_columns - 1, 0), dtype=bool)
    return (np.diff(G.of) != 0) | (np.diff(G.ambient) != 0.0)


def block_of(G: Gram, column: int, rows: IntArray) -> FloatArray:
    """The block of some rows in the matrix of one column."""
    if isinstance(G, GramStack):
        return _block(G.kernels[G.of[column]], rows) / G.ambient[column]
    return _block(G, rows)


def blocks(G: Gram, rows: IntArray) -> FloatArray:
    """The blocks of some rows, those of ``rows[j]`` for column j: an array (m, n, n)."""
    result = np.empty((*rows.shape, rows.shape[1]))
    for j, own in enumerate(rows):
        result[j] = block_of(G, j, own)
    return result


def _block(matrix: FloatArray, rows: IntArray) -> FloatArray:
    # Rows first, which are copied whole: two to three times as fast as np.ix_.
    return matrix[rows][:, rows]


def largest_diagonal(G: Gram) -> FloatArray:
    """The largest entry of the diagonals of every column, or of all columns at once."""
    if not isinstance(G, GramStack):
        return np.abs(np.diagonal(G)).max(initial=0.0)
    largest = np.array([np.abs(np.diagonal(K)).max(initial=0.0) for K in G.kernels])
    return largest[G.of] / G.ambient

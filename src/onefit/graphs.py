r"""Neighbour graphs and their Laplacians.

The graph of the paper joins i and j when either is among the k nearest neighbours of the other,
with heat weights

.. math:: W_{ij} = \exp\left(-\frac{\lVert x_i - x_j \rVert^2}{2\sigma_w}\right),

and its Laplacian is :math:`L = D - W`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from onefit._typing import BoolArray, FloatArray, GraphWidth, IntArray, Sparse
from onefit.kernels import gaussian_decay, graph_scale
from onefit.neighbors import Neighbors
from onefit.validation import LARGEST

__all__ = ["Edges", "Graph", "SquaredLaplacian", "check_affinity", "heat_affinity"]

_REMEMBERED_PARTS = 128


@dataclass(frozen=True)
class SquaredLaplacian:
    """L^2, applied as L twice: a row of L^2 has entries for all neighbours of neighbours."""

    root: Sparse

    @property
    def shape(self) -> tuple[int, int]:
        """(N, N)."""
        return self.root.shape

    def __matmul__(self, B: FloatArray) -> FloatArray:
        return np.asarray(self.root @ (self.root @ B))


@dataclass(frozen=True)
class Edges:
    r"""Edges one by one: :math:`L = \sum_e w_e (e_i - e_j)(e_i - e_j)'`, i and j their ends.

    Parameters
    ----------
    first, second : arrays of shape (e,)
        Ends, i < j.
    weights : array of shape (e,)
        w.
    """

    first: IntArray
    second: IntArray
    weights: FloatArray

    def left_out(self, rows: IntArray, n_rows: int) -> BoolArray:
        """Which edges are gone where only ``rows`` of the ``n_rows`` are kept."""
        inside = np.zeros(n_rows, dtype=bool)
        inside[rows] = True
        return ~(inside[self.first] & inside[self.second])


@dataclass(frozen=True)
class Graph:
    r"""A weighted graph on the rows, and the quadratic form its Laplacian defines.

    Parameters
    ----------
    affinity : sparse array of shape (N, N)
        Symmetric, non-negative weights W.
    normalized : bool
        :math:`L = I - D^{-1/2} W D^{-1/2}` instead of :math:`D - W`.
    power : int
        The penalty is :math:`f' L^p f`.
    """

    affinity: Sparse
    normalized: bool = False
    power: int = 1
    _parts: dict[bytes, Graph] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def stored(self) -> Sparse:
        """What an estimator keeps of the graph."""
        return self.affinity

    @property
    def operator(self) -> Sparse | SquaredLaplacian:
        """The (power of the) Laplacian in the form in which it is applied."""
        if self.power == 2:
            return SquaredLaplacian(self._first_power)
        return self.laplacian

    @cached_property
    def _first_power(self) -> Sparse:
        return sp.csr_array(cast(Sparse, csgraph.laplacian(self.affinity, normed=self.normalized)))

    @cached_property
    def laplacian(self) -> Sparse:
        """The (power of the) Laplacian as a sparse array."""
        result = L = self._first_power
        for _ in range(self.power - 1):
            result = sp.csr_array(result @ L)
        return result

    @cached_property
    def edges(self) -> Edges | None:
        """The edges, of which D - W is a sum; None where the Laplacian is another."""
        if self.normalized or self.power != 1:
            return None
        upper = sp.triu(self.affinity, k=1).tocoo()
        first, second = (ends.astype(np.intp) for ends in upper.coords)
        return Edges(first, second, upper.data)

    def only(self, rows: IntArray) -> Graph:
        """The graph left when only ``rows`` are kept; the others stay as isolated points.

        An isolated point has a zero row in either Laplacian: its quadratic form is that of the
        kept rows, on functions of all of them. Parts are remembered: every candidate of a search
        asks for the same folds.
        """
        key = rows.tobytes()
        if key not in self._parts:
            if len(self._parts) >= _REMEMBERED_PARTS:
                self._parts.clear()
            self._parts[key] = self._part(rows)
        return self._parts[key]

    def _part(self, rows: IntArray) -> Graph:
        W = self.affinity.tocoo()
        inside = np.zeros(W.shape[0], dtype=bool)
        inside[rows] = True
        i, j = W.coords
        kept = inside[i] & inside[j]
        affinity = sp.csr_array((W.data[kept], (i[kept], j[kept])), shape=W.shape)
        return Graph(affinity, self.normalized, self.power)


def heat_affinity(
    neighbors: Neighbors,
    width: float | GraphWidth,
    *,
    weights: str = "heat",
) -> tuple[Sparse, float]:
    """Symmetric kNN affinity, and the width used (sigma_w)."""
    n, k = neighbors.indices.shape
    sigma_w = graph_scale(width, neighbors.squared)
    if weights == "binary":
        data = np.ones(n * k)
    else:
        data = gaussian_decay(neighbors.squared.flatten(), sigma_w)
    rows_end = np.arange(0, n * k + 1, k)
    W = sp.csr_array((data, neighbors.indices.ravel(), rows_end), shape=(n, n))
    W = sp.csr_array(W.maximum(W.T))
    W.eliminate_zeros()
    return W, sigma_w


def check_affinity(affinity: Any, n_rows: int, power: int = 1) -> Sparse:
    """Validate a precomputed graph: N x N, symmetric, finite, no negative weight.

    ``power`` is that of the degrees in the penalty, which must not overflow.
    """
    try:
        with np.errstate(over="ignore"):  # of longer floats: infinite, which is refused
            W = sp.csr_array(affinity, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"the graph is a {type(affinity).__name__} that is no matrix of numbers ({error}); "
            f"expected a sparse or dense affinity matrix of shape ({n_rows}, {n_rows})."
        ) from None
    if W.shape != (n_rows, n_rows):
        raise ValueError(
            f"the precomputed graph has shape {W.shape}; expected ({n_rows}, {n_rows}), "
            "one row and column for every row of X, labelled or not."
        )
    if not W.has_canonical_format:
        W = W.copy()
        W.sum_duplicates()
    if not np.isfinite(W.data).all():
        raise ValueError(
            "the precomputed graph has NaN or infinite weights; expected finite ones, and no entry "
            "or 0 where there is no edge."
        )
    if W.data.min(initial=0.0) < 0:
        raise ValueError(
            f"the precomputed graph has a negative weight ({W.data.min():.3g}); expected weights "
            ">= 0, so that its Laplacian is positive semi-definite. Clip or shift them."
        )
    asymmetry = abs(W - W.T).max() if W.nnz else 0.0
    if asymmetry > 1e-10 * W.data.max(initial=0.0):
        raise ValueError(
            f"the precomputed graph is not symmetric (largest difference {asymmetry:.3g}); "
            "expected W[i, j] == W[j, i]. Symmetrise it, for instance by W.maximum(W.T)."
        )
    _check_degrees(W, power)
    return W


def _check_degrees(W: Sparse, power: int) -> None:
    with np.errstate(over="ignore"):
        largest = float(np.max(W.sum(axis=1)))
    limit = LARGEST ** (2.0 / (power + 1.0))
    if largest > limit or 0.0 < largest < 1.0 / limit:
        raise ValueError(
            f"the precomputed graph has sums of weights up to {largest:.3g} in a row; expected "
            f"{1.0 / limit:.3g} to {limit:.3g}, so that its Laplacian neither overflows nor "
            "vanishes. Divide the graph by its largest weight; manifold_penalty takes the factor."
        )

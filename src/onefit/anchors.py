r"""Anchor graphs: rows are joined through a few anchors instead of with each other.

Every row is tied to its s nearest of m anchors by heat weights that sum to 1, the N x m matrix A.
With :math:`\Lambda = \mathrm{diag}(A'1)` the affinity and its Laplacian are (equation (12))

.. math:: W = A \Lambda^{-1} A', \qquad L = D - W,

and :math:`D = I` while all rows are there. One pass over the rows makes the graph, no neighbours
are searched, and L is applied through A without forming W.

References
----------
Liu, He, Chang, "Large graph construction for scalable semi-supervised learning", ICML 2010.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import gen_batches

from onefit._typing import FloatArray, IntArray, Rows, Sparse
from onefit.graphs import Graph, SquaredLaplacian
from onefit.kernels import evenly_spaced_rows, gaussian_decay, squared_distances, typical_scale
from onefit.neighbors import Neighbors

__all__ = [
    "AnchorGraph",
    "AnchorLaplacian",
    "AnyGraph",
    "Operator",
    "anchor_weights",
    "nearest_anchors",
]

#: Rows among which anchors are chosen, for each anchor.
_ROWS_PER_ANCHOR = 20
#: Entries of a block of distances to anchors.
_BLOCK_ENTRIES = 2**22


@dataclass(frozen=True)
class AnchorLaplacian:
    r"""L = diag(degrees) - U U' with a sparse N x m matrix U: applied, never formed."""

    degrees: FloatArray
    U: Sparse

    @property
    def shape(self) -> tuple[int, int]:
        """(N, N)."""
        return self.degrees.size, self.degrees.size

    def __matmul__(self, B: FloatArray) -> FloatArray:
        degrees = self.degrees if B.ndim == 1 else self.degrees[:, None]
        return degrees * B - self.U @ (self.U.T @ B)

    def quadratic_form(self, blocks: Iterable[tuple[slice, FloatArray]]) -> FloatArray:
        """B'LB from blocks of rows of B; the two parts cancel, hence in double precision."""
        local: FloatArray | float = 0.0
        spread: FloatArray | float = 0.0
        U = self.U
        for rows, B in blocks:
            local = local + B.T @ (self.degrees[rows, None] * B)
            spread = spread + U[rows].T @ B
        return np.asarray(local - np.transpose(spread) @ spread)


@dataclass(frozen=True)
class AnchorGraph:
    r"""A graph through anchors, used like :class:`~onefit.graphs.Graph`.

    Parameters
    ----------
    weights : sparse array of shape (N, m)
        A; zero in the rows that are left out.
    totals : array of shape (m,)
        Diagonal of :math:`\Lambda`, of all rows.
    normalized : bool
        :math:`I - D^{-1/2} W D^{-1/2}` instead of :math:`D - W`: the same while all rows are there.
    """

    weights: Sparse
    totals: FloatArray
    normalized: bool = False

    power: ClassVar[int] = 1

    @property
    def stored(self) -> Sparse:
        """What an estimator keeps of the graph: A."""
        return self.weights

    @cached_property
    def operator(self) -> AnchorLaplacian:
        """L in the form that is applied."""
        roots = np.sqrt(np.divide(1.0, self.totals, where=self.totals > 0, out=self.totals * 0))
        U = sp.csr_array(self.weights * roots)
        degrees = U @ (U.T @ np.ones(U.shape[0]))
        if not self.normalized:
            return AnchorLaplacian(degrees, U)
        present = degrees > 0
        scale = np.sqrt(np.divide(1.0, degrees, where=present, out=np.zeros_like(degrees)))
        return AnchorLaplacian(present.astype(np.float64), sp.csr_array(U * scale[:, None]))

    @cached_property
    def affinity(self) -> Sparse:
        """W as a sparse matrix, for what needs single edges; self-loops cancel in L."""
        scaled = self.weights / np.where(self.totals > 0, self.totals, 1.0)
        return sp.csr_array(sp.csr_array(scaled) @ self.weights.T)

    @cached_property
    def laplacian(self) -> Sparse:
        """L as a sparse matrix, for exact kernels, which need N x N matrices anyway."""
        L = self.operator
        return sp.csr_array(sp.diags_array(L.degrees) - L.U @ L.U.T)

    def only(self, rows: IntArray) -> AnchorGraph:
        """The graph left when only ``rows`` are kept; the others stay as isolated points."""
        kept = np.zeros(self.weights.shape[0])
        kept[rows] = 1.0
        weights = sp.csr_array(self.weights * kept[:, None])
        weights.eliminate_zeros()
        return AnchorGraph(weights, self.totals, self.normalized)


#: Any graph with a Laplacian, and the form in which that is applied.
AnyGraph: TypeAlias = Graph | AnchorGraph
Operator: TypeAlias = Sparse | SquaredLaplacian | AnchorLaplacian


def nearest_anchors(X: Rows, n_anchors: int, s: int, rng: np.random.RandomState) -> Neighbors:
    """The ``s`` nearest anchors of every row; anchors are rows that k-means++ would start from.

    Parameters
    ----------
    X : array or sparse matrix of shape (N, n_features)
        Rows.
    n_anchors : int
        m, at most N.
    s : int
        Anchors of every row, at most m.
    rng : RandomState
        Where randomness comes from.
    """
    if s > n_anchors or n_anchors > X.shape[0]:
        raise ValueError(
            f"graph='anchor' with n_neighbors={s}, n_anchors={n_anchors} and {X.shape[0]} rows; "
            "expected n_neighbors <= n_anchors <= rows. Change one of them."
        )
    candidates = evenly_spaced_rows(X.shape[0], _ROWS_PER_ANCHOR * n_anchors)
    anchors = X[candidates[kmeans_plusplus(X[candidates], n_anchors, random_state=rng)[1]]]
    indices = np.empty((X.shape[0], s), dtype=np.intp)
    squared = np.empty((X.shape[0], s))
    for rows in gen_batches(X.shape[0], max(1, _BLOCK_ENTRIES // n_anchors)):
        distances = squared_distances(X[rows], anchors)
        near = np.argpartition(distances, s - 1, axis=1)[:, :s]
        values = np.take_along_axis(distances, near, axis=1)
        order = np.argsort(values, axis=1, kind="stable")
        indices[rows] = np.take_along_axis(near, order, axis=1)
        squared[rows] = np.take_along_axis(values, order, axis=1)
    return Neighbors(indices, squared, "anchor")


def anchor_weights(
    nearest: Neighbors, n_anchors: int, width: float | Literal["median"], *, weights: str = "heat"
) -> tuple[Sparse, float]:
    """A of shape (N, m), whose rows sum to 1, and the width used (sigma_w)."""
    n, s = nearest.indices.shape
    sigma_w = typical_scale(nearest.squared) if width == "median" else float(width)
    if weights == "binary":
        data = np.ones((n, s))
    else:
        # Relative to the nearest anchor: a row far from all of them has weights, too.
        data = gaussian_decay(nearest.squared - nearest.squared[:, :1], sigma_w)
    data /= data.sum(axis=1, keepdims=True)
    ends = np.arange(0, n * s + 1, s)
    A = sp.csr_array((data.ravel(), nearest.indices.flatten(), ends), shape=(n, n_anchors))
    A.sort_indices()
    return A, sigma_w

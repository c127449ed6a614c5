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
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar, NoReturn, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import gen_batches

from onefit._typing import BoolArray, FloatArray, GraphWidth, IntArray, Rows, Sparse
from onefit.blocks import RowBlocks
from onefit.graphs import Graph, SquaredLaplacian
from onefit.kernels import evenly_spaced_rows, gaussian_decay, graph_scale, squared_distances
from onefit.neighbors import Neighbors

__all__ = [
    "AnchorGraph",
    "AnchorLaplacian",
    "AnyGraph",
    "AnyNeighbors",
    "DistributedAnchorGraph",
    "DistributedAnchors",
    "DistributedLaplacian",
    "Operator",
    "anchor_weights",
    "nearest_anchors",
    "ties_to_anchors",
]

#: Rows among which anchors are chosen, for each anchor.
_ROWS_PER_ANCHOR = 20
#: Rows whose distances to anchors give the "median" width.
_WIDTH_ROWS = 10_000
#: Entries of a block of distances to anchors.
_BLOCK_ENTRIES = 2**22


@dataclass(frozen=True)
class AnchorLaplacian:
    r"""(D - U U')^power, power 1 or 2, with a sparse N x m matrix U: applied, never formed."""

    degrees: FloatArray
    U: Sparse
    power: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """(N, N)."""
        return self.degrees.size, self.degrees.size

    def __matmul__(self, B: FloatArray) -> FloatArray:
        degrees = self.degrees if B.ndim == 1 else self.degrees[:, None]
        for _ in range(self.power):
            B = degrees * B - self.U @ (self.U.T @ B)
        return B

    def form_parts(self, blocks: Iterable[tuple[slice, FloatArray]]) -> tuple[FloatArray, ...]:
        """What :func:`joined_form` needs, from blocks of rows of B: sums over the rows."""
        local: FloatArray | float = 0.0
        spread: FloatArray | float = 0.0
        weighted: FloatArray | float = 0.0
        for rows, B in blocks:
            degrees, U = self.degrees[rows, None], self.U[rows]
            # While all rows are there, D is I.
            DB = B if (degrees == 1.0).all() else degrees * B
            local = local + (B if self.power == 1 else DB).T @ DB
            spread_here = U.T @ B
            spread = spread + spread_here
            if self.power == 2:
                weighted = weighted + (spread_here if DB is B else U.T @ DB)
        parts = np.asarray(local), np.asarray(spread)
        if self.power == 1:
            return parts
        return *parts, np.asarray(weighted), (self.U.T @ self.U).toarray()

    def quadratic_form(self, blocks: Iterable[tuple[slice, FloatArray]]) -> FloatArray:
        """B'LB, or B'L^2B, from blocks of rows of B."""
        return joined_form(*self.form_parts(blocks))


def joined_form(
    local: FloatArray,
    spread: FloatArray,
    weighted: FloatArray | None = None,
    overlap: FloatArray | None = None,
) -> FloatArray:
    """The form from its sums; they cancel, hence in double precision.

    With S = U'B, B'LB = B'DB - S'S. With T = U'DB and V = U'U in addition,
    B'L^2B = B'D^2B - T'S - S'T + S'VS.
    """
    if weighted is None or overlap is None:
        return local - spread.T @ spread
    cross = weighted.T @ spread
    return local - cross - cross.T + spread.T @ (overlap @ spread)


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
    power : int
        The penalty is :math:`f' L^p f`, p at most 2.
    """

    weights: Sparse
    totals: FloatArray
    normalized: bool = False
    power: int = 1

    @property
    def stored(self) -> Sparse:
        """What an estimator keeps of the graph: A."""
        return self.weights

    @cached_property
    def operator(self) -> AnchorLaplacian:
        """L in the form that is applied."""
        kept = np.asarray(self.weights.sum(axis=0), dtype=np.float64)
        return _laplacian_of(self.weights, self.totals, kept, self.normalized, self.power)

    @cached_property
    def affinity(self) -> Sparse:
        """W as a sparse matrix, for what needs single edges; self-loops cancel in L."""
        scaled = self.weights / np.where(self.totals > 0, self.totals, 1.0)
        return sp.csr_array(sp.csr_array(scaled) @ self.weights.T)

    @cached_property
    def laplacian(self) -> Sparse:
        """L^p as a sparse matrix, for exact kernels, which need N x N matrices anyway."""
        operator = self.operator
        L = sp.csr_array(sp.diags_array(operator.degrees) - operator.U @ operator.U.T)
        return L if self.power == 1 else sp.csr_array(L @ L)

    def only(self, rows: IntArray) -> AnchorGraph:
        """The graph left when only ``rows`` are kept; the others stay as isolated points."""
        kept = np.zeros(self.weights.shape[0])
        kept[rows] = 1.0
        weights = sp.csr_array(self.weights * kept[:, None])
        weights.eliminate_zeros()
        return replace(self, weights=weights)


def _laplacian_of(
    weights: Sparse, totals: FloatArray, kept: FloatArray, normalized: bool, power: int
) -> AnchorLaplacian:
    """L of some rows' ties; ``kept`` are the column sums of A over all rows that are there."""
    roots = np.sqrt(np.divide(1.0, totals, where=totals > 0, out=totals * 0))
    U = sp.csr_array(weights * roots)
    degrees = U @ (roots * kept)
    if not normalized:
        return AnchorLaplacian(degrees, U, power)
    present = degrees > 0
    scale = np.sqrt(np.divide(1.0, degrees, where=present, out=np.zeros_like(degrees)))
    return AnchorLaplacian(present.astype(np.float64), sp.csr_array(U * scale[:, None]), power)


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
    return ties_to_anchors(X, _anchors_among(X, n_anchors, s, rng), s)


def _anchors_among(X: Rows, n_anchors: int, s: int, rng: np.random.RandomState) -> Rows:
    if s > n_anchors or n_anchors > X.shape[0]:
        raise ValueError(
            f"graph='anchor' with n_neighbors={s}, n_anchors={n_anchors} and {X.shape[0]} rows; "
            "expected n_neighbors <= n_anchors <= rows. Change one of them."
        )
    candidates = X[evenly_spaced_rows(X.shape[0], _ROWS_PER_ANCHOR * n_anchors)]
    return candidates[kmeans_plusplus(candidates, n_anchors, random_state=rng)[1]]


def ties_to_anchors(X: Rows, anchors: Rows, s: int) -> Neighbors:
    """The ``s`` nearest of these anchors of every row."""
    indices = np.empty((X.shape[0], s), dtype=np.intp)
    squared = np.empty((X.shape[0], s))
    for rows in gen_batches(X.shape[0], max(1, _BLOCK_ENTRIES // anchors.shape[0])):
        distances = squared_distances(X[rows], anchors)
        near = np.argpartition(distances, s - 1, axis=1)[:, :s]
        values = np.take_along_axis(distances, near, axis=1)
        order = np.argsort(values, axis=1, kind="stable")
        indices[rows] = np.take_along_axis(near, order, axis=1)
        squared[rows] = np.take_along_axis(values, order, axis=1)
    return Neighbors(indices, squared, "anchor")


def anchor_weights(
    nearest: Neighbors, n_anchors: int, width: float | GraphWidth, *, weights: str = "heat"
) -> tuple[Sparse, float]:
    """A of shape (N, m), whose rows sum to 1, and the width used (sigma_w).

    The median of words for a width is that over at most 10,000 evenly spaced rows.
    """
    n, s = nearest.indices.shape
    sigma_w = graph_scale(width, nearest.squared[evenly_spaced_rows(n, _WIDTH_ROWS)])
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


# --- rows that live elsewhere -------------------------------------------------------------------


@dataclass(frozen=True)
class Ties:
    """How any rows are tied to given anchors: their rows of A, made whenever they are wanted."""

    anchors: Rows
    s: int
    width: float
    weights: str

    def __call__(self, X: Rows) -> Sparse:
        """A of these rows."""
        nearest = ties_to_anchors(X, self.anchors, self.s)
        m = self.anchors.shape[0]
        return anchor_weights(nearest, m, self.width, weights=self.weights)[0]

    def column_sums(self, X: Rows, kept: BoolArray) -> tuple[FloatArray]:
        """Column sums of A over the rows that are kept."""
        return (self(X).T @ kept.astype(np.float64),)


@dataclass(frozen=True)
class DistributedLaplacian:
    r"""L of :class:`AnchorLaplacian` for rows that live elsewhere: made block by block.

    Parameters
    ----------
    ties : Ties
        A of any rows.
    totals, sums : arrays of shape (m,)
        :math:`\Lambda`, and the column sums of A over the rows that are kept.
    normalized, power
        As in :class:`AnchorGraph`.
    kept : array of shape (N,)
        Which rows are there.
    """

    ties: Ties
    totals: FloatArray
    sums: FloatArray
    normalized: bool
    power: int
    kept: BoolArray

    @property
    def of_block(self) -> partial[AnchorLaplacian]:
        """From rows of a block, and which of them are kept, to their part of L."""
        return partial(_part, self.ties, self.totals, self.sums, self.normalized, self.power)

    def __matmul__(self, values: FloatArray) -> NoReturn:
        _refuse_matrix()


def _part(
    ties: Ties,
    totals: FloatArray,
    sums: FloatArray,
    normalized: bool,
    power: int,
    X: Rows,
    kept: BoolArray,
) -> AnchorLaplacian:
    weights = sp.csr_array(ties(X) * kept[:, None].astype(np.float64))
    return _laplacian_of(weights, totals, sums, normalized, power)


@dataclass(frozen=True)
class DistributedAnchorGraph:
    """An :class:`AnchorGraph` on rows that live elsewhere; A is held nowhere."""

    X: RowBlocks
    ties: Ties
    totals: FloatArray
    normalized: bool
    power: int
    kept: BoolArray

    #: What an estimator keeps of the graph.
    stored: ClassVar[None] = None

    @cached_property
    def operator(self) -> DistributedLaplacian:
        """L in the form that is applied."""
        sums = self.totals
        if not self.kept.all():
            sums = self.X.total(self.ties.column_sums, self.kept)[0]
        return DistributedLaplacian(
            self.ties, self.totals, sums, self.normalized, self.power, self.kept
        )

    @property
    def affinity(self) -> NoReturn:
        """There is no matrix."""
        _refuse_matrix()

    @property
    def laplacian(self) -> NoReturn:
        """There is no matrix."""
        _refuse_matrix()

    def only(self, rows: IntArray) -> DistributedAnchorGraph:
        """The graph left when only ``rows`` are kept; the others stay as isolated points."""
        kept = np.zeros_like(self.kept)
        kept[rows] = True
        return replace(self, kept=kept)


def _refuse_matrix() -> NoReturn:
    raise TypeError(
        "this needs the Laplacian as a matrix, which the rows of a dask collection do not have; "
        "expected holdout='labels', or a search with holdout='points' by criterion='exact' or "
        "'newton' without criterion_params."
    )


@dataclass(frozen=True)
class DistributedAnchors:
    """Anchors of rows that live elsewhere, in the place of everybody's nearest ones."""

    X: RowBlocks
    anchors: Rows
    _totals: dict[tuple[int, float, str], FloatArray] = field(
        default_factory=dict, init=False, repr=False
    )

    method: ClassVar[str] = "anchor"

    @classmethod
    def choose(
        cls, X: RowBlocks, n_anchors: int, s: int, rng: np.random.RandomState
    ) -> DistributedAnchors:
        """The anchors that :func:`nearest_anchors` takes."""
        return cls(X, _anchors_among(X, n_anchors, s, rng))

    def graph(
        self,
        s: int,
        width: float | GraphWidth,
        weights: str,
        normalized: bool,
        power: int,
    ) -> tuple[DistributedAnchorGraph, float]:
        """The graph of every row's ``s`` nearest anchors, and its width."""
        if isinstance(width, str):
            sample = self.X[evenly_spaced_rows(self.X.shape[0], _WIDTH_ROWS)]
            width = graph_scale(width, ties_to_anchors(sample, self.anchors, s).squared)
        sigma_w = float(width)
        ties = Ties(self.anchors, s, sigma_w, weights)
        everything = np.ones(self.X.shape[0], dtype=bool)
        key = (s, sigma_w, weights)
        if key not in self._totals:
            # All kernels of a search share this pass over the rows.
            self._totals[key] = self.X.total(ties.column_sums, everything)[0]
        graph = DistributedAnchorGraph(
            self.X, ties, self._totals[key], normalized, power, everything
        )
        return graph, sigma_w


#: Any graph with a Laplacian, the form in which that is applied, and what the graph is made of.
AnyGraph: TypeAlias = Graph | AnchorGraph | DistributedAnchorGraph
Operator: TypeAlias = Sparse | SquaredLaplacian | AnchorLaplacian | DistributedLaplacian
AnyNeighbors: TypeAlias = Neighbors | DistributedAnchors

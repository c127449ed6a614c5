r"""Factors :math:`K \approx B B'` of the kernel: exact or Nystrom, stored or computed in blocks.

A factor is shared by all graphs on the rows. A basis asks it for five things: features of some
rows, products :math:`B a` and :math:`B'u`, the squared norms of the rows of B, and the quadratic
form :math:`B'SB` of a sparse matrix. :class:`KernelFactor` keeps B and multiplies.
:class:`BlockFactor` keeps the landmarks only, and computes the features of a block of rows
whenever they are wanted, so that nothing of size N x c is ever held (equation (11)).
:class:`DistributedFactor` has a :class:`BlockFactor` for every block of a dask collection, made
where the block is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.utils import gen_batches

from onefit import _lapack
from onefit._lapack import product, solve_triangular, sparse_product
from onefit._typing import BoolArray, FloatArray, IntArray, Rows, Sparse
from onefit.anchors import AnchorLaplacian, DistributedLaplacian, Operator, joined_form
from onefit.blocks import RowBlocks
from onefit.graphs import SquaredLaplacian
from onefit.kernels import Kernel, drop_negligible

__all__ = [
    "BlockFactor",
    "DistributedFactor",
    "Factor",
    "FeatureMap",
    "KernelFactor",
    "factor_kernel",
    "factor_nystrom",
    "factor_nystrom_in_blocks",
    "nonempty_rows",
    "pivoted_cholesky",
]


#: Numbers between this and its inverse have products that single precision can hold.
_SAFE = 1e-12
#: A symmetric product is computed in so many strips, of so many columns at least.
_STRIPS, _STRIP = 8, 64


def nonempty_rows(S: Sparse) -> IntArray:
    """Rows of a sparse matrix that have entries."""
    return np.flatnonzero(np.diff(S.indptr))


class Factor(Protocol):
    """A factor of the kernel; see the module's description."""

    @property
    def landmarks(self) -> IntArray:
        """Rows that carry the kernel expansion."""
        ...

    @property
    def triangle(self) -> FloatArray:
        """Features of the landmarks, a lower triangle R: z(x) = R^{-1} k(landmarks, x)."""
        ...

    @property
    def n_rows(self) -> int:
        """N."""
        ...

    def rows(self, rows: IntArray) -> FloatArray:
        """Features of some rows, of shape (n, c)."""
        ...

    def values(self, coef: FloatArray) -> FloatArray:
        """B coef: function values on all rows."""
        ...

    def representer(self, weights: FloatArray) -> FloatArray:
        """B' weights: coefficients of the kernel expansion with these weights on the rows."""
        ...

    def squared_norms(self) -> FloatArray:
        """Squared norms of the rows of B, that is, k(x, x) as the factor sees it."""
        ...

    def quadratic_form(self, S: Operator) -> FloatArray:
        """B'SB of a symmetric sparse matrix, or of the Laplacian of an anchor graph."""
        ...


@dataclass(frozen=True)
class KernelFactor:
    r"""A factor :math:`K \approx B B'` that is held in memory.

    Parameters
    ----------
    features : array of shape (N, c)
        B. Row i holds the features of row i: f = B a.
    landmarks : array of shape (c,)
        Rows that carry the kernel expansion: their features are a lower triangle R, and
        z(x) = R^{-1} k(landmarks, x).
    between : callable or None
        From row numbers to the kernel between these rows, where B B' is the kernel up to rounding.
    """

    features: FloatArray
    landmarks: IntArray
    between: Callable[[IntArray], FloatArray] | None = None

    @property
    def triangle(self) -> FloatArray:
        return self.features[self.landmarks]

    @property
    def n_rows(self) -> int:
        return self.features.shape[0]

    def rows(self, rows: IntArray) -> FloatArray:
        return self.features[rows]

    def values(self, coef: FloatArray) -> FloatArray:
        return product(self.features, coef)

    def representer(self, weights: FloatArray) -> FloatArray:
        return product(self.features.T, weights)

    def squared_norms(self) -> FloatArray:
        return np.einsum("ij,ij->i", self.features, self.features)

    def kernel_between(self, rows: IntArray) -> FloatArray | None:
        """The kernel's own entries between some rows, which all graphs and folds ask for.

        None where the factor does not know them.
        """
        if self.between is None:
            return None
        key = rows.tobytes()
        entries = self._entries.get(key)
        if entries is None:
            entries = self.between(rows)
            self._entries.clear()
            self._entries[key] = entries
        return entries

    @cached_property
    def _entries(self) -> dict[bytes, FloatArray]:
        return {}

    def quadratic_form(self, S: Operator) -> FloatArray:
        if isinstance(S, SquaredLaplacian):
            smoothed = drop_negligible(sparse_product(S.root, self.features))
            return product(smoothed.T, smoothed)
        if not sp.issparse(S):
            return product(self.features.T, drop_negligible(sparse_product(S, self.features)))
        rows = nonempty_rows(S)
        rows = rows[np.argsort(self._first_zero[rows], kind="stable")]
        return self._symmetric(rows, drop_negligible(sparse_product(S[rows], self.features)))

    @cached_property
    def _first_zero(self) -> IntArray:
        """Column from which on a row of B is zero: B is a triangle on the landmarks."""
        first = np.full(self.n_rows, self.landmarks.size)
        first[self.landmarks] = np.arange(1, self.landmarks.size + 1)
        return first

    def _symmetric(self, rows: IntArray, smoothed: FloatArray) -> FloatArray:
        """B[rows]' smoothed, known to be symmetric; ``rows`` by their first zero.

        Half of the blocks are mirrored, and rows that are zero in a block of columns left out: a
        sixth of the operations of a product where B is a triangle, half where it is not.
        """
        c = self.landmarks.size
        ends = self._first_zero[rows]
        form = np.empty((c, c))
        for columns in gen_batches(c, max(-(-c // _STRIPS), _STRIP)) if c else ():
            first = int(np.searchsorted(ends, columns.start, side="right"))
            strip = self.features[rows[first:], columns]
            block = product(strip.T, smoothed[first:, : columns.stop])
            form[columns, : columns.stop] = block
            form[: columns.start, columns] = block[:, : columns.start].T
        return form


@dataclass(frozen=True)
class FeatureMap:
    r"""Nystrom features :math:`z(x) = R^{-1} k(\text{landmarks}, x)` of any rows.

    Features are doubles always, because small pivots of R would magnify any rounding of k.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    carriers : array or sparse matrix of shape (c, n_features)
        The landmarks themselves; a precomputed kernel needs their numbers only.
    triangle : array of shape (c, c)
        R, the lower Cholesky factor of the kernel between landmarks.
    """

    kernel: Kernel
    carriers: Rows
    triangle: FloatArray

    def __call__(self, X: Rows) -> FloatArray:
        """Features of rows, of shape (n, c)."""
        columns = self.kernel.between(X, self.carriers)
        features = solve_triangular(self.triangle, columns.T, lower=True, overwrite=True)
        return drop_negligible(np.ascontiguousarray(features.T))


@dataclass(frozen=True)
class BlockFactor:
    r"""A Nystrom factor whose features :math:`B = C R^{-\top}` are computed a block at a time.

    The products of equation (11) are of single precision within a block if ``single``, and are
    summed in double precision: decisions change by at most 1e-7 + 2e-6 r of the largest, r the
    ratio of equation (3).

    Parameters
    ----------
    features : FeatureMap
        From rows to features.
    X : array or sparse matrix of shape (N, n_features)
        Rows.
    landmarks : array of shape (c,)
        Landmarks.
    block : int
        Rows of a block.
    single : bool
        Whether products of blocks are taken in single precision.
    """

    features: FeatureMap
    X: Rows
    landmarks: IntArray
    block: int
    single: bool = True

    @property
    def triangle(self) -> FloatArray:
        return self.features.triangle

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    def rows(self, rows: IntArray | slice) -> FloatArray:
        return self.features(self.X[rows])

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        for rows in gen_batches(self.n_rows, self.block):
            yield rows, self.rows(rows)

    def values(self, coef: FloatArray) -> FloatArray:
        return np.concatenate([B @ coef for _, B in self._blocks()])

    def representer(self, weights: FloatArray) -> FloatArray:
        total = np.zeros((self.landmarks.size, weights.shape[1]))
        for rows, B in self._blocks():
            total += B.T @ weights[rows]
        return total

    def squared_norms(self) -> FloatArray:
        return np.concatenate([np.einsum("ij,ij->i", B, B) for _, B in self._blocks()])

    def quadratic_form(self, S: Operator) -> FloatArray:
        """Equation (11): blocks of rows that are near each other in the graph, one by one.

        B'L^2B is (LB)'(LB).
        """
        if isinstance(S, AnchorLaplacian):
            return joined_form(*self.form_parts(S))
        if isinstance(S, DistributedLaplacian):
            raise TypeError("rows are here and the graph is elsewhere; expected both in one place.")
        L = S.root if isinstance(S, SquaredLaplacian) else S
        order = reverse_cuthill_mckee(L, symmetric_mode=True).astype(np.int64)
        order = order[np.isin(order, nonempty_rows(L))]
        total = np.zeros((self.landmarks.size, self.landmarks.size))
        for start in range(0, order.size, self.block):
            inside = np.sort(order[start : start + self.block])
            strip = L[inside]
            B = self.rows(inside)
            smoothed = strip[:, inside] @ B
            outside = np.setdiff1d(strip.indices, inside)
            for first in range(0, outside.size, self.block):
                part = outside[first : first + self.block]
                smoothed += strip[:, part] @ self.rows(part)
            drop_negligible(smoothed)
            total += self._product(B if S is L else smoothed.copy(), smoothed)
        return 0.5 * (total + total.T)

    def form_parts(self, S: AnchorLaplacian) -> tuple[FloatArray, ...]:
        """The sums over rows of which the form of an anchor graph is made."""
        return S.form_parts(self._blocks())

    def _product(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """A'B, where it may be so in single precision, scaled against overflow."""
        if not self.single:
            return product(A.T, B)
        scales = [max(float(M.max()), -float(M.min())) for M in (A, B)]
        if min(scales) == 0.0:
            return np.zeros((A.shape[1], B.shape[1]))
        parts = [
            # In place: neither block is needed afterwards.
            M.astype(np.float32)
            if _SAFE < s < 1.0 / _SAFE
            else np.divide(M, s, out=M).astype(np.float32)
            for M, s in zip((A, B), scales, strict=True)
        ]
        factor = np.prod([1.0 if _SAFE < s < 1.0 / _SAFE else s for s in scales])
        return factor * product(parts[0].T, parts[1]).astype(np.float64)


@dataclass(frozen=True)
class DistributedFactor:
    """A Nystrom factor on the rows of a dask collection: a :class:`BlockFactor` in every block.

    Products with all rows are sums over the blocks; function values stay lazy.

    Parameters
    ----------
    features : FeatureMap
        From rows to features.
    X : RowBlocks
        Rows.
    landmarks : array of shape (c,)
        Landmarks.
    block : int
        Rows whose features a worker holds at a time.
    """

    features: FeatureMap
    X: RowBlocks
    landmarks: IntArray
    block: int

    @property
    def triangle(self) -> FloatArray:
        return self.features.triangle

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    def rows(self, rows: IntArray) -> FloatArray:
        return self.features(self.X[rows])

    @property
    def _on_worker(self) -> partial[BlockFactor]:
        """From rows of a block to their factor; without X, which must not travel."""
        return partial(_factor_of_block, self.features, self.landmarks, self.block)

    def values(self, coef: FloatArray) -> Any:
        """B coef as a dask array."""
        return self.X.lazily(partial(_values, self._on_worker, coef), coef.shape[1])

    def representer(self, weights: FloatArray) -> FloatArray:
        return self.X.total(partial(_representer, self._on_worker), weights)[0]

    def squared_norms(self) -> FloatArray:
        return np.concatenate(self.X.each(partial(_squared_norms, self._on_worker)))

    def quadratic_form(self, S: Operator) -> FloatArray:
        if not isinstance(S, DistributedLaplacian):
            raise TypeError(
                f"the rows are a dask collection and the graph is a {type(S).__name__}; expected "
                "one on the same collection. Use graph='anchor'."
            )
        parts = self.X.total(partial(_form_parts, self._on_worker, S.of_block), S.kept)
        return joined_form(*parts)


def _factor_of_block(features: FeatureMap, landmarks: IntArray, block: int, X: Rows) -> BlockFactor:
    return BlockFactor(features, X, landmarks, block)


def _values(factor_of: partial[BlockFactor], coef: FloatArray, X: Rows) -> FloatArray:
    return factor_of(X).values(coef)


def _representer(
    factor_of: partial[BlockFactor], X: Rows, weights: FloatArray
) -> tuple[FloatArray]:
    return (factor_of(X).representer(weights),)


def _squared_norms(factor_of: partial[BlockFactor], X: Rows) -> FloatArray:
    return factor_of(X).squared_norms()


def _form_parts(
    factor_of: partial[BlockFactor],
    laplacian_of: partial[AnchorLaplacian],
    X: Rows,
    kept: BoolArray,
) -> tuple[FloatArray, ...]:
    return factor_of(X).form_parts(laplacian_of(X, kept))


def factor_kernel(K: FloatArray) -> KernelFactor:
    """Exact factor of a kernel matrix, which is overwritten.

    Cholesky with complete pivoting stops at the numerical rank: repeated rows drop out, and wide
    kernels, whose matrices have few eigenvalues above rounding, give few features.
    """
    n = K.shape[0]
    factor, pivots, rank = _lapack.pivoted_cholesky(K.T, overwrite=True)
    features = np.empty((n, rank))
    for i, row in enumerate(pivots):
        features[row, : i + 1] = factor[i, : min(i + 1, rank)]
        features[row, i + 1 :] = 0.0
    return KernelFactor(drop_negligible(features), pivots[:rank])


def factor_nystrom(columns: FloatArray, landmarks: IntArray) -> KernelFactor:
    r"""Nystrom factor :math:`C P^+ C' = B B'` from kernel columns C of shape (N, c)."""
    lower, kept = pivoted_cholesky(columns[landmarks])
    features = solve_triangular(lower, columns[:, kept].T, lower=True).T
    features = np.ascontiguousarray(features)
    features[landmarks[kept]] = lower
    return KernelFactor(drop_negligible(features), landmarks[kept])


def factor_nystrom_in_blocks(
    kernel: Kernel,
    X: Rows,
    P: FloatArray,
    landmarks: IntArray,
    block: int,
    *,
    single: bool = True,
) -> BlockFactor | DistributedFactor:
    """The factor of :func:`factor_nystrom`, of which only P, kernel between landmarks, is held."""
    lower, kept = pivoted_cholesky(P)
    landmarks = landmarks[kept]
    carriers = landmarks if kernel.name == "precomputed" else X[landmarks]
    features = FeatureMap(kernel, carriers, lower)
    if isinstance(X, RowBlocks):
        return DistributedFactor(features, X, landmarks, block)
    return BlockFactor(features, X, landmarks, block, single)


def pivoted_cholesky(P: FloatArray) -> tuple[FloatArray, IntArray]:
    """Lower triangle R of P[kept][:, kept] = R R', ``kept`` the numerically independent rows."""
    factor, pivots, rank = _lapack.pivoted_cholesky(P, overwrite=False)
    return np.tril(factor[:rank, :rank]), pivots[:rank]

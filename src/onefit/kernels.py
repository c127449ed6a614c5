r"""Kernel matrices, and the width that suits the data.

The Gaussian kernel is parametrised as in the paper,

.. math:: \kappa(x, x') = \exp\left(-\frac{\lVert x - x' \rVert^2}{2\sigma}\right),

so that ``sigma`` has the unit of a squared distance. Every other name goes to
:func:`sklearn.metrics.pairwise.pairwise_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from sklearn.metrics.pairwise import (
    PAIRWISE_KERNEL_FUNCTIONS,
    euclidean_distances,
    pairwise_kernels,
)
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms

from onefit._lapack import cho_factor, eigh, product
from onefit._typing import FloatArray, GraphWidth, IntArray, Rows

__all__ = ["Kernel", "check_positive_semidefinite", "median_squared_distance", "squared_distances"]

#: Kernels whose matrices are positive semi-definite for all data: no need to look.
_ALWAYS_PSD = frozenset({"gaussian", "rbf", "linear", "laplacian", "cosine", "chi2"})
#: Widths of a graph by name, as multiples of the median squared distance to a neighbour.
GRAPH_WIDTHS: dict[str, float] = {"median": 1.0, "wide": 4.0}
_MEDIAN_SAMPLE = 1000
_BLOCK = 256
#: Numbers in a block of differences.
_PAIRS = 2**20
#: Squared distances below this times their rounding have too few digits for a wide kernel.
_FEW_DIGITS = 1e8
_NEGLIGIBLE = 1e-100
_MATRIX_EXPECTED = (
    "Expected k(X, Y) to return the kernel matrix of shape {shape}; a function of two single rows "
    "is wrapped by functools.partial(sklearn.metrics.pairwise.pairwise_kernels, metric=function)."
)
#: Relative size of violations that are rounding errors of a matrix in single precision.
_SINGLE_ROUNDING = 1e-6


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters fixed.

    Parameters
    ----------
    name : str or callable
        ``"gaussian"``, ``"precomputed"``, a name of
        :func:`~sklearn.metrics.pairwise.pairwise_kernels`, or a callable ``k(X, Y)`` that returns
        the matrix of shape ``(len(X), len(Y))``.
    width : float
        sigma of the Gaussian kernel; other kernels do not use it.
    params : mapping
        Keyword arguments of any other kernel.
    """

    name: str | Callable[..., Any] = "gaussian"
    width: float = 1.0
    params: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, X: Rows, Y: Rows | None = None) -> FloatArray:
        """Kernel matrix between the rows of ``X`` and of ``Y`` (``X`` itself when None)."""
        if self.name == "gaussian":
            return self.from_squared_distances(squared_distances(X, Y))
        if callable(self.name):
            return self._by_callable(X, X if Y is None else Y)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                K = pairwise_kernels(X, Y, metric=self.name, **self.params)
        except TypeError as error:
            raise TypeError(
                f"kernel={self.name!r} with kernel_params={dict(self.params)!r}: {error}. Expected "
                f"the keyword arguments of sklearn.metrics.pairwise.{self.name}_kernel."
            ) from error
        except ValueError as error:
            raise ValueError(
                f"kernel={self.name!r}: {str(error).rstrip('.')}. Use another kernel, or rows that "
                "it is defined for."
            ) from error
        K = np.asarray(K, dtype=np.float64, order="C")
        return _checked_finite(K, f"kernel={self.name!r} with kernel_params={dict(self.params)!r}")

    def _by_callable(self, X: Rows, Y: Rows) -> FloatArray:
        shape = (X.shape[0], Y.shape[0])
        try:
            K = self.name(X, Y, **self.params)  # type: ignore[operator]
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"the kernel callable failed on arrays of {shape[0]} and {shape[1]} rows: {error}. "
                + _MATRIX_EXPECTED.format(shape=shape)
            ) from error
        return _checked_matrix(K, shape)

    def from_squared_distances(self, squared: FloatArray) -> FloatArray:
        """Gaussian kernel of given squared distances, written over them."""
        return gaussian_decay(squared, self.width)

    def columns(self, X: Rows, rows: IntArray) -> FloatArray:
        """Kernel between all rows and some of them (``X`` is the matrix when precomputed)."""
        return self.between(X, rows if self.name == "precomputed" else X[rows])

    def between(self, X: Rows, carriers: Rows) -> FloatArray:
        """Kernel between rows and carriers; of a precomputed kernel these are row numbers."""
        if self.name == "precomputed":
            return np.asarray(X[:, carriers], dtype=np.float64)
        return self(X, carriers)

    def diagonal(self, X: Rows) -> FloatArray:
        """``k(x, x)`` of every row, in blocks: the matrix is never formed."""
        if self.name == "precomputed":
            diagonal = np.diagonal(X).copy()
        else:
            blocks = gen_batches(X.shape[0], _BLOCK)
            diagonal = np.concatenate([np.diagonal(self(X[block])) for block in blocks])
        if diagonal.min(initial=0.0) < 0.0:
            raise ValueError(_not_psd(f"kernel={self.name!r}", "diagonal entry", diagonal.min()))
        return diagonal

    @property
    def is_always_psd(self) -> bool:
        """Whether the matrix is positive semi-definite whatever the data."""
        if not isinstance(self.name, str) or self.name not in _ALWAYS_PSD:
            return False
        gamma = self.params.get("gamma")
        return gamma is None or gamma > 0


def kernel_names() -> list[str]:
    """Names that ``kernel=`` accepts."""
    return sorted({"gaussian", "precomputed", *PAIRWISE_KERNEL_FUNCTIONS})


def drop_negligible(A: FloatArray) -> FloatArray:
    """Set entries below 1e-100 to 0, in place.

    They change nothing, but their products are subnormal numbers, on which processors are slow.
    """
    for start in range(0, A.shape[0], _BLOCK):
        rows = A[start : start + _BLOCK]
        rows[np.abs(rows) < _NEGLIGIBLE] = 0.0
    return A


def gaussian_decay(squared: FloatArray, width: float) -> FloatArray:
    r""":math:`\exp(-d^2 / (2\sigma))` of squared distances, written over them."""
    with np.errstate(over="ignore"):
        squared *= max(-0.5 / width, -np.finfo(np.float64).max)
    return np.exp(squared, out=squared)


def squared_distances(X: Rows, Y: Rows | None = None) -> FloatArray:
    r"""Matrix of :math:`\lVert x_i - y_j \rVert^2`, computed in one buffer.

    Dense rows are centred at the median of ``Y`` first: distances do not change, and the
    cancellation in :math:`\lVert x \rVert^2 - 2 x'y + \lVert y \rVert^2` grows neither with an
    offset of the data nor with a few rows far away. Rows that the formula leaves few digits of,
    near each other and far from the centre, are subtracted instead; equal rows have distance 0. Of
    sparse rows, what is below the rounding of the formula is set to 0.
    """
    to_itself = Y is None
    Y = X if Y is None else Y
    if sp.issparse(X) or sp.issparse(Y):
        D = np.asarray(euclidean_distances(X, Y, squared=True), dtype=np.float64)
        D[_rounding(row_norms(X, squared=True), X) >= D] = 0.0
    else:
        centre = np.median(Y, axis=0)
        B = Y - centre
        A = B if to_itself else X - centre
        a2, b2 = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B)
        # One product yields -2 x'y + ||x||^2 + ||y||^2: the norms ride along as two more columns.
        left = np.column_stack([-2.0 * A, a2, np.ones_like(a2)])
        right = np.column_stack([B, np.ones_like(b2), b2]).T
        D = product(left, right)
        _subtract_near_rows(D, X, Y, _FEW_DIGITS * _rounding(a2, X), to_itself)
    if to_itself:
        np.fill_diagonal(D, 0.0)
    return D


def _rounding(norms: FloatArray, X: Rows) -> FloatArray:
    """Error of squared distances of rows with these squared norms, of shape (N, 1)."""
    return (X.shape[1] + 8) * np.finfo(np.float64).eps * norms[:, None]


def _subtract_near_rows(
    D: FloatArray, X: FloatArray, Y: FloatArray, limits: FloatArray, to_itself: bool
) -> None:
    """Write squared distances below ``limits`` to D again, digit for digit; 0 of equal rows."""
    numbers: tuple[IntArray, IntArray] | None = None
    step = max(1, _PAIRS // X.shape[1])
    for rows in gen_batches(D.shape[0], _BLOCK):
        i, j = np.nonzero(D[rows] < limits[rows])
        i += rows.start
        if to_itself:
            i, j = i[i < j], j[i < j]
        if not i.size:
            continue
        numbers = _numbers_of_rows(X, Y) if numbers is None else numbers
        is_same = numbers[0][i] == numbers[1][j]
        squares = np.zeros(i.size)
        different = np.flatnonzero(~is_same)
        for start in range(0, different.size, step):
            some = different[start : start + step]
            difference = X[i[some]] - Y[j[some]]
            squares[some] = np.einsum("ij,ij->i", difference, difference)
        D[i, j] = squares
        if to_itself:
            D[j, i] = squares


def _numbers_of_rows(X: FloatArray, Y: FloatArray) -> tuple[IntArray, IntArray]:
    """Numbers of the rows of X and Y by which equal ones are known."""
    known: dict[bytes, int] = {}

    def numbered(rows: FloatArray) -> IntArray:
        # -0.0 is another number of bits than 0.0.
        keys = (row.tobytes() for row in rows + 0.0)
        return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)

    numbers = numbered(X)
    return numbers, numbers if X is Y else numbered(Y)


def evenly_spaced_rows(n_rows: int, n_wanted: int) -> IntArray:
    """At most ``n_wanted`` row numbers spread over ``range(n_rows)``."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, n_wanted)).astype(np.intp))


def median_squared_distance(X: Rows) -> float:
    """Median of the squared distances between different rows: the "median" kernel width.

    Uses at most 1,000 evenly spaced rows. Data without two different rows gives 1.
    """
    rows = evenly_spaced_rows(X.shape[0], _MEDIAN_SAMPLE)
    D = squared_distances(X[rows])
    return typical_scale(D[np.triu_indices_from(D, k=1)])


def typical_scale(squared: FloatArray) -> float:
    """Median of the positive entries; 1 where there is none."""
    positive = squared[squared > 0]
    return float(np.median(positive)) if positive.size else 1.0


def graph_scale(width: float | GraphWidth, squared: FloatArray) -> float:
    """sigma_w from squared distances to neighbours, where a word stands for it."""
    if isinstance(width, str):
        return GRAPH_WIDTHS[width] * typical_scale(squared)
    return float(width)


def check_positive_semidefinite(K: FloatArray, what: str) -> FloatArray:
    """``K``, if it is symmetric and positive semi-definite; ValueError if it is not.

    Violations below the rounding of single precision are forgiven, and mended: the matrix returned
    is then the nearest one that is symmetric and positive semi-definite.
    """
    n = K.shape[0]
    scale = float(np.abs(K).max(initial=0.0)) or 1.0
    asymmetry = float(np.abs(K - K.T).max(initial=0.0))
    if asymmetry > _SINGLE_ROUNDING * scale:
        raise ValueError(
            f"{what} gave a matrix that is not symmetric (largest difference {asymmetry:.3g}); "
            "expected k(x, y) == k(y, x). Symmetrise it, or use another kernel."
        )
    K = 0.5 * (K + K.T) if asymmetry > 0.0 else K
    shifted = K + (n * np.finfo(np.float64).eps * scale) * np.eye(n)
    try:
        cho_factor(shifted)
    except sl.LinAlgError:
        eigenvalues, vectors = eigh(K)
        if eigenvalues[0] < -_SINGLE_ROUNDING * max(eigenvalues[-1], 0.0):
            raise ValueError(_not_psd(what, "eigenvalue", eigenvalues[0])) from None
        return product(vectors * np.maximum(eigenvalues, 0.0), vectors.T)
    return K


def _not_psd(what: str, quantity: str, smallest: float) -> str:
    return (
        f"{what} gave a matrix that is not positive semi-definite (smallest {quantity} "
        f"{smallest:.3g}); manifold regularisation needs a positive semi-definite kernel. "
        "Use another kernel or other kernel_params, or clip the negative eigenvalues of a "
        "precomputed matrix."
    )


def _checked_matrix(K: Any, shape: tuple[int, int]) -> FloatArray:
    K = np.asarray(K.toarray() if hasattr(K, "toarray") else K, dtype=np.float64)
    if K.shape != shape:
        raise ValueError(
            f"the kernel callable returned an array of shape {K.shape}. "
            + _MATRIX_EXPECTED.format(shape=shape)
        )
    return _checked_finite(K, "the kernel callable")


def _checked_finite(K: FloatArray, what: str) -> FloatArray:
    if not np.isfinite(K).all():
        raise ValueError(
            f"{what} returned NaN or infinity; expected finite values. Rescale X, or use another "
            "kernel or other kernel_params."
        )
    return K

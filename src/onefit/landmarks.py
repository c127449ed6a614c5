"""Which rows carry the Nystrom approximation.

Rules that look at distances or at the kernel do so on a sample of the rows when there are very
many: the cost of choosing then does not grow with N. No rule knows which rows have labels: a
held-out label on a landmark would be predicted better than one on another row.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.linalg as sl
from sklearn.cluster import kmeans_plusplus

from onefit._typing import BoolArray, FloatArray, IntArray, Rows
from onefit.kernels import Kernel

__all__ = [
    "LANDMARK_RULES",
    "kmeans_sample",
    "randomly_pivoted_cholesky",
    "uniform",
]

#: Rules that need more than row numbers see this many rows for each landmark, and not fewer than
#: the second number.
_ROWS_PER_LANDMARK = 10
_SMALLEST_SAMPLE = 10_000
#: Most pivots drawn at a time.
_MOST_PIVOTS = 100


class LandmarkRule(Protocol):
    """Chooses ``n_landmarks`` rows; sorted."""

    def __call__(
        self, kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState
    ) -> IntArray: ...


def uniform(kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState) -> IntArray:
    """Rows drawn uniformly without replacement, as in the paper."""
    return np.sort(rng.permutation(X.shape[0])[:n_landmarks])


def kmeans_sample(
    kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState
) -> IntArray:
    """Rows that k-means++ would start from: far from each other, on a sample of the rows.

    Repeated rows are chosen once, so that there may be fewer landmarks than asked for.
    """
    sample = _sample(X.shape[0], n_landmarks, rng)
    _, chosen = kmeans_plusplus(X[sample], n_landmarks, random_state=rng)
    return np.unique(sample[chosen])


def randomly_pivoted_cholesky(
    kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState
) -> IntArray:
    r"""Rows drawn one after the other, each in proportion to what the others leave unexplained.

    The residual diagonal :math:`d_i = k(x_i, x_i) - \lVert F_i \rVert^2` of the partial Cholesky
    factor F is the probability of the next row. Pivots are proposed in blocks and accepted with
    the probability by which the accepted ones before them have lowered their residual, which
    gives the same distribution as one by one. Costs :math:`O(n c^2)` and n x c memory on a sample
    of n rows; stops early when nothing is left to explain.

    References
    ----------
    Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky: practical approximation of a kernel
    matrix with few entry evaluations", Comm. Pure Appl. Math., 2025.

    Epperly, Tropp, Webber, "Embrace rejection: kernel matrix approximation by accelerated randomly
    pivoted Cholesky", arXiv:2410.03969, 2024.
    """
    sample = _sample(X.shape[0], n_landmarks, rng)
    rows = X[np.ix_(sample, sample)] if kernel.name == "precomputed" else X[sample]
    return np.sort(sample[_pivots(kernel, rows, n_landmarks, rng)])


def _pivots(kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState) -> IntArray:
    """Pivots on these rows, in the order in which they are drawn."""
    residual = kernel.diagonal(X)
    explained_at = 1e-12 * residual.max()
    factor: FloatArray = np.empty((residual.size, n_landmarks))
    chosen: IntArray = np.empty(0, dtype=np.intp)
    block = max(1, min(_MOST_PIVOTS, n_landmarks // 10))
    while chosen.size < n_landmarks and residual.max() > explained_at:
        c = chosen.size
        proposed = rng.choice(residual.size, size=block, p=residual / residual.sum())
        threshold = rng.uniform(size=block) * residual[proposed]
        threshold[0] = 0.0
        columns = kernel.columns(X, proposed) - factor[:, :c] @ factor[proposed, :c].T
        lower, kept = _accepted(columns[proposed], threshold, n_landmarks - c)
        pivots = proposed[kept]
        fresh = sl.solve_triangular(lower, columns[:, kept].T, lower=True).T
        factor[:, c : c + pivots.size] = fresh
        residual = np.maximum(residual - np.einsum("ij,ij->i", fresh, fresh), 0.0)
        residual[pivots] = 0.0
        residual[proposed[0]] = 0.0  # where rounding rejected it, it would be proposed for ever
        chosen = np.concatenate([chosen, pivots])
    return chosen


def _accepted(H: FloatArray, threshold: FloatArray, most: int) -> tuple[FloatArray, BoolArray]:
    """Cholesky factor of those pivots, in turn, whose residual exceeds its threshold."""
    H = H.copy()
    kept = np.zeros(H.shape[0], dtype=bool)
    columns: list[FloatArray] = []
    for i in range(H.shape[0]):
        if H[i, i] <= threshold[i] or len(columns) == most:
            continue
        kept[i] = True
        columns.append(H[:, i] / np.sqrt(H[i, i]))
        H -= np.outer(columns[-1], columns[-1])
    lower = np.array(columns).reshape(-1, H.shape[0]).T[kept]
    return np.tril(lower), kept


def _sample(n_rows: int, n_landmarks: int, rng: np.random.RandomState) -> IntArray:
    """Rows to choose from."""
    size = max(_SMALLEST_SAMPLE, _ROWS_PER_LANDMARK * n_landmarks)
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size=size, replace=False))


LANDMARK_RULES: dict[str, LandmarkRule] = {
    "uniform": uniform,
    "kmeans++": kmeans_sample,
    "rpcholesky": randomly_pivoted_cholesky,
}

"""Which rows carry the Nystrom approximation.

Every rule takes rows that are landmarks already (``given``) and adds others to them. Rules that
look at distances or at the kernel do so on a sample of the rows when there are very many: the cost
of choosing then does not grow with N.
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
    "choose_landmarks",
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
_NONE: IntArray = np.empty(0, dtype=np.intp)


class LandmarkRule(Protocol):
    """Chooses ``n_landmarks`` rows, those ``given`` among them; sorted."""

    def __call__(
        self,
        kernel: Kernel,
        X: Rows,
        n_landmarks: int,
        rng: np.random.RandomState,
        given: IntArray = ...,
    ) -> IntArray: ...


def choose_landmarks(
    rule: str,
    kernel: Kernel,
    X: Rows,
    n_landmarks: int,
    labelled: IntArray,
    rng: np.random.RandomState,
) -> IntArray:
    """Landmarks by a rule, with labelled rows for up to half of them.

    With a small manifold penalty the solution lies in the span of the kernel functions of the
    labelled rows: there the approximation is exact if they are landmarks. Where there are more of
    them than half of the landmarks, some are drawn at random.

    Parameters
    ----------
    rule : str
        A name of ``LANDMARK_RULES``.
    kernel, X
        Kernel and rows.
    n_landmarks : int
        How many.
    labelled : array of shape (l,)
        Numbers of the labelled rows.
    rng : RandomState
        Where randomness comes from.
    """
    half = n_landmarks // 2
    given = labelled if labelled.size <= half else rng.permutation(labelled)[:half]
    return LANDMARK_RULES[rule](kernel, X, n_landmarks, rng, given)


def uniform(
    kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState, given: IntArray = _NONE
) -> IntArray:
    """Rows drawn uniformly without replacement, as in the paper."""
    rows = rng.permutation(X.shape[0])
    if given.size:
        rows = np.concatenate([given, rows[~np.isin(rows, given)]])
    return np.sort(rows[:n_landmarks])


def kmeans_sample(
    kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState, given: IntArray = _NONE
) -> IntArray:
    """Rows that k-means++ would start from: far from each other, on a sample of the rows.

    Repeated rows are chosen once, so that there may be fewer landmarks than asked for.
    """
    sample = _sample(X.shape[0], n_landmarks, rng, given)
    others = sample[given.size :]
    wanted = n_landmarks - given.size
    _, chosen = kmeans_plusplus(X[others], wanted, random_state=rng)
    return np.unique(np.concatenate([given, others[chosen]]))


def randomly_pivoted_cholesky(
    kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState, given: IntArray = _NONE
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
    sample = _sample(X.shape[0], n_landmarks, rng, given)
    rows = X[np.ix_(sample, sample)] if kernel.name == "precomputed" else X[sample]
    first = np.arange(given.size)
    return np.sort(sample[_pivots(kernel, rows, n_landmarks, rng, first)])


def _pivots(
    kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState, first: IntArray
) -> IntArray:
    """Pivots on these rows, beginning with those that are independent among ``first``."""
    residual = kernel.diagonal(X)
    explained_at = 1e-12 * residual.max()
    factor: FloatArray = np.empty((residual.size, n_landmarks))
    chosen = _NONE
    block = max(1, min(_MOST_PIVOTS, n_landmarks // 10))
    while chosen.size < n_landmarks and residual.max() > explained_at:
        c = chosen.size
        if first.size:
            proposed, first = first[:block], first[block:]
            threshold = np.full(proposed.size, explained_at)
        else:
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


def _sample(n_rows: int, n_landmarks: int, rng: np.random.RandomState, given: IntArray) -> IntArray:
    """Rows to choose from: those given first, then others drawn uniformly."""
    size = max(_SMALLEST_SAMPLE, _ROWS_PER_LANDMARK * n_landmarks)
    if n_rows <= size:
        others = np.arange(n_rows)
    else:
        others = np.sort(rng.choice(n_rows, size=size, replace=False))
    return np.concatenate([given, others[~np.isin(others, given)]]) if given.size else others


LANDMARK_RULES: dict[str, LandmarkRule] = {
    "uniform": uniform,
    "kmeans++": kmeans_sample,
    "rpcholesky": randomly_pivoted_cholesky,
}

"""Which rows carry the Nystrom approximation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onefit._typing import FloatArray, IntArray, Rows
from onefit.kernels import Kernel

__all__ = ["LANDMARK_RULES", "randomly_pivoted_cholesky", "uniform"]


def uniform(kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState) -> IntArray:
    """Rows drawn uniformly without replacement, as in the paper."""
    return np.sort(rng.permutation(X.shape[0])[:n_landmarks])


def randomly_pivoted_cholesky(
    kernel: Kernel, X: Rows, n_landmarks: int, rng: np.random.RandomState
) -> IntArray:
    r"""Rows drawn one after the other, each in proportion to what the others leave unexplained.

    The residual diagonal :math:`d_i = k(x_i, x_i) - \lVert F_i \rVert^2` of the partial Cholesky
    factor F is the probability of the next row. Costs :math:`O(N c^2)` and N x c memory; stops
    early when nothing is left to explain.

    References
    ----------
    Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky: practical approximation of a kernel
    matrix with few entry evaluations", Comm. Pure Appl. Math., 2025.
    """
    residual = kernel.diagonal(X)
    explained_at = 1e-12 * residual.max()
    factor: FloatArray = np.empty((X.shape[0], n_landmarks))
    chosen: list[int] = []
    while len(chosen) < n_landmarks and residual.max() > explained_at:
        c = len(chosen)
        pivot = int(rng.choice(residual.size, p=residual / residual.sum()))
        column = kernel.columns(X, np.array([pivot]))[:, 0] - factor[:, :c] @ factor[pivot, :c]
        factor[:, c] = column / np.sqrt(column[pivot])
        residual = np.maximum(residual - np.square(factor[:, c]), 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return np.sort(np.array(chosen, dtype=np.intp))


LANDMARK_RULES: dict[str, Callable[[Kernel, Rows, int, np.random.RandomState], IntArray]] = {
    "uniform": uniform,
    "rpcholesky": randomly_pivoted_cholesky,
}

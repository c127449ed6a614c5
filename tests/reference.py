"""A dense reference written from the objective alone, and the real data for the tests.

    J(alpha, b) = sum_i v_i loss(y_i, f_i) + gamma_A alpha' K alpha + gamma_I / N^2 g' L g,
    g = K alpha,  f = g + b.

Nothing here is imported from onefit but its reader of data files, and nothing is fast: kernels by
explicit differences, graphs by loops, one Newton method with backtracking in an eigenbasis of K for
all losses.

The kernel matrix of a wide Gaussian is singular to rounding, so alpha is not a good unknown. With
K = B B' and g = B w the objective is

    J(w, b) = sum_i v_i loss(y_i, f_i) + gamma_A w'w + gamma_I / N^2 w' B'LB w,

strongly convex in w however singular K is. Rows at which f is wanted although they are neither
labelled nor in the graph are simply further rows of B: by the representer theorem they change
nothing, and no coefficient alpha is needed to predict them.
"""

import os
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse

from onefit.datasets import load_libsvm_data

# --- kernel and graph ---------------------------------------------------------------------------


def squared_distances(X, Y):
    return np.array([((x - Y) ** 2).sum(axis=1) for x in X])


def gaussian_kernel(X, Y, sigma):
    return np.exp(-squared_distances(X, Y) / (2.0 * sigma))


def knn_distances(X, k):
    """Squared distances to the k nearest other rows, nearest first."""
    D = squared_distances(X, X)
    return np.array([sorted(np.delete(D[i], i))[:k] for i in range(len(X))])


def knn_affinity(X, k, sigma_w=None):
    """Symmetric k-nearest-neighbour affinity; heat weights, or 0/1 where sigma_w is None.

    Raises where the neighbours are not unique, because another program may then choose others.
    """
    n = len(X)
    D = squared_distances(X, X)
    W = np.zeros((n, n))
    for i in range(n):
        order = sorted((D[i, j], j) for j in range(n) if j != i)
        if k < n - 1 and order[k][0] - order[k - 1][0] <= 1e-9 * order[k][0]:
            raise ValueError(f"row {i} has no unique {k} nearest neighbours; take another sample")
        for distance, j in order[:k]:
            W[i, j] = W[j, i] = 1.0 if sigma_w is None else np.exp(-distance / (2.0 * sigma_w))
    return W


def laplacian(W, *, normalized=False, power=1):
    """D - W, or I - D^-1/2 W D^-1/2; a row without edges is zero in both."""
    degree = W.sum(axis=1)
    L = np.diag(degree) - W
    if normalized:
        root = np.array([d**-0.5 if d > 0 else 0.0 for d in degree])
        L = root[:, None] * L * root
    return np.linalg.matrix_power(L, power)


# --- losses -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Square:
    def __call__(self, y, f):
        return (f - y) ** 2

    def first(self, y, f):
        return 2.0 * (f - y)

    def second(self, y, f):
        return 2.0 + 0.0 * f


@dataclass(frozen=True)
class HuberizedHinge:
    h: float = 0.01

    def pieces(self, y, f):
        return [y * f > 1 + self.h, y * f < 1 - self.h]

    def __call__(self, y, f):
        band = (1 + self.h - y * f) ** 2 / (4 * self.h)
        return np.select(self.pieces(y, f), [0.0, 1 - y * f], band)

    def first(self, y, f):
        return np.select(self.pieces(y, f), [0.0, -y], -y * (1 + self.h - y * f) / (2 * self.h))

    def second(self, y, f):
        return np.select(self.pieces(y, f), [0.0, 0.0], 1 / (2 * self.h))


@dataclass(frozen=True)
class SquaredHinge:
    def __call__(self, y, f):
        return np.where(y * f < 1, (1 - y * f) ** 2, 0.0)

    def first(self, y, f):
        return np.where(y * f < 1, -2 * y * (1 - y * f), 0.0)

    def second(self, y, f):
        return np.where(y * f < 1, 2.0, 0.0)


@dataclass(frozen=True)
class Logistic:
    def __call__(self, y, f):
        return np.logaddexp(0.0, -y * f)

    def first(self, y, f):
        # 1 / (1 + e^m), written so that nothing overflows.
        return -y * np.exp(-np.logaddexp(0.0, y * f))

    def second(self, y, f):
        return np.exp(-np.logaddexp(0.0, f) - np.logaddexp(0.0, -f))


# --- the objective and its minimiser ------------------------------------------------------------


@dataclass(frozen=True)
class Objective:
    """J. Rows are the N rows of the graph; ``labelled`` are the numbers of those with a label."""

    L: np.ndarray
    labelled: np.ndarray
    y: np.ndarray
    v: np.ndarray
    loss: object
    gamma_A: float
    gamma_I: float
    intercept: bool = False

    @property
    def scale(self):
        return self.gamma_I / len(self.L) ** 2

    def value(self, K, alpha, b=0.0):
        g = K @ alpha
        f = g[self.labelled] + b
        smooth = g @ self.L @ g
        return self.v @ self.loss(self.y, f) + self.gamma_A * (alpha @ g) + self.scale * smooth

    def gradient(self, K, alpha, b=0.0):
        """Norm of the gradient of J in the RKHS (and in b, where f has an intercept).

        The gradient in the RKHS is the function with the kernel weights
        v loss' + 2 gamma_A alpha + 2 gamma_I / N^2 L g. Many at once: alpha has a row for each,
        and b, the penalties and whether there is an intercept are arrays.
        """
        g = alpha @ K
        slope = self.v * self.loss.first(self.y, g[..., self.labelled] + np.asarray(b)[..., None])
        weights = 2.0 * np.asarray(self.gamma_A)[..., None] * alpha
        weights += 2.0 * np.asarray(self.scale)[..., None] * (g @ self.L)
        weights[..., self.labelled] += slope
        squared = np.sum(weights @ K * weights, axis=-1)
        squared += self.intercept * slope.sum(axis=-1) ** 2
        return np.sqrt(np.maximum(squared, 0.0))


def features(K):
    """B with K = B B', without the eigenvalues that are rounding."""
    eigenvalues, vectors = np.linalg.eigh(0.5 * (K + K.T))
    kept = eigenvalues > np.finfo(float).eps * eigenvalues[-1]
    return vectors[:, kept] * np.sqrt(eigenvalues[kept])


def minimize(objective, B):
    """Values of the minimiser on all rows of B, its intercept included.

    The first N rows of B are those of the objective; the others are where f is wanted too.
    """
    f, _ = minimize_with_intercept(objective, B)
    return f


def minimize_with_intercept(objective, B):
    problem = _InFeatures(objective, B)
    w = problem.start()
    for _ in range(1000):
        gradient = problem.gradient(w)
        direction = -scipy.linalg.solve(problem.hessian(w), gradient, assume_a="pos")
        f, change = B @ w[:-1] + w[-1], B @ direction[:-1] + direction[-1]
        if np.abs(change).max() <= 1e-9 * np.abs(f).max():
            return f + change, w[-1] + direction[-1]
        w = w + _backtrack(problem, w, direction, gradient @ direction) * direction
    raise AssertionError("the reference did not converge")


def _backtrack(problem, w, direction, slope):
    """Armijo's rule, with room for the rounding of J."""
    value, t = problem.value(w), 1.0
    while problem.value(w + t * direction) > value * (1.0 + 1e-14) + 1e-4 * t * slope:
        t *= 0.5
    return t


class _InFeatures:
    """J as a function of (w, b); b stays 0 without an intercept."""

    def __init__(self, objective, B):
        self.objective = objective
        rows = B[: len(objective.L)]
        self.labelled = np.column_stack([rows[objective.labelled], np.ones(len(objective.y))])
        self.penalty = np.zeros((B.shape[1] + 1, B.shape[1] + 1))
        self.penalty[:-1, :-1] = objective.gamma_A * np.eye(B.shape[1])
        self.penalty[:-1, :-1] += objective.scale * (rows.T @ objective.L @ rows)
        if not objective.intercept:
            self.labelled[:, -1] = 0.0
            self.penalty[-1, -1] = 1.0  # decouples b, and keeps it at 0

    def start(self):
        """The optimum for the square loss."""
        v, y = self.objective.v, self.objective.y
        H = (self.labelled.T * v) @ self.labelled + self.penalty
        return scipy.linalg.solve(H, self.labelled.T @ (v * y), assume_a="pos")

    def value(self, w):
        objective = self.objective
        return objective.v @ objective.loss(objective.y, self.labelled @ w) + w @ self.penalty @ w

    def gradient(self, w):
        objective = self.objective
        slope = objective.v * objective.loss.first(objective.y, self.labelled @ w)
        return self.labelled.T @ slope + 2.0 * self.penalty @ w

    def hessian(self, w):
        objective = self.objective
        curvature = objective.v * objective.loss.second(objective.y, self.labelled @ w)
        H = (self.labelled.T * curvature) @ self.labelled + 2.0 * self.penalty
        if objective.intercept:
            H[-1, -1] += 1e-8  # where no label has curvature, b has none
        return H


# --- data ---------------------------------------------------------------------------------------


def real_data(name, n_rows, seed=0):
    """Rows of a file of the directory ONEFIT_DATA: standardised columns, drawn at random.

    Columns that are constant over the file are 0, classes are -1.0 and 1.0. Skips the test where
    there is no such directory.
    """
    if not os.environ.get("ONEFIT_DATA"):
        pytest.skip("needs the real data sets: set ONEFIT_DATA to their directory")
    X, y = _read_real_data(name)
    return _sample(X, y, n_rows, seed)


def bundled_data(load, n_rows, seed=0):
    """The same of a data set that scikit-learn ships, given by its loader."""
    X, y = load(return_X_y=True)
    return _sample(X, y.astype(float), n_rows, seed)


def choose_labels(y, n_labelled, seed=0):
    """Sorted random row numbers, with at least two targets on either side of the mean."""
    rng = np.random.default_rng(seed)
    while True:
        rows = np.sort(rng.choice(len(y), n_labelled, replace=False))
        _, counts = np.unique(y[rows] > np.mean(y), return_counts=True)
        if len(counts) == 2 and counts.min() > 1:
            return rows


@cache
def _read_real_data(name):
    data = load_libsvm_data(name, download_if_missing=False)
    X = data.data.toarray() if sparse.issparse(data.data) else data.data
    return X, 2.0 * data.target - 1.0 if data.task == "classification" else data.target


def _sample(X, y, n_rows, seed):
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    rows = np.random.default_rng(seed).choice(len(X), n_rows, replace=False)
    return X[rows], y[rows]

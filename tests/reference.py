"""A dense reference written from the objective alone, and the real data for the tests.

    J(alpha, b) = sum_i v_i loss(y_i, f_i) + gamma_A alpha' K alpha + gamma_I / N^2 g' L g,
    g = K alpha,  f = g + b.

Nothing here is imported from onefit, and nothing is fast: kernels by explicit differences, graphs
by loops, one Newton method with backtracking in an eigenbasis of K for all losses.

The kernel matrix of a wide Gaussian is singular to rounding, so alpha is not a good unknown. With
K = B B' and g = B w the objective is

    J(w, b) = sum_i v_i loss(y_i, f_i) + gamma_A w'w + gamma_I / N^2 w' B'LB w,

strongly convex in w however singular K is. Rows at which f is wanted although they are neither
labelled nor in the graph are simply further rows of B: by the representer theorem they change
nothing, and no coefficient alpha is needed to predict them.
"""

import io
import lzma
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_svmlight_file

# --- kernel and graph ---------------------------------------------------------------------------


def squared_distances(X, Y):
    return np.array([[((x - y) ** 2).sum() for y in Y] for x in X]).reshape(len(X), len(Y))


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

    def relative_gradient(self, K, alpha, b=0.0):
        """Norm of the gradient of J in the RKHS, as a share of the norms of its three terms.

        The gradient is the function with kernel weights v loss' + 2 gamma_A alpha + 2 gamma_I/N^2
        L g. With an intercept, the derivative in b joins in as a share of sum_i v_i |loss'_i|.
        """
        g = K @ alpha
        slope = self.v * self.loss.first(self.y, g[self.labelled] + b)
        on_rows = np.zeros(len(g))
        on_rows[self.labelled] = slope
        terms = [on_rows, 2.0 * self.gamma_A * alpha, 2.0 * self.scale * (self.L @ g)]

        def norm(weights):
            return np.sqrt(max(weights @ K @ weights, 0.0))

        share = norm(sum(terms)) / sum(norm(term) for term in terms)
        if self.intercept and np.any(slope):
            share += abs(slope.sum()) / np.abs(slope).sum()
        return share


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
        direction = problem.newton_direction(w, gradient)
        f, change = B @ w[:-1] + w[-1], B @ direction[:-1] + direction[-1]
        if np.abs(change).max() <= 1e-12 * np.abs(f).max():
            return f, w[-1]
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
        """The optimum for the square loss: two steps of Newton's method from zero."""
        objective = self.objective
        H = 2.0 * (self.labelled.T * objective.v) @ self.labelled + 2.0 * self.penalty
        return _solve(H, 2.0 * self.labelled.T @ (objective.v * objective.y))

    def value(self, w):
        objective = self.objective
        return objective.v @ objective.loss(objective.y, self.labelled @ w) + w @ self.penalty @ w

    def gradient(self, w):
        objective = self.objective
        slope = objective.v * objective.loss.first(objective.y, self.labelled @ w)
        return self.labelled.T @ slope + 2.0 * self.penalty @ w

    def newton_direction(self, w, gradient):
        objective = self.objective
        curvature = objective.v * objective.loss.second(objective.y, self.labelled @ w)
        H = (self.labelled.T * curvature) @ self.labelled + 2.0 * self.penalty
        if objective.intercept:
            H[-1, -1] += 1e-8 * objective.v.sum()  # where no label has curvature, b has none
        return -_solve(H, gradient)


def _solve(H, right):
    factor = scipy.linalg.cho_factor(H)
    solution = scipy.linalg.cho_solve(factor, right)
    return solution + scipy.linalg.cho_solve(factor, right - H @ solution)

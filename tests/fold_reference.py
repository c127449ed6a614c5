"""Folds by brute force: a dense minimiser and the folds' objectives, from the formulas alone.

Nothing of the package is used. A function is held by its values f = B w on all N rows, K = BB'; a
fold is the same objective with other weights on the labels and another matrix in the graph term,

    J(f, b) = sum_i v_i loss(y_i, f_i + b) + ambient |f|_K^2 + f' M f ,

because the representer theorem gives rows without loss and edges no weight of their own.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import bisect, brentq
from scipy.special import expit


@dataclass(frozen=True)
class Loss:
    """Value, slope and curvature as functions of (y, f)."""

    value: object
    slope: object
    curvature: object


def huberized_hinge(h):
    """The paper's rounded hinge, case by case."""

    def cases(y, f):
        m = y * f
        return [m > 1 + h, np.abs(1 - m) <= h], m

    def value(y, f):
        conditions, m = cases(y, f)
        return np.select(conditions, [0 * m, (1 + h - m) ** 2 / (4 * h)], 1 - m)

    def slope(y, f):
        conditions, m = cases(y, f)
        return np.select(conditions, [0 * m, -y * (1 + h - m) / (2 * h)], -y)

    def curvature(y, f):
        conditions, m = cases(y, f)
        return np.select(conditions, [0 * m, 0 * m + 1 / (2 * h)], 0 * m)

    return Loss(value, slope, curvature)


SQUARE = Loss(lambda y, f: (f - y) ** 2, lambda y, f: 2 * (f - y), lambda y, f: 2 + 0 * f)
SQUARED_HINGE = Loss(
    lambda y, f: np.where(y * f < 1, (1 - y * f) ** 2, 0),
    lambda y, f: np.where(y * f < 1, -2 * y * (1 - y * f), 0),
    lambda y, f: np.where(y * f < 1, 2.0, 0.0),
)
LOGISTIC = Loss(
    lambda y, f: np.logaddexp(0, -y * f),
    lambda y, f: -y * expit(-y * f),
    lambda y, f: expit(y * f) * expit(-y * f),
)


def gaussian_kernel(X, width):
    """exp(-|x - x'|^2 / (2 width)), pair by pair."""
    return np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2 * width))


def laplacian(W, *, normalized=False):
    """D - W, or I - D^-1/2 W D^-1/2 with zero rows for isolated points."""
    W = np.asarray(W, dtype=float)
    degree = W.sum(axis=1)
    if not normalized:
        return np.diag(degree) - W
    linked = degree > 0
    root = np.where(linked, 1 / np.sqrt(np.where(linked, degree, 1)), 0)
    return np.diag(linked.astype(float)) - root[:, None] * W * root


def inside(W, rows):
    """The graph with only the edges between ``rows``."""
    member = np.zeros(len(W))
    member[rows] = 1
    return member[:, None] * W * member


def deal(codes, t, seed=0):
    """(train, test) of t folds; labelled rows (codes >= 0, by class) and others are dealt apart."""
    rng = np.random.RandomState(seed)
    rows = rng.permutation(len(codes))
    labelled = rows[codes[rows] >= 0]
    labelled = labelled[np.argsort(codes[labelled], kind="stable")]
    others = rows[codes[rows] < 0]
    tests = [np.sort([*labelled[i::t], *others[i::t]]) for i in range(t)]
    return [(np.setdiff1d(rows, test), test) for test in tests]


def shares(weights, rows):
    """Weights that are zero off ``rows`` and sum to one."""
    kept = np.zeros(len(weights))
    kept[rows] = weights[rows]
    return kept / kept.sum()


@dataclass(frozen=True)
class Objective:
    """J above: ``y`` and ``v`` on all N rows; ``v`` is zero, ``y`` any number, without label."""

    K: np.ndarray
    y: np.ndarray
    v: np.ndarray
    M: np.ndarray
    ambient: float
    loss: Loss
    intercept: bool = False

    def features(self):
        """B, with a last column of ones for the intercept."""
        s, V = np.linalg.eigh(self.K)
        keep = s > 1e-14 * s.max()
        B = V[:, keep] * np.sqrt(s[keep])
        return np.column_stack([B, np.ones(len(B))]) if self.intercept else B

    def penalty(self, B):
        """Matrix P of the penalties, w'Pw; an intercept has none."""
        kernel_part = B[:, :-1] if self.intercept else B
        P = np.zeros((B.shape[1], B.shape[1]))
        d = kernel_part.shape[1]
        P[:d, :d] = self.ambient * np.eye(d) + kernel_part.T @ self.M @ kernel_part
        return P

    def gradient_and_hessian(self, B, P, w):
        f = B @ w
        g = B.T @ (self.v * self.loss.slope(self.y, f)) + 2 * P @ w
        H = (B.T * (self.v * self.loss.curvature(self.y, f))) @ B + 2 * P
        return g, H

    def slope_along(self, B, P, w, d):
        """t -> dJ(w + t d)/dt."""
        f, change = B @ w, B @ d

        def slope(t):
            label_part = (self.v * self.loss.slope(self.y, f + t * change)) @ change
            return label_part + 2 * d @ P @ (w + t * d)

        return slope


@dataclass(frozen=True)
class Solution:
    """Values on all rows without the intercept, and the intercept."""

    kernel_values: np.ndarray
    b: float

    @property
    def values(self):
        return self.kernel_values + self.b


def minimize(objective):
    """Newton's method with exact line search; fails loudly if it does not converge."""
    B = objective.features()
    P = objective.penalty(B)
    w = np.zeros(B.shape[1])
    for _ in range(400):
        g, H = objective.gradient_and_hessian(B, P, w)
        if objective.intercept and H[-1, -1] <= 1e-12:  # no curvature holds the intercept:
            H[-1, -1] = 1e-6  # push it along its slope, unless that is rounding
            g[-1] = g[-1] if abs(g[-1]) > 1e-12 else 0.0
        d = -np.linalg.solve(H, g)
        w = w + _step(objective.slope_along(B, P, w, d)) * d
        if -g @ d <= 1e-27 or np.abs(B @ d).max() <= 1e-11 * max(1.0, np.abs(B @ w).max()):
            break
    else:
        raise AssertionError("the reference did not converge")
    return _solution(objective, B, w)


def _step(slope):
    if slope(1.0) <= 1e-6 * abs(slope(0.0)):
        return 1.0
    return brentq(slope, 0.0, 1.0, xtol=1e-15) if slope(0.0) < 0 else 0.0


def newton_step(objective, start):
    """One undamped Newton step from a Solution."""
    B = objective.features()
    P = objective.penalty(B)
    kernel_part = B[:, :-1] if objective.intercept else B
    w = np.linalg.lstsq(kernel_part, start.kernel_values, rcond=None)[0]
    w = np.append(w, start.b) if objective.intercept else w
    g, H = objective.gradient_and_hessian(B, P, w)
    return _solution(objective, B, w - np.linalg.solve(H, g))


def _solution(objective, B, w):
    if not objective.intercept:
        return Solution(B @ w, 0.0)
    return Solution(B[:, :-1] @ w[:-1], float(w[-1]))


def optimal_intercepts(objective, kernel_values, reach=1e3):
    """Ends of the interval of optimal intercepts; a point unless the loss is flat there."""
    rows = np.flatnonzero(objective.v)

    def slope(b):
        f = kernel_values[rows] + b
        return objective.v[rows] @ objective.loss.slope(objective.y[rows], f)

    low = bisect(lambda b: slope(b) + 1e-12, -reach, reach, xtol=1e-13)
    high = bisect(lambda b: slope(b) - 1e-12, -reach, reach, xtol=1e-13)
    return low, high


@dataclass(frozen=True)
class Data:
    """One semi-supervised problem in dense matrices; ``weights`` is zero off the labels."""

    K: np.ndarray
    W: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    ambient: float
    manifold: float
    loss: Loss
    intercept: bool = False
    normalized: bool = False

    @property
    def n(self):
        return len(self.K)

    def lap(self, W):
        return laplacian(W, normalized=self.normalized)

    def objective(self, v, M):
        return Objective(self.K, self.y, v, M, self.ambient, self.loss, self.intercept)

    def full(self):
        """All labels, all edges."""
        v = shares(self.weights, np.arange(self.n))
        return self.objective(v, self.manifold / self.n**2 * self.lap(self.W))

    def without(self, kept, holdout):
        """The objective of a fold that trains on the rows ``kept``."""
        v = shares(self.weights, kept)
        if holdout == "labels":
            return replace(self.full(), v=v)
        return self.objective(v, self.manifold / len(kept) ** 2 * self.lap(inside(self.W, kept)))

    def mixed(self, fold, e, path):
        """The full objective mixed with that of a fold, (1 - e) P_S + e P_{S_i}.

        ``path`` says how the graph term follows: "linear" as the paper has it, "product" with
        mass p_i p_j on the pair (i, j), "labels" not at all.
        """
        full = self.full()
        v = (1 - e) * full.v + e * shares(self.weights, fold)
        if path == "labels":
            M = full.M
        elif path == "linear":
            inner = self.manifold / len(fold) ** 2 * self.lap(inside(self.W, fold))
            M = (1 - e) * full.M + e * inner
        else:
            p = np.full(self.n, (1 - e) / self.n)
            p[fold] += e / len(fold)
            M = self.manifold * self.lap(np.outer(p, p) * self.W)
        return self.objective(v, M)


def influence(data, fold, path, step=2e-4):
    """d/de of the minimiser of ``data.mixed(fold, e, path)`` at e = 0, by central differences."""

    def at(e):
        return minimize(data.mixed(fold, e, path)).values

    # Fourth order: the error of the plain difference cancels.
    near, far = at(step) - at(-step), at(2 * step) - at(-2 * step)
    return (8 * near - far) / (12 * step)

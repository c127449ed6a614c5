"""Problems that tests of the solvers share, with dense references."""

import numpy as np
import pytest
import scipy.sparse as sp

import reference
from onefit.basis import KernelBasis, plane_basis
from onefit.factors import factor_kernel
from onefit.graphs import Graph
from onefit.losses import HuberizedHinge, Logistic, Square, SquaredHinge
from onefit.solvers.labels import evaluate
from onefit.solvers.points import FoldColumn, FoldsState, FoldSystems

LOSSES = {
    "square": (Square(), reference.Square()),
    "huberized_hinge": (HuberizedHinge(0.01), reference.HuberizedHinge(0.01)),
    "wide_hinge": (HuberizedHinge(0.8), reference.HuberizedHinge(0.8)),
    "squared_hinge": (SquaredHinge(), reference.SquaredHinge()),
    "logistic": (Logistic(), reference.Logistic()),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True])


class LabelProblem:
    """A random label problem: J(beta, b) = sum_i v_i loss(y_i, f_i) + beta'G beta, f = G beta + b.

    With G = B B' and w = B'beta it is an ordinary objective in w, for which ``reference`` has a
    minimiser: no graph, and gamma_A = 1.
    """

    def __init__(self, seed, n_labels=21, scale=10.0):
        rng = np.random.default_rng(seed)
        self.B = np.sqrt(scale) * rng.normal(size=(n_labels, n_labels + 3)) / n_labels**0.5
        self.G = self.B @ self.B.T
        self.y = np.where(rng.uniform(size=n_labels) < 0.4, 1.0, -1.0)
        self.v = rng.uniform(0.5, 2.0, size=n_labels)
        self.v /= self.v.sum()
        # A candidate with every third margin in the band of the narrowest hinge.
        f = rng.normal(size=n_labels)
        f[::3] = self.y[::3] * rng.uniform(0.993, 1.007, size=f[::3].size)
        self.f, self.b = f, rng.normal()
        self.Y, self.V = self.y[:, None], self.v[:, None]

    def state(self, loss, intercept):
        b = self.b if intercept else 0.0
        beta = np.linalg.solve(self.G, self.f - b)
        return evaluate(self.G, self.Y, self.V, loss, beta[:, None], np.array([b]))

    def solution(self, loss, intercept):
        """Values and intercept of the reference."""
        n = len(self.y)
        objective = reference.Objective(
            np.zeros((n, n)), np.arange(n), self.y, self.v, loss, 1.0, 0.0, intercept
        )
        return reference.minimize_with_intercept(objective, self.B)


class FoldsProblem:
    """A problem on 60 rows, 24 of them labelled, and three folds of points."""

    n, gamma_I = 60, 5.0

    def __init__(self, *, normalized=False, kind="kernel", gamma_A=1e-3):
        rng = np.random.default_rng(0)
        self.normalized, self.gamma_A = normalized, gamma_A
        self.X = rng.normal(size=(self.n, 3))
        self.W = reference.knn_affinity(self.X, 5, 1.0)
        self.graph = Graph(sp.csr_array(self.W), normalized)
        self.K = reference.gaussian_kernel(self.X, self.X, 1.0)
        self.labelled = np.sort(rng.permutation(self.n)[:24])
        self.y = np.where(self.X[self.labelled, 0] + 0.5 * rng.normal(size=24) > 0.3, 1.0, -1.0)
        self.folds = np.array_split(rng.permutation(self.n), 3)
        if kind == "kernel":
            self.basis = KernelBasis(self.K, self.graph.laplacian, self.labelled)
        else:
            factor = factor_kernel(self.K.copy())
            self.basis = plane_basis(factor, self.graph.laplacian, self.labelled)

    def kept(self, fold):
        return np.setdiff1d(np.arange(self.n), fold)

    def weights(self, fold):
        v = np.where(np.isin(self.labelled, fold), 0.0, 1.0)
        return v / v.sum()

    def systems(self, loss, intercept):
        columns = [
            FoldColumn(
                self.graph.only(self.kept(fold)).laplacian,
                self.gamma_I / (self.n - len(fold)) ** 2,
                self.weights(fold),
                self.y,
            )
            for fold in self.folds
        ]
        deformed = self.basis.deform(self.gamma_I / self.n**2 / self.gamma_A)
        gram = deformed.labelled_gram / self.gamma_A
        return FoldSystems(self.basis, deformed, gram, columns, loss, self.gamma_A, intercept)

    def random_state(self, intercept, size=1e-2):
        rng = np.random.default_rng(1)
        coef = self.basis.representer(size * rng.normal(size=(self.n, len(self.folds))))
        b = intercept * rng.uniform(0.5, 1.5, size=len(self.folds))
        return FoldsState(coef, self.basis.values(coef), b)

    def laplacian_of_fold(self, fold):
        kept = np.ix_(self.kept(fold), self.kept(fold))
        L = np.zeros((self.n, self.n))
        L[kept] = reference.laplacian(self.W[kept], normalized=self.normalized)
        return L

    def dense_direction(self, fold, loss, state, j, intercept):
        """Newton's direction for one fold: its values, in the eigenbasis of K."""
        B = reference.features(self.K)
        w = np.linalg.lstsq(B, state.kernel_values[:, j])[0]
        v, scale = self.weights(fold), self.gamma_I / (self.n - len(fold)) ** 2
        A = np.column_stack([B, np.ones(self.n)])
        rows = A[self.labelled]
        penalty = np.zeros((A.shape[1], A.shape[1]))
        penalty[:-1, :-1] = self.gamma_A * np.eye(B.shape[1])
        penalty[:-1, :-1] += scale * B.T @ self.laplacian_of_fold(fold) @ B
        f = rows @ np.append(w, state.intercept[j])
        gradient = rows.T @ (v * loss.first(self.y, f)) + 2 * penalty @ np.append(w, 0.0)
        H = (rows.T * (v * loss.second(self.y, f))) @ rows + 2 * penalty
        if not intercept:
            return A[:, :-1] @ np.linalg.solve(H[:-1, :-1], -gradient[:-1])
        return A @ np.linalg.solve(H, -gradient)

    def refit(self, fold, loss, intercept):
        """The reference on the kept rows alone; the removed rows are new rows to it."""
        kept = self.kept(fold)
        order = np.concatenate([kept, fold])
        is_kept = np.isin(self.labelled, kept)
        objective = reference.Objective(
            reference.laplacian(self.W[np.ix_(kept, kept)], normalized=self.normalized),
            np.searchsorted(kept, self.labelled[is_kept]),
            self.y[is_kept],
            np.full(is_kept.sum(), 1 / is_kept.sum()),
            loss,
            self.gamma_A,
            self.gamma_I,
            intercept,
        )
        values = np.empty(self.n)
        B = reference.features(self.K)
        values[order] = reference.minimize(objective, B[order])
        return values


every_basis = pytest.mark.parametrize("kind", ["kernel", "plane"])
both_laplacians = pytest.mark.parametrize("normalized", [False, True], ids=["D-W", "normalized"])

r"""t-BIF for whole penalty planes: the influence function on the labels alone.

With :math:`D = I + rM` the deformed metric of one ratio and :math:`\tilde K = B D^{-1} B'`, the
Hessian is :math:`H = 2\gamma_A D + B_L' F B_L`, and what (6) changes on the labels is

.. math:: B_L b_i = (2\gamma_A I + \tilde K_{LL} F)^{-1} B_L D^{-1} r_i, \qquad
          B_L D^{-1} r_i = -\tilde K_{LL}\mu_i/m - 2\,(B_L D^{-2} B_L')\beta
          - \frac{2\gamma_I}{n_i^2}\, \tilde K_{LS_i} L_{S_i} f_{S_i}.

So the l columns :math:`\tilde K_{\cdot L}` serve all folds and all ambient penalties of the ratio.

With the Nystrom Hessian of (9), :math:`\tilde H = T + 2 c\, U Y'` on function values with
:math:`Y = LU` and :math:`c = \gamma_I/N^2`, the Woodbury identity needs of a right-hand side v its
labelled values and :math:`Y'v` alone:

.. math:: b_L = x - 2c\, X_U \left(I + \frac{c}{\gamma_A}(Y'U - Y'K_{\cdot L}FX_U)\right)^{-1}
          \frac{Y'v - Y'K_{\cdot L}Fx}{2\gamma_A}, \qquad
          (K_{LL}F + 2\gamma_A I)\,[x, X_U] = [v_L, U_L].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from onefit._typing import FloatArray, IntArray, Sparse
from onefit.anchors import AnyGraph
from onefit.basis import Basis
from onefit.criteria.influence import fold_slopes, hessian_landmarks
from onefit.factors import nonempty_rows
from onefit.folds import Fold
from onefit.problem import Fit, Problem
from onefit.search.candidates import Candidate
from onefit.search.stacks import stacked_fits
from onefit.solvers.correction import label_correction
from onefit.solvers.dense import solve_dense
from onefit.solvers.hessian import nystrom_features

__all__ = [
    "FoldLaplacians",
    "LabelSpread",
    "NystromSpread",
    "fold_laplacians",
    "influence_plane",
    "joined",
    "label_influence",
    "label_spread",
    "laplacian_on",
    "nystrom_influence",
    "nystrom_spread",
]


@dataclass(frozen=True)
class FoldLaplacians:
    r"""The Laplacians :math:`L_{S_i}` of all folds, one under the other, without empty rows.

    Parameters
    ----------
    matrix : sparse array of shape (m, N)
        The rows of all of them that are not empty.
    rows : list of arrays
        Which rows of the graph these are, for every fold.
    weights : array of shape (t,)
        :math:`2 / n_i^2`.
    """

    matrix: Sparse
    rows: list[IntArray]
    weights: FloatArray

    def pulls(self, columns: FloatArray, values: FloatArray) -> FloatArray:
        r""":math:`\frac{2}{n_i^2}` columns' :math:`L_{S_i}` values for every fold, (t, l, m).

        Several folds side by side make one product, which reads the columns once.
        """
        pulled = self.matrix @ values
        n, m = len(columns), values.shape[1]
        ends = np.cumsum([0, *(rows.size for rows in self.rows)])
        result = np.empty((len(self.rows), columns.shape[1], m))
        n_together = max(1, columns.shape[1] // m)
        for first in range(0, len(self.rows), n_together):
            folds = range(len(self.rows))[first : first + n_together]
            spread = np.zeros((n, len(folds), m))
            for j, i in enumerate(folds):
                spread[self.rows[i], j] = pulled[ends[i] : ends[i + 1]]
            together = columns.T @ spread.reshape(n, -1)
            result[folds.start : folds.stop] = together.reshape(-1, len(folds), m).swapaxes(0, 1)
        return result * self.weights[:, None, None]


def joined(parts: Sequence[FoldLaplacians]) -> FoldLaplacians:
    """The folds of several, one after the other."""
    return FoldLaplacians(
        sp.csr_array(sp.vstack([part.matrix for part in parts])),
        [rows for part in parts for rows in part.rows],
        np.concatenate([part.weights for part in parts]),
    )


def laplacian_on(graph: AnyGraph, rows: IntArray) -> Sparse:
    """The Laplacian of the edges between these rows."""
    return graph.only(rows).laplacian


def fold_laplacians(
    graph: AnyGraph,
    folds: Sequence[Fold],
    laplacian_of: Callable[[AnyGraph, IntArray], Sparse] = laplacian_on,
) -> FoldLaplacians:
    """Stack the Laplacians of the rows that the folds hold out; they serve a whole plane."""
    parts, kept, weights = [], [], []
    for fold in folds:
        removed = fold.removed_rows
        L = sp.csr_array(laplacian_of(graph, removed))
        rows = nonempty_rows(L)
        parts.append(L[rows])
        kept.append(rows)
        weights.append(2.0 / removed.size**2)
    return FoldLaplacians(sp.csr_array(sp.vstack(parts)), kept, np.array(weights))


@dataclass(frozen=True)
class LabelSpread:
    r"""What the labels reach under one deformed kernel.

    Parameters
    ----------
    columns : array of shape (N, l)
        :math:`\tilde K_{\cdot L}`.
    squared : array of shape (l, l)
        :math:`B_L D^{-2} B_L'`.
    """

    columns: FloatArray
    squared: FloatArray


def label_spread(problem: Problem) -> LabelSpread:
    """Columns of the deformed kernel at the labels; they serve every ambient penalty."""
    expanded = problem.deformed.expand(np.eye(problem.n_labelled))
    return LabelSpread(problem.basis.values(expanded), expanded.T @ expanded)


def influence_plane(
    problem: Problem,
    members: Sequence[Candidate],
    folds: Sequence[Fold],
    laplacians: FoldLaplacians,
    nystrom: NystromSpread | None = None,
) -> list[FloatArray]:
    """Decisions (a, m, q) on the test labels of every fold, for the candidates of one ratio."""
    fits = [fit for part in stacked_fits([(members, problem)]) for _, fit in part]
    spread = label_spread(problem)
    if nystrom is None:
        changes = label_influence(spread, fits, folds, laplacians)
    else:
        changes = nystrom_influence(nystrom, spread, fits, folds, laplacians)
    decisions = []
    for i, fold in enumerate(folds):
        step = 1.0 / (1.0 - fold.n_folds)
        values = [
            fit.labels.values + step * change[i] for fit, change in zip(fits, changes, strict=True)
        ]
        decisions.append(np.stack(values)[:, fold.test_labels])
    return decisions


def _values(spread: LabelSpread, fits: Sequence[Fit]) -> FloatArray:
    """Values of all fits on all rows, (N, a q)."""
    betas = [fit.labels.beta / fit.problem.ambient_penalty for fit in fits]
    return spread.columns @ np.hstack(betas)


def label_influence(
    spread: LabelSpread,
    fits: Sequence[Fit],
    folds: Sequence[Fold],
    laplacians: FoldLaplacians,
) -> list[FloatArray]:
    """B_i on the labels for every fit: arrays of shape (t, l, q).

    Parameters
    ----------
    spread : LabelSpread
        Of the ratio that all fits have.
    fits : sequence of Fit
        Fits on all rows, without intercept.
    folds : sequence of Fold
        What to hold out.
    laplacians : FoldLaplacians
        Those of the folds.
    """
    problem = fits[0].problem
    gram, q = problem.deformed.labelled_gram, problem.targets.shape[1]
    pulled = laplacians.pulls(spread.columns, _values(spread, fits))
    changes = []
    for a, fit in enumerate(fits):
        right = -(gram @ fold_slopes(fit, folds)) - 2.0 * (spread.squared @ fit.labels.beta)
        right -= fit.problem.manifold_penalty * pulled[:, :, a * q : (a + 1) * q]
        changes.append(_responses(fit, right))
    return changes


def _responses(fit: Fit, right: FloatArray) -> FloatArray:
    r"""Solve (2 gamma_A I + K~ F) b = right, by :math:`y - \tfrac12 G C(y)`, for all folds."""
    G = fit.problem.gram
    result = right / (2.0 * fit.problem.ambient_penalty)
    for j in range(right.shape[2]):
        correct = label_correction(G, fit.labels.curvature[:, j])
        result[:, :, j] -= 0.5 * (G @ correct(result[:, :, j].T)).T
    return result


@dataclass(frozen=True)
class NystromSpread:
    r"""What the Nystrom Hessian needs of the rows; it serves all penalties of a kernel and graph.

    Parameters
    ----------
    columns : array of shape (N, l + c)
        :math:`K_{\cdot L}` and :math:`KY`.
    smooth : array of shape (N, c)
        :math:`Y = LU`.
    gram : array of shape (l, l)
        :math:`K_{LL}`.
    labelled : array of shape (l, c)
        :math:`U_L`.
    on_columns : array of shape (c, l)
        :math:`Y'K_{\cdot L}`.
    on_features : array of shape (c, c)
        :math:`Y'U`.
    """

    columns: FloatArray
    smooth: FloatArray
    gram: FloatArray
    labelled: FloatArray
    on_columns: FloatArray
    on_features: FloatArray


def nystrom_spread(
    basis: Basis,
    n_components: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> NystromSpread:
    """Features of the Nystrom Hessian of :func:`onefit.criteria.influence.influence`."""
    landmarks = hessian_landmarks(basis.n_rows, n_components, random_state)
    U, _ = nystrom_features(basis, landmarks)
    smooth = basis.laplacian @ U
    columns = basis.labelled_columns
    spread = basis.values(basis.representer(smooth))
    return NystromSpread(
        np.hstack([columns, spread]),
        smooth,
        columns[basis.labelled],
        U[basis.labelled],
        spread[basis.labelled].T,
        smooth.T @ U,
    )


def nystrom_influence(
    nystrom: NystromSpread,
    spread: LabelSpread,
    fits: Sequence[Fit],
    folds: Sequence[Fold],
    laplacians: FoldLaplacians,
) -> list[FloatArray]:
    """B_i on the labels by the Nystrom Hessian (9); parameters as in :func:`label_influence`."""
    q = fits[0].problem.targets.shape[1]
    values = _values(spread, fits)
    pulled = laplacians.pulls(nystrom.columns, values)
    smoothed = nystrom.smooth.T @ values
    changes = []
    for a, fit in enumerate(fits):
        own = slice(a * q, (a + 1) * q)
        penalty, slopes = 2.0 * fit.problem.ambient_penalty, fold_slopes(fit, folds)
        pull = fit.problem.manifold_penalty * pulled[:, :, own]
        n_labels = slopes.shape[1]
        on_labels = -(nystrom.gram @ slopes) - penalty * fit.labels.values - pull[:, :n_labels]
        on_smooth = -(nystrom.on_columns @ slopes) - penalty * smoothed[:, own] - pull[:, n_labels:]
        change = np.empty_like(on_labels)
        for j in range(q):
            solved = _solve_nystrom(nystrom, fit, j, on_labels[:, :, j].T, on_smooth[:, :, j].T)
            change[:, :, j] = solved.T
        changes.append(change)
    return changes


def _solve_nystrom(
    nystrom: NystromSpread, fit: Fit, j: int, on_labels: FloatArray, on_smooth: FloatArray
) -> FloatArray:
    """b_L of output j from v_L (l, t) and Y'v (c, t)."""
    F = fit.labels.curvature[:, j]
    penalty, scale = 2.0 * fit.problem.ambient_penalty, 2.0 * fit.problem.manifold_scale
    block = nystrom.gram * F
    block.flat[:: F.size + 1] += penalty
    right = np.hstack([on_labels, nystrom.labelled])
    solved = solve_dense(block, right, "the labels")
    x, x_features = solved[:, : on_labels.shape[1]], solved[:, on_labels.shape[1] :]
    reached = nystrom.on_columns * F
    core = (scale / penalty) * (nystrom.on_features - reached @ x_features)
    core.flat[:: core.shape[0] + 1] += 1.0
    inner = solve_dense(core, (on_smooth - reached @ x) / penalty, "the landmarks")
    return x - scale * (x_features @ inner)

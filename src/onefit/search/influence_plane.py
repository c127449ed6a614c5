r"""t-BIF for whole penalty planes: the influence function on the labels alone.

With :math:`D = I + rM` the deformed metric of one ratio and :math:`\tilde K = B D^{-1} B'`, the
Hessian is :math:`H = 2\gamma_A D + B_L' F B_L`, and what (6) changes on the labels is

.. math:: B_L b_i = (2\gamma_A I + \tilde K_{LL} F)^{-1} B_L D^{-1} r_i, \qquad
          B_L D^{-1} r_i = -\tilde K_{LL}\mu_i/m - 2\,(B_L D^{-2} B_L')\beta
          - \frac{2\gamma_I}{n_i^2}\, \tilde K_{LS_i} L_{S_i} f_{S_i}.

So the l columns :math:`\tilde K_{\cdot L}` serve all folds and all ambient penalties of the ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onefit._typing import FloatArray, IntArray, Sparse
from onefit.anchors import AnyGraph
from onefit.criteria.influence import fold_slopes, removed_rows
from onefit.folds import Fold
from onefit.problem import Fit, Problem
from onefit.search.candidates import Candidate
from onefit.search.task import at_ambient
from onefit.solvers.correction import label_correction

__all__ = ["LabelSpread", "influence_plane", "label_influence", "label_spread"]


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
    problem: Problem, members: Sequence[Candidate], folds: Sequence[Fold]
) -> list[FloatArray]:
    """Decisions (a, m, q) on the test labels of every fold, for the candidates of one ratio."""
    fits: list[Fit] = []
    for candidate in members:
        start = fits[-1].labels if fits else None
        fits.append(at_ambient(problem, candidate).solve(start))
    changes = label_influence(label_spread(problem), fits, folds)
    decisions = []
    for i, fold in enumerate(folds):
        step = 1.0 / (1.0 - fold.n_folds)
        values = [
            fit.labels.values + step * change[i] for fit, change in zip(fits, changes, strict=True)
        ]
        decisions.append(np.stack(values)[:, fold.test_labels])
    return decisions


def _laplacian_on(graph: AnyGraph, rows: IntArray) -> Sparse:
    return graph.only(rows).laplacian


def label_influence(
    spread: LabelSpread,
    fits: Sequence[Fit],
    folds: Sequence[Fold],
    laplacian_of: Callable[[AnyGraph, IntArray], Sparse] = _laplacian_on,
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
    laplacian_of : callable
        L_{S_i} of given rows, as an N x N matrix.
    """
    problem = fits[0].problem
    gram, q = problem.deformed.labelled_gram, problem.targets.shape[1]
    betas = [fit.labels.beta / fit.problem.ambient_penalty for fit in fits]
    values = spread.columns @ np.hstack(betas)
    pulls = []
    for fold in folds:
        rows = removed_rows(problem, fold)
        pull = laplacian_of(problem.graph, rows) @ values
        pulls.append(spread.columns.T @ pull * (2.0 / rows.size**2))
    pulled = np.stack(pulls)
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

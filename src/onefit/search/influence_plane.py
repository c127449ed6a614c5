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

import numpy as np

from onefit._typing import FloatArray, IntArray, Sparse
from onefit.criteria.influence import fold_slopes, removed_rows
from onefit.folds import Fold
from onefit.problem import Fit, Problem
from onefit.search.candidates import Candidate
from onefit.search.task import at_ambient
from onefit.solvers.correction import label_correction

__all__ = ["influence_plane", "label_influence"]


def influence_plane(
    problem: Problem, members: Sequence[Candidate], folds: Sequence[Fold]
) -> list[FloatArray]:
    """Decisions (a, m, q) on the test labels of every fold, for the candidates of one ratio."""
    fits: list[Fit] = []
    for candidate in members:
        start = fits[-1].labels if fits else None
        fits.append(at_ambient(problem, candidate).solve(start))
    changes = label_influence(problem, fits, folds)
    decisions = []
    for i, fold in enumerate(folds):
        step = 1.0 / (1.0 - fold.n_folds)
        values = [
            fit.labels.values + step * part[i] for fit, part in zip(fits, changes, strict=True)
        ]
        decisions.append(np.stack(values)[:, fold.test_labels])
    return decisions


def label_influence(
    problem: Problem,
    fits: Sequence[Fit],
    folds: Sequence[Fold],
    laplacian_of: Callable[[Problem, IntArray], Sparse] | None = None,
) -> list[list[FloatArray]]:
    """B_i on the labels, of shape (l, q), for every fit and every fold.

    Parameters
    ----------
    problem : Problem
        A problem without intercept of the ratio that all fits have.
    fits : sequence of Fit
        Fits on all rows.
    folds : sequence of Fold
        What to hold out.
    laplacian_of : callable, optional
        L_{S_i} of given rows, as an N x N matrix; that of the graph on these rows when None.
    """
    laplacian_of = laplacian_of or _laplacian_on
    expanded = problem.deformed.expand(np.eye(problem.n_labelled))
    columns, squared = problem.basis.values(expanded), expanded.T @ expanded
    gram = problem.deformed.labelled_gram
    q = problem.targets.shape[1]
    values = columns @ np.hstack([fit.labels.beta / fit.problem.ambient_penalty for fit in fits])
    pulls = []
    for fold in folds:
        rows = removed_rows(problem, fold)
        pulls.append(columns.T @ (laplacian_of(problem, rows) @ values) * (2.0 / rows.size**2))
    changes = []
    for a, fit in enumerate(fits):
        own = slice(a * q, (a + 1) * q)
        ambient = -2.0 * (squared @ fit.labels.beta)
        right = [
            ambient - gram @ fold_slopes(fit, fold) - fit.problem.manifold_penalty * pull[:, own]
            for fold, pull in zip(folds, pulls, strict=True)
        ]
        changes.append(_responses(fit, right))
    return changes


def _laplacian_on(problem: Problem, rows: IntArray) -> Sparse:
    return problem.graph.only(rows).laplacian


def _responses(fit: Fit, right: Sequence[FloatArray]) -> list[FloatArray]:
    r"""Solve (2 gamma_A I + K~ F) b = right, by :math:`y - \tfrac12 G C(y)`, for all folds."""
    G, q = fit.problem.gram, fit.labels.beta.shape[1]
    stacked = np.stack(right, axis=2)
    for j in range(q):
        correct = label_correction(G, fit.labels.curvature[:, j])
        stacked[:, j] -= 0.5 * (G @ correct(stacked[:, j]))
    stacked /= 2.0 * fit.problem.ambient_penalty
    return list(np.moveaxis(stacked, 2, 0))

r"""Exact cross-validation: the optimum of every fold.

Labels held out, square loss: with :math:`A = G + \mathrm{diag}(1/v)` over *all* labels and a fold
h, equation (4) gives every held-out residual from one factorisation,

.. math:: y_h - f_{-h}(x_h) = \left([A^{-1}]_{hh}\right)^{-1} (A^{-1} y)_h ,

also when A is bordered by the intercept. Other losses run Newton's method from the full solution.
Points held out: the fold systems of :mod:`onefit.solvers.points`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onefit._lapack import cho_factor, inverse_from_cholesky
from onefit._rounding import is_rounding, settled
from onefit._typing import FloatArray
from onefit.criteria.common import (
    FoldDecisions,
    Holdout,
    LabelColumns,
    fold_systems,
    full_solution,
    label_columns,
    point_decisions,
)
from onefit.folds import Fold
from onefit.problem import Fit, Problem
from onefit.solvers.convergence import warn_not_converged
from onefit.solvers.dense import solve_dense
from onefit.solvers.labels import LabelFit, solve_labels
from onefit.solvers.points import minimize_folds

__all__ = ["exact", "refit_labels"]


def exact(
    fit: Fit, folds: Sequence[Fold], holdout: Holdout, *, bounds: bool = False
) -> list[FoldDecisions]:
    """Held-out decisions at the optimum of every fold.

    Parameters
    ----------
    fit : Fit
        The fit on all rows.
    folds : sequence of Fold
        What to hold out.
    holdout : {"labels", "points"}
        Hide the labels of a fold, or remove its points from the graph too.
    bounds : bool, default=False
        Whether to compute the bound (8), which here measures the solver's accuracy.
    """
    if holdout == "points":
        problem = fit.problem
        systems, start = fold_systems(fit, folds), full_solution(fit, len(folds))
        solution = minimize_folds(systems, start, tol=problem.tol, max_iter=problem.max_iter)
        if not solution.converged:
            norms = systems.gradient_norms(solution.state)
            warn_not_converged("some folds", problem.max_iter, float(norms.max()))
        return point_decisions(
            fit, folds, solution.state, solution.n_solves, systems if bounds else None
        )
    if fit.problem.loss.is_quadratic and not bounds:
        return _square_labels(fit.problem, folds)
    return [
        part
        for columns in label_columns(fit, folds)
        for part in columns.decisions(refit_labels(columns), bounds)
    ]


def refit_labels(columns: LabelColumns) -> LabelFit:
    """The optimum of every column, by Newton's method from the full solution."""
    problem = columns.problem
    refit = solve_labels(
        problem.gram,
        columns.targets,
        columns.weights,
        problem.loss,
        fit_intercept=problem.fit_intercept,
        start=columns.full,
        tol=problem.tol,
        max_iter=problem.max_iter,
    )
    if not refit.converged:
        worst = float(refit.gradient_norms(problem.gram)[~refit.has_converged].max())
        warn_not_converged("some folds", problem.max_iter, worst)
    return refit


def _square_labels(problem: Problem, folds: Sequence[Fold]) -> list[FoldDecisions]:
    """Equation (4); folds whose weights agree share the factorisation of A."""
    factored: dict[bytes, tuple[FloatArray, FloatArray]] = {}
    results = []
    for fold in folds:
        v = problem.weights.normalized(fold.kept_labels)
        key = np.round(v, 15).tobytes()
        is_new = key not in factored
        if is_new:
            factored[key] = _inverse_and_dual(problem, v)
        inverse, dual = factored[key]
        h = np.flatnonzero(fold.test_labels & ~fold.kept_labels)
        out = np.flatnonzero(~fold.kept_labels)
        # Labels that are neither kept nor tested are removed together with the tested ones.
        residual = solve_dense(inverse[np.ix_(out, out)], dual[out], "a fold")
        tested = np.isin(out, h)
        decisions, size = problem.targets[h] - residual[tested], np.abs(problem.targets).max()
        if not problem.fit_intercept and is_rounding(decisions, size).any():
            # f = G beta loses no digit where G is small.
            beta = dual - inverse[:, out] @ residual
            beta[out] = 0.0
            decisions = settled(decisions, problem.gram[h] @ beta, size)
        results.append(FoldDecisions(problem.basis.labelled[h], decisions, None, 1 + int(is_new)))
    return results


def _inverse_and_dual(problem: Problem, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A^-1 and A^-1 y of the (bordered) system."""
    lower, _ = cho_factor(problem.gram + np.diag(1.0 / v))
    inverse = inverse_from_cholesky(lower)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    if problem.fit_intercept:
        one = inverse.sum(axis=1)
        inverse = inverse - np.outer(one, one) / one.sum()
    return inverse, inverse @ problem.targets

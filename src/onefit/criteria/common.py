"""What the criteria share: their result, the bound (8), and the columns of folds without points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onefit._rounding import is_rounding, settled
from onefit._typing import FloatArray, IntArray
from onefit.folds import Fold
from onefit.problem import Fit, Problem
from onefit.solvers.intercept import optimal_intercept
from onefit.solvers.labels import LabelState, evaluate
from onefit.solvers.points import FoldColumn, FoldsState, FoldSystems

__all__ = [
    "FoldDecisions",
    "Holdout",
    "fold_systems",
    "full_solution",
    "label_decisions",
    "point_decisions",
]

Holdout = Literal["labels", "points"]


@dataclass(frozen=True)
class FoldDecisions:
    """Held-out decision values of one fold.

    Parameters
    ----------
    rows : array of shape (n,)
        Row numbers.
    decisions : array of shape (n, q)
        f_{-i}(x), or its approximation.
    error_bounds : array of shape (n, q) or None
        Bound (8) on their distance from the fold's exact optimum; None if not asked for.
    n_solves : int
        Linear systems solved for this fold.
    """

    rows: IntArray
    decisions: FloatArray
    error_bounds: FloatArray | None
    n_solves: int


def label_decisions(
    problem: Problem, fold: Fold, v: FloatArray, states: Sequence[LabelState], bounds: bool
) -> FoldDecisions:
    """Decisions on the held-out labels, from one state for each output."""
    test = np.flatnonzero(fold.test_labels)
    error_bounds = None
    if bounds:
        error_bounds = np.column_stack(
            [
                _label_bounds(problem, y, v, state)[test]
                for y, state in zip(problem.targets.T, states, strict=True)
            ]
        )
    decisions = np.column_stack([state.values[test] for state in states])
    n_solves = sum(state.n_steps for state in states)
    return FoldDecisions(problem.basis.labelled[test], decisions, error_bounds, n_solves)


def _label_bounds(problem: Problem, y: FloatArray, v: FloatArray, state: LabelState) -> FloatArray:
    r"""Bound (8) with labels held out, :math:`\tfrac12\sqrt{G_{xx}}\sqrt{\rho' G \rho}`.

    The objective is not strongly convex in an intercept. At the best intercept for the same
    kernel part the bound holds for that part, and by monotonicity of the slopes this intercept
    errs by no more than the largest error on a kept label; the distance to it comes on top.
    """
    G = problem.gram
    evaluation = 0.5 * np.sqrt(np.maximum(np.diagonal(G), 0.0))
    if not problem.fit_intercept:
        return evaluation * state.gradient_norm(G)
    b = optimal_intercept(problem.loss, y, v, state.values - state.intercept, state.intercept)
    bound = evaluation * evaluate(G, y, v, problem.loss, state.beta, b).gradient_norm(G)
    return bound + bound[v > 0.0].max() + abs(b - state.intercept)


def full_solution(fit: Fit, n_folds: int) -> FoldsState:
    """The full solution once for every fold; columns run over outputs within folds."""
    return FoldsState(
        np.tile(fit.coef, n_folds),
        np.tile(fit.kernel_values, n_folds),
        np.tile(fit.labels.intercept, n_folds),
    )


def fold_systems(fit: Fit, folds: Sequence[Fold]) -> FoldSystems:
    """Objectives of folds that remove points; columns run over outputs within folds."""
    problem = fit.problem
    columns = []
    for fold in folds:
        laplacian = problem.graph.only(fold.kept_rows).laplacian
        scale = problem.manifold_penalty / fold.n_kept**2
        v = problem.weights.normalized(fold.kept_labels) * fold.kept_labels
        columns += [FoldColumn(laplacian, scale, v, y) for y in problem.targets.T]
    return FoldSystems(
        problem.basis,
        problem.deformed,
        problem.gram,
        columns,
        problem.loss,
        problem.ambient_penalty,
        problem.fit_intercept,
    )


def point_decisions(
    fit: Fit,
    folds: Sequence[Fold],
    state: FoldsState,
    n_solves: int,
    systems: FoldSystems | None,
) -> list[FoldDecisions]:
    """Decisions on all held-out rows of every fold; with bounds when ``systems`` are given."""
    q = fit.problem.targets.shape[1]
    certificate = None if systems is None else _point_bounds(fit.problem, systems, state)
    share, rest = divmod(n_solves, len(folds))
    results = []
    for i, fold in enumerate(folds):
        columns = slice(i * q, (i + 1) * q)
        results.append(
            FoldDecisions(
                fold.test_rows,
                _on_fold(fit.problem, fold, state, columns),
                None if certificate is None else certificate[fold.test_rows, columns],
                share + (i < rest),
            )
        )
    return results


def _on_fold(problem: Problem, fold: Fold, state: FoldsState, columns: slice) -> FloatArray:
    r"""Decisions on the rows of a fold.

    Those of which rounding has left nothing are :math:`-\tfrac{1}{2\gamma_A} \sum_k v_k\,
    \ell'(y_k, f_k)\, \kappa(x, x_k)`, the part of f that the kept labels carry; what the graph
    would add is as small.
    """
    f, basis = state.kernel_values[:, columns], problem.basis
    decisions, scale = f[fold.test_rows], np.abs(f).max(axis=0)
    small = np.flatnonzero(is_rounding(decisions, scale).any(axis=1))
    if small.size:
        v = problem.weights.normalized(fold.kept_labels) * fold.kept_labels
        slopes = v[:, None] * problem.loss.derivative(
            problem.targets, f[basis.labelled] + state.intercept[columns]
        )
        K = basis.kernel_columns(fold.test_rows[small])[basis.labelled]
        expansion = K.T @ slopes / (-2.0 * problem.ambient_penalty)
        decisions[small] = settled(decisions[small], expansion, scale)
    return decisions + state.intercept[columns]


def _point_bounds(problem: Problem, systems: FoldSystems, state: FoldsState) -> FloatArray:
    r"""Bound (8) with points held out, for all rows and columns.

    The metric :math:`R_i` of a fold is not factored; :math:`R_i \succeq 2\gamma_A I` gives the
    weaker :math:`\sqrt{\kappa(x, x)}\,\lVert g_i \rVert_\kappa / (2\gamma_A)`. An intercept is
    treated as in :func:`_label_bounds`.
    """
    evaluation = np.sqrt(problem.basis.squared_norms_of_evaluation())
    best = state
    if problem.fit_intercept:
        labelled = state.kernel_values[systems.labelled]
        b = [
            optimal_intercept(problem.loss, c.y, c.v, labelled[:, j], float(state.intercept[j]))
            for j, c in enumerate(systems.columns)
        ]
        best = FoldsState(state.coef, state.kernel_values, np.array(b))
    norms = systems.gradient_norms(best)
    bound = np.outer(evaluation, norms / (2.0 * problem.ambient_penalty))
    if problem.fit_intercept:
        on_labels = bound[systems.labelled]
        for j, column in enumerate(systems.columns):
            bound[:, j] += on_labels[column.v > 0.0, j].max()
        bound += np.abs(best.intercept - state.intercept)
    return bound

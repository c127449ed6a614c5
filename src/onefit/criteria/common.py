"""What the criteria share: their result, the bound (8), and the columns of folds without points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.utils import gen_batches

from onefit._rounding import is_rounding, settled
from onefit._typing import FloatArray, IntArray
from onefit.folds import Fold
from onefit.problem import Fit, Problem
from onefit.solvers.intercept import optimal_intercept
from onefit.solvers.labels import MOST_COLUMNS, LabelFit, evaluate
from onefit.solvers.points import FoldColumn, FoldsState, FoldSystems

__all__ = [
    "FoldDecisions",
    "Holdout",
    "LabelColumns",
    "fold_systems",
    "full_solution",
    "label_columns",
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


@dataclass(frozen=True)
class LabelColumns:
    """Label problems of some folds: columns run over outputs within folds.

    ``targets`` and ``weights`` have shape (l, n_folds * q); ``full`` is the full solution in every
    fold.
    """

    problem: Problem
    folds: Sequence[Fold]
    targets: FloatArray
    weights: FloatArray
    full: LabelFit

    def decisions(self, fit: LabelFit, bounds: bool) -> Iterator[FoldDecisions]:
        """Decisions on the held-out labels of every fold, from a column for each output."""
        q = self.problem.targets.shape[1]
        certificates = _label_bounds(self, fit) if bounds else None
        for i, fold in enumerate(self.folds):
            columns, test = slice(i * q, (i + 1) * q), np.flatnonzero(fold.test_labels)
            yield FoldDecisions(
                self.problem.basis.labelled[test],
                fit.values[test, columns],
                None if certificates is None else certificates[test, columns],
                int(fit.steps[columns].sum()),
            )


def label_columns(fit: Fit, folds: Sequence[Fold]) -> Iterator[LabelColumns]:
    """The label problems of all folds, a limited number of columns at a time."""
    problem = fit.problem
    q = problem.targets.shape[1]
    for batch in gen_batches(len(folds), max(MOST_COLUMNS // q, 1)):
        some = folds[batch]
        kept = [problem.weights.normalized(fold.kept_labels) * fold.kept_labels for fold in some]
        yield LabelColumns(
            problem,
            some,
            np.tile(problem.targets, len(some)),
            np.repeat(np.column_stack(kept), q, axis=1),
            fit.labels.columns(np.tile(np.arange(q), len(some))),
        )


def _label_bounds(columns: LabelColumns, fit: LabelFit) -> FloatArray:
    r"""Bound (8) with labels held out, :math:`\tfrac12\sqrt{G_{xx}}\sqrt{\rho' G \rho}`.

    The objective is not strongly convex in an intercept. At the best intercept for the same
    kernel part the bound holds for that part, and by monotonicity of the slopes this intercept
    errs by no more than the largest error on a kept label; the distance to it comes on top.
    """
    problem, Y, V = columns.problem, columns.targets, columns.weights
    G = problem.gram
    evaluation = 0.5 * np.sqrt(np.maximum(np.diagonal(G), 0.0))
    if not problem.fit_intercept:
        return np.outer(evaluation, fit.gradient_norms(G))
    kernel_values = fit.values - fit.intercept
    b = np.array(
        [
            optimal_intercept(problem.loss, Y[:, j], V[:, j], kernel_values[:, j], float(near))
            for j, near in enumerate(fit.intercept)
        ]
    )
    best = evaluate(G, Y, V, problem.loss, fit.beta, b)
    bound = np.outer(evaluation, best.gradient_norms(G))
    kept = np.where(V > 0.0, bound, 0.0)
    return bound + kept.max(axis=0) + np.abs(b - fit.intercept)


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

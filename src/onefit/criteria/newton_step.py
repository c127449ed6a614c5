r"""One Newton step on each fold's own objective, equation (7).

.. math:: f_{-i}(x) \approx z(x)'(w - H_i^{-1} g_i),

with gradient and Hessian of the fold at the full solution w. Exact for the square loss. Unlike the
influence function it uses the fold's Hessian, and so sees the leverage of what is held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from onefit.problem import Fit
from onefit.solvers.labels import LabelFit, damped_step, evaluate, newton_direction
from onefit.solvers.points import minimize_folds
from onefit.validation import check_integer

__all__ = ["newton_step"]


def newton_step(
    fit: Fit, folds: Sequence[Fold], holdout: Holdout, *, bounds: bool = False, n_steps: int = 1
) -> list[FoldDecisions]:
    """Held-out decisions after ``n_steps`` Newton steps from the full solution.

    Parameters
    ----------
    fit : Fit
        The fit on all rows.
    folds : sequence of Fold
        What to hold out.
    holdout : {"labels", "points"}
        Hide the labels of a fold, or remove its points from the graph too.
    bounds : bool, default=False
        Whether to compute the bound (8).
    n_steps : int, default=1
        The first step is equation (7); further ones, with line search, approach the fold's
        optimum.
    """
    check_integer("n_steps", n_steps, minimum=1)
    if holdout == "points":
        systems, start = fold_systems(fit, folds), full_solution(fit, len(folds))
        solution = minimize_folds(systems, start, n_steps=n_steps)
        return point_decisions(
            fit, folds, solution.state, solution.n_solves, systems if bounds else None
        )
    return [
        part
        for columns in label_columns(fit, folds)
        for part in columns.decisions(_stepped(columns, n_steps), bounds)
    ]


def _stepped(columns: LabelColumns, n_steps: int) -> LabelFit:
    problem, full = columns.problem, columns.full
    arguments = problem.gram, columns.targets, columns.weights, problem.loss
    state = evaluate(*arguments, full.beta, full.intercept)
    delta, delta_b = newton_direction(problem.gram, state, problem.fit_intercept)
    state = evaluate(*arguments, state.beta + delta, state.intercept + delta_b)
    state = replace(state, steps=state.steps + 1)
    for _ in range(n_steps - 1):
        state, _ = damped_step(*arguments, state, problem.fit_intercept)
    return state

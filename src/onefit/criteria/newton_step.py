r"""One Newton step on each fold's own objective, equation (7).

.. math:: f_{-i}(x) \approx z(x)'(w - H_i^{-1} g_i),

with gradient and Hessian of the fold at the full solution w. Exact for the square loss. Unlike the
influence function it uses the fold's Hessian, and so sees the leverage of what is held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onefit._typing import FloatArray
from onefit.criteria.common import (
    FoldDecisions,
    Holdout,
    fold_systems,
    full_solution,
    label_decisions,
    point_decisions,
)
from onefit.folds import Fold
from onefit.problem import Fit
from onefit.solvers.labels import LabelState, damped_step, evaluate, newton_direction
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
    problem = fit.problem
    results = []
    for fold in folds:
        v = problem.weights.normalized(fold.kept_labels) * fold.kept_labels
        states = [_stepped(fit, j, v, n_steps) for j in range(problem.targets.shape[1])]
        results.append(label_decisions(problem, fold, v, states, bounds))
    return results


def _stepped(fit: Fit, output: int, v: FloatArray, n_steps: int) -> LabelState:
    problem, full = fit.problem, fit.labels.states[output]
    G, y, loss = problem.gram, problem.targets[:, output], problem.loss
    state = evaluate(G, y, v, loss, full.beta, full.intercept)
    delta, delta_b = newton_direction(G, state, problem.fit_intercept)
    state = replace(
        evaluate(G, y, v, loss, state.beta + delta, state.intercept + delta_b), n_steps=1
    )
    for _ in range(n_steps - 1):
        state, _ = damped_step(G, y, v, loss, state, problem.fit_intercept)
    return state

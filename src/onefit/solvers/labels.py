r"""The fit on the labelled rows: l equations in l unknowns.

With the deformed kernel scaled by the ambient penalty, :math:`G = \tilde K_{LL} / \gamma_A`, the
objective (1) becomes an ordinary kernel machine (equation (3)),

.. math:: J(\beta, b) = \sum_i v_i\, \ell(y_i, f_i) + \beta' G \beta, \qquad f = G\beta + b,

whose optimum satisfies :math:`\rho = v \circ \ell'(y, f) + 2\beta = 0` (and :math:`\sum_i v_i
\ell'_i = 0` with an intercept). A row with :math:`v_i = 0` has no label in this problem: folds are
expressed by their weights alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from onefit._lapack import cho_factor, cho_solve
from onefit._typing import BoolArray, FloatArray, IntArray
from onefit.losses import Loss, Square
from onefit.solvers.correction import label_response
from onefit.solvers.grams import Gram, block_of, changes, largest_diagonal, some_columns
from onefit.solvers.intercept import optimal_intercept
from onefit.solvers.line_search import RestrictedObjective, minimize_restricted

__all__ = [
    "MOST_COLUMNS",
    "LabelFit",
    "damped_step",
    "evaluate",
    "joined_fits",
    "minimize_newton",
    "newton_direction",
    "settle_intercept",
    "solve_labels",
    "solve_square",
    "square_weights",
]

#: Columns that Newton's method should work on at a time.
MOST_COLUMNS = 100
#: A sum that is smaller, relative to its terms, is none.
_ROUNDING = 1e-14
#: A residual that is smaller, relative to beta, comes from rounding in a step to the optimum.
_RESIDUAL = 1e-10


@dataclass(frozen=True)
class LabelFit:
    """Solutions of label problems, or candidates for them: one a column.

    ``beta``, ``values`` (f), ``slope`` (v loss') and ``curvature`` (v loss'') have shape (l, m);
    ``intercept``, ``steps``, the linear systems solved, and ``has_converged`` have shape (m,).
    """

    beta: FloatArray
    intercept: FloatArray
    values: FloatArray
    slope: FloatArray
    curvature: FloatArray
    steps: IntArray
    has_converged: BoolArray

    @property
    def residual(self) -> FloatArray:
        """Rho = v loss'(y, f) + 2 beta, zero at the optimum."""
        return self.slope + 2.0 * self.beta

    @property
    def n_steps(self) -> int:
        """Linear systems solved, over all columns."""
        return int(self.steps.sum())

    @property
    def converged(self) -> bool:
        """Whether every column met the tolerance."""
        return bool(self.has_converged.all())

    def gradient_norms(self, G: Gram) -> FloatArray:
        """Norms of the gradients in the deformed RKHS, sqrt(rho' G rho)."""
        rho = self.residual
        return np.sqrt(np.maximum(np.einsum("ij,ij->j", rho, G @ rho), 0.0))

    def columns(self, which: IntArray | BoolArray | slice) -> LabelFit:
        """Some of the columns, in this order."""
        return LabelFit(*(getattr(self, part.name)[..., which] for part in fields(self)))


def joined_fits(fits: Sequence[LabelFit]) -> LabelFit:
    """The columns of several fits, one after the other."""
    names = [part.name for part in fields(LabelFit)]
    parts = [np.concatenate([getattr(fit, name) for fit in fits], axis=-1) for name in names]
    return LabelFit(*parts)


def evaluate(
    G: Gram,
    Y: FloatArray,
    V: FloatArray,
    loss: Loss,
    beta: FloatArray,
    intercept: FloatArray,
) -> LabelFit:
    """State at (beta, b): values, slopes and curvatures of the weighted loss."""
    f = G @ beta + intercept
    slope, curvature = V * loss.derivative(Y, f), V * loss.second_derivative(Y, f)
    m = beta.shape[1]
    return LabelFit(
        beta, intercept, f, slope, curvature, np.zeros(m, np.intp), np.zeros(m, dtype=bool)
    )


def newton_direction(
    G: Gram, state: LabelFit, fit_intercept: bool
) -> tuple[FloatArray, FloatArray]:
    r"""Newton's directions (delta, delta_b), with :math:`F = \mathrm{diag}(v \ell'')`.

    .. math:: (F G + 2 I)\,\delta + F \delta_b = -\rho, \qquad \sum_i (\beta + \delta)_i = 0,

    solved by :func:`~onefit.solvers.correction.label_response`.
    """
    totals = -state.beta.sum(axis=0) if fit_intercept else None
    return label_response(G, state.curvature, -state.residual, totals)


def settle_intercept(
    G: Gram, Y: FloatArray, V: FloatArray, loss: Loss, state: LabelFit
) -> LabelFit:
    """Move intercepts to their optimum where Newton's equations leave them open.

    Without curvature on any label they do, and a hinge loss has a whole interval of optima.
    """
    is_open = ~np.any(state.curvature > 0.0, axis=0)
    if not is_open.any():
        return state
    b = state.intercept.copy()
    for j in np.flatnonzero(is_open):
        near = float(b[j])
        b[j] = optimal_intercept(loss, Y[:, j], V[:, j], state.values[:, j] - near, near)
    moved = evaluate(G, Y, V, loss, state.beta, b)
    return replace(moved, steps=state.steps, has_converged=state.has_converged)


def damped_step(
    G: Gram,
    Y: FloatArray,
    V: FloatArray,
    loss: Loss,
    state: LabelFit,
    fit_intercept: bool,
) -> tuple[LabelFit, FloatArray]:
    """One Newton step with exact line search; also the largest change of a fitted value."""
    before = state.intercept
    if fit_intercept:
        state = settle_intercept(G, Y, V, loss, state)
    delta, delta_b = newton_direction(G, state, fit_intercept)
    kernel_change = G @ delta
    change = kernel_change + delta_b
    linear = 2.0 * np.einsum("ij,ij->j", state.beta, kernel_change)
    quadratic = 2.0 * np.einsum("ij,ij->j", delta, kernel_change)
    t = minimize_restricted(
        RestrictedObjective(loss, Y, V, state.values, change, linear, quadratic)
    )
    largest = np.abs(change).max(axis=0, initial=0.0)
    # A change of values that is but rounding has slopes that say nothing: all of the step is in
    # beta, whose way is the whole one.
    terms = largest_diagonal(G) * np.abs(delta).sum(axis=0)
    t[largest <= _ROUNDING * np.maximum(1.0, terms)] = 1.0
    moved = evaluate(G, Y, V, loss, state.beta + t * delta, state.intercept + t * delta_b)
    largest += np.abs(state.intercept - before)
    return replace(moved, steps=state.steps + 1), largest


def _is_solved(G: Gram, state: LabelFit, near: FloatArray) -> BoolArray:
    r"""Whether :math:`\rho` is but rounding, and the bound (8) says that the optimum is near.

    A step to the optimum of the quadratic function that the objective is around it ends so.
    """
    rho = np.abs(state.residual).max(axis=0, initial=0.0)
    is_rounding = rho <= _RESIDUAL * np.abs(state.beta).max(axis=0, initial=0.0)
    solved: BoolArray = is_rounding
    if is_rounding.any():
        bound = 0.5 * np.sqrt(largest_diagonal(G)) * state.gradient_norms(G)
        solved = is_rounding & (bound <= near)
    return solved


def minimize_newton(
    G: Gram,
    Y: FloatArray,
    V: FloatArray,
    loss: Loss,
    start: LabelFit,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> LabelFit:
    """Newton's method with exact line search, from ``start`` to the optimum of every column.

    The objective is strictly convex with a bounded Hessian, so the method converges from
    anywhere; for the piecewise quadratic losses it ends after finitely many steps. A column is left
    alone when a Newton step moves no fitted value by more than ``tol`` (relative to the largest, at
    least 1), or has led to where no further one would.
    """
    ended: list[LabelFit] = []
    order: list[IntArray] = []
    state, places = start, np.arange(Y.shape[1])
    for _ in range(max_iter):
        state, largest = damped_step(G, Y, V, loss, state, fit_intercept)
        near = tol * np.maximum(1.0, np.abs(state.values).max(axis=0, initial=0.0))
        has_ended = largest <= near
        if not fit_intercept:
            has_ended |= _is_solved(G, state, near)
        if has_ended.any():
            last = replace(state, has_converged=has_ended).columns(has_ended)
            if fit_intercept:
                own = some_columns(G, has_ended), Y[:, has_ended], V[:, has_ended]
                last = settle_intercept(*own, loss, last)
            ended.append(last)
            order.append(places[has_ended])
            goes_on = ~has_ended
            state, places = state.columns(goes_on), places[goes_on]
            G, Y, V = some_columns(G, goes_on), Y[:, goes_on], V[:, goes_on]
        if not places.size:
            break
    if fit_intercept:
        state = settle_intercept(G, Y, V, loss, state)
    return joined_fits([*ended, state]).columns(np.argsort(np.concatenate([*order, places])))


def solve_labels(
    G: Gram,
    Y: FloatArray,
    v: FloatArray,
    loss: Loss,
    *,
    fit_intercept: bool = False,
    start: LabelFit | None = None,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> LabelFit:
    """Minimise (3) for every column of ``Y``: closed form for the square loss, else Newton.

    Parameters
    ----------
    G : array of shape (l, l), or GramStack
        Deformed kernel of the labelled rows, divided by the ambient penalty: one for all columns,
        or each column's own.
    Y : array of shape (l, m)
        Targets; +-1 for the classification losses.
    v : array of shape (l,) or (l, m)
        Weights of the loss; 0 where the label is held out.
    loss : Loss
        The loss.
    fit_intercept : bool
        Whether f has an unpenalised constant.
    start : LabelFit, optional
        Where Newton's method begins; the square loss's solution when None.
    tol, max_iter
        See :func:`minimize_newton`.
    """
    if loss.is_quadratic:
        return solve_square(G, Y, v, fit_intercept=fit_intercept)
    if start is None:
        # Interpolating fits put many points into the hinge's narrow band; the square loss finds
        # them at once, where steps from zero would collect them one by one.
        start = solve_square(G, Y, v, fit_intercept=fit_intercept)
    V = np.broadcast_to(v.reshape(len(Y), -1), Y.shape)
    first = evaluate(G, Y, V, loss, start.beta, start.intercept)
    return minimize_newton(
        G, Y, V, loss, first, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter
    )


def solve_square(G: Gram, Y: FloatArray, v: FloatArray, *, fit_intercept: bool = False) -> LabelFit:
    r"""Closed form of (3) for the square loss: :math:`(G + \mathrm{diag}(1/v))\beta = y - b`."""
    beta, b = np.zeros_like(Y), np.zeros(Y.shape[1])
    V = np.broadcast_to(v.reshape(len(Y), -1), Y.shape)
    for columns in _alike(G, V):
        weights = V[:, columns.start]
        rows = np.flatnonzero(weights)
        beta[rows, columns], b[columns] = square_weights(
            block_of(G, columns.start, rows), Y[rows, columns], weights[rows], fit_intercept
        )
    fit = evaluate(G, Y, V, Square(), beta, b)
    return replace(fit, steps=fit.steps + 1, has_converged=~fit.has_converged)


def _alike(G: Gram, V: FloatArray) -> Iterator[slice]:
    """Columns of the same matrix and weights; those of a fold stand side by side."""
    n_columns = V.shape[1]
    differs = np.any(V[:, 1:] != V[:, :-1], axis=0) | changes(G, n_columns)
    ends = [0, *(np.flatnonzero(differs) + 1).tolist(), n_columns]
    return (slice(start, stop) for start, stop in pairwise(ends) if stop > start)


def square_weights(
    G: FloatArray, Y: FloatArray, v: FloatArray, fit_intercept: bool
) -> tuple[FloatArray, FloatArray]:
    """Dual weights (l, q) and intercepts (q,) of the square loss, all weights positive."""
    A = G + np.diag(1.0 / v)
    factor = cho_factor(A)
    right = np.column_stack([Y, np.ones(len(v))]) if fit_intercept else Y
    solution = cho_solve(factor, right)
    if not fit_intercept:
        return solution, np.zeros(Y.shape[1])
    by_target, by_one = solution[:, :-1], solution[:, -1]
    b = by_target.sum(axis=0) / by_one.sum()
    return by_target - np.outer(by_one, b), b

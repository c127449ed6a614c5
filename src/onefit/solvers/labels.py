r"""The fit on the labelled rows: l equations in l unknowns.

With the deformed kernel scaled by the ambient penalty, :math:`G = \tilde K_{LL} / \gamma_A`, the
objective (1) becomes an ordinary kernel machine (equation (3)),

.. math:: J(\beta, b) = \sum_i v_i\, \ell(y_i, f_i) + \beta' G \beta, \qquad f = G\beta + b,

whose optimum satisfies :math:`\rho = v \circ \ell'(y, f) + 2\beta = 0` (and :math:`\sum_i v_i
\ell'_i = 0` with an intercept). A row with :math:`v_i = 0` has no label in this problem: folds are
expressed by their weights alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onefit._lapack import cho_factor, cho_solve
from onefit._typing import FloatArray
from onefit.losses import Loss, Square
from onefit.solvers.correction import label_response
from onefit.solvers.intercept import optimal_intercept
from onefit.solvers.line_search import RestrictedObjective, minimize_restricted

__all__ = [
    "LabelFit",
    "LabelState",
    "damped_step",
    "evaluate",
    "minimize_newton",
    "newton_direction",
    "settle_intercept",
    "solve_labels",
    "solve_square",
    "square_weights",
]


@dataclass(frozen=True)
class LabelState:
    """A candidate solution of one label problem, with what was computed at it.

    ``beta`` and ``values`` have shape (l,), ``intercept`` is a number. ``residual`` is rho.
    """

    beta: FloatArray
    intercept: float
    values: FloatArray
    slope: FloatArray
    curvature: FloatArray
    n_steps: int = 0
    converged: bool = False

    @property
    def residual(self) -> FloatArray:
        """Rho = v loss'(y, f) + 2 beta, zero at the optimum."""
        return self.slope + 2.0 * self.beta

    def gradient_norm(self, G: FloatArray) -> float:
        """Norm of the gradient in the deformed RKHS, sqrt(rho' G rho)."""
        rho = self.residual
        return float(np.sqrt(max(float(rho @ (G @ rho)), 0.0)))


def evaluate(
    G: FloatArray, y: FloatArray, v: FloatArray, loss: Loss, beta: FloatArray, intercept: float
) -> LabelState:
    """State at (beta, b): values, slopes and curvatures of the weighted loss."""
    f = G @ beta + intercept
    return LabelState(
        beta, intercept, f, v * loss.derivative(y, f), v * loss.second_derivative(y, f)
    )


def newton_direction(
    G: FloatArray, state: LabelState, fit_intercept: bool
) -> tuple[FloatArray, float]:
    r"""Newton's direction (delta, delta_b), with :math:`F = \mathrm{diag}(v \ell'')`.

    .. math:: (F G + 2 I)\,\delta + F \delta_b = -\rho, \qquad \sum_i (\beta + \delta)_i = 0,

    solved by :func:`~onefit.solvers.correction.label_response`.
    """
    total = -float(state.beta.sum()) if fit_intercept else None
    delta, delta_b = label_response(G, state.curvature, -state.residual, total)
    return delta, delta_b


def settle_intercept(
    G: FloatArray, y: FloatArray, v: FloatArray, loss: Loss, state: LabelState
) -> LabelState:
    """Move the intercept to its optimum where Newton's equations leave it open.

    Without curvature on any label they do, and a hinge loss has a whole interval of optima.
    """
    if np.any(state.curvature > 0.0):
        return state
    b = optimal_intercept(loss, y, v, state.values - state.intercept, state.intercept)
    moved = evaluate(G, y, v, loss, state.beta, b)
    return replace(moved, n_steps=state.n_steps, converged=state.converged)


def damped_step(
    G: FloatArray,
    y: FloatArray,
    v: FloatArray,
    loss: Loss,
    state: LabelState,
    fit_intercept: bool,
) -> tuple[LabelState, float]:
    """One Newton step with exact line search; also the largest change of a fitted value."""
    before = state.intercept
    if fit_intercept:
        state = settle_intercept(G, y, v, loss, state)
    delta, delta_b = newton_direction(G, state, fit_intercept)
    kernel_change = G @ delta
    change = kernel_change + delta_b
    linear = 2.0 * float(state.beta @ kernel_change)
    quadratic = 2.0 * float(delta @ kernel_change)
    t = minimize_restricted(
        RestrictedObjective(loss, y, v, state.values, change, linear, quadratic)
    )
    moved = evaluate(G, y, v, loss, state.beta + t * delta, state.intercept + t * delta_b)
    largest = float(np.abs(change).max(initial=0.0)) + abs(state.intercept - before)
    return replace(moved, n_steps=state.n_steps + 1), largest


def minimize_newton(
    G: FloatArray,
    y: FloatArray,
    v: FloatArray,
    loss: Loss,
    start: LabelState,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> LabelState:
    """Newton's method with exact line search, from ``start`` to the optimum.

    The objective is strictly convex with a bounded Hessian, so the method converges from
    anywhere; for the piecewise quadratic losses it ends after finitely many steps. It stops when
    a Newton step moves no fitted value by more than ``tol`` (relative to the largest, at least 1).
    """
    state = start
    for _ in range(max_iter):
        state, largest = damped_step(G, y, v, loss, state, fit_intercept)
        if largest <= tol * max(1.0, float(np.abs(state.values).max(initial=0.0))):
            state = replace(state, converged=True)
            break
    return settle_intercept(G, y, v, loss, state) if fit_intercept else state


@dataclass(frozen=True)
class LabelFit:
    """Solution of a label problem for every output: arrays of shape (l, q), intercepts (q,)."""

    states: tuple[LabelState, ...]

    @property
    def beta(self) -> FloatArray:
        """Dual weights, one column an output."""
        return np.column_stack([state.beta for state in self.states])

    @property
    def intercept(self) -> FloatArray:
        """Intercepts."""
        return np.array([state.intercept for state in self.states])

    @property
    def values(self) -> FloatArray:
        """Fitted values on the labelled rows."""
        return np.column_stack([state.values for state in self.states])

    @property
    def slope(self) -> FloatArray:
        """First derivatives of the weighted loss."""
        return np.column_stack([state.slope for state in self.states])

    @property
    def curvature(self) -> FloatArray:
        """Second derivatives of the weighted loss."""
        return np.column_stack([state.curvature for state in self.states])

    @property
    def n_steps(self) -> int:
        """Linear systems solved, over all outputs."""
        return sum(state.n_steps for state in self.states)

    @property
    def converged(self) -> bool:
        """Whether every output met the tolerance."""
        return all(state.converged for state in self.states)


def solve_labels(
    G: FloatArray,
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
    G : array of shape (l, l)
        Deformed kernel of the labelled rows, divided by the ambient penalty.
    Y : array of shape (l, q)
        Targets; +-1 for the classification losses.
    v : array of shape (l,)
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
    states = []
    for y, begin in zip(Y.T, start.states, strict=True):
        first = evaluate(G, y, v, loss, begin.beta, begin.intercept)
        states.append(
            minimize_newton(
                G, y, v, loss, first, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter
            )
        )
    return LabelFit(tuple(states))


def solve_square(
    G: FloatArray, Y: FloatArray, v: FloatArray, *, fit_intercept: bool = False
) -> LabelFit:
    r"""Closed form of (3) for the square loss: :math:`(G + \mathrm{diag}(1/v))\beta = y - b`."""
    loss = Square()
    rows = np.flatnonzero(v)
    beta = np.zeros_like(Y)
    beta[rows], b = square_weights(G[np.ix_(rows, rows)], Y[rows], v[rows], fit_intercept)
    states = (
        replace(evaluate(G, Y[:, j], v, loss, beta[:, j], b[j]), n_steps=1, converged=True)
        for j in range(Y.shape[1])
    )
    return LabelFit(tuple(states))


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

r"""Folds that remove points: every fold's own problem, all folds at once.

Fold i keeps :math:`N'` rows, :math:`l'` labels and the graph that is left, :math:`L_i`. Its Hessian
(5) acts on coefficients as

.. math:: H_i = 2\gamma_A I + \left(F_i + \frac{2\gamma_I}{N'^2} L_i\right)_{op} .

No fold is factored. Conjugate gradients are preconditioned by the *full* problem's factorisation
with the fold's own labels, so that only the few removed rows of the graph remain to be corrected;
the kernel multiplies a block with one column a fold. A fold on which this stalls is solved densely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from onefit._typing import BoolArray, FloatArray, IntArray, Sparse
from onefit.basis import Basis, Deformed
from onefit.losses import Loss
from onefit.solvers.correction import label_correction
from onefit.solvers.dense import solve_dense
from onefit.solvers.hessian import FullHessian, solve_bordered
from onefit.solvers.intercept import optimal_intercept
from onefit.solvers.line_search import RestrictedObjective, minimize_restricted

__all__ = ["FoldColumn", "FoldSystems", "FoldsSolution", "FoldsState", "minimize_folds"]

_CG_TOL = 1e-11
_CG_MAX_ITER = 60


@dataclass(frozen=True)
class FoldColumn:
    r"""One fold and one output: the objective of a single column.

    ``laplacian`` is :math:`L_i` padded to N x N, ``scale`` is :math:`\gamma_I / N'^2`, ``v`` the
    weights of the labels (0 where held out), ``y`` the targets.
    """

    laplacian: Sparse
    scale: float
    v: FloatArray
    y: FloatArray


@dataclass(frozen=True)
class FoldsState:
    """A candidate function for every column: coefficients, kernel values on all rows, intercept."""

    coef: FloatArray
    kernel_values: FloatArray
    intercept: FloatArray

    @property
    def values(self) -> FloatArray:
        """F on all rows, one column a fold and output."""
        return self.kernel_values + self.intercept


@dataclass(frozen=True)
class FoldSystems:
    """All columns of one problem.

    Parameters
    ----------
    basis, deformed
        Function space and the full problem's factorisation.
    gram : array of shape (l, l)
        G of the full problem.
    columns : sequence of FoldColumn
        The objectives.
    loss : Loss
        Their common loss.
    ambient_penalty : float
        gamma_A.
    fit_intercept : bool
        Whether f has a constant.
    """

    basis: Basis
    deformed: Deformed
    gram: FloatArray
    columns: Sequence[FoldColumn]
    loss: Loss
    ambient_penalty: float
    fit_intercept: bool

    @property
    def labelled(self) -> IntArray:
        """Numbers of the labelled rows."""
        return self.basis.labelled

    def slopes(self, f: FloatArray) -> FloatArray:
        """V loss'(y, f) for labelled values f of shape (l, m)."""
        loss = self.loss
        return np.column_stack(
            [c.v * loss.derivative(c.y, f[:, j]) for j, c in enumerate(self.columns)]
        )

    def curvatures(self, f: FloatArray) -> FloatArray:
        """V loss''(y, f), the diagonal of F_i."""
        loss = self.loss
        return np.column_stack(
            [c.v * loss.second_derivative(c.y, f[:, j]) for j, c in enumerate(self.columns)]
        )

    def smoothness(self, kernel_values: FloatArray) -> FloatArray:
        """2 gamma_I / N'^2 L_i f for every column."""
        result = np.empty_like(kernel_values)
        for j, column in enumerate(self.columns):
            result[:, j] = column.laplacian @ kernel_values[:, j]
            result[:, j] *= 2.0 * column.scale
        return result

    def gradient(self, state: FoldsState) -> tuple[FloatArray, FloatArray]:
        """Gradient of every objective: its representer in coefficients, and that of b."""
        slope = self.slopes(state.values[self.labelled])
        weights = self.smoothness(state.kernel_values)
        weights[self.labelled] += slope
        coef = self.basis.representer(weights) + 2.0 * self.ambient_penalty * state.coef
        return coef, slope.sum(axis=0)

    def gradient_norms(self, state: FoldsState) -> FloatArray:
        """Norms in the RKHS of the gradients of all columns."""
        gradient, _ = self.gradient(state)
        squares = self.basis.inner(gradient, gradient, self.basis.values(gradient))
        return np.sqrt(np.maximum(squares, 0.0))

    def settle_intercepts(self, state: FoldsState) -> FoldsState:
        """Move intercepts to their optimum where Newton's equations leave them open."""
        labelled = state.kernel_values[self.labelled]
        F = self.curvatures(labelled + state.intercept)
        b = state.intercept.copy()
        for j in np.flatnonzero(~np.any(F > 0.0, axis=0)):
            column = self.columns[int(j)]
            b[j] = optimal_intercept(self.loss, column.y, column.v, labelled[:, j], float(b[j]))
        return FoldsState(state.coef, state.kernel_values, b)

    def newton_direction(self, state: FoldsState) -> tuple[FoldsState, int]:
        """Newton's direction of every column, and how many systems were solved for it."""
        gradient, gradient_b = self.gradient(state)
        F = self.curvatures(state.values[self.labelled])
        system = _FoldHessians(self, F)
        if not self.fit_intercept:
            coef, values, n_solves = system.solve(-gradient)
            return FoldsState(coef, values, np.zeros(len(self.columns))), n_solves
        ones = np.zeros((self.basis.n_rows, len(self.columns)))
        ones[self.labelled] = F
        coef, values, first = system.solve(-gradient)
        coef_one, values_one, second = system.solve(self.basis.representer(ones))
        b = np.zeros(len(self.columns))
        for j in np.flatnonzero(np.any(F > 0.0, axis=0)):
            b[j] = solve_bordered(
                values[self.labelled, j][:, None],
                values_one[self.labelled, j],
                F[:, j],
                -gradient_b[[j]],
            )[0]
        moved = FoldsState(coef - coef_one * b, values - values_one * b, b)
        return moved, first + second


@dataclass(frozen=True)
class _FoldHessians:
    """The Hessians H_i of all columns at given curvatures F (l, m)."""

    systems: FoldSystems
    F: FloatArray

    def apply(self, coef: FloatArray, kernel_values: FloatArray) -> FloatArray:
        """H_i a for every column a with values f."""
        weights = self.systems.smoothness(kernel_values)
        labelled = self.systems.labelled
        weights[labelled] += self.F * kernel_values[labelled]
        basis = self.systems.basis
        return basis.representer(weights) + 2.0 * self.systems.ambient_penalty * coef

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray, int]:
        """H_i^-1 right, its values on all rows, and the number of systems solved."""
        basis = self.systems.basis
        coef, values, stalled, n_iter = self._conjugate_gradients(right)
        for j in np.flatnonzero(stalled):
            coef[:, j] = self._solve_densely(int(j), right[:, j])
            values[:, j] = basis.values(coef[:, [j]])[:, 0]
        return coef, values, n_iter * right.shape[1] + int(stalled.sum())

    def _conjugate_gradients(
        self, right: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray, int]:
        basis = self.systems.basis
        precondition = self._preconditioner()
        coef, values = np.zeros_like(right), np.zeros((basis.n_rows, right.shape[1]))
        residual = right.copy()
        step = precondition(residual)
        step_values = basis.values(step)
        size = basis.inner(residual, step, step_values)
        small = _CG_TOL**2 * size
        n_iter = 0
        while n_iter < _CG_MAX_ITER and np.any(size > small):
            image = self.apply(step, step_values)
            with np.errstate(divide="ignore", invalid="ignore"):
                length = np.where(size > small, size / basis.inner(image, step, step_values), 0.0)
            coef += length * step
            values += length * step_values
            residual -= length * image
            fresh = precondition(residual)
            fresh_values = basis.values(fresh)
            new_size = basis.inner(residual, fresh, fresh_values)
            turn = np.divide(new_size, size, out=np.zeros_like(size), where=size > small)
            step, step_values = fresh + turn * step, fresh_values + turn * step_values
            size = new_size
            n_iter += 1
        return coef, values, size > small, n_iter

    def _preconditioner(self) -> _ColumnwisePreconditioner:
        systems = self.systems
        corrections = [label_correction(systems.gram, f) for f in self.F.T]
        return _ColumnwisePreconditioner(
            [
                FullHessian(systems.basis, systems.deformed, systems.ambient_penalty, correction)
                for correction in corrections
            ]
        )

    def _solve_densely(self, j: int, right: FloatArray) -> FloatArray:
        systems = self.systems
        column = systems.columns[j]
        diagonal = np.zeros(systems.basis.n_rows)
        diagonal[systems.labelled] = self.F[:, j]
        S = sp.csr_array(2.0 * column.scale * column.laplacian + sp.diags_array(diagonal))
        H = systems.basis.dense_operator(S)
        H.flat[:: H.shape[0] + 1] += 2.0 * systems.ambient_penalty
        return solve_dense(H, right, "a fold")


@dataclass(frozen=True)
class _ColumnwisePreconditioner:
    """The full Hessian with each column's own labels, applied to a block."""

    hessians: Sequence[FullHessian]

    def __call__(self, right: FloatArray) -> FloatArray:
        first = self.hessians[0]
        penalty = 2.0 * first.ambient_penalty
        undeformed = first.deformed.solve(right) / penalty
        labelled = first.basis.labelled_values(undeformed)
        pull = np.column_stack(
            [h.correction(labelled[:, [j]])[:, 0] for j, h in enumerate(self.hessians)]
        )
        return undeformed - first.deformed.expand(pull) / penalty


@dataclass(frozen=True)
class FoldsSolution:
    """Where Newton's method ended, and what it took."""

    state: FoldsState
    n_solves: int
    converged: bool


def minimize_folds(
    systems: FoldSystems,
    start: FoldsState,
    *,
    n_steps: int | None = None,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> FoldsSolution:
    """Newton's method on every column.

    Parameters
    ----------
    systems : FoldSystems
        The objectives.
    start : FoldsState
        Where to begin: the full solution in every column.
    n_steps : int, optional
        Take exactly this many steps, the first one undamped (equation (7)); until convergence
        when None.
    tol, max_iter
        Stop when no fitted value moves by more than ``tol`` of the largest (at least 1).
    """
    state, n_solves = start, 0
    undamped = systems.loss.is_quadratic
    limit = (1 if undamped else max_iter) if n_steps is None else n_steps
    converged = n_steps is not None or undamped
    for step in range(limit):
        before = state.intercept
        if systems.fit_intercept:
            state = systems.settle_intercepts(state)
        direction, solved = systems.newton_direction(state)
        n_solves += solved
        full_step = undamped or (n_steps is not None and step == 0)
        lengths = np.ones(len(systems.columns))
        if not full_step:
            lengths = _line_searches(systems, state, direction)
        state = FoldsState(
            state.coef + lengths * direction.coef,
            state.kernel_values + lengths * direction.kernel_values,
            state.intercept + lengths * direction.intercept,
        )
        largest = np.abs(direction.values).max(initial=0.0)
        largest += np.abs(state.intercept - before - lengths * direction.intercept).max(initial=0.0)
        if n_steps is None and largest <= tol * max(1.0, float(np.abs(state.values).max())):
            converged = True
            break
    if systems.fit_intercept and n_steps is None:
        state = systems.settle_intercepts(state)
    return FoldsSolution(state, n_solves, converged)


def _line_searches(systems: FoldSystems, state: FoldsState, direction: FoldsState) -> FloatArray:
    """Exact step length of every column."""
    basis, labelled = systems.basis, systems.labelled
    values, changes = state.values[labelled], direction.values[labelled]
    smooth = systems.smoothness(direction.kernel_values)
    ambient = 2.0 * systems.ambient_penalty
    linear = ambient * basis.inner(state.coef, direction.coef, direction.kernel_values) + np.einsum(
        "ij,ij->j", state.kernel_values, smooth
    )
    quadratic = ambient * basis.inner(
        direction.coef, direction.coef, direction.kernel_values
    ) + np.einsum("ij,ij->j", direction.kernel_values, smooth)
    y = np.column_stack([column.y for column in systems.columns])
    v = np.column_stack([column.v for column in systems.columns])
    return minimize_restricted(
        RestrictedObjective(systems.loss, y, v, values, changes, linear, quadratic)
    )

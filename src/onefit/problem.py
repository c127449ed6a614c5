r"""One fit: the objective (1) on given rows, and its solution.

.. math:: J(f) = \sum_{i \in L} v_i\, \ell(y_i, f(x_i)) + \gamma_A \lVert f \rVert_\kappa^2
          + \frac{\gamma_I}{N^2} f' L f.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from onefit._typing import FloatArray
from onefit.anchors import AnyGraph
from onefit.basis import Basis, Deformed
from onefit.losses import Loss
from onefit.solvers.labels import LabelFit, solve_labels
from onefit.targets import LabelWeights

__all__ = ["Fit", "Problem", "said_if_singular", "singular_error"]


@dataclass(frozen=True)
class Problem:
    """The objective (1).

    Parameters
    ----------
    basis : Basis
        Function space on the N rows.
    graph : Graph
        Graph whose Laplacian the basis uses.
    targets : array of shape (l, q)
        What the loss compares with.
    weights : LabelWeights
        Weights of the loss for any subset of the labels.
    loss : Loss
        The loss.
    ambient_penalty, manifold_penalty : float
        gamma_A and gamma_I.
    fit_intercept : bool
        Whether f has an unpenalised constant.
    tol, max_iter
        Stopping rule of the iterative solvers.
    """

    basis: Basis
    graph: AnyGraph
    targets: FloatArray
    weights: LabelWeights
    loss: Loss
    ambient_penalty: float
    manifold_penalty: float
    fit_intercept: bool = False
    tol: float = 1e-8
    max_iter: int = 200

    @property
    def n_rows(self) -> int:
        """Number of rows, N."""
        return self.basis.n_rows

    @property
    def n_labelled(self) -> int:
        """Number of labelled rows, l."""
        return self.targets.shape[0]

    @property
    def manifold_scale(self) -> float:
        """gamma_I / N^2, the factor of f'Lf."""
        return self.manifold_penalty / self.n_rows**2

    @cached_property
    def deformed(self) -> Deformed:
        """The deformed kernel of r = gamma_I / (gamma_A N^2), factored."""
        return self.basis.deform(self.manifold_scale / self.ambient_penalty)

    @cached_property
    def gram(self) -> FloatArray:
        """G of equation (3)."""
        return self.deformed.labelled_gram / self.ambient_penalty

    def with_penalties(self, ambient_penalty: float, manifold_penalty: float) -> Problem:
        """The same problem with other penalties; of the same ratio, it shares the factorisation."""
        other = replace(self, ambient_penalty=ambient_penalty, manifold_penalty=manifold_penalty)
        ratios = [p.manifold_penalty / p.ambient_penalty for p in (self, other)]
        if math.isclose(*ratios, rel_tol=1e-11):
            other.__dict__["deformed"] = self.deformed
        return other

    def solve(self) -> Fit:
        """Minimise the objective on all labels."""
        labels = solve_labels(
            self.gram,
            self.targets,
            self.weights.normalized(),
            self.loss,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        return Fit(self, labels)


@contextmanager
def said_if_singular(problem: Problem) -> Iterator[None]:
    """A failure of LAPACK in the block as an error that says what to do; overflow is silent.

    Whoever uses it looks whether the results are finite.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except np.linalg.LinAlgError:
        raise singular_error(problem) from None


def singular_error(problem: Problem) -> ValueError:
    """What to say of a problem that double precision cannot hold."""
    other = f"; or lower manifold_penalty={problem.manifold_penalty!r}"
    return ValueError(
        f"ambient_penalty={problem.ambient_penalty!r} is too small for kernel values up to "
        f"{problem.basis.squared_norms_of_evaluation().max():.3g} and targets up to "
        f"{np.abs(problem.targets).max():.3g}: the linear systems of the fit are singular to "
        "rounding. Raise ambient_penalty, or rescale X or y"
        f"{other if problem.manifold_penalty > 0.0 else ''}."
    )


@dataclass(frozen=True)
class Fit:
    """The solution of a :class:`Problem`."""

    problem: Problem
    labels: LabelFit

    @cached_property
    def coef(self) -> FloatArray:
        """Coefficients of f in the basis, one column an output."""
        problem = self.problem
        return problem.deformed.expand(self.labels.beta) / problem.ambient_penalty

    @cached_property
    def kernel_values(self) -> FloatArray:
        """Values of f without its intercept on all N rows."""
        return self.problem.basis.values(self.coef)

    @property
    def values(self) -> FloatArray:
        """Values of f on all N rows."""
        return self.kernel_values + self.labels.intercept

    def relative_gradient(self) -> float:
        r"""Norm of the gradient of J in the RKHS, relative to that at f = 0.

        :math:`\lVert 2\gamma_A f + \sum_i u_i \kappa(x_i, \cdot) \rVert_\kappa` with
        :math:`u = v\,\ell'(y, f) + 2\gamma_I/N^2\, L f`. What is left of it is rounding, once
        Newton's method has converged.
        """
        problem, basis = self.problem, self.problem.basis
        v = problem.weights.normalized()[:, None]
        at_zero = np.zeros_like(self.kernel_values)
        at_zero[basis.labelled] = v * problem.loss.derivative(
            problem.targets, np.zeros_like(problem.targets)
        )
        u = 2.0 * problem.manifold_scale * (basis.laplacian @ self.kernel_values)
        # At the values that the coefficients give, which are what predictions come from.
        u[basis.labelled] += v * problem.loss.derivative(
            problem.targets, self.values[basis.labelled]
        )
        gradient = 2.0 * problem.ambient_penalty * self.coef + basis.representer(u)
        largest = self._norms(basis.representer(at_zero)).max()
        return float(self._norms(gradient).max() / largest) if largest > 0.0 else 0.0

    def _norms(self, coef: FloatArray) -> FloatArray:
        basis, size = self.problem.basis, max(np.abs(coef).max(), np.finfo(float).tiny)
        scaled = coef / size  # squares of large targets would overflow
        return size * np.sqrt(np.maximum(basis.inner(scaled, scaled, basis.values(scaled)), 0.0))

r"""Hessians of the full problem, factored once for any number of right-hand sides.

The Hessian of (1) acts on coefficients as :math:`H = 2\gamma_A (I + r L_{op}) + F_{op}`. The
deformed kernel inverts the first part; the labels are a correction of rank l by the Woodbury
identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl

from onefit._interrupts import aside
from onefit._lapack import solve_triangular
from onefit._typing import FloatArray, IntArray
from onefit.basis import Basis, Deformed
from onefit.factors import pivoted_cholesky
from onefit.solvers.correction import LabelCorrection

__all__ = [
    "FullHessian",
    "LabelPart",
    "NystromHessian",
    "nystrom_features",
    "nystrom_hessian",
    "solve_bordered",
]


@dataclass(frozen=True)
class FullHessian:
    """H of the full problem, on coefficients."""

    basis: Basis
    deformed: Deformed
    ambient_penalty: float
    correction: LabelCorrection

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """H^-1 right, and its values on all rows."""
        penalty = 2.0 * self.ambient_penalty
        undeformed = self.deformed.solve(right) / penalty
        pull = self.correction(self.basis.labelled_values(undeformed))
        coef = undeformed - self.deformed.expand(pull) / penalty
        return coef, self.basis.values(coef)


def solve_bordered(
    labelled: FloatArray, labelled_one: FloatArray, curvature: FloatArray, right: FloatArray
) -> FloatArray:
    r"""Change of the intercept in :math:`H a + F_{op} 1\, b = r,\ 1'F (f_a + b) = \text{right}`.

    Parameters
    ----------
    labelled : array of shape (l, m)
        Values of :math:`H^{-1} r` on the labelled rows.
    labelled_one : array of shape (l,)
        Values of :math:`H^{-1}` applied to the representer of F 1 there.
    curvature : array of shape (l,)
        F.
    right : array of shape (m,)
        Right-hand sides of the intercept's equation.
    """
    pivot = float(curvature.sum() - curvature @ labelled_one)
    if pivot <= 0.0:
        return np.zeros(labelled.shape[1])
    return (right - curvature @ labelled) / pivot


@dataclass(frozen=True)
class LabelPart:
    r"""T = K F + 2 gamma_A I on function values: block triangular, inverted in :math:`O(l^3)`."""

    labelled: IntArray
    columns: FloatArray
    curvature: FloatArray
    ambient_penalty: float
    factor: tuple[FloatArray, Any]

    def solve(self, values: FloatArray) -> FloatArray:
        """T^-1 values."""
        on_labels = sl.lu_solve(self.factor, values[self.labelled], check_finite=False)
        result = values - self.columns @ (self.curvature[:, None] * on_labels)
        result /= 2.0 * self.ambient_penalty
        result[self.labelled] = on_labels
        return result


def label_part(basis: Basis, curvature: FloatArray, ambient_penalty: float) -> LabelPart:
    """Factor the labelled block of T."""
    columns = basis.labelled_columns
    block = columns[basis.labelled] * curvature
    block.flat[:: curvature.size + 1] += 2.0 * ambient_penalty
    factor = aside(block.shape[0] ** 3, sl.lu_factor, block, overwrite_a=True, check_finite=False)
    return LabelPart(basis.labelled, columns, curvature, ambient_penalty, factor)


@dataclass(frozen=True)
class NystromHessian:
    r"""The paper's approximate Hessian and its inverse by Woodbury, equation (9).

    On function values :math:`\tilde H = T + 2 c\, U U' L`, with :math:`c = \gamma_I / N^2` and
    :math:`U U' = C P^+ C'` the Nystrom approximation of K. Built by :func:`nystrom_hessian`.
    """

    basis: Basis
    labels: LabelPart
    manifold_scale: float
    features: FloatArray
    row_weights: FloatArray
    inverse_features: FloatArray
    core: tuple[FloatArray, Any]

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """H^-1 right in coefficients, and its values on all rows."""
        values = self.solve_values(self.basis.values(right))
        labelled, laplacian = self.basis.labelled, self.basis.laplacian
        smooth = self.row_weights @ (self.features.T @ (laplacian @ values))
        weights = (2.0 * self.manifold_scale) * smooth
        weights[labelled] += self.labels.curvature[:, None] * values[labelled]
        coef = (right - self.basis.representer(weights)) / (2.0 * self.labels.ambient_penalty)
        return coef, values

    def solve_values(self, values: FloatArray) -> FloatArray:
        """H^-1 on function values."""
        by_labels = self.labels.solve(values)
        inner = self.features.T @ (self.basis.laplacian @ by_labels)
        core = sl.lu_solve(self.core, inner, check_finite=False)
        return by_labels - (2.0 * self.manifold_scale) * (self.inverse_features @ core)


def nystrom_hessian(
    basis: Basis,
    landmarks: IntArray,
    curvature: FloatArray,
    ambient_penalty: float,
    manifold_scale: float,
) -> NystromHessian:
    """Factor the approximate Hessian with these landmarks: O(l^3 + N c^2)."""
    labels = label_part(basis, curvature, ambient_penalty)
    U, row_weights = nystrom_features(basis, landmarks)
    inverse_U = labels.solve(U)
    core = (2.0 * manifold_scale) * (U.T @ (basis.laplacian @ inverse_U))
    core.flat[:: core.shape[0] + 1] += 1.0
    factor = aside(core.shape[0] ** 3, sl.lu_factor, core, overwrite_a=True, check_finite=False)
    return NystromHessian(basis, labels, manifold_scale, U, row_weights, inverse_U, factor)


def nystrom_features(basis: Basis, landmarks: IntArray) -> tuple[FloatArray, FloatArray]:
    """U with U U' = C P^+ C', and the kernel weights on the rows that give its columns."""
    columns = basis.kernel_columns(landmarks)
    lower, kept = pivoted_cholesky(columns[landmarks])
    U = solve_triangular(lower, columns[:, kept].T, lower=True).T
    row_weights = np.zeros((basis.n_rows, kept.size))
    row_weights[landmarks[kept]] = sl.solve_triangular(
        lower, np.eye(kept.size), lower=True, trans=1, check_finite=False
    )
    return U, row_weights

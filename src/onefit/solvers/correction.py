r"""The label part of a Hessian, factored.

With :math:`F = \mathrm{diag}(v\,\ell'')` on the l labelled rows, Newton's equations in any of our
bases reduce to

.. math:: C(x) = F (I + G F / 2)^{-1} x = 2 F^{1/2} (2I + F^{1/2} G F^{1/2})^{-1} F^{1/2} x,

a positive definite system on the rows with curvature; nothing is divided by F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onefit._interrupts import aside
from onefit._lapack import cho_factor, cho_solve
from onefit._typing import FloatArray, IntArray
from onefit.solvers.grams import Gram, block_of, blocks

__all__ = ["LabelCorrection", "label_correction", "label_response"]

#: Rows with curvature up to which systems are solved in one stack: its LU factors take twice the
#: operations of Cholesky's, but no Python in between.
_SMALL = 128


@dataclass(frozen=True)
class LabelCorrection:
    """C(x) above, for one diagonal F."""

    active: IntArray
    root: FloatArray
    factor: tuple[FloatArray, bool]

    def __call__(self, x: FloatArray) -> FloatArray:
        """F (I + G F / 2)^-1 x for x of shape (l, m)."""
        result = np.zeros_like(x)
        right = self.root[:, None] * x[self.active]
        result[self.active] = (2.0 * self.root[:, None]) * cho_solve(self.factor, right)
        return result


def label_correction(G: Gram, curvature: FloatArray, column: int = 0) -> LabelCorrection:
    """Factor 2I + F^1/2 G F^1/2 on the rows with curvature, G that of a column."""
    active = np.flatnonzero(curvature > 0.0)
    root = np.sqrt(curvature[active])
    system = root[:, None] * block_of(G, column, active) * root
    system.flat[:: active.size + 1] += 2.0
    return LabelCorrection(active, root, cho_factor(system))


def label_response(
    G: Gram, curvature: FloatArray, xi: FloatArray, totals: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    r"""Solve :math:`2\delta + F(G\delta + b) = \xi` with :math:`\sum_i \delta_i` = ``totals``.

    Every column of ``curvature`` and ``xi``, of shape (l, m), is a system of its own, with the
    matrix that all share or its own. The solution is :math:`\delta = \xi/2 - \tfrac12 C(G\xi/2 +
    b)`. Without an intercept (``totals`` None), or without curvature to determine it, b is 0.
    """
    right = 0.5 * (G @ xi)[:, :, None]
    if totals is not None:
        right = np.concatenate([right, np.ones_like(right)], axis=2)
    n_active = np.count_nonzero(curvature > 0.0, axis=0)
    largest = int(n_active.max(initial=0))
    if largest <= _SMALL and xi.shape[1] > 1:
        corrected = _corrected(G, curvature, right, largest)
    else:
        corrected = np.empty_like(right)
        for j, column in enumerate(curvature.T):
            corrected[:, j] = label_correction(G, column, j)(right[:, j])
    if not np.isfinite(corrected).all():
        raise np.linalg.LinAlgError("the system of the labels has no finite solution.")
    delta = 0.5 * (xi - corrected[:, :, 0])
    b = np.zeros(xi.shape[1])
    if totals is None:
        return delta, b
    by_one = 0.5 * corrected[:, :, 1]
    np.divide(delta.sum(axis=0) - totals, by_one.sum(axis=0), out=b, where=n_active > 0)
    return delta - b * by_one, b


def _corrected(G: Gram, curvature: FloatArray, x: FloatArray, size: int) -> FloatArray:
    """C(x) for x of shape (l, m, k), column by column, as one stack of systems of this size.

    Systems that are smaller are filled up with rows without curvature, of which nothing comes.
    """
    active = np.argsort(curvature <= 0.0, axis=0, kind="stable")[:size]
    own = active, np.arange(active.shape[1])
    root = np.sqrt(curvature[own]).T[:, :, None]
    rows = active.T
    systems = root * blocks(G, rows) * root.swapaxes(1, 2)
    systems[:, np.arange(size), np.arange(size)] += 2.0
    right = root * x[own].swapaxes(0, 1)
    solution = aside(systems.size * size, np.linalg.solve, systems, right)
    result = np.zeros_like(x)
    result[own] = (2.0 * root * solution).swapaxes(0, 1)
    return result

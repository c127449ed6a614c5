r"""The label part of a Hessian, factored.

With :math:`F = \mathrm{diag}(v\,\ell'')` on the l labelled rows, Newton's equations in any of our
bases reduce to

.. math:: C(x) = F (I + G F / 2)^{-1} x = 2 F^{1/2} (2I + F^{1/2} G F^{1/2})^{-1} F^{1/2} x,

a positive definite system on the rows with curvature; nothing is divided by F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onefit._lapack import cho_factor, cho_solve
from onefit._typing import FloatArray, IntArray

__all__ = ["LabelCorrection", "label_correction", "label_response"]


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


def label_correction(G: FloatArray, curvature: FloatArray) -> LabelCorrection:
    """Factor 2I + F^1/2 G F^1/2 on the rows with curvature."""
    active = np.flatnonzero(curvature > 0.0)
    root = np.sqrt(curvature[active])
    system = root[:, None] * G[np.ix_(active, active)] * root
    system.flat[:: active.size + 1] += 2.0
    return LabelCorrection(active, root, cho_factor(system))


def label_response(
    G: FloatArray, curvature: FloatArray, xi: FloatArray, total: float | None
) -> tuple[FloatArray, float]:
    r"""Solve :math:`2\delta + F(G\delta + b) = \xi` with :math:`\sum_i \delta_i` = ``total``.

    The solution is :math:`\delta = \xi/2 - \tfrac12 C(G\xi/2 + b)`. Without an intercept
    (``total`` None), or without curvature to determine it, b is 0.
    """
    correct = label_correction(G, curvature)
    right = np.column_stack([0.5 * (G @ xi), np.ones(xi.size)])
    by_xi, by_one = 0.5 * correct(right).T
    delta = 0.5 * xi - by_xi
    if total is None or correct.active.size == 0:
        return delta, 0.0
    b = float((delta.sum() - total) / by_one.sum())
    return delta - b * by_one, b

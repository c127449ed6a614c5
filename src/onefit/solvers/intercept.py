"""The intercept that is optimal for a given kernel part of f."""

from __future__ import annotations

from scipy.optimize import brentq

from onefit._typing import FloatArray
from onefit.losses import Loss

__all__ = ["optimal_intercept"]

_FARTHEST = 1e15


def optimal_intercept(
    loss: Loss, y: FloatArray, v: FloatArray, kernel_values: FloatArray, near: float
) -> float:
    """Zero of the intercept's slope, sum_i v_i loss'(y_i, f_i + b), found from ``near`` outwards.

    The slope does not fall in b. Where it has no zero, because all labels pull the same way, the
    answer is ``near``.
    """

    def slope(b: float) -> float:
        return float(v @ loss.derivative(y, kernel_values + b))

    at_near = slope(near)
    if at_near == 0.0:
        return near
    direction = -1.0 if at_near > 0.0 else 1.0
    inner, reach = near, 1e-8
    while reach < _FARTHEST:
        outer = near + direction * reach
        if slope(outer) * at_near <= 0.0:
            return float(brentq(slope, inner, outer, xtol=1e-14))
        inner, reach = outer, 4.0 * reach
    return near

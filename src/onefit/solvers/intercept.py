"""The intercept that is optimal for a given kernel part of f."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from onefit._typing import FloatArray
from onefit.losses import Loss

__all__ = ["optimal_intercept"]

#: A slope below this share of the single slopes is zero up to rounding.
_FLAT = 1e-12
_FARTHEST = 1e15


def optimal_intercept(
    loss: Loss, y: FloatArray, v: FloatArray, kernel_values: FloatArray, near: float
) -> float:
    """Middle of the intercepts for which sum_i v_i loss'(y_i, f_i + b) vanishes.

    Hinge losses can leave a whole interval of optimal intercepts. Its middle does not depend on
    where the search begins, so that a fold cannot remember the labels it was started from. Where
    there is no finite optimum, because all labels pull the same way, the answer is ``near``.
    """
    flat = _FLAT * float(v.sum())

    def slope(b: float) -> float:
        return float(v @ loss.derivative(y, kernel_values + b))

    # The slope does not fall in b: it leaves -flat at the left end and reaches flat at the right.
    left = _crossing(lambda b: slope(b) + flat, near)
    right = _crossing(lambda b: slope(b) - flat, near)
    if left is None or right is None:
        return near
    return 0.5 * (left + right)


def _crossing(rising: Callable[[float], float], near: float) -> float | None:
    """Zero of a function that does not fall, searched from ``near`` outwards."""
    at_near = rising(near)
    if at_near == 0.0:
        return near
    direction = -np.sign(at_near)
    inner, reach = near, 1e-8
    while reach < _FARTHEST:
        outer = near + float(direction) * reach
        if rising(outer) * at_near <= 0.0:
            return float(brentq(rising, inner, outer, xtol=1e-14))
        inner, reach = outer, 4.0 * reach
    return None

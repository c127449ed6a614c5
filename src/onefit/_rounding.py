"""Numbers of which rounding has left no digit.

Far from all labels a decision may be 1e-30, with the sign of the nearest label. Computed as the
difference of numbers of size 1 it is 1e-16 with any sign, or with that of the label held out.
"""

from __future__ import annotations

import numpy as np

from onefit._typing import FloatArray

__all__ = ["is_rounding", "settled"]


def is_rounding(values: FloatArray, scale: FloatArray | float, tol: float = 1e-12) -> np.ndarray:
    """Which values are differences of numbers of size ``scale`` without a correct digit."""
    return np.abs(values) <= tol * scale


def settled(
    values: FloatArray, exact: FloatArray, scale: FloatArray | float, tol: float = 1e-12
) -> FloatArray:
    """The values, with those of ``exact`` where both are so small: none changes by more."""
    return np.where(is_rounding(values, scale, tol) & is_rounding(exact, scale, tol), exact, values)

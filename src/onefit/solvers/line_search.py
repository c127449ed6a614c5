"""Exact minimisation of a convex function along a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onefit._typing import FloatArray
from onefit.losses import Loss

__all__ = ["RestrictedObjective", "minimize_along_line", "minimize_restricted"]

#: A step is accepted as it stands when the slope at its end is this small a share of the first.
_SLOPE_RATIO = 1e-3
_MAX_DOUBLINGS = 60
_MAX_STEPS = 80


@dataclass(frozen=True)
class RestrictedObjective:
    r"""Slope and curvature of :math:`\sum_i v_i \ell(y_i, f_i + t d_i) + a t + \tfrac12 q t^2`.

    ``values`` is f, ``change`` is d; ``linear`` and ``quadratic`` are a and q, what the penalties
    contribute along the line.
    """

    loss: Loss
    y: FloatArray
    v: FloatArray
    values: FloatArray
    change: FloatArray
    linear: float
    quadratic: float

    def __call__(self, t: float) -> tuple[float, float]:
        """First and second derivative at t."""
        f = self.values + t * self.change
        slope = (self.v * self.loss.derivative(self.y, f)) @ self.change
        curvature = (self.v * self.loss.second_derivative(self.y, f)) @ np.square(self.change)
        return (
            float(slope) + self.linear + t * self.quadratic,
            float(curvature) + self.quadratic,
        )


def minimize_restricted(objective: RestrictedObjective) -> float:
    """Step t > 0 at which the slope of the objective vanishes; see :func:`minimize_along_line`.

    For piecewise quadratic losses the slope is piecewise linear, and its zero a matter of sorting.
    """
    if objective.loss.band is None:
        return minimize_along_line(objective)
    slope, _ = objective(0.0)
    if slope >= 0.0:
        return 0.0
    times, slopes, curvatures = _pieces(objective, objective.loss.band, slope)
    at_one = int(np.searchsorted(times, 1.0, side="right")) - 1
    slope_at_one = slopes[at_one] + curvatures[at_one] * (1.0 - times[at_one])
    if abs(slope_at_one) <= -_SLOPE_RATIO * slope:
        return 1.0
    last = int(np.searchsorted(slopes, 0.0, side="left")) - 1
    if curvatures[last] <= 0.0:
        # Rounding has left nothing of a curvature: the general method copes with that.
        return minimize_along_line(objective)
    return float(times[last] - slopes[last] / curvatures[last])


@np.errstate(over="ignore")
def _pieces(
    objective: RestrictedObjective, band: tuple[float, float, float], slope: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where the pieces of the slope begin, the slope there, and its rate of change from there.

    A value that hardly moves is never in or out of the band: its times overflow, and are left out.
    """
    low, high, curvature = band
    moving = np.flatnonzero((objective.change != 0.0) & (objective.v > 0.0))
    y, change = objective.y[moving], objective.change[moving]
    margin, rate = y * objective.values[moving], y * change
    at_low, at_high = (low - margin) / rate, (high - margin) / rate
    enter, leave = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
    weight = curvature * objective.v[moving] * np.square(change)
    inside = (enter <= 0.0) & (leave > 0.0)
    begins = (enter > 0.0) & np.isfinite(enter)
    ends = (leave > 0.0) & np.isfinite(leave)
    events = np.concatenate([enter[begins], leave[ends]])
    jumps = np.concatenate([weight[begins], -weight[ends]])
    order = np.argsort(events)
    times = np.concatenate([[0.0], events[order]])
    curvatures = objective.quadratic + np.cumsum(
        np.concatenate([[weight[inside].sum()], jumps[order]])
    )
    # What cancels in exact arithmetic may leave a trace below the penalty's own curvature.
    curvatures = np.maximum(curvatures, objective.quadratic)
    slopes = slope + np.concatenate([[0.0], np.cumsum(curvatures[:-1] * np.diff(times))])
    return times, slopes, curvatures


def minimize_along_line(slope_and_curvature: Callable[[float], tuple[float, float]]) -> float:
    """Step t > 0 at which the slope of a convex function vanishes.

    Parameters
    ----------
    slope_and_curvature : callable
        First and second derivative at t. The slope at 0 is negative and not decreasing in t.

    Returns
    -------
    float
        1 when the full step already is a minimum for practical purposes (so that Newton's last
        steps stay undamped), else the zero of the slope, by Newton's method safeguarded with
        bisection.
    """
    at_start = slope_and_curvature(0.0)[0]
    if at_start >= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    slope, curvature = slope_and_curvature(high)
    if abs(slope) <= -_SLOPE_RATIO * at_start:
        return 1.0
    for _ in range(_MAX_DOUBLINGS):
        if slope >= 0.0:
            break
        low, high = high, 2.0 * high
        slope, curvature = slope_and_curvature(high)
    t = high
    for _ in range(_MAX_STEPS):
        if slope < 0.0:
            low = t
        else:
            high = t
        newton = t - slope / curvature if curvature > 0.0 else low
        t = newton if low < newton < high else 0.5 * (low + high)
        slope, curvature = slope_and_curvature(t)
        if abs(slope) <= -1e-10 * at_start or high - low <= 1e-14 * high:
            break
    return t

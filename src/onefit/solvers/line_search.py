"""Exact minimisation of convex functions along lines, many lines at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onefit._typing import BoolArray, FloatArray
from onefit.losses import Loss

__all__ = ["RestrictedObjective", "minimize_along_lines", "minimize_restricted"]

#: A step is accepted as it stands when the slope at its end is this small a share of the first.
_SLOPE_RATIO = 1e-3
_MAX_DOUBLINGS = 60
_MAX_STEPS = 80


@dataclass(frozen=True)
class RestrictedObjective:
    r"""Slope and curvature of :math:`\sum_i v_i \ell(y_i, f_i + t d_i) + a t + \tfrac12 q t^2`.

    One function a column: ``y``, ``v``, ``values`` (f) and ``change`` (d) have shape (l, m),
    ``linear`` (a) and ``quadratic`` (q), what the penalties contribute along the line, (m,).
    """

    loss: Loss
    y: FloatArray
    v: FloatArray
    values: FloatArray
    change: FloatArray
    linear: FloatArray
    quadratic: FloatArray

    def __call__(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and second derivatives at t, of shape (m,)."""
        return self.slope(t), self.curvature(t)

    def slope(self, t: FloatArray) -> FloatArray:
        """First derivatives at t."""
        slopes = self.v * self.loss.derivative(self.y, self.values + t * self.change)
        return np.einsum("ij,ij->j", slopes, self.change) + self.linear + t * self.quadratic

    def curvature(self, t: FloatArray) -> FloatArray:
        """Second derivatives at t."""
        f = self.values + t * self.change
        curvatures = self.v * self.loss.second_derivative(self.y, f)
        return np.einsum("ij,ij->j", curvatures, np.square(self.change)) + self.quadratic

    def columns(self, which: BoolArray) -> RestrictedObjective:
        """Some of the functions."""
        columns = (self.y, self.v, self.values, self.change, self.linear, self.quadratic)
        return RestrictedObjective(self.loss, *(array[..., which] for array in columns))


def minimize_restricted(objective: RestrictedObjective) -> FloatArray:
    """Steps t > 0 at which the slopes vanish, of shape (m,); see :func:`minimize_along_lines`.

    For piecewise quadratic losses the slope is piecewise linear, and its zero a matter of sorting.
    """
    if objective.loss.band is None:
        return minimize_along_lines(objective, objective.linear.size)
    slope = objective.slope(np.zeros_like(objective.linear))
    falls = slope < 0.0
    is_full = falls & (np.abs(objective.slope(np.ones_like(slope))) <= -_SLOPE_RATIO * slope)
    t = np.where(is_full, 1.0, 0.0)
    others = falls & ~is_full
    if others.any():
        t[others] = _zeros(objective.columns(others), objective.loss.band, slope[others])
    return t


def _zeros(
    objective: RestrictedObjective, band: tuple[float, float, float], slope: FloatArray
) -> FloatArray:
    """Zeros of piecewise linear slopes that are negative at 0."""
    pieces = _, slopes, _ = _pieces(objective, band, slope)
    last = np.count_nonzero(slopes < 0.0, axis=0) - 1, np.arange(slope.size)
    time, at_time, rate = (part[last] for part in pieces)
    t = time - np.divide(at_time, rate, out=np.zeros_like(rate), where=rate > 0.0)
    # Rounding has left nothing of a curvature: the general method copes with that.
    flat = rate <= 0.0
    if flat.any():
        t[flat] = minimize_along_lines(objective.columns(flat), int(flat.sum()))
    return t


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def _pieces(
    objective: RestrictedObjective, band: tuple[float, float, float], slope: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where the pieces of the slopes begin, the slopes there, and their rates of change from there.

    A value that hardly moves is never in or out of the band: its times overflow, and count as an
    empty piece at the end.
    """
    low, high, curvature = band
    moving = (objective.change != 0.0) & (objective.v > 0.0)
    margin, rate = objective.y * objective.values, objective.y * objective.change
    at_low, at_high = (low - margin) / rate, (high - margin) / rate
    enter, leave = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
    weight = np.where(moving, curvature * objective.v * np.square(objective.change), 0.0)
    inside = moving & (enter <= 0.0) & (leave > 0.0)
    begins = moving & (enter > 0.0) & np.isfinite(enter)
    ends = moving & (leave > 0.0) & np.isfinite(leave)
    events = np.concatenate([np.where(begins, enter, np.inf), np.where(ends, leave, np.inf)])
    jumps = np.concatenate([np.where(begins, weight, 0.0), np.where(ends, -weight, 0.0)])
    order = np.argsort(events, axis=0), np.arange(slope.size)
    events = events[order]
    final = np.where(np.isfinite(events), events, 0.0).max(axis=0, initial=0.0)
    times = np.concatenate([np.zeros((1, slope.size)), np.minimum(events, final)])
    first = np.where(inside, weight, 0.0).sum(axis=0)[None]
    curvatures = objective.quadratic + np.cumsum(np.concatenate([first, jumps[order]]), axis=0)
    # What cancels in exact arithmetic may leave a trace below the penalty's own curvature.
    curvatures = np.maximum(curvatures, objective.quadratic)
    slopes = np.cumsum(
        np.concatenate([slope[None], curvatures[:-1] * np.diff(times, axis=0)]), axis=0
    )
    return times, slopes, curvatures


def minimize_along_lines(
    slope_and_curvature: Callable[[FloatArray], tuple[FloatArray, FloatArray]], n_lines: int
) -> FloatArray:
    """Steps t > 0 at which the slopes of convex functions vanish.

    Parameters
    ----------
    slope_and_curvature : callable
        First and second derivatives of all functions at t, of shape (n_lines,). A slope at 0 is
        negative and not decreasing in t.
    n_lines : int
        How many functions.

    Returns
    -------
    array of shape (n_lines,)
        1 where the full step already is a minimum for practical purposes (so that Newton's last
        steps stay undamped), else the zero of the slope, by Newton's method safeguarded with
        bisection.
    """
    at_start = slope_and_curvature(np.zeros(n_lines))[0]
    low, high = np.zeros(n_lines), np.ones(n_lines)
    slope, curvature = slope_and_curvature(high)
    is_full = np.abs(slope) <= -_SLOPE_RATIO * at_start
    has_ended = is_full | (at_start >= 0.0)
    for _ in range(_MAX_DOUBLINGS):
        falls = ~has_ended & (slope < 0.0)
        if not falls.any():
            break
        low, high = np.where(falls, high, low), np.where(falls, 2.0 * high, high)
        slope, curvature = slope_and_curvature(high)
    t = high.copy()
    for _ in range(_MAX_STEPS):
        if has_ended.all():
            break
        low, high = np.where(slope < 0.0, t, low), np.where(slope < 0.0, high, t)
        step = np.divide(slope, curvature, out=np.full(n_lines, np.inf), where=curvature > 0.0)
        is_within = (low < t - step) & (t - step < high)
        t = np.where(has_ended, t, np.where(is_within, t - step, 0.5 * (low + high)))
        slope, curvature = slope_and_curvature(t)
        has_ended |= (np.abs(slope) <= -1e-10 * at_start) | (high - low <= 1e-14 * high)
    return np.where(at_start >= 0.0, 0.0, np.where(is_full, 1.0, t))

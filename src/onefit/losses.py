"""Pointwise losses with their first and second derivative in the decision value f.

Each loss is a small frozen object with the same three methods, so that solvers and criteria never
ask which loss they work on. Margins are ``m = y f`` with ``y`` in {-1, +1} for the classification
losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit, log_expit

from onefit._typing import FloatArray

__all__ = ["HuberizedHinge", "Logistic", "Loss", "Square", "SquaredHinge"]


class Loss(Protocol):
    """What solvers need of a loss: value, slope and curvature, elementwise."""

    is_quadratic: ClassVar[bool]

    @property
    def band(self) -> tuple[float, float, float] | None:
        """Margins between which the curvature is constant, and that curvature; it is 0 elsewhere.

        None for losses that are not piecewise quadratic in the margin.
        """
        ...

    def value(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Loss of predicting ``f`` for ``y``."""
        ...

    def derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """First derivative of the loss in ``f``."""
        ...

    def second_derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Second derivative of the loss in ``f`` (an element of it at a kink)."""
        ...


@dataclass(frozen=True)
class Square:
    r"""Square loss :math:`(f - y)^2`."""

    is_quadratic: ClassVar[bool] = True
    band: ClassVar[None] = None

    def value(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.square(f - y)

    def derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return 2.0 * (f - y)

    def second_derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.full(np.broadcast_shapes(np.shape(y), np.shape(f)), 2.0)


@dataclass(frozen=True)
class HuberizedHinge:
    r"""Hinge loss whose corner is rounded over a band of half-width h.

    .. math:: \ell = 0 \;(m > 1 + h), \quad \frac{(1 + h - m)^2}{4h} \;(|1 - m| \le h),
              \quad 1 - m \;(m < 1 - h).

    It tends to the hinge loss ``max(0, 1 - m)`` as ``h`` tends to 0.
    """

    width: float = 0.01
    is_quadratic: ClassVar[bool] = False

    @property
    def band(self) -> tuple[float, float, float]:
        return 1.0 - self.width, 1.0 + self.width, 0.5 / self.width

    def value(self, y: FloatArray, f: FloatArray) -> FloatArray:
        gap = 1.0 + self.width - y * f
        rounded = np.square(np.clip(gap, 0.0, 2.0 * self.width)) / (4.0 * self.width)
        return rounded + np.maximum(gap - 2.0 * self.width, 0.0)

    def derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return -y * np.clip((1.0 + self.width - y * f) / (2.0 * self.width), 0.0, 1.0)

    def second_derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        in_band = np.abs(1.0 - y * f) <= self.width
        return in_band / (2.0 * self.width)


@dataclass(frozen=True)
class SquaredHinge:
    r"""Squared hinge loss :math:`\max(0, 1 - m)^2`."""

    is_quadratic: ClassVar[bool] = False
    band: ClassVar[tuple[float, float, float]] = (-np.inf, 1.0, 2.0)

    def value(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.square(np.maximum(1.0 - y * f, 0.0))

    def derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return -2.0 * y * np.maximum(1.0 - y * f, 0.0)

    def second_derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.where(y * f < 1.0, 2.0, 0.0)


@dataclass(frozen=True)
class Logistic:
    r"""Logistic loss :math:`\ln(1 + e^{-m})`."""

    is_quadratic: ClassVar[bool] = False
    band: ClassVar[None] = None

    def value(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return -log_expit(y * f)

    def derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return -y * expit(-y * f)

    def second_derivative(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return expit(f) * expit(-f)

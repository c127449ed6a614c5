"""The warning of an iteration that stopped too early."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

__all__ = ["warn_condition", "warn_not_converged", "warn_rounding"]


def warn_not_converged(what: str, max_iter: int, gradient_norm: float) -> None:
    """Say what stopped, after how many steps, and how far from the optimum."""
    warnings.warn(
        f"{what}: Newton's method stopped after {max_iter} steps with gradient norm "
        f"{gradient_norm:.3g}; raise max_iter, or tol.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_rounding(what: str, relative_gradient: float) -> None:
    """Say that penalties too far apart have left few digits of a solution, and how far it is."""
    warnings.warn(
        f"{what}: rounding leaves a gradient of {relative_gradient:.1e} of that at f = 0, so "
        "few digits are right; lower manifold_penalty or laplacian_power, or raise "
        "ambient_penalty.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_condition(what: str, reciprocal: float) -> None:
    """Say that a linear system has too large a condition number for double precision."""
    warnings.warn(
        f"{what}: a linear system has the reciprocal condition number {reciprocal:.1e}, so few "
        "digits are right; lower manifold_penalty or laplacian_power, or raise ambient_penalty.",
        ConvergenceWarning,
        stacklevel=4,
    )

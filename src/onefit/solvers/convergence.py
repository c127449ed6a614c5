"""The warning of an iteration that stopped too early."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

__all__ = ["warn_not_converged"]


def warn_not_converged(what: str, max_iter: int, gradient_norm: float) -> None:
    """Say what stopped, after how many steps, and how far from the optimum."""
    warnings.warn(
        f"{what}: Newton's method stopped after {max_iter} steps with gradient norm "
        f"{gradient_norm:.3g}; raise max_iter, or tol.",
        ConvergenceWarning,
        stacklevel=4,
    )

"""Dense linear systems whose condition is looked at."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

from onefit._lapack import solve
from onefit._typing import FloatArray
from onefit.solvers.convergence import warn_condition

__all__ = ["solve_dense"]


def solve_dense(A: FloatArray, right: FloatArray, what: str) -> FloatArray:
    """``A^-1 right`` by LU factors; a ConvergenceWarning where rounding leaves no digits.

    Parameters
    ----------
    A : array of shape (n, n)
        Any matrix; may be overwritten.
    right : array of shape (n,) or (n, m)
        Right-hand sides.
    what : str
        Whose system it is, for the warning.
    """
    if not A.size:
        return np.zeros_like(right)
    norm = np.abs(A).sum(axis=0).max()
    lu, solution, info = solve(A, right)
    if info != 0 or not np.isfinite(norm):
        raise np.linalg.LinAlgError("a dense system is singular.")
    condition, _ = sl.lapack.dgecon(lu, norm)
    if condition < np.finfo(np.float64).eps:
        warn_condition(what, float(condition))
    return np.asarray(solution)

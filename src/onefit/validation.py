"""Checks of parameters, with errors that say what came, what was expected and what to do."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.sparsefuncs import min_max_axis

from onefit._typing import FloatArray, Rows

__all__ = [
    "LARGEST",
    "PENALTY_LIMITS",
    "SMALLEST",
    "check_boolean",
    "check_choice",
    "check_integer",
    "check_magnitude",
    "check_no_disguise",
    "check_number",
    "check_number_columns",
    "check_spread",
    "check_structure",
    "check_target_size",
    "hint_about_rows",
    "shown",
]

#: Squares of values beyond these overflow, or lose their digits, in double precision.
SMALLEST, LARGEST = 1e-150, 1e150
#: Where penalties, their ratios and products with kernels and targets are numbers with digits.
PENALTY_LIMITS = (1e-100, 1e100)
#: Fourth powers of targets, in the variance of squared errors, are numbers with digits.
_TARGET_LIMITS = (1e-75, 1e75)
#: Characters of a value in a message.
_LONGEST = 100
#: Numbers closer to 0 have fewer digits.
_NORMAL = (float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max))


def check_number(
    name: str,
    value: Any,
    *,
    zero_allowed: bool = False,
    limits: tuple[float, float] = _NORMAL,
    words: Collection[str] = (),
    hint: str = "",
) -> None:
    """Raise unless ``value`` is a positive number within the limits, or one of ``words``."""
    if isinstance(value, str) and value in words:
        return
    bound = "a finite number >= 0" if zero_allowed else "a finite number > 0"
    alternatives = "".join(f" or {word!r}" for word in words)
    expected = f"expected {bound}{alternatives}.{' ' + hint if hint else ''}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name}={shown(value)} is of type {type(value).__name__}; {expected}")
    if not _is_finite(value) or value < 0 or (value == 0 and not zero_allowed):
        raise ValueError(f"{name}={shown(value)}; {expected}")
    low, high = limits
    if value != 0 and not low <= float(value) <= high:
        raise ValueError(
            f"{name}={shown(value)} is too close to the limits of double precision; expected a "
            f"number from {low:.3g} to {high:.3g}{' or 0' if zero_allowed else ''}{alternatives}."
        )


def shown(value: Any) -> str:
    """A value for a message: one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python does not write integers of thousands of digits
        text = f"(a very long {type(value).__name__})"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def check_integer(
    name: str, value: Any, *, minimum: int, maximum: int = sys.maxsize, hint: str = ""
) -> None:
    """Raise unless ``value`` is an integer from ``minimum`` to ``maximum``."""
    is_number = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    is_usual = maximum == sys.maxsize and not (is_number and value > maximum)
    most = "" if is_usual else f" and <= {maximum}"
    expected = f"expected an integer >= {minimum}{most}.{' ' + hint if hint else ''}"
    if not is_number:
        raise TypeError(f"{name}={shown(value)} is of type {type(value).__name__}; {expected}")
    if not minimum <= int(value) <= maximum:
        raise ValueError(f"{name}={shown(value)}; {expected}")


def check_choice(name: str, value: Any, choices: Collection[str], *, hint: str = "") -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        expected = f"expected one of {sorted(choices)}.{' ' + hint if hint else ''}"
        raise ValueError(f"{name}={shown(value)}; {expected}")


def check_boolean(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(
            f"{name}={value!r} is of type {type(value).__name__}; expected True or False."
        )


def check_magnitude(X: Rows) -> None:
    """Raise if squares of the (finite) entries overflow."""
    values = X.data if hasattr(X, "indptr") else X
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    if largest > LARGEST:
        raise ValueError(
            f"X has values up to {largest:.3g} in size; expected at most {LARGEST:g}, so that "
            "distances do not overflow. Rescale X, for instance by StandardScaler."
        )


def check_spread(X: Rows) -> None:
    """Raise if rows differ, but by so little that squares of their differences underflow."""
    low, high = min_max_axis(X, axis=0) if hasattr(X, "indptr") else (X.min(axis=0), X.max(axis=0))
    spread = float(np.max(high - low))
    if 0.0 < spread < SMALLEST:
        raise ValueError(
            f"X has rows that differ by no more than {spread:.3g}; expected {SMALLEST:g} or more "
            "in some column, so that squared distances have all their digits. Change the unit of "
            f"X: multiply it by {LARGEST:g} or more."
        )


def check_target_size(values: FloatArray, what: str = "y") -> None:
    """Raise if squared errors of such targets overflow, or are 0 only because they are small."""
    largest = float(np.abs(values).max(initial=0.0))
    low, high = _TARGET_LIMITS
    if largest > high or 0.0 < largest < low:
        raise ValueError(
            f"{what} has values up to {largest:.3g} in size; expected {low:g} to {high:g}, so that "
            "squared errors and their variance neither overflow nor vanish. Change the unit of the "
            "target."
        )


def check_structure(X: Any) -> None:
    """Raise on sparse rows whose indices lead out of them: compiled code would follow them."""
    if not hasattr(X, "indptr"):
        return
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"X is a damaged sparse matrix ({error}); expected indices within its shape {X.shape}. "
            "Build it anew, for instance by scipy.sparse.csr_array."
        ) from error


def check_no_disguise(X: Any) -> None:
    """Raise on masked entries, dates and times, which scikit-learn would take for numbers."""
    if np.ma.is_masked(X):
        raise ValueError(
            f"X is a masked array with {int(np.ma.getmaskarray(X).sum())} masked entries; expected "
            "numbers everywhere. Impute them, or drop their rows."
        )
    dtypes = X.dtypes if hasattr(X, "dtypes") else [getattr(X, "dtype", None)]
    dates = [str(dtype) for dtype in dtypes if getattr(dtype, "kind", "") in ("m", "M")]
    if dates:
        raise TypeError(
            f"X has columns of dtype {dates[0]}; expected numbers. Convert dates and times to the "
            "numbers you mean, such as days since the first, or drop them."
        )


def hint_about_rows(X: Any, error: str) -> str:
    """What to do about a matrix of rows that scikit-learn refused with ``error``."""
    if "infinity" in error or "too large" in error:
        return "Expected finite numbers: replace or remove the infinite values, or rescale X."
    if "Complex" in error:
        return "Expected real numbers in X: give real and imaginary parts as columns."
    if "could not convert" not in error and "argument must be" not in error:
        return ""
    return _numbers_expected([name for name, column in _columns(X) if not _is_numeric(column)])


def check_number_columns(X: Any) -> None:
    """Raise on columns of a data frame whose type is not that of numbers; X may have no rows."""
    dtypes = X.dtypes.items() if hasattr(X, "dtypes") else ()
    others = {name: dtype for name, dtype in dtypes if dtype.kind not in "biuf"}
    if others:
        found = ", ".join(sorted({str(dtype) for dtype in others.values()}))
        raise ValueError(f"X has columns of dtype {found}. {_numbers_expected(list(others))}")


def _numbers_expected(others: list[Any]) -> str:
    where = f" (not so in {', '.join(map(repr, others))})" if others else ""
    return (
        f"Expected numbers in all columns of X{where}. Encode the others, for instance by "
        "sklearn.preprocessing.OneHotEncoder, or drop them."
    )


def _columns(X: Any) -> list[tuple[Any, Any]]:
    """Names and contents of the columns; of an array, their numbers."""
    if hasattr(X, "columns"):
        return [(name, X[name]) for name in X.columns]
    values = np.asarray(X, dtype=object)
    return list(enumerate(values.T)) if values.ndim == 2 else []


def _is_numeric(column: Any) -> bool:
    try:
        np.asarray(column).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True

"""Checks of parameters, with errors that say what came, what was expected and what to do."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

from onefit._typing import Rows

__all__ = [
    "check_boolean",
    "check_choice",
    "check_integer",
    "check_magnitude",
    "check_no_disguise",
    "check_number",
    "check_number_columns",
    "check_structure",
    "hint_about_rows",
]

#: Larger values have no square in double precision.
_LARGEST = 1e150


def check_number(
    name: str,
    value: Any,
    *,
    zero_allowed: bool = False,
    words: Collection[str] = (),
    hint: str = "",
) -> None:
    """Raise unless ``value`` is a positive finite number, or one of ``words``."""
    if isinstance(value, str) and value in words:
        return
    bound = "a finite number >= 0" if zero_allowed else "a finite number > 0"
    alternatives = "".join(f" or {word!r}" for word in words)
    expected = f"expected {bound}{alternatives}.{' ' + hint if hint else ''}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is of type {type(value).__name__}; {expected}")
    if not _is_finite(value) or value < 0 or (value == 0 and not zero_allowed):
        raise ValueError(f"{name}={value!r}; {expected}")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def check_integer(
    name: str, value: Any, *, minimum: int, maximum: float = math.inf, hint: str = ""
) -> None:
    """Raise unless ``value`` is an integer from ``minimum`` to ``maximum``."""
    most = "" if maximum == math.inf else f" and <= {maximum}"
    expected = f"expected an integer >= {minimum}{most}.{' ' + hint if hint else ''}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is of type {type(value).__name__}; {expected}")
    if not minimum <= int(value) <= maximum:
        raise ValueError(f"{name}={value!r}; {expected}")


def check_choice(name: str, value: Any, choices: Collection[str], *, hint: str = "") -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        expected = f"expected one of {sorted(choices)}.{' ' + hint if hint else ''}"
        raise ValueError(f"{name}={value!r}; {expected}")


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
    if largest > _LARGEST:
        raise ValueError(
            f"X has values up to {largest:.3g} in size; expected at most {_LARGEST:g}, so that "
            "distances do not overflow. Rescale X, for instance by StandardScaler."
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
    if "infinity" in error:
        return "Expected finite numbers: replace or remove the infinite values, or rescale X."
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

"""Checks of parameters, with errors that say what came, what was expected and what to do."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["check_boolean", "check_choice", "check_integer", "check_number"]


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
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero_allowed):
        raise ValueError(f"{name}={value!r}; {expected}")


def check_integer(name: str, value: Any, *, minimum: int, hint: str = "") -> None:
    """Raise unless ``value`` is an integer of at least ``minimum``."""
    expected = f"expected an integer >= {minimum}.{' ' + hint if hint else ''}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is of type {type(value).__name__}; {expected}")
    if value < minimum:
        raise ValueError(f"{name}={value!r}; {expected}")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r}; expected one of {sorted(choices)}.")


def check_boolean(name: str, value: Any) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(
            f"{name}={value!r} is of type {type(value).__name__}; expected True or False."
        )

"""What is printed: lines without control characters, aligned pairs, numbers for people."""

from __future__ import annotations

import math
import re
import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

__all__ = ["as_pairs", "bullet", "one_line", "parse_size", "plain", "printable", "show_number"]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_LARGEST_SIZE = 1e18
_LONGEST_MESSAGE = 600


def printable(text: str) -> str:
    """``text`` with control characters spelt out: names from files cannot steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(message: object) -> str:
    """A message of an exception as a single line."""
    line = printable(" ".join(str(message).split()))
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 3] + "..."


def show_number(value: Any) -> str:
    """Four digits of a float; anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def as_pairs(pairs: Iterable[tuple[str, Any]], indent: int = 2) -> str:
    """Names and values in two columns."""
    shown = [(printable(str(name)), printable(show_number(value))) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{' ' * indent}{name:<{width}}  {value}" for name, value in shown)


def bullet(text: str) -> str:
    """A line of a list, wrapped to the terminal."""
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    return textwrap.fill(
        printable(text), max(40, width), initial_indent="  - ", subsequent_indent="    "
    )


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it: NumPy scalars as numbers, NaN and infinity as None."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def parse_size(text: str) -> int:
    """Bytes from texts such as 500MB, 4G or 2000000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    size = float(found[1]) * _UNITS[found[2].upper()] if found else 0.0
    if not 1 <= size <= _LARGEST_SIZE:
        raise ValueError(f"size {text!r}; expected bytes such as 4GB, 500MB or 2000000000")
    return int(size)

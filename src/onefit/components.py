r"""How many landmarks are enough: c doubles until held-out decisions settle.

With :math:`f^{(c)}` the held-out decisions (labels held out, exact) of the best candidate at c
landmarks, c is doubled until

.. math:: \lVert f^{(c)} - f^{(c/2)} \rVert \le 0.01\, \lVert f^{(c)} \rVert ,

all rows are landmarks, or memory allows no more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onefit._typing import FloatArray
from onefit.memory import most_components

__all__ = ["Growth", "components_to_try", "grow_components"]

#: Relative change of held-out decisions below which they have settled.
SETTLED = 0.01
#: Landmarks to start from, and not to exceed.
_FIRST = 128
_MOST = 8192


@dataclass(frozen=True)
class Growth:
    """The number of landmarks that was enough, and the changes on the way there."""

    n_components: int
    steps: tuple[tuple[int, float], ...]

    def __str__(self) -> str:
        steps = ", ".join(f"{100 * change:.2g} % at {c}" for c, change in self.steps)
        return f"n_components='auto' is {self.n_components}" + (
            f": held-out decisions changed by {steps}." if steps else "."
        )


def components_to_try(n_rows: int, memory_limit: float) -> list[int]:
    """Numbers of landmarks, each twice the one before, or all rows."""
    most = min(_MOST, most_components(memory_limit))
    sizes = [max(1, min(_FIRST, n_rows, most))]
    while sizes[-1] < n_rows and min(2 * sizes[-1], n_rows) <= most:
        sizes.append(min(2 * sizes[-1], n_rows))
    return sizes


def grow_components(
    decisions_of: Callable[[int], tuple[FloatArray, FloatArray]], n_rows: int, memory_limit: float
) -> Growth:
    """Double the landmarks until held-out decisions settle, or no more can be had.

    Parameters
    ----------
    decisions_of : callable
        From c to the held-out losses of all candidates, of shape (a,), and their held-out
        decisions, of shape (a, ...).
    n_rows : int
        N.
    memory_limit : float
        Bytes that the features may take.
    """
    first, *larger = components_to_try(n_rows, memory_limit)
    c = first
    steps: list[tuple[int, float]] = []
    _, before = decisions_of(first)
    for c in larger:
        losses, after = decisions_of(c)
        best = int(np.argmin(losses))
        change = np.linalg.norm(after[best] - before[best]) / np.linalg.norm(after[best])
        steps.append((c, float(change)))
        if change <= SETTLED:
            return Growth(c, tuple(steps))
        before = after
    growth = Growth(c, tuple(steps))
    if c < n_rows:
        _warn_not_settled(growth, memory_limit)
    return growth


def _warn_not_settled(growth: Growth, memory_limit: float) -> None:
    is_short = most_components(memory_limit) < min(2 * growth.n_components, _MOST)
    limit = f"memory_limit={memory_limit:.3g} bytes (for each job)"
    because = f", since {limit} does not allow twice as many," if is_short else ","
    change = f"by {100 * growth.steps[-1][1]:.2g} %" if growth.steps else "by an unknown amount"
    warnings.warn(
        f"n_components='auto' stopped at {growth.n_components} landmarks{because} where held-out "
        f"decisions still change {change}; expected {100 * SETTLED:g} % or less. A wider kernel "
        "needs fewer landmarks; a larger number can be set by n_components"
        f"{' with a higher memory_limit' if is_short else ''}.",
        UserWarning,
        stacklevel=3,
    )

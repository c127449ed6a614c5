r"""How many landmarks are enough: c doubles until held-out decisions settle.

With :math:`f^{(c)}` the held-out decisions (labels held out, exact) of the best candidate at c
landmarks, c is doubled until

.. math:: \lVert f^{(c)} - f^{(c/2)} \rVert \le 0.01\, \lVert f^{(c)} \rVert .
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onefit._typing import FloatArray

__all__ = ["Growth", "grow_components"]

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


def grow_components(
    decisions_of: Callable[[int], tuple[FloatArray, FloatArray]], n_rows: int
) -> Growth:
    """Double the landmarks until held-out decisions settle, or all rows are landmarks.

    Parameters
    ----------
    decisions_of : callable
        From c to the held-out losses of all candidates, of shape (a,), and their held-out
        decisions, of shape (a, ...).
    n_rows : int
        N.
    """
    c = min(_FIRST, n_rows)
    steps: list[tuple[int, float]] = []
    _, before = decisions_of(c)
    while c < min(n_rows, _MOST):
        c = min(2 * c, n_rows)
        losses, after = decisions_of(c)
        best = int(np.argmin(losses))
        change = np.linalg.norm(after[best] - before[best]) / np.linalg.norm(after[best])
        steps.append((c, float(change)))
        if change <= SETTLED:
            return Growth(c, tuple(steps))
        before = after
    if c < n_rows:
        warnings.warn(
            f"n_components='auto' stopped at {c} landmarks, where held-out decisions still change "
            f"by {100 * steps[-1][1]:.2g} %; expected {100 * SETTLED:g} % or less. A wider kernel "
            "needs fewer landmarks; a larger number can be set by n_components.",
            UserWarning,
            stacklevel=2,
        )
    return Growth(c, tuple(steps))

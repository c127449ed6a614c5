"""Axes of matplotlib, and what all displays share on them."""

from __future__ import annotations

from typing import Any

__all__ = ["COLOURS", "MARKERS", "axes_to_draw_on"]

#: Colours and markers of classes; the colours can be told apart by the colour-blind.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#777777")
MARKERS = ("o", "s", "^", "D", "v", "P", "*", "h")


def axes_to_draw_on(ax: Any) -> tuple[Any, Any]:
    """Axes to draw on, and their figure."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            "displays need matplotlib, which is not installed; install it, or onefit with its "
            "extra 'plot': pip install 'onefit[plot]'."
        ) from error
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    return ax, ax.figure

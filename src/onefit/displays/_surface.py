"""Scores of a search over two of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from onefit._typing import FloatArray
from onefit.displays._axes import axes_to_draw_on
from onefit.search.surface import Axis, Surface, describe_value, search_surface

__all__ = ["SearchSurfaceDisplay"]


class SearchSurfaceDisplay:
    """Mean cross-validated score over two parameters of a search.

    Use :meth:`from_search` to make one.

    Parameters
    ----------
    mean, std : array of shape (n_rows, n_columns)
        Scores and their standard deviation over the folds; NaN where there is no candidate.
    rows, columns : sequence of str
        Levels of the two parameters.
    row_name, column_name, score_name : str
        What they are called.
    chosen : tuple of int or None, default=None
        Row and column of the chosen candidate, when it is in the picture.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    im_ : matplotlib image
        The heat map.

    Examples
    --------
    >>> from onefit import LapRLSClassifier, ManifoldSearchCV, SearchSurfaceDisplay
    >>> from onefit.datasets import load_penguins, make_partially_labeled
    >>> X, truth = load_penguins(return_X_y=True)
    >>> y = make_partially_labeled(truth, n_labeled=30, random_state=0)
    >>> grid = {"ambient_penalty": [1e-4, 1e-2], "manifold_penalty": [0.0, 1.0, 100.0]}
    >>> search = ManifoldSearchCV(LapRLSClassifier(), grid, random_state=0).fit(X, y)
    >>> display = SearchSurfaceDisplay.from_search(search)
    >>> display.mean.shape
    (3, 2)
    """

    def __init__(
        self,
        *,
        mean: FloatArray,
        std: FloatArray,
        rows: Sequence[str],
        columns: Sequence[str],
        row_name: str,
        column_name: str,
        score_name: str,
        chosen: tuple[int, int] | None = None,
    ) -> None:
        self.mean = mean
        self.std = std
        self.rows = rows
        self.columns = columns
        self.row_name = row_name
        self.column_name = column_name
        self.score_name = score_name
        self.chosen = chosen

    @classmethod
    def from_search(
        cls,
        search: Any,
        *,
        x: str | None = None,
        y: str | None = None,
        params: Mapping[str, Any] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw two parameters of a fitted search, the others held at the best candidate's values.

        Parameters
        ----------
        search : ManifoldSearchCV
            Fitted.
        x, y : str, optional
            Parameters across and up, with or without the prefix of a pipeline; the penalties
            when they vary, else those with the most values.
        params : dict, optional
            Values at which other parameters are held, instead of the best candidate's.
        ax : matplotlib Axes, optional
            Where to draw.
        **kwargs
            To :meth:`plot`.

        Returns
        -------
        SearchSurfaceDisplay
        """
        surface = search_surface(search)
        if len(surface.axes) < 2:
            raise ValueError(
                f"{len(surface.axes)} parameters vary in this search; expected at least 2 to span "
                "a surface."
            )
        columns = surface.axis(x) if x is not None else _first(surface, y)
        rows = surface.axis(y) if y is not None else _first(surface, columns.name)
        if rows is columns:
            raise ValueError(f"x and y are both {x!r}; expected two different parameters.")
        fixed = _fixed_levels(surface, rows, columns, params or {})
        index = surface.plane(rows, columns, fixed)
        found = np.argwhere(index == surface.best)
        display = cls(
            mean=np.where(index >= 0, surface.mean[index], np.nan),
            std=np.where(index >= 0, surface.std[index], np.nan),
            rows=rows.levels,
            columns=columns.levels,
            row_name=rows.label,
            column_name=columns.label,
            score_name=surface.score,
            chosen=(int(found[0, 0]), int(found[0, 1])) if found.size else None,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, cmap: str = "viridis", values: bool = True, colorbar: bool = True
    ) -> Self:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        cmap : str, default="viridis"
            Colour map.
        values : bool, default=True
            Write the score into each cell.
        colorbar : bool, default=True
            Draw the scale.

        Returns
        -------
        self
        """
        self.ax_, self.figure_ = ax, fig = axes_to_draw_on(ax)
        self.im_ = ax.imshow(self.mean, cmap=cmap, origin="lower", aspect="auto")
        ax.set_xticks(range(len(self.columns)), self.columns)
        ax.set_yticks(range(len(self.rows)), self.rows)
        ax.set_xlabel(self.column_name)
        ax.set_ylabel(self.row_name)
        if values:
            self._write_values()
        if self.chosen is not None:
            row, column = self.chosen
            corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]]) * 0.47
            ax.plot(*(corners + (column, row)).T, color="#d55e00", linewidth=3)
        if colorbar:
            fig.colorbar(self.im_, ax=ax, label=f"mean {self.score_name}")
        return self

    def _write_values(self) -> None:
        for (row, column), value in np.ndenumerate(self.mean):
            if np.isfinite(value):
                light = self.im_.cmap(self.im_.norm(value))[:3] @ np.array([0.2126, 0.7152, 0.0722])
                ink = "black" if light > 0.45 else "white"
                text = f"{value:.3f}" if abs(value) < 100 else describe_value(value)
                self.ax_.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)


def _first(surface: Surface, other: str | None) -> Axis:
    """The first axis that is not the other one."""
    return next(a for a in surface.axes if other is None or other not in (a.name, a.label))


def _fixed_levels(
    surface: Surface, rows: Axis, columns: Axis, params: Mapping[str, Any]
) -> dict[str, int]:
    """Levels of the other axes: the best candidate's, or those asked for."""
    fixed = {
        axis.name: int(axis.codes[surface.best])
        for axis in surface.axes
        if axis is not rows and axis is not columns
    }
    for name, value in params.items():
        axis, text = surface.axis(name), describe_value(value)
        if axis.name not in fixed:
            raise ValueError(f"params has {name!r}, which is drawn; expected another parameter.")
        if text not in axis.levels:
            raise ValueError(f"{name}={value!r} was not tried; expected one of {axis.levels}.")
        fixed[axis.name] = axis.levels.index(text)
    return fixed

"""What a model decides, over two columns of the rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from onefit._typing import FloatArray
from onefit.displays._axes import COLOURS, MARKERS, axes_to_draw_on
from onefit.search.candidates import split_pipeline

__all__ = ["DecisionDisplay"]


class DecisionDisplay:
    """Decisions of a fitted model over two features, with the labelled rows marked.

    Use :meth:`from_estimator` to make one.

    Parameters
    ----------
    xx, yy : array of shape (n, n)
        Grid.
    response : array of shape (n, n)
        Decision values with two classes, class numbers with more, predictions of a regressor.
    points : array of shape (N, 2)
        The rows.
    targets : Targets
        Their labels.
    names : tuple of str
        What the two features are called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    surface_ : matplotlib contour set
        The decisions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from onefit import DecisionDisplay, LapRLSClassifier
    >>> X, truth = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 6, truth, -1)
    >>> model = LapRLSClassifier(kernel_width=0.1, manifold_penalty=100.0).fit(X, y)
    >>> display = DecisionDisplay.from_estimator(model, X, y)
    >>> display.response.shape
    (100, 100)
    """

    def __init__(
        self,
        *,
        xx: FloatArray,
        yy: FloatArray,
        response: FloatArray,
        points: FloatArray,
        targets: Any,
        names: tuple[str, str],
    ) -> None:
        self.xx = xx
        self.yy = yy
        self.response = response
        self.points = points
        self.targets = targets
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        features: tuple[int, int] = (0, 1),
        grid_resolution: int = 100,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Evaluate a fitted model on a grid over two features, others at their medians.

        Parameters
        ----------
        estimator : estimator, Pipeline or ManifoldSearchCV
            Fitted; a regressor has one output.
        X : array-like or data frame of shape (N, n_features)
            Rows.
        y : array-like of shape (N,)
            Targets, with unlabelled rows marked.
        features : tuple of int, default=(0, 1)
            Columns across and up.
        grid_resolution : int, default=100
            Points of the grid in each direction.
        ax : matplotlib Axes, optional
            Where to draw.
        **kwargs
            To :meth:`plot`.

        Returns
        -------
        DecisionDisplay
        """
        check_is_fitted(estimator)
        model = getattr(estimator, "best_estimator_", estimator)
        final = split_pipeline(model)[1]
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] < 2:
            raise ValueError(f"X has shape {rows.shape}; expected at least two columns to draw.")
        points = rows[:, list(features)]
        xx, yy = _grid(points, grid_resolution)
        new = np.tile(np.median(rows, axis=0), (xx.size, 1))
        new[:, list(features)] = np.column_stack([xx.ravel(), yy.ravel()])
        columns = getattr(X, "columns", None)
        names = tuple(f"feature {i}" if columns is None else str(columns[i]) for i in features)
        display = cls(
            xx=xx,
            yy=yy,
            response=_response(model, _like(X, new)).reshape(xx.shape),
            points=points,
            targets=final._read_targets(y),
            names=(names[0], names[1]),
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, cmap: str | None = None, legend: bool = True) -> Self:
        """Draw decisions and rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        cmap : str, optional
            Colour map of decision values or predictions.
        legend : bool, default=True
            Name classes and unlabelled rows.

        Returns
        -------
        self
        """
        self.ax_, self.figure_ = ax, fig = axes_to_draw_on(ax)
        classes = self.targets.classes
        if classes is None:
            levels: Any = 20
            options: dict[str, Any] = {"cmap": cmap or "viridis"}
        elif len(classes) == 2:
            top = float(np.abs(self.response).max()) or 1.0
            levels, options = np.linspace(-top, top, 21), {"cmap": cmap or "PuOr_r", "alpha": 0.7}
        else:
            levels = np.arange(len(classes) + 1) - 0.5
            colours = [COLOURS[i % len(COLOURS)] for i in range(len(classes))]
            options = {"colors": colours, "alpha": 0.3}
        self.surface_ = ax.contourf(self.xx, self.yy, self.response, levels, **options)
        if classes is not None and len(classes) == 2:
            ax.contour(self.xx, self.yy, self.response, [0.0], colors="#333333", linewidths=1.5)
        if classes is None or len(classes) == 2:
            fig.colorbar(self.surface_, ax=ax, label="prediction" if classes is None else "f(x)")
        self._draw_rows(legend)
        return self

    def _draw_rows(self, legend: bool) -> None:
        ax, targets = self.ax_, self.targets
        known = self.points[targets.labelled]
        hidden = self.points[~targets.labelled]
        if hidden.size:
            ax.scatter(*hidden.T, s=6, c="#333333", alpha=0.5, linewidths=0, label="unlabelled")
        style: dict[str, Any] = {"s": 60, "edgecolors": "black", "linewidths": 1.2}
        if targets.classes is None:
            colours = targets.values[:, 0]
            scale = {"cmap": self.surface_.cmap, "norm": self.surface_.norm}
            ax.scatter(*known.T, c=colours, label="labelled", **style, **scale)
        else:
            binary = ("#5e3c99", "#e66101")
            for i, name in enumerate(targets.classes):
                two = len(targets.classes) == 2
                colour = binary[i] if two else COLOURS[i % len(COLOURS)]
                rows = known[targets.codes == i].T
                shape = MARKERS[(i + i // len(MARKERS)) % len(MARKERS)]
                ax.scatter(*rows, color=colour, marker=shape, label=str(name), **style)
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.names[1])
        if legend:
            ax.legend(loc="best", fontsize=8)


def _grid(points: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.05 * (high - low) + 1e-12
    xs, ys = (np.linspace(a, b, n) for a, b in zip(low - pad, high + pad, strict=True))
    xx, yy = np.meshgrid(xs, ys)
    return xx, yy


def _like(X: Any, rows: FloatArray) -> Any:
    """Rows in the container of X, so that a model finds the column names it knows."""
    return type(X)(rows, columns=X.columns) if hasattr(X, "columns") else rows


def _response(model: Any, X: Any) -> FloatArray:
    if not is_classifier(model):
        values = np.asarray(model.predict(X))
        if values.size != len(X):
            raise ValueError("estimator has several outputs; expected one to draw.")
        return values
    values = model.decision_function(X)
    return values if values.ndim == 1 else values.argmax(axis=1)

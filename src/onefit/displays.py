"""Pictures for notebooks, in scikit-learn's manner. They need matplotlib, the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from onefit._typing import FloatArray, IntArray
from onefit.criteria.common import Holdout
from onefit.crossval import compare_criteria
from onefit.search.candidates import split_pipeline
from onefit.search.geometry import preprocess
from onefit.search.surface import Axis, Surface, describe_value, search_surface

__all__ = ["CriterionAgreementDisplay", "DecisionDisplay", "SearchSurfaceDisplay"]

#: Colours and markers of classes; the colours can be told apart by the colour-blind.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#777777")
_MARKERS = ("o", "s", "^", "D", "v", "P", "*", "h")
_NAMES = {"bif": "influence function (BIF)", "newton": "one Newton step", "exact": "exact"}


def _axes(ax: Any) -> tuple[Any, Any]:
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
        self.ax_, self.figure_ = ax, fig = _axes(ax)
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
        self.ax_, self.figure_ = ax, fig = _axes(ax)
        classes = self.targets.classes
        if classes is None:
            levels: Any = 20
            options: dict[str, Any] = {"cmap": cmap or "viridis"}
        elif len(classes) == 2:
            top = float(np.abs(self.response).max()) or 1.0
            levels, options = np.linspace(-top, top, 21), {"cmap": cmap or "PuOr_r", "alpha": 0.7}
        else:
            levels = np.arange(len(classes) + 1) - 0.5
            colours = [_COLOURS[i % len(_COLOURS)] for i in range(len(classes))]
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
                colour = binary[i] if two else _COLOURS[i % len(_COLOURS)]
                rows = known[targets.codes == i].T
                shape = _MARKERS[(i + i // len(_MARKERS)) % len(_MARKERS)]
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


class CriterionAgreementDisplay:
    """Held-out decisions of approximate criteria against exact ones.

    Use :meth:`from_estimator` to make one.

    Parameters
    ----------
    exact : array of shape (m,)
        Exact held-out decisions of the labelled rows, all outputs in a row.
    approximate : dict of str to array of shape (m,)
        Those of other criteria.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    correlations_ : dict of str to float
        Correlation of each criterion with the exact decisions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from onefit import CriterionAgreementDisplay, LapRLSClassifier
    >>> X, truth = make_moons(200, noise=0.2, random_state=0)
    >>> y = np.where(np.arange(200) < 30, truth, -1)
    >>> display = CriterionAgreementDisplay.from_estimator(LapRLSClassifier(), X, y)
    >>> round(display.correlations_["newton"], 6)                # exact for the square loss
    1.0
    """

    def __init__(self, *, exact: FloatArray, approximate: Mapping[str, FloatArray]) -> None:
        self.exact = exact
        self.approximate = approximate
        self.correlations_ = {
            name: float(np.corrcoef(exact, values)[0, 1]) for name, values in approximate.items()
        }

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        cv: Any = 5,
        criteria: Sequence[str] = ("bif", "newton"),
        holdout: Holdout = "labels",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Compute held-out decisions by every criterion, on the same folds.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Its parameters define the model; it need not be fitted and is not changed. The steps of
            a pipeline before the last are fitted to all rows once.
        X : array-like or sparse matrix of shape (N, n_features)
            All rows.
        y : array-like of shape (N,) or (N, q)
            Targets, with unlabelled rows marked.
        cv : int, splitter or iterable of (train, test), default=5
            As in :func:`cross_val_decisions`.
        criteria : sequence of str, default=("bif", "newton")
            Approximate criteria.
        holdout : {"labels", "points"}, default="labels"
            As in :func:`cross_val_decisions`.
        ax : matplotlib Axes, optional
            Where to draw.
        **kwargs
            To :meth:`plot`.

        Returns
        -------
        CriterionAgreementDisplay
        """
        upstream, final, _ = split_pipeline(estimator)
        rows = preprocess(upstream, {}, final, X)
        names = list(dict.fromkeys(["exact", *criteria]))
        found = compare_criteria(final, rows, y, cv=cv, criteria=names, holdout=holdout)
        exact = found["exact"].predictions
        held = np.flatnonzero(~np.isnan(exact.reshape(exact.shape[0], -1)).any(axis=1))
        values = {name: _taken(found[name].predictions, held) for name in names}
        return cls(
            exact=values["exact"], approximate={name: values[name] for name in criteria}
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, s: float = 18.0, alpha: float = 0.6) -> Self:
        """Draw the decisions against each other.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        s, alpha : float
            Size and opacity of the points.

        Returns
        -------
        self
        """
        self.ax_, self.figure_ = ax, _ = _axes(ax)
        low, high = float(self.exact.min()), float(self.exact.max())
        pad = 0.05 * (high - low)
        ends = (low - pad, high + pad)
        ax.plot(ends, ends, color="#777777", linestyle="--", linewidth=1, zorder=0)
        for i, (name, values) in enumerate(self.approximate.items()):
            label = f"{_NAMES[name]}, correlation {self.correlations_[name]:.3f}"
            style = {"color": _COLOURS[i], "marker": _MARKERS[i], "s": s, "alpha": alpha}
            ax.scatter(self.exact, values, label=label, **style)
        ax.set_xlabel("exact held-out decision")
        ax.set_ylabel("approximate held-out decision")
        ax.legend(loc="lower right", fontsize=8)
        return self


def _taken(values: FloatArray, rows: IntArray) -> FloatArray:
    return values[rows].ravel()

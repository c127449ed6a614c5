"""Held-out decisions of approximate criteria against exact ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from onefit._typing import FloatArray, IntArray
from onefit.criteria.common import Holdout
from onefit.crossval import compare_criteria
from onefit.displays._axes import COLOURS, MARKERS, axes_to_draw_on
from onefit.search.candidates import split_pipeline
from onefit.search.geometry import preprocess

__all__ = ["CriterionAgreementDisplay"]

_NAMES = {"bif": "influence function (BIF)", "newton": "one Newton step", "exact": "exact"}


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
        self.ax_, self.figure_ = ax, _ = axes_to_draw_on(ax)
        low, high = float(self.exact.min()), float(self.exact.max())
        pad = 0.05 * (high - low)
        ends = (low - pad, high + pad)
        ax.plot(ends, ends, color="#777777", linestyle="--", linewidth=1, zorder=0)
        for i, (name, values) in enumerate(self.approximate.items()):
            label = f"{_NAMES[name]}, correlation {self.correlations_[name]:.3f}"
            style = {"color": COLOURS[i], "marker": MARKERS[i], "s": s, "alpha": alpha}
            ax.scatter(self.exact, values, label=label, **style)
        ax.set_xlabel("exact held-out decision")
        ax.set_ylabel("approximate held-out decision")
        ax.legend(loc="lower right", fontsize=8)
        return self


def _taken(values: FloatArray, rows: IntArray) -> FloatArray:
    return values[rows].ravel()

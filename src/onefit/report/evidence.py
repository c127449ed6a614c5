"""What the report computes beyond the search: predictions, a map of the rows, criteria compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.decomposition import PCA, KernelPCA
from sklearn.utils import check_random_state

from onefit._typing import BoolArray, FloatArray, IntArray, Rows
from onefit.criteria.common import Holdout
from onefit.crossval import compare_criteria
from onefit.estimators import ManifoldEstimator
from onefit.folds import SemiSupervisedKFold
from onefit.search.candidates import split_pipeline
from onefit.targets import Targets

__all__ = ["Agreement", "Evidence", "Map", "compare_on_sample", "gather", "map_rows", "margins"]

#: Points of the map.
_MAP_ROWS = 2000
#: Rows, and labels among them, on which the criteria are compared: a second or so of work.
_COMPARED_ROWS = {"labels": 800, "points": 300}
_COMPARED_LABELS = 300


@dataclass(frozen=True)
class Evidence:
    """The chosen model, and the data as it saw them."""

    model: ManifoldEstimator
    rows: Rows
    targets: Targets

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return bool(is_classifier(self.model))

    @property
    def labelled(self) -> BoolArray:
        """Which rows have a label."""
        return self.targets.labelled

    @property
    def predictions(self) -> Any:
        """Predictions of all rows."""
        return self.model.transduction_


def gather(search: Any, X: Any, y: Any) -> Evidence:
    """The chosen model and the preprocessed rows of a fitted search; raises if there are none."""
    if not hasattr(search, "best_estimator_"):
        raise ValueError(
            "the search has no best_estimator_; expected a search that is fitted with refit=True "
            "(or the name of a score), so that there is a model to report on."
        )
    upstream, model, _ = split_pipeline(search.best_estimator_)
    rows = model._validated_rows(X if upstream is None else upstream.transform(X), reset=False)
    n = model.transduction_.shape[0]
    if rows.shape[0] != n:
        raise ValueError(
            f"X has {rows.shape[0]} rows and the search was fitted to {n}; expected the X and y "
            "that were given to fit."
        )
    return Evidence(model, rows, model._read_labels(rows, y, None)[0])


def _sample(targets: Targets, n_rows: int, n_labels: int) -> IntArray:
    """Row numbers: up to ``n_labels`` labelled ones, filled up with others at random."""
    rng = check_random_state(0)
    labelled = targets.labelled
    order = rng.permutation(int(labelled.sum()))
    if targets.codes is not None:
        # One label of every class before the others: a sample without a class is another problem.
        first = np.unique(targets.codes[order], return_index=True)[1]
        order = np.concatenate([order[first], np.delete(order, first)])
    known = np.flatnonzero(labelled)[order[:n_labels]]
    unknown = rng.permutation(np.flatnonzero(~labelled))
    return np.sort(np.concatenate([known, unknown[: max(0, n_rows - known.size)]]))


@dataclass(frozen=True)
class Map:
    """A picture of some rows in the plane.

    Parameters
    ----------
    rows : array of shape (m,)
        Row numbers.
    points : array of shape (m, 2)
        Where they are.
    shares : array of shape (2,)
        Share of the variance that each direction has.
    """

    rows: IntArray
    points: FloatArray
    shares: FloatArray


def map_rows(evidence: Evidence) -> Map:
    """The first two principal components of a sample of the rows, labelled ones first."""
    rows = _sample(evidence.targets, _MAP_ROWS, _MAP_ROWS)
    if evidence.model.kernel == "precomputed":
        K = evidence.rows[np.ix_(rows, rows)]
        pca = KernelPCA(n_components=2, kernel="precomputed", eigen_solver="dense").fit(K)
        total = max(float(np.trace(K) - K.mean() * K.shape[0]), 1e-300)
        return Map(rows, _two_columns(pca.transform(K)), _two(pca.eigenvalues_ / total))
    some: Any = evidence.rows[rows]
    n_components = min(2, *some.shape)
    is_sparse = sp.issparse(some)
    if is_sparse and n_components == min(some.shape):
        some, is_sparse = some.toarray(), False
    solver = "arpack" if is_sparse else "auto"
    pca = PCA(n_components, svd_solver=solver, random_state=0)
    points = _two_columns(pca.fit_transform(some))
    return Map(rows, points, _two(np.nan_to_num(pca.explained_variance_ratio_)))


def _two(values: FloatArray) -> FloatArray:
    return np.pad(values, (0, 2 - values.size))


def _two_columns(points: FloatArray) -> FloatArray:
    """With one direction only, rows are spread evenly in the other, so that they can be seen."""
    if points.shape[1] == 2:
        return points
    height = 0.2 * float(np.ptp(points)) or 1.0
    return np.column_stack([points, np.linspace(-height, height, 7)[np.arange(len(points)) % 7]])


def margins(evidence: Evidence, rows: IntArray) -> FloatArray:
    """How clear the predicted classes are: distance of the decision to that of the next class."""
    values = np.sort(evidence.model._decisions_of(evidence.rows[rows]), axis=1)
    return np.abs(values[:, 0]) if values.shape[1] == 1 else values[:, -1] - values[:, -2]


@dataclass(frozen=True)
class Agreement:
    """Held-out decisions of the chosen model by several criteria.

    Parameters
    ----------
    exact : array of shape (m,)
        Exact decisions.
    others : dict of str to array of shape (m,)
        Approximate ones by criterion.
    n_rows, n_labels, n_folds : int
        What they were computed on.
    is_sample : bool
        Whether that is less than all rows.
    """

    exact: FloatArray
    others: dict[str, FloatArray]
    n_rows: int
    n_labels: int
    n_folds: int
    is_sample: bool


def compare_on_sample(evidence: Evidence, holdout: Holdout) -> Agreement | str:
    """Exact and approximate decisions on all rows or a sample; or why there are none."""
    most = _COMPARED_ROWS[holdout]
    model, rows = clone(evidence.model), np.arange(evidence.rows.shape[0])
    is_sample = rows.size > most
    if is_sample:
        if not isinstance(model.graph, str):
            return (
                "The graph is a given matrix, which cannot be built anew on a sample of the rows."
            )
        rows = _sample(evidence.targets, most, _COMPARED_LABELS)
        if model.n_components is not None:
            model.set_params(n_components=min(model.n_components, rows.size))
    X, y = _taken(evidence, rows), evidence.targets.y[rows]
    n_labels = int(evidence.labelled[rows].sum())
    folds = min(10, n_labels)
    if folds < 2:
        return "One label is too few to hold any out."
    cv = SemiSupervisedKFold(folds, shuffle=True, random_state=0)
    try:
        found = compare_criteria(model, X, y, cv=cv, holdout=holdout)
    except ValueError as error:
        # A sample can be degenerate where the whole is not; that must not cost the report.
        return f"The comparison was not possible: {error}"
    known = evidence.labelled[rows]
    exact, newton, bif = (
        found[name].predictions[known].ravel() for name in ("exact", "newton", "bif")
    )
    others = {"newton": newton, "bif": bif}
    return Agreement(exact, others, rows.size, n_labels, folds, is_sample)


def _taken(evidence: Evidence, rows: IntArray) -> Rows:
    if evidence.model.kernel == "precomputed":
        return evidence.rows[np.ix_(rows, rows)]
    return evidence.rows[rows]

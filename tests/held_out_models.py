"""Models, data, refits and dense twins that tests of the criteria share."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone, is_regressor

from fold_reference import LOGISTIC, SQUARE, SQUARED_HINGE, Data, gaussian_kernel, huberized_hinge
from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    cross_val_decisions,
)

N = 36
N_LABELS = 12
WIDTH = 2.0

#: One estimator for each loss, with the reference's own version of that loss.
MODELS = {
    "regressor": (LapRLSRegressor(), SQUARE),
    "square": (LapRLSClassifier(), SQUARE),
    "hinge": (LapSVC(), huberized_hinge(0.01)),
    "wide hinge": (LapSVC(hinge_width=0.5), huberized_hinge(0.5)),
    "squared hinge": (LapSVC(loss="squared_hinge"), SQUARED_HINGE),
    "logistic": (LapLogisticRegression(), LOGISTIC),
}
CLASSIFIERS = [name for name in MODELS if name != "regressor"]
SQUARES = ["regressor", "square"]
CURVED = ["wide hinge", "squared hinge", "logistic"]

every_model = pytest.mark.parametrize("name", MODELS)
both_holdouts = pytest.mark.parametrize("holdout", ["labels", "points"])
with_and_without_intercept = pytest.mark.parametrize(
    "intercept", [False, True], ids=["no intercept", "intercept"]
)


def make_model(name, **params):
    """An estimator in a regime where labels, kernel and graph all matter."""
    common = {
        "kernel_width": WIDTH,
        "ambient_penalty": 1e-2,
        "manifold_penalty": 30.0,
        "n_neighbors": 5,
        "tol": 1e-10,
    }
    return clone(MODELS[name][0]).set_params(**common | params)


def make_data(model, seed=1, n_classes=2, n=N, n_labels=N_LABELS):
    """X, y with twice as many labels of class 0 as of others; class numbers, -1 where hidden."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    classes = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    codes = np.full(n, -1)
    for c in range(n_classes):
        count = n_labels // (n_classes + 1) * (2 if c == 0 else 1)
        codes[np.flatnonzero(classes == c)[:count]] = c
    y = np.where(codes >= 0, score, np.nan) if is_regressor(model) else codes
    return X, y, codes


def make_weights(seed=0, n=N):
    return np.random.RandomState(seed).uniform(0.2, 3.0, size=n)


def decide(model, X):
    return model.predict(X) if is_regressor(model) else model.decision_function(X)


def refit(model, X, y, train, test, holdout, sample_weight=None):
    """Held-out rows of one fold, and their decisions by ``fit`` on what the fold leaves."""
    hidden = np.nan if is_regressor(model) else -1
    if holdout == "labels":
        partial = y.copy()
        partial[test] = hidden
        known = ~np.isnan(y) if is_regressor(model) else y != -1
        rows = test[known[test].reshape(len(test), -1).all(axis=1)]
        return rows, decide(clone(model).fit(X, partial, sample_weight), X[rows])
    full = clone(model).fit(X, y, sample_weight)
    rest = clone(model).set_params(graph=full.graph_[train][:, train])
    if model.kernel == "gaussian":
        rest.set_params(kernel_width=full.kernel_width_)
    weights = None if sample_weight is None else sample_weight[train]
    return test, decide(rest.fit(X[train], y[train], weights), X[test])


def assert_equals_refitting(model, X, y, pairs, holdout, *, rtol, sample_weight=None, **options):
    """Compare with :func:`refit`, relative to the largest decision of the fold."""
    result = cross_val_decisions(
        model, X, y, cv=pairs, holdout=holdout, sample_weight=sample_weight, **options
    )
    for (train, test), rows, found in zip(
        pairs, result.fold_rows, result.fold_predictions, strict=True
    ):
        expected_rows, expected = refit(model, X, y, train, test, holdout, sample_weight)
        assert rows.tolist() == expected_rows.tolist()
        assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def dense(name, model, X, y, sample_weight=None):
    """The same problem in dense matrices, with the graph of a fit."""
    regression = is_regressor(model)
    known = ~np.isnan(y) if regression else y != -1
    targets = np.where(known, y, 0.0) if regression else np.where(y == 1, 1.0, -1.0)
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    return Data(
        K=gaussian_kernel(X, model.kernel_width),
        W=clone(model).fit(X, y).graph_.toarray(),
        y=targets,
        weights=np.where(known, weights, 0.0),
        ambient=model.ambient_penalty,
        manifold=model.manifold_penalty,
        loss=MODELS[name][1],
        intercept=model.fit_intercept,
        normalized=model.laplacian == "normalized",
    )

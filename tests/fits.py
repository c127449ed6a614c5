"""Small data and fits that tests of the estimators share."""

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons

from onefit import LapRLSRegressor


def moons(n=80, n_labelled=20, seed=0):
    """Two moons, classes 0 and 1, -1 in all rows but the first."""
    X, truth = make_moons(n, noise=0.15, random_state=seed)
    return X, np.where(np.arange(n) < n_labelled, truth, -1)


def three_blobs(n=60, n_labelled=15):
    """Three overlapping blobs, classes 0, 1 and 2, -1 in all rows but the first."""
    X, truth = make_blobs(n, centers=3, cluster_std=2.0, random_state=3)
    return X, np.where(np.arange(n) < n_labelled, truth, -1)


def targets_for(estimator, y):
    """Labels as the estimator reads them: a regressor has NaN where a classifier has -1."""
    return np.where(y == -1, np.nan, y) if isinstance(estimator, LapRLSRegressor) else y


def fitted(estimator, X, y, sample_weight=None, **params):
    model = clone(estimator).set_params(**params)
    return model.fit(X, targets_for(model, y), sample_weight)


def assert_same_fit(model, other, X, rtol=1e-7, atol=1e-8):
    np.testing.assert_allclose(model._decisions(X), other._decisions(X), rtol=rtol, atol=atol)

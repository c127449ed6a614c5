"""Thirty rows of two moons with ten labels, and fits of them."""

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_moons

from onefit import LapRLSRegressor

N = 30
X, TRUTH = make_moons(N, noise=0.1, random_state=0)
Y = np.where(np.arange(N) < 10, TRUTH, -1)
TARGETS = np.where(Y == -1, np.nan, Y)


def labels_for(estimator):
    return TARGETS if isinstance(estimator, LapRLSRegressor) else Y


def fit(estimator, rows=X, y=None, sample_weight=None, **params):
    model = clone(estimator).set_params(**params)
    return model.fit(rows, labels_for(model) if y is None else y, sample_weight)


def changed(array, value, where=(3, 1)):
    """A copy with one entry replaced."""
    array = np.array(array)
    array[where] = value
    return array

"""scikit-learn estimators: thin classes over :mod:`onefit.problem`."""

from __future__ import annotations

from onefit.estimators._base import Assembled, ManifoldEstimator
from onefit.estimators._classification import LapLogisticRegression, LapRLSClassifier, LapSVC
from onefit.estimators._regression import LapRLSRegressor

__all__ = [
    "Assembled",
    "LapLogisticRegression",
    "LapRLSClassifier",
    "LapRLSRegressor",
    "LapSVC",
    "ManifoldEstimator",
]

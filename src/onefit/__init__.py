"""Semi-supervised learning by manifold regularization, tuned at the price of one fit."""

from __future__ import annotations

from onefit.crossval import HeldOutDecisions, cross_val_decisions
from onefit.displays import CriterionAgreementDisplay, DecisionDisplay, SearchSurfaceDisplay
from onefit.estimators import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
)
from onefit.folds import RepeatedSemiSupervisedKFold, SemiSupervisedKFold
from onefit.search import ManifoldSearchCV

__all__ = [
    "CriterionAgreementDisplay",
    "DecisionDisplay",
    "HeldOutDecisions",
    "LapLogisticRegression",
    "LapRLSClassifier",
    "LapRLSRegressor",
    "LapSVC",
    "ManifoldSearchCV",
    "RepeatedSemiSupervisedKFold",
    "SearchSurfaceDisplay",
    "SemiSupervisedKFold",
    "__version__",
    "cross_val_decisions",
]

__version__ = "0.1.0"

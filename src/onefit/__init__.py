"""Semi-supervised learning by manifold regularization, tuned at the price of one fit.

Names are imported when they are first asked for, so that the command line can answer, or be
interrupted, before scikit-learn is there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

#: Modules and what the package has of them.
_MODULES: dict[str, list[str]] = {
    "crossval": ["HeldOutDecisions", "cross_val_decisions"],
    "datasets": [],
    "displays": ["CriterionAgreementDisplay", "DecisionDisplay", "SearchSurfaceDisplay"],
    "estimators": ["LapLogisticRegression", "LapRLSClassifier", "LapRLSRegressor", "LapSVC"],
    "folds": ["RepeatedSemiSupervisedKFold", "SemiSupervisedKFold"],
    "persistence": [],
    "report": [],
    "search": ["ManifoldSearchCV"],
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"onefit.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"onefit.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_HOME})

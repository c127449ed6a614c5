"""Every estimator with every loss, and its parametrization of tests."""

import pytest

from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, LapSVC

CLASSIFIERS = {
    "square": LapRLSClassifier(),
    "hinge": LapSVC(),
    "squared_hinge": LapSVC(loss="squared_hinge"),
    "logistic": LapLogisticRegression(),
}
ESTIMATORS = {"regressor": LapRLSRegressor(), **CLASSIFIERS}

every_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS.values(), ids=CLASSIFIERS)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)

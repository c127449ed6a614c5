"""Every estimator with its loss in the reference."""

import reference
from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, LapSVC

ESTIMATORS = {
    "regressor": (LapRLSRegressor(), reference.Square()),
    "square": (LapRLSClassifier(), reference.Square()),
    "huberized_hinge": (LapSVC(), reference.HuberizedHinge(h=0.01)),
    "squared_hinge": (LapSVC(loss="squared_hinge"), reference.SquaredHinge()),
    "logistic": (LapLogisticRegression(), reference.Logistic()),
}

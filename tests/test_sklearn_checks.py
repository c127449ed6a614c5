"""scikit-learn's own checks of the estimators; every expected failure has its reason here."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, LapSVC

WEIGHT_CHECKS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
WEIGHTS_AND_GRAPH = (
    "a weight multiplies the loss of its row, but the row is one point of the graph whatever its "
    "weight: a repeated row adds a point, a row of weight 0 keeps its own. Without the manifold "
    "penalty there is no such difference; the variants with manifold_penalty=0 pass."
)
MINUS_ONE = (
    "the check fits the classes -1 and +1, but -1 marks unlabelled rows. scikit-learn exempts its "
    "own semi-supervised classifiers by name; TestClassNames has what is left of the check."
)
NOT_A_KERNEL = "the check makes a matrix that is not positive semi-definite, which is an error: "

WITHOUT_GRAPH = {"manifold_penalty": 0.0, "kernel_width": 1.0}
ESTIMATORS = [
    LapRLSRegressor(),
    LapRLSRegressor(fit_intercept=True, laplacian="normalized", laplacian_power=2),
    LapRLSRegressor(kernel="linear", n_components=10, landmarks="rpcholesky"),
    LapRLSRegressor(kernel="precomputed"),
    LapRLSRegressor(**WITHOUT_GRAPH),
    LapRLSClassifier(),
    LapRLSClassifier(fit_intercept=True, graph_weights="binary"),
    LapRLSClassifier(n_components=5),
    LapRLSClassifier(fit_intercept=True, **WITHOUT_GRAPH),
    LapSVC(),
    LapSVC(fit_intercept=True),
    LapSVC(n_components=5, fit_intercept=True),
    LapSVC(kernel="precomputed"),
    LapSVC(fit_intercept=True, **WITHOUT_GRAPH),
    LapSVC(loss="squared_hinge"),
    LapSVC(loss="squared_hinge", n_components=5, landmarks="rpcholesky"),
    LapSVC(loss="squared_hinge", fit_intercept=True, **WITHOUT_GRAPH),
    LapLogisticRegression(),
    LapLogisticRegression(fit_intercept=True),
    LapLogisticRegression(n_components=5, fit_intercept=True),
    LapLogisticRegression(fit_intercept=True, **WITHOUT_GRAPH),
]


def expected_failed_checks(estimator):
    """Names of checks that cannot pass, and why."""
    expected = {}
    if is_classifier(estimator):
        expected["check_classifiers_classes"] = MINUS_ONE
    if estimator.kernel == "precomputed":
        expected["check_positive_only_tag_during_fit"] = NOT_A_KERNEL + "a kernel less its mean."
        expected["check_estimators_dtypes"] = NOT_A_KERNEL + "a kernel cut to integers."
    elif estimator.manifold_penalty > 0.0:
        expected |= dict.fromkeys(WEIGHT_CHECKS, WEIGHTS_AND_GRAPH)
    return expected


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if is_classifier(e) and e.kernel != "precomputed"], ids=str
)
@pytest.mark.parametrize("names", [["one", "two", "three"], [3, 1, 2], [1.0, 4.0, 2.0]], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [None, object])
class TestClassNames:
    """What check_classifiers_classes asks, with names other than -1."""

    def test_predicts_the_names_it_was_given(self, estimator, names, n_classes, dtype):
        X, numbers = make_blobs(30, centers=n_classes, random_state=0, cluster_std=0.1)
        y = np.array(names, dtype=dtype)[numbers]
        model = clone(estimator).set_params(random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.classes_, np.unique(y))
        np.testing.assert_array_equal(model.predict(X), y)
        np.testing.assert_array_equal(model.transduction_, y)
        decisions = model.decision_function(X)
        codes = decisions > 0 if n_classes == 2 else decisions.argmax(axis=1)
        np.testing.assert_array_equal(model.classes_[codes.astype(int)], y)

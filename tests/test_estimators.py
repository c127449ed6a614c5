"""The estimators against other libraries, against themselves on equivalent input, and in use."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.class_weight import compute_sample_weight

import onefit.estimators._base as estimators_base
from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    SemiSupervisedKFold,
)

CLASSIFIERS = {
    "square": LapRLSClassifier(),
    "hinge": LapSVC(),
    "squared_hinge": LapSVC(loss="squared_hinge"),
    "logistic": LapLogisticRegression(),
}
ESTIMATORS = {"regressor": LapRLSRegressor(), **CLASSIFIERS}

every_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS.values(), ids=CLASSIFIERS)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


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


@pytest.fixture(scope="module")
def expected():
    """Classes of all rows, from integer labels."""
    return LapSVC().fit(*moons()).transduction_


def assert_same_fit(model, other, X, rtol=1e-7, atol=1e-8):
    np.testing.assert_allclose(model._decisions(X), other._decisions(X), rtol=rtol, atol=atol)


@pytest.mark.parametrize("ambient_penalty", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("sigma", [0.1, 2.0])
class TestWithoutGraph:
    """With gamma_I = 0 they are supervised kernel machines on the labelled rows."""

    X, y = moons()
    known = y != -1
    new_rows = np.random.default_rng(1).uniform(-1.5, 2.5, size=(50, 2))

    def fit(self, estimator, sigma, ambient_penalty, sample_weight=None, **params):
        return fitted(
            estimator,
            self.X,
            self.y,
            sample_weight,
            kernel_width=sigma,
            ambient_penalty=ambient_penalty,
            manifold_penalty=0.0,
            **params,
        )

    def features(self, sigma):
        """Features of the labelled and of the new rows, whose inner product is the kernel."""
        known = self.X[self.known]
        gamma = 0.5 / sigma
        L = cholesky(rbf_kernel(known, gamma=gamma) + 1e-13 * np.eye(len(known)), lower=True)
        return L, solve_triangular(L, rbf_kernel(known, self.new_rows, gamma=gamma), lower=True).T

    def test_kernel_ridge(self, sigma, ambient_penalty):
        alpha = ambient_penalty * self.known.sum()
        ridge = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.5 / sigma)
        ridge.fit(self.X[self.known], self.y[self.known])
        model = self.fit(LapRLSRegressor(), sigma, ambient_penalty)
        expected = ridge.predict(self.new_rows)
        np.testing.assert_allclose(model.predict(self.new_rows), expected, rtol=1e-8, atol=1e-10)
        ridge.fit(self.X[self.known], 2 * self.y[self.known] - 1)
        model = self.fit(LapRLSClassifier(), sigma, ambient_penalty)
        expected = ridge.predict(self.new_rows)
        np.testing.assert_allclose(
            model.decision_function(self.new_rows), expected, rtol=1e-8, atol=1e-10
        )

    def test_ridge_with_intercept(self, sigma, ambient_penalty):
        known, new = self.features(sigma)
        ridge = Ridge(alpha=ambient_penalty * self.known.sum()).fit(known, self.y[self.known])
        model = self.fit(LapRLSRegressor(), sigma, ambient_penalty, fit_intercept=True)
        np.testing.assert_allclose(model.predict(self.new_rows), ridge.predict(new), atol=1e-7)
        np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-7)

    def test_support_vector_machine(self, sigma, ambient_penalty):
        C = 0.5 / (self.known.sum() * ambient_penalty)
        svc = SVC(C=C, gamma=0.5 / sigma, tol=1e-10).fit(self.X[self.known], self.y[self.known])
        expected = svc.decision_function(self.new_rows)
        errors = [
            np.abs(
                self.fit(
                    LapSVC(hinge_width=h, fit_intercept=True), sigma, ambient_penalty
                ).decision_function(self.new_rows)
                - expected
            ).max()
            for h in (1e-2, 1e-4, 1e-6)
        ]
        assert errors[2] < 1e-4 * max(1.0, np.abs(expected).max())
        assert errors[2] <= errors[0]

    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_squared_hinge(self, sigma, ambient_penalty, fit_intercept):
        known, new = self.features(sigma)
        C = 0.5 / (self.known.sum() * ambient_penalty)
        # liblinear penalises its intercept; a large intercept_scaling makes that negligible, and
        # a larger one keeps it from its own optimum.
        svc = LinearSVC(
            C=C,
            tol=1e-10,
            dual=False,
            max_iter=10**6,
            fit_intercept=fit_intercept,
            intercept_scaling=1e3,
        ).fit(known, self.y[self.known])
        model = self.fit(
            LapSVC(loss="squared_hinge", fit_intercept=fit_intercept), sigma, ambient_penalty
        )
        expected = svc.decision_function(new)
        np.testing.assert_allclose(model.decision_function(self.new_rows), expected, atol=1e-4)

    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_kernel_logistic_regression(self, sigma, ambient_penalty, fit_intercept):
        known, new = self.features(sigma)
        logistic = LogisticRegression(
            C=0.5 / (self.known.sum() * ambient_penalty),
            fit_intercept=fit_intercept,
            solver="newton-cholesky",
            tol=1e-12,
        ).fit(known, self.y[self.known])
        model = self.fit(LapLogisticRegression(fit_intercept=fit_intercept), sigma, ambient_penalty)
        np.testing.assert_allclose(
            model.decision_function(self.new_rows), logistic.decision_function(new), atol=1e-6
        )
        np.testing.assert_allclose(
            model.predict_proba(self.new_rows), logistic.predict_proba(new), atol=1e-7
        )

    def test_weighted_support_vector_machine(self, sigma, ambient_penalty):
        weight = np.random.default_rng(0).uniform(0.2, 3.0, size=len(self.y))
        factor = np.where(self.y == 1, 4.0, 1.0)
        v = (weight * factor)[self.known]
        v /= v.sum()
        svc = SVC(C=0.5 / ambient_penalty, gamma=0.5 / sigma, tol=1e-10)
        svc.fit(self.X[self.known], self.y[self.known], v)
        model = self.fit(
            LapSVC(hinge_width=1e-6, fit_intercept=True, class_weight={1: 4.0}),
            sigma,
            ambient_penalty,
            sample_weight=weight,
        )
        expected = svc.decision_function(self.new_rows)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(
            model.decision_function(self.new_rows), expected, atol=1e-4 * scale
        )

    def test_unlabelled_rows_do_not_matter(self, sigma, ambient_penalty):
        for estimator in ESTIMATORS.values():
            with_all = self.fit(estimator, sigma, ambient_penalty)
            model = clone(with_all)
            y = targets_for(model, self.y[self.known])
            model.fit(self.X[self.known], y)
            assert_same_fit(with_all, model, self.new_rows)
            assert set(with_all.support_) <= set(np.flatnonzero(self.known))


VARIANTS = {
    "default": {},
    "no_graph": {"manifold_penalty": 0.0},
    "intercept": {"fit_intercept": True},
    "nystrom": {"n_components": 20, "random_state": 0},
    "rpcholesky": {"n_components": 20, "landmarks": "rpcholesky", "random_state": 0},
    "laplacian": {"laplacian": "normalized", "laplacian_power": 2},
    "polynomial": {"kernel": "poly", "kernel_params": {"degree": 2}},
    "binary": {"graph_weights": "binary", "n_neighbors": 3},
}


class TestTransduction:
    """Values on the training rows, and f at the same rows taken for new ones."""

    @every_estimator
    @pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS)
    def test_equals_prediction(self, estimator, params):
        X, y = moons()
        model = fitted(estimator, X, y, **params)
        if isinstance(model, LapRLSRegressor):
            np.testing.assert_allclose(model.predict(X), model.transduction_, rtol=1e-7, atol=1e-8)
        else:
            np.testing.assert_array_equal(model.predict(X), model.transduction_)
            assert len(np.unique(model.transduction_)) == 2

    @every_estimator
    def test_precomputed(self, estimator):
        X, y = moons()
        K = rbf_kernel(X)
        model = fitted(estimator, K, y, kernel="precomputed")
        predicted = model.predict(K)
        if isinstance(model, LapRLSRegressor):
            np.testing.assert_allclose(predicted, model.transduction_, rtol=1e-7, atol=1e-8)
        else:
            np.testing.assert_array_equal(predicted, model.transduction_)

    def test_expansion(self):
        X, y = three_blobs()
        model = LapLogisticRegression(kernel_width=3.0, fit_intercept=True).fit(X, y)
        new_rows = X[:7] + 0.1
        K = np.exp(-cdist(new_rows, X[model.support_], "sqeuclidean") / 6.0)
        np.testing.assert_array_equal(model.X_fit_, X[model.support_])
        np.testing.assert_allclose(
            model.decision_function(new_rows), K @ model.dual_coef_ + model.intercept_, atol=1e-10
        )

    def test_blocks_of_new_rows(self, monkeypatch):
        X, y = moons()
        model = LapSVC().fit(X, y)
        at_once = model.decision_function(X)
        monkeypatch.setattr(estimators_base, "_PREDICT_BLOCK", 7 * len(model.support_))
        np.testing.assert_allclose(model.decision_function(X), at_once, rtol=1e-9, atol=1e-10)


class TestSeveralOutputs:
    @every_classifier
    @pytest.mark.parametrize("fit_intercept", [False, True])
    @pytest.mark.parametrize("n_components", [None, 25])
    def test_one_vs_rest_equals_binary_fits(self, estimator, fit_intercept, n_components):
        X, y = three_blobs()
        params = {
            "fit_intercept": fit_intercept,
            "n_components": n_components,
            "random_state": 0,
        }
        model = fitted(estimator, X, y, **params)
        assert model.decision_function(X).shape == (60, 3)
        assert model.dual_coef_.shape[1] == 3
        assert model.intercept_.shape == (3,)
        for j in range(3):
            y_j = np.where(y == -1, -1, y == j)
            binary = fitted(estimator, X, y_j, **params)
            np.testing.assert_allclose(
                model.decision_function(X)[:, j], binary.decision_function(X), rtol=1e-6, atol=1e-7
            )
        best = model.classes_[model.decision_function(X).argmax(axis=1)]
        np.testing.assert_array_equal(model.predict(X), best)

    @pytest.mark.parametrize("params", [{}, {"fit_intercept": True}, {"n_components": 20}])
    def test_multi_output_equals_separate_regressions(self, params):
        X, y = moons()
        Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2, 1e3 * X[:, 0]])
        Y[y == -1] = np.nan
        model = LapRLSRegressor(random_state=0, **params).fit(X, Y)
        assert model.predict(X).shape == model.transduction_.shape == (80, 3)
        for j in range(3):
            single = LapRLSRegressor(random_state=0, **params).fit(X, Y[:, j])
            assert single.predict(X).shape == single.transduction_.shape == (80,)
            np.testing.assert_allclose(model.predict(X)[:, j], single.predict(X), rtol=1e-8)

    def test_a_column_stays_a_column(self):
        X, y = moons()
        flat = LapRLSRegressor().fit(X, targets_for(LapRLSRegressor(), y))
        column = LapRLSRegressor().fit(X, targets_for(LapRLSRegressor(), y)[:, None])
        assert column.predict(X).shape == column.transduction_.shape == (80, 1)
        np.testing.assert_array_equal(column.predict(X)[:, 0], flat.predict(X))

    @every_classifier
    def test_decision_function_of_two_classes(self, estimator):
        X, y = moons()
        model = fitted(estimator, X, y)
        decisions = model.decision_function(X)
        assert decisions.shape == (80,)
        np.testing.assert_array_equal(model.predict(X), model.classes_[(decisions > 0).astype(int)])
        assert model.decision_function(X[:1]).shape == (1,)


class TestSparseRows:
    @every_estimator
    @pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
    @pytest.mark.parametrize("kind", ["matrix", "array"])
    def test_equals_dense(self, estimator, layout, kind):
        X, y = moons()
        X = np.hstack([np.where(np.abs(X) < 0.3, 0.0, X), np.zeros((80, 3))])
        dense = fitted(estimator, X, y)
        as_sparse = getattr(sp, f"{layout}_{kind}")
        model = fitted(estimator, as_sparse(X), y)
        np.testing.assert_allclose(model.kernel_width_, dense.kernel_width_, rtol=1e-12)
        np.testing.assert_allclose(model.graph_width_, dense.graph_width_, rtol=1e-12)
        np.testing.assert_allclose(model._decisions(as_sparse(X)), dense._decisions(X), atol=1e-7)
        np.testing.assert_allclose(model._decisions(X), dense._decisions(X), atol=1e-7)
        np.testing.assert_allclose(dense._decisions(as_sparse(X)), dense._decisions(X), atol=1e-7)

    @pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "cosine", "poly"])
    @pytest.mark.parametrize("n_components", [None, 10])
    def test_other_kernels(self, kernel, n_components):
        X, y = moons()
        params = {"kernel": kernel, "n_components": n_components, "random_state": 0}
        dense = LapRLSClassifier(**params).fit(X, y)
        model = LapRLSClassifier(**params).fit(sp.csr_array(X), y)
        np.testing.assert_allclose(
            model.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-7
        )

    def test_callable_kernel_may_return_a_sparse_matrix(self):
        X, y = moons()
        linear = LapRLSClassifier(kernel="linear").fit(X, y)
        model = LapRLSClassifier(kernel=lambda A, B: A @ B.T).fit(sp.csr_array(X), y)
        np.testing.assert_allclose(
            model.decision_function(sp.csr_array(X)), linear.decision_function(X), atol=1e-9
        )


class TestWeights:
    X, y = moons()
    known = y != -1
    counts = np.where(known, np.random.default_rng(3).integers(1, 4, size=80), 1)

    @every_estimator
    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_integer_weights_equal_repeated_labels(self, estimator, fit_intercept):
        params = {"manifold_penalty": 0.0, "kernel_width": 0.5, "fit_intercept": fit_intercept}
        weighted = fitted(estimator, self.X, self.y, self.counts, **params)
        rows = np.repeat(np.arange(80), self.counts)
        repeated = fitted(estimator, self.X[rows], self.y[rows], **params)
        assert_same_fit(weighted, repeated, self.X, rtol=1e-6, atol=1e-7)

    @every_estimator
    def test_weights_and_graph_meet_in_the_objective(self, estimator):
        """Twice the weight on one half equals half the weight on the other; the graph is one."""
        weight = np.where(np.arange(80) % 2, 2.0, 1.0)
        one = fitted(estimator, self.X, self.y, weight)
        other = fitted(estimator, self.X, self.y, np.where(np.arange(80) % 2, 1.0, 0.5))
        assert_same_fit(one, other, self.X)
        assert np.abs(
            one._decisions(self.X) - fitted(estimator, self.X, self.y)._decisions(self.X)
        )[:, 0].max() > (1e-4)

    @every_estimator
    def test_zero_weight_is_unlabelled(self, estimator):
        X, y = three_blobs()
        weight = np.where(np.arange(60) % 3, 1.5, 0.0)
        model = fitted(estimator, X, y, weight)
        hidden = fitted(estimator, X, np.where(weight == 0.0, -1, y))
        assert_same_fit(model, hidden, X)

    def test_zero_weight_of_a_whole_class_removes_it(self):
        X, y = three_blobs()
        model = LapSVC().fit(X, y, sample_weight=(y != 1).astype(float))
        np.testing.assert_array_equal(model.classes_, [0, 2])
        assert_same_fit(model, LapSVC().fit(X, np.where(y == 1, -1, y)), X)

    def test_zero_weight_keeps_the_type_of_the_labels(self):
        X, y = three_blobs()
        y = y.astype(np.int8)
        model = LapSVC().fit(X, y, sample_weight=np.arange(60) % 2)
        assert model.classes_.dtype == np.int8

    @every_estimator
    @pytest.mark.parametrize("scale", [1e-300, 1e-3, 7.0, 1e300])
    def test_scale_of_weights_does_not_matter(self, estimator, scale):
        weight = np.random.default_rng(0).uniform(0.5, 2.0, size=80)
        model = fitted(estimator, self.X, self.y, weight)
        assert_same_fit(model, fitted(estimator, self.X, self.y, scale * weight), self.X)

    @every_estimator
    def test_number_list_and_series(self, estimator):
        model = fitted(estimator, self.X, self.y)
        for weight in (2.0, [3] * 80, pd.Series(np.full(80, 0.5))):
            assert_same_fit(model, fitted(estimator, self.X, self.y, weight), self.X)

    @every_estimator
    def test_weights_of_unlabelled_rows_are_not_used(self, estimator):
        weight = np.where(self.known, 1.0, 123.0)
        model = fitted(estimator, self.X, self.y, weight)
        assert_same_fit(model, fitted(estimator, self.X, self.y), self.X)

    @every_classifier
    def test_class_weight_is_a_factor_of_sample_weight(self, estimator):
        X, y = three_blobs()
        weight = np.random.default_rng(0).uniform(0.5, 2.0, size=60)
        model = fitted(estimator, X, y, weight, class_weight={0: 5.0, 2: 0.1})
        factor = np.select([y == 0, y == 2], [5.0, 0.1], 1.0)
        assert_same_fit(model, fitted(estimator, X, y, weight * factor), X, atol=1e-7)

    @every_classifier
    def test_balanced(self, estimator):
        X, y = three_blobs()
        y[np.flatnonzero(y == 0)[2:]] = -1
        model = fitted(estimator, X, y, class_weight="balanced")
        weight = np.ones(60)
        weight[y != -1] = compute_sample_weight("balanced", y[y != -1])
        assert_same_fit(model, fitted(estimator, X, y, weight), X, atol=1e-7)

    def test_class_weight_of_named_classes(self):
        names = np.array(["cold", "hot"])[self.y]
        y = np.where(self.known, names, "-1")
        model = LapRLSClassifier(class_weight={"hot": 3.0}).fit(self.X, y)
        other = LapRLSClassifier(class_weight={1: 3.0}).fit(self.X, self.y)
        assert_same_fit(model, other, self.X)


class TestIntercept:
    def test_follows_a_shift_of_the_targets(self):
        X, y = moons()
        y = targets_for(LapRLSRegressor(), y)
        model = LapRLSRegressor(fit_intercept=True).fit(X, y)
        shifted = LapRLSRegressor(fit_intercept=True).fit(X, y + 100.0)
        np.testing.assert_allclose(shifted.predict(X), model.predict(X) + 100.0, rtol=1e-9)
        assert LapRLSRegressor().fit(X, y).intercept_ == 0.0

    @pytest.mark.parametrize("params", [{}, {"laplacian": "normalized"}, {"n_components": 20}])
    def test_weighted_residuals_sum_to_zero(self, params):
        X, y = moons()
        weight = np.random.default_rng(0).uniform(0.5, 2.0, size=80)
        y = targets_for(LapRLSRegressor(), y)
        model = LapRLSRegressor(fit_intercept=True, **params).fit(X, y, weight)
        residuals = (weight * (y - model.predict(X)))[~np.isnan(y)]
        assert abs(residuals.sum()) < 1e-8

    def test_mean_probability_is_the_share_of_the_class(self):
        X, y = moons()
        y[y == 1] = np.where(np.arange((y == 1).sum()) < 3, 1, -1)
        model = LapLogisticRegression(fit_intercept=True).fit(X, y)
        known = y != -1
        expected = np.mean(y[known] == 1)
        assert model.predict_proba(X[known])[:, 1].mean() == pytest.approx(expected, abs=1e-7)

    @every_classifier
    def test_large_penalty_leaves_the_majority(self, estimator):
        X, y = moons()
        y[np.flatnonzero(y == 1)[3:]] = -1
        model = fitted(estimator, X, y, ambient_penalty=1e6, fit_intercept=True)
        np.testing.assert_array_equal(model.predict(X), 0)


class TestProbabilities:
    def test_two_classes(self):
        X, y = moons()
        model = LapLogisticRegression().fit(X, y)
        f = model.decision_function(X)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-f)), rtol=1e-12)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), rtol=1e-9)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))

    def test_three_classes(self):
        X, y = three_blobs()
        model = LapLogisticRegression().fit(X, y)
        one_vs_rest = 1.0 / (1.0 + np.exp(-model.decision_function(X)))
        expected = one_vs_rest / one_vs_rest.sum(axis=1, keepdims=True)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p, expected, rtol=1e-12)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))

    @pytest.mark.parametrize("data", [moons, three_blobs])
    def test_far_out_values_stay_ordered(self, data):
        """Where 1 / (1 + exp(-f)) is 0 or 1 to rounding for all classes."""
        X, y = data()
        model = LapLogisticRegression(fit_intercept=True).fit(X, y)
        for shift in (-2000.0, 2000.0):
            model.intercept_ = np.full_like(model.intercept_, shift)
            p = model.predict_proba(X)
            assert np.isfinite(p).all()
            np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        model.intercept_ = np.full_like(model.intercept_, -2000.0)
        assert np.isfinite(model.predict_log_proba(X)).all()
        np.testing.assert_array_equal(
            model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X)
        )

    def test_only_the_logistic_loss_has_them(self):
        assert not hasattr(LapSVC(), "predict_proba")
        assert not hasattr(LapRLSClassifier(), "predict_proba")


class TestPandas:
    X, y = moons()
    frame = pd.DataFrame(X, columns=["east", "north"])
    words = np.array(["no", "yes"])

    @pytest.mark.parametrize(
        "unlabelled", [None, np.nan, pd.NA, -1, "-1"], ids=["None", "NaN", "NA", "-1", "'-1'"]
    )
    @pytest.mark.parametrize("container", [list, np.array, pd.Series])
    def test_strings(self, unlabelled, container, expected):
        labels = [unlabelled if code < 0 else str(self.words[code]) for code in self.y]
        y = np.array(labels, dtype=object) if container is np.array else container(labels)
        model = LapSVC().fit(self.frame, y)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(model.transduction_, self.words[expected])
        np.testing.assert_array_equal(model.predict(self.frame), self.words[expected])

    @pytest.mark.parametrize("dtype", ["str", "string", "category", object])
    def test_string_types(self, dtype, expected):
        labels = [None if code < 0 else str(self.words[code]) for code in self.y]
        model = LapSVC().fit(self.frame, pd.Series(labels, dtype=dtype))
        np.testing.assert_array_equal(model.transduction_, self.words[expected])

    @pytest.mark.parametrize(
        "dtype, kind", [("Int64", "i"), ("Float64", "f"), ("boolean", "b"), (object, "i")]
    )
    def test_nullable_numbers(self, dtype, kind, expected):
        labels = [None if code < 0 else code for code in self.y]
        if dtype == "boolean":
            labels = [None if code < 0 else bool(code) for code in self.y]
        model = LapSVC().fit(self.frame, pd.Series(labels, dtype=dtype))
        assert model.classes_.dtype.kind == kind
        np.testing.assert_array_equal(model.transduction_, expected)

    def test_minus_one_in_nullable_and_categorical_integers(self, expected):
        for dtype in ("Int64", "Int8", "category"):
            model = LapSVC().fit(self.frame, pd.Series(self.y, dtype=dtype))
            np.testing.assert_array_equal(model.transduction_, expected)
            assert model.classes_.dtype.kind == "i"

    def test_unused_categories_are_no_classes(self):
        labels = pd.Series([None if code < 0 else str(self.words[code]) for code in self.y])
        y = pd.Series(pd.Categorical(labels, categories=["maybe", "no", "yes"]))
        assert LapSVC().fit(self.frame, y).classes_.tolist() == ["no", "yes"]

    @pytest.mark.parametrize("dtype", ["float64", "Float64", "Int64", object])
    def test_regression_targets(self, dtype):
        labels = [None if code < 0 else code for code in self.y]
        model = LapRLSRegressor().fit(self.frame, pd.Series(labels, dtype=dtype))
        expected = LapRLSRegressor().fit(self.X, np.where(self.y == -1, np.nan, self.y))
        np.testing.assert_allclose(model.transduction_, expected.transduction_, rtol=1e-9)

    def test_several_targets(self):
        y = np.where(self.y == -1, np.nan, self.y)
        Y = pd.DataFrame({"a": y, "b": 2 * y}).astype({"b": "Float64"})
        model = LapRLSRegressor().fit(self.frame, Y)
        np.testing.assert_allclose(model.predict(self.frame) @ [2.0, -1.0], 0.0, atol=1e-9)

    def test_index_is_not_used(self, expected):
        index = np.random.default_rng(0).permutation(80)
        model = LapSVC().fit(self.frame.set_index(index), pd.Series(self.y, index=index[::-1]))
        np.testing.assert_array_equal(model.transduction_, expected)

    @pytest.mark.parametrize("dtype", ["Int64", "Float64", "float32", "boolean", "category"])
    def test_column_types(self, dtype):
        column = pd.Series(np.arange(80) % 2)
        numbers = np.column_stack([self.X, column])
        model = LapRLSClassifier().fit(self.frame.assign(flag=column.astype(dtype)), self.y)
        expected = LapRLSClassifier().fit(numbers, self.y)
        np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-9)

    def test_feature_names(self):
        model = LapSVC().fit(self.frame, self.y)
        assert model.feature_names_in_.tolist() == ["east", "north"]
        assert model.n_features_in_ == 2
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(self.frame.rename(columns={"east": "west"}))
        with pytest.raises(ValueError, match="same order"):
            model.predict(self.frame[["north", "east"]])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(self.X)

    def test_sparse_columns(self, expected):
        frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(self.X), columns=["a", "b"])
        model = LapSVC().fit(frame, self.y)
        np.testing.assert_array_equal(model.predict(frame), expected)


class TestLabels:
    """What marks a row as unlabelled, apart from pandas."""

    X, y = moons()

    @pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64, object])
    def test_minus_one(self, dtype, expected):
        model = LapSVC().fit(self.X, self.y.astype(dtype))
        np.testing.assert_array_equal(model.transduction_, expected)

    def test_nan_in_float_labels(self, expected):
        model = LapSVC().fit(self.X, np.where(self.y == -1, np.nan, self.y))
        np.testing.assert_array_equal(model.transduction_, expected)

    @pytest.mark.parametrize("estimator", [LapSVC(), LapRLSRegressor()], ids=str)
    def test_masked(self, estimator):
        truth = np.random.default_rng(0).permutation(80) % 2
        y = np.ma.masked_array(truth, mask=self.y == -1)
        model = clone(estimator).fit(self.X, y)
        assert_same_fit(model, fitted(estimator, self.X, np.where(y.mask, -1, truth)), self.X)

    def test_numpy_strings(self):
        words = np.array(["no", "yes", "-1"])[self.y]
        for y in (words, words.astype(np.dtypes.StringDType())):
            model = LapSVC().fit(self.X, y)
            assert model.classes_.tolist() == ["no", "yes"]

    def test_truth_values(self):
        model = LapSVC().fit(self.X, [None if code < 0 else bool(code) for code in self.y])
        assert model.classes_.tolist() == [False, True]
        assert model.predict(self.X).dtype == bool

    def test_one_label_each_of_many_classes(self):
        """scikit-learn's reading of y would warn that these may be regression targets."""
        y = np.where(np.arange(80) < 30, np.arange(80), -1)
        assert len(LapRLSClassifier().fit(self.X, y).classes_) == 30

    def test_all_rows_labelled(self):
        truth = moons(n_labelled=80)[1]
        assert np.mean(LapSVC(kernel_width=0.2).fit(self.X, truth).predict(self.X) == truth) > 0.95


class TestKernels:
    X, y = moons()
    new_rows = X + 0.1

    def test_precomputed_equals_gaussian(self):
        for estimator in ESTIMATORS.values():
            gaussian = fitted(estimator, self.X, self.y, kernel_width=0.5)
            K = rbf_kernel(self.X, gamma=1.0)
            model = fitted(estimator, K, self.y, kernel="precomputed", graph=gaussian.graph_)
            new = rbf_kernel(self.new_rows, self.X, gamma=1.0)
            np.testing.assert_allclose(
                model._decisions(new), gaussian._decisions(self.new_rows), rtol=1e-7, atol=1e-8
            )
            assert model.X_fit_ is None
            assert model.kernel_width_ is None

    def test_precomputed_kernel_has_its_own_distances(self):
        """The Gaussian kernel decreases with the distance: the neighbours are the same."""
        gaussian = LapSVC(kernel_width=0.5, graph_weights="binary").fit(self.X, self.y)
        K = rbf_kernel(self.X, gamma=1.0)
        model = LapSVC(kernel="precomputed", graph_weights="binary").fit(K, self.y)
        assert (model.graph_ != gaussian.graph_).nnz == 0
        linear = LapSVC(kernel="precomputed").fit(self.X @ self.X.T, self.y)
        np.testing.assert_allclose(
            linear.graph_.toarray(), LapSVC().fit(self.X, self.y).graph_.toarray(), rtol=1e-6
        )

    def test_precomputed_nystrom(self):
        params = {"n_components": 15, "random_state": 1, "graph_weights": "binary"}
        for landmarks in ("uniform", "rpcholesky"):
            gaussian = LapRLSClassifier(kernel_width=0.5, landmarks=landmarks, **params)
            gaussian.fit(self.X, self.y)
            model = LapRLSClassifier(kernel="precomputed", landmarks=landmarks, **params)
            model.fit(rbf_kernel(self.X, gamma=1.0), self.y)
            np.testing.assert_array_equal(model.support_, gaussian.support_)
            np.testing.assert_allclose(
                model.decision_function(rbf_kernel(self.new_rows, self.X, gamma=1.0)),
                gaussian.decision_function(self.new_rows),
                rtol=1e-6,
                atol=1e-7,
            )

    def test_precomputed_in_single_precision(self):
        """Its eigenvalues are negative by rounding; they are taken for 0."""
        X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
        K = X @ X.T
        assert np.linalg.eigvalsh(K.astype(float))[0] < -1e-7
        for estimator in ESTIMATORS.values():
            model = fitted(estimator, K, self.y, kernel="precomputed")
            exact = fitted(estimator, X, self.y, kernel="linear", graph=model.graph_)
            np.testing.assert_allclose(model._decisions(K), exact._decisions(X), atol=1e-4)
            model = fitted(estimator, K, self.y, kernel="precomputed", ambient_penalty=1e-6)
            assert np.isfinite(model._decisions(K)).all()

    @pytest.mark.parametrize(
        "name, params",
        [
            ("linear", {}),
            ("poly", {"degree": 2, "coef0": 1.0}),
            ("polynomial", {"degree": 3}),
            ("cosine", {}),
            ("laplacian", {"gamma": 0.7}),
            ("rbf", {"gamma": 2.0}),
            ("rbf", {}),
            ("chi2", {"gamma": 0.5}),
        ],
    )
    def test_names_of_scikit_learn(self, name, params):
        X = self.X - self.X.min(axis=0)
        named = LapRLSClassifier(kernel=name, kernel_params=params).fit(X, self.y)
        assert named.kernel_width_ is None

        def function(A, B):
            return pairwise_kernels(A, B, metric=name, **params)

        called = LapRLSClassifier(kernel=function).fit(X, self.y)
        assert_same_fit(called, named, X)

    def test_rbf_equals_gaussian(self):
        rbf = LapSVC(kernel="rbf", kernel_params={"gamma": 2.0}).fit(self.X, self.y)
        assert_same_fit(rbf, LapSVC(kernel_width=0.25).fit(self.X, self.y), self.new_rows)

    def test_callable_with_parameters(self):
        def scaled(A, B, factor):
            return factor * (A @ B.T)

        model = LapRLSClassifier(kernel=scaled, kernel_params={"factor": 3.0})
        model.fit(self.X, self.y)
        other = LapRLSClassifier(kernel="linear", ambient_penalty=1e-3 / 3)
        assert_same_fit(model, other.fit(self.X, self.y), self.new_rows)


class TestGraphs:
    X, y = moons()

    @pytest.mark.parametrize("laplacian", ["unnormalized", "normalized"])
    def test_precomputed_and_callable_equal_knn(self, laplacian):
        for estimator in ESTIMATORS.values():
            knn = fitted(estimator, self.X, self.y, laplacian=laplacian)
            W = knn.graph_
            forms = [
                W,
                sp.csc_matrix(W),
                W.tocoo(),
                W.toarray(),
                pd.DataFrame(W.toarray()),
                lambda X, W=W: W,
                lambda X, W=W: W.toarray(),
            ]
            for graph in forms:
                model = fitted(estimator, self.X, self.y, laplacian=laplacian, graph=graph)
                assert_same_fit(model, knn, self.X, rtol=1e-9)
                assert model.graph_width_ is None

    def test_callable_sees_all_rows(self):
        seen = []

        def graph(X):
            seen.append(X.copy())
            return np.exp(-cdist(X, X))

        model = LapSVC(graph=graph).fit(self.X, self.y)
        np.testing.assert_array_equal(seen[0], self.X)
        np.testing.assert_allclose(model.graph_.toarray(), np.exp(-cdist(self.X, self.X)))

    @pytest.mark.parametrize("weights", ["heat", "binary"])
    def test_knn_against_a_naive_construction(self, weights):
        k, sigma_w = 4, 0.07
        D = cdist(self.X, self.X, "sqeuclidean")
        W = np.zeros_like(D)
        for i in range(80):
            nearest = [j for j in np.argsort(D[i]) if j != i][:k]
            W[i, nearest] = W[nearest, i] = 1.0
        if weights == "heat":
            W *= np.exp(-D / (2 * sigma_w))
        model = LapSVC(n_neighbors=k, graph_width=sigma_w, graph_weights=weights)
        model.fit(self.X, self.y)
        np.testing.assert_allclose(model.graph_.toarray(), W, rtol=1e-9)
        assert model.graph_width_ == (sigma_w if weights == "heat" else None)

    @every_estimator
    def test_large_manifold_penalty_makes_f_constant_along_the_graph(self, estimator):
        X, truth = make_moons(80, noise=0.02, random_state=0)
        y = np.where(np.isin(np.arange(80), [np.argmax(truth), np.argmin(truth)]), truth, -1)
        W = np.equal.outer(truth, truth).astype(float)
        model = fitted(estimator, X, y, graph=W, manifold_penalty=1e6, kernel_width=0.1)
        values = model._decisions(X)[:, 0]
        for c in (0, 1):
            inside = values[truth == c]
            assert np.ptp(inside) < 3e-3
        assert values[truth == 1].min() > values[truth == 0].max()


class TestWidths:
    def test_medians_against_a_naive_computation(self):
        X, y = moons()
        model = LapSVC(n_neighbors=5).fit(X, y)
        assert model.kernel_width_ == pytest.approx(np.median(pdist(X, "sqeuclidean")), rel=1e-10)
        D = cdist(X, X, "sqeuclidean")
        neighbours = np.sort(D, axis=1)[:, 1:6]
        assert model.graph_width_ == pytest.approx(np.median(neighbours), rel=1e-10)

    def test_equal_rows_do_not_count(self):
        X, y = moons()
        repeated = np.repeat(X[:20], 4, axis=0) + 100.0 / 3.0
        D = pdist(repeated, "sqeuclidean")
        for params in ({}, {"n_components": 20}):
            model = LapSVC(n_neighbors=5, **params).fit(repeated, y)
            assert model.kernel_width_ == pytest.approx(np.median(D[D > 0]), rel=1e-9)
            # Three copies of each row are at distance 0; the two nearest other rows are not.
            nearest = np.sort(cdist(repeated, repeated, "sqeuclidean"), axis=1)[:, 4:6]
            assert model.graph_width_ == pytest.approx(np.median(nearest), rel=1e-9)

    @pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
    def test_follow_the_unit_of_the_rows(self, scale):
        X, y = moons()
        for estimator in ESTIMATORS.values():
            model = fitted(estimator, X, y)
            scaled = fitted(estimator, scale * X, y)
            assert scaled.kernel_width_ == pytest.approx(scale**2 * model.kernel_width_)
            assert scaled.graph_width_ == pytest.approx(scale**2 * model.graph_width_)
            np.testing.assert_allclose(scaled._decisions(scale * X), model._decisions(X), atol=1e-7)

    def test_given_widths_are_used(self):
        X, y = moons()
        model = LapSVC(kernel_width=0.3, graph_width=0.2).fit(X, y)
        assert (model.kernel_width_, model.graph_width_) == (0.3, 0.2)


class TestNystrom:
    @every_estimator
    @pytest.mark.parametrize("landmarks", ["uniform", "kmeans++", "rpcholesky"])
    def test_all_rows_give_the_exact_solution(self, estimator, landmarks):
        X, y = moons()
        exact = fitted(estimator, X, y, kernel_width=0.1)
        model = fitted(
            estimator, X, y, kernel_width=0.1, n_components=80, landmarks=landmarks, random_state=0
        )
        np.testing.assert_allclose(model._decisions(X), exact._decisions(X), atol=1e-5)

    @pytest.mark.parametrize("landmarks", ["uniform", "kmeans++", "rpcholesky"])
    def test_support_is_the_landmarks(self, landmarks):
        X, y = moons()
        model = LapSVC(n_components=12, landmarks=landmarks, random_state=0).fit(X, y)
        assert len(model.support_) <= 12
        assert model.X_fit_.shape == (len(model.support_), 2)
        np.testing.assert_array_equal(model.X_fit_, X[model.support_])

    @pytest.mark.parametrize("landmarks", ["uniform", "kmeans++", "rpcholesky"])
    def test_random_state(self, landmarks):
        X, y = moons()
        model = LapSVC(n_components=8, landmarks=landmarks, kernel_width=0.05)
        seeds = [0, 0, np.random.RandomState(0), 1]
        fits = [clone(model).set_params(random_state=seed).fit(X, y) for seed in seeds]
        for same in fits[1:3]:
            np.testing.assert_array_equal(same.support_, fits[0].support_)
            np.testing.assert_array_equal(same.dual_coef_, fits[0].dual_coef_)
        assert set(fits[3].support_) != set(fits[0].support_)


class TestInUse:
    @every_estimator
    def test_pickle(self, estimator):
        X, y = moons()
        model = fitted(estimator, X, y, fit_intercept=True)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.transduction_, model.transduction_)

    @every_estimator
    def test_clone_has_the_parameters_and_no_fit(self, estimator):
        X, y = moons()
        W = fitted(estimator, X, y).graph_
        params = {"kernel_width": 0.3, "graph": W, "kernel_params": {}, "tol": 1e-6}
        model = fitted(estimator, X, y, **params)
        copy = clone(model)
        with pytest.raises(NotFittedError):
            copy.predict(X)
        assert copy.get_params()["kernel_width"] == 0.3
        assert_same_fit(copy.fit(X, targets_for(copy, y)), model, X, rtol=1e-12)

    @every_estimator
    def test_parameters(self, estimator):
        model = clone(estimator)
        params = model.get_params()
        assert ("class_weight" in params) != isinstance(model, LapRLSRegressor)
        assert ("loss" in params) == isinstance(model, LapSVC)
        for name, value in params.items():
            assert getattr(model, name) is value
        model.set_params(manifold_penalty=3.0, n_neighbors=4)
        assert (model.manifold_penalty, model.n_neighbors) == (3.0, 4)
        with pytest.raises(ValueError, match="Invalid parameter 'gamma'"):
            model.set_params(gamma=1.0)

    def test_refit_forgets_the_last_fit(self):
        X, y = moons()
        X3, y3 = three_blobs()
        model = LapSVC().fit(X3, y3).fit(X, y)
        assert_same_fit(model, LapSVC().fit(X, y), X)
        assert model.classes_.tolist() == [0, 1]

    @pytest.mark.parametrize("scaler", [StandardScaler(), None], ids=["scaled", "bare"])
    def test_pipeline(self, scaler):
        X, y = moons()
        stretched = X * [1e3, 1e-3]
        pipeline = make_pipeline(scaler, LapSVC()).fit(stretched, y)
        if scaler is None:
            assert pipeline.predict(stretched).shape == (80,)
            return
        direct = LapSVC().fit(StandardScaler().fit_transform(X), y)
        np.testing.assert_array_equal(pipeline.predict(stretched), direct.transduction_)

    def test_grid_search(self):
        X, y = moons()
        grid = {"kernel_width": [0.05, 1.0], "manifold_penalty": [0.0, 1.0]}
        search = GridSearchCV(LapRLSClassifier(), grid, cv=SemiSupervisedKFold(4), n_jobs=1)
        search.fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_score_ > 0.7

    def test_grid_search_over_a_precomputed_kernel(self):
        X, y = moons()
        K = rbf_kernel(X, gamma=5.0)
        search = GridSearchCV(
            LapRLSClassifier(kernel="precomputed"),
            {"manifold_penalty": [0.0, 1.0]},
            cv=SemiSupervisedKFold(4),
            error_score="raise",
        ).fit(K, y)
        assert search.best_score_ > 0.7

    @every_estimator
    def test_single_precision(self, estimator):
        X, y = moons()
        model = fitted(estimator, X.astype(np.float32), y)
        same = fitted(estimator, X.astype(np.float32).astype(np.float64), y)
        assert model.dual_coef_.dtype == np.float64
        np.testing.assert_array_equal(model.dual_coef_, same.dual_coef_)

    @every_estimator
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_read_only_and_unchanged_input(self, estimator, order):
        X, y = moons()
        X = np.array(X, order=order)
        weight = np.where(np.arange(80) % 5, 1.0, 0.0)
        targets = targets_for(estimator, y).copy()
        copies = [array.copy() for array in (X, targets, weight)]
        for array in (X, targets, weight):
            array.flags.writeable = False
        model = clone(estimator).fit(X, targets, weight)
        model.predict(X)
        for array, copy in zip((X, targets, weight), copies, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_read_only_precomputed_kernel_and_graph(self):
        X, y = moons()
        K, W = rbf_kernel(X), np.exp(-cdist(X, X))
        K.flags.writeable = W.flags.writeable = False
        copies = K.copy(), W.copy()
        LapSVC(kernel="precomputed", graph=W).fit(K, y)
        LapSVC(kernel="precomputed").fit(K, y)
        np.testing.assert_array_equal(K, copies[0])
        np.testing.assert_array_equal(W, copies[1])

    @every_estimator
    @pytest.mark.parametrize("params", [{}, {"fit_intercept": True}, {"kernel": "linear"}], ids=str)
    def test_order_of_the_rows(self, estimator, params):
        X, y = moons()
        order = np.random.default_rng(0).permutation(80)
        weight = np.random.default_rng(1).uniform(0.5, 2.0, size=80)
        model = fitted(estimator, X, y, weight, **params)
        permuted = fitted(estimator, X[order], y[order], weight[order], **params)
        assert_same_fit(permuted, model, X, rtol=1e-6, atol=1e-7)
        if isinstance(model, LapRLSRegressor):
            np.testing.assert_allclose(
                permuted.transduction_, model.transduction_[order], rtol=1e-7, atol=1e-8
            )
        else:
            np.testing.assert_array_equal(permuted.transduction_, model.transduction_[order])

    @every_classifier
    def test_swapping_two_classes_flips_the_sign(self, estimator):
        X, y = moons()
        model = fitted(estimator, X, y)
        swapped = fitted(estimator, X, np.where(y == -1, -1, 1 - y))
        np.testing.assert_allclose(
            swapped.decision_function(X), -model.decision_function(X), rtol=1e-6, atol=1e-7
        )

    def test_too_few_steps_are_reported(self):
        X, y = moons()
        with pytest.warns(ConvergenceWarning, match=r"after 1 steps .* raise max_iter, or tol"):
            model = LapLogisticRegression(max_iter=1).fit(X, y)
        assert model.n_iter_ == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert LapLogisticRegression().fit(X, y).n_iter_ > 1

"""With no manifold penalty the estimators are supervised kernel machines of other libraries."""

import numpy as np
import pytest
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, LinearSVC

from fits import assert_same_fit, fitted, moons, targets_for
from models import ESTIMATORS
from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, LapSVC


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

"""Kernels, graphs, widths and landmarks as the estimators take them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from fits import assert_same_fit, fitted, moons
from models import ESTIMATORS, every_estimator
from onefit import LapRLSClassifier, LapSVC


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

"""Kernels, graphs and folds that make no sense get an error that says why; see test_validation."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from models import ESTIMATORS, every_estimator
from onefit import LapSVC, RepeatedSemiSupervisedKFold, SemiSupervisedKFold, cross_val_decisions
from small_moons import TRUTH, N, X, Y, changed, fit


class TestKernels:
    """A kernel must be positive semi-definite, and a precomputed one fit the rows."""

    NOT_PSD = (
        r"gave a matrix that is not positive semi-definite \(smallest eigenvalue -[\d.e+]+\); .* "
        r"needs a positive semi-definite kernel. Use another kernel"
    )

    @every_estimator
    def test_not_positive_semidefinite(self, estimator):
        with pytest.raises(ValueError, match="kernel='precomputed' " + self.NOT_PSD):
            fit(estimator, -rbf_kernel(X), kernel="precomputed")
        with pytest.raises(ValueError, match="kernel='precomputed' " + self.NOT_PSD):
            fit(estimator, cdist(X, X), kernel="precomputed")
        with pytest.raises(ValueError, match="kernel='sigmoid' " + self.NOT_PSD):
            fit(estimator, kernel="sigmoid")
        with pytest.raises(ValueError, match=r"kernel=<function .*cdist.*> " + self.NOT_PSD):
            fit(estimator, kernel=cdist)

    @pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
    def test_not_positive_semidefinite_nystrom(self, landmarks):
        params = {"n_components": 8, "landmarks": landmarks, "random_state": 0}
        message = "not positive semi-definite.* Use another kernel"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: -rbf_kernel(A, B), **params)
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), -rbf_kernel(X), kernel="precomputed", **params)

    def test_zero_kernel(self):
        message = "is 0 between every row and itself, so that f could only be 0. Use another kernel"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), 0 * X, kernel="linear", n_components=3, landmarks="rpcholesky")
        for params in ({}, {"n_components": 3}):
            model = fit(LapSVC(), 0 * X, kernel="linear", fit_intercept=True, **params)
            assert np.ptp(model.decision_function(X)) == 0.0

    def test_slightly_negative_eigenvalues(self):
        """Beyond the rounding of single precision it is an error, within it is not."""
        values, vectors = np.linalg.eigh(rbf_kernel(X))
        values[0] = -1e-4 * values[-1]
        with pytest.raises(ValueError, match=self.NOT_PSD):
            fit(LapSVC(), (vectors * values) @ vectors.T, kernel="precomputed")
        values[0] = -1e-8 * values[-1]
        K = (vectors * values) @ vectors.T
        clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
        for estimator in ESTIMATORS.values():
            params = {"kernel": "precomputed", "ambient_penalty": 1e-6}
            model, same = fit(estimator, K, **params), fit(estimator, clipped, **params)
            np.testing.assert_allclose(model.dual_coef_, same.dual_coef_, rtol=1e-3, atol=1e-3)

    def test_asymmetric(self):
        K = changed(rbf_kernel(X), 0.9, where=(3, 17))
        message = r"not symmetric \(largest difference .*\); expected k\(x, y\) == .* Symmetrise it"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), K, kernel="precomputed")
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: K[: len(A), : len(B)])

    def test_shape_of_a_callable(self):
        message = (
            r"returned an array of shape \(30,\). Expected .* \(30, 30\); a function of two si"
        )
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: np.ones(len(A)))

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_values_of_a_callable(self, value):
        message = r"callable returned NaN or infinity; expected finite values. Rescale X, or use"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: np.full((len(A), len(B)), value))

    @every_estimator
    def test_precomputed_is_not_square(self, estimator):
        message = r"X of shape \(30, 2\); expected the square kernel matrix of all training rows"
        with pytest.raises(ValueError, match=message):
            fit(estimator, kernel="precomputed")

    @every_estimator
    def test_precomputed_has_another_width_in_predict(self, estimator):
        model = fit(estimator, rbf_kernel(X), kernel="precomputed")
        message = "X has 10 features, but .* is expecting 30 features"
        with pytest.raises(ValueError, match=message):
            model.predict(rbf_kernel(X[:5], X[:10]))
        assert model.predict(rbf_kernel(X[:5], X)).shape == (5,)

    @every_estimator
    def test_precomputed_is_sparse(self, estimator):
        message = r"with a sparse X; expected a dense kernel matrix. Use X.toarray\(\)"
        K = sp.csr_array(rbf_kernel(X))
        with pytest.raises(TypeError, match=message):
            fit(estimator, K, kernel="precomputed")
        model = fit(estimator, rbf_kernel(X), kernel="precomputed")
        with pytest.raises(TypeError, match=message):
            model.predict(K)

    def test_precomputed_with_nan(self):
        with pytest.raises(ValueError, match="X contains NaN"):
            fit(LapSVC(), changed(rbf_kernel(X), np.nan), kernel="precomputed")

    def test_negative_data_for_chi2(self):
        with pytest.raises(ValueError, match="negative"):
            fit(LapSVC(), kernel="chi2")


class TestGraphs:
    W = np.exp(-cdist(X, X))

    def given(self, W):
        """The same affinity, dense, sparse and by a function."""
        return [W, sp.csr_array(W), sp.csr_matrix(W), lambda rows: W]

    @every_estimator
    def test_asymmetric(self, estimator):
        message = r"not symmetric \(largest difference 0.5\); expected W\[i, j\] == .* W.maximum"
        for graph in self.given(changed(self.W, self.W[3, 1] + 0.5)):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)

    def test_asymmetric_whatever_the_unit(self):
        W = 1e-12 * changed(self.W, self.W[3, 1] + 0.5)
        with pytest.raises(ValueError, match="not symmetric"):
            fit(LapSVC(), graph=W)

    @every_estimator
    def test_negative(self, estimator):
        message = r"a negative weight \(-0.25\); expected weights >= 0, .* Clip or shift them"
        for graph in self.given(changed(changed(self.W, -0.25), -0.25, where=(1, 3))):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)

    @every_estimator
    def test_shape(self, estimator):
        message = (
            r"graph has shape \(20, 20\); expected \(30, 30\), one row and column for every row"
        )
        for graph in self.given(self.W[:20, :20]):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)
        with pytest.raises(ValueError, match=r"graph has shape \(30,\); expected \(30, 30\)"):
            fit(estimator, graph=np.ones(N))

    @every_estimator
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite(self, estimator, value):
        message = r"graph has NaN or infinite weights; expected finite ones, and .* 0 where there"
        for graph in self.given(changed(self.W, value)):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)

    @every_estimator
    @pytest.mark.parametrize("value", [None, "rbf", 3, [[0, 1], [1, 0]]], ids=str)
    def test_no_graph(self, estimator, value):
        message = (
            r"graph=.*; expected 'knn', 'anchor', a sparse or dense affinity .* or a function of X"
        )
        with pytest.raises(ValueError, match=message):
            fit(estimator, graph=value)

    def test_no_numbers(self):
        message = r"graph is a ndarray that is no matrix of numbers \(.*'a'.*\); expected a sparse"
        with pytest.raises(TypeError, match=message):
            fit(LapSVC(), graph=np.full((N, N), "a"))
        with pytest.raises(TypeError, match="graph is a NoneType that is no matrix of numbers"):
            fit(LapSVC(), graph=lambda rows: None)

    def test_repeated_entries_are_summed(self):
        """A CSR matrix may hold an entry in pieces, one of which is negative."""
        W = sp.csr_array(changed(0 * self.W, 1.0, where=([3, 1], [1, 3])))
        data, columns, ends = [2.0, -1.0, 2.0, -1.0], [3, 3, 1, 1], np.zeros(N + 1, dtype=int)
        ends[2:4], ends[4:] = 2, 4
        pieces = sp.csr_array((data, columns, ends), shape=(N, N))
        model = fit(LapSVC(), graph=pieces)
        np.testing.assert_array_equal(model.graph_.toarray(), W.toarray())
        np.testing.assert_array_equal(pieces.data, [2.0, -1.0, 2.0, -1.0])


class TestFolds:
    def test_more_folds_than_labels(self):
        message = r"n_splits=11 is more than the 10 labelled rows; .* Use at most 10 folds"
        with pytest.raises(ValueError, match=message):
            cross_val_decisions(LapSVC(), X, Y, cv=11)
        for cv in (SemiSupervisedKFold(11), RepeatedSemiSupervisedKFold(11, n_repeats=2)):
            with pytest.raises(ValueError, match=message):
                list(cv.split(X, Y))
            with pytest.raises(ValueError, match=message):
                cross_val_decisions(LapSVC(), X, Y, cv=cv)

    def test_labels_hidden_by_their_weight_do_not_count(self):
        weight = np.where(np.arange(N) < 4, 0.0, 1.0)
        with pytest.raises(ValueError, match="n_splits=10 is more than the 6 labelled rows"):
            cross_val_decisions(LapSVC(), X, Y, cv=10, sample_weight=weight)
        held_out = cross_val_decisions(LapSVC(), X, Y, cv=6, sample_weight=weight)
        assert np.isnan(held_out.predictions[:4]).all()
        assert np.isfinite(held_out.predictions[4:10]).all()

    @pytest.mark.parametrize("cv", [1, 0, -3, True, "loo", 2.5, None])
    def test_number_of_folds(self, cv):
        with pytest.raises(ValueError, match=rf"(cv|n_splits)={cv!r}; expected"):
            cross_val_decisions(LapSVC(), X, Y, cv=cv)

    def test_bad_input_is_found_by_cross_validation_too(self):
        with pytest.raises(ValueError, match="kernel_width=-1"):
            cross_val_decisions(LapSVC(kernel_width=-1), X, Y)
        with pytest.raises(ValueError, match="X contains NaN"):
            cross_val_decisions(LapSVC(), changed(X, np.nan), Y)
        with pytest.raises(ValueError, match="one class only"):
            cross_val_decisions(LapSVC(), X, 2 * TRUTH - 1)

"""Odd data that makes sense works."""

import numpy as np
import pytest
import scipy.sparse as sp

from models import ESTIMATORS, every_estimator
from onefit import LapRLSRegressor, LapSVC, SemiSupervisedKFold, cross_val_decisions
from small_moons import TARGETS, TRUTH, N, X, Y, changed, fit, labels_for


class TestOddData:
    """Unusual but legitimate input: finite results, no warning (which would be an error)."""

    def _decisions(self, estimator, rows=X, y=None, **params):
        model = fit(estimator, rows, y, **params)
        decisions = model._decisions(rows)
        assert np.isfinite(decisions).all()
        assert np.isfinite(model.dual_coef_).all()
        return decisions

    VARIANTS = (
        {},
        {"fit_intercept": True},
        {"manifold_penalty": 0.0},
        {"laplacian": "normalized", "laplacian_power": 2},
        {"n_components": 10, "random_state": 0},
        {"n_components": 10, "landmarks": "rpcholesky", "random_state": 0},
    )
    every_variant = pytest.mark.parametrize("params", VARIANTS, ids=str)

    @every_estimator
    @every_variant
    def test_duplicated_rows(self, estimator, params):
        rows = np.repeat(X[:10], 3, axis=0)
        y = np.repeat(labels_for(estimator)[:10], 3)
        y[1::3] = y[2::3] = -1 if estimator.__class__ is not LapRLSRegressor else np.nan
        values = self._decisions(estimator, rows, y, **params).reshape(10, 3, -1)
        np.testing.assert_allclose(values, np.repeat(values[:, :1], 3, axis=1), atol=1e-8)

    @every_estimator
    @every_variant
    def test_duplicated_rows_that_disagree(self, estimator, params):
        rows = np.repeat(X[:15], 2, axis=0)
        y = np.arange(N) % 2
        values = self._decisions(estimator, rows, y, **params)
        middle = 0.5 if isinstance(estimator, LapRLSRegressor) else 0.0
        np.testing.assert_allclose(values, middle, atol=0.1)

    @every_estimator
    @every_variant
    def test_all_rows_equal(self, estimator, params):
        values = self._decisions(estimator, np.ones((N, 2)), **params)
        assert np.ptp(values) < 1e-8

    @every_estimator
    @every_variant
    def test_two_different_rows(self, estimator, params):
        rows = X[TRUTH * 3] + 100.0 / 3.0
        values = self._decisions(estimator, rows, **params)
        threshold = 0.5 if isinstance(estimator, LapRLSRegressor) else 0.0
        np.testing.assert_array_equal(values[:, 0] > threshold, TRUTH == 1)

    @every_estimator
    @every_variant
    def test_constant_columns_do_not_matter(self, estimator, params):
        rows = np.column_stack([X, np.full(N, 7.0), np.zeros(N)])
        np.testing.assert_allclose(
            self._decisions(estimator, rows, **params),
            self._decisions(estimator, **params),
            rtol=1e-6,
            atol=1e-7,
        )

    @every_estimator
    @pytest.mark.parametrize("laplacian", ["unnormalized", "normalized"])
    def test_isolated_points(self, estimator, laplacian):
        """Heat weights that underflow leave no edge: as without the manifold penalty."""
        model = fit(estimator, graph_width=1e-9, laplacian=laplacian)
        assert model.graph_.nnz == 0
        np.testing.assert_allclose(
            model._decisions(X), self._decisions(estimator, manifold_penalty=0.0), rtol=1e-7
        )
        empty = self._decisions(estimator, graph=sp.csr_array((N, N)), laplacian=laplacian)
        np.testing.assert_allclose(empty, model._decisions(X), rtol=1e-9)

    @every_estimator
    @pytest.mark.parametrize("laplacian", ["unnormalized", "normalized"])
    def test_one_isolated_point(self, estimator, laplacian):
        rows = changed(X, 1e3, where=20)
        model = fit(estimator, rows, graph_width=0.1, laplacian=laplacian)
        assert model.graph_[[20]].nnz == 0
        assert model.graph_.nnz > 0
        assert np.isfinite(model._decisions(rows)).all()

    @every_estimator
    def test_a_row_far_away_leaves_the_others_alone(self, estimator):
        """Rounding of its distances must not spill over to the distances between the others."""
        rows = np.vstack([X, np.full((1, 2), 1e9)])
        y = np.append(labels_for(estimator), np.nan if estimator is ESTIMATORS["regressor"] else -1)
        params = {"kernel_width": 0.5, "graph_width": 0.1, "manifold_penalty": 0.0}
        np.testing.assert_allclose(
            self._decisions(estimator, rows, y, **params)[:N],
            self._decisions(estimator, **params),
            rtol=1e-6,
            atol=1e-7,
        )

    @every_estimator
    def test_an_offset_does_not_matter(self, estimator):
        shifted = self._decisions(estimator, X + 2.0**20)
        np.testing.assert_allclose(shifted, self._decisions(estimator), rtol=1e-5, atol=1e-6)

    @every_estimator
    @every_variant
    def test_two_labels(self, estimator, params):
        y = np.full(N, labels_for(estimator)[-1])
        first, second = np.argmin(TRUTH), np.argmax(TRUTH)
        y[first], y[second] = 0, 1
        values = self._decisions(estimator, y=y, **params)[:, 0]
        assert values[second] > values[first]

    def test_one_target(self):
        y = np.where(np.arange(N) == 4, 3.0, np.nan)
        assert self._decisions(LapRLSRegressor(), y=y)[4] == pytest.approx(3.0, rel=0.05)
        with_intercept = self._decisions(LapRLSRegressor(fit_intercept=True), y=y)
        np.testing.assert_allclose(with_intercept, 3.0, rtol=1e-9)

    @every_estimator
    @every_variant
    @pytest.mark.parametrize("scale", [1e-12, 1e12])
    def test_scale_of_the_rows(self, estimator, params, scale):
        """The widths follow the data; landmarks too, but for ties broken by rounding."""
        values = self._decisions(estimator, scale * X, **params)
        if "n_components" not in params:
            expected = self._decisions(estimator, **params)
            np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)

    @every_estimator
    @pytest.mark.parametrize("scale", [1e-12, 1e12])
    def test_scale_against_fixed_widths(self, estimator, scale):
        """All rows alike, or all strangers."""
        params = {"kernel_width": 1.0, "graph_width": 1.0}
        values = self._decisions(estimator, scale * X, **params)
        if scale < 1:
            assert np.ptp(values) < 1e-6
        else:
            known = Y != -1
            np.testing.assert_allclose(values[~known], 0.0, atol=1e-12)
            threshold = 0.5 if isinstance(estimator, LapRLSRegressor) else 0.0
            np.testing.assert_array_equal(values[known, 0] > threshold, Y[known] == 1)

    @pytest.mark.parametrize("scale", [1e-12, 1e12, 1e-75, 1e75])
    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_scale_of_the_targets(self, scale, fit_intercept):
        model = LapRLSRegressor(fit_intercept=fit_intercept)
        values = self._decisions(model, y=scale * TARGETS)
        np.testing.assert_allclose(values / scale, self._decisions(model), rtol=1e-9, atol=1e-12)

    @every_estimator
    @pytest.mark.parametrize("kernel", ["linear", "poly"])
    def test_scale_of_other_kernels(self, estimator, kernel):
        self._decisions(estimator, 1e-12 * X, kernel=kernel)
        message = r"too small for kernel values up to .*e\+.* Raise ambient_penalty, or rescale X"
        with pytest.raises(ValueError, match=message):
            fit(estimator, 1e12 * X, kernel=kernel)

    @every_estimator
    @pytest.mark.parametrize(
        "params",
        [
            {"manifold_penalty": 1e-12},
            {"manifold_penalty": 1e6},
            {"ambient_penalty": 1e12},
            {"kernel_width": 2.3e-308},
            {"kernel_width": 1e308},
            {"graph_width": 2.3e-308},
            {"graph_width": 1e308},
        ],
        ids=str,
    )
    def test_extreme_parameters(self, estimator, params):
        self._decisions(estimator, **params)
        self._decisions(estimator, np.repeat(X[:15], 2, axis=0), **params)


class TestReviewed:
    """Cases that a first reviewer stumbled over."""

    @pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
    @pytest.mark.parametrize("n_components", [None, 15])
    def test_negative_gamma_is_no_kernel(self, kernel, n_components):
        model = LapSVC(kernel=kernel, kernel_params={"gamma": -1.0}, n_components=n_components)
        with pytest.raises(ValueError, match="not positive semi-definite"):
            model.fit(X, Y)

    def test_unknown_kernel_parameter(self):
        with pytest.raises(TypeError, match=r"kernel='rbf' with kernel_params=.*gama"):
            LapSVC(kernel="rbf", kernel_params={"gama": 1.0}).fit(X, Y)

    def test_kernel_of_single_rows(self):
        with pytest.raises(ValueError, match=r"pairwise_kernels, metric=function"):
            LapSVC(kernel=lambda a, b: float(a @ b)).fit(X, Y)

    def test_width_of_a_precomputed_kernel(self):
        K = X @ X.T
        model = LapSVC(kernel="precomputed").fit(K, Y)
        with pytest.raises(ValueError, match=rf"between the new rows and all {len(X)} training"):
            model.predict(K[:, :5])

    def test_few_rows_without_a_graph(self):
        few, labels = X[:6], np.array([0, 1, 0, 1, -1, -1])
        assert LapSVC(manifold_penalty=0.0).fit(few, labels).transduction_.shape == (6,)
        with pytest.raises(ValueError, match="n_neighbors=8 is too large"):
            LapSVC().fit(few, labels)

    def test_unused_hessian_components(self):
        with pytest.raises(ValueError, match="hessian_components=3 with hessian='exact'"):
            cross_val_decisions(
                LapSVC(),
                X,
                Y,
                criterion="bif",
                holdout="points",
                criterion_params={"hessian_components": 3},
            )

    def test_whole_numbers_with_minus_one(self):
        y = np.arange(200.0) - 5.0
        with pytest.raises(ValueError, match="Say task='regression'"):
            list(SemiSupervisedKFold(5).split(y[:, None], y))
        folds = SemiSupervisedKFold(5, task="regression").split(y[:, None], y)
        assert sum(len(test) for _, test in folds) == 200

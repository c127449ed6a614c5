"""The estimators against other libraries, against themselves on equivalent input, and in use."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

import onefit.estimators._base as estimators_base
from fits import assert_same_fit, fitted, moons, targets_for, three_blobs
from models import every_classifier, every_estimator
from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    SemiSupervisedKFold,
)

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

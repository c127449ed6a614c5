"""How many landmarks are enough, and models that hold no more."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefit import LapRLSClassifier, LapRLSRegressor, LapSVC, ManifoldSearchCV, cross_val_decisions
from onefit import components as module
from onefit.components import grow_components
from onefit.datasets import make_noisy_manifold

N = 600
X, TARGET = make_noisy_manifold(N, 5, random_state=0)
TRUTH = (TARGET > 0).astype(int)
Y = np.where(np.arange(N) < 60, TRUTH, -1)


class TestGrowth:
    def test_doubles_until_the_best_candidate_settles(self):
        seen = []

        def decisions_of(c):
            seen.append(c)
            # The first candidate has the smaller loss and changes by 1/c; the other never settles.
            return np.array([0.1, 0.2]), np.array([[1.0 + 1.0 / c], [float(c)]])

        growth = grow_components(decisions_of, 10**6)
        assert seen == [128, 256]
        assert growth.n_components == 256
        assert growth.steps == ((256, pytest.approx((1 / 128 - 1 / 256) / (1 + 1 / 256))),)
        assert "256" in str(growth)

    def test_ends_with_all_rows(self):
        growth = grow_components(lambda c: (np.zeros(1), np.array([[float(c)]])), 300)
        assert growth.n_components == 300
        assert grow_components(lambda c: (np.zeros(1), np.ones((1, 1))), 50).n_components == 50

    def test_warns_where_it_gives_up(self):
        with pytest.warns(UserWarning, match="still change by 50 %"):
            growth = grow_components(lambda c: (np.zeros(1), np.array([[float(c)]])), 10**6)
        assert growth.n_components == module._MOST


class TestEstimators:
    @pytest.mark.parametrize("model", [LapRLSClassifier, LapSVC])
    def test_is_the_model_of_that_number(self, model):
        auto = model(n_components="auto", kernel_width=0.3, random_state=0).fit(X, Y)
        assert auto.n_components_ in (256, 512, 600)
        params = {"kernel_width": 0.3, "random_state": 0}
        same = model(n_components=auto.n_components_, **params).fit(X, Y)
        assert_allclose(auto.decision_function(X), same.decision_function(X), atol=1e-10)
        half = model(n_components=auto.n_components_ // 2, **params)
        held = [
            cross_val_decisions(one, X, Y).predictions[Y >= 0]
            for one in (half, model(n_components=auto.n_components_, **params))
        ]
        if auto.n_components_ < N:
            assert np.linalg.norm(held[1] - held[0]) <= 0.0101 * np.linalg.norm(held[1])

    def test_one_label(self):
        y = np.full(N, np.nan)
        y[3] = 1.0
        assert LapRLSRegressor(n_components="auto").fit(X, y).n_components_ >= 128

    def test_recorded_for_all(self):
        assert LapRLSClassifier().fit(X, Y).n_components_ is None
        assert LapRLSClassifier(n_components=7, random_state=0).fit(X, Y).n_components_ == 7
        with pytest.raises(ValueError, match="n_components"):
            LapRLSClassifier(n_components="many").fit(X, Y)


class TestSearch:
    def test_grows_for_every_kernel(self, capsys):
        grid = {"kernel_width": [0.1, 10.0], "manifold_penalty": [0.1, 10.0, 1e3]}
        model = LapRLSClassifier(n_components="auto", random_state=0)
        search = ManifoldSearchCV(model, grid, cv=5, verbose=1).fit(X, Y)
        assert "n_components used:" in capsys.readouterr().err
        used = search.cv_results_["n_components"]
        wide = np.array(search.cv_results_["param_kernel_width"] == 10.0)
        assert used[wide].max() <= used[~wide].min()
        assert search.best_estimator_.n_components_ == used[search.best_index_]
        params = {k: [v] for k, v in search.best_params_.items()}
        fixed = model.set_params(n_components=int(used[search.best_index_]))
        again = ManifoldSearchCV(fixed, params, cv=5).fit(X, Y)
        assert again.best_score_ == search.best_score_


class TestCompact:
    @pytest.mark.parametrize("graph", ["knn", np.ones((N, N))], ids=["knn", "precomputed"])
    def test_predicts_the_same_and_is_small(self, graph):
        model = LapRLSClassifier(n_components=20, graph=graph, random_state=0).fit(X, Y)
        small = pickle.loads(pickle.dumps(model.compact()))
        np.testing.assert_array_equal(small.predict(X), model.predict(X))
        assert_allclose(small.decision_function(X), model.decision_function(X), rtol=1e-14)
        assert not hasattr(small, "transduction_")
        assert model.transduction_.shape == (N,)
        assert len(pickle.dumps(small)) < 10_000

"""How many landmarks are enough, and models that hold no more."""

import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from onefit import LapRLSClassifier, LapRLSRegressor, LapSVC, ManifoldSearchCV, cross_val_decisions
from onefit import components as module
from onefit.components import components_to_try, grow_components
from onefit.datasets import make_noisy_manifold
from onefit.memory import blocked_bytes
from onefit.persistence import load_model, save_model

N = 600
X, TARGET = make_noisy_manifold(N, 5, random_state=0)
TRUTH = (TARGET > 0).astype(int)
Y = np.where(np.arange(N) < 60, TRUTH, -1)


#: Bytes.
PLENTY = 1e12


def restless(c):
    """Decisions of one candidate that double with the landmarks."""
    return np.zeros(1), np.array([[float(c)]])


class TestGrowth:
    def test_doubles_until_the_best_candidate_settles(self):
        seen = []

        def decisions_of(c):
            seen.append(c)
            # The first candidate has the smaller loss and changes by 1/c; the other never settles.
            return np.array([0.1, 0.2]), np.array([[1.0 + 1.0 / c], [float(c)]])

        growth = grow_components(decisions_of, 10**6, PLENTY)
        assert seen == [128, 256]
        assert growth.n_components == 256
        assert growth.steps == ((256, pytest.approx((1 / 128 - 1 / 256) / (1 + 1 / 256))),)
        assert "256" in str(growth)

    def test_ends_with_all_rows(self):
        growth = grow_components(restless, 300, PLENTY)
        assert growth.n_components == 300
        assert grow_components(restless, 50, PLENTY).n_components == 50

    def test_warns_where_it_gives_up(self):
        with pytest.warns(UserWarning, match="still change by 50 %") as record:
            growth = grow_components(restless, 10**6, PLENTY)
        assert growth.n_components == module._MOST
        assert "memory_limit" not in str(record[0].message)

    @pytest.mark.parametrize("limit, expected", [(6e7, 1024), (1e5, 45), (5e6, 256)])
    def test_keeps_to_the_memory(self, limit, expected):
        tried = []

        def decisions_of(c):
            tried.append(c)
            assert blocked_bytes(16, c) <= limit
            return restless(c)

        with pytest.warns(UserWarning, match=re.escape(f"memory_limit={limit:.3g} bytes")):
            growth = grow_components(decisions_of, 10**6, limit)
        assert growth.n_components == tried[-1] == expected
        assert components_to_try(10**6, limit) == tried


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

    def test_growth_is_kept(self, tmp_path):
        model = LapRLSClassifier(n_components="auto", kernel_width=0.3, random_state=0)
        sizes, changes = zip(*model.fit(X, Y).growth_, strict=True)
        assert sizes == tuple(components_to_try(N, PLENTY)[1 : len(sizes) + 1])
        held = [
            cross_val_decisions(clone(model).set_params(n_components=c), X, Y).predictions[Y >= 0]
            for c in (128, *sizes)
        ]
        for before, after, change in zip(held, held[1:], changes, strict=False):
            expected = np.linalg.norm(after - before) / np.linalg.norm(after)
            assert change == pytest.approx(expected, rel=1e-6)
        save_model(Pipeline([("model", model)]), tmp_path / "m.skops", {"columns": {}})
        assert load_model(tmp_path / "m.skops")[0]["model"].growth_ == model.growth_
        assert LapRLSClassifier(n_components=9).fit(X, Y).growth_ is None

    def test_a_small_limit_ends_the_growth(self):
        limit = 1.2 * blocked_bytes(16, 256)
        model = LapRLSClassifier(n_components="auto", kernel_width=0.01, memory_limit=limit)
        with pytest.warns(UserWarning, match="stopped at 256 landmarks, since memory_limit"):
            assert model.fit(X, Y).n_components_ == 256
        search = ManifoldSearchCV(model, {"manifold_penalty": [1.0]}, cv=3, refit=False)
        with pytest.warns(UserWarning, match="stopped at 256 landmarks, since memory_limit"):
            search.fit(X, Y)
        assert search.cv_results_["n_components"].tolist() == [256]

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
        said = capsys.readouterr().err
        assert "n_components used:" in said
        assert f"At most {N} x {N} features are held" in said
        assert "Neighbours and graph take" in said
        assert said.count("n_components='auto' is") == 2
        assert "kernel='gaussian', width 10: n_components='auto' is 256" in said
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

"""What fits need, against what they are seen to take; what does not fit is refused beforehand."""

import tracemalloc

import numpy as np
import pytest

from onefit import LapLogisticRegression, LapRLSRegressor, ManifoldSearchCV
from onefit.assembly import GraphSettings, KernelSettings
from onefit.memory import fit_bytes, graph_bytes, most_components

N = 1000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5))
Y = np.where(np.arange(N) < N // 2, X[:, 0], np.nan)


def peak_of(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class TestEstimates:
    @pytest.mark.parametrize("limit", [1e3, 1e6, 6e7, 1e10])
    def test_most_components(self, limit):
        c, settings = most_components(limit), KernelSettings(memory_limit=limit)
        assert c >= 1
        settings.block(10**6, c)
        with pytest.raises(MemoryError, match="even in blocks"):
            settings.block(10**6, c + 1)

    @pytest.mark.parametrize("kernel", ["gaussian", "poly"])
    def test_exact_fit(self, kernel):
        peak = peak_of(lambda: LapRLSRegressor(kernel=kernel).fit(X, Y))
        assert 0.8 * fit_bytes(N) < peak < 1.05 * fit_bytes(N)

    @pytest.mark.parametrize("graph", ["knn", "anchor"])
    @pytest.mark.parametrize("k", [8, 16])
    def test_graph(self, graph, k):
        rows = RNG.normal(size=(20_000, 3))
        settings = GraphSettings(graph, k, laplacian="normalized", n_anchors=50)
        neighbors = settings.find(rows, k, None, 0)
        held = neighbors.indices.nbytes + neighbors.squared.nbytes
        peak = held + peak_of(lambda: settings.build(rows, neighbors)[0].operator)
        assert peak == pytest.approx(graph_bytes(len(rows), k, anchors=graph == "anchor"), rel=0.1)


@pytest.fixture
def nothing_computed(monkeypatch):
    for name in ("shared_distances", "GraphSettings.find"):
        monkeypatch.setattr(f"onefit.assembly.{name}", lambda *_: pytest.fail("computed"))
    for name in ("estimators._base", "search.geometry"):
        monkeypatch.setattr(f"onefit.{name}.shared_distances", lambda *_: pytest.fail("computed"))


@pytest.mark.usefixtures("nothing_computed")
class TestRefusals:
    @pytest.mark.parametrize(
        "params, error, match",
        [
            ({"memory_limit": fit_bytes(N) - 1.0}, MemoryError, "n_components=None, .* 1000 rows"),
            ({"n_components": N + 1}, ValueError, "more than the 1000 rows"),
            ({"n_components": 500, "memory_limit": 1e6}, MemoryError, "even in blocks"),
            ({"n_components": "auto", "memory_limit": 1e2}, MemoryError, "memory_limit=100"),
        ],
    )
    def test_before_anything_is_computed(self, params, error, match):
        model = LapRLSRegressor(**params)
        with pytest.raises(error, match=match):
            model.fit(X, Y)
        if model.n_components is not None:  # a search would take landmarks instead
            with pytest.raises(error, match=match):
                ManifoldSearchCV(model, {"manifold_penalty": [1.0]}).fit(X, Y)


def test_an_exact_fit_within_the_limit():
    assert LapRLSRegressor(memory_limit=fit_bytes(N)).fit(X, Y).n_components_ is None


def test_a_search_keeps_to_the_limit_of_its_estimator():
    search = ManifoldSearchCV(LapRLSRegressor(memory_limit=2e7), {"manifold_penalty": [1.0]}, cv=3)
    with pytest.warns(UserWarning, match="using n_components"):
        search.fit(X, Y)
    assert search.best_estimator_.n_components_ == search.cv_results_["n_components"][0]


@pytest.mark.parametrize("criterion, holdout", [("exact", "labels"), ("exact", "points")])
def test_candidates_that_are_solved_together_take_no_memory_of_their_own(criterion, holdout):
    """Each has a Gram matrix of all labels, which are nearly all rows here."""
    n = 500
    y = np.where(np.arange(n) < 450, X[:n, 0] > 0, -1)
    model = LapLogisticRegression(tol=1e-2)

    def peak(n_candidates):
        grid = {"ambient_penalty": np.logspace(-3, 0, n_candidates), "manifold_penalty": [0.0, 1.0]}
        search = ManifoldSearchCV(
            model, grid, cv=2, criterion=criterion, holdout=holdout, refit=False
        )
        return peak_of(lambda: search.fit(X[:n], y)) / (8 * n**2)

    assert peak(12) < peak(4) + 1.5

"""Indices of faiss against brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefit import LapRLSClassifier
from onefit import neighbors as module
from onefit.datasets import make_noisy_manifold
from onefit.neighbors import find_neighbors

needs_faiss = pytest.mark.skipif(module.find_spec("faiss") is None, reason="faiss not installed")
ROWS = {
    "manifold": make_noisy_manifold(3000, 20, random_state=0)[0],
    "offset": make_noisy_manifold(3000, 20, random_state=0)[0] + 1e4,
    "gaussian": np.random.default_rng(0).normal(size=(2000, 30)),
}


def brute_force(X, k):
    D = np.square(X).sum(axis=1)[:, None] + np.square(X).sum(axis=1) - 2 * X @ X.T
    np.fill_diagonal(D, np.inf)
    return np.argsort(D, axis=1)[:, :k]


@needs_faiss
class TestIndices:
    @pytest.mark.parametrize("rows", ROWS)
    @pytest.mark.parametrize("method, least", [("flat", 0.999), ("ivf", 0.95), ("hnsw", 0.95)])
    def test_recall(self, rows, method, least):
        X, k = ROWS[rows], 8
        found, truth = find_neighbors(X, k, method=method), brute_force(X - X.mean(axis=0), k)
        assert found.method == method
        hits = [len(set(a) & set(b)) for a, b in zip(found.indices, truth, strict=True)]
        assert np.mean(hits) >= least * k
        assert (found.indices != np.arange(len(X))[:, None]).all()
        assert (np.diff(found.squared, axis=1) >= 0).all()
        i = np.arange(len(X))[:, None]
        assert_allclose(found.squared, np.square(X[i] - X[found.indices]).sum(axis=2), rtol=1e-9)

    @pytest.mark.parametrize("method", ["flat", "ivf", "hnsw"])
    def test_equal_rows(self, method):
        X = np.repeat(np.random.default_rng(0).normal(size=(20, 3)), 30, axis=0)
        found = find_neighbors(X, 4, method=method)
        assert (found.indices != np.arange(600)[:, None]).all()
        assert (found.indices // 30 == np.arange(600)[:, None] // 30).mean() > 0.95

    def test_the_same_rows_give_the_same_neighbours(self):
        a, b = (find_neighbors(ROWS["manifold"], 5, method="ivf") for _ in range(2))
        np.testing.assert_array_equal(a.indices, b.indices)

    def test_sparse_rows_are_refused(self):
        with pytest.raises(TypeError, match="dense rows"):
            find_neighbors(sp.csr_array(ROWS["gaussian"]), 3, method="hnsw")


class TestChoice:
    def test_by_size(self, monkeypatch):
        X = ROWS["manifold"]
        assert find_neighbors(X, 3).method == "sklearn"
        monkeypatch.setattr(module, "_MANY_ROWS", 1000)
        assert find_neighbors(X[:, :5], 3).method == "sklearn"
        assert find_neighbors(sp.csr_array(X), 3).method == "sklearn"
        if module.find_spec("faiss") is not None:
            assert find_neighbors(X, 3).method == "ivf"
        monkeypatch.setattr(module, "find_spec", lambda name: None)
        assert find_neighbors(X, 3).method == "sklearn"
        with pytest.raises(ImportError, match=r"onefit\[ann\]"):
            find_neighbors(X, 3, method="hnsw")

    def test_is_recorded(self):
        X = ROWS["manifold"][:200]
        y = np.where(np.arange(200) < 20, np.arange(200) % 2, -1)
        assert LapRLSClassifier().fit(X, y).neighbors_method_ == "matrix"
        model = LapRLSClassifier(n_components=20, random_state=0)
        assert model.fit(X, y).neighbors_method_ == "sklearn"
        assert LapRLSClassifier(graph=np.ones((200, 200))).fit(X, y).neighbors_method_ is None
        with pytest.raises(ValueError, match="neighbors"):
            LapRLSClassifier(neighbors="annoy").fit(X, y)

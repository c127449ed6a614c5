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


def distances_to_others(X):
    D = np.square(X).sum(axis=1)[:, None] + np.square(X).sum(axis=1) - 2 * X @ X.T
    np.fill_diagonal(D, np.inf)
    return D


def brute_force(X, k):
    return np.argsort(distances_to_others(X), axis=1)[:, :k]


def nearest_distances(X, k):
    return np.sort(distances_to_others(X), axis=1)[:, :k]


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

    def test_what_an_index_does_not_find_is_searched_for(self):
        import faiss

        X, k = ROWS["gaussian"].astype(np.float32), 4

        class Forgetful(faiss.IndexFlatL2):
            def search(self, rows, n):
                squared, found = super().search(rows, n)
                found[::3, 2:] = -1
                return squared, found

        forgetful, brute = Forgetful(X.shape[1]), faiss.IndexFlatL2(X.shape[1])
        forgetful.add(X), brute.add(X)
        found = module._others(forgetful, np.arange(len(X)), brute=brute, rows=X, k=k)
        np.testing.assert_array_equal(found, brute_force(X.astype(np.float64), k))

    def test_sparse_rows_are_refused(self):
        with pytest.raises(TypeError, match="dense rows"):
            find_neighbors(sp.csr_array(ROWS["gaussian"]), 3, method="hnsw")


@needs_faiss
class TestRecall:
    """Recall counts by distance, and decides what "auto" ends with."""

    @pytest.fixture
    def efforts(self, monkeypatch):
        """Small data count as many; what was tried, in turn."""
        monkeypatch.setattr(module, "_MANY_ROWS", 1000)
        tried = []
        doubling = module._doubling

        def counted(first, last):
            for effort in doubling(first, last):
                tried.append(effort)
                yield effort

        monkeypatch.setattr(module, "_doubling", counted)
        return tried

    @pytest.mark.parametrize("rows", ["binary", "one-hot", "integer"])
    def test_ties_are_hits(self, rows, efforts):
        rng = np.random.default_rng(0)
        X = {
            "binary": (rng.random((3000, 12)) < 0.3).astype(float),
            "one-hot": np.eye(12)[rng.integers(12, size=3000)],
            "integer": rng.integers(3, size=(3000, 11)).astype(float),
        }[rows]
        found = find_neighbors(X, 5)
        assert found.method == "ivf"
        assert max(efforts) <= 16
        missed = found.squared > nearest_distances(X, 5)[:, -1:] + 1e-9
        assert missed.mean() < 0.04

    def test_auto_ends_with_brute_force(self, efforts, monkeypatch):
        monkeypatch.setattr(module, "_RECALL", 1.1)  # nothing is good enough
        with pytest.warns(UserWarning, match=r"the indices found .* at best"):
            found = find_neighbors(ROWS["manifold"], 5)
        assert found.method == "flat"
        assert efforts == [4, 8, 16, 32, 64, 128, 256, 512, 1024]
        assert_allclose(found.squared, nearest_distances(ROWS["manifold"], 5), rtol=1e-4)

    @pytest.mark.parametrize("method", ["ivf", "hnsw"])
    def test_a_forced_method_says_what_it_missed(self, method, efforts, monkeypatch):
        monkeypatch.setattr(module, "_MOST_EFFORT", {"ivf": 1, "hnsw": 1})
        X = np.random.default_rng(0).normal(size=(3000, 30))
        with pytest.warns(UserWarning, match=f"neighbors='{method}' found") as record:
            found = find_neighbors(X, 5, method=method)
        assert found.method == method
        assert efforts == [1]
        sample = module.evenly_spaced_rows(len(X), module._RECALL_SAMPLE)
        farthest = nearest_distances(X, 5)[sample, -1:]
        recall = np.mean(found.squared[sample] <= farthest + 1e-9)
        assert f"found {100 * recall:.3g} %" in str(record[0].message)

    def test_copies_that_a_navigable_graph_cannot_reach(self):
        X = np.repeat(np.random.default_rng(0).normal(size=(40, 15)), 150, axis=0)
        with pytest.warns(UserWarning, match="neighbors='hnsw' found"):
            find_neighbors(X, 8, method="hnsw")
        assert (find_neighbors(X, 8, method="ivf").squared == 0.0).all()


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

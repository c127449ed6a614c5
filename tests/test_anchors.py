"""Anchor graphs against dense formulas."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefit import LapRLSClassifier, LapRLSRegressor, ManifoldSearchCV, cross_val_decisions
from onefit.anchors import AnchorGraph, anchor_weights, nearest_anchors
from onefit.factors import factor_nystrom, factor_nystrom_in_blocks
from onefit.kernels import Kernel

N, M, S = 120, 15, 4
X = np.random.default_rng(0).normal(size=(N, 3))
NEAREST = nearest_anchors(X, M, S, np.random.RandomState(0))
Y = np.where(np.arange(N) % 4 == 0, (X[:, 0] > 0).astype(int), -1)


def dense(weights, kept=None, *, normalized=False):
    """A, W and L as Liu, He and Chang write them, on the kept rows."""
    A = weights.toarray()
    totals = A.sum(axis=0)
    if kept is not None:
        A = np.where(np.isin(np.arange(N), kept)[:, None], A, 0.0)
    W = A @ np.diag(1.0 / totals) @ A.T
    D = W.sum(axis=1)
    if not normalized:
        return W, np.diag(D) - W
    roots = np.where(D > 0, 1.0 / np.sqrt(np.where(D > 0, D, 1.0)), 0.0)
    return W, np.diag((D > 0).astype(float)) - roots[:, None] * W * roots


def make(normalized=False):
    A, _ = anchor_weights(NEAREST, M, "median")
    return AnchorGraph(A, np.asarray(A.sum(axis=0)), normalized)


class TestGraph:
    def test_anchors_are_the_nearest(self):
        # Distances to the anchors: a row that is an anchor itself has one at 0.
        anchors = X[NEAREST.squared[:, 0] == 0]
        assert len(anchors) == M
        D = np.square(X[:, None] - anchors).sum(axis=2)
        assert_allclose(NEAREST.squared, np.sort(D, axis=1)[:, :S], atol=1e-12)

    def test_weights(self):
        A, width = anchor_weights(NEAREST, M, "median")
        assert width == np.median(NEAREST.squared[NEAREST.squared > 0])
        assert anchor_weights(NEAREST, M, "wide")[1] == 4 * width
        heat = np.exp(-NEAREST.squared / (2 * width))
        expected = np.zeros((N, M))
        np.put_along_axis(expected, NEAREST.indices, heat / heat.sum(axis=1)[:, None], axis=1)
        assert_allclose(A.toarray(), expected, atol=1e-14)
        binary, _ = anchor_weights(NEAREST, M, 1.0, weights="binary")
        assert_allclose(binary.data, 1 / S)

    def test_rows_far_from_all_anchors_have_weights(self):
        A, _ = anchor_weights(NEAREST, M, 1e-9)
        assert np.isfinite(A.data).all()
        assert_allclose(A.sum(axis=1), 1.0)

    @pytest.mark.parametrize("normalized", [False, True])
    @pytest.mark.parametrize("kept", [None, np.arange(0, N, 3)])
    def test_laplacian_is_the_dense_one(self, normalized, kept):
        graph = make(normalized)
        W, L = dense(graph.weights, kept, normalized=normalized)
        if kept is not None:
            graph = graph.only(kept)
        f = np.random.default_rng(1).normal(size=(N, 2))
        assert_allclose(graph.operator @ f, L @ f, atol=1e-13)
        assert_allclose(graph.operator @ f[:, 0], L @ f[:, 0], atol=1e-13)
        assert_allclose(graph.laplacian.toarray(), L, atol=1e-13)
        assert_allclose(graph.affinity.toarray(), W, atol=1e-13)
        assert graph.operator.shape == (N, N)

    @pytest.mark.parametrize("power", [1, 2])
    @pytest.mark.parametrize("kept", [None, np.arange(0, N, 3)])
    def test_quadratic_form_without_the_matrix(self, power, kept):
        graph = replace(make(), power=power)
        kernel, landmarks = Kernel(width=1.0), np.arange(0, N, 4)
        L = np.linalg.matrix_power(dense(graph.weights, kept)[1], power)
        if kept is not None:
            graph = graph.only(kept)
        C = kernel.columns(X, landmarks)
        held = factor_nystrom(C, landmarks)
        blocked = factor_nystrom_in_blocks(kernel, X, C[landmarks], landmarks, 16)
        expected = held.features.T @ L @ held.features
        assert_allclose(graph.laplacian.toarray(), L, atol=1e-13)
        for factor in (held, blocked):
            assert_allclose(factor.quadratic_form(graph.operator), expected, atol=1e-9)


class TestEstimators:
    PARAMS = (("graph", "anchor"), ("n_anchors", M), ("n_neighbors", S), ("random_state", 0))

    @pytest.mark.parametrize("power", [1, 2])
    def test_is_the_precomputed_graph(self, power):
        model = LapRLSClassifier(**dict(self.PARAMS)).fit(X, Y)
        assert model.neighbors_method_ == "anchor"
        assert model.graph_.shape == (N, M)
        W, _ = dense(model.graph_)
        for components in (None, 40):
            params = {"n_components": components, "random_state": 0, "laplacian_power": power}
            expected = LapRLSClassifier(graph=W, **params).fit(X, Y)
            model = LapRLSClassifier(**{**dict(self.PARAMS), **params}).fit(X, Y)
            assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-9)

    @pytest.mark.parametrize("criterion", ["exact", "newton", "bif"])
    @pytest.mark.parametrize("components", [None, 40])
    @pytest.mark.parametrize("power", [1, 2])
    def test_holding_out_points(self, criterion, components, power):
        params = {"n_components": components, "laplacian_power": power}
        model = LapRLSClassifier(**params, **dict(self.PARAMS))
        W, _ = dense(model.fit(X, Y).graph_)
        other = LapRLSClassifier(graph=W, random_state=0, **params)
        options = {"holdout": "points", "criterion": criterion}
        assert_allclose(
            cross_val_decisions(model, X, Y, **options).predictions,
            cross_val_decisions(other, X, Y, **options).predictions,
            atol=1e-8,
        )

    def test_search(self):
        grid = {"graph": ["anchor", "knn"], "n_neighbors": [2, 4], "manifold_penalty": [0.1, 10.0]}
        model = LapRLSClassifier(n_components=40, n_anchors=M, random_state=0)
        search = ManifoldSearchCV(model, grid, cv=5).fit(X, Y)
        for i in range(0, 8, 3):
            params = search.cv_results_["params"][i]
            one = ManifoldSearchCV(model, {k: [v] for k, v in params.items()}, cv=5).fit(X, Y)
            assert one.best_score_ == search.cv_results_["mean_test_score"][i]

    def test_sparse_rows(self):
        y = np.where(Y >= 0, X[:, 1], np.nan)
        dense_fit, sparse_fit = (
            LapRLSRegressor(n_components=30, kernel_width=2.0, **dict(self.PARAMS)).fit(rows, y)
            for rows in (X, sp.csr_array(X))
        )
        assert_allclose(sparse_fit.transduction_, dense_fit.transduction_, atol=1e-8)

    def test_errors(self):
        with pytest.raises(ValueError, match="n_neighbors <= n_anchors <= rows"):
            LapRLSClassifier(graph="anchor").fit(X, Y)
        with pytest.raises(ValueError, match="laplacian_power"):
            LapRLSClassifier(graph="anchor", laplacian_power=3).fit(X, Y)

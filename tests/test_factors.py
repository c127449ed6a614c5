"""Features in blocks against features that are held, and the memory they take."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import reference
from onefit import LapRLSClassifier, LapRLSRegressor, LapSVC, ManifoldSearchCV, cross_val_decisions
from onefit.basis import plane_basis
from onefit.factors import factor_kernel, factor_nystrom, factor_nystrom_in_blocks
from onefit.graphs import Graph
from onefit.kernels import Kernel
from onefit.memory import block_rows, blocked_bytes, nystrom_bytes

N, C = 300, 60
X = np.random.default_rng(0).normal(size=(N, 3))
TRUTH = (X[:, 0] > 0).astype(int)
Y = np.where(np.arange(N) % 6 == 0, TRUTH, -1)
L = sp.csr_array(reference.laplacian(reference.knn_affinity(X, 5, 1.0)))
LANDMARKS = np.arange(0, N, 5)
#: Bytes with which the features of these data do not fit, but a block does.
LITTLE = 0.5 * nystrom_bytes(N, C)


def both(width, rows=X, single=False, block=32):
    """The factor that holds its features, and the one that does not."""
    kernel = Kernel(width=width)
    columns = kernel.columns(rows, LANDMARKS)
    P = columns[LANDMARKS]
    return factor_nystrom(columns, LANDMARKS), factor_nystrom_in_blocks(
        kernel, rows, P, LANDMARKS, block, single=single
    )


class TestKernelFactor:
    @pytest.mark.parametrize("width", [0.1, 30.0])  # full rank, and a few features
    @pytest.mark.parametrize("n_kept", [N, 40, 0])
    def test_forms_in_strips_are_the_product(self, width, n_kept):
        K = Kernel(width=width)(X, X)
        K[7], K[:, 7] = K[3], K[:, 3]  # a repeated row, which is no landmark
        landmarks = np.random.default_rng(2).permutation(N)[:200]
        inside = sp.diags_array((np.arange(N) < n_kept).astype(float))
        S = sp.csr_array(inside @ L @ inside)
        S.eliminate_zeros()
        for factor in (factor_kernel(K.copy()), factor_nystrom(K[:, landmarks], landmarks)):
            form = factor.quadratic_form(S)
            B = factor.features
            assert_allclose(form, B.T @ S.toarray() @ B, atol=1e-10)
            assert_allclose(form, form.T, atol=0)

    def test_the_kernel_between_labels_is_computed_once(self):
        """Every graph and fold of a search has a basis of its own that asks for it."""
        kernel, asked = Kernel(width=1.0), []

        def between(rows):
            asked.append(rows)
            return kernel(X[rows], X[rows])

        factor = replace(factor_kernel(kernel(X, X)), between=between)
        rows = np.array([5, 2, 9])
        bases = [plane_basis(factor, L, rows) for _ in range(2)]
        for basis in bases:
            assert_allclose(basis.labelled_kernel, kernel(X[rows], X[rows]))
        assert len(asked) == 1
        assert_allclose(factor.kernel_between(rows[:2]), kernel(X[rows[:2]], X[rows[:2]]))
        assert factor_kernel(kernel(X, X)).kernel_between(rows) is None


class TestBlockFactor:
    @pytest.mark.parametrize("block", [1, 7, 32, N])
    def test_everything_is_that_of_the_held_features(self, block):
        held, blocked = both(1.0, block=block)
        rows = np.array([5, 1, 299])
        u = np.random.default_rng(1).normal(size=(N, 2))
        assert_allclose(blocked.rows(rows), held.rows(rows), atol=1e-9)
        coef = held.triangle[:, :2]
        assert_allclose(blocked.values(coef), held.values(coef), atol=1e-9)
        assert_allclose(blocked.representer(u), held.representer(u), atol=1e-9)
        assert_allclose(blocked.squared_norms(), held.squared_norms(), atol=1e-9)
        dense = held.features.T @ L.toarray() @ held.features
        assert_allclose(blocked.quadratic_form(L), dense, atol=1e-9)

    @pytest.mark.parametrize("block", [7, N])
    def test_the_squared_laplacian_is_never_formed(self, block):
        operator = Graph(sp.csr_array(reference.knn_affinity(X, 5, 1.0)), power=2).operator
        held, blocked = both(1.0, block=block)
        smoothed = L.toarray() @ held.features
        expected = smoothed.T @ smoothed
        assert_allclose(held.quadratic_form(operator), expected, atol=1e-9)
        assert_allclose(blocked.quadratic_form(operator), expected, atol=1e-9)
        assert_allclose(operator @ held.features, L.toarray() @ smoothed, atol=1e-9)
        assert operator.shape == (N, N)

    def test_sparse_rows_stay_sparse(self, monkeypatch):
        held, blocked = both(1.0, rows=sp.csr_array(X))
        toarray = sp.csr_array.toarray

        def only_products(matrix, *arguments, **options):
            assert matrix.shape[1] != X.shape[1], "rows were made dense"
            return toarray(matrix, *arguments, **options)

        monkeypatch.setattr(sp.csr_array, "toarray", only_products)
        assert_allclose(blocked.quadratic_form(L), held.quadratic_form(L), atol=1e-9)

    def test_isolated_rows_and_an_empty_graph(self):
        held, blocked = both(1.0)
        assert not blocked.quadratic_form(sp.csr_array((N, N))).any()
        diagonal = sp.csr_array(sp.diags_array(np.arange(float(N))))
        assert_allclose(
            blocked.quadratic_form(diagonal), held.quadratic_form(diagonal), rtol=1e-7, atol=1e-9
        )

    @pytest.mark.parametrize("width", [0.1, 1.0, 100.0])
    @pytest.mark.parametrize("ratio", [0.01, 1.0, 100.0, 1e4])
    def test_single_precision_is_within_the_stated_tolerance(self, width, ratio):
        labelled = np.flatnonzero(Y >= 0)
        grams = [
            plane_basis(both(width, single=single)[1], L, labelled).deform(ratio)
            for single in (False, True)
        ]
        exact, approximate = (one.labelled_gram for one in grams)
        tolerance = 1e-7 + 2e-6 * ratio
        assert_allclose(approximate, exact, atol=tolerance * np.abs(exact).max())

    def test_single_precision_neither_overflows_nor_vanishes(self):
        for scale in (1e-25, 1e25):
            kernel = Kernel("linear")
            P = kernel(scale * X[:3])
            blocked = factor_nystrom_in_blocks(kernel, scale * X, P, np.arange(3), 64)
            expected = scale**2 * X.T @ L.toarray() @ X
            B = blocked.rows(np.arange(N))
            assert_allclose(blocked.quadratic_form(L), B.T @ (L @ B), rtol=1e-5)
            assert_allclose(np.trace(B.T @ (L @ B)), np.trace(expected), rtol=1e-9)

    def test_nothing_of_size_n_times_c_is_held(self):
        n, c = 40_000, 200
        rows = np.random.default_rng(0).normal(size=(n, 2))
        landmarks = np.arange(c)
        kernel = Kernel(width=1.0)
        path = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
        factor = factor_nystrom_in_blocks(kernel, rows, kernel(rows[:c]), landmarks, 1000)
        tracemalloc.start()
        factor.quadratic_form(sp.csr_array(path))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.35 * 8 * n * c

    def test_blocks_are_bounded(self):
        assert block_rows(10**6, 1000, 1e10) * 1000 <= 2**23
        assert block_rows(500, 10, 1e10) == 500
        for limit in (1e8, 1e9, 1e10):
            assert blocked_bytes(block_rows(10**6, 1000, limit), 1000) <= limit


class TestEstimators:
    @pytest.mark.parametrize("model", [LapRLSClassifier, LapSVC])
    @pytest.mark.parametrize("holdout", ["labels", "points"])
    def test_blocks_change_nothing_but_memory(self, model, holdout):
        held, blocked = (
            model(n_components=C, random_state=0, memory_limit=limit) for limit in (None, LITTLE)
        )
        assert_allclose(
            *(cross_val_decisions(m, X, Y, holdout=holdout).predictions for m in (held, blocked)),
            atol=2e-5,
        )
        held.fit(X, Y), blocked.fit(X, Y)
        assert_allclose(blocked.decision_function(X), held.decision_function(X), atol=2e-5)
        assert (blocked.transduction_ == held.transduction_).all()

    def test_precomputed_and_callable_kernels(self):
        K = reference.gaussian_kernel(X, X, 1.0)
        graph = reference.knn_affinity(X, 5, 1.0)
        fits = [
            LapRLSRegressor(
                kernel=kernel, n_components=C, memory_limit=limit, random_state=0, graph=graph
            )
            .fit(rows, np.where(Y >= 0, Y.astype(float), np.nan))
            .transduction_
            for kernel, rows in (
                ("precomputed", K),
                (lambda A, B: reference.gaussian_kernel(A, B, 1.0), X),
            )
            for limit in (None, LITTLE)
        ]
        for other in fits[1:]:
            assert_allclose(other, fits[0], atol=1e-6)

    def test_kmeans_needs_rows(self):
        model = LapRLSClassifier(kernel="precomputed", n_components=5, landmarks="kmeans++")
        with pytest.raises(ValueError, match="no coordinates"):
            model.fit(np.eye(N), Y)

    def test_a_limit_must_be_a_number(self):
        with pytest.raises(ValueError, match="memory_limit"):
            LapRLSClassifier(memory_limit=-1.0).fit(X, Y)


GRID = {"kernel_width": [0.5, 2.0], "manifold_penalty": [0.1, 10.0, 1e3]}


class TestSearch:
    def search(self, **params):
        model = LapRLSClassifier(n_components=C, random_state=0)
        return ManifoldSearchCV(model, GRID, cv=5, **params).fit(X, Y)

    def test_a_limit_makes_blocks_and_says_so(self, capsys):
        held = self.search(verbose=1)
        assert "are held" in capsys.readouterr().err
        blocked = self.search(verbose=1, memory_limit=LITTLE)
        assert "computed in blocks of" in capsys.readouterr().err
        for column in ("mean_test_score", "mean_test_loss"):
            assert_allclose(blocked.cv_results_[column], held.cv_results_[column], rtol=1e-5)
        assert blocked.best_estimator_.memory_limit == LITTLE

    def test_a_limit_below_a_block(self):
        with pytest.raises(MemoryError, match="even in blocks"):
            self.search(memory_limit=1e4)

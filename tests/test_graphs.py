"""Graphs against loops over pairs of rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from onefit.graphs import Graph, check_affinity, heat_affinity
from onefit.kernels import squared_distances
from onefit.neighbors import find_neighbors

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))

# With the matrix of distances at hand, and by scikit-learn's search.
SEARCHES = {
    "matrix": lambda X, k: find_neighbors(X, k, squared=squared_distances(X)),
    "search": find_neighbors,
    "sparse_search": lambda X, k: find_neighbors(sp.csr_array(X), k),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
both_laplacians = pytest.mark.parametrize("normalized", [False, True], ids=["D-W", "normalized"])
powers = pytest.mark.parametrize("power", [1, 2, 3])


def affinity(X, k, width=1.0, **kwargs):
    return heat_affinity(find_neighbors(X, k), width, **kwargs)[0]


def random_affinity(n, density=0.2, seed=0):
    """A dense symmetric affinity with some rows that have no edge."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < density), 1)
    W[[2, 5]] = 0.0
    W[:, [2, 5]] = 0.0
    return W + W.T


class TestNeighbors:
    @every_search
    @pytest.mark.parametrize("k", [1, 5, 39])
    def test_against_sorting_all_distances(self, search, k):
        D = reference.squared_distances(X, X)
        np.fill_diagonal(D, np.inf)
        neighbors = search(X, k)
        np.testing.assert_array_equal(neighbors.indices, np.argsort(D, axis=1)[:, :k])
        np.testing.assert_allclose(neighbors.squared, np.sort(D, axis=1)[:, :k], rtol=1e-9)

    def test_more_rows_than_a_block(self):
        rows = np.random.default_rng(1).normal(size=(300, 2))
        by_matrix, by_search = SEARCHES["matrix"](rows, 7), find_neighbors(rows, 7)
        np.testing.assert_array_equal(by_matrix.indices, by_search.indices)

    def test_matrix_of_distances_is_left_as_it_was(self):
        D = squared_distances(X)
        before = D.copy()
        find_neighbors(X, 4, squared=D)
        np.testing.assert_array_equal(D, before)

    def test_first(self):
        few, many = find_neighbors(X, 3), find_neighbors(X, 9).first(3)
        np.testing.assert_array_equal(many.indices, few.indices)
        np.testing.assert_array_equal(many.squared, few.squared)

    @every_search
    @pytest.mark.parametrize("copies", [2, 5])
    def test_duplicated_rows(self, search, copies):
        # Fewer copies than k, and more: neighbours at distance 0, and no row its own.
        rows = np.repeat(X[:8], copies, axis=0)
        k = 3
        neighbors = search(rows, k)
        np.testing.assert_allclose(neighbors.squared, reference.knn_distances(rows, k), atol=1e-12)
        assert (neighbors.indices != np.arange(len(rows))[:, None]).all()
        assert all(len(set(row)) == k for row in neighbors.indices.tolist())
        n_equal = min(k, copies - 1)
        group = np.arange(len(rows)) // copies
        same = group[neighbors.indices[:, :n_equal]] == group[:, None]
        assert same.all()

    @every_search
    def test_constant_columns_change_nothing(self, search):
        wider = np.column_stack([np.full(40, 7.0), X, np.zeros(40)])
        np.testing.assert_array_equal(search(wider, 5).indices, search(X, 5).indices)

    @every_search
    @given(
        rows=hnp.arrays(
            np.float64, st.tuples(st.integers(4, 12), st.just(2)), elements=st.integers(0, 3)
        ),
        k=st.integers(1, 3),
    )
    def test_distances_with_many_ties(self, search, rows, k):
        # Which of the tied rows are taken is open; how far they are is not.
        neighbors = search(rows, k)
        np.testing.assert_allclose(neighbors.squared, reference.knn_distances(rows, k), atol=1e-12)
        for i, found in enumerate(neighbors.indices):
            assert i not in found
            assert len(set(found.tolist())) == k
            distances = ((rows[i] - rows[found]) ** 2).sum(axis=1)
            np.testing.assert_allclose(distances, neighbors.squared[i], atol=1e-12)

    @every_search
    @pytest.mark.parametrize("k", [40, 41, 1000])
    def test_more_neighbours_than_rows(self, search, k):
        with pytest.raises(ValueError, match=rf"n_neighbors={k} is too large .*40 rows"):
            search(X, k)


class TestHeatAffinity:
    @pytest.mark.parametrize("k", [1, 6, 39])
    @pytest.mark.parametrize("sigma_w", [0.1, 1.0, 100.0])
    def test_heat_weights(self, k, sigma_w):
        W, used = heat_affinity(find_neighbors(X, k), sigma_w)
        assert used == sigma_w
        np.testing.assert_allclose(W.toarray(), reference.knn_affinity(X, k, sigma_w), rtol=1e-10)

    @pytest.mark.parametrize("k", [1, 6, 39])
    def test_binary_weights(self, k):
        W = affinity(X, k, weights="binary").toarray()
        np.testing.assert_array_equal(W, reference.knn_affinity(X, k))

    def test_all_other_rows_as_neighbours_make_the_complete_graph(self):
        np.testing.assert_array_equal(affinity(X, 39, weights="binary").toarray(), 1.0 - np.eye(40))

    def test_median_width(self):
        neighbors = find_neighbors(X, 4)
        W, sigma_w = heat_affinity(neighbors, "median")
        assert sigma_w == pytest.approx(np.median(reference.knn_distances(X, 4)))
        assert heat_affinity(neighbors, "wide")[1] == pytest.approx(4 * sigma_w)
        np.testing.assert_allclose(W.toarray(), reference.knn_affinity(X, 4, sigma_w), rtol=1e-10)

    @every_search
    def test_median_width_ignores_distances_of_zero(self, search):
        # Every row three times: the two nearest neighbours of all are at 0, the third is not.
        rows = np.repeat(X, 3, axis=0)
        distances = reference.knn_distances(rows, 3)
        _, sigma_w = heat_affinity(search(rows, 3), "median")
        assert sigma_w == pytest.approx(np.median(distances[distances > 0]))

    @every_search
    def test_rows_that_are_all_equal(self, search):
        W, sigma_w = heat_affinity(search(np.full((6, 2), 0.1), 5), "median")
        assert sigma_w == 1.0
        np.testing.assert_array_equal(W.toarray(), 1.0 - np.eye(6))

    def test_weights_that_underflow_are_no_edges(self):
        # exp(-d^2 / (2 sigma_w)) is 0 in double precision for the one distant row.
        rows = np.array([[0.0], [1e-3], [2e-3], [100.0]])
        W, _ = heat_affinity(find_neighbors(rows, 1), 1.0)
        assert W[[3]].nnz == 0
        assert (W.data > 0).all()

    def test_hand_counted(self):
        # 0 and 1 choose each other, 2 chooses 1, 3 chooses 2: a chain.
        rows = np.array([[0.0], [1.0], [3.0], [6.0]])
        chain = np.diag(np.ones(3), 1)
        W = affinity(rows, 1, weights="binary")
        np.testing.assert_array_equal(W.toarray(), chain + chain.T)


class TestLaplacian:
    @both_laplacians
    @powers
    def test_against_the_definition(self, normalized, power):
        W = random_affinity(20)
        L = Graph(sp.csr_array(W), normalized, power).laplacian
        assert isinstance(L, sp.csr_array)
        expected = reference.laplacian(W, normalized=normalized, power=power)
        np.testing.assert_allclose(L.toarray(), expected, rtol=1e-12, atol=1e-14)

    def test_quadratic_form_is_the_sum_over_edges(self):
        W, f = random_affinity(20), rng.normal(size=20)
        L = Graph(sp.csr_array(W)).laplacian
        by_edges = sum(0.5 * W[i, j] * (f[i] - f[j]) ** 2 for i in range(20) for j in range(20))
        assert f @ (L @ f) == pytest.approx(by_edges)

    def test_normalized_quadratic_form_is_the_sum_over_edges(self):
        W, f = random_affinity(20), rng.normal(size=20)
        d = W.sum(axis=0)
        L = Graph(sp.csr_array(W), normalized=True).laplacian
        by_edges = sum(
            0.5 * W[i, j] * (f[i] / d[i] ** 0.5 - f[j] / d[j] ** 0.5) ** 2
            for i in range(20)
            for j in range(20)
            if W[i, j] > 0
        )
        assert f @ (L @ f) == pytest.approx(by_edges)

    @both_laplacians
    @powers
    def test_positive_semidefinite_with_isolated_points(self, normalized, power):
        L = Graph(sp.csr_array(random_affinity(20)), normalized, power).laplacian.toarray()
        assert np.isfinite(L).all()
        eigenvalues = np.linalg.eigvalsh(L)
        assert eigenvalues[0] > -1e-12
        # Rows 2 and 5 have no edge: no part in the penalty.
        assert not L[[2, 5]].any()
        assert not L[:, [2, 5]].any()
        if normalized:
            assert eigenvalues[-1] <= 2.0**power + 1e-12

    @both_laplacians
    def test_graph_without_edges(self, normalized):
        L = Graph(sp.csr_array((5, 5)), normalized).laplacian
        assert L.shape == (5, 5)
        assert not L.toarray().any()

    @both_laplacians
    def test_self_loops_do_not_matter(self, normalized):
        W = random_affinity(20)
        with_loops = W + np.diag(rng.uniform(size=20))
        np.testing.assert_allclose(
            Graph(sp.csr_array(with_loops), normalized).laplacian.toarray(),
            reference.laplacian(W, normalized=normalized),
            atol=1e-14,
        )


class TestEdges:
    """The Laplacian as a sum over edges."""

    @staticmethod
    def total(edges, which, n):
        L = np.zeros((n, n))
        for i, j, w in zip(
            edges.first[which], edges.second[which], edges.weights[which], strict=True
        ):
            L[np.ix_([i, j], [i, j])] += w * np.array([[1.0, -1.0], [-1.0, 1.0]])
        return L

    def test_they_add_up(self):
        rng = np.random.default_rng(0)
        W = np.triu(rng.uniform(size=(9, 9)) * (rng.uniform(size=(9, 9)) < 0.4))
        graph = Graph(sp.csr_array(W + W.T))  # with loops, which no Laplacian sees
        edges, kept = graph.edges, np.array([0, 2, 3, 5, 8])
        gone = edges.left_out(kept, 9)
        np.testing.assert_allclose(self.total(edges, gone | ~gone, 9), graph.laplacian.toarray())
        left = graph.only(kept).laplacian.toarray()
        np.testing.assert_allclose(self.total(edges, ~gone, 9), left)
        assert 0 < np.count_nonzero(gone) < gone.size

    @pytest.mark.parametrize("form", [{"normalized": True}, {"power": 2}])
    def test_other_laplacians_are_no_sum_over_edges(self, form):
        assert Graph(sp.csr_array(np.ones((3, 3))), **form).edges is None


class TestOnly:
    @both_laplacians
    @powers
    def test_is_the_graph_of_the_kept_rows_padded_with_zeros(self, normalized, power):
        W = random_affinity(20, density=0.4)
        kept = np.array([19, 0, 1, 3, 5, 8, 9, 13])
        graph = Graph(sp.csr_array(W), normalized, power).only(kept)
        expected = np.zeros((20, 20))
        expected[np.ix_(kept, kept)] = reference.laplacian(
            W[np.ix_(kept, kept)], normalized=normalized, power=power
        )
        np.testing.assert_allclose(graph.laplacian.toarray(), expected, rtol=1e-12, atol=1e-14)

    def test_original_is_left_alone(self):
        W = random_affinity(20)
        graph = Graph(sp.csr_array(W))
        graph.only(np.arange(5))
        np.testing.assert_array_equal(graph.affinity.toarray(), W)

    def test_all_rows_and_none(self):
        W = random_affinity(20)
        graph = Graph(sp.csr_array(W))
        np.testing.assert_array_equal(graph.only(np.arange(20)).affinity.toarray(), W)
        assert graph.only(np.array([], dtype=int)).affinity.nnz == 0


class TestCheckAffinity:
    @pytest.mark.parametrize(
        "as_type",
        [np.array, sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix, sp.lil_array],
    )
    def test_dense_and_sparse(self, as_type):
        W = random_affinity(12)
        checked = check_affinity(as_type(W), 12)
        assert isinstance(checked, sp.csr_array)
        np.testing.assert_array_equal(checked.toarray(), W)

    def test_integers_become_floats(self):
        assert check_affinity(np.ones((3, 3), dtype=int), 3).dtype == np.float64

    def test_no_edges(self):
        assert check_affinity(sp.csr_array((3, 3)), 3).nnz == 0

    def test_rounding_of_symmetry_is_forgiven(self):
        W = random_affinity(12)
        W[0, 1], W[1, 0] = 1.0, 1.0 + 1e-14
        check_affinity(W, 12)

    @pytest.mark.parametrize("shape", [(11, 12), (11, 11), (13, 13)])
    def test_shape(self, shape):
        with pytest.raises(ValueError, match=r"shape \(1[13], 1[123]\); expected \(12, 12\)"):
            check_affinity(np.zeros(shape), 12)

    @pytest.mark.parametrize(
        "entry, message",
        [(np.nan, "NaN or infinite"), (np.inf, "NaN or infinite"), (-0.5, r"negative.*\(-0.5\)")],
    )
    def test_weights_that_make_no_sense(self, entry, message):
        W = random_affinity(12)
        W[0, 1] = W[1, 0] = entry
        with pytest.raises(ValueError, match=message):
            check_affinity(W, 12)

    @pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
    def test_asymmetry(self, scale):
        W = random_affinity(12)
        W[0, 1], W[1, 0] = 0.75, 0.5
        with pytest.raises(ValueError, match=r"not symmetric .*W.maximum\(W.T\)"):
            check_affinity(scale * W, 12)

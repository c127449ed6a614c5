"""Bases against dense inverses."""

import gc
import weakref
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import reference
from onefit.basis import KernelBasis, PlaneBasis, _is_almost_constant, plane_basis
from onefit.factors import factor_kernel, factor_nystrom, factor_nystrom_in_blocks, pivoted_cholesky
from onefit.form_basis import FormBasis, basis_for_ratios
from onefit.graphs import Edges, Graph
from onefit.kernels import Kernel
from onefit.thinned_basis import EdgeFeatures, ThinnedBasis, thinned_basis

N = 40
X = np.random.default_rng(0).normal(size=(N, 3))
W = reference.knn_affinity(X, 5, 1.0)
LAPLACIANS = {
    "D-W": reference.laplacian(W),
    "normalized": reference.laplacian(W, normalized=True),
    "squared": reference.laplacian(W, power=2),
}
LABELLED = {"some": [3, 7, 8, 20, 39], "one": [11], "first": [0, 1, 2], "all": list(range(N))}
# Far from singular, and singular to rounding (of rank 20 or so).
KERNELS = {
    "narrow": reference.gaussian_kernel(X, X, 0.1),
    "wide": reference.gaussian_kernel(X, X, 2.0**10),
    "duplicates": reference.gaussian_kernel(X[np.arange(N) // 2], X[np.arange(N) // 2], 1.0),
}


def kernel_basis(K, L, labelled):
    return KernelBasis(K, L, labelled)


def exact_plane_basis(K, L, labelled):
    return plane_basis(factor_kernel(K.copy()), L, labelled)


def nystrom_plane_basis(K, L, labelled):
    return plane_basis(factor_nystrom(K, np.arange(len(K))), L, labelled)


def blocked_plane_basis(K, L, labelled):
    """All rows are landmarks; blocks of 7 rows, in double precision."""
    landmarks = np.arange(len(K))
    factor = factor_nystrom_in_blocks(Kernel("precomputed"), K, K, landmarks, 7, single=False)
    return plane_basis(factor, L, labelled)


def form_basis(K, L, labelled):
    factor = factor_kernel(K.copy())
    return FormBasis(factor, L, labelled, factor.quadratic_form(L))


#: Edges that a graph has before it is thinned; rows 0 and 39 are in several.
EXTRA = Edges(np.array([0, 0, 5, 20]), np.array([39, 1, 39, 21]), np.array([2.0, 0.5, 1e-3, 1.0]))


def edge_laplacian(edges):
    ends = np.zeros((edges.weights.size, N))
    each = np.arange(edges.weights.size)
    ends[each, edges.first], ends[each, edges.second] = 1.0, -1.0
    return ends.T @ (edges.weights[:, None] * ends)


def edge_features(K, L, labelled, edges=EXTRA):
    """The basis of L and the edges, from which they can be taken away."""
    factor = factor_kernel(K.copy())
    whole = plane_basis(factor, sp.csr_array(L + edge_laplacian(edges)), labelled)
    return EdgeFeatures(whole, factor, edges)


def thinned(K, L, labelled):
    return without(edge_features(K, L, labelled), L)


def without(features, L):
    """The basis of L, all these edges gone."""
    whole = features.basis
    gone = features.columns(np.ones(features.edges.weights.size, dtype=bool))
    columns = np.hstack([gone, whole.rotated_labelled])
    return ThinnedBasis(features.factor, L, whole.labelled, whole, columns, [1.0])


BASES = {
    "kernel": kernel_basis,
    "plane": exact_plane_basis,
    "form": form_basis,
    "thinned": thinned,
    "nystrom": nystrom_plane_basis,
    "blocked": blocked_plane_basis,
}
every_basis = pytest.mark.parametrize("kind", BASES)
every_laplacian = pytest.mark.parametrize("laplacian", LAPLACIANS)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_labelling = pytest.mark.parametrize("labelling", LABELLED)
ratios = pytest.mark.parametrize("ratio", [0.0, 1e-6, 1e-2, 1.0, 1e3])


def make(kind, kernel="narrow", laplacian="D-W", labelling="some"):
    """A basis, with the dense K and L and the labelled rows."""
    K, L, labelled = KERNELS[kernel], LAPLACIANS[laplacian], np.array(LABELLED[labelling])
    return BASES[kind](K, sp.csr_array(L), labelled), K, L, labelled


def deformed_kernel(K, L, ratio):
    """K (I + r L K)^-1 in the symmetric form B (I + r B'LB)^-1 B'."""
    B = reference.features(K)
    return B @ np.linalg.solve(np.eye(B.shape[1]) + ratio * B.T @ L @ B, B.T)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


class TestOperations:
    """What a basis says about functions f = sum_j u_j k(x_j, .), against u and K."""

    @every_basis
    @every_kernel
    def test_values_of_representers(self, rng, kind, kernel):
        basis, K, _, labelled = make(kind, kernel)
        u = rng.normal(size=(N, 2))
        coef = basis.representer(u)
        assert basis.n_rows == N
        assert_allclose(basis.values(coef), K @ u, atol=1e-12)
        assert_allclose(basis.labelled_values(coef), (K @ u)[labelled], atol=1e-12)

    @every_basis
    @every_kernel
    def test_inner_products(self, rng, kind, kernel):
        basis, K, _, _ = make(kind, kernel)
        u, v = rng.normal(size=(2, N, 3))
        a, b = basis.representer(u), basis.representer(v)
        expected = [u[:, j] @ K @ v[:, j] for j in range(3)]
        assert_allclose(basis.inner(a, b, basis.values(b)), expected, atol=1e-10)

    @every_basis
    @every_kernel
    def test_parts_of_the_kernel(self, kind, kernel):
        basis, K, _, _ = make(kind, kernel)
        rows = np.array([30, 2])
        assert_allclose(basis.kernel_columns(rows), K[:, rows], atol=1e-12)
        assert_allclose(basis.squared_norms_of_evaluation(), np.diagonal(K), atol=1e-12)

    @every_basis
    @every_kernel
    def test_dense_operator(self, rng, kind, kernel):
        basis, _, L, _ = make(kind, kernel)
        S = sp.csr_array(L + np.diag(rng.uniform(size=N)))
        coef = basis.representer(rng.normal(size=(N, 2)))
        expected = basis.representer(S @ basis.values(coef))
        # Features computed twice differ by what small pivots make of rounding.
        tolerance = 1e-7 if kind == "blocked" else 1e-11
        assert_allclose(basis.dense_operator(S) @ coef, expected, atol=tolerance)

    @every_basis
    @every_kernel
    def test_dual_coefficients(self, kind, kernel):
        basis, K, _, labelled = make(kind, kernel)
        coef = basis.representer(np.eye(N)[:, labelled])
        rows, weights = basis.dual_coefficients(coef)
        assert len(set(rows.tolist())) == len(rows)
        assert_allclose(K[:, rows] @ weights, K[:, labelled], atol=1e-7)

    def test_rows_without_weight_are_left_out(self):
        basis, _, _, labelled = make("kernel")
        rows, weights = basis.dual_coefficients(np.eye(N)[:, labelled])
        np.testing.assert_array_equal(rows, labelled)
        np.testing.assert_array_equal(weights, np.eye(len(labelled)))


class TestDeformation:
    @every_basis
    @every_laplacian
    @every_labelling
    @ratios
    def test_against_the_inverse(self, kind, laplacian, labelling, ratio):
        basis, K, L, labelled = make(kind, "narrow", laplacian, labelling)
        expected = np.linalg.inv(np.linalg.inv(K) + ratio * L)
        deformed = basis.deform(ratio)
        gram = deformed.labelled_gram
        assert_allclose(gram, expected[np.ix_(labelled, labelled)], rtol=1e-8, atol=1e-11)
        columns = basis.values(deformed.expand(np.eye(len(labelled))))
        assert_allclose(columns, expected[:, labelled], rtol=1e-8, atol=1e-11)

    @every_basis
    @every_laplacian
    @pytest.mark.parametrize("kernel", ["wide", "duplicates"])
    @ratios
    def test_singular_kernels(self, kind, laplacian, kernel, ratio):
        basis, K, L, labelled = make(kind, kernel, laplacian)
        expected = deformed_kernel(K, L, ratio)
        deformed = basis.deform(ratio)
        assert_allclose(deformed.labelled_gram, expected[np.ix_(labelled, labelled)], atol=1e-9)
        columns = basis.values(deformed.expand(np.eye(len(labelled))))
        assert_allclose(columns, expected[:, labelled], atol=1e-9)

    @every_basis
    @every_laplacian
    @ratios
    def test_solve(self, rng, kind, laplacian, ratio):
        basis, K, L, _ = make(kind, "narrow", laplacian)
        u = rng.normal(size=(N, 2))
        solved = basis.values(basis.deform(ratio).solve(basis.representer(u)))
        assert_allclose(solved + ratio * (K @ (L @ solved)), K @ u, atol=1e-9 * (1 + ratio))

    @every_basis
    @every_kernel
    @ratios
    def test_gram_is_symmetric_and_no_larger_than_the_kernel(self, kind, kernel, ratio):
        basis, K, _, labelled = make(kind, kernel)
        gram = basis.deform(ratio).labelled_gram
        assert_allclose(gram, gram.T, rtol=1e-14)
        shrinkage = np.linalg.eigvalsh(K[np.ix_(labelled, labelled)] - gram)
        assert shrinkage.min() > -1e-10

    @every_basis
    def test_infinite_ratio_leaves_the_constants(self, kind):
        # On a connected graph: the projection on constants, 1 (1'K^-1 1)^-1 1'.
        K = KERNELS["narrow"]
        L = reference.laplacian(np.ones((N, N)) - np.eye(N))
        basis = BASES[kind](K, sp.csr_array(L), np.arange(5))
        constant = 1.0 / np.linalg.inv(K).sum()
        assert_allclose(basis.deform(1e6).labelled_gram, constant, rtol=1e-6)

    @every_kernel
    @every_laplacian
    @ratios
    def test_the_two_bases_agree(self, kernel, laplacian, ratio):
        grams = [make(kind, kernel, laplacian)[0].deform(ratio).labelled_gram for kind in BASES]
        assert_allclose(grams[0], grams[1], atol=1e-9)
        assert_allclose(grams[0], grams[2], atol=1e-9)

    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_few_features(self, rng, rank):
        A, L, labelled = rng.normal(size=(N, rank)), LAPLACIANS["D-W"], np.array([3, 20])
        K, u = A @ A.T, rng.normal(size=(N, 2))
        expected = deformed_kernel(K, L, 0.1)
        for make_basis in BASES.values():
            basis = make_basis(K, sp.csr_array(L), labelled)
            deformed = basis.deform(0.1)
            gram, block = deformed.labelled_gram, expected[np.ix_(labelled, labelled)]
            assert_allclose(gram, block, atol=1e-10)
            columns = basis.values(deformed.expand(np.eye(2)))
            assert_allclose(columns, expected[:, labelled], atol=1e-10)
            solved = basis.values(deformed.solve(basis.representer(u)))
            assert_allclose(solved, expected @ u, atol=1e-9)


class TestAlmostConstant:
    """A kernel whose constant part is taken out before the Laplacian multiplies it."""

    parts = np.array([0, 0, 1, 1, 2])

    def kernel(self, *within):
        K = 3.0 * np.eye(5)
        for (i, j), value in zip([(0, 1), (2, 3)], within, strict=True):
            K[i, j] = K[j, i] = value
        return K

    @pytest.mark.parametrize("within", [(1.5, 1.4), (1.4, 1.6), (1.6, 1.4), (1.6, 1.6)])
    def test_on_some_part_of_several_rows(self, within):
        found = _is_almost_constant(self.kernel(*within), self.parts, np.bincount(self.parts))
        assert found == (max(within) > 1.5)

    def test_its_product_with_the_laplacian(self, rng):
        # Two parts: on each of them the product sums to zero, to rounding of what is not constant.
        first = np.arange(N) < N // 2
        L = reference.laplacian(W * (first[:, None] == first))
        basis = KernelBasis(KERNELS["narrow"] + 1e6, sp.csr_array(L), np.array([3]))
        order = rng.permutation(N)
        product = basis._laplacian_times_kernel(order, 0.3)
        assert_allclose(product, 0.3 * (L @ KERNELS["narrow"])[order], atol=1e-8)
        for part in (first, ~first):
            assert np.abs(product[part[order]].sum(axis=0)).max() < 1e-13

    def test_is_kept_where_the_laplacian_sees_constants(self, rng):
        L, K, order = LAPLACIANS["normalized"], KERNELS["narrow"] + 1e3, rng.permutation(N)
        basis = KernelBasis(K, sp.csr_array(L), np.array([3]))
        product = basis._laplacian_times_kernel(order, 0.3)
        assert_allclose(product, 0.3 * (L @ K)[order], atol=1e-10)


class TestPlaneBasis:
    @every_kernel
    @every_laplacian
    def test_reduction(self, kernel, laplacian):
        """BB' = K, and the rotation takes B'LB to the tridiagonal T."""
        basis, K, L, _ = make("plane", kernel, laplacian)
        B = basis.factor.features
        assert_allclose(B @ B.T, K, atol=1e-12)
        T = (
            np.diag(basis.diagonal)
            + np.diag(basis.off_diagonal, 1)
            + np.diag(basis.off_diagonal, -1)
        )
        Q = basis.rotate(np.eye(len(T)), back=True)
        assert_allclose(Q.T @ Q, np.eye(len(T)), atol=1e-12)
        assert_allclose(Q @ T @ Q.T, B.T @ L @ B, atol=1e-10)
        assert_allclose(basis.rotate(Q, back=False), np.eye(len(T)), atol=1e-12)

    def test_numerical_rank(self):
        assert make("plane", "narrow")[0].factor.features.shape == (N, N)
        assert make("plane", "duplicates")[0].factor.features.shape == (N, N // 2)
        assert make("plane", "wide")[0].factor.features.shape[1] < N

    def test_values_on_new_rows(self, rng):
        basis, _, _, _ = make("plane", "narrow")
        coef = rng.normal(size=(N, 2))
        rows, weights = basis.dual_coefficients(coef)
        K = reference.gaussian_kernel(X, X[rows], 0.1)
        assert_allclose(K @ weights, basis.values(coef), atol=1e-10)

    @pytest.mark.parametrize("c", [1, 7, 25])
    def test_nystrom_matrix(self, rng, c):
        K = reference.gaussian_kernel(X, X, 1.0)
        landmarks = np.sort(rng.permutation(N)[:c])
        C, P = K[:, landmarks], K[np.ix_(landmarks, landmarks)]
        factor = factor_nystrom(C, landmarks)
        B = factor.features
        assert B.shape == (N, c)
        assert_allclose(B @ B.T, C @ np.linalg.solve(P, C.T), atol=1e-10)
        triangle = B[factor.landmarks]
        assert_allclose(triangle, np.tril(triangle))


class TestFormBasis:
    """Few ratios: sums of moments where they suffice, else a factorisation each."""

    @every_kernel
    @every_laplacian
    def test_series(self, kernel, laplacian):
        basis, K, L, labelled = make("form", kernel, laplacian)
        largest = np.linalg.eigvalsh(basis.form)[-1]
        for size in 10.0 ** np.arange(-12.0, 1.0, 0.5):
            ratio = size / largest
            series = basis.moments.gram(ratio)
            # Eight moments reach to 1e-15 ** (1 / 8) of the largest eigenvalue.
            if size <= 1e-2:
                assert series is not None
            if size >= 1.0:
                assert series is None
            if series is not None:
                expected = deformed_kernel(K, L, ratio)[np.ix_(labelled, labelled)]
                assert_allclose(series, expected, atol=1e-13)

    def test_no_more_products_than_are_needed(self):
        basis, *_ = make("form")
        for size, n_moments in [(0.0, 3), (1e-9, 3), (1e-5, 5), (1e-3, 7), (1e-9, 7)]:
            assert basis.moments.gram(size / basis.scale) is not None
            assert len(basis.moments._known[0]) == n_moments

    def test_without_edges(self):
        labelled = np.array(LABELLED["some"])
        basis = form_basis(KERNELS["narrow"], sp.csr_array((N, N)), labelled)
        expected = KERNELS["narrow"][np.ix_(labelled, labelled)]
        for ratio in (0.0, 1.0, 1e100):
            assert_allclose(basis.deform(ratio).labelled_gram, expected, atol=1e-14)

    @pytest.mark.parametrize(
        "ratios, labelling, kind",
        [
            ([0.0, 1e-14, 1.0, 1e3], "some", FormBasis),
            (10.0 ** np.arange(-16, 3), "some", FormBasis),
            (10.0 ** np.arange(-8, 9), "some", PlaneBasis),
            ([1e12], "some", PlaneBasis),
            ([0.0, 1e-14, 1.0, 1e3], "all", PlaneBasis),
        ],
        ids=["few", "few that are large", "many", "badly conditioned", "moments of many labels"],
    )
    def test_choice(self, ratios, labelling, kind):
        _, K, L, labelled = make("form", labelling=labelling)
        factor, L = factor_kernel(K.copy()), sp.csr_array(L)
        basis = basis_for_ratios(factor, L, labelled, ratios)
        assert type(basis) is kind
        known = basis_for_ratios(factor, L, labelled, ratios, factor.quadratic_form(L))
        for ratio in ratios:
            assert_allclose(
                known.deform(ratio).labelled_gram, basis.deform(ratio).labelled_gram, atol=1e-13
            )

    def test_form_that_is_not_positive_to_rounding(self, rng):
        """Single precision, say: then it is the reduction that answers, as for many ratios."""
        basis, *_, labelled = make("form")
        noise = rng.normal(size=basis.form.shape)
        form = basis.form - 1e-3 * (noise @ noise.T)
        basis = FormBasis(basis.factor, basis.laplacian, labelled, form)
        deformed, other = basis.deform(1e3), basis.reduced.deform(1e3)
        coef = rng.normal(size=(len(form), 2))
        assert_allclose(deformed.labelled_gram, other.labelled_gram)
        assert_allclose(deformed.solve(coef), other.solve(coef))


class TestThinnedBasis:
    """A graph that has lost edges, against the deformed kernel of what is left."""

    N = 160
    X = np.random.default_rng(2).normal(size=(N, 3))
    GRAPH = Graph(sp.csr_array(reference.knn_affinity(X, 3, 1.0)))
    KERNELS: ClassVar = {
        "narrow": reference.gaussian_kernel(X, X, 0.1),
        "middle": reference.gaussian_kernel(X, X, 1.0),
        "wide": reference.gaussian_kernel(X, X, 2.0**4),
    }
    LABELLED = np.array([3, 7, 80])

    @pytest.fixture(autouse=True)
    def large(self, monkeypatch):
        """Matrices this small are factored before Python has taken a few steps."""
        monkeypatch.setattr("onefit.thinned_basis._STEP", 0)

    def features(self, kernel):
        factor = factor_kernel(self.KERNELS[kernel].copy())
        whole = plane_basis(factor, self.GRAPH.laplacian, self.LABELLED)
        return EdgeFeatures(whole, factor, self.GRAPH.edges)

    def expected(self, kernel, L, ratio):
        block = np.ix_(self.LABELLED, self.LABELLED)
        return deformed_kernel(self.KERNELS[kernel], L, ratio)[block]

    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize("ratio", 10.0 ** np.arange(-12, 3))
    def test_rows_held_out(self, kernel, ratio):
        kept = np.delete(np.arange(self.N), [3, 80])
        part = self.GRAPH.only(kept).laplacian
        features = self.features(kernel)
        gone = features.edges.left_out(kept, self.N)
        basis = thinned_basis(features, part, gone, [ratio])
        assert isinstance(basis, ThinnedBasis)
        assert basis.gone.shape[1] <= np.count_nonzero(gone) < 20
        expected = self.expected(kernel, part.toarray(), ratio)
        assert_allclose(basis.deform(ratio).labelled_gram, expected, rtol=0, atol=1e-11)
        if ratio >= 1e-2:  # the whole graph gives another one
            whole = features.basis.deform(ratio).labelled_gram
            assert np.abs(whole - expected).max() > 1e-4

    def test_it_goes_when_nobody_holds_it(self):
        """Folds have one each, as large as a matrix of the basis."""
        features, kept = self.features("narrow"), np.delete(np.arange(self.N), 3)
        gone = features.edges.left_out(kept, self.N)
        part = self.GRAPH.only(kept).laplacian
        gc.disable()
        try:
            basis = thinned_basis(features, part, gone, [1e-9, 1.0])
            for ratio in (1e-9, 1.0):
                assert basis.deform(ratio).labelled_gram.shape == (3, 3)
            held = weakref.ref(basis)
            del basis
            assert held() is None
        finally:
            gc.enable()

    def test_rows_without_edges_held_out(self):
        """Nothing is gone: Woodbury's system has no rows."""
        features, L = self.features("narrow"), self.GRAPH.laplacian
        basis = thinned_basis(features, L, np.zeros(features.sizes.size, dtype=bool), [1.0])
        assert basis.gone.shape[1] == 0
        gram = basis.deform(1.0)._by_woodbury()
        assert_allclose(gram, self.expected("narrow", L.toarray(), 1.0), rtol=0, atol=1e-12)

    def test_ratios_beyond_all_digits(self):
        """The tridiagonal form is positive to its own rounding only."""
        features, L = self.features("narrow"), self.GRAPH.laplacian
        basis = thinned_basis(features, L, features.edges.first < 5, [1e17])
        assert features.basis.deform(1e17).diagonal.min() < 0.0
        assert basis.deform(1e17)._by_woodbury() is None

    def test_many_ratios_or_labels(self):
        """One reduction costs less than a system for each; moments of many labels take memory."""
        features, L = self.features("narrow"), self.GRAPH.laplacian
        gone = features.edges.first < 5
        assert thinned_basis(features, L, gone, [1.0] * 5) is not None
        assert thinned_basis(features, L, gone, [1.0] * 500) is None
        whole = plane_basis(features.factor, L, np.arange(self.N))
        features = EdgeFeatures(whole, features.factor, features.edges)
        assert thinned_basis(features, L, gone, [1.0]) is None

    def test_no_edges(self):
        """Weights that are all zero: every ratio is the kernel itself."""
        factor, L = factor_kernel(self.KERNELS["wide"].copy()), sp.csr_array((self.N, self.N))
        edges = Graph(L).edges
        features = EdgeFeatures(plane_basis(factor, L, self.LABELLED), factor, edges)
        gone = edges.left_out(np.arange(9), self.N)
        assert gone.shape == (0,)
        basis = thinned_basis(features, L, gone, [1e-9, 1.0])
        for ratio in (1e-9, 1.0):
            expected = self.expected("wide", L.toarray(), ratio)
            assert_allclose(basis.deform(ratio).labelled_gram, expected, atol=1e-12)

    def test_many_edges(self):
        """Then the form of what is left costs less."""
        kept, features = np.arange(self.N // 2), self.features("narrow")
        gone = features.edges.left_out(kept, self.N)
        assert thinned_basis(features, self.GRAPH.only(kept).laplacian, gone, [1.0]) is None

    def test_edges_without_effect_are_left_out(self):
        """Of no weight to speak of, or between rows with equal features."""
        K = KERNELS["duplicates"]
        edges = Edges(np.array([0, 0, 5]), np.array([1, 7, 9]), np.array([1.0, 1.0, 1e-20]))
        features = edge_features(K, LAPLACIANS["D-W"], np.array([3, 8]), edges)
        assert_allclose(features.sizes, [0.0, 2.0 - 2.0 * K[0, 7], 0.0], atol=1e-15)
        assert np.flatnonzero(features.matters(np.ones(3, dtype=bool), 1.0)).tolist() == [1]
        assert np.flatnonzero(features.matters(np.ones(3, dtype=bool), 1e6)).tolist() == [1, 2]
        assert not features.matters(np.zeros(3, dtype=bool), 1e6).any()

    def test_edges_that_outweigh_the_others(self):
        """What they leave is lost in their rounding: then the form of the others is made."""
        K, labelled = KERNELS["narrow"], np.array(LABELLED["some"])
        edges = Edges(EXTRA.first, EXTRA.second, 1e9 * EXTRA.weights)
        features = edge_features(K, LAPLACIANS["D-W"], labelled, edges)
        L = sp.csr_array(LAPLACIANS["D-W"])
        deformed = without(features, L).deform(1.0)
        assert deformed._by_woodbury() is None
        expected = deformed_kernel(K, L.toarray(), 1.0)[np.ix_(labelled, labelled)]
        assert_allclose(deformed.labelled_gram, expected, atol=1e-12)


class TestPivotedCholesky:
    @pytest.mark.parametrize("rank", [1, 3, 8])
    def test_rank(self, rank):
        A = np.random.default_rng(rank).normal(size=(8, rank))
        P = A @ A.T
        lower, kept = pivoted_cholesky(P)
        assert lower.shape == (rank, rank)
        np.testing.assert_array_equal(lower, np.tril(lower))
        assert_allclose(lower @ lower.T, P[np.ix_(kept, kept)], atol=1e-12)
        # What is kept spans everything.
        C = P[:, kept]
        assert_allclose(C @ np.linalg.solve(P[np.ix_(kept, kept)], C.T), P, atol=1e-9)

    def test_input_is_not_changed(self):
        P = KERNELS["narrow"].copy()
        pivoted_cholesky(P)
        np.testing.assert_array_equal(P, KERNELS["narrow"])

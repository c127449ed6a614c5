"""Kernels against loops over pairs of rows."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

import reference
from onefit.kernels import (
    Kernel,
    check_positive_semidefinite,
    evenly_spaced_rows,
    kernel_names,
    median_squared_distance,
    squared_distances,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 4))
Y = rng.normal(size=(7, 4))

# Kernels of pairs, for the rows as they are or (chi2) made non-negative.
PAIRS = {
    "linear": ({}, lambda x, y: x @ y),
    "rbf": ({"gamma": 0.3}, lambda x, y: np.exp(-0.3 * ((x - y) ** 2).sum())),
    "laplacian": ({"gamma": 0.2}, lambda x, y: np.exp(-0.2 * np.abs(x - y).sum())),
    "poly": ({"degree": 2, "gamma": 0.5, "coef0": 1.0}, lambda x, y: (0.5 * x @ y + 1) ** 2),
    "cosine": ({}, lambda x, y: x @ y / np.sqrt((x @ x) * (y @ y))),
}


class TestGaussian:
    @pytest.mark.parametrize("sigma", [2.0**-10, 1.0, 2.0**10])
    def test_against_explicit_differences(self, sigma):
        kernel = Kernel("gaussian", sigma)
        expected = reference.gaussian_kernel(X, X, sigma)
        np.testing.assert_allclose(kernel(X), expected, rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(
            kernel(X, Y), reference.gaussian_kernel(X, Y, sigma), rtol=1e-10, atol=1e-15
        )

    def test_parametrisation(self):
        # exp(-d^2 / (2 sigma)), with sigma and not its square.
        value = Kernel("gaussian", 8.0)(np.array([[0.0]]), np.array([[4.0]]))
        assert value == pytest.approx(np.exp(-1.0))
        np.testing.assert_allclose(
            Kernel("gaussian", 8.0)(X, Y), Kernel("rbf", params={"gamma": 1 / 16})(X, Y), rtol=1e-12
        )

    @pytest.mark.parametrize("as_sparse", [sp.csr_array, sp.csr_matrix])
    def test_sparse_rows(self, as_sparse):
        A, B = np.where(X > 0, X, 0.0), np.where(Y > 0, Y, 0.0)
        kernel = Kernel("gaussian", 2.0)
        np.testing.assert_allclose(kernel(as_sparse(A)), kernel(A), rtol=1e-12)
        np.testing.assert_allclose(kernel(as_sparse(A), as_sparse(B)), kernel(A, B), rtol=1e-12)

    def test_from_squared_distances_reuses_the_memory(self):
        D = reference.squared_distances(X, X)
        expected = np.exp(-D / 6.0)
        K = Kernel("gaussian", 3.0).from_squared_distances(D)
        assert K is D
        np.testing.assert_allclose(K, expected, rtol=1e-14)


class TestSquaredDistances:
    def test_far_clusters_keep_their_digits(self):
        """The kernel of one cluster does not depend on how far away another one is."""
        sides = np.arange(len(X))[:, None] % 2
        far = X + 1e4 * sides
        D = squared_distances(far)
        near = D < 1e6
        np.testing.assert_array_equal(D[near], D.T[near])
        np.testing.assert_allclose(D, reference.squared_distances(far, far), rtol=1e-11)
        D = squared_distances(far, far[:7] + 0.5)
        np.testing.assert_allclose(D, reference.squared_distances(far, far[:7] + 0.5), rtol=1e-11)

    def test_against_explicit_differences(self):
        np.testing.assert_allclose(
            squared_distances(X), reference.squared_distances(X, X), atol=1e-13
        )
        np.testing.assert_allclose(
            squared_distances(X, Y), reference.squared_distances(X, Y), atol=1e-13
        )

    def test_rows_far_from_the_origin(self):
        # ||x||^2 - 2 x'y + ||y||^2 as it stands has no digit left here.
        far = X + 1e6
        np.testing.assert_allclose(
            squared_distances(far), reference.squared_distances(far, far), rtol=1e-8, atol=1e-12
        )
        np.testing.assert_allclose(
            squared_distances(far, Y + 1e6), reference.squared_distances(far, Y + 1e6), rtol=1e-8
        )

    @pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-4, 1e-5])
    def test_clusters_far_apart(self, spread):
        rows = spread * X
        rows[::2] += 1e4
        rows = np.vstack([rows, rows[:6]])  # some of them twice
        expected = reference.squared_distances(rows, rows)
        np.testing.assert_allclose(squared_distances(rows), expected, rtol=1e-8)
        np.testing.assert_allclose(squared_distances(rows, rows[3:]), expected[:, 3:], rtol=1e-8)

    @pytest.mark.parametrize("as_type", [np.array, sp.csr_array])
    @pytest.mark.parametrize("offset", [0.0, 1e3])
    def test_equal_rows_have_distance_zero(self, offset, as_type):
        rows = as_type(np.repeat(X, 3, axis=0) + offset)
        group = np.arange(90) // 3
        D = squared_distances(rows)
        np.testing.assert_array_equal(D == 0.0, group[:, None] == group)
        np.testing.assert_array_equal(squared_distances(rows, rows[:7]) == 0.0, D[:, :7] == 0.0)
        assert D.min() >= 0.0
        np.testing.assert_allclose(D, D.T, rtol=1e-8)

    def test_input_is_not_changed(self):
        before = X.copy()
        squared_distances(X)
        np.testing.assert_array_equal(X, before)


class TestOtherKernels:
    @pytest.mark.parametrize("name", PAIRS)
    def test_against_a_loop_over_pairs(self, name):
        params, pair = PAIRS[name]
        expected = [[pair(x, y) for y in Y] for x in X]
        np.testing.assert_allclose(Kernel(name, params=params)(X, Y), expected, rtol=1e-12)

    def test_rows_that_a_kernel_refuses(self):
        with pytest.raises(ValueError, match=r"^kernel='chi2': X contains negative .*\. Use .*"):
            Kernel("chi2")(X)

    @pytest.mark.parametrize("name", sorted(PAIRWISE_KERNEL_FUNCTIONS))
    def test_names_of_scikit_learn(self, name):
        assert name in kernel_names()
        K = Kernel(name)(np.abs(X))
        np.testing.assert_allclose(K, pairwise_kernels(np.abs(X), metric=name), rtol=1e-12)
        assert K.flags.c_contiguous

    def test_callable(self):
        def kernel(A, B, power):
            return (A @ B.T) ** power

        np.testing.assert_allclose(
            Kernel(kernel, params={"power": 2})(X, Y), Kernel("linear")(X, Y) ** 2
        )
        np.testing.assert_allclose(Kernel(kernel, params={"power": 2})(X), (X @ X.T) ** 2)

    def test_callable_of_single_rows_is_explained(self):
        with pytest.raises(ValueError, match=r"shape \(\). Expected .* \(30, 30\).*partial"):
            Kernel(lambda A, B: 1.0)(X)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_callable_with_values_that_are_not_finite(self, value):
        with pytest.raises(ValueError, match="NaN or infinity"):
            Kernel(lambda A, B: np.full((len(A), len(B)), value))(X)


def matrix_and_kernel(name):
    rows = np.abs(rng.normal(size=(300, 3)))
    if name == "precomputed":
        K = reference.gaussian_kernel(rows, rows, 1.0)
        return K, K, Kernel("precomputed")
    kernel = Kernel(lambda A, B: A @ B.T) if name == "callable" else Kernel(name, 1.5)
    return kernel(rows), rows, kernel


@pytest.mark.parametrize("name", ["gaussian", "precomputed", "callable", "poly", "cosine"])
def test_columns_and_diagonal_are_parts_of_the_matrix(name):
    # 300 rows are more than one block of the diagonal.
    K, rows, kernel = matrix_and_kernel(name)
    chosen = np.array([7, 0, 299])
    np.testing.assert_allclose(kernel.columns(rows, chosen), K[:, chosen], rtol=1e-10)
    np.testing.assert_allclose(kernel.diagonal(rows), np.diagonal(K), rtol=1e-10)


class TestMedian:
    @pytest.mark.parametrize("n", [2, 3, 50, 1000])
    def test_is_the_median_over_pairs(self, n):
        rows = np.random.default_rng(n).normal(size=(n, 3))
        assert median_squared_distance(rows) == pytest.approx(np.median(pdist(rows) ** 2))

    def test_many_rows_are_sampled(self):
        rows = np.random.default_rng(0).normal(size=(3000, 2))
        assert median_squared_distance(rows) == pytest.approx(np.median(pdist(rows) ** 2), rel=0.1)

    def test_sparse_rows(self):
        rows = sp.csr_array(np.random.default_rng(0).binomial(1, 0.4, (40, 6)) * 1.5)
        expected = median_squared_distance(rows.toarray())
        assert median_squared_distance(rows) == pytest.approx(expected)

    def test_duplicates_do_not_count(self):
        # 9 of 10 rows are equal: the median over all pairs would be 0, and the kernel undefined.
        rows = np.zeros((10, 2))
        rows[0] = [3.0, 4.0]
        assert median_squared_distance(rows) == 25.0
        assert median_squared_distance(np.repeat(X, 5, axis=0)) == pytest.approx(
            np.median(pdist(X) ** 2)
        )

    @pytest.mark.parametrize("n", [1, 5])
    def test_rows_that_are_all_equal(self, n):
        assert median_squared_distance(np.ones((n, 2))) == 1.0


@pytest.mark.parametrize("n, wanted", [(5, 10), (10, 10), (1001, 1000), (10_000, 1000)])
def test_evenly_spaced_rows(n, wanted):
    rows = evenly_spaced_rows(n, wanted)
    assert rows[0] == 0
    assert rows[-1] == n - 1
    assert len(rows) == len(set(rows.tolist())) == min(n, wanted)
    assert np.ptp(np.diff(rows)) <= 1


class TestPositiveSemidefinite:
    @pytest.mark.parametrize(
        "name", [name for name in kernel_names() if Kernel(name).is_always_psd]
    )
    def test_kernels_said_to_be_so_are(self, name):
        rows = np.abs(np.vstack([X, X[:5]]))
        eigenvalues = np.linalg.eigvalsh(Kernel(name)(rows))
        assert eigenvalues[0] > -1e-12 * eigenvalues[-1]

    def test_sigmoid_is_not(self):
        assert not Kernel("sigmoid").is_always_psd
        assert not Kernel(lambda A, B: A @ B.T).is_always_psd

    @pytest.mark.parametrize("sigma", [2.0**-10, 1.0, 2.0**10, 2.0**20])
    def test_rounding_is_forgiven(self, sigma):
        check_positive_semidefinite(reference.gaussian_kernel(X, X, sigma), "this")

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_negative_eigenvalue(self, scale):
        K = scale * np.diag([1.0, 1.0, -0.01])
        smallest = re.escape(f"{-scale / 100:.3g}")
        with pytest.raises(ValueError, match=f"this gave .* eigenvalue {smallest}"):
            check_positive_semidefinite(K, "this")

    def test_asymmetry(self):
        K = np.eye(3)
        K[0, 1] = 0.25
        with pytest.raises(ValueError, match=r"not symmetric \(largest difference 0.25\)"):
            check_positive_semidefinite(K, "this")

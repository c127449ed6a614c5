"""Fits against the dense reference, over the whole range of penalties and kernel widths.

Values are compared on training rows and on new rows, relative to the largest value. Targets of the
regression data become classes by their mean, so that every loss sees every data set.
"""

from functools import cache, partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes

import reference
from paired import ESTIMATORS

# The promise of the project: values to 1e-6, whatever the parameters.
VALUES_TOL = 1e-6
# The gradient at the fit, relative to that at f = 0, for losses as curved as the square loss. With
# the same error of f the gradient grows like the curvature: 25 times for the hinge with h = 0.01.
GRADIENT_TOL = 1e-6

N_ROWS, N_NEW, N_LABELLED, N_NEIGHBORS = 180, 20, 19, 6

DATA = {
    "diabetes": partial(reference.bundled_data, load_diabetes),
    "breast_cancer": partial(reference.bundled_data, load_breast_cancer),
    "housing": partial(reference.real_data, "housing"),
    "mpg": partial(reference.real_data, "mpg"),
    "svmguide3": partial(reference.real_data, "svmguide3"),
    "german.numer": partial(reference.real_data, "german.numer"),
    "fourclass": partial(reference.real_data, "fourclass"),
}

# All corners, and a diagonal through the inside in which every value of the paper's grid occurs.
AMBIENT = [1e-6, 1e-4, 1e-2, 1e0, 1e2]
MANIFOLD = [0.0, 1e-6, 1e-4, 1e-2, 1e0, 1e2]
WIDTHS = [2.0**i for i in range(-10, 11, 2)]
CORNERS = list(product([1e-6, 1e2], [0.0, 1e-6, 1e2], [2.0**-10, 2.0**10]))
INSIDE = [(AMBIENT[3 * i % 5], MANIFOLD[5 * i % 6], sigma) for i, sigma in enumerate(WIDTHS)]
GRID = CORNERS + INSIDE

every_data_set = pytest.mark.parametrize("data", DATA)
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
both_laplacians = pytest.mark.parametrize("normalized", [False, True], ids=["D-W", "normalized"])


@cache
def load(data, is_classification):
    """Rows, targets and labelled rows; the rows after the first N_ROWS are new."""
    X, y = DATA[data](N_ROWS + N_NEW, seed=5)
    if is_classification:
        y = np.where(y > y.mean(), 1.0, -1.0)
    sigma_w = float(np.median(reference.knn_distances(X[:N_ROWS], N_NEIGHBORS)))
    return SimpleNamespace(
        X=X, y=y, labelled=reference.choose_labels(y[:N_ROWS], N_LABELLED), sigma_w=sigma_w
    )


@cache
def affinity(data, binary=False):
    rows = load(data, True)
    return reference.knn_affinity(
        rows.X[:N_ROWS], N_NEIGHBORS, sigma_w=None if binary else rows.sigma_w
    )


@cache
def kernel(data, sigma):
    X = load(data, True).X
    return reference.gaussian_kernel(X, X, sigma)


@cache
def features(data, sigma):
    return reference.features(kernel(data, sigma))


class Case:
    """One data set and one estimator: fits of the package and of the reference."""

    def __init__(self, data, name, *, normalized=False, power=1, binary=False, intercept=False):
        estimator, self.loss = ESTIMATORS[name]
        self.data, self.intercept = data, intercept
        self.is_classifier = name != "regressor"
        self.rows = load(data, self.is_classifier)
        self.L = reference.laplacian(affinity(data, binary), normalized=normalized, power=power)
        self.estimator = clone(estimator).set_params(
            n_neighbors=N_NEIGHBORS,
            graph_width=self.rows.sigma_w,
            graph_weights="binary" if binary else "heat",
            laplacian="normalized" if normalized else "unnormalized",
            laplacian_power=power,
            fit_intercept=intercept,
        )

    def fit(self, gamma_A, gamma_I, sigma, sample_weight=None):
        labelled = self.rows.labelled
        if self.is_classifier:
            y = np.full(N_ROWS, -1)
            y[labelled] = self.rows.y[labelled] > 0
        else:
            y = np.full(N_ROWS, np.nan)
            y[labelled] = self.rows.y[labelled]
        model = clone(self.estimator).set_params(
            ambient_penalty=gamma_A, manifold_penalty=gamma_I, kernel_width=sigma
        )
        return model.fit(self.rows.X[:N_ROWS], y, sample_weight=sample_weight)

    def values(self, model):
        """Decisions on training and new rows."""
        predict = model.decision_function if self.is_classifier else model.predict
        return predict(self.rows.X)

    def objective(self, gamma_A, gamma_I, sample_weight=None):
        labelled = self.rows.labelled
        v = np.ones(N_LABELLED) if sample_weight is None else sample_weight[labelled]
        y = self.rows.y[labelled]
        return reference.Objective(
            self.L, labelled, y, v / v.sum(), self.loss, gamma_A, gamma_I, self.intercept
        )

    def reference_values(self, gamma_A, gamma_I, sigma, sample_weight=None):
        objective = self.objective(gamma_A, gamma_I, sample_weight)
        return reference.minimize(objective, features(self.data, sigma))

    def values_error(self, gamma_A, gamma_I, sigma, sample_weight=None):
        expected = self.reference_values(gamma_A, gamma_I, sigma, sample_weight)
        values = self.values(self.fit(gamma_A, gamma_I, sigma, sample_weight))
        return np.abs(values - expected).max() / np.abs(expected).max()

    def gradient_error(self, gamma_A, gamma_I, sigma, sample_weight=None):
        K = kernel(self.data, sigma)[:N_ROWS, :N_ROWS]
        model = self.fit(gamma_A, gamma_I, sigma, sample_weight)
        alpha = np.zeros(N_ROWS)
        alpha[model.support_] = model.dual_coef_[:, 0]
        objective = self.objective(gamma_A, gamma_I, sample_weight)
        gradient = objective.gradient(K, alpha, model.intercept_[0])
        curvature = self.loss.second(np.ones(1), np.ones(1))[0]
        return gradient / objective.gradient(K, np.zeros(N_ROWS)) / max(1.0, curvature / 2.0)


def assert_small(error, tol, grid):
    """``error(gamma_A, gamma_I, sigma)`` is below ``tol`` on the grid; a NaN is not small."""
    too_large = [
        f"{value:.2g} at gamma_A={gamma_A:g}, gamma_I={gamma_I:g}, sigma={sigma:g}"
        for gamma_A, gamma_I, sigma in grid
        if not (value := error(gamma_A, gamma_I, sigma)) < tol
    ]
    assert not too_large, "\n".join(too_large)


@pytest.mark.no_cover
class TestGrid:
    def test_the_grid_covers_the_ranges(self):
        ambient, manifold, widths = (set(values) for values in zip(*INSIDE, strict=True))
        assert ambient == set(AMBIENT)
        assert manifold == set(MANIFOLD)
        assert widths == set(WIDTHS)

    @both_laplacians
    @every_estimator
    @every_data_set
    def test_values(self, data, name, normalized):
        assert_small(Case(data, name, normalized=normalized).values_error, VALUES_TOL, GRID)

    @both_laplacians
    @every_estimator
    @every_data_set
    def test_gradient(self, data, name, normalized):
        assert_small(Case(data, name, normalized=normalized).gradient_error, GRADIENT_TOL, GRID)


OPTIONS = {
    "intercept": {"intercept": True},
    "normalized_intercept": {"intercept": True, "normalized": True},
    "binary": {"binary": True},
    "squared_laplacian": {"power": 2},
    "squared_normalized_laplacian": {"power": 2, "normalized": True},
}


@every_estimator
@pytest.mark.parametrize("data", ["breast_cancer", "mpg"])
class TestOptions:
    grid = CORNERS + INSIDE[::5]

    @pytest.mark.parametrize("option", OPTIONS)
    def test_values(self, data, name, option):
        assert_small(Case(data, name, **OPTIONS[option]).values_error, VALUES_TOL, self.grid)

    @pytest.mark.parametrize("option", OPTIONS)
    def test_gradient(self, data, name, option):
        assert_small(Case(data, name, **OPTIONS[option]).gradient_error, GRADIENT_TOL, self.grid)

    @pytest.mark.parametrize("intercept", [False, True])
    def test_sample_weights(self, data, name, intercept):
        # From 1 to 1000; those of the unlabelled rows are there to be ignored.
        weights = 10.0 ** np.random.default_rng(0).uniform(0, 3, N_ROWS)
        case = Case(data, name, intercept=intercept)
        assert_small(partial(case.values_error, sample_weight=weights), VALUES_TOL, self.grid)


@pytest.mark.parametrize("h", [1e-3, 0.5])
def test_other_widths_of_the_hinge(h):
    case = Case("breast_cancer", "huberized_hinge")
    case.estimator.set_params(hinge_width=h)
    case.loss = reference.HuberizedHinge(h)
    assert_small(case.values_error, VALUES_TOL, GRID)


@both_laplacians
@every_estimator
def test_precomputed_graph_with_isolated_points(name, normalized):
    # Five rows without an edge, three of them labelled.
    case = Case("breast_cancer", name)
    W = affinity("breast_cancer").copy()
    alone = [*case.rows.labelled[:3], *np.setdiff1d(np.arange(N_ROWS), case.rows.labelled)[:2]]
    W[alone], W[:, alone] = 0.0, 0.0
    case.L = reference.laplacian(W, normalized=normalized)
    case.estimator.set_params(
        graph=sp.csr_array(W), laplacian="normalized" if normalized else "unnormalized"
    )
    assert_small(case.values_error, VALUES_TOL, GRID)


@every_estimator
def test_transduction_is_the_prediction_of_the_training_rows(name):
    case = Case("diabetes", name)
    model = case.fit(1e-3, 1.0, 8.0)
    expected = case.reference_values(1e-3, 1.0, 8.0)[:N_ROWS]
    if case.is_classifier:
        np.testing.assert_array_equal(model.transduction_, expected > 0)
    else:
        np.testing.assert_allclose(model.transduction_, expected, rtol=1e-8)


class TestReference:
    """The reference is worth what it was checked against."""

    @pytest.mark.parametrize("intercept", [False, True])
    @every_estimator
    def test_no_direction_leads_down(self, name, intercept):
        # J alone, by central differences; J is strictly convex, so this is the optimum.
        case = Case("diabetes", name, intercept=intercept)
        objective = case.objective(1e-2, 10.0)
        K = kernel("diabetes", 1.0)[:N_ROWS, :N_ROWS]
        f, b = reference.minimize_with_intercept(objective, reference.features(K))
        alpha = np.linalg.solve(K, f - b)

        def slope(alpha, b, step):
            ahead, behind = (
                objective.value(K, alpha + t * step[:-1], b + t * step[-1]) for t in (1e-6, -1e-6)
            )
            return (ahead - behind) / 2e-6

        directions = np.random.default_rng(0).normal(size=(30, N_ROWS + 1))
        directions[:, -1] *= intercept
        for step in directions:
            at_zero = slope(np.zeros(N_ROWS), 0.0, step)
            assert abs(slope(alpha, b, step)) < 1e-5 * max(abs(at_zero), 1.0)

    @both_laplacians
    @pytest.mark.parametrize("gamma_I", [0.0, 1e2])
    @pytest.mark.parametrize("sigma", [1.0, 2.0**10])
    def test_square_loss_against_extended_precision(self, sigma, gamma_I, normalized):
        # (gamma_A I + (V + gamma_I / N^2 L) K) alpha = V y, where double precision is worst.
        case = Case("diabetes", "square", normalized=normalized)
        objective = case.objective(1e-6, gamma_I)
        K = kernel("diabetes", sigma)[:N_ROWS, :N_ROWS].astype(np.longdouble)
        S = objective.scale * objective.L.astype(np.longdouble)
        S[objective.labelled, objective.labelled] += objective.v
        right = np.zeros(N_ROWS, dtype=np.longdouble)
        right[objective.labelled] = objective.v * objective.y
        exact = K @ solve_extended(S @ K + objective.gamma_A * np.eye(N_ROWS), right)
        values = case.reference_values(1e-6, gamma_I, sigma)[:N_ROWS]
        assert np.abs(values - exact).max() < 1e-7 * np.abs(exact).max()


def solve_extended(A, b):
    """Gauss-Jordan elimination with row pivoting, in whatever precision A has."""
    system = np.column_stack([A, b])
    for k in range(len(A)):
        pivot = k + np.argmax(np.abs(system[k:, k]))
        system[[k, pivot]] = system[[pivot, k]]
        system[k] /= system[k, k]
        others = np.arange(len(A)) != k
        system[others] -= np.outer(system[others, k], system[k])
    return system[:, -1]

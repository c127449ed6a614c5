"""Numbers on hostile data and on all data sets of the paper: finite, quiet, and optimal.

Warnings are errors in this suite, so that every test here also says that there is none. Newton's
method may only stop short with a ``ConvergenceWarning`` that gives the gradient.
"""

import re
import warnings
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

import reference
from gradients import largest_gradient, plane_gradients, targets_for
from onefit import (
    LapRLSClassifier,
    LapRLSRegressor,
    ManifoldSearchCV,
    cross_val_decisions,
)
from onefit.datasets import libsvm_datasets
from onefit.search.candidates import group_candidates, paper_grid
from paired import ESTIMATORS

pytestmark = pytest.mark.no_cover

#: Of the gradient at the fit, see largest_gradient, for losses as curved as the square loss.
GRADIENT_TOL = 1e-6

PAPER = paper_grid()
#: All 32 corners of the paper's grid.
CORNERS = [
    dict(zip(PAPER, corner, strict=True))
    for corner in product(*((values[0], values[-1]) for values in PAPER.values()))
]
WHOLE_GRID = list(ParameterGrid(PAPER))
WIDTHS = (PAPER["kernel_width"][0], PAPER["kernel_width"][-1])
N = 60


def clusters(n_columns=3, distance=4.0, n_rows=N):
    """Rows in two clusters, and which of the two."""
    rng = np.random.default_rng(0)
    side = np.arange(n_rows) % 2
    return rng.normal(size=(n_rows, n_columns)) + distance * side[:, None], side


def some_labels(y, n_labelled=12):
    return np.where(np.arange(len(y)) < n_labelled, y, -1)


def duplicates():
    X, y = clusters()
    rows = np.arange(N) // 6
    return X[rows], some_labels(y)  # six of each, with labels that contradict each other


def constant_columns():
    X, y = clusters()
    return np.column_stack([X, np.full(N, 7.0), np.zeros(N), np.full(N, -1e9)]), some_labels(y)


def one_direction():
    X, y = clusters(1)
    return X * np.array([[1.0, -2.0, 1e-3]]), some_labels(y)


def scaled(factor):
    X, y = clusters()
    return factor * X, some_labels(y)


def one_label_of_each_class():
    X, _ = clusters()
    return X, some_labels(np.arange(N) % 3, 3)


def labels_in_one_cluster():
    X, side = clusters(distance=100.0)
    inside = np.flatnonzero(side == 0)
    y = np.full(N, -1)
    y[inside[:10]] = np.arange(10) % 2
    return X, y


def disconnected_graph():
    X, side = clusters(distance=1e4)
    return X, some_labels(side)


def many_columns():
    X, y = clusters(10_000, distance=0.1, n_rows=50)
    return X, some_labels(y)


HOSTILE = {
    "duplicates": duplicates,
    "constant columns": constant_columns,
    "rank 1": one_direction,
    "scale 1e-12": lambda: scaled(1e-12),
    "scale 1e12": lambda: scaled(1e12),
    "two labels": lambda: (clusters()[0], some_labels(clusters()[1], 2)),
    "one label of each class": one_label_of_each_class,
    "labels in one cluster": labels_in_one_cluster,
    "disconnected graph": disconnected_graph,
    "10,000 columns": many_columns,
}

LOSSES = ["square", "huberized_hinge", "squared_hinge", "logistic"]

every_hostile = pytest.mark.parametrize("data", HOSTILE)
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
every_set = pytest.mark.parametrize("data", sorted(libsvm_datasets()))


def real_sample(data, n_rows=120, n_labelled=30):
    """Rows of a data set of the paper, drawn at random, with classes by the mean of the target."""
    X, target = reference.real_data(data, n_rows)
    labelled = reference.choose_labels(target, n_labelled)
    y = np.full(n_rows, -1)
    y[labelled] = target[labelled] > target.mean()
    return X, y


def quiet_fit(model, X, y):
    """Fit; Newton's method may say that it stopped short, if it gives the gradient."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    for warning in caught:
        assert warning.category is ConvergenceWarning, warning
        assert re.search(r"gradient norm [0-9.e+-]+; raise max_iter", str(warning.message))
    return not caught


def check_corners(name, corners, X, y):
    """Fits at corners of the grid: finite decisions, and a vanishing gradient or a warning."""
    estimator, loss = ESTIMATORS[name]
    kernels = {width: reference.gaussian_kernel(X, X, width) for width in WIDTHS}
    for params in corners:
        model = clone(estimator).set_params(**params)
        converged = quiet_fit(model, X, targets_for(model, y))
        assert np.isfinite(model._decisions(X)).all(), params
        if converged:
            gradient = largest_gradient(model, loss, kernels[params["kernel_width"]], y)
            assert gradient < GRADIENT_TOL, (params, gradient)


@cache
def whole_grid():
    """All candidates of the paper with the square loss, by kernel and graph."""
    return group_candidates(ESTIMATORS["square"][0], WHOLE_GRID)


def some_of_the_grid(name, n, seed):
    """Candidates of the whole grid, some with an intercept, drawn at random."""
    chosen = np.random.default_rng(seed).permutation(2 * len(WHOLE_GRID))[:n]
    params = [{**WHOLE_GRID[i // 2], "fit_intercept": bool(i % 2)} for i in chosen]
    return group_candidates(ESTIMATORS[name][0], params)


def check_gradients(name, groups, X, y):
    """Fits by the bases of the search: Newton's method has converged, the gradient vanishes."""
    gradients = plane_gradients(ESTIMATORS[name][1], X, y, groups)
    worst = np.argmax(gradients)  # the first NaN, if there is one
    assert gradients[worst] < GRADIENT_TOL, (worst, gradients[worst])


def check_search(estimator, X, y, cv):
    """The whole grid of the paper by the search: 13,365 finite scores, and a finite refit."""
    search = ManifoldSearchCV(estimator, "paper", cv=cv).fit(X, targets_for(estimator, y))
    assert len(search.cv_results_["params"]) == 13_365
    for column in ("mean_test_score", "std_test_score", "mean_test_loss", "error_bound"):
        assert np.isfinite(search.cv_results_[column].astype(float)).all(), column
    assert np.isfinite(search.best_estimator_._decisions(X)).all()


class TestHostileData:
    @every_hostile
    def test_whole_grid(self, data):
        X, y = HOSTILE[data]()
        check_search(LapRLSRegressor(), X, y, cv=2)

    @every_hostile
    def test_gradients_over_the_whole_grid(self, data):
        check_gradients("square", whole_grid(), *HOSTILE[data]())

    @pytest.mark.parametrize("name", LOSSES)
    @every_hostile
    def test_gradients(self, data, name):
        check_gradients(name, some_of_the_grid(name, 100, 0), *HOSTILE[data]())

    @every_estimator
    @every_hostile
    def test_corners(self, data, name):
        check_corners(name, CORNERS, *HOSTILE[data]())

    @pytest.mark.parametrize("fit_intercept", [False, True])
    @pytest.mark.parametrize("holdout", ["labels", "points"])
    @pytest.mark.parametrize("criterion", ["exact", "newton", "bif"])
    @every_hostile
    def test_held_out_decisions(self, data, criterion, holdout, fit_intercept):
        X, y = HOSTILE[data]()
        for name, params in product(["regressor", "huberized_hinge"], CORNERS[::7]):
            model = clone(ESTIMATORS[name][0]).set_params(**params, fit_intercept=fit_intercept)
            if name != "regressor" and np.unique(y, return_counts=True)[1].min() == 1:
                continue  # without its only label a class is gone
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                held = cross_val_decisions(
                    model, X, targets_for(model, y), cv=2, criterion=criterion, holdout=holdout
                )
            assert np.isfinite(held.predictions[y != -1]).all(), (name, params)


class TestDataOfThePaper:
    def test_there_are_18(self):
        assert len(libsvm_datasets()) == 18

    @every_set
    def test_whole_grid(self, data):
        X, y = real_sample(data)
        check_search(LapRLSClassifier(), X, y, cv=3)

    @every_set
    def test_gradients_over_the_whole_grid(self, data):
        check_gradients("square", whole_grid(), *real_sample(data))

    @pytest.mark.parametrize("name", LOSSES)
    @every_set
    def test_gradients(self, data, name):
        some = some_of_the_grid(name, 100, sorted(libsvm_datasets()).index(data))
        check_gradients(name, some, *real_sample(data))

    @pytest.mark.parametrize("name", LOSSES[1:])
    @every_set
    def test_corners(self, data, name):
        check_corners(name, CORNERS[::3], *real_sample(data))


def solve_fractions(A, b):
    """Gauss-Jordan elimination without any rounding."""
    rows = [[Fraction(a) for a in (*row, right)] for row, right in zip(A, b, strict=True)]
    for i in range(len(rows)):
        pivot = next(j for j in range(i, len(rows)) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [a / rows[i][i] for a in rows[i]]
        for j, row in enumerate(rows):
            if j != i and row[i]:
                rows[j] = [a - row[i] * c for a, c in zip(row, rows[i], strict=True)]
    return [row[-1] for row in rows]


def exact_values(K, L, y, gamma_A, scale):
    """f = K alpha, (gamma_A I + (V + scale L) K) alpha = V y, in fractions."""
    n, labelled = len(K), ~np.isnan(y)
    v = [Fraction(int(one), int(labelled.sum())) for one in labelled]
    S = [[Fraction(float(L[i, j])) * Fraction(scale) for j in range(n)] for i in range(n)]
    for i in range(n):
        S[i][i] += v[i]
    F = [[Fraction(float(k)) for k in row] for row in K]
    A = [[sum(S[i][m] * F[m][j] for m in range(n)) for j in range(n)] for i in range(n)]
    for i in range(n):
        A[i][i] += Fraction(gamma_A)
    b = [v[i] * Fraction(float(y[i])) if labelled[i] else Fraction(0) for i in range(n)]
    alpha = solve_fractions(A, b)
    return np.array([float(sum(F[i][m] * alpha[m] for m in range(n))) for i in range(n)])


BEYOND = [(10, 1e-3, 10.0**i) for i in range(2, 22, 2)]
BEYOND += [(16, 10.0**i, 10.0) for i in (-6, -9, -11, -12, -13, -14, -15, -30, -100)]


@pytest.mark.parametrize("n, gamma_A, gamma_I", BEYOND)
def test_beyond_the_grid_digits_are_right_or_missed_aloud(n, gamma_A, gamma_I):
    rng = np.random.default_rng(0)
    width, X = (1.0, rng.normal(size=(n, 2))) if n == 10 else (4.0, rng.normal(size=(n, 3)))
    y = np.where(np.arange(n) % 2 == 0, np.sin(X[:, 0]) + 0.5, np.nan)
    W = reference.knn_affinity(X, 4, 1.0)
    K, L = reference.gaussian_kernel(X, X, width), np.diag(W.sum(axis=1)) - W
    expected = exact_values(K, L, y, gamma_A, gamma_I / n**2)
    model = LapRLSRegressor(
        kernel_width=width,
        graph_width=1.0,
        n_neighbors=4,
        ambient_penalty=gamma_A,
        manifold_penalty=gamma_I,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            values = model.fit(X, y).predict(X)
        except ValueError:  # it says that the systems are singular
            assert gamma_I / gamma_A > 1e11
            return
    is_right = np.abs(values - expected).max() < 1e-2 * np.abs(expected).max()
    said = [one for one in caught if issubclass(one.category, ConvergenceWarning)]
    assert is_right or said
    assert not (gamma_I / gamma_A <= 1e11 and said)

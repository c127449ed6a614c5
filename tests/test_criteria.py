"""Criteria against brute force: refitting, dense minimisation, finite differences, limits."""

import inspect
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone, is_regressor
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from fold_reference import (
    LOGISTIC,
    SQUARE,
    SQUARED_HINGE,
    Data,
    Solution,
    deal,
    gaussian_kernel,
    huberized_hinge,
    influence,
    inside,
    laplacian,
    minimize,
    newton_step,
    optimal_intercepts,
    shares,
)
from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    cross_val_decisions,
)
from onefit.criteria import CRITERIA
from onefit.datasets import load_libsvm_data

N = 36
N_LABELS = 12
WIDTH = 2.0

#: One estimator for each loss, with the reference's own version of that loss.
MODELS = {
    "regressor": (LapRLSRegressor(), SQUARE),
    "square": (LapRLSClassifier(), SQUARE),
    "hinge": (LapSVC(), huberized_hinge(0.01)),
    "wide hinge": (LapSVC(hinge_width=0.5), huberized_hinge(0.5)),
    "squared hinge": (LapSVC(loss="squared_hinge"), SQUARED_HINGE),
    "logistic": (LapLogisticRegression(), LOGISTIC),
}
CLASSIFIERS = [name for name in MODELS if name != "regressor"]
SQUARES = ["regressor", "square"]
CURVED = ["wide hinge", "squared hinge", "logistic"]

every_model = pytest.mark.parametrize("name", MODELS)
both_holdouts = pytest.mark.parametrize("holdout", ["labels", "points"])
with_and_without_intercept = pytest.mark.parametrize(
    "intercept", [False, True], ids=["no intercept", "intercept"]
)


def make_model(name, **params):
    """An estimator in a regime where labels, kernel and graph all matter."""
    common = {
        "kernel_width": WIDTH,
        "ambient_penalty": 1e-2,
        "manifold_penalty": 30.0,
        "n_neighbors": 5,
        "tol": 1e-10,
    }
    return clone(MODELS[name][0]).set_params(**common | params)


def make_data(model, seed=1, n_classes=2, n=N, n_labels=N_LABELS):
    """X, y with twice as many labels of class 0 as of others; class numbers, -1 where hidden."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    classes = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    codes = np.full(n, -1)
    for c in range(n_classes):
        count = n_labels // (n_classes + 1) * (2 if c == 0 else 1)
        codes[np.flatnonzero(classes == c)[:count]] = c
    y = np.where(codes >= 0, score, np.nan) if is_regressor(model) else codes
    return X, y, codes


def make_weights(seed=0, n=N):
    return np.random.RandomState(seed).uniform(0.2, 3.0, size=n)


def decide(model, X):
    return model.predict(X) if is_regressor(model) else model.decision_function(X)


def refit(model, X, y, train, test, holdout, sample_weight=None):
    """Held-out rows of one fold, and their decisions by ``fit`` on what the fold leaves."""
    hidden = np.nan if is_regressor(model) else -1
    if holdout == "labels":
        partial = y.copy()
        partial[test] = hidden
        known = ~np.isnan(y) if is_regressor(model) else y != -1
        rows = test[known[test].reshape(len(test), -1).all(axis=1)]
        return rows, decide(clone(model).fit(X, partial, sample_weight), X[rows])
    full = clone(model).fit(X, y, sample_weight)
    rest = clone(model).set_params(graph=full.graph_[train][:, train])
    if model.kernel == "gaussian":
        rest.set_params(kernel_width=full.kernel_width_)
    weights = None if sample_weight is None else sample_weight[train]
    return test, decide(rest.fit(X[train], y[train], weights), X[test])


def assert_equals_refitting(model, X, y, pairs, holdout, *, rtol, sample_weight=None, **options):
    """Compare with :func:`refit`, relative to the largest decision of the fold."""
    result = cross_val_decisions(
        model, X, y, cv=pairs, holdout=holdout, sample_weight=sample_weight, **options
    )
    for (train, test), rows, found in zip(
        pairs, result.fold_rows, result.fold_predictions, strict=True
    ):
        expected_rows, expected = refit(model, X, y, train, test, holdout, sample_weight)
        assert rows.tolist() == expected_rows.tolist()
        assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def dense(name, model, X, y, sample_weight=None):
    """The same problem in dense matrices, with the graph of a fit."""
    regression = is_regressor(model)
    known = ~np.isnan(y) if regression else y != -1
    targets = np.where(known, y, 0.0) if regression else np.where(y == 1, 1.0, -1.0)
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    return Data(
        K=gaussian_kernel(X, model.kernel_width),
        W=clone(model).fit(X, y).graph_.toarray(),
        y=targets,
        weights=np.where(known, weights, 0.0),
        ambient=model.ambient_penalty,
        manifold=model.manifold_penalty,
        loss=MODELS[name][1],
        intercept=model.fit_intercept,
        normalized=model.laplacian == "normalized",
    )


SETTINGS = {
    "plain": {},
    "no graph": {"manifold_penalty": 0.0},
    "graph alone": {"manifold_penalty": 1e4},
    "normalized Laplacian": {"laplacian": "normalized"},
    "squared Laplacian": {"laplacian_power": 2},
    "binary weights": {"graph_weights": "binary"},
    "widths by medians": {"kernel_width": "median"},
    "little ambient penalty": {"ambient_penalty": 1e-5},
    "cubic kernel": {"kernel": "polynomial", "kernel_params": {"degree": 3, "gamma": 0.1}},
}


class TestExact:
    """The optimum of every fold, to 1e-8 of the largest decision."""

    @every_model
    @both_holdouts
    @with_and_without_intercept
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_equals_refitting(self, name, holdout, intercept, setting):
        model = make_model(name, fit_intercept=intercept, **SETTINGS[setting])
        X, y, codes = make_data(model)
        assert_equals_refitting(model, X, y, deal(codes, 3), holdout, rtol=1e-8)

    @every_model
    @both_holdouts
    @with_and_without_intercept
    def test_equals_the_dense_minimum(self, name, holdout, intercept):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        data = dense(name, model, X, y)
        pairs = deal(codes, 3)
        result = cross_val_decisions(model, X, y, cv=pairs, holdout=holdout)
        for (train, _), rows, found in zip(
            pairs, result.fold_rows, result.fold_predictions, strict=True
        ):
            expected = minimize(data.without(train, holdout)).values[rows]
            assert_allclose(found, expected, rtol=0, atol=1e-8)

    @every_model
    @both_holdouts
    @with_and_without_intercept
    def test_sample_weights(self, name, holdout, intercept):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        pairs, weights = deal(codes, 3), make_weights()
        assert_equals_refitting(model, X, y, pairs, holdout, rtol=1e-8, sample_weight=weights)
        plain = cross_val_decisions(model, X, y, cv=pairs, holdout=holdout)
        weighted = cross_val_decisions(
            model, X, y, cv=pairs, holdout=holdout, sample_weight=weights
        )
        known = codes >= 0
        assert np.abs(plain.predictions - weighted.predictions)[known].max() > 1e-3

    @pytest.mark.parametrize("name", CLASSIFIERS)
    @both_holdouts
    @with_and_without_intercept
    @pytest.mark.parametrize("class_weight", ["balanced", {0: 5.0}])
    def test_class_weights(self, name, holdout, intercept, class_weight):
        # Folds that hold out one class only: "balanced" weights change from fold to fold.
        model = make_model(name, fit_intercept=intercept, class_weight=class_weight)
        X, y, codes = make_data(model)
        zeros, ones = np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)
        tests = [zeros[:3], ones[:2], np.sort([*zeros[3:], ones[2]])]
        pairs = [(np.setdiff1d(np.arange(N), test), test) for test in tests]
        assert_equals_refitting(model, X, y, pairs, holdout, rtol=1e-8)
        assert_equals_refitting(
            model, X, y, pairs, holdout, rtol=1e-8, sample_weight=make_weights()
        )

    @pytest.mark.parametrize("name", CLASSIFIERS)
    @both_holdouts
    @with_and_without_intercept
    def test_several_classes(self, name, holdout, intercept):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model, n_classes=3, n=45, n_labels=15)
        assert_equals_refitting(model, X, y, deal(codes, 3), holdout, rtol=1e-8)

    @both_holdouts
    @with_and_without_intercept
    def test_several_outputs(self, holdout, intercept):
        model = make_model("regressor", fit_intercept=intercept)
        X, y, codes = make_data(model)
        Y = np.column_stack([y, np.where(codes >= 0, X[:, 1], np.nan)])
        assert_equals_refitting(model, X, Y, deal(codes, 3), holdout, rtol=1e-8)

    @every_model
    @both_holdouts
    def test_folds_of_different_sizes(self, name, holdout):
        model = make_model(name)
        X, y, codes = make_data(model)
        labels, others = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        tests = [labels[:1], labels[1:4], np.sort([*labels[4:9], *others[:3]])]
        pairs = [(np.setdiff1d(np.arange(N), test), test) for test in tests]
        assert_equals_refitting(model, X, y, pairs, holdout, rtol=1e-8)

    @every_model
    def test_leave_one_out(self, name):
        model = make_model(name)
        X, y, codes = make_data(model)
        assert_equals_refitting(model, X, y, deal(codes, N_LABELS), "labels", rtol=1e-8)

    @every_model
    @pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
    def test_nystrom_basis_with_labels_held_out(self, name, landmarks):
        # The landmarks depend on the rows and the seed alone: a refit finds the same.
        model = make_model(name, n_components=12, landmarks=landmarks, random_state=3)
        X, y, codes = make_data(model)
        assert_equals_refitting(model, X, y, deal(codes, 3), "labels", rtol=1e-8)

    @every_model
    def test_nystrom_basis_with_points_held_out(self, name):
        # The space does not change with the fold: it is that of the kernel C P^-1 C'.
        model = make_model(name, n_components=12, random_state=3)
        X, y, codes = make_data(model)
        chosen = np.sort(check_random_state(3).permutation(N)[:12])
        K = gaussian_kernel(X, WIDTH)
        K = K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
        pairs = deal(codes, 3)
        result = cross_val_decisions(model, X, y, cv=pairs, holdout="points")
        graph = clone(model).fit(X, y).graph_
        for (train, test), found in zip(pairs, result.fold_predictions, strict=True):
            rest = make_model(name, kernel="precomputed", graph=graph[train][:, train])
            rest.fit(K[np.ix_(train, train)], y[train])
            expected = decide(rest, K[np.ix_(test, train)])
            assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())

    @every_model
    def test_what_is_held_out_matters(self, name):
        # Guards the tests above: in this regime the two hold-outs are far apart.
        model = make_model(name)
        X, y, codes = make_data(model)
        pairs = deal(codes, 3)
        labels = cross_val_decisions(model, X, y, cv=pairs, holdout="labels").predictions
        points = cross_val_decisions(model, X, y, cv=pairs, holdout="points").predictions
        assert np.abs(labels - points)[codes >= 0].max() > 1e-3

    @pytest.mark.parametrize("name", CLASSIFIERS)
    @both_holdouts
    def test_a_class_that_the_fold_does_not_train_on(self, name, holdout):
        # One problem against the rest has negative labels only, and a minimum all the same.
        model = make_model(name)
        X, y, codes = make_data(model, n_classes=3)
        test = np.flatnonzero(codes == 2)
        train = np.setdiff1d(np.arange(N), test)
        result = cross_val_decisions(model, X, y, cv=[(train, test)], holdout=holdout)
        for c in range(3):
            against_rest = np.where(y == -1, -1, y == c)
            data = dense(name, model, X, against_rest)
            expected = minimize(data.without(train, holdout)).values[test]
            assert_allclose(result.predictions[test, c], expected, rtol=0, atol=1e-8)

    @both_holdouts
    def test_intercept_without_curvature(self, holdout):
        # With a large penalty all margins are short of the hinge's band. The full problem has
        # four labels of each class and an intercept near 0; the fold has two of one, and -1.
        model = make_model("hinge", ambient_penalty=10.0, fit_intercept=True)
        X, y, codes = make_data(model)
        y[np.flatnonzero(codes == 0)[4:]] = -1
        test = np.flatnonzero(codes == 1)[:2]
        train = np.setdiff1d(np.arange(N), test)
        result = cross_val_decisions(model, X, y, cv=[(train, test)], holdout=holdout)
        expected = minimize(dense("hinge", model, X, y).without(train, holdout)).values[test]
        assert expected.max() < -0.9
        assert_allclose(result.predictions[test], expected, rtol=0, atol=1e-8)

    def test_intercept_that_first_has_to_turn_round(self):
        # Few labels, no graph: on the way the hinge has no curvature, and the intercept that is
        # best after a step lies on the other side of the one that is best before it.
        model = make_model(
            "hinge",
            kernel_width=1.0,
            ambient_penalty=0.1,
            manifold_penalty=0.0,
            fit_intercept=True,
        )
        X = np.random.RandomState(0).normal(size=(24, 3))
        y = np.full(24, -1)
        y[[0, 1]], y[[3, 4, 10, 11]] = 1, 0
        objective = dense("hinge", model, X, y).full()
        optimum = minimize(objective)
        low, high = optimal_intercepts(objective, optimum.kernel_values)
        f = clone(model).fit(X, y).decision_function(X)
        assert_allclose(np.ptp(f - optimum.kernel_values), 0.0, atol=1e-8)
        assert low - 1e-8 <= (f - optimum.kernel_values).mean() <= high + 1e-8

    @both_holdouts
    @pytest.mark.parametrize("ambient", [0.01, 0.1, 1.0])
    @pytest.mark.parametrize("seed", [6, 7, 15, 17, 19])
    def test_intercept_that_hardly_matters(self, holdout, ambient, seed):
        # Classes that a smooth function cannot tell apart: few or no margins in the hinge's band,
        # and a slope of the intercept that is zero but for rounding. The kernel part of f is
        # unique all the same, and the intercept one of the optimal.
        model = make_model("hinge", ambient_penalty=ambient, fit_intercept=True)
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(40, 2))
        truth = X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=40) > 0
        y = np.where(np.arange(40) < 15, truth, -1).astype(int)
        data = dense("hinge", model, X, y)
        pairs = deal(y, 3, seed)
        result = cross_val_decisions(model, X, y, cv=pairs, holdout=holdout)
        for (train, _), rows, found in zip(
            pairs, result.fold_rows, result.fold_predictions, strict=True
        ):
            objective = data.without(train, holdout)
            optimum = minimize(objective)
            low, high = optimal_intercepts(objective, optimum.kernel_values)
            intercepts = found - optimum.kernel_values[rows]
            assert_allclose(intercepts, intercepts[0], rtol=0, atol=1e-8)
            assert low - 1e-8 <= intercepts[0] <= high + 1e-8
        assert result.n_solves < 1500  # 200 steps of three folds are many more

    @both_holdouts
    def test_an_intercept_that_is_not_unique_knows_nothing_of_the_held_out_label(self, holdout):
        # Three labels of each class are kept, all short of the band: every intercept in between
        # is optimal. A refit chooses one, and cannot know that a fourth label was held out.
        model = make_model("hinge", ambient_penalty=10.0, fit_intercept=True)
        X, y, codes = make_data(model)
        y[np.flatnonzero(codes == 0)[3:]] = -1
        test = np.flatnonzero(codes == 1)[:1]
        train = np.setdiff1d(np.arange(N), test)
        assert_equals_refitting(model, X, y, [(train, test)], holdout, rtol=1e-6)


@pytest.mark.no_cover
@pytest.mark.skipif(
    "ONEFIT_DATA" not in os.environ,
    reason="set ONEFIT_DATA to the directory with the LIBSVM files housing.xz, mg.xz, ...",
)
class TestExactOnRealData:
    """Refitting at the ends of the penalties' ranges, 1e-6 of the largest decision."""

    NAMES = (
        ("housing", "regressor"),
        ("mg", "regressor"),
        *(("fourclass", name) for name in CLASSIFIERS if name != "wide hinge"),
        *(("german.numer", name) for name in CLASSIFIERS if name != "wide hinge"),
    )

    def load(self, file, model):
        """240 standardised rows with 30 labels; classes coded 0 and 1."""
        X, truth = load_libsvm_data(file, return_X_y=True, download_if_missing=False)
        rows = np.random.RandomState(0).permutation(len(truth))[:240]
        X = StandardScaler().fit_transform(X[rows])
        known = np.arange(240) % 8 == 0
        if is_regressor(model):
            y = np.where(known, truth[rows], np.nan)
            return X, y, np.where(known, 0, -1)
        y = np.where(known, truth[rows] > 0, -1).astype(int)
        return X, y, y

    @pytest.mark.parametrize("file, name", NAMES)
    @both_holdouts
    @with_and_without_intercept
    def test_equals_refitting(self, file, name, holdout, intercept):
        for ambient in (1e-6, 1e-2, 1e2):
            for manifold in (0.0, 1e-6, 1e2):
                model = make_model(
                    name,
                    kernel_width=4.0,
                    ambient_penalty=ambient,
                    manifold_penalty=manifold,
                    fit_intercept=intercept,
                    tol=1e-8,
                )
                X, y, codes = self.load(file, model)
                assert_equals_refitting(model, X, y, deal(codes, 3), holdout, rtol=1e-6)


class TestNewton:
    @pytest.mark.parametrize("name", SQUARES)
    @both_holdouts
    @with_and_without_intercept
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_equals_exact_for_the_square_loss(self, name, holdout, intercept, setting):
        model = make_model(name, fit_intercept=intercept, **SETTINGS[setting])
        X, y, codes = make_data(model)
        options = {"cv": deal(codes, 3), "holdout": holdout, "sample_weight": make_weights()}
        exact = cross_val_decisions(model, X, y, **options).predictions
        newton = cross_val_decisions(model, X, y, criterion="newton", **options).predictions
        assert_allclose(newton, exact, rtol=0, atol=1e-8 * np.nanmax(np.abs(exact)))

    @pytest.mark.parametrize("name", CURVED)
    @both_holdouts
    @with_and_without_intercept
    @pytest.mark.parametrize("weighted", [False, True])
    def test_one_step_equals_a_dense_newton_step(self, name, holdout, intercept, weighted):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        weights = make_weights() if weighted else None
        data = dense(name, model, X, y, weights)
        full = minimize(data.full())
        pairs = deal(codes, 3)
        result = cross_val_decisions(
            model, X, y, cv=pairs, criterion="newton", holdout=holdout, sample_weight=weights
        )
        for (train, _), rows, found in zip(
            pairs, result.fold_rows, result.fold_predictions, strict=True
        ):
            objective = data.without(train, holdout)
            assert_allclose(found, newton_step(objective, full).values[rows], rtol=0, atol=1e-8)
            assert np.abs(found - full.values[rows]).max() > 1e-3  # it is a step

    @every_model
    @both_holdouts
    @with_and_without_intercept
    def test_many_steps_equal_exact(self, name, holdout, intercept):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        options = {"cv": deal(codes, 3), "holdout": holdout}
        exact = cross_val_decisions(model, X, y, **options).predictions
        newton = cross_val_decisions(
            model, X, y, criterion="newton", criterion_params={"n_steps": 25}, **options
        ).predictions
        assert_allclose(newton, exact, rtol=0, atol=1e-8)

    @both_holdouts
    def test_several_classes_are_stepped_one_by_one(self, holdout):
        model = make_model("logistic")
        X, y, codes = make_data(model, n_classes=3)
        train, test = deal(codes, 3)[0]
        found = cross_val_decisions(
            model, X, y, cv=[(train, test)], criterion="newton", holdout=holdout
        )
        for c in range(3):
            data = dense("logistic", model, X, np.where(y == -1, -1, y == c))
            step = newton_step(data.without(train, holdout), minimize(data.full()))
            (rows,) = found.fold_rows
            assert_allclose(found.predictions[rows, c], step.values[rows], rtol=0, atol=1e-8)


#: variant of ``criterion="bif"`` and the path along which it is the derivative.
PATHS = {"corrected": "linear", "product": "product"}


def derivative(result, full, t):
    """B of every fold from f + B / (1 - t)."""
    return [
        (1 - t) * (found - full.values[rows])
        for rows, found in zip(result.fold_rows, result.fold_predictions, strict=True)
    ]


class TestInfluence:
    """``bif`` is f plus a derivative over 1 - t; differences of own minima give the derivative.

    The differences are of fourth order with a step of 2e-4 and have some nine digits; 1e-6 of the
    largest entry is asked for.
    """

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
    @pytest.mark.parametrize("variant", PATHS)
    def test_points_held_out(self, name, intercept, weighted, variant):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        weights = make_weights() if weighted else None
        data = dense(name, model, X, y, weights)
        pairs = deal(codes, 3)
        result = cross_val_decisions(
            model,
            X,
            y,
            cv=pairs,
            criterion="bif",
            holdout="points",
            sample_weight=weights,
            criterion_params={"variant": variant},
        )
        for (_, test), found in zip(
            pairs, derivative(result, minimize(data.full()), 3), strict=True
        ):
            expected = influence(data, test, PATHS[variant])[test]
            assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
    def test_labels_held_out(self, name, intercept, weighted):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        weights = make_weights() if weighted else None
        data = dense(name, model, X, y, weights)
        pairs = deal(codes, 4)
        result = cross_val_decisions(
            model, X, y, cv=pairs, criterion="bif", holdout="labels", sample_weight=weights
        )
        for (_, test), rows, found in zip(
            pairs, result.fold_rows, derivative(result, minimize(data.full()), 4), strict=True
        ):
            expected = influence(data, test, "labels")[rows]
            assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    def test_normalized_laplacian(self):
        model = make_model("logistic", laplacian="normalized")
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        pairs = deal(codes, 3)
        result = cross_val_decisions(model, X, y, cv=pairs, criterion="bif", holdout="points")
        for (_, test), found in zip(
            pairs, derivative(result, minimize(data.full()), 3), strict=True
        ):
            expected = influence(data, test, "linear")[test]
            assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    def test_several_classes(self):
        model = make_model("logistic", fit_intercept=True)
        X, y, codes = make_data(model, n_classes=3)
        pairs = deal(codes, 3)
        result = cross_val_decisions(model, X, y, cv=pairs, criterion="bif", holdout="points")
        for c in range(3):
            data = dense("logistic", model, X, np.where(y == -1, -1, y == c))
            full = minimize(data.full()).values
            for _, test in pairs:
                found = (1 - 3) * (result.predictions[test, c] - full[test])
                expected = influence(data, test, "linear")[test]
                assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    def test_the_paths_differ(self):
        # Guards the tests above: variants and hold-outs are not the same numbers.
        model = make_model("logistic")
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        _, test = deal(codes, 3)[0]
        labels = test[codes[test] >= 0]
        found = [influence(data, test, path)[labels] for path in ("linear", "product", "labels")]
        for one, other in [(0, 1), (0, 2), (1, 2)]:
            assert np.abs(found[one] - found[other]).max() > 1e-2 * np.abs(found[0]).max()

    @pytest.mark.parametrize("name", ["regressor", "logistic", "wide hinge"])
    @pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
    def test_literal_variant_is_theorem_1_as_printed(self, name, weighted):
        # H = J K F / l + 2 gA I + 2 gI / N^2 K L. The factor J is the paper's mistake.
        model = make_model(name)
        X, y, codes = make_data(model)
        weights = make_weights() if weighted else None
        data = dense(name, model, X, y, weights)
        full = data.full()
        f = minimize(full).values
        J = np.diag((codes >= 0).astype(float))
        F = np.diag(full.v * data.loss.curvature(data.y, f))
        L = laplacian(data.W)
        H = J @ data.K @ F + 2 * data.ambient * np.eye(N) + 2 * data.manifold / N**2 * data.K @ L
        pairs = deal(codes, 3)
        result = cross_val_decisions(
            model,
            X,
            y,
            cv=pairs,
            criterion="bif",
            holdout="points",
            sample_weight=weights,
            criterion_params={"variant": "literal"},
        )
        for (_, test), found in zip(pairs, result.fold_predictions, strict=True):
            expected = f + np.linalg.solve(H, right_hand_side(data, f, test)) / (1 - 3)
            assert_allclose(found, expected[test], rtol=0, atol=1e-8)

    @pytest.mark.parametrize(
        "params, options, message",
        [
            ({}, {"variant": "printed"}, "variant='printed'; expected 'corrected'"),
            ({}, {"hessian": "dense"}, "hessian='dense'; expected 'exact' or 'nystrom'"),
            ({"fit_intercept": True}, {"variant": "literal"}, "no intercept"),
            ({}, {"variant": "literal", "hessian": "nystrom"}, "hessian='exact'"),
            ({"laplacian": "normalized"}, {"variant": "product"}, "unnormalised Laplacian"),
            ({"laplacian_power": 2}, {"variant": "product"}, "laplacian_power=1"),
        ],
    )
    def test_options_that_do_not_go_together(self, params, options, message):
        model = make_model("square", **params)
        X, y, _ = make_data(model)
        with pytest.raises(ValueError, match=message):
            cross_val_decisions(
                model, X, y, cv=3, criterion="bif", holdout="points", criterion_params=options
            )

    @pytest.mark.parametrize("options", [{"variant": "product"}, {"hessian": "nystrom"}])
    def test_options_of_the_graph_with_labels_held_out(self, options):
        model = make_model("square")
        X, y, _ = make_data(model)
        with pytest.raises(ValueError, match="use holdout='points'"):
            cross_val_decisions(model, X, y, cv=3, criterion="bif", criterion_params=options)


def right_hand_side(data, f, fold, kernel_part=None):
    """Right-hand side of Theorem 1 in values; ``kernel_part`` is f without an intercept."""
    g = f if kernel_part is None else kernel_part
    slopes = shares(data.weights, fold) * data.loss.slope(data.y, f)
    smooth = laplacian(inside(data.W, fold)) @ g / len(fold) ** 2
    return -data.K @ slopes - 2 * data.ambient * g - 2 * data.manifold * data.K @ smooth


def nystrom_solution(data, full, fold, landmarks):
    """B with C P^+ C' for K in the manifold term, by a dense solve, bordered for an intercept."""
    f, v = full.values, data.full().v
    C, P = data.K[:, landmarks], data.K[np.ix_(landmarks, landmarks)]
    approximate = C @ np.linalg.pinv(P, rcond=1e-12, hermitian=True) @ C.T
    F = v * data.loss.curvature(data.y, f)
    L = laplacian(data.W)
    H = data.K * F + 2 * data.ambient * np.eye(data.n)
    H += 2 * data.manifold / data.n**2 * approximate @ L
    right = right_hand_side(data, f, fold, full.kernel_values)
    if not data.intercept:
        return np.linalg.solve(H, right)
    slopes = shares(data.weights, fold) * data.loss.slope(data.y, f)
    bordered = np.block([[H, (data.K @ F)[:, None]], [F[None, :], F.sum()]])
    solution = np.linalg.solve(bordered, np.append(right, -slopes.sum()))
    return solution[:-1] + solution[-1]


class TestNystromHessian:
    def found(self, model, X, y, pairs, weights=None, **options):
        return cross_val_decisions(
            model,
            X,
            y,
            cv=pairs,
            criterion="bif",
            holdout="points",
            sample_weight=weights,
            criterion_params={"hessian": "nystrom", **options},
        )

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("c, seed", [(6, 0), (6, 1), (20, 0)])
    def test_equals_a_dense_solve(self, name, intercept, c, seed):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        data = dense(name, model, X, y, make_weights())
        full = minimize(data.full())
        landmarks = np.sort(check_random_state(seed).permutation(N)[:c])
        pairs = deal(codes, 3)
        result = self.found(
            model, X, y, pairs, make_weights(), hessian_components=c, random_state=seed
        )
        for (_, test), found in zip(pairs, result.fold_predictions, strict=True):
            B = nystrom_solution(data, full, test, landmarks)
            expected = full.values[test] + B[test] / (1 - 3)
            assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())

    def test_landmarks_that_repeat(self):
        # Half of the rows occur twice: P is singular, C P^+ C' is not concerned.
        model = make_model("square", n_neighbors=7)
        X, y, codes = make_data(model)
        X[18:] = X[:18]
        data = dense("square", model, X, y)
        full = minimize(data.full())
        landmarks = np.sort(check_random_state(0).permutation(N)[:30])
        pairs = deal(codes, 3)
        result = self.found(model, X, y, pairs, hessian_components=30)
        for (_, test), found in zip(pairs, result.fold_predictions, strict=True):
            B = nystrom_solution(data, full, test, landmarks)
            assert_allclose(found, full.values[test] - B[test] / 2, rtol=0, atol=1e-8)

    def test_the_default_is_the_root_of_the_rows(self):
        model = make_model("square")
        X, y, codes = make_data(model)
        pairs = deal(codes, 3)
        default, root = (
            self.found(model, X, y, pairs),
            self.found(model, X, y, pairs, hessian_components=6),
        )
        assert_allclose(default.predictions, root.predictions, rtol=1e-12)

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("variant", PATHS)
    def test_all_columns_equal_the_exact_hessian(self, name, intercept, variant):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        pairs = deal(codes, 3)
        approximate = self.found(model, X, y, pairs, hessian_components=N, variant=variant)
        exact = cross_val_decisions(
            model,
            X,
            y,
            cv=pairs,
            criterion="bif",
            holdout="points",
            criterion_params={"variant": variant},
        )
        scale = np.abs(exact.predictions).max()
        assert_allclose(approximate.predictions, exact.predictions, rtol=0, atol=1e-8 * scale)

    def test_error_falls_with_the_columns(self):
        model = make_model("square")
        X, y, codes = make_data(model)
        pairs = deal(codes, 3)
        exact = cross_val_decisions(
            model, X, y, cv=pairs, criterion="bif", holdout="points"
        ).predictions

        def typical_error(c):
            errors = [
                np.abs(
                    self.found(
                        model, X, y, pairs, hessian_components=c, random_state=seed
                    ).predictions
                    - exact
                ).max()
                for seed in range(9)
            ]
            return np.median(errors)

        errors = [typical_error(c) for c in (4, 12, 24, N)]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > 1e-2
        assert errors[-1] < 1e-8

    @pytest.mark.parametrize("c", [1, N])
    def test_least_and_largest_number_of_columns(self, c):
        model = make_model("square")
        X, y, codes = make_data(model)
        found = self.found(model, X, y, deal(codes, 3), hessian_components=c)
        assert np.isfinite(np.concatenate(found.fold_predictions)).all()

    @pytest.mark.parametrize("c", [0, -3, N + 1, 2.5])
    def test_number_of_columns(self, c):
        model = make_model("square")
        X, y, codes = make_data(model)
        with pytest.raises((TypeError, ValueError), match=f"hessian_components={c}"):
            self.found(model, X, y, deal(codes, 3), hessian_components=c)


class TestLeverage:
    """One label held out, square loss, no graph: everything is known in closed form."""

    def smoother(self, X, codes, ambient, n_counted):
        """f = S y with the weights 1 / n_counted on every label."""
        rows = np.flatnonzero(codes >= 0)
        G = gaussian_kernel(X, WIDTH)[np.ix_(rows, rows)] / ambient
        return rows, G @ np.linalg.inv(G + n_counted * np.eye(len(rows)))

    @pytest.mark.parametrize("ambient", [1e-5, 1e-3, 1e-1, 10.0])
    def test_exact(self, ambient):
        # The fold weighs its labels by 1/(l-1): f and S are those of these weights.
        model = make_model("regressor", manifold_penalty=0.0, ambient_penalty=ambient)
        X, y, codes = make_data(model)
        rows, S = self.smoother(X, codes, ambient, N_LABELS - 1)
        f, leverage = S @ y[rows], np.diag(S)
        expected = f + leverage / (1 - leverage) * (f - y[rows])
        found = cross_val_decisions(model, X, y, cv=N_LABELS).predictions[rows]
        assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())

    @pytest.mark.parametrize("ambient", [1e-5, 1e-3, 1e-1, 10.0])
    def test_first_order(self, ambient):
        # f_i + S_ii (f_i - y_i) to leading order in l, and exactly what the derivative gives.
        model = make_model("regressor", manifold_penalty=0.0, ambient_penalty=ambient)
        X, y, codes = make_data(model)
        rows, S = self.smoother(X, codes, ambient, N_LABELS)
        f, l = S @ y[rows], N_LABELS
        residual = f - y[rows]
        expected = f + (l * np.diag(S) * residual - S @ residual) / (l - 1)
        found = cross_val_decisions(model, X, y, cv=l, criterion="bif").predictions[rows]
        assert_allclose(found, expected, rtol=0, atol=1e-9)

    def test_where_the_model_interpolates_only_exact_sees_an_error(self):
        exact, first_order = [], []
        for ambient in (1e-3, 1e-5, 1e-7):
            model = make_model("regressor", manifold_penalty=0.0, ambient_penalty=ambient)
            X, y, codes = make_data(model)
            known = codes >= 0
            training = np.abs(model.fit(X, y).predict(X) - y)[known].max()
            errors = {
                criterion: np.abs(
                    cross_val_decisions(model, X, y, cv=N_LABELS, criterion=criterion).predictions
                    - y
                )[known].max()
                for criterion in ("exact", "bif", "newton")
            }
            assert errors["newton"] == pytest.approx(errors["exact"])
            # Twice the training residual to leading order; l / (l - 1) is the next one.
            assert errors["bif"] < 2.2 * training * N_LABELS / (N_LABELS - 1)
            exact.append(errors["exact"])
            first_order.append(errors["bif"])
        assert min(exact) > 0.5
        assert first_order[-1] < 1e-2


@st.composite
def bounded_problems(draw):
    """An estimator with its data, its dense twin, folds, a criterion and a hold-out."""
    name = draw(st.sampled_from(sorted(MODELS)))
    seed = draw(st.integers(0, 2**16))
    model = make_model(
        name,
        kernel_width=10 ** draw(st.floats(-1, 1)),
        ambient_penalty=10 ** draw(st.floats(-4, 1)),
        manifold_penalty=draw(st.sampled_from([0.0, 1.0, 1e3])),
        fit_intercept=draw(st.booleans()),
        laplacian=draw(st.sampled_from(["unnormalized", "normalized"])),
        n_neighbors=4,
    )
    X, y, codes = make_data(model, seed, n=24, n_labels=draw(st.sampled_from([6, 9, 12])))
    weights = draw(st.sampled_from([None, make_weights(seed, n=24)]))
    pairs = deal(codes, draw(st.integers(2, 4)), seed)
    both = all({0, 1} <= set(codes[train]) for train, _ in pairs)
    assume(is_regressor(model) or both or not model.fit_intercept)  # else there is no optimum
    criterion = draw(st.sampled_from(sorted(CRITERIA)))
    holdout = draw(st.sampled_from(["labels", "points"]))
    return name, model, X, y, weights, pairs, criterion, holdout


class TestBound:
    @settings(max_examples=100, deadline=None)
    @given(bounded_problems())
    def test_holds_for_every_held_out_prediction(self, problem):
        name, model, X, y, weights, pairs, criterion, holdout = problem
        data = dense(name, model, X, y, weights)
        result = cross_val_decisions(
            model,
            X,
            y,
            cv=pairs,
            criterion=criterion,
            holdout=holdout,
            sample_weight=weights,
            error_bounds=True,
        )
        for (train, _), rows, found in zip(
            pairs, result.fold_rows, result.fold_predictions, strict=True
        ):
            objective = data.without(train, holdout)
            optimum = minimize(objective)
            low = high = optimum.kernel_values[rows]
            if model.fit_intercept:  # the hinge may leave an interval of optimal intercepts
                ends = optimal_intercepts(objective, optimum.kernel_values)
                low, high = low + ends[0], high + ends[1]
            distance = np.maximum(np.maximum(low - found, found - high), 0)
            rounding = 1e-8 * max(1.0, np.abs(found).max())
            assert np.all(distance <= result.error_bounds[rows] + rounding)

    @every_model
    @both_holdouts
    @with_and_without_intercept
    def test_of_the_optimum_is_nothing(self, name, holdout, intercept):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        result = cross_val_decisions(
            model, X, y, cv=deal(codes, 4), holdout=holdout, error_bounds=True
        )
        assert 0 <= result.error_bounds[codes >= 0].max() < 1e-8

    @pytest.mark.parametrize("name", ["hinge", *CURVED])
    @both_holdouts
    @with_and_without_intercept
    def test_shrinks_with_the_steps(self, name, holdout, intercept):
        # Little smoothing, so that one step is not enough even for piecewise quadratic losses.
        model = make_model(
            name,
            kernel_width=0.5,
            ambient_penalty=1e-3,
            manifold_penalty=0.1,
            fit_intercept=intercept,
        )
        X, y, codes = make_data(model, seed=8)
        pairs, known = deal(codes, 3), codes >= 0
        exact = cross_val_decisions(model, X, y, cv=pairs, holdout=holdout).predictions[known]
        bounds = []
        for n_steps in (1, 4, 25):
            result = cross_val_decisions(
                model,
                X,
                y,
                cv=pairs,
                criterion="newton",
                holdout=holdout,
                error_bounds=True,
                criterion_params={"n_steps": n_steps},
            )
            error = np.abs(result.predictions[known] - exact)
            assert np.all(error <= result.error_bounds[known] + 1e-8)
            bounds.append(result.error_bounds[known].max())
        assert bounds[0] > 0.1
        assert bounds[1] < bounds[0]
        assert bounds[2] < 1e-9

    @pytest.mark.parametrize("name", MODELS)
    @both_holdouts
    @with_and_without_intercept
    @pytest.mark.parametrize("criterion", CRITERIA)
    def test_asking_for_it_does_not_change_the_predictions(
        self, name, holdout, intercept, criterion
    ):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        options = {"cv": deal(codes, 3), "criterion": criterion, "holdout": holdout}
        plain = cross_val_decisions(model, X, y, **options).predictions
        bounded = cross_val_decisions(model, X, y, error_bounds=True, **options).predictions
        assert_allclose(bounded, plain, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("criterion", ["bif", "newton"])
    @both_holdouts
    def test_covers_the_intercept(self, criterion, holdout):
        # At x = 0 a linear kernel leaves the intercept alone to err.
        model = make_model("logistic", kernel="linear", fit_intercept=True)
        X, y, codes = make_data(model)
        test = np.flatnonzero(codes == 1)[:2]
        X[test[0]] = 0.0
        pairs = [(np.setdiff1d(np.arange(N), test), test)]
        exact = cross_val_decisions(model, X, y, cv=pairs, holdout=holdout).predictions
        result = cross_val_decisions(
            model, X, y, cv=pairs, criterion=criterion, holdout=holdout, error_bounds=True
        )
        error = np.abs(result.predictions - exact)[test]
        assert error[0] > 1e-4
        assert np.all(error <= result.error_bounds[test])

    def stepped(self, holdout):
        """A newton step with its bound, and the step of the reference."""
        model = make_model("logistic")
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        train, test = deal(codes, 3)[0]
        result = cross_val_decisions(
            model,
            X,
            y,
            cv=[(train, test)],
            criterion="newton",
            holdout=holdout,
            error_bounds=True,
        )
        (rows,) = result.fold_rows
        objective = data.without(train, holdout)
        step = newton_step(objective, minimize(data.full())).values
        return result.error_bounds[rows], rows, objective, step

    def test_formula_with_labels_held_out(self):
        # (1/2) sqrt(G_xx) sqrt(rho' G rho), rho = v loss' + 2 beta, f = G beta.
        bound, rows, objective, step = self.stepped("labels")
        # gA |f|^2 + f'Mf is f' G^-1 f for the kernel G = (gA K^-1 + M)^-1.
        K = objective.K
        G = np.linalg.solve(objective.ambient * np.eye(N) + K @ objective.M, K)
        rho = objective.v * objective.loss.slope(objective.y, step) + 2 * np.linalg.solve(G, step)
        expected = 0.5 * np.sqrt(np.diag(G)[rows]) * np.sqrt(rho @ G @ rho)
        assert_allclose(bound, expected, rtol=1e-6)

    def test_formula_with_points_held_out(self):
        # No sharper than (8) in the metric R_i, no weaker than in 2 gA I, which is below R_i.
        bound, rows, objective, step = self.stepped("points")
        B = objective.features()
        w = np.linalg.lstsq(B, step, rcond=None)[0]
        P = objective.penalty(B)
        g, _ = objective.gradient_and_hessian(B, P, w)
        z = B[rows]

        def product(R):
            length = np.sqrt(np.einsum("ij,ji->i", z, np.linalg.solve(R, z.T)))
            return length * np.sqrt(g @ np.linalg.solve(R, g))

        assert np.all(bound >= product(2 * P) * (1 - 1e-6))
        assert np.all(bound <= product(2 * objective.ambient * np.eye(len(w))) * (1 + 1e-6))

    @pytest.mark.parametrize("criterion", ["newton", "bif"])
    @both_holdouts
    def test_formula_with_an_intercept(self, criterion, holdout):
        # In the metric of (8), 2 P or 2 gA I, at the best intercept for the same kernel part; its
        # own error is that of a kept label at most, and the distance to it comes on top.
        model = make_model("logistic", fit_intercept=True)
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        pairs = deal(codes, 3)
        options = {"cv": pairs, "criterion": criterion, "holdout": holdout, "error_bounds": True}
        bounds = cross_val_decisions(model, X, y, **options).error_bounds
        for train, test in pairs:
            objective = replace(data.without(train, holdout), intercept=False)
            found = approximation(data, train, test, criterion, holdout)
            best = np.mean(optimal_intercepts(objective, found.kernel_values))
            B = objective.features()
            P = objective.penalty(B)
            w = np.linalg.lstsq(B, found.kernel_values, rcond=None)[0]
            slope = objective.loss.slope(objective.y, found.kernel_values + best)
            g = B.T @ (objective.v * slope) + 2 * P @ w
            R = 2 * P if holdout == "labels" else 2 * objective.ambient * np.eye(len(w))
            length = np.sqrt(np.einsum("ij,ji->i", B, np.linalg.solve(R, B.T)))
            kernel_part = length * np.sqrt(g @ np.linalg.solve(R, g))
            expected = kernel_part + kernel_part[objective.v > 0].max() + abs(best - found.b)
            rows = test if holdout == "points" else test[codes[test] >= 0]
            assert_allclose(bounds[rows], expected[rows], rtol=1e-4)


def approximation(data, train, test, criterion, holdout):
    """Kernel part and intercept that a criterion finds for a fold of three, on all rows."""
    full = minimize(data.full())
    if criterion == "newton":
        return newton_step(data.without(train, holdout), full)
    step, path = 2e-4, "labels" if holdout == "labels" else "linear"
    at = {k: minimize(data.mixed(test, k * step, path)) for k in (-2, -1, 1, 2)}

    def moved(part):
        a, b, c, d = (getattr(at[k], part) for k in (-2, -1, 1, 2))
        return getattr(full, part) + (8 * (c - b) - (d - a)) / (12 * step) / (1 - 3)

    return Solution(moved("kernel_values"), moved("b"))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_bounds_have_to_be_asked_for(criterion):
    assert inspect.signature(CRITERIA[criterion]).parameters["bounds"].default is False

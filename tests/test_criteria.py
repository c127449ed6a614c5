"""Criteria against brute force: refitting, dense minimisation, finite differences, limits."""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone, is_regressor
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from fold_reference import deal, gaussian_kernel, minimize, newton_step, optimal_intercepts
from held_out_models import (
    CLASSIFIERS,
    CURVED,
    N_LABELS,
    SQUARES,
    WIDTH,
    N,
    assert_equals_refitting,
    both_holdouts,
    decide,
    dense,
    every_model,
    make_data,
    make_model,
    make_weights,
    with_and_without_intercept,
)
from onefit import cross_val_decisions
from onefit.datasets import load_libsvm_data

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

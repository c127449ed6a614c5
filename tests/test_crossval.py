"""The public door: alignment, kinds of folds and of input, counts, errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline

from fold_reference import deal
from onefit import (
    HeldOutDecisions,
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    RepeatedSemiSupervisedKFold,
    SemiSupervisedKFold,
    cross_val_decisions,
)
from onefit.criteria import CRITERIA

N = 40
N_LABELS = 15
COMMON = {
    "kernel_width": 2.0,
    "ambient_penalty": 1e-2,
    "manifold_penalty": 30.0,
    "graph_width": 1.0,
    "n_neighbors": 5,
}
ESTIMATORS = {
    "regressor": LapRLSRegressor(**COMMON),
    "square": LapRLSClassifier(**COMMON),
    "hinge": LapSVC(**COMMON),
    "logistic": LapLogisticRegression(**COMMON),
}

every_estimator = pytest.mark.parametrize("model", ESTIMATORS.values(), ids=ESTIMATORS)
every_criterion = pytest.mark.parametrize("criterion", CRITERIA)
both_holdouts = pytest.mark.parametrize("holdout", ["labels", "points"])


def make_data(model=ESTIMATORS["square"], n_classes=2, seed=0):
    """X, y with most labels hidden, and class numbers that are -1 there."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(N, 3))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=N)
    classes = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    codes = np.where(np.isin(np.arange(N), rng.permutation(N)[:N_LABELS]), classes, -1)
    y = np.where(codes >= 0, score, np.nan) if is_regressor(model) else codes
    return X, y, codes


class TestAlignment:
    @every_estimator
    @every_criterion
    @both_holdouts
    def test_follows_the_rows(self, model, criterion, holdout):
        # Rows, targets, weights and folds in another order: the same numbers in that order.
        X, y, codes = make_data(model)
        weights = np.random.RandomState(1).uniform(0.5, 2.0, size=N)
        order = np.random.RandomState(2).permutation(N)
        position = np.argsort(order)
        pairs = deal(codes, 3)
        options = {"criterion": criterion, "holdout": holdout, "error_bounds": True}
        straight = cross_val_decisions(model, X, y, cv=pairs, sample_weight=weights, **options)
        shuffled = cross_val_decisions(
            model,
            X[order],
            y[order],
            cv=[(position[train], position[test]) for train, test in pairs],
            sample_weight=weights[order],
            **options,
        )
        assert_allclose(shuffled.predictions, straight.predictions[order], rtol=1e-7, atol=1e-9)
        assert_allclose(shuffled.error_bounds, straight.error_bounds[order], rtol=1e-5, atol=1e-8)

    @every_criterion
    def test_labels_held_out_give_the_labelled_test_rows(self, criterion):
        model = ESTIMATORS["square"]
        X, y, codes = make_data()
        train, test = deal(codes, 3)[0]
        result = cross_val_decisions(model, X, y, cv=[(train, test)], criterion=criterion)
        held_out = test[codes[test] >= 0]
        assert_array_equal(np.flatnonzero(~np.isnan(result.predictions)), held_out)
        assert_array_equal(result.fold_rows[0], held_out)

    @every_criterion
    def test_points_held_out_give_all_test_rows(self, criterion):
        model = ESTIMATORS["square"]
        X, y, codes = make_data()
        train, test = deal(codes, 3)[0]
        result = cross_val_decisions(
            model, X, y, cv=[(train, test)], criterion=criterion, holdout="points"
        )
        assert np.any(codes[test] < 0)
        assert_array_equal(np.flatnonzero(~np.isnan(result.predictions)), test)
        assert_array_equal(result.fold_rows[0], test)

    @both_holdouts
    def test_unlabelled_points_outside_train_are_removed_only_with_points_held_out(self, holdout):
        # SemiSupervisedKFold leaves U_i out of train, and does not test it.
        model = ESTIMATORS["square"]
        X, y, codes = make_data()
        train, test = deal(codes, 3)[0]
        labels = test[codes[test] >= 0]
        everything_else = np.setdiff1d(np.arange(N), labels)
        small, large = (
            cross_val_decisions(model, X, y, cv=[(rows, labels)], holdout=holdout).predictions
            for rows in (train, everything_else)
        )
        difference = np.abs(small - large)[labels].max()
        assert difference < 1e-12 if holdout == "labels" else difference > 1e-4

    @both_holdouts
    def test_labels_that_are_neither_trained_on_nor_tested_are_left_out(self, holdout):
        model = ESTIMATORS["square"]
        X, y, codes = make_data()
        labels = np.flatnonzero(codes >= 0)
        test, unused = labels[:3], labels[3:6]
        train = np.setdiff1d(np.arange(N), [*test, *unused])
        found = cross_val_decisions(model, X, y, cv=[(train, test)], holdout=holdout)
        both = np.sort([*test, *unused])
        expected = cross_val_decisions(model, X, y, cv=[(train, both)], holdout=holdout)
        assert_allclose(found.predictions[test], expected.predictions[test], rtol=1e-10)
        assert np.isnan(found.predictions[unused]).all()

    def test_shapes(self):
        X, y, codes = make_data()
        known = codes >= 0
        flat = cross_val_decisions(ESTIMATORS["square"], X, y, cv=3, error_bounds=True)
        assert flat.predictions.shape == flat.error_bounds.shape == (N,)
        assert [part.shape for part in flat.fold_predictions] == [(5,)] * 3
        _, y3, _ = make_data(n_classes=3)
        several = cross_val_decisions(ESTIMATORS["square"], X, y3, cv=3, error_bounds=True)
        assert several.predictions.shape == several.error_bounds.shape == (N, 3)
        assert [part.shape for part in several.fold_predictions] == [(5, 3)] * 3
        targets = np.where(known, X[:, 0], np.nan)[:, None]
        for q in (1, 2):
            Y = np.repeat(targets, q, axis=1)
            found = cross_val_decisions(ESTIMATORS["regressor"], X, Y, cv=3)
            assert found.predictions.shape == (N, q)

    def test_sign_means_the_second_class(self):
        X, _, codes = make_data()
        names = np.array([["no", "yes"][c] if c >= 0 else None for c in codes], dtype=object)
        by_name = cross_val_decisions(ESTIMATORS["square"], X, names, cv=5).predictions
        by_number = cross_val_decisions(ESTIMATORS["square"], X, codes, cv=5).predictions
        known = codes >= 0
        assert_allclose(by_name, by_number, rtol=1e-12)
        assert np.mean((by_name > 0)[known] == (names == "yes")[known]) > 0.7

    def test_several_classes_are_columns_in_the_order_of_the_classes(self):
        X, y, codes = make_data(n_classes=3)
        all_at_once = cross_val_decisions(ESTIMATORS["square"], X, y, cv=deal(codes, 3))
        for c in range(3):
            one = cross_val_decisions(
                ESTIMATORS["square"], X, np.where(y == -1, -1, y == c), cv=deal(codes, 3)
            )
            assert_allclose(all_at_once.predictions[:, c], one.predictions, rtol=1e-9)


class TestFolds:
    def test_a_number_is_so_many_semi_supervised_folds(self):
        X, y, _ = make_data()
        model = ESTIMATORS["logistic"]
        number = cross_val_decisions(model, X, y, cv=4, holdout="points")
        splitter = cross_val_decisions(model, X, y, cv=SemiSupervisedKFold(4), holdout="points")
        assert len(number.fold_rows) == 4
        assert_array_equal(number.predictions, splitter.predictions)

    def test_the_default_is_five(self):
        X, y, codes = make_data()
        found = cross_val_decisions(ESTIMATORS["square"], X, y)
        assert len(found.fold_rows) == 5
        assert_array_equal(~np.isnan(found.predictions), codes >= 0)

    @pytest.mark.parametrize(
        "make",
        [
            lambda pairs: pairs,
            iter,
            lambda pairs: [(train.tolist(), test.tolist()) for train, test in pairs],
            lambda pairs: [tuple(np.isin(np.arange(N), rows) for rows in pair) for pair in pairs],
        ],
        ids=["arrays", "iterator", "lists", "masks"],
    )
    def test_pairs_in_any_form(self, make):
        X, y, _ = make_data()
        model, cv = ESTIMATORS["square"], SemiSupervisedKFold(4, shuffle=True, random_state=3)
        expected = cross_val_decisions(model, X, y, cv=cv, holdout="points").predictions
        pairs = list(cv.split(X, y))
        found = cross_val_decisions(model, X, y, cv=make(pairs), holdout="points").predictions
        assert_array_equal(found, expected)

    @pytest.mark.parametrize("cv", [SemiSupervisedKFold, RepeatedSemiSupervisedKFold])
    def test_splitters_of_this_package_follow_the_estimator(self, cv):
        # Whole numbers, -1 among them, are targets to a regressor: nothing is unlabelled.
        X, _, _ = make_data()
        y = np.round(2 * X[:, 0])
        assert np.any(y == -1)
        found = cross_val_decisions(ESTIMATORS["regressor"], X, y, cv=cv(4)).predictions
        assert not np.isnan(found).any()

    def test_splitters_of_scikit_learn(self):
        # They are given y as it is; unlabelled test rows have decisions, if points are held out.
        X, y, _ = make_data()
        cv = StratifiedKFold(3)
        found = cross_val_decisions(ESTIMATORS["square"], X, y, cv=cv, holdout="points")
        pairs = list(cv.split(X, y))
        expected = cross_val_decisions(ESTIMATORS["square"], X, y, cv=pairs, holdout="points")
        assert_array_equal(found.predictions, expected.predictions)
        assert not np.isnan(found.predictions).any()

    @every_estimator
    @pytest.mark.parametrize("holdout", ["labels", "points"])
    def test_repeats_are_averaged(self, model, holdout):
        X, y, codes = make_data(model)
        cv = RepeatedSemiSupervisedKFold(3, n_repeats=2, random_state=0)
        options = {"holdout": holdout, "criterion": "newton", "error_bounds": True}
        found = cross_val_decisions(model, X, y, cv=cv, **options)
        pairs = list(cv.split(X, np.where(codes >= 0, 0.5, np.nan) if is_regressor(model) else y))
        once, again = (
            cross_val_decisions(model, X, y, cv=part, **options) for part in (pairs[:3], pairs[3:])
        )
        known = codes >= 0
        mean = (once.predictions + again.predictions) / 2
        assert np.abs(once.predictions - again.predictions)[known].max() > 1e-4
        assert_allclose(found.predictions[known], mean[known], rtol=1e-7, atol=1e-9)
        mean_bound = (once.error_bounds + again.error_bounds) / 2
        assert_allclose(found.error_bounds[known], mean_bound[known], rtol=1e-4, atol=1e-8)
        assert len(found.fold_predictions) == 6
        assert_allclose(found.fold_predictions[4], again.fold_predictions[1], rtol=1e-7, atol=1e-9)

    def test_as_many_folds_as_labels_is_leave_one_out(self):
        # With no graph, kernel ridge regression leaves out one label the textbook way.
        X, y, codes = make_data(ESTIMATORS["regressor"])
        model = clone(ESTIMATORS["regressor"]).set_params(manifold_penalty=0.0)
        found = cross_val_decisions(model, X, y, cv=N_LABELS)
        labels = np.flatnonzero(codes >= 0)
        assert [rows.size for rows in found.fold_rows] == [1] * N_LABELS
        ridge = KernelRidge(
            kernel="rbf", gamma=1 / (2 * 2.0), alpha=model.ambient_penalty * (N_LABELS - 1)
        )
        for i in labels:
            rest = labels[labels != i]
            expected = ridge.fit(X[rest], y[rest]).predict(X[[i]])
            assert_allclose(found.predictions[[i]], expected, rtol=1e-9)

    @pytest.mark.parametrize("cv", [None, True, 2.5, "5", object()])
    def test_what_is_no_description_of_folds(self, cv):
        X, y, _ = make_data()
        with pytest.raises(ValueError, match=r"cv=.*expected a number of folds, a splitter"):
            cross_val_decisions(ESTIMATORS["square"], X, y, cv=cv)

    @pytest.mark.parametrize(
        "cv, message",
        [
            (1, "n_splits=1; expected an integer of at least 2"),
            (N_LABELS + 1, f"n_splits=16 is more than the {N_LABELS} labelled rows"),
            ([], "cv has no folds"),
            ([([0, 1], [1, 2])], "rows in both train and test"),
            ([(np.arange(N - 1), [N])], f"the test row {N}; expected row numbers from 0 to 39"),
        ],
    )
    def test_folds_that_make_no_sense(self, cv, message):
        X, y, _ = make_data()
        with pytest.raises(ValueError, match=message):
            cross_val_decisions(ESTIMATORS["square"], X, y, cv=cv)

    def test_folds_without_labels_point_to_the_remedy(self):
        # The labels come first: plain KFold holds out none of them in its last folds.
        X, y, _ = make_data()
        order = np.argsort(y == -1, kind="stable")
        with pytest.raises(ValueError, match=r"holds out no labelled row.*SemiSupervisedKFold"):
            cross_val_decisions(ESTIMATORS["square"], X[order], y[order], cv=KFold(5))


class TestRebuiltGraph:
    @every_estimator
    def test_is_cloning_and_fitting(self, model):
        # Automatic widths follow the fold as well.
        model = clone(model).set_params(
            kernel_width="median", graph_width="median", fit_intercept=True
        )
        X, y, codes = make_data(model)
        weights = np.random.RandomState(1).uniform(0.5, 2.0, size=N)
        pairs = deal(codes, 3)
        found = cross_val_decisions(
            model, X, y, cv=pairs, holdout="points", sample_weight=weights, rebuild_graph=True
        )
        for (train, test), rows, decisions in zip(
            pairs, found.fold_rows, found.fold_predictions, strict=True
        ):
            refit = clone(model).fit(X[train], y[train], weights[train])
            answer = refit.predict if is_regressor(model) else refit.decision_function
            assert_array_equal(rows, test)
            assert_allclose(decisions, answer(X[test]), rtol=1e-9, atol=1e-12)

    def test_differs_from_the_restricted_graph(self):
        X, y, codes = make_data()
        options = {"cv": deal(codes, 3), "holdout": "points"}
        restricted = cross_val_decisions(ESTIMATORS["square"], X, y, **options)
        rebuilt = cross_val_decisions(ESTIMATORS["square"], X, y, rebuild_graph=True, **options)
        assert np.abs(rebuilt.predictions - restricted.predictions).max() > 1e-3

    @pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
    def test_precomputed_kernel(self, container):
        X, y, codes = make_data()
        K = X @ X.T + 0.5
        model = LapRLSClassifier(kernel="precomputed", n_neighbors=5)
        pairs = deal(codes, 3)
        found = cross_val_decisions(
            model, container(K), y, cv=pairs, holdout="points", rebuild_graph=True
        )
        for (train, test), decisions in zip(pairs, found.fold_predictions, strict=True):
            refit = clone(model).fit(K[np.ix_(train, train)], y[train])
            expected = refit.decision_function(K[np.ix_(test, train)])
            assert_allclose(decisions, expected, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("container", [pd.DataFrame, sp.csr_array])
    def test_frames_and_sparse_rows(self, container):
        X, y, codes = make_data()
        X[np.abs(X) < 0.3] = 0.0
        options = {"cv": deal(codes, 3), "holdout": "points", "rebuild_graph": True}
        expected = cross_val_decisions(ESTIMATORS["square"], X, y, **options)
        found = cross_val_decisions(ESTIMATORS["square"], container(X), y, **options)
        assert_allclose(found.predictions, expected.predictions, rtol=1e-8, atol=1e-10)

    @pytest.mark.parametrize(
        "options", [{"criterion": "bif", "holdout": "points"}, {"holdout": "labels"}]
    )
    def test_is_exact_with_points_held_out(self, options):
        X, y, _ = make_data()
        with pytest.raises(ValueError, match="rebuild_graph=True with criterion="):
            cross_val_decisions(ESTIMATORS["square"], X, y, rebuild_graph=True, **options)

    def test_a_class_that_the_fold_does_not_train_on(self):
        # The refit knows two classes of three; its single decision is not that of all three.
        X, y, codes = make_data(n_classes=3)
        test = np.flatnonzero(codes == 2)
        train = np.setdiff1d(np.arange(N), test)
        with pytest.raises(ValueError, match="class"):
            cross_val_decisions(
                ESTIMATORS["square"],
                X,
                y,
                cv=[(train, test)],
                holdout="points",
                rebuild_graph=True,
            )

    def test_a_precomputed_graph_cannot_be_rebuilt(self):
        X, y, _ = make_data()
        model = clone(ESTIMATORS["square"])
        model.set_params(graph=clone(model).fit(X, y).graph_)
        with pytest.raises(ValueError, match="rebuild_graph"):
            cross_val_decisions(model, X, y, cv=3, holdout="points", rebuild_graph=True)


class TestEstimatorIsLeftAlone:
    @every_estimator
    @every_criterion
    @both_holdouts
    def test_parameters_and_fitted_attributes(self, model, criterion, holdout):
        X, y, _ = make_data(model)
        model = clone(model)
        before = pickle.dumps(model)
        copies = X.copy(), y.copy()
        cross_val_decisions(model, X, y, cv=3, criterion=criterion, holdout=holdout)
        assert pickle.dumps(model) == before
        assert_array_equal(X, copies[0])
        assert_array_equal(y, copies[1])

    def test_a_fitted_estimator_stays_fitted(self):
        X, y, _ = make_data()
        model = clone(ESTIMATORS["square"]).fit(X, y)
        before = pickle.dumps(model)
        first = cross_val_decisions(model, X[:, :2], y, cv=3)
        assert pickle.dumps(model) == before
        fresh = cross_val_decisions(ESTIMATORS["square"], X[:, :2], y, cv=3)
        assert_array_equal(first.predictions, fresh.predictions)

    def test_a_precomputed_kernel_is_not_overwritten(self):
        X, y, _ = make_data()
        K = X @ X.T + 0.5
        copy = K.copy()
        cross_val_decisions(LapRLSClassifier(kernel="precomputed"), K, y, cv=3, holdout="points")
        assert_array_equal(K, copy)


class TestInputs:
    @both_holdouts
    def test_frames(self, holdout):
        X, y, _ = make_data()
        frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"row {i}" for i in range(N)])
        series = pd.Series(y, index=frame.index)
        weights = pd.Series(np.linspace(1, 2, N), index=frame.index)
        expected = cross_val_decisions(
            ESTIMATORS["square"], X, y, cv=4, holdout=holdout, sample_weight=weights.to_numpy()
        )
        found = cross_val_decisions(
            ESTIMATORS["square"], frame, series, cv=4, holdout=holdout, sample_weight=weights
        )
        assert isinstance(found, HeldOutDecisions)
        assert_allclose(found.predictions, expected.predictions, rtol=1e-9)

    @both_holdouts
    @pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.csc_array])
    def test_sparse_rows(self, holdout, container):
        X, y, _ = make_data()
        X[np.abs(X) < 0.3] = 0.0
        expected = cross_val_decisions(ESTIMATORS["square"], X, y, cv=4, holdout=holdout)
        found = cross_val_decisions(ESTIMATORS["square"], container(X), y, cv=4, holdout=holdout)
        assert_allclose(found.predictions, expected.predictions, rtol=1e-8, atol=1e-10)

    def test_lists(self):
        X, y, _ = make_data()
        expected = cross_val_decisions(ESTIMATORS["square"], X, y, cv=4)
        found = cross_val_decisions(ESTIMATORS["square"], X.tolist(), y.tolist(), cv=4)
        assert_array_equal(found.predictions, expected.predictions)

    @every_criterion
    @both_holdouts
    def test_precomputed_kernel(self, criterion, holdout):
        # The kernel's own distances have the same neighbours as X; the graph is given all the same.
        X, y, _ = make_data()
        squared = ((X[:, None] - X) ** 2).sum(axis=2)
        model = clone(ESTIMATORS["square"])
        model.set_params(graph=clone(model).fit(X, y).graph_)
        options = {"cv": 4, "criterion": criterion, "holdout": holdout}
        expected = cross_val_decisions(model, X, y, **options)
        found = cross_val_decisions(
            clone(model).set_params(kernel="precomputed"), np.exp(-squared / 4.0), y, **options
        )
        assert_allclose(found.predictions, expected.predictions, rtol=1e-8, atol=1e-10)

    @every_criterion
    @both_holdouts
    def test_precomputed_graph(self, criterion, holdout):
        X, y, _ = make_data()
        model = ESTIMATORS["logistic"]
        W = clone(model).fit(X, y).graph_
        options = {"cv": 4, "criterion": criterion, "holdout": holdout}
        expected = cross_val_decisions(model, X, y, **options)
        for graph in (W, W.toarray(), lambda rows: W):
            found = cross_val_decisions(clone(model).set_params(graph=graph), X, y, **options)
            assert_allclose(found.predictions, expected.predictions, rtol=1e-10)

    @both_holdouts
    def test_a_weight_of_zero_takes_the_label_away(self, holdout):
        X, y, codes = make_data()
        labels = np.flatnonzero(codes >= 0)
        weights = np.ones(N)
        weights[labels[:2]] = 0.0
        partial = y.copy()
        partial[labels[:2]] = -1
        options = {"cv": 4, "holdout": holdout}
        found = cross_val_decisions(ESTIMATORS["square"], X, y, sample_weight=weights, **options)
        expected = cross_val_decisions(ESTIMATORS["square"], X, partial, **options)
        assert np.isnan(found.predictions[labels[:2]]).all()
        assert_allclose(found.predictions, expected.predictions, rtol=1e-12)

    @both_holdouts
    def test_only_ratios_of_weights_matter(self, holdout):
        X, y, _ = make_data()
        options = {"cv": 4, "holdout": holdout}
        plain = cross_val_decisions(ESTIMATORS["square"], X, y, **options)
        weighted = cross_val_decisions(
            ESTIMATORS["square"], X, y, sample_weight=np.full(N, 7.0), **options
        )
        assert_allclose(weighted.predictions, plain.predictions, rtol=1e-9)


class TestCounts:
    """``n_solves`` counts linear systems, one right-hand side each."""

    @every_estimator
    @every_criterion
    @both_holdouts
    def test_at_least_one_a_fold(self, model, criterion, holdout):
        X, y, _ = make_data(model)
        found = cross_val_decisions(model, X, y, cv=5, criterion=criterion, holdout=holdout)
        assert isinstance(found.n_solves, int)
        assert found.n_solves >= 5

    @pytest.mark.parametrize("n_classes, q", [(2, 1), (3, 3)])
    def test_influence_solves_once_for_each_fold_and_output(self, n_classes, q):
        X, y, _ = make_data(n_classes=n_classes)
        for holdout in ("labels", "points"):
            found = cross_val_decisions(
                ESTIMATORS["logistic"], X, y, cv=5, criterion="bif", holdout=holdout
            )
            assert found.n_solves == 5 * q

    def test_influence_solves_once_more_for_an_intercept(self):
        # One Hessian for the square loss, and one response to its intercept for all folds.
        X, y, _ = make_data()
        model = clone(ESTIMATORS["square"]).set_params(fit_intercept=True)
        found = cross_val_decisions(model, X, y, cv=5, criterion="bif", holdout="points")
        assert found.n_solves == 5 + 1

    def test_square_loss_solves_once_for_each_fold_and_weight_of_a_label(self):
        # Labels that are kept share one weight: folds of equal size share the factorisation.
        X, y, _ = make_data()
        found = cross_val_decisions(ESTIMATORS["square"], X, y, cv=5)
        assert found.n_solves == 5 + len({len(rows) for rows in found.fold_rows})

    def test_newton_solves_once_for_each_step(self):
        X, y, _ = make_data()
        for n_steps in (1, 3):
            found = cross_val_decisions(
                ESTIMATORS["logistic"],
                X,
                y,
                cv=5,
                criterion="newton",
                criterion_params={"n_steps": n_steps},
            )
            assert found.n_solves == 5 * n_steps


class TestOptions:
    @every_criterion
    @both_holdouts
    def test_bounds_only_when_asked_for(self, criterion, holdout):
        X, y, codes = make_data()
        options = {"cv": 3, "criterion": criterion, "holdout": holdout}
        assert cross_val_decisions(ESTIMATORS["square"], X, y, **options).error_bounds is None
        found = cross_val_decisions(ESTIMATORS["square"], X, y, error_bounds=True, **options)
        assert_array_equal(np.isnan(found.error_bounds), np.isnan(found.predictions))
        assert found.error_bounds[codes >= 0].min() >= 0

    @pytest.mark.parametrize(
        "options",
        [
            {"rebuild_graph": True},
            {"criterion": "bif", "criterion_params": {"variant": "literal"}},
        ],
        ids=["rebuilt graph", "literal"],
    )
    def test_bounds_that_cannot_be_had(self, options):
        # Asked for and not given would be silence.
        X, y, _ = make_data()
        with pytest.raises(ValueError, match="error_bounds"):
            cross_val_decisions(
                ESTIMATORS["square"], X, y, cv=3, holdout="points", error_bounds=True, **options
            )

    @pytest.mark.parametrize(
        "estimator", [KernelRidge(), make_pipeline(LapRLSClassifier()), LapRLSClassifier, None]
    )
    def test_other_estimators(self, estimator):
        X, y, _ = make_data()
        with pytest.raises(TypeError, match=r"estimator is a .*; expected LapRLSRegressor"):
            cross_val_decisions(estimator, X, y)

    def test_unknown_names(self):
        X, y, _ = make_data()
        with pytest.raises(ValueError, match=r"criterion='gcv'; expected one of .*'bif', 'exact'"):
            cross_val_decisions(ESTIMATORS["square"], X, y, criterion="gcv")
        with pytest.raises(ValueError, match=r"holdout='rows'; expected one of .*'labels'"):
            cross_val_decisions(ESTIMATORS["square"], X, y, holdout="rows")
        with pytest.raises(ValueError, match=r"'n_step'.*options are \['n_steps'\]"):
            cross_val_decisions(
                ESTIMATORS["square"], X, y, criterion="newton", criterion_params={"n_step": 2}
            )

    @both_holdouts
    @pytest.mark.parametrize("n_steps", [0, -1, 1.5, None])
    def test_number_of_newton_steps(self, holdout, n_steps):
        X, y, _ = make_data()
        with pytest.raises((TypeError, ValueError), match=f"n_steps={n_steps}"):
            cross_val_decisions(
                ESTIMATORS["logistic"],
                X,
                y,
                criterion="newton",
                holdout=holdout,
                criterion_params={"n_steps": n_steps},
            )

    def test_errors_of_fit_come_through(self):
        X, y, _ = make_data()
        with pytest.raises(ValueError, match="one class only"):
            cross_val_decisions(ESTIMATORS["square"], X, np.where(y == 0, -1, y))
        with pytest.raises(ValueError, match="ambient_penalty=0"):
            cross_val_decisions(LapRLSClassifier(ambient_penalty=0), X, y)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            cross_val_decisions(ESTIMATORS["square"], X, y[:-1])

    @both_holdouts
    def test_an_optimum_that_was_not_reached_is_reported(self, holdout):
        X, y, _ = make_data()
        model = clone(ESTIMATORS["logistic"]).set_params(ambient_penalty=1e-6, max_iter=1)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            cross_val_decisions(model, X, y, cv=3, holdout=holdout)

    def test_the_same_seed_gives_the_same_numbers(self):
        X, y, _ = make_data()
        model = clone(ESTIMATORS["square"]).set_params(n_components=10, random_state=4)
        first, second = (cross_val_decisions(model, X, y, cv=4).predictions for _ in range(2))
        assert_array_equal(first, second)
        other = cross_val_decisions(clone(model).set_params(random_state=5), X, y, cv=4)
        assert np.nanmax(np.abs(first - other.predictions)) > 1e-6


class TestFarFromAllLabels:
    """Decisions of 1e-15 to 1e-100: each label has its copies, and no other label near it."""

    @staticmethod
    def data(seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(1, size=(90, 6))
        X = np.vstack([X, X[30:]])
        return X, np.where(np.arange(150) % 3 == 0, rng.integers(0, 2, size=150), -1)

    @both_holdouts
    @pytest.mark.parametrize("name", ["square", "hinge", "logistic"])
    def test_classes_are_those_of_refitted_models(self, name, holdout):
        X, y = self.data(0)
        model = clone(ESTIMATORS[name]).set_params(kernel_width=0.3, manifold_penalty=0.0)
        cv = list(SemiSupervisedKFold(5, shuffle=True, random_state=0).split(X, y))
        expected = np.full(len(X), np.nan)
        for train, test in cv:
            rows = test[y[test] != -1]
            kept = train if holdout == "points" else np.arange(len(X))
            labels = np.where(np.isin(kept, rows), -1, y[kept])
            expected[rows] = clone(model).fit(X[kept], labels).decision_function(X[rows])
        clear = np.abs(expected) > 1e-95  # smaller numbers are taken for 0
        assert np.sum(clear & (np.abs(expected) < 1e-16)) > 5
        found = cross_val_decisions(model, X, y, cv=cv, holdout=holdout).predictions
        assert_array_equal(found[clear] > 0, expected[clear] > 0)
        grid = {"ambient_penalty": [model.ambient_penalty, 1.0, 10.0, 100.0]}
        search = ManifoldSearchCV(model, grid, cv=cv, holdout=holdout, refit=False).fit(X, y)
        for i, (_, test) in enumerate(cv):
            rows = test[y[test] != -1]
            expected_score = np.mean((expected[rows] > 0) == y[rows])
            assert search.cv_results_[f"split{i}_test_score"][0] == pytest.approx(expected_score)

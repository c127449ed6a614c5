"""Folds that treat labelled and unlabelled rows apart, by themselves and inside scikit-learn."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    RepeatedSemiSupervisedKFold,
    SemiSupervisedKFold,
)
from onefit.folds import check_folds

NAN = np.nan


def folds_of(splitter, y):
    """(train, L_i, U_i) of every fold; U_i is what is neither trained on nor tested."""
    rows = np.arange(len(y))
    splits = splitter.split(np.zeros((len(y), 1)), y)
    return [(train, test, np.setdiff1d(rows, [*train, *test])) for train, test in splits]


def spread(counts):
    """Largest less smallest."""
    return max(counts) - min(counts)


def draw_labels(rng, n, n_classes=3, share=0.4):
    """Class numbers with -1 in unlabelled rows."""
    y = rng.choice(n_classes, size=n, p=rng.dirichlet(np.ones(n_classes)))
    return np.where(rng.uniform(size=n) < share, y, -1)


class TestPartition:
    @settings(max_examples=60, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        n=st.integers(10, 80),
        t=st.integers(2, 9),
        shuffle=st.booleans(),
    )
    def test_labelled_and_unlabelled_rows_apart(self, seed, n, t, shuffle):
        y = draw_labels(np.random.RandomState(seed), n)
        y[:t] = np.arange(t) % 2  # enough labels
        splitter = SemiSupervisedKFold(t, shuffle=shuffle, random_state=seed)
        folds = folds_of(splitter, y)
        assert len(folds) == t
        tested = np.concatenate([test for _, test, _ in folds])
        left_out = np.concatenate([unlabelled for _, _, unlabelled in folds])
        assert_array_equal(np.sort(tested), np.flatnonzero(y != -1))
        assert_array_equal(np.sort(left_out), np.flatnonzero(y == -1))
        for train, test, unlabelled in folds:
            assert np.intersect1d(train, test).size == 0
            assert train.size + test.size + unlabelled.size == n

    @settings(max_examples=60, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        n=st.integers(10, 120),
        t=st.integers(2, 9),
        shuffle=st.booleans(),
    )
    def test_sizes_and_classes_are_spread_evenly(self, seed, n, t, shuffle):
        y = draw_labels(np.random.RandomState(seed), n, n_classes=4)
        y[:t] = np.arange(t) % 2
        folds = folds_of(SemiSupervisedKFold(t, shuffle=shuffle, random_state=seed), y)
        assert spread([test.size for _, test, _ in folds]) <= 1
        assert spread([unlabelled.size for _, _, unlabelled in folds]) <= 1
        for c in range(4):
            assert spread([np.sum(y[test] == c) for _, test, _ in folds]) <= 1

    def test_by_hand(self):
        y = np.array([0, -1, 1, 0, -1, 0, -1, 1])
        # Class 0 (rows 0, 3, 5) is dealt first, class 1 (rows 2, 7) goes on where it ended;
        # the unlabelled rows 1, 4, 6 start again.
        (train0, test0, hidden0), (train1, test1, hidden1) = folds_of(SemiSupervisedKFold(2), y)
        assert (test0.tolist(), hidden0.tolist()) == ([0, 5, 7], [1, 6])
        assert (test1.tolist(), hidden1.tolist()) == ([2, 3], [4])
        assert (train0.tolist(), train1.tolist()) == ([2, 3, 4], [0, 1, 5, 6, 7])

    def test_a_class_rarer_than_the_folds_is_absent_from_some(self):
        y = np.array([0] * 8 + [1] * 2 + [-1] * 10)
        counts = [np.sum(y[test] == 1) for _, test, _ in folds_of(SemiSupervisedKFold(5), y)]
        assert sorted(counts) == [0, 0, 0, 1, 1]

    def test_as_many_folds_as_labels_is_leave_one_out(self):
        y = np.array([-1, 0, 1, -1, 1, 0, 0, -1])
        tests = [test for _, test, _ in folds_of(SemiSupervisedKFold(5), y)]
        assert [test.size for test in tests] == [1] * 5
        assert sorted(np.concatenate(tests).tolist()) == [1, 2, 4, 5, 6]

    def test_fewer_unlabelled_rows_than_folds(self):
        y = np.array([0, 1, 0, 1, 0, 1, -1])
        folds = folds_of(SemiSupervisedKFold(3), y)
        assert sorted(unlabelled.size for _, _, unlabelled in folds) == [0, 0, 1]

    def test_everything_labelled(self):
        y = np.array([0, 1, 0, 1, 0, 1])
        for train, test, unlabelled in folds_of(SemiSupervisedKFold(3), y):
            assert unlabelled.size == 0
            assert_array_equal(np.sort([*train, *test]), np.arange(6))


class TestShuffle:
    y = draw_labels(np.random.RandomState(0), 60)

    def same(self, one, other):
        return all(
            np.array_equal(a, b)
            for a, b in zip(
                itertools.chain.from_iterable(folds_of(one, self.y)),
                itertools.chain.from_iterable(folds_of(other, self.y)),
                strict=True,
            )
        )

    def test_the_same_seed_gives_the_same_folds(self):
        splitter = SemiSupervisedKFold(4, shuffle=True, random_state=3)
        assert self.same(splitter, splitter)
        assert self.same(splitter, SemiSupervisedKFold(4, shuffle=True, random_state=3))

    def test_seeds_matter_only_with_shuffle(self):
        for shuffle, expected in [(True, False), (False, True)]:
            one = SemiSupervisedKFold(4, shuffle=shuffle, random_state=0)
            other = SemiSupervisedKFold(4, shuffle=shuffle, random_state=1)
            assert self.same(one, other) is expected

    def test_labelled_and_unlabelled_rows_are_both_shuffled(self):
        plain = folds_of(SemiSupervisedKFold(4), self.y)
        mixed = folds_of(SemiSupervisedKFold(4, shuffle=True, random_state=0), self.y)
        assert not all(np.array_equal(a[1], b[1]) for a, b in zip(plain, mixed, strict=True))
        assert not all(np.array_equal(a[2], b[2]) for a, b in zip(plain, mixed, strict=True))

    def test_a_random_state_instance_moves_on(self):
        splitter = SemiSupervisedKFold(4, shuffle=True, random_state=np.random.RandomState(0))
        assert not self.same(splitter, splitter)


class TestReadingOfTargets:
    @pytest.mark.parametrize(
        "y, labelled",
        [
            (np.array([0, 1, -1, 0, 1, -1]), [0, 1, 3, 4]),
            ([0, 1, -1, 0, 1, -1], [0, 1, 3, 4]),
            (np.array([0.0, 1.0, -1.0, 0.0, 1.0, -1.0]), [0, 1, 3, 4]),
            (np.array(["a", "b", "-1", "a", "b", "-1"]), [0, 1, 3, 4]),
            (np.array(["a", "b", None, "a", "b", None], dtype=object), [0, 1, 3, 4]),
            (np.array(["a", "b", NAN, "a", "b", NAN], dtype=object), [0, 1, 3, 4]),
            (np.array(["a", "b", -1, "a", "b", -1], dtype=object), [0, 1, 3, 4]),
            (pd.Series(["a", "b", None, "a", "b", None]), [0, 1, 3, 4]),
            (pd.Series([0, 1, -1, 0, 1, -1], index=list("fedcba")), [0, 1, 3, 4]),
            (np.array([True, False, True, False]), [0, 1, 2, 3]),
        ],
        ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
    )
    def test_auto_takes_these_for_classes(self, y, labelled):
        folds = folds_of(SemiSupervisedKFold(2), y)
        assert sorted(np.concatenate([test for _, test, _ in folds])) == labelled
        names = np.asarray(y)
        for _, test, _ in folds:  # two labels a fold, one of each class
            assert len({str(name) for name in names[test]}) == 2

    @pytest.mark.parametrize(
        "y, labelled",
        [
            (np.array([0.5, NAN, -1.0, 2.0, NAN, 3.0]), [0, 2, 3, 5]),
            (np.array([1.0, NAN, -1.0, 2.0, NAN, 3.0]), [0, 2, 3, 5]),
            (np.array([0.5, 1.0, -1.0, 2.0]), [0, 1, 2, 3]),
            (np.array([0.5, None, -1.0, 2.0], dtype=object), [0, 2, 3]),
            (np.array([[0.5, 1.0], [NAN, NAN], [-1.0, -1.0], [2.0, 2.0]]), [0, 2, 3]),
            (pd.DataFrame({"a": [0.5, NAN, 2.0], "b": [1.0, NAN, 2.0]}), [0, 2]),
        ],
    )
    def test_auto_takes_fractions_and_nan_for_regression(self, y, labelled):
        folds = folds_of(SemiSupervisedKFold(2), y)
        assert sorted(np.concatenate([test for _, test, _ in folds])) == labelled

    def test_missing_integers_of_pandas_are_unlabelled(self):
        y = pd.Series([0, 0, None, 1, 1, None], dtype="Int64")
        for task in ("auto", "classification"):
            folds = folds_of(SemiSupervisedKFold(2, task=task), y)
            assert sorted(np.concatenate([test for _, test, _ in folds])) == [0, 1, 3, 4]

    def test_a_column_of_classes_is_read_as_classes(self):
        y = np.array([[0], [1], [-1], [0], [1], [-1]])
        with pytest.warns(match="column-vector y"):  # scikit-learn's words for a column
            folds = folds_of(SemiSupervisedKFold(2), y)
        assert sorted(np.concatenate([test for _, test, _ in folds])) == [0, 1, 3, 4]

    def test_the_task_decides_what_minus_one_is(self):
        y = np.array([-1.0, 0.0, 1.0, -1.0])
        as_values = folds_of(SemiSupervisedKFold(2, task="regression"), y)
        as_classes = folds_of(SemiSupervisedKFold(2, task="classification"), y)
        assert sorted(np.concatenate([test for _, test, _ in as_values])) == [0, 1, 2, 3]
        assert sorted(np.concatenate([test for _, test, _ in as_classes])) == [1, 2]

    def test_the_task_decides_what_nan_among_whole_numbers_is(self):
        y = np.array([0.0] * 6 + [1.0] * 2 + [NAN] * 4)
        folds = folds_of(SemiSupervisedKFold(2, task="classification"), y)
        assert [np.sum(y[test] == 1) for _, test, _ in folds] == [1, 1]

    def test_unknown_task(self):
        with pytest.raises(ValueError, match="task='ranking'; expected 'auto'"):
            folds_of(SemiSupervisedKFold(2, task="ranking"), np.array([0, 1]))


class TestErrors:
    def test_more_folds_than_labels(self):
        y = np.array([0, 1, 0] + [-1] * 30)
        with pytest.raises(
            ValueError, match=r"n_splits=4 is more than the 3 labelled rows.*most 3"
        ):
            folds_of(SemiSupervisedKFold(4), y)

    def test_no_labels(self):
        with pytest.raises(ValueError, match="the 0 labelled rows"):
            folds_of(SemiSupervisedKFold(2), np.full(8, -1))

    @pytest.mark.parametrize("n_splits", [1, 0, -3, 2.5, "5", None, True])
    def test_number_of_folds(self, n_splits):
        with pytest.raises(ValueError, match=f"n_splits={n_splits!r}; expected an integer"):
            folds_of(SemiSupervisedKFold(n_splits), np.array([0, 1, 0, 1]))

    @pytest.mark.parametrize("n_repeats", [0, -1, 1.5, "2", True])
    def test_number_of_repeats(self, n_repeats):
        splitter = RepeatedSemiSupervisedKFold(2, n_repeats=n_repeats)
        with pytest.raises(ValueError, match=f"n_repeats={n_repeats!r}; expected an integer"):
            folds_of(splitter, np.array([0, 1, 0, 1]))

    def test_lengths_that_differ(self):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            list(SemiSupervisedKFold(2).split(np.zeros((3, 1)), np.array([0, 1, 0, 1])))

    def test_infinite_label(self):
        with pytest.raises(ValueError, match="infinity"):
            folds_of(SemiSupervisedKFold(2), np.array([0.0, 1.0, np.inf]))


class TestRepeated:
    y = draw_labels(np.random.RandomState(1), 50)

    def test_every_repeat_is_a_partition(self):
        folds = folds_of(RepeatedSemiSupervisedKFold(4, n_repeats=3, random_state=0), self.y)
        assert len(folds) == 12
        for repeat in range(3):
            part = folds[4 * repeat : 4 * repeat + 4]
            tested = np.sort(np.concatenate([test for _, test, _ in part]))
            left_out = np.sort(np.concatenate([unlabelled for _, _, unlabelled in part]))
            assert_array_equal(tested, np.flatnonzero(self.y != -1))
            assert_array_equal(left_out, np.flatnonzero(self.y == -1))

    def test_repeats_differ(self):
        folds = folds_of(RepeatedSemiSupervisedKFold(4, n_repeats=3, random_state=0), self.y)
        firsts = {tuple(folds[4 * repeat][1].tolist()) for repeat in range(3)}
        assert len(firsts) == 3

    def test_the_same_seed_gives_the_same_folds(self):
        def tests(seed):
            splitter = RepeatedSemiSupervisedKFold(4, n_repeats=2, random_state=seed)
            return [test.tolist() for _, test, _ in folds_of(splitter, self.y)]

        assert tests(5) == tests(5)
        assert tests(5) != tests(6)

    def test_task_is_handed_on(self):
        y = np.array([-1.0, 0.0, 1.0, -1.0])
        splitter = RepeatedSemiSupervisedKFold(2, n_repeats=1, random_state=0, task="regression")
        tested = np.concatenate([test for _, test, _ in folds_of(splitter, y)])
        assert sorted(tested) == [0, 1, 2, 3]

    def test_counts(self):
        assert RepeatedSemiSupervisedKFold(4, n_repeats=3).get_n_splits() == 12
        assert SemiSupervisedKFold(4).get_n_splits() == 4

    @pytest.mark.parametrize(
        "splitter",
        [
            SemiSupervisedKFold(4, shuffle=True, random_state=7, task="regression"),
            RepeatedSemiSupervisedKFold(4, n_repeats=3, random_state=7, task="classification"),
        ],
    )
    def test_repr_is_code(self, splitter):
        again = eval(repr(splitter))
        assert type(again) is type(splitter)
        assert vars(again) == vars(splitter)


def moons(n_labels=30, n=300):
    """Two moons of which few rows have labels, and 1,000 more rows for the truth."""
    X, truth = make_moons(n, noise=0.08, random_state=0)
    y = np.where(np.arange(n) < n_labels, truth, -1)
    return X, y, make_moons(1000, noise=0.08, random_state=1)


class TestInScikitLearn:
    """scikit-learn issue 2593: its own folds score the unlabelled rows as a class."""

    @pytest.mark.parametrize(
        "model, grid",
        [
            (
                LapRLSClassifier(kernel_width=0.1, manifold_penalty=10.0),
                {"ambient_penalty": [1e-3, 1e-1]},
            ),
            (LapLogisticRegression(kernel_width=0.1), {"manifold_penalty": [1.0, 10.0]}),
            (LabelSpreading(kernel="rbf", gamma=20), {"alpha": [0.1, 0.5]}),
        ],
        ids=["LapRLSClassifier", "LapLogisticRegression", "LabelSpreading"],
    )
    def test_grid_search_reports_the_accuracy_and_not_the_share_of_labels(self, model, grid):
        X, y, (X_test, y_test) = moons()
        plain = GridSearchCV(model, grid, cv=5).fit(X, y)
        ours = GridSearchCV(model, grid, cv=SemiSupervisedKFold(5)).fit(X, y)
        accuracy = ours.score(X_test, y_test)
        assert accuracy > 0.95
        # A model never answers -1, so that the folds of scikit-learn cannot score more than the
        # share of labelled rows, one in ten.
        assert plain.best_score_ <= np.mean(y != -1) + 1e-12
        assert plain.score(X_test, y_test) > 0.95  # though its model is as good
        assert abs(ours.best_score_ - accuracy) < 0.05

    def test_unlabelled_rows_train_and_are_never_scored(self):
        X, y, _ = moons(n_labels=20, n=60)
        scored = []

        def remember(truth, answer):
            scored.extend(truth.tolist())
            return accuracy_score(truth, answer)

        results = cross_validate(
            LapRLSClassifier(kernel_width=0.1),
            X,
            y,
            cv=SemiSupervisedKFold(4),
            scoring=make_scorer(remember),
            return_indices=True,
        )
        assert sorted(scored) == sorted(y[y != -1].tolist())
        # Each fold trains on 15 labels and 30 of the 40 unlabelled rows.
        for train in results["indices"]["train"]:
            assert (np.sum(y[train] != -1), np.sum(y[train] == -1)) == (15, 30)

    def test_cross_val_score_by_hand(self):
        X, y, _ = moons(n_labels=21, n=80)
        model = LapRLSClassifier(kernel_width=0.1, n_neighbors=4)
        cv = SemiSupervisedKFold(3, shuffle=True, random_state=0)
        scores = cross_val_score(model, X, y, cv=cv)
        expected = []
        for train, test, _ in folds_of(cv, y):
            answer = model.fit(X[train], y[train]).predict(X[test])
            expected.append(np.mean(answer == y[test]))
        assert scores.tolist() == expected

    def test_in_a_pipeline_with_names(self):
        X, y, _ = moons(n_labels=40, n=120)
        names = np.array([["lower", "upper"][label] if label != -1 else None for label in y])
        model = make_pipeline(StandardScaler(), LapRLSClassifier(kernel_width=0.1))
        scores = cross_val_score(model, pd.DataFrame(X), names, cv=SemiSupervisedKFold(4))
        assert scores.shape == (4,)
        assert scores.mean() > 0.9

    @pytest.mark.parametrize(
        "cv",
        [SemiSupervisedKFold(4), RepeatedSemiSupervisedKFold(4, n_repeats=2, random_state=0)],
        ids=["once", "repeated"],
    )
    def test_regression(self, cv):
        X = np.linspace(0, 6, 121)[:, None]
        y = np.where(np.arange(121) % 4 == 0, np.sin(X[:, 0]), NAN)
        model = LapRLSRegressor(kernel_width=1.0, ambient_penalty=1e-5, manifold_penalty=1e-3)
        scores = cross_val_score(model, X, y, cv=cv, scoring="r2")
        assert scores.size == cv.get_n_splits()
        assert scores.min() > 0.98


class TestCheckFolds:
    labelled = np.array([True, True, True, True, False, False])

    def test_what_a_fold_holds(self):
        (fold,) = check_folds([([0, 1, 4], [2, 5])], self.labelled)
        assert fold.kept_rows.tolist() == [0, 1, 4]
        assert fold.kept_labels.tolist() == [True, True, False, False]
        assert fold.test_labels.tolist() == [False, False, True, False]
        assert fold.test_rows.tolist() == [2, 5]
        assert fold.n_folds == 4.0  # one label in four is held out

    def test_masks_are_row_numbers(self):
        train = np.array([True, True, False, False, True, False])
        test = np.array([False, False, True, False, False, True])
        (by_mask,) = check_folds([(train, test)], self.labelled)
        (by_number,) = check_folds([([0, 1, 4], [2, 5])], self.labelled)
        for field in ("kept_rows", "kept_labels", "test_labels", "test_rows"):
            assert_array_equal(getattr(by_mask, field), getattr(by_number, field))

    def test_order_does_not_matter(self):
        (fold,) = check_folds([([4, 0, 1], [5, 2])], self.labelled)
        assert fold.kept_rows.tolist() == [0, 1, 4]
        assert fold.test_rows.tolist() == [2, 5]

    def test_rows_out_of_a_fold_are_neither_kept_nor_tested(self):
        (fold,) = check_folds([([0, 1, 4], [2])], self.labelled)
        assert fold.removed_rows.tolist() == [2, 3, 5]
        assert fold.n_kept == 3

    @pytest.mark.parametrize("n", [7, 8, 9, 65])
    def test_rows_that_do_not_fill_a_byte(self, n):
        rows = np.arange(n)
        (fold,) = check_folds([(rows[1:], rows[:1])], rows < 5)
        assert fold.kept_rows.tolist() == rows[1:].tolist()
        assert fold.removed_rows.tolist() == fold.test_rows.tolist() == [0]

    def test_many_folds_of_many_rows_are_small(self):
        """As bits; as numbers, 50 folds would take 360 bytes a row."""
        labelled = np.arange(80_000) < 100
        strata = np.where(labelled, 0, -1)
        cv = RepeatedSemiSupervisedKFold(10, n_repeats=5, random_state=0)
        tracemalloc.start()
        folds = check_folds(cv._split_strata(strata), labelled)
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(folds) == 50
        assert held < 14 * labelled.size
        assert peak < 60 * labelled.size

    @pytest.mark.parametrize(
        "tests, expected",
        [
            ([[0, 1], [2, 3]], [2, 2]),
            ([[0], [1], [2], [3]], [4, 4, 4, 4]),
            ([[0, 1], [2, 3], [0, 2], [1, 3]], [2, 2, 2, 2]),  # two repeats
            ([[0, 1, 2], [3]], [2, 2]),  # a partition, if an uneven one
            ([[0, 1], [1]], [2, 4]),  # no partition: the share that each holds out
        ],
    )
    def test_number_of_folds_of_the_partition(self, tests, expected):
        pairs = [(np.setdiff1d(np.arange(6), test), test) for test in tests]
        assert [fold.n_folds for fold in check_folds(pairs, self.labelled)] == expected

    @pytest.mark.parametrize(
        "splits, message",
        [
            ([], "cv has no folds"),
            ([([0, 1, 2], [2, 3])], "fold 0 of cv has 1 rows in both train and test"),
            ([([0, 1], [2]), ([0, 2, 3], [0, 1, 2])], "fold 1 of cv has 2 rows in both"),
            ([([0, 1, 2], [4, 5]), ([0], [1])], "fold 0 of cv holds out no labelled row"),
            ([([0, 1, 2], [4, 5])], "fold 0 of cv holds out no labelled row"),
            ([([4, 5], [0])], "fold 0 of cv trains on no labelled row"),
            ([([0, 1], [6])], "test row 6; expected row numbers from 0 to 5"),
            ([([-1, 1], [0])], "train row -1; expected row numbers from 0 to 5"),
            ([([0.0, 1.0], [2])], "train rows of dtype float64"),
            ([([0, 1], [[2]])], r"test rows of dtype int64 and shape \(1, 1\)"),
            ([([True, False, False], [2])], r"train rows of dtype bool and shape \(3,\)"),
        ],
    )
    def test_errors_name_the_fold_or_the_value(self, splits, message):
        with pytest.raises(ValueError, match=message):
            check_folds(splits, self.labelled)

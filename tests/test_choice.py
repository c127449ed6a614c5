"""Which candidate a search chooses, by every rule."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_moons
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    SemiSupervisedKFold,
    cross_val_decisions,
)
from onefit.criteria import CRITERIA
from onefit.search.consensus import central, compared_rows
from searches import CV, GRID


@pytest.fixture(scope="module")
def overlapping():
    """Moons and penalties by which every rule chooses another candidate."""
    X, truth = make_moons(120, noise=0.35, random_state=0)
    grid = {"ambient_penalty": np.logspace(-6, 0, 13), "manifold_penalty": [0.0, 1.0, 100.0]}
    return X, np.where(np.arange(120) < 40, truth, -1), grid


class TestRules:
    def test_ties_go_to_the_smaller_loss(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, selection="best").fit(X, y)
        mean, loss = (search.cv_results_[f"mean_test_{k}"] for k in ("score", "loss"))
        tied = mean >= mean.max() - 1e-9
        assert tied.sum() > 1
        assert search.best_index_ == np.flatnonzero(tied)[loss[tied].argmin()]
        assert search.certified_

    def test_one_standard_error(self, moons):
        X, y, _ = moons
        best = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV).fit(X, y)
        cautious = ManifoldSearchCV(
            LapRLSClassifier(), GRID, cv=CV, selection="one_standard_error"
        ).fit(X, y)
        assert cautious.best_params_["ambient_penalty"] >= best.best_params_["ambient_penalty"]


class TestConsensus:
    @pytest.mark.parametrize("options", [{}, {"n_jobs": 2}, {"refine": 1}], ids=str)
    @pytest.mark.parametrize(
        "model",
        [
            LapRLSRegressor(),
            make_pipeline(StandardScaler(), LapRLSRegressor()),
            LapRLSRegressor(n_components=20, random_state=0),
            LapRLSClassifier(),
            LapSVC(fit_intercept=True),
        ],
        ids=["exact", "pipeline", "nystrom", "classes", "intercept"],
    )
    def test_consensus(self, moons, waves, model, options):
        """The candidate in the middle of the best ones, each fitted by itself."""
        X, y, *_ = moons if is_classifier(model) else waves
        prefix = "laprlsregressor__" if isinstance(model, Pipeline) else ""
        grid = {
            f"{prefix}ambient_penalty": np.logspace(-6, 0, 13),
            f"{prefix}kernel_width": [0.3, 1.0, 3.0],
        }
        search = ManifoldSearchCV(model, grid, cv=CV, selection="consensus", **options).fit(X, y)
        mean, loss = (search.cv_results_[f"mean_test_{k}"] for k in ("score", "loss"))
        best = np.lexsort((loss.round(9), -mean.round(9)))
        of_best = [search.cv_results_[f"split{i}_test_score"][best[0]] for i in range(4)]
        near = [i for i in best if mean[i] >= mean.max() - np.std(of_best, ddof=1) / 2][:30]
        assert len(near) > 2
        unlabelled = y == -1 if is_classifier(model) else np.isnan(y)
        decisions = []
        for i in near:
            fitted = clone(model).set_params(**search.cv_results_["params"][i]).fit(X, y)
            if is_classifier(model):
                decisions.append(np.clip(fitted.decision_function(X[unlabelled]), -1.0, 1.0))
            else:
                decisions.append(fitted.predict(X[unlabelled]))
        distances = np.square(decisions - np.median(decisions, axis=0)).sum(axis=1)
        assert search.best_index_ == near[np.argmin(distances)]
        assert search.best_score_ == mean[search.best_index_]

    def test_the_one_in_the_middle(self):
        rng = np.random.default_rng(0)
        middle = rng.normal(size=(1, 20, 2))
        around = middle + 0.1 * rng.choice([-1.0, 1.0], size=(7, 20, 2))
        outlying = middle + 5.0
        assert central(np.concatenate([outlying, around, middle])) == 8
        # Of two, both are equally far from the median: the first has the better score.
        for pair in ([around[0], outlying[0]], [outlying[0], around[0]]):
            assert central(np.array(pair) + 1e-12 * rng.normal(size=(2, 20, 2))) == 0

    def test_numbers_that_are_none_have_no_say(self):
        decisions = np.random.default_rng(0).normal(size=(5, 20, 1))
        decisions[3] = decisions[[0, 1, 2, 4]].mean(axis=0)
        assert central(decisions) == 3
        decisions[1, 7] = np.nan
        assert central(decisions) == 3
        assert central(np.full((3, 4, 1), np.inf)) == 0

    def test_candidates_that_cannot_be_fitted_are_left_out(self):
        rng = np.random.default_rng(9)
        X = rng.normal(size=(90, 2))
        y = np.where(np.arange(90) < 12, X[:, 0] + 1e-8 * rng.normal(size=90), np.nan)
        grid = {
            "ambient_penalty": [1e-8, 1e-12, 1e-14, 1e-16, 1e-18, 1e-20],
            "manifold_penalty": [0.0, 1e-9],
        }
        search = ManifoldSearchCV(LapRLSRegressor(kernel_width=3000.0), grid, cv=4).fit(X, y)
        assert np.isfinite(search.predict(X)).all()

    @pytest.mark.parametrize("scale", [1e-3, 1e3])
    def test_consensus_does_not_depend_on_units(self, waves, scale):
        X, y = waves
        both = np.column_stack([y, np.where(np.isnan(y), np.nan, np.cos(X[:, 1]))])
        grid = {"ambient_penalty": np.logspace(-6, 0, 13), "kernel_width": [0.3, 1.0, 3.0]}
        chosen = [
            ManifoldSearchCV(LapRLSRegressor(), grid, cv=CV).fit(X, both * units).best_index_
            for units in ([1.0, 1.0], [1.0, scale])
        ]
        assert chosen[0] == chosen[1]

    def test_rows_that_are_compared(self):
        labelled = np.zeros(10_000, dtype=bool)
        labelled[:9000] = True
        assert_array_equal(compared_rows(labelled), np.arange(9000, 10_000))
        labelled[:] = np.arange(10_000) % 10 == 0
        rows = compared_rows(labelled)
        assert 500 < rows.size <= 1000
        assert not labelled[rows].any()
        assert np.ptp(rows) > 9900
        assert_array_equal(compared_rows(np.ones(3, dtype=bool)), [0, 1, 2])

    def test_consensus_of_one(self, waves):
        X, y, *_ = waves
        search = ManifoldSearchCV(LapRLSRegressor(), {"ambient_penalty": [0.1]}, cv=CV).fit(X, y)
        assert search.best_index_ == 0

    def test_consensus_when_all_rows_have_labels(self, waves):
        X, _ = waves
        truth = np.sin(2 * X[:, 0])
        grid = {"ambient_penalty": np.logspace(-6, 0, 13)}
        search = ManifoldSearchCV(LapRLSRegressor(), grid, cv=CV).fit(X, truth)
        assert np.mean(np.square(search.predict(X) - truth)) < 0.1 * truth.var()


class TestAuto:
    def test_rule_that_nobody_asked_for(self, overlapping, waves):
        """Consensus for real targets, in a pipeline too; the margin for classes."""
        options = {"cv": CV, "refit": False}
        pipeline = make_pipeline(StandardScaler(), LapRLSRegressor())
        of_targets = {"laprlsregressor__ambient_penalty": np.logspace(-6, 0, 13)}
        for model, (X, y, grid), rule, rivals in (
            (LapSVC(), overlapping, "margin", ("best", "one_standard_error", "consensus")),
            (pipeline, (*waves, of_targets), "consensus", ("best", "one_standard_error")),
        ):
            search = ManifoldSearchCV(model, grid, **options).fit(X, y)
            by_rule = {
                one: ManifoldSearchCV(model, grid, selection=one, **options).fit(X, y).best_index_
                for one in (rule, *rivals)
            }
            assert search.best_index_ == by_rule[rule]
            assert by_rule[rule] not in [by_rule[one] for one in rivals]

    @pytest.mark.parametrize(
        "options",
        [
            {"scoring": "roc_auc"},
            {"scoring": ["accuracy", "f1"], "refit": "f1"},
            {"scoring": {"accuracy": "f1"}, "refit": "accuracy"},
            {"scoring": make_scorer(accuracy_score)},
            {"criterion": "bif", "cv": SemiSupervisedKFold(4)},
            {"criterion": "certified"},
        ],
        ids=str,
    )
    def test_best_where_margins_are_not_asked_for(self, overlapping, options):
        X, y, grid = overlapping
        options = {"cv": CV, **options}
        chosen = [
            ManifoldSearchCV(LapSVC(), grid, selection=one, **options).fit(X, y).best_index_
            for one in ("auto", "best", "margin")
        ]
        assert chosen[0] == chosen[1] != chosen[2]

    @pytest.mark.parametrize(
        "options",
        [
            {"scoring": "accuracy"},
            {"criterion": "newton"},
            {"scoring": ["accuracy", "f1"], "refit": "accuracy"},
            {"scoring": {"right": "accuracy", "f1": "f1"}, "refit": "right"},
        ],
        ids=str,
    )
    def test_margin_wherever_the_accuracy_decides(self, overlapping, options):
        X, y, grid = overlapping
        chosen = [
            ManifoldSearchCV(LapSVC(), grid, cv=CV, selection=one, **options).fit(X, y).best_index_
            for one in ("auto", "margin", "best")
        ]
        assert chosen[0] == chosen[1] != chosen[2]


class TestMargin:
    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("options", [{}, {"holdout": "points"}, {"criterion": "newton"}])
    def test_margin(self, moons, n_classes, options):
        """The clearest of the candidates within one standard error, from their own decisions."""
        X, y, _ = moons
        if n_classes == 3:
            y = np.where((y == 1) & (X[:, 0] > 1.0), 2, y)
        model = LapSVC(kernel_width=0.5)
        grid = {"ambient_penalty": np.logspace(-5, 0, 6), "manifold_penalty": [0.0, 1.0]}
        search = ManifoldSearchCV(model, grid, cv=CV, **options).fit(X, y)
        columns, labelled = search.cv_results_, y != -1
        truth = y[labelled]
        for params, margin in zip(columns["params"], columns["margin"], strict=True):
            one = clone(model).set_params(**params)
            held = cross_val_decisions(one, X, y, cv=CV, **options).predictions[labelled]
            if n_classes == 2:
                m = np.where(truth == 1, 1.0, -1.0) * held
            else:
                m = np.array(
                    [f[c] - np.delete(f, c).max() for f, c in zip(held, truth, strict=True)]
                )
            assert_allclose(margin, m.mean() / np.sqrt(np.square(m).mean()), rtol=1e-6)
        mean = columns["mean_test_score"]
        splits = np.array([columns[f"split{i}_test_score"] for i in range(search.n_splits_)])
        best = np.lexsort((columns["mean_test_loss"].round(9), -mean.round(9)))[0]
        error = splits[:, best].std(ddof=1) / np.sqrt(search.n_splits_)
        near = np.flatnonzero(mean >= mean.max() - error - 1e-12)
        assert near.size > 1
        assert search.best_index_ == near[columns["margin"][near].argmax()]

    def test_margin_does_not_depend_on_the_scale_of_decisions(self, moons):
        """Penalties far above the kernel only scale them."""
        X, y, _ = moons
        grid = {"ambient_penalty": [1e4, 1e7], "manifold_penalty": [0.0]}
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=CV).fit(X, y)
        first, second = search.cv_results_["margin"]
        assert_allclose(first, second, rtol=1e-4)
        assert first > 0.1

    def test_no_margin_of_real_targets(self, waves):
        X, y = waves
        with pytest.raises(ValueError, match="selection='margin' with real targets"):
            ManifoldSearchCV(LapRLSRegressor(), selection="margin").fit(X, y)
        search = ManifoldSearchCV(LapRLSRegressor(), {"ambient_penalty": [0.1]}, cv=CV).fit(X, y)
        assert "margin" not in search.cv_results_

    def test_margin_of_decisions_that_vanish(self):
        """Far from all labels a kernel is 0 to rounding, and there is no scale."""
        X, y = 1e3 * np.arange(12.0)[:, None], np.tile([0, 1], 6)
        grid = {"ambient_penalty": [0.1, 1.0], "manifold_penalty": [0.0]}
        search = ManifoldSearchCV(LapSVC(kernel_width=1.0), grid, cv=CV).fit(X, y)
        assert_array_equal(search.cv_results_["margin"], [0.0, 0.0])


class TestCertified:
    @pytest.mark.parametrize("model", [LapSVC(), LapLogisticRegression(), LapRLSClassifier()])
    def test_race_ends_where_exact_search_does(self, moons, model):
        X, y, _ = moons
        exact = ManifoldSearchCV(model, GRID, cv=CV, selection="best").fit(X, y)
        raced = ManifoldSearchCV(model, GRID, cv=CV, criterion="certified").fit(X, y)
        assert raced.certified_
        assert raced.best_params_ == exact.best_params_
        assert raced.best_score_ == exact.best_score_
        error = np.abs(raced.cv_results_["mean_test_score"] - exact.cv_results_["mean_test_score"])
        assert np.all(error <= raced.cv_results_["error_bound"] + 1e-12)

    def test_race_by_several_scores_is_exact(self, moons):
        X, y, _ = moons
        options = {"cv": CV, "scoring": ["accuracy", "f1"], "refit": "f1"}
        raced = ManifoldSearchCV(LapSVC(), GRID, criterion="certified", **options).fit(X, y)
        exact = ManifoldSearchCV(LapSVC(), GRID, **options).fit(X, y)
        assert raced.certified_
        assert np.array_equal(raced.cv_results_["mean_test_f1"], exact.cv_results_["mean_test_f1"])

    def test_race_does_not_solve_all_candidates(self, moons, monkeypatch):
        X, y, _ = moons
        solved = []

        def counted(*arguments, **options):
            solved.append(arguments)
            return CRITERIA["exact"](*arguments, **options)

        monkeypatch.setattr("onefit.search.held_out.CRITERIA", {**CRITERIA, "exact": counted})
        raced = ManifoldSearchCV(LapLogisticRegression(), GRID, cv=CV, criterion="certified")
        raced.fit(X, y)
        assert len(solved) < len(raced.cv_results_["params"])

    def test_approximations_are_not_certified(self, moons):
        X, y, _ = moons
        assert not ManifoldSearchCV(LapSVC(), GRID, cv=CV, criterion="newton").fit(X, y).certified_
        assert (
            ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, criterion="newton")
            .fit(X, y)
            .certified_
        )

"""Steps of a pipeline as candidates of a search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from models import CLASSIFIERS
from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
)
from onefit.report import render_report
from onefit.search.surface import search_surface
from searches import CV

PENALTIES = {
    "lap__ambient_penalty": [1e-4, 1e-3, 1e-2, 1e-1],
    "lap__manifold_penalty": [0.0, 1.0, 100.0],
}


def pipeline(final, scaler=None):
    return Pipeline([("scale", scaler or StandardScaler()), ("lap", clone(final))])


def search_among(finals, base, **options):
    grid = {"lap": [clone(final) for final in finals], **PENALTIES}
    return ManifoldSearchCV(pipeline(base), grid, **{"cv": CV, **options})


class TestEstimators:
    @pytest.mark.parametrize(
        "options",
        [
            {"criterion": "exact"},
            {"criterion": "exact", "holdout": "points"},
            {"criterion": "newton"},
            {"criterion": "newton", "holdout": "points"},
            {"criterion": "bif", "holdout": "points"},
        ],
        ids=lambda options: "-".join(options.values()),
    )
    def test_scores_are_those_of_each_alone(self, moons, options):
        X, y, _ = moons
        finals = CLASSIFIERS.values()
        found = search_among(finals, LapSVC(), refit=False, **options).fit(X, y).cv_results_
        for final in finals:
            alone = ManifoldSearchCV(pipeline(final), PENALTIES, cv=CV, refit=False, **options)
            expected = alone.fit(X, y).cv_results_
            rows = [repr(params["lap"]) == repr(final) for params in found["params"]]
            assert sum(rows) == len(expected["params"])
            assert [p["lap__ambient_penalty"] for p in np.array(found["params"])[rows]] == [
                p["lap__ambient_penalty"] for p in expected["params"]
            ]
            for column in ("mean_test_loss", "split3_test_score"):
                assert_allclose(found[column][rows], expected[column], rtol=1e-6)

    def test_a_race_among_losses_ends_as_all_scores_do(self, moons):
        X, y, _ = moons
        searches = [
            search_among(CLASSIFIERS.values(), LapSVC(), criterion=criterion, selection="best")
            for criterion in ("certified", "exact")
        ]
        first, second = (search.fit(X, y) for search in searches)
        assert first.best_score_ == second.best_score_
        assert first.certified_

    def test_the_chosen_one_is_fitted_and_those_of_the_grid_are_not(self, moons):
        X, y, truth = moons
        search = search_among([LapRLSClassifier(), LapSVC()], LapLogisticRegression()).fit(X, y)
        chosen = search.best_estimator_["lap"]
        assert type(chosen) is type(search.best_params_["lap"])
        assert search.score(X, truth) > 0.8
        for final in search.param_grid["lap"]:
            assert final is not chosen
            assert not hasattr(final, "classes_")
            assert final.ambient_penalty == type(final)().ambient_penalty

    def test_probabilities_are_of_the_candidate(self, moons):
        X, y, _ = moons
        logistic = search_among([LapLogisticRegression()], LapSVC(), scoring="neg_log_loss")
        alone = ManifoldSearchCV(
            pipeline(LapLogisticRegression()), PENALTIES, cv=CV, scoring="neg_log_loss"
        )
        name = "mean_test_score"
        assert_allclose(
            logistic.fit(X, y).cv_results_[name], alone.fit(X, y).cv_results_[name], rtol=1e-6
        )
        with pytest.raises(ValueError, match="probabilities, which LapSVC does not have"):
            search_among([LapSVC()], LapLogisticRegression(), scoring="neg_log_loss").fit(X, y)

    @pytest.mark.parametrize(
        "final", [LapRLSRegressor(), StandardScaler(), "passthrough", None], ids=repr
    )
    def test_what_cannot_take_the_place(self, moons, final):
        X, y, _ = moons
        search = ManifoldSearchCV(pipeline(LapSVC()), {"lap": [final]}, cv=CV)
        with pytest.raises(TypeError, match=r"param_grid has lap=.*; expected a classifier of"):
            search.fit(X, y)

    def test_in_a_report(self, moons):
        X, y, _ = moons
        search = search_among([LapRLSClassifier(), LapSVC()], LapSVC()).fit(X, y)
        axis = next(axis for axis in search_surface(search).axes if axis.name == "lap")
        assert sorted(axis.levels) == ["LapRLSClassifier()", "LapSVC()"]
        assert "LapRLSClassifier()" in render_report(search, X, y, title="", target_name="")

    def test_checkpoints_tell_them_apart(self, moons, tmp_path):
        X, y, _ = moons
        options = {"checkpoint": str(tmp_path / "search"), "random_state": 0}
        first = search_among([LapSVC()], LapSVC(), **options).fit(X, y)
        other = search_among([LapLogisticRegression()], LapSVC(), **options)
        with pytest.raises(ValueError, match="checkpoint"):
            other.fit(X, y)
        again = search_among([LapSVC()], LapSVC(), **options).fit(X, y)
        column = "mean_fit_time"  # of the first, if it was not worked out again
        assert_allclose(again.cv_results_[column], first.cv_results_[column])


def test_scalers(moons):
    X, y, _ = moons
    scalers = ["passthrough", StandardScaler(), MinMaxScaler()]
    grid = {"scale": scalers, **PENALTIES}
    search = ManifoldSearchCV(pipeline(LapSVC()), grid, cv=CV).fit(X * [1.0, 30.0], y)
    assert not hasattr(scalers[1], "mean_")
    found = search.cv_results_
    for scaler in scalers:
        alone = ManifoldSearchCV(pipeline(LapSVC(), scaler), PENALTIES, cv=CV, refit=False)
        rows = [params["scale"] is scaler for params in found["params"]]
        expected = alone.fit(X * [1.0, 30.0], y).cv_results_["mean_test_loss"]
        assert_allclose(found["mean_test_loss"][rows], expected, rtol=1e-6)

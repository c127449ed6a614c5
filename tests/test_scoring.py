"""Scores of a search: any scorer of scikit-learn, several at once, and formulas of our own."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, f1_score, get_scorer, make_scorer

from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, ManifoldSearchCV
from onefit.search.surface import search_surface
from searches import CV, GRID, Quiet


class TestScoring:
    @pytest.mark.parametrize("scoring", ["roc_auc", "f1", "balanced_accuracy", "accuracy"])
    def test_any_scorer(self, moons, scoring):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=scoring).fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_accuracy_by_name_and_by_scorer_agree(self, moons):
        X, y, _ = moons
        quick = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring="accuracy").fit(X, y)
        slow = ManifoldSearchCV(
            LapRLSClassifier(), GRID, cv=CV, scoring=make_scorer(accuracy_score)
        ).fit(X, y)
        assert np.allclose(
            quick.cv_results_["mean_test_score"], slow.cv_results_["mean_test_score"]
        )

    def test_probabilities(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(LapLogisticRegression(), GRID, cv=CV, scoring="neg_log_loss")
        assert search.fit(X, y).best_score_ < 0

    def test_several(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(
            LapRLSClassifier(), GRID, cv=CV, scoring=["accuracy", "f1"], refit="f1"
        ).fit(X, y)
        results = search.cv_results_
        assert {"mean_test_accuracy", "rank_test_f1", "split0_test_f1"} <= set(results)
        assert search.best_score_ == results["mean_test_f1"].max()

    @pytest.mark.parametrize(
        "scoring, options, said",
        [
            (["accuracy", "f1"], {}, r"refit=True with several scores.*\('accuracy', 'f1'\)"),
            (["accuracy"], {}, "refit=True with several scores"),
            (["accuracy", "f1"], {"refit": "recall"}, "refit='recall' with several scores"),
            (["accuracy", "f1"], {"refit": ""}, "refit='' with several scores"),
            ({"score": "accuracy", "f1": "f1"}, {}, "refit=True with several scores"),
            (["accuracy", "f1"], {"refit": False, "refine": 1}, "refine=1 with several scores"),
            (None, {"refit": ["score"]}, r"refit=\['score'\] is of type list"),
            (None, {"refit": None}, "refit=None is of type NoneType"),
        ],
    )
    def test_what_to_choose_by_is_asked_before_any_work(self, scoring, options, said):
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, scoring=scoring, **options)
        with pytest.raises((TypeError, ValueError), match=said):
            search.fit(None, None)

    def test_a_score_among_others_may_be_called_score(self, moons):
        X, y, _ = moons
        wrong = make_scorer(accuracy_score, greater_is_better=False)  # chooses the worst
        scoring = {"score": "accuracy", "wrong": wrong}
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=scoring)
        for name in scoring:
            search.set_params(refit=name, selection="best").fit(X, y)
            best = search.cv_results_[f"mean_test_{name}"]
            assert search.best_score_ == best[search.best_index_] == best.max()
            assert search_surface(search).mean is best

    def test_scores_whose_names_end_alike(self, moons):
        X, y, _ = moons
        scoring = {"f1": "f1", "of_test_f1": "accuracy"}
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=scoring, refit="f1")
        surface = search_surface(search.fit(X, y))
        assert_allclose(surface.splits.mean(axis=1), search.cv_results_["mean_test_f1"])

    @pytest.mark.parametrize("scoring", [{"loss": "f1"}, Quiet({"loss": 1.0})], ids=["dict", "own"])
    def test_a_score_cannot_take_the_column_of_the_loss(self, moons, scoring):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=scoring, refit="loss")
        with pytest.raises(ValueError, match="a score is called 'loss'"):
            search.fit(X, y)

    def test_a_refit_of_numpy_is_a_boolean(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, refit=np.False_).fit(X, y)
        assert not hasattr(search, "best_estimator_")

    def test_callables(self, moons):
        X, y, _ = moons

        def both(model, X, y):
            predicted = model.predict(X)
            return {"a": accuracy_score(y, predicted), "f": f1_score(y, predicted)}

        search = ManifoldSearchCV(
            LapRLSClassifier(), GRID, cv=CV, scoring=both, refit=lambda results: 3
        ).fit(X, y)
        assert search.best_index_ == 3
        assert "mean_test_f" in search.cv_results_

    def test_lists(self, moons):
        X, y, _ = moons
        arrays = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring="f1").fit(X, y)
        lists = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring="f1")
        lists.fit(X.tolist(), y.tolist())
        assert lists.best_score_ == arrays.best_score_

    @pytest.mark.parametrize("value", [np.inf, -np.inf, None, "1.0", [1.0, 2.0], 1j], ids=repr)
    def test_scores_that_are_no_numbers(self, moons, value):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV)
        said = f"Quiet() returned {value!r} as '{{}}'; expected a finite number"
        for scoring, name in (
            (Quiet(value), "score"),
            ({"mine": Quiet(value)}, "mine"),
            (Quiet({"fine": 1.0, "bad": value}), "bad"),
        ):
            with pytest.raises(ValueError, match=re.escape(said.format(name))):
                search.set_params(scoring=scoring, refit=False).fit(X, y)

    def test_a_scorer_sees_the_fold_and_nothing_else(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(
            LapRLSClassifier(), GRID, cv=CV, scoring=lambda e, X, y: len(e.predict(X[:1]))
        )
        with pytest.raises(ValueError, match="all at once"):
            search.fit(X, y)

    def test_probabilities_that_the_model_does_not_have(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring="neg_log_loss")
        with pytest.raises(ValueError, match="LapLogisticRegression"):
            search.fit(X, y)


class TestQuickScores:
    """Scores with a direct formula equal scikit-learn's, fold by fold."""

    @staticmethod
    def scores(search, name="score"):
        columns = [f"split{i}_test_{name}" for i in range(search.n_splits_)]
        return np.array([search.cv_results_[column] for column in columns])

    @pytest.mark.parametrize("scoring", ["balanced_accuracy", "roc_auc", "accuracy"])
    @pytest.mark.parametrize("data", ["moons", "wine"])
    def test_classes(self, request, data, scoring):
        X, y, _ = request.getfixturevalue(data)
        if data == "wine" and scoring == "roc_auc":
            pytest.skip("scikit-learn has it for two classes only")
        quick = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=scoring).fit(X, y)
        slow = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=get_scorer(scoring)).fit(
            X, y
        )
        assert np.allclose(self.scores(quick), self.scores(slow))

    @pytest.mark.parametrize("scoring", ["neg_mean_absolute_error", "neg_root_mean_squared_error"])
    @pytest.mark.parametrize("n_outputs", [1, 2])
    def test_targets(self, waves, scoring, n_outputs):
        X, y = waves
        Y = y if n_outputs == 1 else np.column_stack([y, np.square(y)])
        quick = ManifoldSearchCV(LapRLSRegressor(), GRID, cv=CV, scoring=scoring).fit(X, Y)
        slow = ManifoldSearchCV(LapRLSRegressor(), GRID, cv=CV, scoring=get_scorer(scoring)).fit(
            X, Y
        )
        assert np.allclose(self.scores(quick), self.scores(slow))

    def test_a_score_that_no_candidate_has(self, moons):
        """Two labels of a class in five folds: three folds have no area under the ROC curve."""
        X, y, _ = moons
        y = y.copy()
        y[np.flatnonzero(y == 1)[2:]] = -1
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=5, scoring="roc_auc")
        with (
            pytest.warns(UndefinedMetricWarning, match="one class"),
            pytest.raises(ValueError, match="nothing to choose by"),
        ):
            search.fit(X, y)

    def test_several(self, moons):
        X, y, _ = moons
        names = ["accuracy", "roc_auc", "f1"]
        many = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=names, refit="f1").fit(
            X, y
        )
        for name in names:
            one = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, scoring=get_scorer(name)).fit(
                X, y
            )
            assert np.allclose(self.scores(many, name), self.scores(one))

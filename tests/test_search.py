"""ManifoldSearchCV against scikit-learn's GridSearchCV and against cross_val_decisions."""

import pickle
import time

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import loguniform
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.metrics import accuracy_score, make_scorer, mean_squared_error
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    RepeatedSemiSupervisedKFold,
    cross_val_decisions,
)
from onefit.search.geometry import geometry_of
from searches import CV, GRID


def naive_scores(model, params, X, y, score, cv=CV, **options):
    """Mean over folds of a score of cross_val_decisions, and the scores."""
    held = cross_val_decisions(clone(model).set_params(**params), X, y, cv=cv, **options)
    scores = [
        score(y[rows], d) for rows, d in zip(held.fold_rows, held.fold_predictions, strict=True)
    ]
    return np.mean(scores), scores


def accuracy(y, decisions):
    predicted = decisions > 0 if decisions.ndim == 1 else decisions.argmax(axis=1)
    return np.mean(predicted == y)


class TestScores:
    @pytest.mark.parametrize("model", [LapRLSClassifier(), LapSVC(), LapLogisticRegression()])
    @pytest.mark.parametrize("holdout", ["labels", "points"])
    @pytest.mark.parametrize("criterion", ["exact", "newton", "bif"])
    def test_equal_those_of_single_candidates(self, moons, model, holdout, criterion):
        X, y, _ = moons
        search = ManifoldSearchCV(model, GRID, cv=CV, criterion=criterion, holdout=holdout)
        search.fit(X, y)
        for i, params in enumerate(search.cv_results_["params"]):
            mean, scores = naive_scores(
                model, params, X, y, accuracy, criterion=criterion, holdout=holdout
            )
            assert search.cv_results_["mean_test_score"][i] == pytest.approx(mean)
            for j, score in enumerate(scores):
                assert search.cv_results_[f"split{j}_test_score"][i] == pytest.approx(score)

    def test_multi_class_and_weights(self, wine):
        X, y, _ = wine
        grid = {
            "kernel_width": [5.0, 20.0],
            "ambient_penalty": [1e-4, 1e-2],
            "manifold_penalty": [1.0, 100.0],
            "class_weight": [None, "balanced"],
            "fit_intercept": [False, True],
        }
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=CV).fit(X, y)
        for i, params in enumerate(search.cv_results_["params"]):
            mean, _ = naive_scores(LapRLSClassifier(), params, X, y, accuracy)
            assert search.cv_results_["mean_test_score"][i] == pytest.approx(mean)

    def test_regression(self, waves):
        X, y = waves
        search = ManifoldSearchCV(
            LapRLSRegressor(), GRID, cv=CV, scoring="neg_mean_squared_error"
        ).fit(X, y)
        for i, params in enumerate(search.cv_results_["params"]):
            mean, _ = naive_scores(
                LapRLSRegressor(), params, X, y, lambda a, b: -mean_squared_error(a, b)
            )
            assert search.cv_results_["mean_test_score"][i] == pytest.approx(mean, rel=1e-8)

    def test_regression_scores_are_shares_of_the_variance_of_all_labels(self, waves):
        """R^2 on folds of two labels would be noise: the variance is that of all labels."""
        X, y = waves
        search = ManifoldSearchCV(LapRLSRegressor(), GRID, cv=CV).fit(X, y)
        variance = np.nanvar(y)
        for i, params in enumerate(search.cv_results_["params"]):
            mean, _ = naive_scores(
                LapRLSRegressor(),
                params,
                X,
                y,
                lambda a, b: 1.0 - mean_squared_error(a, b) / variance,
            )
            assert search.cv_results_["mean_test_score"][i] == pytest.approx(mean, rel=1e-8)

    def test_points_held_out_equal_grid_search(self, moons):
        """With a graph that does not depend on the rows kept, scikit-learn refits the same."""
        X, y, _ = moons
        grid = {k: v for k, v in GRID.items() if k != "manifold_penalty"}
        grid["manifold_penalty"] = [0.0]
        ours = ManifoldSearchCV(LapSVC(), grid, cv=CV, holdout="points").fit(X, y)
        theirs = GridSearchCV(LapSVC(), grid, cv=CV).fit(X, y)
        for key in theirs.cv_results_:
            assert key in ours.cv_results_ or "time" in key
        assert np.allclose(
            ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
        )
        assert ours.best_score_ == pytest.approx(theirs.best_score_)

    def test_repeated_folds(self, moons):
        X, y, _ = moons
        cv = RepeatedSemiSupervisedKFold(3, n_repeats=2, random_state=1)
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=cv).fit(X, y)
        assert search.n_splits_ == 6
        mean, _ = naive_scores(LapRLSClassifier(), search.best_params_, X, y, accuracy, cv=cv)
        assert search.best_score_ == pytest.approx(mean)


class TestDropIn:
    def test_predicts_like_its_best_estimator(self, moons):
        X, y, truth = moons
        search = ManifoldSearchCV(LapLogisticRegression(), GRID, cv=CV).fit(X, y)
        best = LapLogisticRegression(**search.best_params_).fit(X, y)
        assert np.array_equal(search.predict(X), best.predict(X))
        assert np.allclose(search.decision_function(X), best.decision_function(X))
        assert np.allclose(search.predict_proba(X), best.predict_proba(X))
        assert search.score(X, truth) == pytest.approx(best.score(X, truth))
        assert np.array_equal(search.classes_, [0, 1])
        assert search.n_features_in_ == 2

    def test_clone_pickle_repr(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV)
        fitted = pickle.loads(pickle.dumps(clone(search).fit(X, y)))
        assert np.array_equal(fitted.predict(X), search.fit(X, y).predict(X))
        assert "ManifoldSearchCV" in fitted._repr_html_()

    def test_pipeline_inside(self, wine):
        X, y, truth = wine
        pipeline = Pipeline(
            [("scale", StandardScaler()), ("pca", PCA()), ("lap", LapRLSClassifier())]
        )
        grid = {"pca__n_components": [2, 5], "lap__ambient_penalty": [1e-4, 1e-2]}
        search = ManifoldSearchCV(pipeline, grid, cv=CV).fit(X, y)
        Z = make_pipeline(StandardScaler(), PCA(2)).fit_transform(X)
        mean, _ = naive_scores(LapRLSClassifier(), {"ambient_penalty": 1e-4}, Z, y, accuracy)
        index = search.cv_results_["params"].index(
            {"lap__ambient_penalty": 1e-4, "pca__n_components": 2}
        )
        assert search.cv_results_["mean_test_score"][index] == pytest.approx(mean)
        assert np.mean(search.predict(X) == truth) > 0.9

    def test_pipeline_outside(self, wine):
        X, y, truth = wine
        model = make_pipeline(StandardScaler(), ManifoldSearchCV(LapRLSClassifier(), cv=CV))
        assert np.mean(model.fit(X, y).predict(X) == truth) > 0.9

    def test_steps_that_need_labels_are_refused(self, wine):
        X, y, _ = wine
        pipeline = make_pipeline(SelectKBest(k=3), LapRLSClassifier())
        with pytest.raises(ValueError, match="do not need y"):
            ManifoldSearchCV(pipeline, {"laprlsclassifier__ambient_penalty": [1.0]}).fit(X, y)

    def test_nested_cross_validation(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=3)
        assert cross_val_score(search, X, y, cv=CV).mean() > 0.7

    def test_sample_weight(self, moons):
        X, y, _ = moons
        weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV).fit(X, y, sample_weight=weight)
        mean, _ = naive_scores(
            LapRLSClassifier(), search.best_params_, X, y, accuracy, sample_weight=weight
        )
        assert search.best_score_ == pytest.approx(mean)
        best = LapRLSClassifier(**search.best_params_).fit(X, y, weight)
        assert np.allclose(search.decision_function(X), best.decision_function(X))


class TestCandidates:
    def test_default_grid_is_good(self, moons):
        X, y, truth = moons
        search = ManifoldSearchCV(LapRLSClassifier(), random_state=0).fit(X, y)
        assert np.mean(search.predict(X) == truth) > 0.9

    @pytest.mark.parametrize(
        "model, smallest, narrowest",
        [(LapRLSRegressor(), 1e-8, 1 / 4), (LapSVC(), 1e-6, 1 / 64)],
        ids=["values", "classes"],
    )
    def test_default_grid_of(self, moons, model, smallest, narrowest):
        from onefit.search.candidates import default_grid, list_candidates

        X, _, _ = moons
        candidates = list_candidates(default_grid(model, X), None, None)
        graphs = {(one["laplacian"], one["graph_weights"]) for one in candidates}
        assert graphs == {("unnormalized", "heat"), ("normalized", "binary")}
        widths = {one["kernel_width"] for one in candidates}
        median = np.median(pdist(X, "sqeuclidean"))
        np.testing.assert_allclose([min(widths), max(widths)], median * np.array([narrowest, 256]))
        assert min(one["ambient_penalty"] for one in candidates) == pytest.approx(smallest)
        assert 0.0 in {one["manifold_penalty"] for one in candidates}

    def test_paper_grid(self):
        from onefit.search.candidates import list_candidates, paper_grid

        assert len(list_candidates(paper_grid(), None, None)) == 13_365

    def test_random(self, moons):
        X, y, _ = moons
        grid = {"ambient_penalty": loguniform(1e-6, 1e2), "kernel_width": [0.1, 1.0]}
        search = ManifoldSearchCV(LapRLSClassifier(), grid, n_iter=7, cv=CV, random_state=0).fit(
            X, y
        )
        assert len(search.cv_results_["params"]) == 7
        again = ManifoldSearchCV(LapRLSClassifier(), grid, n_iter=7, cv=CV, random_state=0).fit(
            X, y
        )
        assert again.best_params_ == search.best_params_
        with pytest.raises(ValueError, match="n_iter"):
            ManifoldSearchCV(LapRLSClassifier(), grid, cv=CV).fit(X, y)

    def test_list_of_grids(self, moons):
        X, y, _ = moons
        grid = [{"kernel": ["linear"]}, {"kernel": ["gaussian"], "kernel_width": [0.1, 1.0]}]
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=CV).fit(X, y)
        assert search.cv_results_["param_kernel_width"].mask.tolist() == [True, False, False]
        assert search.n_groups_ == 3

    def test_neighbours_and_laplacians(self, moons):
        X, y, _ = moons
        grid = {
            "n_neighbors": [2, 4, 8],
            "laplacian": ["unnormalized", "normalized"],
            "graph_weights": ["heat", "binary"],
            "manifold_penalty": [100.0],
        }
        search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=CV).fit(X, y)
        for i, params in enumerate(search.cv_results_["params"]):
            mean, _ = naive_scores(LapRLSClassifier(), params, X, y, accuracy)
            assert search.cv_results_["mean_test_score"][i] == pytest.approx(mean)


class TestRefinement:
    def test_goes_beyond_the_grid(self, waves):
        X, y = waves
        options = {"cv": CV, "scoring": "neg_mean_squared_error", "selection": "best"}
        coarse = ManifoldSearchCV(LapRLSRegressor(), GRID, **options).fit(X, y)
        fine = ManifoldSearchCV(LapRLSRegressor(), GRID, refine=2, **options).fit(X, y)
        assert fine.best_score_ > coarse.best_score_
        n = len(coarse.cv_results_["params"])
        assert fine.cv_results_["params"][:n] == coarse.cv_results_["params"]
        mean, _ = naive_scores(
            LapRLSRegressor(), fine.best_params_, X, y, lambda a, b: -mean_squared_error(a, b)
        )
        assert fine.best_score_ == pytest.approx(mean, rel=1e-8)


class TestParallel:
    def test_same_results(self, moons):
        X, y, _ = moons
        one = ManifoldSearchCV(LapSVC(), GRID, cv=CV).fit(X, y)
        two = ManifoldSearchCV(LapSVC(), GRID, cv=CV, n_jobs=2).fit(X, y)
        for key, column in one.cv_results_.items():
            if "time" not in key:
                np.testing.assert_array_equal(column, two.cv_results_[key])


class TestMemory:
    def test_switches_to_nystrom(self, moons):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, memory_limit=3e5)
        with pytest.warns(UserWarning, match="using n_components"):
            search.fit(X, y)

    def test_too_little(self, moons):
        X, y, _ = moons
        with pytest.raises(MemoryError, match="memory_limit"):
            ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, memory_limit=100).fit(X, y)


class TestErrors:
    @pytest.mark.parametrize(
        "params, message",
        [
            ({"criterion": "fast"}, "criterion='fast'"),
            ({"holdout": "rows"}, "holdout='rows'"),
            ({"selection": "median"}, "selection='median'"),
            ({"param_grid": "papers"}, "param_grid='papers'"),
            ({"param_grid": {"gamma": [1]}}, "Invalid parameter 'gamma'"),
            ({"param_grid": {"kernel_width": [-1.0]}}, "kernel_width=-1.0"),
            ({"param_grid": []}, "holds no candidates"),
        ],
    )
    def test_bad_parameters(self, moons, params, message):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV).set_params(**params)
        with pytest.raises(ValueError, match=message):
            search.fit(X, y)

    @pytest.mark.parametrize(
        "params, message",
        [
            ({"param_grid": 5}, "param_grid=5 is of type int; expected a dict"),
            ({"param_grid": {1: [2]}}, r"param_grid holds \{1: \[2\]\}; expected a dict"),
            ({"param_grid": ["kernel_width"]}, "param_grid holds 'kernel_width'; expected a dict"),
            ({"n_jobs": "a"}, "n_jobs='a' is of type str; expected an integer"),
            ({"verbose": None}, "verbose=None is of type NoneType; expected an integer"),
        ],
    )
    def test_parameters_of_another_type(self, moons, params, message):
        X, y, _ = moons
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV).set_params(**params)
        with pytest.raises(TypeError, match=message):
            search.fit(X, y)

    def test_other_estimators(self, moons):
        X, y, _ = moons
        with pytest.raises(TypeError, match="expected LapRLSRegressor"):
            ManifoldSearchCV(StandardScaler(), {}).fit(X, y)


def test_a_precomputed_graph_is_one_graph(moons):
    """Candidates that share a matrix share its factorisation, and its memory."""
    X, y, _ = moons
    graph = kneighbors_graph(X, 6)
    graph = graph.maximum(graph.T)
    grid = {key: values for key, values in GRID.items() if key != "graph_width"}
    search = ManifoldSearchCV(LapRLSClassifier(graph=graph), grid, cv=CV).fit(X, y)
    assert search.n_groups_ == len(grid["kernel_width"])
    both = {**grid, "graph": [graph, 2 * graph]}
    assert ManifoldSearchCV(LapRLSClassifier(), both, cv=CV).fit(X, y).n_groups_ == 4


class TestMetadata:
    """What fit is given goes where it was asked for, as in GridSearchCV."""

    @pytest.fixture
    def weights(self, moons):
        return np.random.default_rng(0).uniform(0.2, 3.0, len(moons[1]))

    def test_weights_reach_a_pipeline_by_either_name(self, moons, weights):
        X, y, _ = moons
        plain = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV).fit(X, y, weights)
        grid = {f"laprlsclassifier__{key}": values for key, values in GRID.items()}
        search = ManifoldSearchCV(make_pipeline("passthrough", LapRLSClassifier()), grid, cv=CV)
        for options in ({"sample_weight": weights}, {"laprlsclassifier__sample_weight": weights}):
            search.fit(X, y, **options)
            assert np.allclose(
                search.cv_results_["mean_test_loss"], plain.cv_results_["mean_test_loss"]
            )
        with pytest.raises(TypeError, match="both"):
            search.fit(X, y, weights, laprlsclassifier__sample_weight=weights)

    def test_groups_reach_the_splitter(self, moons):
        X, y, _ = moons
        groups = np.arange(len(y)) // 7
        cv = GroupKFold(4)
        given = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=cv).fit(X, y, groups=groups)
        pairs = list(cv.split(X, y, groups))
        split = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=pairs).fit(X, y)
        assert np.array_equal(
            given.cv_results_["mean_test_score"], split.cv_results_["mean_test_score"]
        )

    def test_what_nobody_knows_is_refused(self, moons):
        X, y, _ = moons
        with pytest.raises(TypeError, match="'colour'"):
            ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV).fit(X, y, colour=1)

    def test_routing(self, moons, weights):
        X, y, _ = moons
        plain = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV).fit(X, y, weights)
        known = np.flatnonzero(y != -1)
        with config_context(enable_metadata_routing=True):
            model = LapRLSClassifier().set_fit_request(sample_weight=True)
            scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
            search = ManifoldSearchCV(model, GRID, cv=CV, scoring=scorer)
            search.fit(X, y, sample_weight=weights)
            silent = LapRLSClassifier().set_fit_request(sample_weight=False)
            unweighted = ManifoldSearchCV(silent, GRID, cv=CV, scoring=scorer)
            unweighted.fit(X, y, sample_weight=weights)
        same = search.cv_results_["mean_test_loss"], plain.cv_results_["mean_test_loss"]
        assert np.allclose(*same)
        assert not np.allclose(unweighted.cv_results_["mean_test_loss"], same[0])
        held = cross_val_decisions(
            LapRLSClassifier(**search.best_params_), X, y, cv=CV, sample_weight=weights
        )
        scores = [
            np.average((d > 0) == y[rows], weights=weights[rows])
            for rows, d in zip(held.fold_rows, held.fold_predictions, strict=True)
        ]
        assert known.size == sum(len(rows) for rows in held.fold_rows)
        assert search.best_score_ == pytest.approx(np.mean(scores))

    def test_routing_needs_a_request(self, moons, weights):
        X, y, _ = moons
        with config_context(enable_metadata_routing=True):
            search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV)
            with pytest.raises(ValueError, match="sample_weight"):
                search.fit(X, y, sample_weight=weights)


class TestReview:
    """What a reviewer found."""

    def test_the_refit_is_what_was_cross_validated(self, wine):
        X, y, _ = wine
        search = ManifoldSearchCV(
            LapRLSClassifier(random_state=0),
            {"ambient_penalty": [1e-3, 1e-1]},
            cv=CV,
            memory_limit=300_000,
        )
        with pytest.warns(UserWarning, match="n_components"):
            search.fit(X, y)
        used = search.cv_results_["n_components"][search.best_index_]
        assert search.best_estimator_.n_components == used < len(X)

    def test_long_arrays_in_preprocessing_are_told_apart(self, moons):
        X, y, _ = moons

        def scaled(X, w):
            return X * w[600]

        one, other = np.ones(1230), np.ones(1230)
        other[600] = 1e-3
        pipeline = Pipeline([("scale", FunctionTransformer(scaled)), ("model", LapRLSClassifier())])
        pipeline.set_params(scale__kw_args={"w": one})
        grid = {"scale__kw_args": [{"w": one}, {"w": other}], "model__kernel_width": [0.5]}
        both = ManifoldSearchCV(pipeline, grid, cv=CV).fit(X, y).cv_results_["mean_test_loss"]
        for i, kw_args in enumerate(grid["scale__kw_args"]):
            alone = {**grid, "scale__kw_args": [kw_args]}
            found = ManifoldSearchCV(pipeline, alone, cv=CV).fit(X, y).cv_results_
            assert both[i] == pytest.approx(found["mean_test_loss"][0])
        assert both[0] != pytest.approx(both[1], rel=1e-3)

    def test_times_hold_what_candidates_have_in_common(self, wine, monkeypatch):
        X, y, _ = wine

        def slow(*arguments):
            time.sleep(0.3)
            return geometry_of(*arguments)

        monkeypatch.setattr("onefit.search.jobs.geometry_of", slow)
        search = ManifoldSearchCV(LapRLSClassifier(), GRID, cv=CV, refit=False).fit(X, y)
        columns = search.cv_results_
        shares = (columns["mean_fit_time"] + columns["mean_score_time"]).sum() * search.n_splits_
        assert 0.3 < shares <= search.search_time_ * (1.0 + 1e-6)

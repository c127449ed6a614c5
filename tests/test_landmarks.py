"""Landmarks: how rows are drawn, and the Nystrom approximation against its limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer

import reference
from models import ESTIMATORS
from onefit.kernels import Kernel
from onefit.landmarks import LANDMARK_RULES, randomly_pivoted_cholesky, uniform

N = 40
X = np.random.default_rng(0).normal(size=(N, 3))
every_rule = pytest.mark.parametrize("rule", LANDMARK_RULES)


def clusters(seed=0):
    """One large cluster and nine small ones, which uniform landmarks miss."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(10.0 * rng.normal(size=(10, 2)), [300, *[5] * 9], axis=0)
    return centres + 0.2 * rng.normal(size=centres.shape)


def kernel_error(rows, landmarks, width):
    """Trace of K - C P^+ C', as a share of the trace of K."""
    K = reference.gaussian_kernel(rows, rows, width)
    C, P = K[:, landmarks], K[np.ix_(landmarks, landmarks)]
    return np.trace(K - C @ np.linalg.pinv(P, rcond=1e-12, hermitian=True) @ C.T) / len(rows)


def mean_error(rule, rows, c, width=1.0, n_seeds=10):
    choose = LANDMARK_RULES[rule]
    seeds = (np.random.RandomState(seed) for seed in range(n_seeds))
    kernel = Kernel("gaussian", width)
    return np.mean([kernel_error(rows, choose(kernel, rows, c, rng), width) for rng in seeds])


class TestLandmarks:
    @every_rule
    def test_rows_are_distinct_sorted_and_repeatable(self, rule):
        choose = LANDMARK_RULES[rule]
        rows, again, other = (
            choose(Kernel("gaussian", 0.5), X, 12, np.random.RandomState(seed))
            for seed in (0, 0, 1)
        )
        assert len(rows) == 12
        assert (np.diff(rows) > 0).all()
        assert rows.min() >= 0
        assert rows.max() < N
        np.testing.assert_array_equal(rows, again)
        assert set(rows.tolist()) != set(other.tolist())

    @every_rule
    def test_error_falls_as_landmarks_are_added(self, rule):
        errors = [mean_error(rule, clusters(), c) for c in (5, 10, 20, 40, 80)]
        assert (np.diff(errors) < 0).all()

    @pytest.mark.parametrize("c, gain", [(10, 1.5), (20, 5.0), (40, 100.0)])
    def test_pivoting_beats_uniform_on_clusters(self, c, gain):
        # Over 40 seeds the mean errors were 0.117 and 0.060, 0.098 and 0.009, 0.076 and 0.0002.
        by_rule = {rule: mean_error(rule, clusters(), c, n_seeds=20) for rule in LANDMARK_RULES}
        assert by_rule["rpcholesky"] * gain < by_rule["uniform"]

    def test_uniform_landmarks_are_uniform(self):
        counts = np.zeros(10)
        for seed in range(2000):
            counts[uniform(Kernel(), X[:10], 3, np.random.RandomState(seed))] += 1
        # Each row with probability 3/10: the standard deviation of a count is 20.
        assert np.abs(counts - 600).max() < 100

    def test_pivots_in_blocks_have_the_distribution_of_single_ones(self):
        rows = np.random.default_rng(2).gamma(1.0, size=(40, 1)) * np.eye(40) + 0.05
        K = rows @ rows.T
        counts = np.zeros((2, 40))
        for seed in range(300):
            state = np.random.RandomState(seed)
            counts[0, randomly_pivoted_cholesky(Kernel("linear"), rows, 20, state)] += 1
            residual = K.copy()
            for _ in range(20):
                p = np.maximum(np.diagonal(residual), 0.0)
                i = state.choice(40, p=p / p.sum())
                counts[1, i] += 1
                residual -= np.outer(residual[i], residual[i]) / residual[i, i]
        # The standard deviation of a difference is at most 12.
        assert np.abs(counts[0] - counts[1]).max() < 50

    @every_rule
    def test_very_many_rows_are_sampled(self, rule):
        seen = []

        def kernel(A, B):
            seen.append(max(len(A), len(B)))
            return reference.gaussian_kernel(A, B, 1.0)

        rows = np.random.default_rng(0).normal(size=(30_000, 2))
        found = LANDMARK_RULES[rule](Kernel(kernel), rows, 10, np.random.RandomState(0))
        assert len(found) == 10
        assert max(seen, default=0) <= 10_000

    def test_first_pivot_is_drawn_in_proportion_to_the_diagonal(self):
        rows = np.sqrt([[1.0], [2.0], [3.0], [4.0]])
        counts = np.zeros(4)
        state = np.random.RandomState(0)
        for _ in range(2000):
            counts[randomly_pivoted_cholesky(Kernel("linear"), rows, 1, state)] += 1
        # The standard deviation of a count is at most 22.
        assert np.abs(counts - [200, 400, 600, 800]).max() < 110

    def test_pivoting_stops_when_all_is_explained(self):
        rows = np.repeat(X[:6], 5, axis=0)
        landmarks = randomly_pivoted_cholesky(
            Kernel("gaussian", 1.0), rows, 20, np.random.RandomState(0)
        )
        assert sorted(landmarks // 5) == list(range(6))

    def test_pivoting_evaluates_no_more_than_the_columns_it_needs(self):
        calls = []

        def kernel(A, B):
            calls.append(A.shape[0] * B.shape[0])
            return A @ B.T + np.eye(1)

        rows = np.random.default_rng(0).normal(size=(200, 9))
        randomly_pivoted_cholesky(Kernel(kernel), rows, 5, np.random.RandomState(0))
        assert sum(calls[1:]) == 5 * 200


class TestEstimators:
    """The approximation through the door that users take."""

    rows, classes = reference.bundled_data(load_breast_cancer, 150)
    y = np.where(np.arange(150) % 6 == 0, classes, -1).astype(int)
    new, _ = reference.bundled_data(load_breast_cancer, 30, seed=1)

    def _decisions(self, name, **params):
        model = ESTIMATORS[name].__class__(**{**ESTIMATORS[name].get_params(), **params})
        y = np.where(self.y == -1, np.nan, self.y) if name == "regressor" else self.y
        model.fit(self.rows, y)
        rows = np.concatenate([self.rows, self.new])
        return model.predict(rows) if name == "regressor" else model.decision_function(rows)

    @every_rule
    @pytest.mark.parametrize("name", ESTIMATORS)
    @pytest.mark.parametrize("width", [1.0, "median", 2.0**10])
    def test_all_rows_as_landmarks_give_the_exact_solution(self, name, rule, width):
        exact = self._decisions(name, kernel_width=width)
        nystrom = self._decisions(
            name, kernel_width=width, n_components=150, landmarks=rule, random_state=0
        )
        assert_allclose(nystrom, exact, atol=1e-8 * np.abs(exact).max())

    @every_rule
    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_error_falls_as_landmarks_are_added(self, name, rule):
        exact = self._decisions(name)
        errors = [
            np.mean(
                [
                    np.abs(
                        self._decisions(name, n_components=c, landmarks=rule, random_state=seed)
                        - exact
                    ).mean()
                    for seed in range(5)
                ]
            )
            for c in (5, 20, 80, 140)
        ]
        assert (np.diff(errors) < 0).all()

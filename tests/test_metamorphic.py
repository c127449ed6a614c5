"""Changes of the data whose effect theory knows: nothing, a factor, or another order.

Rows have continuous coordinates, so that neighbours are unique; folds are given as row numbers.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

from models import ESTIMATORS
from onefit import LapRLSRegressor, LapSVC, cross_val_decisions

#: Relative to the largest value. Newton's method stops when steps are below 1e-8.
TOL = 1e-6

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
both_holdouts = pytest.mark.parametrize("holdout", ["labels", "points"])
a_few = settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@dataclass
class Case:
    """Rows, targets, folds of labelled rows, and parameters of the model."""

    X: np.ndarray
    y: np.ndarray
    folds: list
    params: dict

    @property
    def is_labelled(self):
        return ~np.isnan(self.y)

    def labels(self, estimator):
        """Targets of a regressor; for a classifier whether they are positive."""
        if isinstance(estimator, LapRLSRegressor):
            return self.y
        return np.where(self.is_labelled, self.y > 0, -1).astype(int)

    def splits(self, holdout):
        """Folds with labels only, or with points too: every third unlabelled row goes along."""
        rows = np.arange(len(self.y))
        unlabelled = rows[~self.is_labelled]
        for i, fold in enumerate(self.folds):
            gone = np.union1d(fold, unlabelled[i::3]) if holdout == "points" else fold
            yield np.setdiff1d(rows, gone), fold

    def model(self, estimator, **changes):
        """The estimator with these parameters.

        The hinge has no intercept: where no label is in its curved part a whole interval of
        intercepts is optimal, and which one is found depends on the order of rows.
        """
        model = clone(estimator).set_params(**{**self.params, **changes})
        is_hinge = getattr(model, "loss", None) == LapSVC().loss
        return model.set_params(fit_intercept=model.fit_intercept and not is_hinge)

    def held_out(self, estimator, holdout, **changes):
        """Held-out decisions of the labelled rows; NaN elsewhere."""
        model = self.model(estimator, **changes)
        y = self.labels(model)
        splits = list(self.splits(holdout))
        return cross_val_decisions(model, self.X, y, cv=splits, holdout=holdout).predictions

    def values(self, estimator, sample_weight=None, **changes):
        """Decisions on all rows."""
        model = self.model(estimator, **changes)
        return model.fit(self.X, self.labels(model), sample_weight)._decisions(self.X)[:, 0]


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_labelled = draw(st.integers(14, 30)), draw(st.integers(6, 10))
    X = rng.normal(size=(n, draw(st.integers(1, 4))))
    y = np.full(n, np.nan)
    labelled = rng.permutation(n)[:n_labelled]
    # Both signs among the labels of all folds but any one of the three.
    y[labelled] = rng.uniform(0.5, 2.0, n_labelled) * np.where(np.arange(n_labelled) % 2, 1, -1)
    folds = [np.sort(labelled[i::3]) for i in range(3)]
    params = {
        "kernel_width": draw(st.floats(0.1, 10.0)),
        "graph_width": draw(st.floats(0.1, 10.0)),
        "n_neighbors": draw(st.integers(1, 5)),
        "ambient_penalty": 10.0 ** draw(st.integers(-4, 1)),
        "manifold_penalty": 10.0 ** draw(st.integers(-4, 2)),
        "laplacian": draw(st.sampled_from(["unnormalized", "normalized"])),
        "fit_intercept": draw(st.booleans()),
    }
    return Case(X, y, folds, params)


def assert_same(values, expected, tol=TOL):
    np.testing.assert_array_equal(np.isnan(values), np.isnan(expected))
    scale = max(1e-3, np.nanmax(np.abs(expected)))
    np.testing.assert_allclose(values, expected, rtol=0.0, atol=tol * scale)


@every_estimator
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
@a_few
def test_the_order_of_rows_does_not_matter(name, case, seed):
    estimator = ESTIMATORS[name]
    order = np.random.default_rng(seed).permutation(len(case.y))
    place = np.argsort(order)
    other = Case(case.X[order], case.y[order], [place[fold] for fold in case.folds], case.params)
    assert_same(other.values(estimator), case.values(estimator)[order])
    # Every third unlabelled row is another one now: labels only.
    held = other.held_out(estimator, "labels")
    assert_same(held, case.held_out(estimator, "labels")[order])


@both_holdouts
@every_estimator
@given(case=cases(), factor=st.sampled_from([1e-6, 0.3, 7.0, 1e5]))
@a_few
def test_scale_of_rows_and_widths(name, holdout, case, factor):
    estimator = ESTIMATORS[name]
    widths = {key: case.params[key] * factor**2 for key in ("kernel_width", "graph_width")}
    other = Case(factor * case.X, case.y, case.folds, {**case.params, **widths})
    assert_same(other.values(estimator), case.values(estimator))
    assert_same(other.held_out(estimator, holdout), case.held_out(estimator, holdout))


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "regressor"])
@given(case=cases())
@a_few
def test_names_of_two_classes(name, case):
    model = case.model(ESTIMATORS[name])
    y = case.labels(model)
    renamed = np.array([None, "b", "a"], dtype=object)[y + 1]  # 0 is "b", which comes second
    first, second = clone(model).fit(case.X, y), clone(model).fit(case.X, renamed)
    assert_same(second.decision_function(case.X), -first.decision_function(case.X))
    sure = np.abs(first.decision_function(case.X)) > TOL
    assert (np.array(["b", "a"])[first.predict(case.X)] == second.predict(case.X))[sure].all()


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "regressor"])
@given(case=cases(), order=st.permutations(range(3)))
@a_few
def test_order_of_several_classes(name, case, order):
    model = case.model(ESTIMATORS[name])
    y = np.full(len(case.y), -1)
    y[case.is_labelled] = np.arange(case.is_labelled.sum()) % 3
    renamed = np.where(y == -1, -1, np.array(order)[y])
    splits = list(case.splits("labels"))
    expected = clone(model).fit(case.X, y).decision_function(case.X)
    values = clone(model).fit(case.X, renamed).decision_function(case.X)
    assert_same(values[:, order], expected)
    held = cross_val_decisions(model, case.X, y, cv=splits).predictions
    assert_same(cross_val_decisions(model, case.X, renamed, cv=splits).predictions[:, order], held)


@every_estimator
@given(case=cases())
@a_few
def test_an_isolated_unlabelled_point(name, case):
    """It only counts in N, the divisor of the manifold penalty."""
    estimator, n = ESTIMATORS[name], len(case.y)
    W = case.model(estimator).fit(case.X, case.labels(estimator)).graph_
    alone = sp.block_diag([W, sp.csr_array((1, 1))], format="csr")
    penalty = case.params["manifold_penalty"] * ((n + 1) / n) ** 2
    rows = np.vstack([case.X, case.X.mean(axis=0) + 1.0])
    other = Case(rows, np.append(case.y, np.nan), case.folds, case.params)
    changes = {"graph": sp.csr_array(alone), "manifold_penalty": penalty}
    assert_same(other.values(estimator, **changes)[:n], case.values(estimator))
    held = other.held_out(estimator, "labels", **changes)[:n]
    assert_same(held, case.held_out(estimator, "labels"))


@both_holdouts
@given(case=cases(), factor=st.sampled_from([-3.0, 1e-9, 1e9]))
@a_few
def test_scale_of_real_targets(holdout, case, factor):
    other = Case(case.X, factor * case.y, case.folds, case.params)
    model = LapRLSRegressor()
    assert_same(other.values(model) / factor, case.values(model))
    assert_same(other.held_out(model, holdout) / factor, case.held_out(model, holdout))


@every_estimator
@given(case=cases(), factor=st.sampled_from([1e-9, 3.0, 1e9]), seed=st.integers(0, 99))
@a_few
def test_scale_of_sample_weights(name, case, factor, seed):
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(case.y))
    expected = case.values(ESTIMATORS[name], weights)
    assert_same(case.values(ESTIMATORS[name], factor * weights), expected)
    assert_same(
        case.values(ESTIMATORS[name], np.full(len(case.y), factor)), case.values(ESTIMATORS[name])
    )


@given(case=cases())
@a_few
def test_without_the_manifold_penalty_it_is_kernel_ridge(case):
    """On the labelled rows alone: KernelRidge minimises the sum of squares, not their mean."""
    known, gamma_A = case.is_labelled, case.params["ambient_penalty"]

    def ridge(rows):
        model = KernelRidge(
            kernel="rbf", gamma=0.5 / case.params["kernel_width"], alpha=gamma_A * rows.sum()
        )
        return model.fit(case.X[rows], case.y[rows]).predict(case.X)

    changes = {"manifold_penalty": 0.0, "fit_intercept": False}
    assert_same(case.values(LapRLSRegressor(), **changes), ridge(known))
    held = np.full(len(case.y), np.nan)
    for fold in case.folds:
        kept = known.copy()
        kept[fold] = False
        held[fold] = ridge(kept)[fold]
    for holdout in ("labels", "points"):
        assert_same(case.held_out(LapRLSRegressor(), holdout, **changes), held)

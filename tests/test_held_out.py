"""Whole planes of held-out decisions against the criteria, which treat one candidate at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine, make_moons
from sklearn.preprocessing import StandardScaler

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    SemiSupervisedKFold,
    cross_val_decisions,
)
from onefit.basis import plane_basis
from onefit.factors import factor_kernel
from onefit.folds import check_folds
from onefit.graphs import Graph, heat_affinity
from onefit.kernels import Kernel
from onefit.neighbors import find_neighbors
from onefit.search.candidates import Candidate
from onefit.search.fold_planes import _updated_form, held_out_points
from onefit.search.held_out import held_out
from onefit.search.scoring import fold_scorer
from onefit.search.task import Task

PENALTIES = [(a, i) for a in (1e-5, 1e-3, 1e-1) for i in (0.0, 1e-3, 1.0, 100.0)]


def moons():
    X, y = make_moons(90, noise=0.1, random_state=0)
    return X, np.where(np.arange(90) % 4 == 0, y, -1)


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(np.arange(len(y)) % 6 == 0, y, -1)


def waves():
    X = np.random.default_rng(0).uniform(-2, 2, (80, 2))
    return X, np.where(np.arange(80) % 4 == 0, np.sin(2 * X[:, 0]), np.nan)


def posed(model, X, y, criterion, n_folds=5, **criterion_params):
    """Task, basis, graph and candidates of a plane of penalties."""
    targets, sample = model._read_labels(X, y, None)
    splits = list(SemiSupervisedKFold(n_folds, shuffle=True, random_state=0).split(X, y))
    folds = check_folds(splits, targets.labelled)
    task = Task(targets, sample, folds, criterion, "points", criterion_params, fold_scorer)
    graph, _ = model._checked_settings()[1].build(X, find_neighbors(X, model.n_neighbors))
    factor = factor_kernel(Kernel(width=model.kernel_width)(X))
    basis = plane_basis(factor, graph.laplacian, np.flatnonzero(targets.labelled))
    candidates = []
    for j, (ambient, manifold) in enumerate(PENALTIES):
        copy = type(model)(**model.get_params())
        copy.set_params(ambient_penalty=ambient, manifold_penalty=manifold)
        candidates.append(Candidate(j, copy))
    return task, basis, graph, candidates, splits


def compare(parts, candidates, X, y, splits, criterion, tol, **criterion_params):
    found = {
        c.index: [d[j] for d in part.decisions]
        for part in parts
        for j, c in enumerate(part.members)
    }
    assert sorted(found) == list(range(len(candidates)))
    for candidate in candidates:
        held = cross_val_decisions(
            candidate.model,
            X,
            y,
            cv=splits,
            criterion=criterion,
            holdout="points",
            criterion_params=criterion_params or None,
        )
        for (_, test), ours in zip(splits, found[candidate.index], strict=True):
            theirs = held.predictions[test].reshape(ours.shape)
            scale = max(1.0, np.abs(theirs).max())
            assert np.abs(ours - theirs).max() <= tol * scale


MODELS = [
    (LapRLSRegressor(kernel_width=1.0, graph_width=0.5, n_neighbors=5), waves),
    (LapRLSRegressor(kernel_width=1.0, graph_width=0.5, fit_intercept=True), waves),
    (LapRLSClassifier(kernel_width=10.0, graph_width=5.0, class_weight="balanced"), wine),
    (LapSVC(kernel_width=0.5, graph_width=0.1), moons),
    (LapSVC(kernel_width=0.5, graph_width=0.1, fit_intercept=True), moons),
    (LapLogisticRegression(kernel_width=10.0, graph_width=5.0, laplacian="normalized"), wine),
]


@pytest.mark.parametrize("criterion", ["exact", "newton"])
@pytest.mark.parametrize("model, data", MODELS)
def test_a_reduction_for_every_fold_equals_iterations(model, data, criterion):
    X, y = data()
    task, basis, graph, candidates, splits = posed(model, X, y, criterion)
    parts = held_out_points(task, basis, graph, candidates)
    compare(list(parts), candidates, X, y, splits, criterion, tol=1e-6)


@pytest.mark.parametrize("is_class", [False, True])
def test_small_folds_are_taken_from_the_basis_of_all_rows(monkeypatch, is_class):
    """As many folds as labels: no form of a fold is made."""
    X, y = make_moons(300, noise=0.1, random_state=0)
    y = np.where(np.arange(300) % 15 == 0, y, -1) if is_class else np.sin(3 * X[:, 0])
    if not is_class:
        y[np.arange(300) % 15 != 0] = np.nan
    model = (LapSVC if is_class else LapRLSRegressor)(
        kernel_width=0.05, graph_width=0.1, n_neighbors=3
    )
    task, basis, graph, candidates, splits = posed(model, X, y, "exact", n_folds=20)
    monkeypatch.setattr("onefit.thinned_basis._STEP", 0)
    for module in ("search.fold_planes", "thinned_basis"):
        monkeypatch.setattr(
            f"onefit.{module}.basis_for_ratios", lambda *a: pytest.fail("made a form")
        )
    parts = list(held_out_points(task, basis, graph, candidates))
    compare(parts, candidates, X, y, splits, "exact", tol=1e-6)


@pytest.mark.parametrize("normalized", [False, True])
def test_the_form_of_a_fold_is_updated_where_few_rows_change(normalized):
    X, _ = waves()
    graph = Graph(heat_affinity(find_neighbors(X, 3), "median")[0], normalized)
    factor = factor_kernel(Kernel(width=1.0)(X))
    full = factor.quadratic_form(graph.operator)
    few, many = graph.only(np.arange(4, 80)), graph.only(np.arange(60, 80))
    updated = _updated_form(factor, graph, few, full)
    assert_allclose(updated, factor.quadratic_form(few.operator), atol=1e-10)
    assert np.abs(updated - full).max() > 1e-3
    assert _updated_form(factor, graph, many, full) is None


NYSTROM = {"hessian": "nystrom", "hessian_components": 20, "random_state": 3}


@pytest.mark.parametrize("options", [{}, NYSTROM], ids=["exact", "nystrom"])
@pytest.mark.parametrize("model, data", MODELS)
def test_influence_on_the_labels_equals_influence_on_all_rows(model, data, options):
    X, y = data()
    task, basis, graph, candidates, splits = posed(model, X, y, "bif", **options)
    parts = held_out(task, basis, graph, candidates)
    compare(list(parts), candidates, X, y, splits, "bif", tol=1e-6, **options)


def test_options_of_the_influence_are_checked_in_planes():
    X, y = moons()
    task, basis, graph, candidates, _ = posed(
        LapSVC(kernel_width=0.5), X, y, "bif", hessian="nystrom", hessian_components=1000
    )
    with pytest.raises(ValueError, match="more than the 90 rows"):
        list(held_out(task, basis, graph, candidates))


def test_few_candidates_are_left_to_the_criterion(monkeypatch):
    """One candidate is no reason to reduce a matrix for every fold."""
    X, y = moons()
    task, basis, graph, candidates, splits = posed(LapSVC(kernel_width=0.5), X, y, "exact")
    monkeypatch.setattr(
        "onefit.search.held_out.held_out_points", lambda *a: pytest.fail("reduced every fold")
    )
    parts = held_out(task, basis, graph, candidates[:2])
    compare(list(parts), candidates[:2], X, y, splits, "exact", tol=1e-6)


@pytest.mark.parametrize(
    "laplacian, n_neighbors", [("unnormalized", 5), ("normalized", 5), ("unnormalized", 40)]
)
def test_many_candidates_go_by_fold_however_many_folds(monkeypatch, laplacian, n_neighbors):
    """Where a fold costs little because it takes few edges away."""
    X, y = moons()
    model = LapRLSClassifier(kernel_width=0.5, laplacian=laplacian, n_neighbors=n_neighbors)
    task, basis, graph, candidates, _ = posed(model, X, y, "exact", n_folds=20)
    asked = []
    monkeypatch.setattr(
        "onefit.search.held_out.held_out_points", lambda *a: iter(asked.append(a) or [])
    )
    list(held_out(task, basis, graph, candidates * 3))
    assert bool(asked) is (laplacian == "unnormalized" and n_neighbors == 5)

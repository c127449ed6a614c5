"""The experiments' planes against the package's criteria, one candidate at a time."""

import csv
import dataclasses
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import euclidean_distances
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from onefit import LapSVC, cross_val_decisions
from onefit.losses import HuberizedHinge
from reference import gaussian_kernel, knn_affinity

ROOT = Path(__file__).parents[1]
if not (ROOT / "experiments").is_dir():  # installed without the repository
    pytest.skip("the experiments are not here", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from experiments import analyse, peers, protocol, selection, store, summary, unit  # noqa: E402

PENALTIES = [1e-5, 1e-2, 1.0]
#: Criterion of the experiments, and the options of cross_val_decisions for the same.
SAME = {
    "exact": {"criterion": "exact", "holdout": "points"},
    "newton": {"criterion": "newton", "holdout": "points"},
    "labels": {"criterion": "exact", "holdout": "labels"},
    "bif": {"criterion": "bif", "holdout": "points"},
    "bif_product": {
        "criterion": "bif",
        "holdout": "points",
        "criterion_params": {"variant": "product"},
    },
    "bif_nystrom": {
        "criterion": "bif",
        "holdout": "points",
        "criterion_params": {"hessian": "nystrom", "random_state": 0},
    },
}


def split(X, y, is_regression):
    X = StandardScaler().fit_transform(X)
    X, X_test, y, y_test = train_test_split(X, y, train_size=150, test_size=60, random_state=0)
    labelled = np.arange(150) % 4 == 0
    if is_regression:
        mean, std = y[labelled].mean(), y[labelled].std()
        hidden = np.where(labelled, (y - mean) / std, np.nan)
        return protocol.Data(X, hidden, X_test, (y_test - mean) / std)
    return protocol.Data(X, np.where(labelled, y, -1), X_test, y_test)


@pytest.fixture(params=["bodyfat", "fourclass"])
def posed(request, monkeypatch):
    """Data of scikit-learn in the place of a set of the paper, and a few candidates."""
    name = request.param
    is_regression = name == "bodyfat"
    load = load_diabetes if is_regression else load_breast_cancer
    data = split(*load(return_X_y=True), is_regression)
    monkeypatch.setattr(protocol, "load", lambda name, repeat: data)
    candidates = [
        {
            "kernel_width": width,
            "n_neighbors": k,
            "graph_width": 8.0,
            "ambient_penalty": ambient,
            "manifold_penalty": manifold,
        }
        for ambient in PENALTIES
        for width, k in ((4.0, 4), (50.0, 8))
        for manifold in (1e-3, 10.0)
    ]
    return name, data, candidates


def assert_figures_are_those_of(model, table, name, data):
    """Held-out errors and losses of every candidate, criterion and t are the package's."""
    known = data.is_known
    y = data.y[known] if data.is_regression else 2.0 * data.y[known] - 1.0
    for criterion, options in SAME.items():
        for i, params in enumerate(table.params):
            for j, t in enumerate(protocol.FOLDS):
                cv = [
                    (fold.kept_rows, fold.test_rows)
                    for fold in protocol.folds(data, known, t, repeat=0)
                ]
                one = clone(model).set_params(**params)
                f = cross_val_decisions(one, data.X, data.y, cv=cv, **options).predictions[known]
                error, loss = table.errors[criterion][i, j], table.losses[criterion][i, j]
                if isinstance(model, LapSVC):
                    expected = HuberizedHinge(0.01).value(y, f).mean()
                    assert loss == pytest.approx(expected, rel=1e-4, abs=1e-5)
                    assert error == pytest.approx(np.mean((f > 0) != (y > 0)))
                else:
                    assert error == pytest.approx(np.mean(np.square(f - y)), rel=1e-6)


def test_figures_are_those_of_single_candidates(posed):
    name, data, candidates = posed
    table = unit.evaluate(name, 0, candidates)
    assert_figures_are_those_of(protocol.model(name), table, name, data)


@pytest.mark.parametrize("posed", ["fourclass"], indirect=True)
def test_figures_of_the_script_are_those_of_laprls_for_classes(posed):
    name, data, _ = posed
    candidates = protocol.script_candidates(int(data.is_known.sum()))
    assert len(candidates) == 36
    model = protocol.script_model(name)
    table = unit.evaluate(name, 0, candidates[::7], model)
    assert_figures_are_those_of(model, table, name, data)
    for params, error in zip(table.params, table.test_error, strict=True):
        fitted = clone(model).set_params(**params).fit(data.X, data.y)
        assert error == data.error(fitted.predict(data.X_test))


@pytest.mark.parametrize("posed", ["bodyfat"], indirect=True)
def test_the_leverage_term_is_that_of_the_script(posed):
    """B / (1 - t) + B / (0.33 (1 - t)^2) / (1 - S) with L[S_i, S_i], in dense matrices."""
    name, data, candidates = posed
    known, N = np.flatnonzero(data.is_known), len(data.X)
    candidates = candidates[::3]
    table = unit.evaluate(name, 0, candidates)
    for params, errors in zip(candidates, table.errors["bif_leverage"], strict=True):
        ambient, manifold = params["ambient_penalty"], params["manifold_penalty"]
        K = gaussian_kernel(data.X, data.X, params["kernel_width"])
        W = knn_affinity(data.X, params["n_neighbors"], params["graph_width"])
        L = np.diag(W.sum(axis=0)) - W
        f = protocol.model(name).set_params(**params).fit(data.X, data.y).transduction_
        H = 2 * ambient * np.eye(N) + 2 * manifold / N**2 * K @ L
        H[:, known] += 2 / known.size * K[:, known]
        for j, t in enumerate(protocol.FOLDS):
            squares = []
            for fold in protocol.folds(data, data.is_known, t, repeat=0):
                S, h = fold.removed_rows, known[fold.test_labels]
                gradient = 2 / h.size * K[:, h] @ (f[h] - data.y[h]) + 2 * ambient * f
                gradient += 2 * manifold / S.size**2 * K[:, S] @ L[np.ix_(S, S)] @ f[S]
                B = -np.linalg.solve(H, gradient)[h]
                ridge = ambient * known.size * np.eye(h.size)
                rest = np.diag(ridge @ np.linalg.inv(K[np.ix_(h, h)] + ridge))
                held = f[h] + B / (1 - t) + B / (0.33 * (1 - t) ** 2) / rest
                squares.extend(np.square(held - data.y[h]))
            assert errors[j] == pytest.approx(np.mean(squares), rel=1e-5)


def test_candidates_of_the_script_are_its_objective():
    """J K / l + lambda_I / N^2 L K + lambda_A / l I, of kernels exp(-2^s d^2)."""
    l, N = 12, 40
    X = np.random.default_rng(0).normal(size=(N, 2))
    y = np.where(np.arange(N) < l, np.sin(X[:, 0]), np.nan)
    W = knn_affinity(X, 5, 1.0)
    L = np.diag(W.sum(axis=0)) - W
    candidates = protocol.script_candidates(l)
    s_and_lambdas = [
        (s, a, i) for a in (0.001, 0.01, 0.1) for s in (-12, -10, -8, -6) for i in (0.01, 0.1, 1.0)
    ]
    for s, a, i in s_and_lambdas:
        K = np.exp(-(2.0**s) * euclidean_distances(X, squared=True))
        J = np.diag((np.arange(N) < l).astype(float))
        alpha = np.linalg.solve(
            J @ K / l + i / N**2 * L @ K + a / l * np.eye(N), J @ np.nan_to_num(y) / l
        )
        (params,) = [
            one
            for one in candidates
            if np.allclose(
                [one["kernel_width"], one["ambient_penalty"], one["manifold_penalty"]],
                [2.0 ** (-s) / 2, a / l, i],
            )
        ]
        model = protocol.script_model("bodyfat").set_params(**params).fit(X, y)
        np.testing.assert_allclose(model.transduction_, K @ alpha, rtol=1e-5, atol=1e-8)


def test_equal_losses_are_not_equal_classes():
    """What docs/reproduction.md says of t-BIF on w1a, with a narrow kernel and a large penalty."""
    if not os.environ.get("ONEFIT_DATA"):
        pytest.skip("needs the real data sets: set ONEFIT_DATA to their directory")
    data = protocol.load("w1a", 0)
    known = data.is_known
    [params] = [
        p
        for p in protocol.candidates("w1a", len(data.X))
        if (p["kernel_width"], p["ambient_penalty"], p["manifold_penalty"]) == (2**-10, 100, 1e-6)
    ]
    table, t = unit.evaluate("w1a", 0, [params]), protocol.FOLDS.index(10)
    assert table.losses["bif"][0, t] == pytest.approx(table.losses["exact"][0, t], rel=1e-3)
    assert table.errors["exact"][0, t] == pytest.approx(0.01, abs=0.005)
    assert table.errors["bif"][0, t] == pytest.approx(0.60, abs=0.01)

    folds = protocol.folds(data, known, 10, 0)
    model = protocol.model("w1a").set_params(**params)
    options = {"cv": [(fold.kept_rows, fold.test_rows) for fold in folds], "holdout": "points"}
    bif = cross_val_decisions(model, data.X, data.y, criterion="bif", **options).predictions
    wrong = np.sign(bif) != 2 * data.y - 1
    for size, share in ((18, 0.0), (17, 0.87)):
        labels = [fold.test_rows[known[fold.test_rows]] for fold in folds]
        inside = np.concatenate([rows for rows in labels if len(rows) == size])
        assert wrong[inside].mean() == pytest.approx(share, abs=0.01)


def test_choices_among_large_penalties_are_made_from_those_of_each():
    choices = analyse.criteria()
    known = choices[(choices.t == 10) & (choices.candidates == "from 1e-3")]
    known = known.pivot(index=["set", "repeat"], columns="criterion", values="test")
    pd.testing.assert_frame_equal(analyse.from_levels(choices, 1e-3), known, rtol=1e-4)


def test_test_errors_are_those_of_fitted_models(posed):
    name, data, candidates = posed
    table = unit.evaluate(name, 0, candidates)
    for params, error in zip(candidates, table.test_error, strict=True):
        model = protocol.model(name).set_params(**params).fit(data.X, data.y)
        predicted = model.predict(data.X_test)
        wrong = (
            np.square(predicted - data.y_test) if data.is_regression else predicted != data.y_test
        )
        assert error == pytest.approx(np.mean(wrong), rel=1e-6)


def test_classes_far_from_all_labels_are_those_of_fitted_models(monkeypatch):
    """Unlabelled rows are near, labelled ones far: small decisions, whose signs count the same.

    Some are subnormal numbers.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_t(1, size=(150, 6))
    X[100:140] = X[60:100]
    X_test = X[1::4] + 0.3 * rng.normal(size=(38, 6))
    y, y_test = ((one[:, 0] * one[:, 1] > 0).astype(int) for one in (X, X_test))
    data = protocol.Data(X, np.where(np.arange(150) % 4 == 0, y, -1), X_test, y_test)
    monkeypatch.setattr(protocol, "load", lambda name, repeat: data)
    candidates = [
        {"kernel_width": width, "ambient_penalty": ambient, "manifold_penalty": manifold}
        for width in (7.5e-4, 0.1, 0.3)
        for ambient in (1e-4, 1.0)
        for manifold in (1e-6, 1.0)
    ]
    table = unit.evaluate("splice", 0, candidates)
    for params, error in zip(candidates, table.test_error, strict=True):
        model = protocol.model("splice").set_params(**params).fit(data.X, data.y)
        assert error == data.error(model.predict(data.X_test))


def test_ties_count_by_their_mean():
    """The expected test error of a random choice among the best; the least loss for the other."""
    shape = (4, 3)
    errors = np.tile([[0.2], [0.1], [0.1], [0.3]], (1, 3))
    losses = np.tile([[0.1], [0.5], [0.4], [0.2]], (1, 3))
    params = [
        {
            "ambient_penalty": 1e-3,
            "manifold_penalty": 1.0,
            "kernel_width": 1.0,
            "n_neighbors": 2,
            "graph_width": 1.0,
        }
    ] * 4
    table = unit.Table(
        params,
        np.array([0.9, 0.4, 0.2, 0.7]),
        dict.fromkeys(unit.CRITERIA, errors),
        dict.fromkeys(unit.CRITERIA, losses),
        10,
        5,
    )
    assert errors.shape == shape
    row = next(iter(summary.rows("x", 0, table)))
    assert float(row["test"]) == pytest.approx(0.3)
    assert float(row["test_by_loss"]) == pytest.approx(0.2)
    assert row["ties"] == 2
    assert float(row["rank_correlation"]) == pytest.approx(1.0)


def test_results_are_appended_whole(tmp_path):
    path = tmp_path / "deep" / "set.csv"
    store.append(path, [{"repeat": 0, "test": "0.5"}])
    store.append(path, [{"repeat": 1, "test": "0.25"}])
    with path.open() as file:
        assert [row["repeat"] for row in csv.DictReader(file)] == ["0", "1"]
    assert [p.name for p in path.parent.iterdir()] == ["set.csv"]


@pytest.mark.parametrize("name", ["bodyfat", "cpusmall", "w3a"])
def test_candidates_span_the_ranges_of_the_paper(name):
    n_rows = {"bodyfat": 176, "cpusmall": 5734, "w3a": 3438}[name]
    candidates = protocol.candidates(name, n_rows)
    assert len(candidates) == (13_365 if name == "bodyfat" else 315)
    for key, ends in {
        "kernel_width": (2.0**-10, 2.0**10),
        "n_neighbors": (2, 8),
        "graph_width": (2.0**-4, 2.0**4),
        "ambient_penalty": (1e-6, 1e2),
        "manifold_penalty": (1e-6, 1e2),
    }.items():
        values = [params[key] for params in candidates]
        assert (min(values), max(values)) == pytest.approx(ends)


@pytest.mark.parametrize("posed", ["bodyfat"], indirect=True)  # classes take 20 s
def test_our_search_beside_its_rivals_is_the_default(posed):
    """Its errors on all splits are those of ``selection``, where it is not run beside others."""
    name, data, _ = posed
    beside, _ = peers.measure(peers.methods(name)[peers.ours(name)], data, seed=0)
    errors, _ = selection.evaluate(name, 0)
    assert beside == pytest.approx(errors["default"], rel=1e-9)


def test_labels_only_means_that_no_unlabelled_row_is_seen(posed):
    name, data, _ = posed
    others = np.where(data.is_known[:, None], data.X, 1e3)
    run = peers.methods(name)["onefit_labels"]
    np.testing.assert_array_equal(
        run(data, seed=0), run(dataclasses.replace(data, X=others), seed=0)
    )


@pytest.mark.parametrize("shift", [-1.0, -0.4, -0.3, 0.0, 0.3, 0.4, 1.0])
def test_marks_are_those_of_a_paired_t_test(shift):
    base = pd.Series(np.random.default_rng(0).normal(size=30))
    errors = base + shift + np.random.default_rng(1).normal(size=30)
    statistic = ttest_rel(errors, base).statistic
    cell = analyse._cell(errors, base)
    assert f"({statistic:+.1f})" in cell
    assert ("▲" in cell) == (ttest_rel(errors, base, alternative="greater").pvalue < 0.05)
    assert ("▽" in cell) == (ttest_rel(errors, base, alternative="less").pvalue < 0.05)

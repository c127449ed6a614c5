"""Where the paper's formulas are wrong or silent: each with the small experiment that shows it.

The paper is Liu, Li, Wu, Ding, Wang: Efficient Cross-Validation for Semi-Supervised Learning. The
numbers of the tests are those of the list in docs/reproduction.md. Everything here is dense and
computed from the objective; what of it the package uses is tested in test_criteria.py.
"""

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fold_reference import SQUARE, Data, deal, influence, inside, laplacian, minimize
from onefit import LapRLSRegressor, LapSVC, cross_val_decisions
from reference import gaussian_kernel, knn_affinity

N, LABELS, FOLDS = 60, 15, 5
AMBIENT, MANIFOLD = 1e-2, 50.0
PUBLISHED = Path(__file__).parents[1] / "experiments" / "paper.csv"


@pytest.fixture(scope="module")
def data():
    """LapRLS on a noisy curve, in dense matrices."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    y, weights = np.zeros(N), np.zeros(N)
    labelled = rng.permutation(N)[:LABELS]
    y[labelled] = np.sin(2.0 * X[labelled, 0]) + 0.1 * rng.standard_normal(LABELS)
    weights[labelled] = 1.0
    K, W = gaussian_kernel(X, X, 1.0), knn_affinity(X, 5, 0.5)
    return Data(K, W, y, weights, AMBIENT, MANIFOLD, SQUARE)


def theorem_1(data, fold, *, with_J):
    """H^-1 [ ... ] with J K F as printed, or with K F."""
    K, y, known = data.K, data.y, data.weights
    f = minimize(data.full()).values
    F = np.diag(2.0 * known / LABELS)
    left = np.diag(known) if with_J else np.eye(N)
    H = left @ K @ F + 2 * AMBIENT * np.eye(N) + 2 * MANIFOLD / N**2 * K @ laplacian(data.W)
    mu = np.zeros(N)
    mu[fold] = known[fold] * 2.0 * (f[fold] - y[fold])
    right = -K @ mu / known[fold].sum() - 2 * AMBIENT * f
    right -= 2 * MANIFOLD / len(fold) ** 2 * K @ laplacian(inside(data.W, fold)) @ f
    return np.linalg.solve(H, right)


def folds_of(data):
    return [test for _, test in deal(np.where(data.weights > 0, 0, -1), FOLDS)]


def test_1_theorem_1_has_JKF_where_the_derivative_has_KF(data):
    for fold in folds_of(data):
        truth = influence(data, fold, "linear")
        scale = np.abs(truth).max()
        assert np.abs(theorem_1(data, fold, with_J=False) - truth).max() < 1e-6 * scale
        assert np.abs(theorem_1(data, fold, with_J=True) - truth).max() > 1e-2 * scale


def test_2_the_manifold_term_is_quadratic_in_the_distribution(data):
    """Theorem 1 differentiates E[W (f - f')^2] as if it were linear: it leaves out cross edges."""
    for fold in folds_of(data):
        truth = influence(data, fold, "product")
        difference = np.abs(theorem_1(data, fold, with_J=False) - truth).max()
        assert difference > 1e-2 * np.abs(truth).max()


def test_3_a_graph_rebuilt_inside_the_fold_cancels_the_manifold_term():
    """On average over folds; with the edges of the full graph the term keeps its scale."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (600, 2))
    f = np.sin(X[:, 0]) + X[:, 1] ** 2
    W = knn_affinity(X, 6, 10.0)
    t = 10
    fold_of = rng.permutation(600) % t
    full = f @ laplacian(W) @ f / 600**2
    restricted, rebuilt = [], []
    for i in range(t):
        rows = np.flatnonzero(fold_of == i)
        own = knn_affinity(X[rows], 6, 10.0)
        kept = laplacian(W[np.ix_(rows, rows)])
        restricted.append(f[rows] @ kept @ f[rows] / len(rows) ** 2)
        rebuilt.append(f[rows] @ laplacian(own) @ f[rows] / len(rows) ** 2)
    e = -1.0 / (t - 1)
    assert (1 - e) + e * np.mean(restricted) / full == pytest.approx(1.0, abs=0.1)
    # Distances inside a fold are longer besides, so that the term even turns negative.
    assert (1 - e) + e * np.mean(rebuilt) / full < 0.1


def test_4_the_printed_inverses_are_no_inverses(data):
    """T^-1 of LapRLS has 2 K_LL / l, not K_LL / (2 l), and a block below; Woodbury ends in A^-1."""
    K, W = data.K, data.W
    known = np.flatnonzero(data.weights)
    T = K @ np.diag(2.0 * data.weights / LABELS) + 2 * AMBIENT * np.eye(N)
    block = K[np.ix_(known, known)]
    as_printed = np.eye(N) / (2 * AMBIENT)
    as_printed[np.ix_(known, known)] = np.linalg.inv(
        block / (2 * LABELS) + 2 * AMBIENT * np.eye(LABELS)
    )
    corrected = np.linalg.inv(2 * block / LABELS + 2 * AMBIENT * np.eye(LABELS))
    inverse = np.eye(N) / (2 * AMBIENT)
    inverse[:, known] = -K[:, known] @ corrected * (2 / LABELS) / (2 * AMBIENT)
    inverse[np.ix_(known, known)] = corrected
    assert_allclose(inverse @ T, np.eye(N), atol=1e-8)
    assert np.abs(as_printed @ T - np.eye(N)).max() > 0.1

    C, P = K[:, :12], K[:12, :12]
    scale = 2 * MANIFOLD / N**2
    H = T + scale * C @ np.linalg.pinv(P) @ C.T @ laplacian(W)
    Z = C.T @ laplacian(W)
    core = np.linalg.inv(P + scale * Z @ inverse @ C)
    woodbury = inverse - scale * inverse @ C @ core @ Z @ inverse
    ends_in_T = inverse - scale * inverse @ C @ core @ Z @ T
    assert_allclose(woodbury @ H, np.eye(N), atol=1e-6)
    assert np.abs(ends_in_T @ H - np.eye(N)).max() > 0.1


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the experiments are not here")
@pytest.mark.parametrize(
    "t, limit, beyond, beyond_t", [(5, 2.56, 18, 9), (10, 7.29, 15, 10), (20, 17.15, 11, 10)]
)
def test_5_table_2_reports_more_than_training_once_can_gain(t, limit, beyond, beyond_t):
    """t fits of (t - 1)/t of the rows against one of all: if cubic, and whatever a fit costs."""
    assert t * ((t - 1) / t) ** 3 == pytest.approx(limit, abs=0.01)
    seconds: dict[str, dict[str, float]] = {"cv": {}, "bif": {}}
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["t"]) == t:
                seconds[row["method"]][row["set"]] = float(row["seconds"])
    ratios = [seconds["cv"][name] / seconds["bif"][name] for name in seconds["cv"]]
    assert len(ratios) == 18
    assert sum(ratio > limit for ratio in ratios) == beyond
    assert sum(ratio > t for ratio in ratios) == beyond_t


@pytest.mark.parametrize("leverage", [0.1, 0.5, 0.9, 0.99])
def test_6_the_influence_function_does_not_see_leverage(leverage):
    """One label held out, no graph: exact moves by S/(1-S) times the residual, influence by S.

    With K = I the leverage of a label is S = 1 / (1 + l gamma_A), whatever the others are.
    """
    l = 8
    ambient = (1 / leverage - 1) / l
    y = np.arange(1.0, l + 1.0)
    model = LapRLSRegressor(
        kernel="precomputed", ambient_penalty=ambient, manifold_penalty=0.0, n_neighbors=1
    )
    pairs = [(np.delete(np.arange(l), i), np.array([i])) for i in range(l)]
    f = leverage * y
    options = {"cv": pairs, "holdout": "labels"}
    exact = cross_val_decisions(model, np.eye(l), y, criterion="exact", **options).predictions
    bif = cross_val_decisions(model, np.eye(l), y, criterion="bif", **options).predictions
    assert_allclose(exact, f + leverage / (1 - leverage) * (f - y), atol=1e-9)
    # 1/(1-t) times the derivative: the residual's share S l/(l-1), and the shrinkage of f.
    assert np.abs(bif - f).max() <= 1.2 * leverage * np.abs(f - y).max() + np.abs(f).max() / (l - 1)
    if leverage == 0.99:
        assert np.abs(bif - y).max() < 0.2 < np.abs(exact - y).max()


def test_7_folds_of_unequal_size_decide_the_class_of_their_labels():
    """Where labels say nothing of each other, f_i = c y_i is the label's own share and no more.

    The fold leaves nothing of it, and so no class. 1/(1-t) times the derivative takes away more
    than all of it in folds of l_i < l/t labels, and less in larger ones. What is left,
    c y_i l (t/l - 1/l_i) / (t - 1) with y_i = +-1, has a sign: all labels of a small fold are
    wrong, all of a large one right. K = I, no graph, and labels on the straight part of the hinge:
    the loss has no curvature, and the Hessian is the same for all folds.
    """
    y, ambient = np.array([0, 1, 1, 0, 1]), 10.0
    l, signs, K = len(y), 2.0 * y - 1.0, np.eye(len(y))
    model = LapSVC(
        kernel="precomputed", ambient_penalty=ambient, manifold_penalty=0.0, n_neighbors=1
    )
    folds = [np.array([0, 1]), np.array([2, 3, 4])]
    pairs = [(np.setdiff1d(np.arange(l), fold), fold) for fold in folds]
    options = {"cv": pairs, "holdout": "points"}
    share = 1.0 / (2.0 * ambient * l)
    assert_allclose(model.fit(K, y).decision_function(K), share * signs, atol=1e-12)
    exact = cross_val_decisions(model, K, y, criterion="exact", **options).predictions
    bif = cross_val_decisions(model, K, y, criterion="bif", **options).predictions
    assert_allclose(exact, 0.0, atol=1e-12)
    for fold, sign in zip(folds, (-1.0, 1.0), strict=True):
        left = share * l * (len(folds) / l - 1.0 / len(fold)) / (len(folds) - 1)
        assert_allclose(bif[fold], left * signs[fold], atol=1e-12)
        assert np.all(np.sign(bif[fold]) == sign * signs[fold])

"""The influence function against finite differences, dense solves and limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import check_random_state

from fold_reference import deal, gaussian_kernel, influence, inside, laplacian, minimize, shares
from held_out_models import (
    N_LABELS,
    WIDTH,
    N,
    dense,
    every_model,
    make_data,
    make_model,
    make_weights,
    with_and_without_intercept,
)
from onefit import cross_val_decisions

#: variant of ``criterion="bif"`` and the path along which it is the derivative.
PATHS = {"corrected": "linear", "product": "product"}


def by_influence(model, X, y, pairs, sample_weight=None, **options):
    """Decisions by the paper's criterion, points held out."""
    return cross_val_decisions(
        model,
        X,
        y,
        cv=pairs,
        criterion="bif",
        holdout="points",
        sample_weight=sample_weight,
        criterion_params=options,
    )


def derivative(result, full, t):
    """B of every fold from f + B / (1 - t)."""
    return [
        (1 - t) * (found - full.values[rows])
        for rows, found in zip(result.fold_rows, result.fold_predictions, strict=True)
    ]


class TestInfluence:
    """``bif`` is f plus a derivative over 1 - t; differences of own minima give the derivative.

    The differences are of fourth order with a step of 2e-4 and have some nine digits; 1e-6 of the
    largest entry is asked for.
    """

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
    @pytest.mark.parametrize("variant", PATHS)
    def test_points_held_out(self, name, intercept, weighted, variant):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        weights = make_weights() if weighted else None
        data = dense(name, model, X, y, weights)
        pairs = deal(codes, 3)
        result = by_influence(model, X, y, pairs, weights, variant=variant)
        for (_, test), found in zip(
            pairs, derivative(result, minimize(data.full()), 3), strict=True
        ):
            expected = influence(data, test, PATHS[variant])[test]
            assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
    def test_labels_held_out(self, name, intercept, weighted):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        weights = make_weights() if weighted else None
        data = dense(name, model, X, y, weights)
        pairs = deal(codes, 4)
        result = cross_val_decisions(
            model, X, y, cv=pairs, criterion="bif", holdout="labels", sample_weight=weights
        )
        for (_, test), rows, found in zip(
            pairs, result.fold_rows, derivative(result, minimize(data.full()), 4), strict=True
        ):
            expected = influence(data, test, "labels")[rows]
            assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    def test_normalized_laplacian(self):
        model = make_model("logistic", laplacian="normalized")
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        pairs = deal(codes, 3)
        result = by_influence(model, X, y, pairs)
        for (_, test), found in zip(
            pairs, derivative(result, minimize(data.full()), 3), strict=True
        ):
            expected = influence(data, test, "linear")[test]
            assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    def test_several_classes(self):
        model = make_model("logistic", fit_intercept=True)
        X, y, codes = make_data(model, n_classes=3)
        pairs = deal(codes, 3)
        result = by_influence(model, X, y, pairs)
        for c in range(3):
            data = dense("logistic", model, X, np.where(y == -1, -1, y == c))
            full = minimize(data.full()).values
            for _, test in pairs:
                found = (1 - 3) * (result.predictions[test, c] - full[test])
                expected = influence(data, test, "linear")[test]
                assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())

    def test_the_paths_differ(self):
        # Guards the tests above: variants and hold-outs are not the same numbers.
        model = make_model("logistic")
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        _, test = deal(codes, 3)[0]
        labels = test[codes[test] >= 0]
        found = [influence(data, test, path)[labels] for path in ("linear", "product", "labels")]
        for one, other in [(0, 1), (0, 2), (1, 2)]:
            assert np.abs(found[one] - found[other]).max() > 1e-2 * np.abs(found[0]).max()

    @pytest.mark.parametrize("name", ["regressor", "logistic", "wide hinge"])
    @pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
    def test_literal_variant_is_theorem_1_as_printed(self, name, weighted):
        # H = J K F / l + 2 gA I + 2 gI / N^2 K L. The factor J is the paper's mistake.
        model = make_model(name)
        X, y, codes = make_data(model)
        weights = make_weights() if weighted else None
        data = dense(name, model, X, y, weights)
        full = data.full()
        f = minimize(full).values
        J = np.diag((codes >= 0).astype(float))
        F = np.diag(full.v * data.loss.curvature(data.y, f))
        L = laplacian(data.W)
        H = J @ data.K @ F + 2 * data.ambient * np.eye(N) + 2 * data.manifold / N**2 * data.K @ L
        pairs = deal(codes, 3)
        result = by_influence(model, X, y, pairs, weights, variant="literal")
        for (_, test), found in zip(pairs, result.fold_predictions, strict=True):
            expected = f + np.linalg.solve(H, right_hand_side(data, f, test)) / (1 - 3)
            assert_allclose(found, expected[test], rtol=0, atol=1e-8)

    @pytest.mark.parametrize(
        "params, options, message",
        [
            ({}, {"variant": "printed"}, "variant='printed'; expected 'corrected'"),
            ({}, {"hessian": "dense"}, "hessian='dense'; expected 'exact' or 'nystrom'"),
            ({"fit_intercept": True}, {"variant": "literal"}, "no intercept"),
            ({}, {"variant": "literal", "hessian": "nystrom"}, "hessian='exact'"),
            ({"laplacian": "normalized"}, {"variant": "product"}, "unnormalised Laplacian"),
            ({"laplacian_power": 2}, {"variant": "product"}, "laplacian_power=1"),
        ],
    )
    def test_options_that_do_not_go_together(self, params, options, message):
        model = make_model("square", **params)
        X, y, _ = make_data(model)
        with pytest.raises(ValueError, match=message):
            cross_val_decisions(
                model, X, y, cv=3, criterion="bif", holdout="points", criterion_params=options
            )

    @pytest.mark.parametrize("options", [{"variant": "product"}, {"hessian": "nystrom"}])
    def test_options_of_the_graph_with_labels_held_out(self, options):
        model = make_model("square")
        X, y, _ = make_data(model)
        with pytest.raises(ValueError, match="use holdout='points'"):
            cross_val_decisions(model, X, y, cv=3, criterion="bif", criterion_params=options)


def right_hand_side(data, f, fold, kernel_part=None):
    """Right-hand side of Theorem 1 in values; ``kernel_part`` is f without an intercept."""
    g = f if kernel_part is None else kernel_part
    slopes = shares(data.weights, fold) * data.loss.slope(data.y, f)
    smooth = laplacian(inside(data.W, fold)) @ g / len(fold) ** 2
    return -data.K @ slopes - 2 * data.ambient * g - 2 * data.manifold * data.K @ smooth


def nystrom_solution(data, full, fold, landmarks):
    """B with C P^+ C' for K in the manifold term, by a dense solve, bordered for an intercept."""
    f, v = full.values, data.full().v
    C, P = data.K[:, landmarks], data.K[np.ix_(landmarks, landmarks)]
    approximate = C @ np.linalg.pinv(P, rcond=1e-12, hermitian=True) @ C.T
    F = v * data.loss.curvature(data.y, f)
    L = laplacian(data.W)
    H = data.K * F + 2 * data.ambient * np.eye(data.n)
    H += 2 * data.manifold / data.n**2 * approximate @ L
    right = right_hand_side(data, f, fold, full.kernel_values)
    if not data.intercept:
        return np.linalg.solve(H, right)
    slopes = shares(data.weights, fold) * data.loss.slope(data.y, f)
    bordered = np.block([[H, (data.K @ F)[:, None]], [F[None, :], F.sum()]])
    solution = np.linalg.solve(bordered, np.append(right, -slopes.sum()))
    return solution[:-1] + solution[-1]


class TestNystromHessian:
    def found(self, model, X, y, pairs, weights=None, **options):
        return by_influence(model, X, y, pairs, weights, hessian="nystrom", **options)

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("c, seed", [(6, 0), (6, 1), (20, 0)])
    def test_equals_a_dense_solve(self, name, intercept, c, seed):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        data = dense(name, model, X, y, make_weights())
        full = minimize(data.full())
        landmarks = np.sort(check_random_state(seed).permutation(N)[:c])
        pairs = deal(codes, 3)
        result = self.found(
            model, X, y, pairs, make_weights(), hessian_components=c, random_state=seed
        )
        for (_, test), found in zip(pairs, result.fold_predictions, strict=True):
            B = nystrom_solution(data, full, test, landmarks)
            expected = full.values[test] + B[test] / (1 - 3)
            assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())

    def test_landmarks_that_repeat(self):
        # Half of the rows occur twice: P is singular, C P^+ C' is not concerned.
        model = make_model("square", n_neighbors=7)
        X, y, codes = make_data(model)
        X[18:] = X[:18]
        data = dense("square", model, X, y)
        full = minimize(data.full())
        landmarks = np.sort(check_random_state(0).permutation(N)[:30])
        pairs = deal(codes, 3)
        result = self.found(model, X, y, pairs, hessian_components=30)
        for (_, test), found in zip(pairs, result.fold_predictions, strict=True):
            B = nystrom_solution(data, full, test, landmarks)
            assert_allclose(found, full.values[test] - B[test] / 2, rtol=0, atol=1e-8)

    def test_the_default_is_the_root_of_the_rows(self):
        model = make_model("square")
        X, y, codes = make_data(model)
        pairs = deal(codes, 3)
        default, root = (
            self.found(model, X, y, pairs),
            self.found(model, X, y, pairs, hessian_components=6),
        )
        assert_allclose(default.predictions, root.predictions, rtol=1e-12)

    @every_model
    @with_and_without_intercept
    @pytest.mark.parametrize("variant", PATHS)
    def test_all_columns_equal_the_exact_hessian(self, name, intercept, variant):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        pairs = deal(codes, 3)
        approximate = self.found(model, X, y, pairs, hessian_components=N, variant=variant)
        exact = by_influence(model, X, y, pairs, variant=variant)
        scale = np.abs(exact.predictions).max()
        assert_allclose(approximate.predictions, exact.predictions, rtol=0, atol=1e-8 * scale)

    def test_error_falls_with_the_columns(self):
        model = make_model("square")
        X, y, codes = make_data(model)
        pairs = deal(codes, 3)
        exact = by_influence(model, X, y, pairs).predictions

        def typical_error(c):
            errors = [
                np.abs(
                    self.found(
                        model, X, y, pairs, hessian_components=c, random_state=seed
                    ).predictions
                    - exact
                ).max()
                for seed in range(9)
            ]
            return np.median(errors)

        errors = [typical_error(c) for c in (4, 12, 24, N)]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > 1e-2
        assert errors[-1] < 1e-8

    @pytest.mark.parametrize("c", [1, N])
    def test_least_and_largest_number_of_columns(self, c):
        model = make_model("square")
        X, y, codes = make_data(model)
        found = self.found(model, X, y, deal(codes, 3), hessian_components=c)
        assert np.isfinite(np.concatenate(found.fold_predictions)).all()

    @pytest.mark.parametrize("c", [0, -3, N + 1, 2.5])
    def test_number_of_columns(self, c):
        model = make_model("square")
        X, y, codes = make_data(model)
        with pytest.raises((TypeError, ValueError), match=f"hessian_components={c}"):
            self.found(model, X, y, deal(codes, 3), hessian_components=c)


class TestLeverage:
    """One label held out, square loss, no graph: everything is known in closed form."""

    def smoother(self, X, codes, ambient, n_counted):
        """f = S y with the weights 1 / n_counted on every label."""
        rows = np.flatnonzero(codes >= 0)
        G = gaussian_kernel(X, WIDTH)[np.ix_(rows, rows)] / ambient
        return rows, G @ np.linalg.inv(G + n_counted * np.eye(len(rows)))

    @pytest.mark.parametrize("ambient", [1e-5, 1e-3, 1e-1, 10.0])
    def test_exact(self, ambient):
        # The fold weighs its labels by 1/(l-1): f and S are those of these weights.
        model = make_model("regressor", manifold_penalty=0.0, ambient_penalty=ambient)
        X, y, codes = make_data(model)
        rows, S = self.smoother(X, codes, ambient, N_LABELS - 1)
        f, leverage = S @ y[rows], np.diag(S)
        expected = f + leverage / (1 - leverage) * (f - y[rows])
        found = cross_val_decisions(model, X, y, cv=N_LABELS).predictions[rows]
        assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())

    @pytest.mark.parametrize("ambient", [1e-5, 1e-3, 1e-1, 10.0])
    def test_first_order(self, ambient):
        # f_i + S_ii (f_i - y_i) to leading order in l, and exactly what the derivative gives.
        model = make_model("regressor", manifold_penalty=0.0, ambient_penalty=ambient)
        X, y, codes = make_data(model)
        rows, S = self.smoother(X, codes, ambient, N_LABELS)
        f, l = S @ y[rows], N_LABELS
        residual = f - y[rows]
        expected = f + (l * np.diag(S) * residual - S @ residual) / (l - 1)
        found = cross_val_decisions(model, X, y, cv=l, criterion="bif").predictions[rows]
        assert_allclose(found, expected, rtol=0, atol=1e-9)

    def test_where_the_model_interpolates_only_exact_sees_an_error(self):
        exact, first_order = [], []
        for ambient in (1e-3, 1e-5, 1e-7):
            model = make_model("regressor", manifold_penalty=0.0, ambient_penalty=ambient)
            X, y, codes = make_data(model)
            known = codes >= 0
            training = np.abs(model.fit(X, y).predict(X) - y)[known].max()
            errors = {
                criterion: np.abs(
                    cross_val_decisions(model, X, y, cv=N_LABELS, criterion=criterion).predictions
                    - y
                )[known].max()
                for criterion in ("exact", "bif", "newton")
            }
            assert errors["newton"] == pytest.approx(errors["exact"])
            # Twice the training residual to leading order; l / (l - 1) is the next one.
            assert errors["bif"] < 2.2 * training * N_LABELS / (N_LABELS - 1)
            exact.append(errors["exact"])
            first_order.append(errors["bif"])
        assert min(exact) > 0.5
        assert first_order[-1] < 1e-2

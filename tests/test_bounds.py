"""Bounds on the error of held-out decisions hold, and are what the formula says."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import is_regressor

from fold_reference import Solution, deal, minimize, newton_step, optimal_intercepts
from held_out_models import (
    CURVED,
    MODELS,
    N,
    both_holdouts,
    dense,
    every_model,
    make_data,
    make_model,
    make_weights,
    with_and_without_intercept,
)
from onefit import cross_val_decisions
from onefit.criteria import CRITERIA


@st.composite
def bounded_problems(draw):
    """An estimator with its data, its dense twin, folds, a criterion and a hold-out."""
    name = draw(st.sampled_from(sorted(MODELS)))
    seed = draw(st.integers(0, 2**16))
    model = make_model(
        name,
        kernel_width=10 ** draw(st.floats(-1, 1)),
        ambient_penalty=10 ** draw(st.floats(-4, 1)),
        manifold_penalty=draw(st.sampled_from([0.0, 1.0, 1e3])),
        fit_intercept=draw(st.booleans()),
        laplacian=draw(st.sampled_from(["unnormalized", "normalized"])),
        n_neighbors=4,
    )
    X, y, codes = make_data(model, seed, n=24, n_labels=draw(st.sampled_from([6, 9, 12])))
    weights = draw(st.sampled_from([None, make_weights(seed, n=24)]))
    pairs = deal(codes, draw(st.integers(2, 4)), seed)
    both = all({0, 1} <= set(codes[train]) for train, _ in pairs)
    assume(is_regressor(model) or both or not model.fit_intercept)  # else there is no optimum
    criterion = draw(st.sampled_from(sorted(CRITERIA)))
    holdout = draw(st.sampled_from(["labels", "points"]))
    return name, model, X, y, weights, pairs, criterion, holdout


class TestBound:
    @settings(max_examples=100, deadline=None)
    @given(bounded_problems())
    def test_holds_for_every_held_out_prediction(self, problem):
        name, model, X, y, weights, pairs, criterion, holdout = problem
        data = dense(name, model, X, y, weights)
        result = cross_val_decisions(
            model,
            X,
            y,
            cv=pairs,
            criterion=criterion,
            holdout=holdout,
            sample_weight=weights,
            error_bounds=True,
        )
        for (train, _), rows, found in zip(
            pairs, result.fold_rows, result.fold_predictions, strict=True
        ):
            objective = data.without(train, holdout)
            optimum = minimize(objective)
            low = high = optimum.kernel_values[rows]
            if model.fit_intercept:  # the hinge may leave an interval of optimal intercepts
                ends = optimal_intercepts(objective, optimum.kernel_values)
                low, high = low + ends[0], high + ends[1]
            distance = np.maximum(np.maximum(low - found, found - high), 0)
            rounding = 1e-8 * max(1.0, np.abs(found).max())
            assert np.all(distance <= result.error_bounds[rows] + rounding)

    @every_model
    @both_holdouts
    @with_and_without_intercept
    def test_of_the_optimum_is_nothing(self, name, holdout, intercept):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        result = cross_val_decisions(
            model, X, y, cv=deal(codes, 4), holdout=holdout, error_bounds=True
        )
        assert 0 <= result.error_bounds[codes >= 0].max() < 1e-8

    @pytest.mark.parametrize("name", ["hinge", *CURVED])
    @both_holdouts
    @with_and_without_intercept
    def test_shrinks_with_the_steps(self, name, holdout, intercept):
        # Little smoothing, so that one step is not enough even for piecewise quadratic losses.
        model = make_model(
            name,
            kernel_width=0.5,
            ambient_penalty=1e-3,
            manifold_penalty=0.1,
            fit_intercept=intercept,
        )
        X, y, codes = make_data(model, seed=8)
        pairs, known = deal(codes, 3), codes >= 0
        exact = cross_val_decisions(model, X, y, cv=pairs, holdout=holdout).predictions[known]
        bounds = []
        for n_steps in (1, 4, 25):
            result = cross_val_decisions(
                model,
                X,
                y,
                cv=pairs,
                criterion="newton",
                holdout=holdout,
                error_bounds=True,
                criterion_params={"n_steps": n_steps},
            )
            error = np.abs(result.predictions[known] - exact)
            assert np.all(error <= result.error_bounds[known] + 1e-8)
            bounds.append(result.error_bounds[known].max())
        assert bounds[0] > 0.1
        assert bounds[1] < bounds[0]
        assert bounds[2] < 1e-9

    @pytest.mark.parametrize("name", MODELS)
    @both_holdouts
    @with_and_without_intercept
    @pytest.mark.parametrize("criterion", CRITERIA)
    def test_asking_for_it_does_not_change_the_predictions(
        self, name, holdout, intercept, criterion
    ):
        model = make_model(name, fit_intercept=intercept)
        X, y, codes = make_data(model)
        options = {"cv": deal(codes, 3), "criterion": criterion, "holdout": holdout}
        plain = cross_val_decisions(model, X, y, **options).predictions
        bounded = cross_val_decisions(model, X, y, error_bounds=True, **options).predictions
        assert_allclose(bounded, plain, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("criterion", ["bif", "newton"])
    @both_holdouts
    def test_covers_the_intercept(self, criterion, holdout):
        # At x = 0 a linear kernel leaves the intercept alone to err.
        model = make_model("logistic", kernel="linear", fit_intercept=True)
        X, y, codes = make_data(model)
        test = np.flatnonzero(codes == 1)[:2]
        X[test[0]] = 0.0
        pairs = [(np.setdiff1d(np.arange(N), test), test)]
        exact = cross_val_decisions(model, X, y, cv=pairs, holdout=holdout).predictions
        result = cross_val_decisions(
            model, X, y, cv=pairs, criterion=criterion, holdout=holdout, error_bounds=True
        )
        error = np.abs(result.predictions - exact)[test]
        assert error[0] > 1e-4
        assert np.all(error <= result.error_bounds[test])

    def stepped(self, holdout):
        """A newton step with its bound, and the step of the reference."""
        model = make_model("logistic")
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        train, test = deal(codes, 3)[0]
        result = cross_val_decisions(
            model,
            X,
            y,
            cv=[(train, test)],
            criterion="newton",
            holdout=holdout,
            error_bounds=True,
        )
        (rows,) = result.fold_rows
        objective = data.without(train, holdout)
        step = newton_step(objective, minimize(data.full())).values
        return result.error_bounds[rows], rows, objective, step

    def test_formula_with_labels_held_out(self):
        # (1/2) sqrt(G_xx) sqrt(rho' G rho), rho = v loss' + 2 beta, f = G beta.
        bound, rows, objective, step = self.stepped("labels")
        # gA |f|^2 + f'Mf is f' G^-1 f for the kernel G = (gA K^-1 + M)^-1.
        K = objective.K
        G = np.linalg.solve(objective.ambient * np.eye(N) + K @ objective.M, K)
        rho = objective.v * objective.loss.slope(objective.y, step) + 2 * np.linalg.solve(G, step)
        expected = 0.5 * np.sqrt(np.diag(G)[rows]) * np.sqrt(rho @ G @ rho)
        assert_allclose(bound, expected, rtol=1e-6)

    def test_formula_with_points_held_out(self):
        # No sharper than (8) in the metric R_i, no weaker than in 2 gA I, which is below R_i.
        bound, rows, objective, step = self.stepped("points")
        B = objective.features()
        w = np.linalg.lstsq(B, step, rcond=None)[0]
        P = objective.penalty(B)
        g, _ = objective.gradient_and_hessian(B, P, w)
        z = B[rows]

        def product(R):
            length = np.sqrt(np.einsum("ij,ji->i", z, np.linalg.solve(R, z.T)))
            return length * np.sqrt(g @ np.linalg.solve(R, g))

        assert np.all(bound >= product(2 * P) * (1 - 1e-6))
        assert np.all(bound <= product(2 * objective.ambient * np.eye(len(w))) * (1 + 1e-6))

    @pytest.mark.parametrize("criterion", ["newton", "bif"])
    @both_holdouts
    def test_formula_with_an_intercept(self, criterion, holdout):
        # In the metric of (8), 2 P or 2 gA I, at the best intercept for the same kernel part; its
        # own error is that of a kept label at most, and the distance to it comes on top.
        model = make_model("logistic", fit_intercept=True)
        X, y, codes = make_data(model)
        data = dense("logistic", model, X, y)
        pairs = deal(codes, 3)
        options = {"cv": pairs, "criterion": criterion, "holdout": holdout, "error_bounds": True}
        bounds = cross_val_decisions(model, X, y, **options).error_bounds
        for train, test in pairs:
            objective = replace(data.without(train, holdout), intercept=False)
            found = approximation(data, train, test, criterion, holdout)
            best = np.mean(optimal_intercepts(objective, found.kernel_values))
            B = objective.features()
            P = objective.penalty(B)
            w = np.linalg.lstsq(B, found.kernel_values, rcond=None)[0]
            slope = objective.loss.slope(objective.y, found.kernel_values + best)
            g = B.T @ (objective.v * slope) + 2 * P @ w
            R = 2 * P if holdout == "labels" else 2 * objective.ambient * np.eye(len(w))
            length = np.sqrt(np.einsum("ij,ji->i", B, np.linalg.solve(R, B.T)))
            kernel_part = length * np.sqrt(g @ np.linalg.solve(R, g))
            expected = kernel_part + kernel_part[objective.v > 0].max() + abs(best - found.b)
            rows = test if holdout == "points" else test[codes[test] >= 0]
            assert_allclose(bounds[rows], expected[rows], rtol=1e-4)


def approximation(data, train, test, criterion, holdout):
    """Kernel part and intercept that a criterion finds for a fold of three, on all rows."""
    full = minimize(data.full())
    if criterion == "newton":
        return newton_step(data.without(train, holdout), full)
    step, path = 2e-4, "labels" if holdout == "labels" else "linear"
    at = {k: minimize(data.mixed(test, k * step, path)) for k in (-2, -1, 1, 2)}

    def moved(part):
        a, b, c, d = (getattr(at[k], part) for k in (-2, -1, 1, 2))
        return getattr(full, part) + (8 * (c - b) - (d - a)) / (12 * step) / (1 - 3)

    return Solution(moved("kernel_values"), moved("b"))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_bounds_have_to_be_asked_for(criterion):
    assert inspect.signature(CRITERIA[criterion]).parameters["bounds"].default is False

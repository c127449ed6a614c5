"""Solvers against dense systems, root finding, and the reference's minimiser."""

import importlib
from dataclasses import is_dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning

import reference
from onefit import LapSVC
from onefit.losses import HuberizedHinge, Logistic, Square, SquaredHinge
from onefit.solvers import correction
from onefit.solvers.correction import label_correction, label_response
from onefit.solvers.intercept import optimal_intercept
from onefit.solvers.labels import (
    damped_step,
    evaluate,
    minimize_newton,
    newton_direction,
    settle_intercept,
    solve_labels,
    solve_square,
    square_weights,
)
from solver_problems import (
    LOSSES,
    FoldsProblem,
    LabelProblem,
    every_loss,
    with_and_without_intercept,
)

some_seeds = pytest.mark.parametrize("seed", range(5))


class TestLabelCorrection:
    def test_against_the_dense_formula(self):
        problem = LabelProblem(0)
        F = np.where(np.arange(21) % 3 == 0, 0.0, problem.v)
        x = np.random.default_rng(0).normal(size=(21, 2))
        expected = np.diag(F) @ np.linalg.solve(np.eye(21) + problem.G @ np.diag(F) / 2, x)
        assert_allclose(label_correction(problem.G, F)(x), expected, atol=1e-12)

    def test_no_curvature(self):
        assert not label_correction(np.eye(3), np.zeros(3))(np.ones((3, 2))).any()

    @pytest.mark.parametrize("totals", [None, [0.0, 0.7, -1.0, 0.1]])
    @pytest.mark.parametrize("stacked", [False, True])
    def test_response(self, totals, stacked, monkeypatch):
        # A third of the rows without curvature, one with all, one with two rows, one with none.
        monkeypatch.setattr(correction, "_SMALL", 21 if stacked else 0)
        problem = LabelProblem(1)
        F = np.repeat(problem.V, 4, axis=1)
        F[::3, 0], F[5:18, 2], F[:5, 2], F[:, 3] = 0.0, 0.0, 0.0, 0.0
        xi = np.random.default_rng(0).normal(size=(21, 4))
        delta, b = label_response(problem.G, F, xi, None if totals is None else np.array(totals))
        assert_allclose(2 * delta + F * (problem.G @ delta + b), xi, atol=1e-12)
        if totals is None:
            assert not b.any()
        else:
            assert b.all() == b[3] == 0.0
            assert_allclose(delta.sum(axis=0)[:3], totals[:3], atol=1e-14)
        for j in range(4):
            alone = label_response(
                problem.G,
                F[:, [j]],
                xi[:, [j]],
                None if totals is None else np.array(totals)[[j]],
            )
            assert_allclose(alone[0][:, 0], delta[:, j], atol=1e-12)
            assert_allclose(alone[1], b[j], atol=1e-12)

    @pytest.mark.parametrize("n_columns", [1, 2])
    def test_systems_that_are_no_numbers(self, n_columns):
        G = np.full((3, 3), np.nan)
        with pytest.raises(np.linalg.LinAlgError):
            label_response(G, np.ones((3, n_columns)), np.ones((3, n_columns)), None)


class TestNewtonDirection:
    @every_loss
    @with_and_without_intercept
    @some_seeds
    def test_against_the_dense_system(self, name, intercept, seed):
        loss, expected_loss = LOSSES[name]
        problem = LabelProblem(seed)
        G, y, v = problem.G, problem.y, problem.v
        state = problem.state(loss, intercept)
        F = v * expected_loss.second(y, problem.f)
        beta = state.beta[:, 0]
        rho = v * expected_loss.first(y, problem.f) + 2 * beta
        system = np.zeros((22, 22))
        system[:21, :21] = F[:, None] * G + 2 * np.eye(21)
        system[:21, 21], system[21, :21] = F, 1.0
        right = np.append(-rho, -beta.sum())
        if not intercept:
            system, right = system[:21, :21], right[:21]
        solution = np.linalg.solve(system, right)
        delta, delta_b = newton_direction(G, state, intercept)
        assert_allclose(delta[:, 0], solution[:21], atol=1e-10)
        assert delta_b == pytest.approx(solution[21] if intercept else 0.0, abs=1e-10)

    @pytest.mark.parametrize("share, sign", [(0.25, -1.0), (0.75, 1.0)])
    def test_intercept_without_curvature_goes_to_its_optimum(self, share, sign):
        # All margins below 1 - h: the loss is linear, and its slope in b is -sum_i v_i y_i. With
        # f = b the minority's slope stays 1; the majority's share s falls to (1 - s) / s of it
        # inside the band, where 1 + h - b = 2 h (1 - s) / s.
        y = np.where(np.arange(8) < 8 * share, 1.0, -1.0)[:, None]
        loss, v, G = HuberizedHinge(0.1), np.full((8, 1), 1 / 8), np.eye(8)
        state = evaluate(G, y, v, loss, np.zeros((8, 1)), np.zeros(1))
        moved = settle_intercept(G, y, v, loss, state)
        expected = sign * (1.1 - 0.2 * 0.25 / 0.75)
        assert moved.intercept == pytest.approx(expected)
        assert_allclose(moved.beta, 0.0)

    def test_intercept_with_curvature_is_left_to_newton(self):
        problem = LabelProblem(0)
        state = problem.state(Logistic(), True)
        moved = settle_intercept(problem.G, problem.Y, problem.V, Logistic(), state)
        assert moved.intercept == problem.b

    def test_intercept_of_an_interval_is_its_middle(self):
        # f = 0 and balanced classes: every b with |b| < 1 - h has no slope.
        starts = np.array([-0.8, 0.0, 0.3, 0.85])
        y = np.repeat(np.where(np.arange(8) < 4, 1.0, -1.0)[:, None], starts.size, axis=1)
        loss, v, G = HuberizedHinge(0.1), np.full((8, starts.size), 1 / 8), np.eye(8)
        state = evaluate(G, y, v, loss, np.zeros_like(y), starts)
        assert_allclose(settle_intercept(G, y, v, loss, state).intercept, 0.0, atol=1e-9)

    def test_intercept_between_balanced_classes_stays(self):
        y = np.where(np.arange(8) < 4, 1.0, -1.0)[:, None]
        v, zero = np.full((8, 1), 1 / 8), np.zeros((8, 1))
        state = evaluate(np.eye(8), y, v, HuberizedHinge(), zero, np.zeros(1))
        delta, delta_b = newton_direction(np.eye(8), state, True)
        assert_allclose(delta, y / 16)
        assert delta_b == 0.0


class TestOptimalIntercept:
    v = np.array([0.2, 0.5, 0.3])

    @pytest.mark.parametrize("far", [0.0, 1e-9, -3.0, 1e7])
    @pytest.mark.parametrize("near", [0.0, 2.0])
    def test_square_loss_has_the_mean_of_the_residuals(self, near, far):
        y, f = np.array([1.0, 4.0, -2.0]), np.array([0.5, 0.0, 1.0])
        b = optimal_intercept(Square(), y, self.v, f - far, near)
        assert b == pytest.approx(self.v @ (y - f) + far, rel=1e-12)

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_an_interval_has_its_middle_whatever_the_weights(self, scale):
        # Opposite labels at 0.2 and 0: the hinge is flat for -0.9 < b < 0.7 (h = 0.1), but for
        # rounding, 0.1 + 0.2 - 0.3.
        y, f = np.array([1.0, 1.0, -1.0]), np.array([0.2, 0.2, 0.0])
        v = scale * np.array([0.1, 0.2, 0.3])
        for near in (-5.0, -0.1, 0.3, 5.0):
            b = optimal_intercept(HuberizedHinge(0.1), y, v, f, near)
            assert b == pytest.approx(-0.1, abs=1e-9)

    @pytest.mark.parametrize("loss", [HuberizedHinge(0.1), SquaredHinge(), Logistic()])
    def test_no_finite_optimum(self, loss):
        for y in (np.ones(3), -np.ones(3)):
            assert optimal_intercept(loss, y, self.v, np.zeros(3), 0.7) == 0.7

    def test_an_optimum_stays(self):
        y = np.array([1.0, 4.0, -2.0])
        assert optimal_intercept(Square(), y, self.v, y - 0.5, 0.5) == pytest.approx(0.5, abs=1e-11)


class TestSolveSquare:
    @with_and_without_intercept
    @some_seeds
    def test_against_the_normal_equations(self, intercept, seed):
        # min over (w, b) of sum_i v_i (B_i w + b - y_i)^2 + w'w, for two outputs at once.
        problem = LabelProblem(seed)
        Y = np.random.default_rng(seed).normal(size=(21, 2)) + 3.0
        A = np.column_stack([problem.B, np.ones(21)]) if intercept else problem.B
        penalty = np.eye(A.shape[1])
        if intercept:
            penalty[-1, -1] = 0.0
        w = np.linalg.solve((A.T * problem.v) @ A + penalty, (A.T * problem.v) @ Y)
        fit = solve_square(problem.G, Y, problem.v, fit_intercept=intercept)
        assert_allclose(fit.values, A @ w, atol=1e-10)
        assert_allclose(fit.intercept, w[-1] if intercept else [0.0, 0.0], atol=1e-10)
        assert_allclose(problem.B.T @ fit.beta, w[:24], atol=1e-10)
        assert fit.converged
        assert fit.n_steps == 2  # one for each output
        beta, b = square_weights(problem.G, Y, problem.v, intercept)
        np.testing.assert_array_equal(beta, fit.beta)
        np.testing.assert_array_equal(b, fit.intercept)

    @with_and_without_intercept
    def test_rows_without_weight_have_no_label(self, intercept):
        problem = LabelProblem(0)
        v = np.where(np.arange(21) < 6, 0.0, problem.v)
        Y = problem.y[:, None]
        fit = solve_square(problem.G, Y, v, fit_intercept=intercept)
        few = solve_square(problem.G[6:, 6:], Y[6:], v[6:], fit_intercept=intercept)
        assert not fit.beta[:6].any()
        assert_allclose(fit.beta[6:], few.beta, atol=1e-12)
        assert_allclose(fit.values, problem.G[:, 6:] @ few.beta + few.intercept, atol=1e-12)

    @pytest.mark.parametrize("solve", [solve_square, solve_labels])
    def test_no_intercept_unless_asked_for(self, solve):
        problem = LabelProblem(0)
        arguments = [problem.G, problem.y[:, None], problem.v]
        arguments += [Logistic()] if solve is solve_labels else []
        assert solve(*arguments).intercept == [0.0]
        assert solve(*arguments, fit_intercept=True).intercept != [0.0]


class TestSolveLabels:
    @every_loss
    @with_and_without_intercept
    @pytest.mark.parametrize("scale", [1e-2, 1e1, 1e4])
    @some_seeds
    def test_against_the_reference(self, name, intercept, scale, seed):
        loss, expected_loss = LOSSES[name]
        problem = LabelProblem(seed, scale=scale)
        values, b = problem.solution(expected_loss, intercept)
        fit = solve_labels(problem.G, problem.y[:, None], problem.v, loss, fit_intercept=intercept)
        assert fit.converged
        assert_allclose(fit.values[:, 0], values, atol=1e-8 * np.abs(values).max())
        assert_allclose(fit.intercept, b, atol=1e-7 * np.abs(values).max())

    @pytest.mark.parametrize("name", [name for name in LOSSES if name != "square"])
    @with_and_without_intercept
    def test_columns_are_solved_one_by_one(self, name, intercept):
        loss = LOSSES[name][0]
        problem = LabelProblem(0)
        Y = np.column_stack([problem.y, np.roll(problem.y, 5), -problem.y])
        together = solve_labels(problem.G, Y, problem.v, loss, fit_intercept=intercept)
        alone = [
            solve_labels(problem.G, Y[:, [j]], problem.v, loss, fit_intercept=intercept)
            for j in range(3)
        ]
        assert_allclose(together.values, np.hstack([fit.values for fit in alone]))
        assert together.n_steps == sum(fit.n_steps for fit in alone)

    @pytest.mark.parametrize("name", [name for name in LOSSES if name != "square"])
    @with_and_without_intercept
    @pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 1e3])
    def test_newton_converges_from_anywhere(self, name, intercept, size):
        loss, expected_loss = LOSSES[name]
        problem = LabelProblem(3, scale=100.0)
        values, _ = problem.solution(expected_loss, intercept)
        beta = size * np.random.default_rng(0).normal(size=21)
        b = np.array([size * intercept])
        start = evaluate(problem.G, problem.Y, problem.V, loss, beta[:, None], b)
        found = minimize_newton(
            problem.G,
            problem.Y,
            problem.V,
            loss,
            start,
            fit_intercept=intercept,
            tol=1e-8,
            max_iter=200,
        )
        assert found.converged
        assert_allclose(found.values[:, 0], values, atol=1e-7 * np.abs(values).max())

    def test_gradient_norm(self):
        problem = LabelProblem(0)
        state = problem.state(Logistic(), False)
        rho = problem.v * reference.Logistic().first(problem.y, problem.f) + 2 * state.beta[:, 0]
        assert state.gradient_norms(problem.G) == pytest.approx(np.linalg.norm(problem.B.T @ rho))

    def test_intercept_where_no_label_has_curvature(self):
        problem, loss = LabelProblem(0, scale=1e-2), HuberizedHinge()
        arguments = [problem.G, problem.y[:, None], problem.v, loss]
        assert solve_labels(*arguments).intercept == [0.0]
        state = solve_labels(*arguments, fit_intercept=True)
        f = state.values[:, 0] - state.intercept
        best = optimal_intercept(loss, problem.y, problem.v, f, 0.0)
        assert state.intercept == pytest.approx(best, abs=1e-9)

    def test_gradient_norm_of_a_gram_matrix_that_rounding_made_indefinite(self):
        one = np.ones((2, 1))
        state = evaluate(-1e-18 * np.eye(2), one, one, Logistic(), one, np.zeros(1))
        assert state.gradient_norms(-1e-18 * np.eye(2)) == 0.0

    @pytest.mark.parametrize("name", [name for name in LOSSES if name != "square"])
    @with_and_without_intercept
    def test_at_the_optimum_one_step_is_enough(self, name, intercept):
        problem, (loss, _) = LabelProblem(0), LOSSES[name]
        Y = np.column_stack([problem.y, -problem.y])
        fit = solve_labels(problem.G, Y, problem.v, loss, fit_intercept=intercept)
        assert fit.n_steps < 30
        again = solve_labels(problem.G, Y, problem.v, loss, fit_intercept=intercept, start=fit)
        assert again.n_steps == 2
        assert again.converged
        assert_allclose(again.values, fit.values, atol=1e-7)

    def test_a_step_to_the_optimum_needs_no_other(self):
        problem, (loss, judged) = LabelProblem(0), LOSSES["wide_hinge"]
        near = solve_labels(problem.G, problem.Y, 1.0001 * problem.v, loss)
        arguments = [problem.G, problem.Y, problem.v, loss]
        fit = solve_labels(*arguments, start=near)
        assert fit.converged
        assert fit.n_steps == 1
        values, _ = problem.solution(judged, False)
        assert_allclose(fit.values[:, 0], values, atol=1e-7)
        assert np.abs(near.values[:, 0] - values).max() > 1e-6
        # The bound is more than nothing, and other functions are not minimised by one step.
        assert not solve_labels(*arguments, start=near, tol=1e-300, max_iter=1).converged
        arguments[-1] = Logistic()
        near = solve_labels(problem.G, problem.Y, 1.01 * problem.v, Logistic())
        assert solve_labels(*arguments, start=near).n_steps > 1

    @pytest.mark.parametrize("scale", [1e-1, 1e4])
    def test_steps_end_where_values_move_little(self, scale):
        # Relative to the largest value, which is below 1 for the first scale and above for the
        # second.
        problem, loss = LabelProblem(0, scale=scale), Logistic()
        arguments = [problem.G, problem.Y, problem.V, loss]
        start = evaluate(*arguments, np.zeros((21, 1)), np.zeros(1))
        moved, largest = damped_step(*arguments, start, False)
        values = np.abs(moved.values).max()
        assert (values > 2.0) == (scale > 1.0)
        delta, _ = newton_direction(problem.G, start, False)
        assert largest == pytest.approx(np.abs(problem.G @ delta).max())
        for share in (0.999, 1.001):
            tol = share * largest / max(1.0, values)
            options = {"fit_intercept": False, "tol": tol, "max_iter": 1}
            assert minimize_newton(*arguments, start, **options).converged == (share > 1)

    def test_too_few_steps_are_reported(self):
        problem = LabelProblem(0, scale=1e4)
        fit = solve_labels(
            problem.G, problem.y[:, None], problem.v, HuberizedHinge(), tol=1e-12, max_iter=2
        )
        assert not fit.converged
        assert fit.n_steps == 2


# h = 0.01 and gamma_A = 1e-6 are where a damped Newton method needs a hundred steps and more.
# By number of labels: more labels are more kinks to cross.
MOST_STEPS = {40: 60, 400: 80}
NEWTON_DATA = {
    "breast_cancer": lambda: reference.bundled_data(load_breast_cancer, 400),
    "digits": lambda: reference.bundled_data(load_digits, 400),
    "a1a": lambda: reference.real_data("a1a", 400),
    "german.numer": lambda: reference.real_data("german.numer", 400),
    "fourclass": lambda: reference.real_data("fourclass", 400),
    "madelon": lambda: reference.real_data("madelon", 400),
    "svmguide3": lambda: reference.real_data("svmguide3", 400),
}


@with_and_without_intercept
@pytest.mark.parametrize("n_labelled", [40, 400])
@pytest.mark.parametrize("data", NEWTON_DATA)
def test_newton_needs_few_steps_for_a_narrow_hinge_and_a_small_penalty(data, n_labelled, intercept):
    X, y = NEWTON_DATA[data]()
    y = (y > y.mean()).astype(int)
    y[n_labelled:] = -1
    steps = {}
    for sigma in (2.0**-10, 1.0, 2.0**5, 2.0**10):
        for gamma_I in (0.0, 1e-2, 1e2):
            model = LapSVC(
                kernel_width=sigma,
                ambient_penalty=1e-6,
                manifold_penalty=gamma_I,
                fit_intercept=intercept,
            )
            # A fit that does not converge warns, and warnings are errors.
            steps[sigma, gamma_I] = model.fit(X, y).n_iter_
    assert max(steps.values()) <= MOST_STEPS[n_labelled], steps


def test_the_warning_names_the_line_that_called_fit():
    problem, y = FoldsProblem(), np.full(60, -1)
    y[problem.labelled] = problem.y > 0
    with pytest.warns(ConvergenceWarning, match="stopped after 1 steps") as caught:
        LapSVC(max_iter=1, ambient_penalty=1e-6).fit(problem.X, y)
    assert caught[0].filename == __file__


SHARED = ["losses", "basis", "criteria.common"]
SHARED += [
    f"solvers.{name}" for name in ("correction", "hessian", "labels", "line_search", "points")
]


def test_what_was_computed_cannot_be_changed():
    # Folds and threads share it, and properties are cached.
    for name in (f"onefit.{name}" for name in SHARED):
        parts = vars(importlib.import_module(name)).values()
        own = [part for part in parts if getattr(part, "__module__", None) == name]
        classes = [part for part in own if isinstance(part, type) and is_dataclass(part)]
        assert classes
        assert all(cls.__dataclass_params__.frozen for cls in classes)

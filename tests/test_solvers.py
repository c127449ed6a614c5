"""Solvers against dense systems, root finding, and the reference's minimiser."""

import importlib
from dataclasses import is_dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning

import reference
from onefit import LapSVC
from onefit.basis import KernelBasis, plane_basis
from onefit.factors import factor_kernel
from onefit.graphs import Graph
from onefit.losses import HuberizedHinge, Logistic, Square, SquaredHinge
from onefit.solvers import correction, line_search, points
from onefit.solvers.correction import label_correction, label_response
from onefit.solvers.hessian import FullHessian, nystrom_hessian, solve_bordered
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
from onefit.solvers.line_search import (
    RestrictedObjective,
    minimize_along_lines,
    minimize_restricted,
)
from onefit.solvers.points import FoldColumn, FoldsState, FoldSystems, minimize_folds

LOSSES = {
    "square": (Square(), reference.Square()),
    "huberized_hinge": (HuberizedHinge(0.01), reference.HuberizedHinge(0.01)),
    "wide_hinge": (HuberizedHinge(0.8), reference.HuberizedHinge(0.8)),
    "squared_hinge": (SquaredHinge(), reference.SquaredHinge()),
    "logistic": (Logistic(), reference.Logistic()),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True])
some_seeds = pytest.mark.parametrize("seed", range(5))


class LabelProblem:
    """A random label problem: J(beta, b) = sum_i v_i loss(y_i, f_i) + beta'G beta, f = G beta + b.

    With G = B B' and w = B'beta it is an ordinary objective in w, for which ``reference`` has a
    minimiser: no graph, and gamma_A = 1.
    """

    def __init__(self, seed, n_labels=21, scale=10.0):
        rng = np.random.default_rng(seed)
        self.B = np.sqrt(scale) * rng.normal(size=(n_labels, n_labels + 3)) / n_labels**0.5
        self.G = self.B @ self.B.T
        self.y = np.where(rng.uniform(size=n_labels) < 0.4, 1.0, -1.0)
        self.v = rng.uniform(0.5, 2.0, size=n_labels)
        self.v /= self.v.sum()
        # A candidate with every third margin in the band of the narrowest hinge.
        f = rng.normal(size=n_labels)
        f[::3] = self.y[::3] * rng.uniform(0.993, 1.007, size=f[::3].size)
        self.f, self.b = f, rng.normal()
        self.Y, self.V = self.y[:, None], self.v[:, None]

    def state(self, loss, intercept):
        b = self.b if intercept else 0.0
        beta = np.linalg.solve(self.G, self.f - b)
        return evaluate(self.G, self.Y, self.V, loss, beta[:, None], np.array([b]))

    def solution(self, loss, intercept):
        """Values and intercept of the reference."""
        n = len(self.y)
        objective = reference.Objective(
            np.zeros((n, n)), np.arange(n), self.y, self.v, loss, 1.0, 0.0, intercept
        )
        return reference.minimize_with_intercept(objective, self.B)


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


def along_line(loss, y, v, values, change, linear, quadratic):
    """One restricted objective."""
    columns = (array[:, None] for array in (y, v, values, change))
    return RestrictedObjective(loss, *columns, *np.array([[linear], [quadratic]]).reshape(2, 1))


class TestLineSearch:
    @given(
        first=st.floats(1e-3, 1e3),
        quadratic=st.sampled_from([0.0, 1e-6, 1.0, 1e6]),
        kinks=st.lists(st.tuples(st.floats(0, 1e4), st.floats(1e-3, 1e3)), min_size=1, max_size=8),
    )
    def test_piecewise_quadratic_functions_against_brentq(self, first, quadratic, kinks):
        # The slope starts at -first, and is bent upwards at every kink; flat parts are allowed.
        def slope(t):
            return -first + quadratic * t + sum(c * max(0.0, t - kink) for kink, c in kinks)

        def slope_and_curvature(t):
            return slope(t), quadratic + sum(c for kink, c in kinks if t > kink)

        (t,) = minimize_along_lines(slope_and_curvature, 1)
        if t == 1.0 and slope(1.0) != 0.0:
            # A full step is good enough when it leaves a thousandth of the slope.
            assert abs(slope(1.0)) <= 1e-3 * first
        else:
            exact = brentq(slope, 0.0, 1e9, xtol=1e-300, rtol=1e-14)
            assert t == pytest.approx(exact, rel=1e-8)

    def test_full_step_is_taken_where_it_is_the_minimum(self):
        assert minimize_along_lines(lambda t: (2.0 * (t - 1.0), 2.0), 1) == 1.0

    @pytest.mark.parametrize("minimum", [1e-9, 1e-3, 0.5, 3.0, 1e4])
    def test_quadratic_function(self, minimum):
        t = minimize_along_lines(lambda t: (t - minimum, 1.0), 1)
        assert t == pytest.approx(minimum, rel=1e-8)

    def test_every_line_ends_at_its_own_minimum(self):
        # No descent, a full step, one that needs doublings, and one that needs bisection.
        minimum = np.array([-1.0, 1.0, 1e4, 1e-9])
        t = minimize_along_lines(
            lambda t: (np.arctan(t - minimum), 1 / (1 + (t - minimum) ** 2)), 4
        )
        assert_allclose(t, np.maximum(minimum, 0.0), rtol=1e-6)

    @every_loss
    def test_columns_are_lines_of_their_own(self, name):
        rng = np.random.default_rng(0)
        y, v = rng.choice([-1.0, 1.0], (30, 40)), rng.uniform(size=(30, 40))
        f, d = rng.normal(size=(2, 30, 40)) * 10.0 ** rng.uniform(-2, 2, size=40)
        v[:, 0] = 0.0
        linear, quadratic = -(10.0 ** rng.uniform(-3, 2, size=40)), np.full(40, 0.1)
        linear[1:3] = 1e3
        t = minimize_restricted(RestrictedObjective(LOSSES[name][0], y, v, f, d, linear, quadratic))
        assert t[0] == pytest.approx(-10 * linear[0])
        assert not t[1:3].any()
        alone = [
            minimize_restricted(
                along_line(LOSSES[name][0], y[:, j], v[:, j], f[:, j], d[:, j], a, 0.1)
            )[0]
            for j, a in enumerate(linear)
        ]
        assert_allclose(t, alone, rtol=1e-8)

    @pytest.mark.parametrize("minimum", [1e-9, 1e-3, 0.5, 3.0, 1e4])
    def test_curvature_that_is_no_help(self, minimum):
        # Newton's method on arctan diverges; a curvature of 0 says nothing.
        t = minimize_along_lines(
            lambda t: (np.arctan(t - minimum), 1 / (1 + (t - minimum) ** 2)), 1
        )
        assert t == pytest.approx(minimum, rel=1e-6)
        t = minimize_along_lines(lambda t: (np.sign(t - minimum) * abs(t - minimum) ** 0.5, 0.0), 1)
        assert t == pytest.approx(minimum, rel=1e-6)

    @pytest.mark.parametrize("slope", [0.0, 1.0])
    def test_no_step_without_descent(self, slope):
        assert minimize_along_lines(lambda t: (slope + t, 1.0), 1) == 0.0

    @every_loss
    def test_restricted_objective(self, name):
        loss, expected_loss = LOSSES[name]
        problem = LabelProblem(0)
        f = problem.state(loss, False).values[:, 0]
        d = np.random.default_rng(0).normal(size=21)

        def value(t):
            return problem.v @ expected_loss(problem.y, f + t * d) + 0.3 * t + 0.5 * 0.7 * t**2

        restricted = along_line(loss, problem.y, problem.v, f, d, 0.3, 0.7)
        for t in (0.0, 0.37, 2.0):
            slope, curvature = restricted(t)
            assert slope == pytest.approx((value(t + 1e-6) - value(t - 1e-6)) / 2e-6, abs=1e-7)
            ahead, behind = restricted(t + 1e-8)[0], restricted(t - 1e-8)[0]
            assert curvature == pytest.approx((ahead - behind) / 2e-8, abs=1e-5)

    @every_loss
    @pytest.mark.parametrize("seed", range(20))
    def test_minimum_of_a_restricted_objective(self, name, seed):
        """Its slope changes sign there; a full step is kept when it nearly does at 1."""
        loss, _ = LOSSES[name]
        rng = np.random.default_rng(seed)
        y = rng.choice([-1.0, 1.0], 30)
        v = rng.uniform(0.0, 1.0, 30) * (rng.random(30) > 0.2)
        f, d = rng.normal(size=(2, 30)) * 10.0 ** rng.uniform(-2, 2)
        d[::7] = 0.0
        at_zero = (v * loss.derivative(y, f)) @ d
        linear, quadratic = -at_zero - 10.0 ** rng.uniform(-3, 2), 10.0 ** rng.uniform(-4, 2)
        restricted = along_line(loss, y, v, f, d, linear, quadratic)
        t = minimize_restricted(restricted)
        first = restricted(0.0)[0]
        if t == 1.0:
            assert abs(restricted(1.0)[0]) <= 1e-3 * -first
        else:
            assert restricted(t * (1 - 1e-7))[0] <= 1e-9 * -first
            assert restricted(t * (1 + 1e-7))[0] >= 1e-9 * first
        assert minimize_restricted(replace(restricted, linear=-at_zero + 1.0)) == 0.0

    @pytest.mark.parametrize("name", ["huberized_hinge", "wide_hinge", "squared_hinge"])
    def test_full_step_is_taken_where_a_thousandth_of_the_slope_is_left(self, name, monkeypatch):
        # Scaled so that the minimum is at 1; a linear term more is a slope more there. All this is
        # a matter of sorting: the general method is not needed.
        monkeypatch.setattr(line_search, "minimize_along_lines", None)
        rng = np.random.default_rng(0)
        y, v = rng.choice([-1.0, 1.0], 30), rng.uniform(size=30)
        for _ in range(40):
            f, d = rng.normal(size=(2, 30)) * 10.0 ** rng.uniform(-1, 1)
            at_zero = (v * LOSSES[name][0].derivative(y, f)) @ d
            linear, q = -at_zero - 10.0 ** rng.uniform(-1, 2), 10.0 ** rng.uniform(-2, 1)
            restricted = along_line(LOSSES[name][0], y, v, f, d, linear, q)
            t = minimize_restricted(restricted)
            scaled = along_line(LOSSES[name][0], y, v, f, t * d, t * linear, t**2 * q)
            first = -scaled(0.0)[0]
            for share in (-1.1e-3, -0.9e-3, 0.0, 0.9e-3, 1.1e-3):
                shifted = replace(scaled, linear=t * linear + share * first)
                is_full = minimize_restricted(shifted) == 1.0
                assert is_full == (abs(shifted(1.0)[0]) <= -1e-3 * shifted(0.0)[0])

    def test_a_thousandth_of_the_slope_is_accepted(self):
        assert minimize_along_lines(lambda t: (1001.0 * t - 1000.0, 1001.0), 1) == 1.0
        assert minimize_along_lines(lambda t: (1001.1 * t - 1000.0, 1001.1), 1) != 1.0

    def test_a_value_that_begins_at_the_edge_of_the_band(self):
        # (1 - m)^2 with m = 1 - t, and -t + t^2 / 4: the slope is 2.5 t - 1.
        one = np.ones(1)
        edge = along_line(SquaredHinge(), one, one, one, -one, -1.0, 0.5)
        assert minimize_restricted(edge) == pytest.approx(0.4)

    @pytest.mark.parametrize("minimum", [1e-3, 0.3, 3.1, 12345.6])
    def test_few_evaluations(self, minimum):
        # One for each doubling, and a handful of Newton's method for a cubic slope.
        seen = []

        def slope_and_curvature(t):
            seen.append(t)
            x = t / minimum
            return x**3 + x - 2.0, (3 * x**2 + 1) / minimum

        (t,) = minimize_along_lines(slope_and_curvature, 1)
        assert t == pytest.approx(minimum, rel=1e-8)
        assert len(seen) <= 40


class FoldsProblem:
    """A problem on 60 rows, 24 of them labelled, and three folds of points."""

    n, gamma_I = 60, 5.0

    def __init__(self, *, normalized=False, kind="kernel", gamma_A=1e-3):
        rng = np.random.default_rng(0)
        self.normalized, self.gamma_A = normalized, gamma_A
        self.X = rng.normal(size=(self.n, 3))
        self.W = reference.knn_affinity(self.X, 5, 1.0)
        self.graph = Graph(sp.csr_array(self.W), normalized)
        self.K = reference.gaussian_kernel(self.X, self.X, 1.0)
        self.labelled = np.sort(rng.permutation(self.n)[:24])
        self.y = np.where(self.X[self.labelled, 0] + 0.5 * rng.normal(size=24) > 0.3, 1.0, -1.0)
        self.folds = np.array_split(rng.permutation(self.n), 3)
        if kind == "kernel":
            self.basis = KernelBasis(self.K, self.graph.laplacian, self.labelled)
        else:
            factor = factor_kernel(self.K.copy())
            self.basis = plane_basis(factor, self.graph.laplacian, self.labelled)

    def kept(self, fold):
        return np.setdiff1d(np.arange(self.n), fold)

    def weights(self, fold):
        v = np.where(np.isin(self.labelled, fold), 0.0, 1.0)
        return v / v.sum()

    def systems(self, loss, intercept):
        columns = [
            FoldColumn(
                self.graph.only(self.kept(fold)).laplacian,
                self.gamma_I / (self.n - len(fold)) ** 2,
                self.weights(fold),
                self.y,
            )
            for fold in self.folds
        ]
        deformed = self.basis.deform(self.gamma_I / self.n**2 / self.gamma_A)
        gram = deformed.labelled_gram / self.gamma_A
        return FoldSystems(self.basis, deformed, gram, columns, loss, self.gamma_A, intercept)

    def random_state(self, intercept, size=1e-2):
        rng = np.random.default_rng(1)
        coef = self.basis.representer(size * rng.normal(size=(self.n, len(self.folds))))
        b = intercept * rng.uniform(0.5, 1.5, size=len(self.folds))
        return FoldsState(coef, self.basis.values(coef), b)

    def laplacian_of_fold(self, fold):
        kept = np.ix_(self.kept(fold), self.kept(fold))
        L = np.zeros((self.n, self.n))
        L[kept] = reference.laplacian(self.W[kept], normalized=self.normalized)
        return L

    def dense_direction(self, fold, loss, state, j, intercept):
        """Newton's direction for one fold: its values, in the eigenbasis of K."""
        B = reference.features(self.K)
        w = np.linalg.lstsq(B, state.kernel_values[:, j])[0]
        v, scale = self.weights(fold), self.gamma_I / (self.n - len(fold)) ** 2
        A = np.column_stack([B, np.ones(self.n)])
        rows = A[self.labelled]
        penalty = np.zeros((A.shape[1], A.shape[1]))
        penalty[:-1, :-1] = self.gamma_A * np.eye(B.shape[1])
        penalty[:-1, :-1] += scale * B.T @ self.laplacian_of_fold(fold) @ B
        f = rows @ np.append(w, state.intercept[j])
        gradient = rows.T @ (v * loss.first(self.y, f)) + 2 * penalty @ np.append(w, 0.0)
        H = (rows.T * (v * loss.second(self.y, f))) @ rows + 2 * penalty
        if not intercept:
            return A[:, :-1] @ np.linalg.solve(H[:-1, :-1], -gradient[:-1])
        return A @ np.linalg.solve(H, -gradient)

    def refit(self, fold, loss, intercept):
        """The reference on the kept rows alone; the removed rows are new rows to it."""
        kept = self.kept(fold)
        order = np.concatenate([kept, fold])
        is_kept = np.isin(self.labelled, kept)
        objective = reference.Objective(
            reference.laplacian(self.W[np.ix_(kept, kept)], normalized=self.normalized),
            np.searchsorted(kept, self.labelled[is_kept]),
            self.y[is_kept],
            np.full(is_kept.sum(), 1 / is_kept.sum()),
            loss,
            self.gamma_A,
            self.gamma_I,
            intercept,
        )
        values = np.empty(self.n)
        B = reference.features(self.K)
        values[order] = reference.minimize(objective, B[order])
        return values


every_basis = pytest.mark.parametrize("kind", ["kernel", "plane"])
both_laplacians = pytest.mark.parametrize("normalized", [False, True], ids=["D-W", "normalized"])


class TestFolds:
    # Not the narrow hinge: without a label in its band the system with an intercept is singular.
    @pytest.mark.parametrize("name", ["square", "wide_hinge", "squared_hinge", "logistic"])
    @with_and_without_intercept
    @both_laplacians
    @every_basis
    def test_direction_against_the_dense_system(self, name, intercept, normalized, kind):
        loss, expected_loss = LOSSES[name]
        problem = FoldsProblem(normalized=normalized, kind=kind)
        state = problem.random_state(intercept)
        direction, n_solved = problem.systems(loss, intercept).newton_direction(state)
        assert n_solved >= len(problem.folds)
        for j, fold in enumerate(problem.folds):
            expected = problem.dense_direction(fold, expected_loss, state, j, intercept)
            assert_allclose(direction.values[:, j], expected, atol=1e-8 * np.abs(expected).max())

    @pytest.mark.parametrize("limit", [0, 2])
    @every_basis
    def test_stalled_folds_are_solved_densely(self, monkeypatch, limit, kind):
        monkeypatch.setattr(points, "_CG_MAX_ITER", limit)
        self.test_direction_against_the_dense_system("logistic", True, False, kind)

    @pytest.mark.parametrize("limit", [0, 2])
    @with_and_without_intercept
    def test_systems_are_counted(self, monkeypatch, limit, intercept):
        # So few steps for each of the three columns are not enough: each is solved densely too.
        monkeypatch.setattr(points, "_CG_MAX_ITER", limit)
        problem = FoldsProblem()
        systems, start = problem.systems(Square(), intercept), problem.random_state(intercept)
        _, n_solves = systems.newton_direction(start)
        assert n_solves == (1 + intercept) * 3 * (limit + 1)
        assert minimize_folds(systems, start).n_solves == n_solves

    @every_loss
    @every_basis
    def test_folds_seldom_stall(self, monkeypatch, name, kind):
        # The full problem is near to its folds: few steps, and no dense system.
        monkeypatch.setattr(points._FoldHessians, "_solve_densely", None)
        problem = FoldsProblem(kind=kind)
        systems = problem.systems(LOSSES[name][0], False)
        _, n_solves = systems.newton_direction(problem.random_state(False))
        assert 3 < n_solves <= 3 * 50

    def test_a_column_without_gradient_stays(self, monkeypatch):
        monkeypatch.setattr(points._FoldHessians, "_solve_densely", None)
        problem = FoldsProblem()
        hessians = points._FoldHessians(problem.systems(Square(), False), np.full((24, 3), 0.1))
        right = np.random.default_rng(0).normal(size=(problem.n, 3)) * [0.0, 1.0, 1.0]
        coef, values, _ = hessians.solve(right)
        assert not coef[:, 0].any()
        assert not values[:, 0].any()
        assert_allclose(hessians.apply(coef, values), right, atol=1e-9)

    @every_loss
    def test_folds_that_keep_the_graph_need_one_step(self, name):
        # Only labels differ, and the preconditioner has the fold's own; a second step for rounding.
        problem = FoldsProblem()
        systems, state = problem.systems(LOSSES[name][0], False), problem.random_state(False)
        whole = {"laplacian": problem.graph.laplacian, "scale": problem.gamma_I / problem.n**2}
        columns = [replace(column, **whole) for column in systems.columns]
        _, n_solves = replace(systems, columns=columns).newton_direction(state)
        assert n_solves <= 3 * 2

    def test_an_intercept_that_has_curvature_is_not_settled(self):
        # Labels of class 1 are at the margin 1; with the intercept's sign changed none would be.
        problem = FoldsProblem()
        systems = problem.systems(HuberizedHinge(), True)
        values = np.zeros((problem.n, 3))
        values[problem.labelled] = np.where(problem.y < 0, 0.5, 0.0)[:, None]
        state = FoldsState(np.zeros_like(values), values, np.ones(3))
        np.testing.assert_array_equal(systems.settle_intercepts(state).intercept, 1.0)

    @every_loss
    @with_and_without_intercept
    @both_laplacians
    @every_basis
    def test_optimum_against_refitting(self, name, intercept, normalized, kind):
        loss, expected_loss = LOSSES[name]
        problem = FoldsProblem(normalized=normalized, kind=kind)
        start = problem.random_state(intercept)
        state = minimize_folds(problem.systems(loss, intercept), start).state
        for j, fold in enumerate(problem.folds):
            expected = problem.refit(fold, expected_loss, intercept)
            assert_allclose(state.values[:, j], expected, atol=1e-7 * np.abs(expected).max())

    @pytest.mark.parametrize("start", ["zero", "random"])
    @pytest.mark.parametrize("name", ["huberized_hinge", "wide_hinge"])
    @every_basis
    def test_intercept_where_no_label_has_curvature(self, kind, name, start):
        # A large penalty keeps f small: all margins of a fit to balanced classes are in the linear
        # part of the hinge, while the classes left in a fold pull its intercept to -1 or 1.
        loss, expected_loss = LOSSES[name]
        problem = FoldsProblem(kind=kind, gamma_A=10.0)
        sides = [problem.y[~np.isin(problem.labelled, fold)].sum() for fold in problem.folds]
        assert 0 not in sides, "a fold with balanced classes has no unique intercept"
        begin = problem.random_state(False, size=0.0 if start == "zero" else 1e-3)
        state = minimize_folds(problem.systems(loss, True), begin).state
        for j, fold in enumerate(problem.folds):
            expected = problem.refit(fold, expected_loss, True)
            assert_allclose(state.values[:, j], expected, atol=1e-7)

    @every_loss
    @with_and_without_intercept
    def test_gradient_by_finite_differences(self, name, intercept):
        loss, expected_loss = LOSSES[name]
        problem = FoldsProblem()
        state = problem.random_state(intercept)
        coef, slope_b = problem.systems(loss, intercept).gradient(state)
        step = np.random.default_rng(2).normal(size=problem.n)
        for j, fold in enumerate(problem.folds):
            L, scale = problem.laplacian_of_fold(fold), problem.gamma_I / 40**2

            def value(t, alpha=state.coef[:, j], b=state.intercept[j], fold=fold, L=L, s=scale):
                g = problem.K @ (alpha + t * step)
                return (
                    problem.weights(fold) @ expected_loss(problem.y, g[problem.labelled] + b + t)
                    + problem.gamma_A * (alpha + t * step) @ g
                    + s * g @ L @ g
                )

            # The gradient is a function of the RKHS: its inner product with the step.
            expected = coef[:, j] @ problem.K @ step + slope_b[j]
            assert (value(1e-6) - value(-1e-6)) / 2e-6 == pytest.approx(expected, abs=1e-6)

    def test_number_of_steps_can_be_given(self):
        problem = FoldsProblem()
        systems, start = problem.systems(Logistic(), False), problem.random_state(False)
        one_step = minimize_folds(systems, start, n_steps=1).state
        direction, _ = systems.newton_direction(start)
        assert_allclose(one_step.values, start.values + direction.values, atol=1e-12)
        unmoved = minimize_folds(systems, start, n_steps=0)
        np.testing.assert_array_equal(unmoved.state.values, start.values)
        assert unmoved.n_solves == 0

    def test_intercepts_are_settled_before_a_step_and_at_the_end(self):
        # As above, no label has curvature. A given number of steps ends with the last step.
        problem, loss = FoldsProblem(gamma_A=10.0), HuberizedHinge(0.01)
        systems, start = problem.systems(loss, True), problem.random_state(False, size=1e-3)
        settled, optimum = systems.settle_intercepts(start), minimize_folds(systems, start).state
        for state in (settled, optimum):
            for j, column in enumerate(systems.columns):
                f = state.kernel_values[problem.labelled, j]
                best = optimal_intercept(loss, column.y, column.v, f, 0.0)
                assert state.intercept[j] == pytest.approx(best, abs=1e-9)
        step = systems.newton_direction(settled)[0]
        stepped = minimize_folds(systems, start, n_steps=1).state
        assert_allclose(stepped.intercept, settled.intercept + step.intercept, atol=1e-12)
        assert_allclose(stepped.values, settled.values + step.values, atol=1e-12)

    @pytest.mark.parametrize("max_iter", [1, 100])
    def test_convergence_is_reported(self, max_iter):
        problem = FoldsProblem()
        systems, start = problem.systems(Logistic(), True), problem.random_state(True)
        assert minimize_folds(systems, start, max_iter=max_iter).converged == (max_iter == 100)
        assert minimize_folds(systems, start, n_steps=1).converged
        assert minimize_folds(problem.systems(Square(), True), start).converged

    @pytest.mark.parametrize("gamma_A", [1e-6, 10.0])
    def test_steps_end_where_values_move_little(self, gamma_A):
        problem = FoldsProblem(gamma_A=gamma_A)
        systems, start = problem.systems(Logistic(), False), problem.random_state(False, size=0.0)
        moved = minimize_folds(systems, start, tol=0.0, max_iter=1).state
        largest = np.abs(systems.newton_direction(start)[0].values).max()
        values = np.abs(moved.values).max()
        assert (values > 2.0) == (gamma_A < 1.0)
        for share in (0.999, 1.001):
            tol = share * largest / max(1.0, values)
            solution = minimize_folds(systems, start, tol=tol, max_iter=1)
            assert solution.converged == (share > 1)

    def test_stops_at_the_optimum(self):
        problem = FoldsProblem()
        systems, start = problem.systems(Logistic(), False), problem.random_state(False)
        optimum = minimize_folds(systems, start)
        again = minimize_folds(systems, optimum.state)
        assert again.n_solves == systems.newton_direction(optimum.state)[1]
        assert optimum.n_solves < 10 * again.n_solves
        assert_allclose(again.state.values, optimum.state.values, atol=1e-8)


class TestHessians:
    def test_bordered_system_against_the_dense_one(self):
        # (A + diag F) f + F b = r and F'(f + b) = s, eliminated by hand.
        rng = np.random.default_rng(0)
        root = rng.normal(size=(5, 5))
        F, r, s = rng.uniform(0.5, 1.0, size=5), rng.normal(size=(5, 2)), rng.normal(size=2)
        H = root @ root.T + np.eye(5) + np.diag(F)
        system = np.block([[H, F[:, None]], [F[None], F.sum()[None, None]]])
        expected = np.linalg.solve(system, np.vstack([r, s]))[-1]
        found = solve_bordered(np.linalg.solve(H, r), np.linalg.solve(H, F), F, s)
        assert_allclose(found, expected, atol=1e-12)

    def test_bordered_system_that_leaves_the_intercept_open(self):
        # Without curvature, or where labels follow the intercept to the last digit.
        for F, one in [(np.zeros(3), np.zeros(3)), (np.ones(3), np.ones(3))]:
            found = solve_bordered(np.ones((3, 2)), one, F, np.ones(2))
            np.testing.assert_array_equal(found, [0.0, 0.0])

    @every_basis
    @both_laplacians
    @pytest.mark.parametrize("zeros", [0, 8, 24])
    def test_full_hessian_against_the_dense_system(self, kind, normalized, zeros):
        problem = FoldsProblem(normalized=normalized, kind=kind)
        basis, K, n = problem.basis, problem.K, problem.n
        F = np.random.default_rng(0).uniform(0.1, 1.0, size=24)
        F[:zeros] = 0.0
        deformed = basis.deform(problem.gamma_I / n**2 / problem.gamma_A)
        gram = deformed.labelled_gram / problem.gamma_A
        hessian = FullHessian(basis, deformed, problem.gamma_A, label_correction(gram, F))
        right = np.random.default_rng(1).normal(size=(n, 2))
        coef, values = hessian.solve(basis.representer(right))
        # On values: (2 gamma_A I + K F + 2 gamma_I / N^2 K L) f = K right.
        S = 2 * problem.gamma_I / n**2 * problem.graph.laplacian.toarray()
        S[problem.labelled, problem.labelled] += F
        expected = np.linalg.solve(2 * problem.gamma_A * np.eye(n) + K @ S, K @ right)
        assert_allclose(values, expected, atol=1e-8 * np.abs(expected).max())
        assert_allclose(basis.values(coef), values, atol=1e-8 * np.abs(expected).max())

    @every_basis
    @both_laplacians
    @pytest.mark.parametrize("c", [1, 8, 60])
    @pytest.mark.parametrize("zeros", [0, 8, 24])
    def test_nystrom_hessian_against_the_dense_system(self, kind, normalized, c, zeros):
        # Only the last term has the Nystrom matrix: T + 2 gamma_I / N^2 C P^+ C' L.
        problem = FoldsProblem(normalized=normalized, kind=kind)
        K, n, gamma_A = problem.K, problem.n, problem.gamma_A
        scale = problem.gamma_I / n**2
        rng = np.random.default_rng(0)
        F = np.zeros(n)
        F[problem.labelled] = rng.uniform(0.1, 1.0, size=24)
        F[problem.labelled[:zeros]] = 0.0
        landmarks = np.sort(rng.permutation(n)[:c])
        C = K[:, landmarks]
        nystrom = C @ np.linalg.solve(C[landmarks], C.T)
        L = problem.graph.laplacian.toarray()
        H = K * F + 2 * gamma_A * np.eye(n) + 2 * scale * nystrom @ L
        hessian = nystrom_hessian(problem.basis, landmarks, F[problem.labelled], gamma_A, scale)
        right = K @ rng.normal(size=(n, 2))
        expected = np.linalg.solve(H, right)
        tol = 1e-8 * np.abs(expected).max()
        assert_allclose(hessian.solve_values(right), expected, atol=tol)
        coef, values = hessian.solve(problem.basis.representer(np.linalg.solve(K, right)))
        assert_allclose(values, expected, atol=tol)
        assert_allclose(problem.basis.values(coef), expected, atol=tol)


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

"""Solvers of all folds at once, and Hessians, against dense references."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefit.losses import HuberizedHinge, Logistic, Square
from onefit.solvers import points
from onefit.solvers.correction import label_correction
from onefit.solvers.hessian import FullHessian, nystrom_hessian, solve_bordered
from onefit.solvers.intercept import optimal_intercept
from onefit.solvers.points import FoldsState, minimize_folds
from solver_problems import (
    LOSSES,
    FoldsProblem,
    both_laplacians,
    every_basis,
    every_loss,
    with_and_without_intercept,
)


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

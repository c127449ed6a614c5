"""Line search along a Newton step against a scalar minimiser."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from onefit.losses import SquaredHinge
from onefit.solvers import line_search
from onefit.solvers.line_search import (
    RestrictedObjective,
    minimize_along_lines,
    minimize_restricted,
)
from solver_problems import LOSSES, LabelProblem, every_loss


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

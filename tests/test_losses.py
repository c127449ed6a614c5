"""Losses against the table of the documentation, finite differences and limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from onefit.losses import HuberizedHinge, Logistic, Square, SquaredHinge

# The loss, the same from the table, and the margins at which its second derivative jumps.
LOSSES = {
    "square": (Square(), reference.Square(), []),
    "huberized_hinge": (HuberizedHinge(), reference.HuberizedHinge(0.01), [0.99, 1.01]),
    "wide_hinge": (HuberizedHinge(0.7), reference.HuberizedHinge(0.7), [0.3, 1.7]),
    "squared_hinge": (SquaredHinge(), reference.SquaredHinge(), [1.0]),
    "logistic": (Logistic(), reference.Logistic(), []),
}

every_loss = pytest.mark.parametrize("name", LOSSES)
both_classes = pytest.mark.parametrize("y", [-1.0, 1.0])
decision = st.floats(-50, 50)


def decisions_off_kinks(name, y, distance):
    f = np.concatenate([np.linspace(-4, 4, 161), np.linspace(0.97, 1.03, 61)])
    kinks = LOSSES[name][2]
    return np.array([x for x in f if all(abs(y * x - kink) > distance for kink in kinks)])


@every_loss
@both_classes
def test_value_and_derivatives_are_those_of_the_table(name, y):
    loss, expected, _ = LOSSES[name]
    f = decisions_off_kinks(name, y, 1e-12)
    np.testing.assert_allclose(loss.value(y, f), expected(y, f), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(loss.derivative(y, f), expected.first(y, f), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(
        loss.second_derivative(y, f), expected.second(y, f), rtol=1e-13, atol=1e-14
    )


def test_square_loss_of_real_targets():
    assert Square().value(np.array([22.5]), np.array([20.0])) == 6.25
    assert Square().derivative(np.array([22.5]), np.array([20.0])) == -5.0


@every_loss
@both_classes
@pytest.mark.parametrize(
    "method, derivative", [("value", "derivative"), ("derivative", "second_derivative")]
)
def test_finite_differences(name, y, method, derivative):
    loss = LOSSES[name][0]
    step = 1e-5
    f = decisions_off_kinks(name, y, 2 * step)
    function = getattr(loss, method)
    slope = (function(y, f + step) - function(y, f - step)) / (2 * step)
    # Rounding of the function over the step, and for the logistic loss its third derivative.
    np.testing.assert_allclose(getattr(loss, derivative)(y, f), slope, rtol=0, atol=2e-9)


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name][2]])
@both_classes
def test_value_and_derivative_are_continuous_at_the_kinks(name, y):
    loss, _, kinks = LOSSES[name]
    for kink in kinks:
        left, at, right = y * (kink - 1e-9), y * kink, y * (kink + 1e-9)
        for function, slope in [(loss.value, 2.0), (loss.derivative, 1 / (2 * 0.01))]:
            values = function(y, np.array([left, at, right]))
            assert np.ptp(values) <= 2e-9 * slope + 1e-15


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name][2]])
@both_classes
def test_second_derivative_at_a_kink_is_one_of_its_sides(name, y):
    loss, _, kinks = LOSSES[name]
    for kink in kinks:
        left, at, right = loss.second_derivative(y, y * (kink + np.array([-1e-9, 0.0, 1e-9])))
        assert at in (left, right)
        assert left != right


@pytest.mark.parametrize("h", [1.0, 1e-1, 1e-3, 1e-6])
@both_classes
def test_huberized_hinge_tends_to_the_hinge(h, y):
    # The two differ most at the corner, by h / 4, and not at all outside the band.
    f = np.append(np.linspace(-3, 3, 1001), 1.0)
    excess = HuberizedHinge(h).value(y, f) - np.maximum(0.0, 1.0 - y * f)
    assert excess.min() >= -1e-15
    assert excess.max() <= h / 4 + 1e-15
    outside = np.abs(1.0 - y * f) > h
    np.testing.assert_allclose(excess[outside], 0.0, atol=1e-15)
    assert HuberizedHinge(h).value(y, np.array([y]))[0] == pytest.approx(h / 4)


@every_loss
@given(a=decision, b=decision, share=st.floats(0, 1))
def test_convexity(name, a, b, share):
    loss = LOSSES[name][0]
    y = np.ones(1)
    at_a, at_b, between = (
        loss.value(y, np.array([f]))[0] for f in (a, b, share * a + (1 - share) * b)
    )
    chord = share * at_a + (1 - share) * at_b
    assert between <= chord + 1e-12 * max(1.0, chord)


@every_loss
@both_classes
def test_derivative_does_not_decrease_and_curvature_is_not_negative(name, y):
    loss = LOSSES[name][0]
    f = np.linspace(-5, 5, 2001)
    assert np.diff(loss.derivative(y, f)).min() >= -1e-15
    assert loss.second_derivative(y, f).min() >= 0.0


@every_loss
@given(f=decision)
def test_classes_are_treated_alike(name, f):
    loss = LOSSES[name][0]
    y, f = np.ones(1), np.array([f])
    assert loss.value(y, f) == loss.value(-y, -f)
    assert loss.derivative(y, f) == -loss.derivative(-y, -f)
    assert loss.second_derivative(y, f) == loss.second_derivative(-y, -f)


@pytest.mark.parametrize("f", [1e3, 1e8])
def test_logistic_loss_of_large_margins(f):
    # No overflow (warnings are errors), and the linear asymptote of the wrong side.
    y, f = np.array([1.0, 1.0]), np.array([f, -f])
    np.testing.assert_array_equal(Logistic().value(y, f), [0.0, f[0]])
    np.testing.assert_array_equal(Logistic().derivative(y, f), [0.0, -1.0])
    np.testing.assert_array_equal(Logistic().second_derivative(y, f), [0.0, 0.0])


def test_logistic_loss_keeps_its_digits_where_it_is_small():
    # log(1 + e^-40) = e^-40 to double precision; 1 + e^-40 alone rounds to 1.
    value = Logistic().value(np.ones(1), np.array([40.0]))[0]
    assert value == pytest.approx(np.exp(-40.0), rel=1e-12)
    curvature = Logistic().second_derivative(np.ones(1), np.array([40.0]))[0]
    assert curvature == pytest.approx(np.exp(-40.0), rel=1e-12)


@every_loss
def test_only_the_square_loss_is_quadratic(name):
    loss = LOSSES[name][0]
    curvature = loss.second_derivative(1.0, np.linspace(-3, 3, 301))
    assert loss.is_quadratic == (np.ptp(curvature) == 0.0)


@every_loss
@pytest.mark.parametrize("method", ["value", "derivative", "second_derivative"])
def test_targets_and_decisions_broadcast(name, method):
    function = getattr(LOSSES[name][0], method)
    y, F = np.array([1.0, -1.0, 1.0]), np.linspace(-2, 2, 12).reshape(4, 3)
    expected = [[function(y[j], F[i, j]) for j in range(3)] for i in range(4)]
    np.testing.assert_array_equal(function(y, F), expected)

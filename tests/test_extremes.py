"""Numbers near the limits of doubles: the right result, or one line that names what is too large.

Warnings are errors here. ``test_inputs.py`` has the same on the command line.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from models import ESTIMATORS, every_estimator
from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    ManifoldSearchCV,
    cross_val_decisions,
)
from onefit.graphs import check_affinity
from onefit.preparation import conform
from onefit.search.held_out import held_out as held_out_decisions
from onefit.solvers.dense import solve_dense

N = 30
X, TRUTH = make_moons(N, noise=0.1, random_state=0)
Y = np.where(np.arange(N) < 12, TRUTH, -1)
TARGETS = np.where(Y == -1, np.nan, Y + 0.5 * X[:, 0])


def fitted(model, rows=X, y=None, sample_weight=None):
    """Decision values of a fit."""
    y = labels_for(model) if y is None else y
    return clone(model).fit(rows, y, sample_weight)._decisions(rows)


def held_out(model, rows=X, y=None, sample_weight=None, holdout="labels"):
    y = labels_for(model) if y is None else y
    result = cross_val_decisions(
        model, rows, y, cv=3, holdout=holdout, sample_weight=sample_weight
    ).predictions
    return result[~np.isnan(TARGETS)]


def searched(model, rows=X, y=None, sample_weight=None, grid=None, **options):
    """Scores and losses of a search."""
    y = labels_for(model) if y is None else y
    search = ManifoldSearchCV(model, {} if grid is None else grid, cv=3, **options)
    columns = search.fit(rows, y, sample_weight).cv_results_
    names = ("mean_test_score", "std_test_score", "mean_test_loss")
    return np.concatenate([columns[name] for name in names])


def labels_for(model):
    return TARGETS if isinstance(model, LapRLSRegressor) else Y


DOORS = {"fit": fitted, "cross_val_decisions": held_out, "search": searched}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


def assert_refused(message, door, *arguments, **options):
    """One line that matches; nothing else is said."""
    with pytest.raises(ValueError, match=message) as caught:
        door(*arguments, **options)
    assert type(caught.value) is ValueError
    assert "\n" not in str(caught.value)


LIMITS = {"ambient_penalty": "1e-100 to 1e[+]100", "manifold_penalty": "1e-100 to 1e[+]100 or 0"}


class TestParameters:
    @every_door
    @every_estimator
    @pytest.mark.parametrize("name", LIMITS)
    @pytest.mark.parametrize(
        "value",
        [1e-320, 1e-101, 1e101, 1.7e308, np.longdouble("1e-4000"), Fraction(1, 10**400)],
        ids=["subnormal", "small", "large", "largest", "float128", "fraction"],
    )
    def test_penalties(self, door, estimator, name, value):
        message = rf"^{name}=.*(1e-|1e[+]|1.7e|Fraction).* expected a number from {LIMITS[name]}"
        assert_refused(message, door, clone(estimator).set_params(**{name: value}))

    @every_door
    @pytest.mark.parametrize("name", ["kernel_width", "graph_width", "tol"])
    def test_subnormal(self, door, name):
        message = rf"{name}=1e-320 is too close .* expected a number from 2.23e-308 to 1.8e[+]308"
        assert_refused(message, door, LapSVC().set_params(**{name: 1e-320}))

    @every_door
    @pytest.mark.parametrize("value", [1e-320, 1e-17, 1e101])
    def test_hinge_width(self, door, value):
        message = r"hinge_width=.* expected a number from 2.22e-16 to 1e[+]100"
        assert_refused(message, door, LapSVC(hinge_width=value))

    @every_door
    @pytest.mark.parametrize(
        "value",
        [10**400, 10**5000, np.inf, np.float32("inf")],
        ids=["400", "5000", "inf", "float32"],
    )
    def test_no_end(self, door, value):
        message = r"ambient_penalty=.{1,100}; expected a finite number > 0"
        assert_refused(message, door, LapRLSClassifier(ambient_penalty=value))

    @every_door
    def test_neighbours_without_end(self, door):
        assert_refused("n_neighbors=9.* is too large", door, LapSVC(n_neighbors=9 * 10**17))
        message = r"n_neighbors=\(a very long int\); expected an integer >= 1 and <= 9223372036"
        assert_refused(message, door, LapSVC(n_neighbors=10**5000))

    @pytest.mark.parametrize("number", [np.float16(0.5), np.float32(0.5), np.longdouble(0.5)])
    def test_short_and_long_numbers(self, number):
        """The ratio of two float16 may overflow where the numbers do not."""
        grid = {"ambient_penalty": [number], "manifold_penalty": [type(number)(60_000)]}
        same = {"ambient_penalty": [0.5], "manifold_penalty": [float(type(number)(60_000))]}
        result = searched(LapSVC(), grid=grid)
        np.testing.assert_array_equal(result, searched(LapSVC(), grid=same))

    @every_door
    @every_estimator
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize(
        "params",
        [
            {"ambient_penalty": 1e100},
            {"ambient_penalty": 1e-100},
            {"manifold_penalty": 1e-100},
            {"manifold_penalty": 1e100},
            {"manifold_penalty": 1e100, "ambient_penalty": 1e-100},
            {"kernel_width": 2.3e-308},
            {"kernel_width": 1.7e308},
            {"graph_width": 2.3e-308, "laplacian": "normalized"},
            {"graph_width": 1.7e308},
            {"tol": 1.7e308},
        ],
        ids=str,
    )
    def test_at_the_limits(self, door, estimator, params):
        """Numbers, or an error about the penalties; never NaN, nor a warning of NumPy or SciPy."""
        said = ""
        try:
            values = door(clone(estimator).set_params(**params))
        except ValueError as error:
            values, said = np.nan, str(error)
        assert np.isfinite(values).all() != ("singular to rounding. Raise ambient_penalty" in said)


class TestSearch:
    """An error that one candidate has caused names it."""

    @pytest.mark.parametrize("holdout", ["labels", "points"])
    @pytest.mark.parametrize(
        "criterion, n_jobs", [("exact", 1), ("exact", 2), ("bif", 1), ("newton", 1)]
    )
    def test_the_candidate_is_found(self, holdout, criterion, n_jobs):
        message = (
            r"ambient_penalty=1e-100 is too small .* singular to rounding. .* "
            r"Candidate: ambient_penalty=1e-100, manifold_penalty=0.0.$"
        )
        grid = {"manifold_penalty": [0.0, 1.0], "ambient_penalty": [1.0, 1e-3, 1e-100, 1e-2]}
        options = {"holdout": holdout, "criterion": criterion, "n_jobs": n_jobs}
        model = LapRLSClassifier(n_components=10, random_state=0, fit_intercept=True)
        assert_refused(message, searched, model, grid=grid, **options)

    def test_a_parameter_of_a_candidate(self):
        grid = {"model__kernel_width": [1.0], "model__ambient_penalty": [1.0, 1e200]}
        pipeline = make_pipeline(StandardScaler(), LapRLSClassifier())
        pipeline.steps[-1] = ("model", pipeline.steps[-1][1])
        message = (
            r"^ambient_penalty=1e\+200 is too close .* "
            r"Candidate: model__ambient_penalty=1e\+200, model__kernel_width=1.0.$"
        )
        assert_refused(message, searched, pipeline, grid=grid)

    def test_a_parameter_of_all(self):
        """What no candidate varies is not blamed on one."""
        grid = {"ambient_penalty": [1.0, 2.0]}
        assert_refused(
            "kernel_width=inf; .*'median'.$", searched, LapSVC(kernel_width=np.inf), grid=grid
        )

    def test_a_factorisation(self, monkeypatch):
        """Candidates share it: the first one stands for all."""

        def failing(*_):
            raise np.linalg.LinAlgError("diagonal 0")

        monkeypatch.setattr("onefit.search.evaluate.plane_basis", failing)
        message = r"cannot be factored .*\(diagonal 0\)\. Rescale X.* Candidate: kernel_width=1.0.$"
        assert_refused(message, searched, LapSVC(), grid={"kernel_width": [1.0, 2.0]})

    def test_overflow_of_losses(self, monkeypatch):
        """Finite decisions whose squares are not."""

        def enlarged(task, basis, graph, candidates):
            for part in held_out_decisions(task, basis, graph, candidates):
                is_large = [c.model.ambient_penalty == 2.0 for c in part.members]
                factor = np.where(is_large, 1e200, 1.0)[:, None, None]
                yield replace(part, decisions=[factor * one for one in part.decisions])

        monkeypatch.setattr("onefit.search.evaluate.held_out", enlarged)
        grid = {"ambient_penalty": [1.0, 2.0, 3.0]}
        message = r"singular to rounding.* Candidate: ambient_penalty=2.0.$"
        assert_refused(message, searched, LapRLSClassifier(), grid=grid)


class TestRows:
    SCALES = (1e-149, 1e-100, 1e100, 1e149)

    @every_door
    @pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-151])
    def test_differences_without_squares(self, door, container, scale):
        message = r"X has rows that differ by no more than .*e-.*; expected 1e-150 .* multiply it"
        assert_refused(message, door, LapRLSClassifier(), container(scale * X))
        assert_refused(
            message, door, LapSVC(kernel_width=1.0, n_components=5), container(scale * X)
        )

    @every_door
    @pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
    def test_too_large(self, door, container):
        message = r"X has values up to 2.*e\+200 in size; expected at most 1e\+150.* Rescale X"
        assert_refused(message, door, LapRLSClassifier(), container(1e200 * X))

    @every_door
    @pytest.mark.parametrize("scale", SCALES)
    @pytest.mark.parametrize("params", [{}, {"n_components": 20, "random_state": 0}], ids=str)
    def test_rows_and_widths_scaled_together(self, door, scale, params):
        for name, model in ESTIMATORS.items():
            own = clone(model).set_params(kernel_width=0.3, graph_width=0.1, **params)
            scaled = clone(own).set_params(kernel_width=0.3 * scale**2, graph_width=0.1 * scale**2)
            np.testing.assert_allclose(
                door(scaled, scale * X), door(own), rtol=1e-6, atol=1e-6, err_msg=name
            )

    def test_constant_rows_are_no_reason(self):
        values = fitted(LapRLSClassifier(), np.full((N, 2), 1e-200))
        assert np.ptp(values) < 1e-12

    def test_a_small_column_beside_others(self):
        rows = np.column_stack([X, 1e-200 * X[:, 0]])
        np.testing.assert_allclose(fitted(LapSVC(), rows), fitted(LapSVC()), rtol=1e-9)

    def test_prediction_of_one_row(self):
        """The scale is that of the training rows."""
        model = LapSVC().fit(X, Y)
        assert np.isfinite(model.decision_function([[1e-300, 0.0]])).all()

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, object])
    def test_types(self, dtype):
        rows = X.astype(np.float16)
        expected = fitted(LapSVC(), rows.astype(np.float64))
        np.testing.assert_array_equal(fitted(LapSVC(), rows.astype(dtype)), expected)

    @every_door
    def test_beyond_doubles(self, door):
        rows = X.astype(np.longdouble)
        rows[3, 1] = np.longdouble("1e4000")
        message = "infinity or a value too large.* Expected finite numbers: .* or rescale X"
        assert_refused(message, door, LapSVC(), rows)
        rows = X.astype(object)
        rows[3, 1] = 10**400
        assert_refused("too large to convert.* Expected finite numbers", door, LapSVC(), rows)

    def test_a_table(self):
        """Named column and row, also where a model predicts."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"a": [1.0, 2.0, -1e200]})
        assert_refused("column 'a' has -1e[+]200 in row 3; .*unit", conform, frame, {"a": "number"})


class TestTargets:
    @every_door
    @pytest.mark.parametrize("scale", [1e300, 1e80, 1e-80, 1e-320])
    def test_squares(self, door, scale):
        message = r"y has values up to 2.*; expected 1e-75 to 1e[+]75, .* Change the unit"
        assert_refused(message, door, LapRLSRegressor(), y=scale * TARGETS)

    @every_door
    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_within(self, door, fit_intercept):
        model = LapRLSRegressor(fit_intercept=fit_intercept)
        for scale in (1e-74, 1e74):
            values = door(model, y=scale * TARGETS)
            assert np.isfinite(values).all()
            if door is not searched:
                np.testing.assert_allclose(values / scale, door(model), rtol=1e-6, atol=1e-9)

    def test_zeros(self):
        assert np.all(fitted(LapRLSRegressor(), y=0.0 * TARGETS) == 0.0)

    @pytest.mark.parametrize("value", [10**400, np.longdouble("1e4000")], ids=["int", "float128"])
    def test_beyond_doubles(self, value):
        y = TARGETS.astype(object if isinstance(value, int) else np.longdouble)
        y[0] = value
        assert_refused("y contains infinity or a value too large", fitted, LapRLSRegressor(), y=y)


class TestWeights:
    @every_door
    @pytest.mark.parametrize("weight", [1e308, 3e-308])
    def test_classes(self, door, weight):
        """Only their ratio matters."""
        model = LapSVC(class_weight={0: weight, 1: 0.25 * weight if weight > 1 else weight})
        same = LapSVC(class_weight={0: 4.0, 1: 1.0 if weight > 1 else 4.0})
        np.testing.assert_allclose(door(model), door(same), rtol=1e-9, atol=1e-9)

    @every_door
    def test_classes_far_apart(self, door):
        message = r"class_weight has weights from 1 to 1e\+308; expected a range of less than 1e"
        assert_refused(message, door, LapSVC(class_weight={0: 1e308}))
        message = r"class_weight\[0\]=1e-320 is too close to the limits"
        assert_refused(message, door, LapSVC(class_weight={0: 1e-320}))

    @every_door
    def test_samples(self, door):
        for model in (LapRLSClassifier(), LapLogisticRegression()):
            values = door(model, sample_weight=np.full(N, 1.7e308))
            np.testing.assert_allclose(values, door(model), rtol=1e-9, atol=1e-12)
        weight = np.array([10**400] * N, dtype=object)
        assert_refused("sample_weight has entries that are no", door, model, sample_weight=weight)


class TestKernelsAndGraphs:
    AFFINITY = (rbf_kernel(X) > 0.6) * 1.0

    @every_door
    @pytest.mark.parametrize("n_components", [None, 8])
    def test_small_kernels(self, door, n_components):
        message = r"kernel=.* has values up to 1e-(160|320); expected 1e-150 or more somewhere"
        for scale in (1e-160, 1e-320):
            model = LapRLSClassifier(n_components=n_components, random_state=0)
            K = scale * rbf_kernel(X)
            assert_refused(message, door, clone(model).set_params(kernel="precomputed"), K)
            function = model.set_params(kernel=lambda A, B, c=scale: c * rbf_kernel(A, B))
            assert_refused(message, door, function)

    @every_door
    def test_overflow_of_kernels(self, door):
        message = r"kernel='poly' with .* returned NaN or infinity; .* other kernel_params"
        assert_refused(message, door, LapSVC(kernel="poly"), 1e149 * X)
        model = LapSVC(kernel="poly", kernel_params={"degree": 400})
        assert_refused(message, door, model, 100.0 * X)

    @every_door
    @pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e307])
    @pytest.mark.parametrize("laplacian", ["normalized", "unnormalized"])
    def test_weights_of_graphs(self, door, scale, laplacian):
        model = LapRLSClassifier(graph=scale * self.AFFINITY, laplacian=laplacian)
        message = r"graph has sums of weights up to .*; expected 1e-150 to 1e\+150, .* Divide the"
        assert_refused(message, door, model)

    def test_powers_of_graphs(self):
        """A normalised Laplacian does not grow."""
        for power, limit in ((1, "1e[+]150"), (2, "1e[+]100"), (5, "1e[+]50")):
            with pytest.raises(ValueError, match=rf"expected .* to {limit}, so that"):
                check_affinity(1e200 * self.AFFINITY, N, power)
        params = {"graph": 1e60 * self.AFFINITY, "laplacian_power": 5}
        assert_refused("1e-50 to 1e[+]50", fitted, LapRLSClassifier(**params))
        same = LapRLSClassifier(graph=self.AFFINITY, laplacian_power=5, laplacian="normalized")
        values = fitted(LapRLSClassifier(laplacian="normalized", **params))
        np.testing.assert_allclose(values, fitted(same), rtol=1e-6, atol=1e-9)

    def test_weights_beyond_doubles(self):
        W = self.AFFINITY.astype(np.longdouble)
        W[2, 3] = W[3, 2] = np.longdouble("1e4000")
        assert_refused("graph has NaN or infinite weights", fitted, LapSVC(graph=W))


class TestDenseSystems:
    def test_solution(self):
        rng = np.random.default_rng(0)
        A, x = rng.normal(size=(7, 7)), rng.normal(size=(7, 2))
        np.testing.assert_allclose(solve_dense(A.copy(), A @ x, "it"), x, rtol=1e-10)
        np.testing.assert_allclose(solve_dense(A.copy(), A @ x[:, 0], "it"), x[:, 0], rtol=1e-10)
        assert solve_dense(np.zeros((0, 0)), np.zeros((0, 3)), "it").shape == (0, 3)

    def test_condition(self):
        with pytest.warns(ConvergenceWarning, match=r"a fold: .* condition number 1.0e-20, so few"):
            solve_dense(np.diag([1.0, 1e-20]), np.ones(2), "a fold")

    @pytest.mark.parametrize("A", [np.zeros((2, 2)), np.full((2, 2), np.nan)])
    def test_singular(self, A):
        with pytest.raises(np.linalg.LinAlgError):
            solve_dense(A, np.ones(2), "it")

    def test_folds_far_beyond_the_grid(self):
        """SciPy would warn by itself, of a slice."""
        model = LapRLSRegressor(ambient_penalty=1e-50)
        with pytest.warns(ConvergenceWarning, match="a fold: a linear system"):
            held_out(model, holdout="points")

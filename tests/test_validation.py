"""Bad input gets an error that names the value, what was expected and what to do; odd input works.

Every message is matched by a pattern of three parts: what came, what was expected, what to do.
Where the expectation already says what to do ("expected a number > 0"), there are two.
"""

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from models import every_classifier, every_estimator
from onefit import LapLogisticRegression, LapRLSClassifier, LapRLSRegressor, LapSVC
from onefit.validation import check_boolean, check_choice, check_integer, check_number
from small_moons import TARGETS, TRUTH, N, X, Y, changed, fit, labels_for


class TestLabels:
    @every_classifier
    @pytest.mark.parametrize("y", [np.full(N, -1), np.full(N, np.nan), [None] * N, ["-1"] * N])
    def test_no_labels(self, estimator, y):
        message = r"no labelled row among 30: .* -1, None or NaN.* Expected at least two classes"
        with pytest.raises(ValueError, match=message):
            fit(estimator, y=y)

    @pytest.mark.parametrize("y", [np.full(N, np.nan), np.full((N, 2), np.nan), [None] * N])
    def test_no_targets(self, y):
        message = r"no labelled row among 30: every target is NaN.* Expected at least one known"
        with pytest.raises(ValueError, match=message):
            fit(LapRLSRegressor(), y=y)

    @every_classifier
    @pytest.mark.parametrize(
        "y, named",
        [(np.where(Y == 1, 1, -1), "1"), (np.full(N, "yes"), "'yes'"), ([True] * N, "True")],
    )
    def test_one_class(self, estimator, y, named):
        message = rf"one class only, {named}, in its \d+ labelled rows.* expected at least two"
        with pytest.raises(ValueError, match=message):
            fit(estimator, y=y)

    @every_classifier
    @pytest.mark.parametrize("y", [2 * TRUTH - 1, 2.0 * TRUTH - 1.0, (2 * TRUTH - 1).astype(str)])
    def test_classes_minus_one_and_plus_one(self, estimator, y):
        message = r"one class only.* \(15 rows are unlabelled\).*-1 marks unlabelled.* as 0 and 1"
        with pytest.raises(ValueError, match=message):
            fit(estimator, y=y)

    @every_estimator
    def test_infinite(self, estimator):
        for value in (np.inf, -np.inf):
            y = changed(labels_for(estimator).astype(float), value, where=4)
            message = r"y contains infinity.*1 of \d+ values.* expected finite .*Replace them or"
            with pytest.raises(ValueError, match=message):
                fit(estimator, y=y)
            with pytest.raises(ValueError, match=message):
                fit(estimator, y=y.astype(object))

    @every_estimator
    def test_wrong_length(self, estimator):
        message = r"\[30, 12\] .*Expected a label for every row: unlabelled rows are marked in y"
        with pytest.raises(ValueError, match=message):
            fit(estimator, y=labels_for(estimator)[:12])

    @every_estimator
    def test_none(self, estimator):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            clone(estimator).fit(X, None)

    @every_estimator
    def test_no_array(self, estimator):
        with pytest.raises(TypeError, match="Expected sequence or array-like, got <class 'int'>"):
            fit(estimator, y=3)

    @every_estimator
    def test_sparse(self, estimator):
        y = sp.csr_array(labels_for(estimator)[:, None])
        with pytest.raises(TypeError, match=r"sparse matrix; expected a dense array. Use y.toarr"):
            fit(estimator, y=y)

    @every_classifier
    def test_several_columns_of_classes(self, estimator):
        with pytest.raises(ValueError, match=r"should be a 1d array, got .* shape \(30, 2\)"):
            fit(estimator, y=np.column_stack([Y, Y]))
        with pytest.warns(DataConversionWarning, match=r"using ravel\(\)"):
            model = fit(estimator, y=Y[:, None])
        assert model.transduction_.shape == (N,)

    @pytest.mark.parametrize("y", [np.zeros((N, 1, 1)), np.zeros((N, 0))])
    def test_shape_of_targets(self, y):
        message = r"y has shape \(30, .*\); expected \(n_samples,\), or \(n_samples, n_outputs\)"
        with pytest.raises(ValueError, match=message):
            fit(LapRLSRegressor(), y=y)

    @every_classifier
    @pytest.mark.parametrize(
        "y, named",
        [
            ([1, "a"] * 15, r"'a' \(str\) and 1 \(int\)"),
            (np.array(["a", 2.0] * 15, dtype=object), r"2.0 \(float\) and 'a' \(str\)"),
            (np.array([b"a", b"b"] * 15), r"b'a' \(bytes\)"),
            (pd.Series([("a",), ("b",)] * 15), r"\('a',\) \(tuple\)"),
        ],
    )
    def test_mixed_or_strange_types(self, estimator, y, named):
        message = rf"the labels {named}; expected all strings or all integers, .* Convert them"
        with pytest.raises(ValueError, match=message):
            fit(estimator, y=y)

    @every_classifier
    def test_continuous(self, estimator):
        message = r"continuous. y has the label 0.5; expected classes.* use LapRLSRegressor"
        with pytest.raises(ValueError, match=message):
            fit(estimator, y=0.5 * TRUTH)

    @every_classifier
    def test_dates(self, estimator):
        y = pd.date_range("2020-01-01", periods=N)
        with pytest.raises(ValueError, match=r"dtype datetime64.*; expected strings or integers"):
            fit(estimator, y=y)

    @pytest.mark.parametrize(
        "y, named",
        [
            (["a"] * N, "dtype <U1"),
            (["1"] * N, "dtype <U1"),
            (np.array([1.0, "b"] * 15, dtype=object), "the entry 'b' of type str"),
            (np.array([1.0, {}] * 15, dtype=object), "the entry {} of type dict"),
            (TARGETS + 1j, "dtype complex128"),
            (np.arange(N).astype("datetime64[D]"), "dtype datetime64"),
        ],
    )
    def test_targets_that_are_no_numbers(self, y, named):
        message = rf"{named}.*; a regressor expects numbers, NaN where the target is unknown"
        with pytest.raises(ValueError, match=message):
            fit(LapRLSRegressor(), y=y)

    def test_partly_known_outputs(self):
        y = np.column_stack([TARGETS, np.where(np.arange(N) < 12, 1.0, np.nan)])
        message = (
            r"row 10 of y is NaN in some outputs only \(2 such rows\); expected all .* Fit one"
        )
        with pytest.raises(ValueError, match=message):
            fit(LapRLSRegressor(), y=y)


class TestRows:
    @every_estimator
    def test_nan(self, estimator):
        for rows in (changed(X, np.nan), sp.csr_array(changed(X, np.nan))):
            with pytest.raises(ValueError, match=r"X contains NaN[\s\S]* imputer"):
                fit(estimator, rows)
            model = fit(estimator)
            with pytest.raises(ValueError, match=r"X contains NaN[\s\S]* imputer"):
                model.predict(rows)

    @every_estimator
    def test_infinity(self, estimator):
        message = r"X contains infinity.*Expected finite numbers: replace or remove the infinite"
        model = fit(estimator)
        for rows in (changed(X, -np.inf), sp.csr_array(changed(X, np.inf))):
            with pytest.raises(ValueError, match=message):
                fit(estimator, rows)
            with pytest.raises(ValueError, match=message):
                model.predict(rows)

    @every_estimator
    def test_overflow(self, estimator):
        message = r"X has values up to 1e\+200 in size; expected at most 1e\+150.* Rescale X"
        for rows in (changed(X, -1e200), sp.csr_array(changed(X, 1e200))):
            with pytest.raises(ValueError, match=message):
                fit(estimator, rows)

    @pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.csc_array])
    @pytest.mark.parametrize("index", [99, -5])
    def test_damaged_sparse_rows(self, container, index):
        message = r"X is a damaged sparse matrix \(.*\); expected indices within its shape \("
        rows, model = container(X), fit(LapSVC())
        rows.indices[0] = index
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), rows)
        with pytest.raises(ValueError, match=message):
            model.predict(rows)

    @pytest.mark.parametrize(
        "rows, named", [(X[:, 0], "1D array"), (X[None], "dim 3"), (3.0, "scalar")]
    )
    def test_dimensions(self, rows, named):
        with pytest.raises(ValueError, match=named):
            fit(LapSVC(), rows)

    def test_empty(self):
        with pytest.raises(ValueError, match="0 sample"):
            fit(LapSVC(), np.zeros((0, 2)), y=[])
        with pytest.raises(ValueError, match="0 feature"):
            fit(LapSVC(), np.zeros((N, 0)))

    @every_estimator
    def test_one_row(self, estimator):
        with pytest.raises(ValueError, match=r"one class|n_samples=1"):
            fit(estimator, X[:1], y=[1])

    @every_estimator
    def test_other_number_of_columns_in_predict(self, estimator):
        model = fit(estimator)
        with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
            model.predict(np.zeros((4, 3)))

    @every_estimator
    def test_strings(self, estimator):
        frame = pd.DataFrame({"a": X[:, 0], "island": "Dream", "b": X[:, 1], "sex": "female"})
        message = (
            r"could not convert string to float: 'Dream'.* Expected numbers in all columns of X "
            r"\(not so in 'island', 'sex'\). Encode the others, .*OneHotEncoder, or drop them"
        )
        with pytest.raises(ValueError, match=message):
            fit(estimator, frame)
        with pytest.raises(ValueError, match=message):
            fit(estimator, frame.astype({"island": "category", "sex": "category"}))
        with pytest.raises(ValueError, match=r"not so in 1, 3\). Encode the others"):
            fit(estimator, frame.to_numpy(dtype=object))
        model = fit(estimator, frame[["a", "b"]])
        with pytest.raises(ValueError, match=r"not so in 'b'\)"):
            model.predict(frame[["a", "b"]].astype({"b": str}).assign(b="x"))

    def test_objects(self):
        rows = X.astype(object)
        rows[2, 0] = {"a": 1}
        with pytest.raises(TypeError, match=r"not so in 0\). Encode the others"):
            fit(LapSVC(), rows)

    @pytest.mark.parametrize(
        "column",
        [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01", tz="UTC"), pd.Timedelta("1D")],
    )
    def test_dates(self, column):
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(when=column)
        message = r"columns of dtype (datetime|timedelta)64.*; expected numbers. Convert dates"
        for rows in (frame, frame[["when"]]):
            with pytest.raises(TypeError, match=message):
                fit(LapSVC(), rows)
        with pytest.raises(TypeError, match=message):
            fit(LapSVC(), np.zeros((N, 2), dtype="datetime64[D]"))

    def test_masked(self):
        rows = np.ma.masked_array(X, mask=np.abs(X) > 1.5)
        message = (
            rf"masked array with {int(rows.mask.sum())} masked entries; .* Impute them, or drop"
        )
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), rows)
        weights = np.ma.masked_array(np.ones(len(X)), mask=np.arange(len(X)) == 3)
        with pytest.raises(ValueError, match="sample_weight has masked entries"):
            fit(LapSVC(), sample_weight=weights)
        nothing_masked = fit(LapSVC(), np.ma.masked_array(X))
        np.testing.assert_array_equal(nothing_masked.dual_coef_, fit(LapSVC()).dual_coef_)

    def test_complex(self):
        with pytest.raises(ValueError, match=r"^Complex data not supported\. Expected real .*$"):
            fit(LapSVC(), X + 1j)

    @every_estimator
    @pytest.mark.parametrize("method", ["predict", "_decisions"])
    def test_not_fitted(self, estimator, method):
        with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
            getattr(clone(estimator), method)(X)

    @pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "decision_function"])
    def test_not_fitted_logistic(self, method):
        with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
            getattr(LapLogisticRegression(), method)(X)


POSITIVE = ["ambient_penalty", "kernel_width", "graph_width", "tol"]


class TestParameters:
    @every_estimator
    @pytest.mark.parametrize("name", POSITIVE)
    @pytest.mark.parametrize("value", [0, 0.0, -1.5, np.nan, np.inf, -np.inf, np.float32(-1)])
    def test_positive(self, estimator, name, value):
        with pytest.raises(
            ValueError, match=re.escape(f"{name}={value!r}; expected a finite number > 0")
        ):
            fit(estimator, **{name: value})

    @every_estimator
    @pytest.mark.parametrize("name", [*POSITIVE, "manifold_penalty"])
    @pytest.mark.parametrize(
        "value", ["1.0", "mean", True, None, 1j, [1.0], np.array(1.0)], ids=str
    )
    def test_numbers(self, estimator, name, value):
        message = rf"{name}=.* is of type {type(value).__name__}; expected a finite number"
        with pytest.raises(TypeError, match=message):
            fit(estimator, **{name: value})

    @pytest.mark.parametrize("name", ["kernel_width", "graph_width"])
    def test_median_is_offered(self, name):
        for value in (-1.0, "mean"):
            with pytest.raises((TypeError, ValueError), match=r"> 0 or 'median'( or 'wide')?\.$"):
                fit(LapSVC(), **{name: value})

    @every_estimator
    @pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf])
    def test_manifold_penalty(self, estimator, value):
        message = rf"manifold_penalty={value!r}; expected a finite number >= 0"
        with pytest.raises(ValueError, match=message):
            fit(estimator, manifold_penalty=value)
        assert fit(estimator, manifold_penalty=0).n_iter_ > 0

    def test_powers_without_digits(self):
        with pytest.raises(ValueError, match=r"laplacian_power=11; .* >= 1 and <= 10"):
            fit(LapSVC(), laplacian_power=11)

    @every_estimator
    @pytest.mark.parametrize("name", ["n_neighbors", "laplacian_power", "n_components", "max_iter"])
    def test_integers(self, estimator, name):
        for value in (0, -2):
            with pytest.raises(ValueError, match=rf"{name}={value}; expected an integer >= 1"):
                fit(estimator, **{name: value})
        for value in (2.0, True, "3", np.nan):
            if (name, value) == ("n_components", "3"):
                continue  # a word is looked up among those that it takes
            message = rf"{name}={value!r} is of type {type(value).__name__}; expected an integer"
            with pytest.raises(TypeError, match=message):
                fit(estimator, **{name: value})

    @every_estimator
    def test_components_in_words(self, estimator):
        message = r"n_components='3'; expected one of \['auto'\]\. Or a number, or None"
        with pytest.raises(ValueError, match=message):
            fit(estimator, n_components="3")

    def test_other_numbers_are_fine(self):
        expected = fit(LapRLSClassifier(), ambient_penalty=0.5, n_neighbors=5)
        for number in (Fraction(1, 2), np.float32(0.5), np.float64(0.5)):
            model = fit(LapRLSClassifier(), ambient_penalty=number, n_neighbors=np.int8(5))
            np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)

    @every_estimator
    @pytest.mark.parametrize(
        "name, offered",
        [
            ("kernel", r"\['additive_chi2', .*'gaussian'.*\]. Or pass a callable"),
            ("graph_weights", r"\['binary', 'heat'\]"),
            ("laplacian", r"\['normalized', 'unnormalized'\]"),
            ("landmarks", r"\['kmeans\+\+', 'rpcholesky', 'uniform'\]"),
        ],
    )
    @pytest.mark.parametrize("value", ["unknown", None, 3])
    def test_choices(self, estimator, name, offered, value):
        with pytest.raises(ValueError, match=rf"{name}={value!r}; expected one of {offered}"):
            fit(estimator, **{name: value})

    def test_losses(self):
        message = r"loss='hinge'; expected one of \['huberized_hinge', 'squared_hinge'\]"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(loss="hinge"))
        for value in (0.0, -0.1, np.nan):
            with pytest.raises(ValueError, match=rf"hinge_width={value!r}; expected .* > 0"):
                fit(LapSVC(hinge_width=value))

    @every_estimator
    def test_intercept(self, estimator):
        for value in ("yes", 1, None):
            message = rf"fit_intercept={value!r} is of type .*; expected True or False"
            with pytest.raises(TypeError, match=message):
                fit(estimator, fit_intercept=value)

    @every_estimator
    @pytest.mark.parametrize("n_components", [None, 5])
    def test_random_state(self, estimator, n_components):
        with pytest.raises(ValueError, match="'seed' cannot be used to seed"):
            fit(estimator, random_state="seed", n_components=n_components)

    @every_estimator
    def test_too_many_neighbours(self, estimator):
        message = r"n_neighbors=30 is too large for n_samples=30 rows; expected fewer .* Lower n_n"
        for rows in (X, sp.csr_array(X)):
            with pytest.raises(ValueError, match=message):
                fit(estimator, rows, n_neighbors=30)
        with pytest.raises(ValueError, match=message):
            fit(estimator, rbf_kernel(X), n_neighbors=30, kernel="precomputed")
        with pytest.raises(ValueError, match=message):
            fit(estimator, n_neighbors=30, n_components=5)
        fit(estimator, n_neighbors=29)

    @every_estimator
    def test_too_many_components(self, estimator):
        message = r"n_components=31 is more than the 30 rows; expected at most 30. .*None is the ex"
        with pytest.raises(ValueError, match=message):
            fit(estimator, n_components=31)

    def test_kernel_params(self):
        with pytest.raises(TypeError, match=r"kernel_params=\['gamma'\]; expected a dict"):
            fit(LapSVC(), kernel="rbf", kernel_params=["gamma"])
        message = r"kernel_params={'gamma': 2} with kernel='gaussian', which takes none.*kernel_wid"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel_params={"gamma": 2})
        with pytest.raises(TypeError, match="unexpected keyword argument 'sigma'"):
            fit(LapSVC(), kernel="rbf", kernel_params={"sigma": 2})

    @every_estimator
    def test_nothing_is_checked_before_fit(self, estimator):
        params = {"kernel_width": -1, "graph": None, "fit_intercept": "no"}
        model = clone(estimator).set_params(**params)
        assert model.get_params()["kernel_width"] == -1

    @every_estimator
    def test_penalty_below_rounding(self, estimator):
        message = (
            r"ambient_penalty=1e-100 is too small for kernel values up to 1 and "
            r"targets up to 1: .* singular to rounding. Raise ambient_penalty, or rescale X or y.$"
        )
        params = {"n_components": 5, "random_state": 0, "manifold_penalty": 0}
        with pytest.raises(ValueError, match=message):
            fit(estimator, ambient_penalty=1e-100, **params)


class TestWeights:
    @every_estimator
    @pytest.mark.parametrize("shape", [(5,), (N, 1), (N + 1,)])
    def test_shape(self, estimator, shape):
        message = rf"sample_weight has shape \({shape[0]},.*\); expected \(30,\), one for each row"
        with pytest.raises(ValueError, match=message):
            fit(estimator, sample_weight=np.ones(shape))

    @every_estimator
    @pytest.mark.parametrize("value", [-0.5, np.nan, np.inf])
    def test_values(self, estimator, value):
        weight = changed(np.ones(N), value, where=[4, 7])
        message = (
            rf"sample_weight\[4\] is {value!r} \(2 such entries\); expected finite weights >= 0"
        )
        with pytest.raises(ValueError, match=message):
            fit(estimator, sample_weight=weight)

    def test_no_numbers(self):
        with pytest.raises(
            ValueError, match=r"sample_weight has entries that are no numbers: .*'a'"
        ):
            fit(LapSVC(), sample_weight=["a"] * N)

    @every_estimator
    def test_zero_everywhere(self, estimator):
        for weight in (np.zeros(N), np.where(Y == -1, 1.0, 0.0), 0.0):
            message = "sample_weight is zero for every labelled row.*expected a positive weight"
            with pytest.raises(ValueError, match=message):
                fit(estimator, sample_weight=weight)

    @every_classifier
    def test_zero_for_all_but_one_class(self, estimator):
        message = r"one class only, 1, .*A sample_weight of 0 hides a label too"
        with pytest.raises(ValueError, match=message):
            fit(estimator, sample_weight=Y == 1)

    def test_range(self):
        message = r"positive entries from 1e-200 to 1; expected a range of less than 1e\+100. Use 0"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), sample_weight=np.geomspace(1e-200, 1.0, N))

    @every_classifier
    def test_class_weight(self, estimator):
        cases = [
            ({2: 1.0}, ValueError, r"names the class 2, .* its classes are \[0, 1\]. Remove it"),
            ({-1: 1.0}, ValueError, r"names the class -1, which y does not have"),
            ({0: -1.0}, ValueError, r"class_weight\[0\]=-1.0; expected a finite number > 0"),
            ({0: 0}, ValueError, r"class_weight\[0\]=0; expected a finite number > 0"),
            ({0: np.nan}, ValueError, r"class_weight\[0\]=nan; expected a finite number > 0"),
            ({1: "much"}, TypeError, r"class_weight\[1\]='much' is of type str; expected a finite"),
            ("even", ValueError, r"class_weight='even' .* expected None, 'balanced' or a dict"),
            ([1.0, 2.0], ValueError, r"class_weight=\[1.0, 2.0\] .* expected None, 'balanced'"),
        ]
        for value, error, message in cases:
            with pytest.raises(error, match=message):
                fit(estimator, class_weight=value)


class TestHelpers:
    """The checks themselves."""

    def test_number(self):
        check_number("a", 1e-300)
        check_number("a", 0, zero_allowed=True)
        check_number("a", "auto", words=("auto",))
        with pytest.raises(ValueError, match=r"^a=-1; expected a finite number > 0\. Be kind\.$"):
            check_number("a", -1, hint="Be kind.")
        with pytest.raises(ValueError, match=r"^a=10{96}\.\.\.; expected a finite number > 0\.$"):
            check_number("a", 10**400)
        with pytest.raises(TypeError, match=r"^a='x' is of type str; .* > 0 or 'auto' or 'off'\.$"):
            check_number("a", "x", words=("auto", "off"))

    def test_integer(self):
        check_integer("k", np.int64(3), minimum=3)
        with pytest.raises(ValueError, match=r"^k=2; expected an integer >= 3\. More\.$"):
            check_integer("k", 2, minimum=3, hint="More.")

    def test_choice(self):
        check_choice("c", "a", ("b", "a"))
        with pytest.raises(ValueError, match=r"^c=\['a'\]; expected one of \['a', 'b'\]\.$"):
            check_choice("c", ["a"], ("b", "a"))

    def test_boolean(self):
        check_boolean("b", np.True_)
        with pytest.raises(TypeError, match=r"^b=0 is of type int; expected True or False\.$"):
            check_boolean("b", 0)

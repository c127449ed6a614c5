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
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from onefit import (
    LapLogisticRegression,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    RepeatedSemiSupervisedKFold,
    SemiSupervisedKFold,
    cross_val_decisions,
)
from onefit.validation import check_boolean, check_choice, check_integer, check_number

CLASSIFIERS = {
    "square": LapRLSClassifier(),
    "hinge": LapSVC(),
    "squared_hinge": LapSVC(loss="squared_hinge"),
    "logistic": LapLogisticRegression(),
}
ESTIMATORS = {"regressor": LapRLSRegressor(), **CLASSIFIERS}

every_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS.values(), ids=CLASSIFIERS)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)

N = 30
X, TRUTH = make_moons(N, noise=0.1, random_state=0)
Y = np.where(np.arange(N) < 10, TRUTH, -1)
TARGETS = np.where(Y == -1, np.nan, Y)


def labels_for(estimator):
    return TARGETS if isinstance(estimator, LapRLSRegressor) else Y


def fit(estimator, rows=X, y=None, sample_weight=None, **params):
    model = clone(estimator).set_params(**params)
    return model.fit(rows, labels_for(model) if y is None else y, sample_weight)


def changed(array, value, where=(3, 1)):
    """A copy with one entry replaced."""
    array = np.array(array)
    array[where] = value
    return array


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


class TestKernels:
    """A kernel must be positive semi-definite, and a precomputed one fit the rows."""

    NOT_PSD = (
        r"gave a matrix that is not positive semi-definite \(smallest eigenvalue -[\d.e+]+\); .* "
        r"needs a positive semi-definite kernel. Use another kernel"
    )

    @every_estimator
    def test_not_positive_semidefinite(self, estimator):
        with pytest.raises(ValueError, match="kernel='precomputed' " + self.NOT_PSD):
            fit(estimator, -rbf_kernel(X), kernel="precomputed")
        with pytest.raises(ValueError, match="kernel='precomputed' " + self.NOT_PSD):
            fit(estimator, cdist(X, X), kernel="precomputed")
        with pytest.raises(ValueError, match="kernel='sigmoid' " + self.NOT_PSD):
            fit(estimator, kernel="sigmoid")
        with pytest.raises(ValueError, match=r"kernel=<function .*cdist.*> " + self.NOT_PSD):
            fit(estimator, kernel=cdist)

    @pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
    def test_not_positive_semidefinite_nystrom(self, landmarks):
        params = {"n_components": 8, "landmarks": landmarks, "random_state": 0}
        message = "not positive semi-definite.* Use another kernel"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: -rbf_kernel(A, B), **params)
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), -rbf_kernel(X), kernel="precomputed", **params)

    def test_zero_kernel(self):
        message = "is 0 between every row and itself, so that f could only be 0. Use another kernel"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), 0 * X, kernel="linear", n_components=3, landmarks="rpcholesky")
        for params in ({}, {"n_components": 3}):
            model = fit(LapSVC(), 0 * X, kernel="linear", fit_intercept=True, **params)
            assert np.ptp(model.decision_function(X)) == 0.0

    def test_slightly_negative_eigenvalues(self):
        """Beyond the rounding of single precision it is an error, within it is not."""
        values, vectors = np.linalg.eigh(rbf_kernel(X))
        values[0] = -1e-4 * values[-1]
        with pytest.raises(ValueError, match=self.NOT_PSD):
            fit(LapSVC(), (vectors * values) @ vectors.T, kernel="precomputed")
        values[0] = -1e-8 * values[-1]
        K = (vectors * values) @ vectors.T
        clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
        for estimator in ESTIMATORS.values():
            params = {"kernel": "precomputed", "ambient_penalty": 1e-6}
            model, same = fit(estimator, K, **params), fit(estimator, clipped, **params)
            np.testing.assert_allclose(model.dual_coef_, same.dual_coef_, rtol=1e-3, atol=1e-3)

    def test_asymmetric(self):
        K = changed(rbf_kernel(X), 0.9, where=(3, 17))
        message = r"not symmetric \(largest difference .*\); expected k\(x, y\) == .* Symmetrise it"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), K, kernel="precomputed")
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: K[: len(A), : len(B)])

    def test_shape_of_a_callable(self):
        message = (
            r"returned an array of shape \(30,\). Expected .* \(30, 30\); a function of two si"
        )
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: np.ones(len(A)))

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_values_of_a_callable(self, value):
        message = r"callable returned NaN or infinity; expected finite values. Rescale X, or use"
        with pytest.raises(ValueError, match=message):
            fit(LapSVC(), kernel=lambda A, B: np.full((len(A), len(B)), value))

    @every_estimator
    def test_precomputed_is_not_square(self, estimator):
        message = r"X of shape \(30, 2\); expected the square kernel matrix of all training rows"
        with pytest.raises(ValueError, match=message):
            fit(estimator, kernel="precomputed")

    @every_estimator
    def test_precomputed_has_another_width_in_predict(self, estimator):
        model = fit(estimator, rbf_kernel(X), kernel="precomputed")
        message = "X has 10 features, but .* is expecting 30 features"
        with pytest.raises(ValueError, match=message):
            model.predict(rbf_kernel(X[:5], X[:10]))
        assert model.predict(rbf_kernel(X[:5], X)).shape == (5,)

    @every_estimator
    def test_precomputed_is_sparse(self, estimator):
        message = r"with a sparse X; expected a dense kernel matrix. Use X.toarray\(\)"
        K = sp.csr_array(rbf_kernel(X))
        with pytest.raises(TypeError, match=message):
            fit(estimator, K, kernel="precomputed")
        model = fit(estimator, rbf_kernel(X), kernel="precomputed")
        with pytest.raises(TypeError, match=message):
            model.predict(K)

    def test_precomputed_with_nan(self):
        with pytest.raises(ValueError, match="X contains NaN"):
            fit(LapSVC(), changed(rbf_kernel(X), np.nan), kernel="precomputed")

    def test_negative_data_for_chi2(self):
        with pytest.raises(ValueError, match="negative"):
            fit(LapSVC(), kernel="chi2")


class TestGraphs:
    W = np.exp(-cdist(X, X))

    def given(self, W):
        """The same affinity, dense, sparse and by a function."""
        return [W, sp.csr_array(W), sp.csr_matrix(W), lambda rows: W]

    @every_estimator
    def test_asymmetric(self, estimator):
        message = r"not symmetric \(largest difference 0.5\); expected W\[i, j\] == .* W.maximum"
        for graph in self.given(changed(self.W, self.W[3, 1] + 0.5)):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)

    def test_asymmetric_whatever_the_unit(self):
        W = 1e-12 * changed(self.W, self.W[3, 1] + 0.5)
        with pytest.raises(ValueError, match="not symmetric"):
            fit(LapSVC(), graph=W)

    @every_estimator
    def test_negative(self, estimator):
        message = r"a negative weight \(-0.25\); expected weights >= 0, .* Clip or shift them"
        for graph in self.given(changed(changed(self.W, -0.25), -0.25, where=(1, 3))):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)

    @every_estimator
    def test_shape(self, estimator):
        message = (
            r"graph has shape \(20, 20\); expected \(30, 30\), one row and column for every row"
        )
        for graph in self.given(self.W[:20, :20]):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)
        with pytest.raises(ValueError, match=r"graph has shape \(30,\); expected \(30, 30\)"):
            fit(estimator, graph=np.ones(N))

    @every_estimator
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite(self, estimator, value):
        message = r"graph has NaN or infinite weights; expected finite ones, and .* 0 where there"
        for graph in self.given(changed(self.W, value)):
            with pytest.raises(ValueError, match=message):
                fit(estimator, graph=graph)

    @every_estimator
    @pytest.mark.parametrize("value", [None, "rbf", 3, [[0, 1], [1, 0]]], ids=str)
    def test_no_graph(self, estimator, value):
        message = (
            r"graph=.*; expected 'knn', 'anchor', a sparse or dense affinity .* or a function of X"
        )
        with pytest.raises(ValueError, match=message):
            fit(estimator, graph=value)

    def test_no_numbers(self):
        message = r"graph is a ndarray that is no matrix of numbers \(.*'a'.*\); expected a sparse"
        with pytest.raises(TypeError, match=message):
            fit(LapSVC(), graph=np.full((N, N), "a"))
        with pytest.raises(TypeError, match="graph is a NoneType that is no matrix of numbers"):
            fit(LapSVC(), graph=lambda rows: None)

    def test_repeated_entries_are_summed(self):
        """A CSR matrix may hold an entry in pieces, one of which is negative."""
        W = sp.csr_array(changed(0 * self.W, 1.0, where=([3, 1], [1, 3])))
        data, columns, ends = [2.0, -1.0, 2.0, -1.0], [3, 3, 1, 1], np.zeros(N + 1, dtype=int)
        ends[2:4], ends[4:] = 2, 4
        pieces = sp.csr_array((data, columns, ends), shape=(N, N))
        model = fit(LapSVC(), graph=pieces)
        np.testing.assert_array_equal(model.graph_.toarray(), W.toarray())
        np.testing.assert_array_equal(pieces.data, [2.0, -1.0, 2.0, -1.0])


class TestFolds:
    def test_more_folds_than_labels(self):
        message = r"n_splits=11 is more than the 10 labelled rows; .* Use at most 10 folds"
        with pytest.raises(ValueError, match=message):
            cross_val_decisions(LapSVC(), X, Y, cv=11)
        for cv in (SemiSupervisedKFold(11), RepeatedSemiSupervisedKFold(11, n_repeats=2)):
            with pytest.raises(ValueError, match=message):
                list(cv.split(X, Y))
            with pytest.raises(ValueError, match=message):
                cross_val_decisions(LapSVC(), X, Y, cv=cv)

    def test_labels_hidden_by_their_weight_do_not_count(self):
        weight = np.where(np.arange(N) < 4, 0.0, 1.0)
        with pytest.raises(ValueError, match="n_splits=10 is more than the 6 labelled rows"):
            cross_val_decisions(LapSVC(), X, Y, cv=10, sample_weight=weight)
        held_out = cross_val_decisions(LapSVC(), X, Y, cv=6, sample_weight=weight)
        assert np.isnan(held_out.predictions[:4]).all()
        assert np.isfinite(held_out.predictions[4:10]).all()

    @pytest.mark.parametrize("cv", [1, 0, -3, True, "loo", 2.5, None])
    def test_number_of_folds(self, cv):
        with pytest.raises(ValueError, match=rf"(cv|n_splits)={cv!r}; expected"):
            cross_val_decisions(LapSVC(), X, Y, cv=cv)

    def test_bad_input_is_found_by_cross_validation_too(self):
        with pytest.raises(ValueError, match="kernel_width=-1"):
            cross_val_decisions(LapSVC(kernel_width=-1), X, Y)
        with pytest.raises(ValueError, match="X contains NaN"):
            cross_val_decisions(LapSVC(), changed(X, np.nan), Y)
        with pytest.raises(ValueError, match="one class only"):
            cross_val_decisions(LapSVC(), X, 2 * TRUTH - 1)


class TestOddData:
    """Unusual but legitimate input: finite results, no warning (which would be an error)."""

    def _decisions(self, estimator, rows=X, y=None, **params):
        model = fit(estimator, rows, y, **params)
        decisions = model._decisions(rows)
        assert np.isfinite(decisions).all()
        assert np.isfinite(model.dual_coef_).all()
        return decisions

    VARIANTS = (
        {},
        {"fit_intercept": True},
        {"manifold_penalty": 0.0},
        {"laplacian": "normalized", "laplacian_power": 2},
        {"n_components": 10, "random_state": 0},
        {"n_components": 10, "landmarks": "rpcholesky", "random_state": 0},
    )
    every_variant = pytest.mark.parametrize("params", VARIANTS, ids=str)

    @every_estimator
    @every_variant
    def test_duplicated_rows(self, estimator, params):
        rows = np.repeat(X[:10], 3, axis=0)
        y = np.repeat(labels_for(estimator)[:10], 3)
        y[1::3] = y[2::3] = -1 if estimator.__class__ is not LapRLSRegressor else np.nan
        values = self._decisions(estimator, rows, y, **params).reshape(10, 3, -1)
        np.testing.assert_allclose(values, np.repeat(values[:, :1], 3, axis=1), atol=1e-8)

    @every_estimator
    @every_variant
    def test_duplicated_rows_that_disagree(self, estimator, params):
        rows = np.repeat(X[:15], 2, axis=0)
        y = np.arange(N) % 2
        values = self._decisions(estimator, rows, y, **params)
        middle = 0.5 if isinstance(estimator, LapRLSRegressor) else 0.0
        np.testing.assert_allclose(values, middle, atol=0.1)

    @every_estimator
    @every_variant
    def test_all_rows_equal(self, estimator, params):
        values = self._decisions(estimator, np.ones((N, 2)), **params)
        assert np.ptp(values) < 1e-8

    @every_estimator
    @every_variant
    def test_two_different_rows(self, estimator, params):
        rows = X[TRUTH * 3] + 100.0 / 3.0
        values = self._decisions(estimator, rows, **params)
        threshold = 0.5 if isinstance(estimator, LapRLSRegressor) else 0.0
        np.testing.assert_array_equal(values[:, 0] > threshold, TRUTH == 1)

    @every_estimator
    @every_variant
    def test_constant_columns_do_not_matter(self, estimator, params):
        rows = np.column_stack([X, np.full(N, 7.0), np.zeros(N)])
        np.testing.assert_allclose(
            self._decisions(estimator, rows, **params),
            self._decisions(estimator, **params),
            rtol=1e-6,
            atol=1e-7,
        )

    @every_estimator
    @pytest.mark.parametrize("laplacian", ["unnormalized", "normalized"])
    def test_isolated_points(self, estimator, laplacian):
        """Heat weights that underflow leave no edge: as without the manifold penalty."""
        model = fit(estimator, graph_width=1e-9, laplacian=laplacian)
        assert model.graph_.nnz == 0
        np.testing.assert_allclose(
            model._decisions(X), self._decisions(estimator, manifold_penalty=0.0), rtol=1e-7
        )
        empty = self._decisions(estimator, graph=sp.csr_array((N, N)), laplacian=laplacian)
        np.testing.assert_allclose(empty, model._decisions(X), rtol=1e-9)

    @every_estimator
    @pytest.mark.parametrize("laplacian", ["unnormalized", "normalized"])
    def test_one_isolated_point(self, estimator, laplacian):
        rows = changed(X, 1e3, where=20)
        model = fit(estimator, rows, graph_width=0.1, laplacian=laplacian)
        assert model.graph_[[20]].nnz == 0
        assert model.graph_.nnz > 0
        assert np.isfinite(model._decisions(rows)).all()

    @every_estimator
    def test_a_row_far_away_leaves_the_others_alone(self, estimator):
        """Rounding of its distances must not spill over to the distances between the others."""
        rows = np.vstack([X, np.full((1, 2), 1e9)])
        y = np.append(labels_for(estimator), np.nan if estimator is ESTIMATORS["regressor"] else -1)
        params = {"kernel_width": 0.5, "graph_width": 0.1, "manifold_penalty": 0.0}
        np.testing.assert_allclose(
            self._decisions(estimator, rows, y, **params)[:N],
            self._decisions(estimator, **params),
            rtol=1e-6,
            atol=1e-7,
        )

    @every_estimator
    def test_an_offset_does_not_matter(self, estimator):
        shifted = self._decisions(estimator, X + 2.0**20)
        np.testing.assert_allclose(shifted, self._decisions(estimator), rtol=1e-5, atol=1e-6)

    @every_estimator
    @every_variant
    def test_two_labels(self, estimator, params):
        y = np.full(N, labels_for(estimator)[-1])
        first, second = np.argmin(TRUTH), np.argmax(TRUTH)
        y[first], y[second] = 0, 1
        values = self._decisions(estimator, y=y, **params)[:, 0]
        assert values[second] > values[first]

    def test_one_target(self):
        y = np.where(np.arange(N) == 4, 3.0, np.nan)
        assert self._decisions(LapRLSRegressor(), y=y)[4] == pytest.approx(3.0, rel=0.05)
        with_intercept = self._decisions(LapRLSRegressor(fit_intercept=True), y=y)
        np.testing.assert_allclose(with_intercept, 3.0, rtol=1e-9)

    @every_estimator
    @every_variant
    @pytest.mark.parametrize("scale", [1e-12, 1e12])
    def test_scale_of_the_rows(self, estimator, params, scale):
        """The widths follow the data; landmarks too, but for ties broken by rounding."""
        values = self._decisions(estimator, scale * X, **params)
        if "n_components" not in params:
            expected = self._decisions(estimator, **params)
            np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)

    @every_estimator
    @pytest.mark.parametrize("scale", [1e-12, 1e12])
    def test_scale_against_fixed_widths(self, estimator, scale):
        """All rows alike, or all strangers."""
        params = {"kernel_width": 1.0, "graph_width": 1.0}
        values = self._decisions(estimator, scale * X, **params)
        if scale < 1:
            assert np.ptp(values) < 1e-6
        else:
            known = Y != -1
            np.testing.assert_allclose(values[~known], 0.0, atol=1e-12)
            threshold = 0.5 if isinstance(estimator, LapRLSRegressor) else 0.0
            np.testing.assert_array_equal(values[known, 0] > threshold, Y[known] == 1)

    @pytest.mark.parametrize("scale", [1e-12, 1e12, 1e-75, 1e75])
    @pytest.mark.parametrize("fit_intercept", [False, True])
    def test_scale_of_the_targets(self, scale, fit_intercept):
        model = LapRLSRegressor(fit_intercept=fit_intercept)
        values = self._decisions(model, y=scale * TARGETS)
        np.testing.assert_allclose(values / scale, self._decisions(model), rtol=1e-9, atol=1e-12)

    @every_estimator
    @pytest.mark.parametrize("kernel", ["linear", "poly"])
    def test_scale_of_other_kernels(self, estimator, kernel):
        self._decisions(estimator, 1e-12 * X, kernel=kernel)
        message = r"too small for kernel values up to .*e\+.* Raise ambient_penalty, or rescale X"
        with pytest.raises(ValueError, match=message):
            fit(estimator, 1e12 * X, kernel=kernel)

    @every_estimator
    @pytest.mark.parametrize(
        "params",
        [
            {"manifold_penalty": 1e-12},
            {"manifold_penalty": 1e6},
            {"ambient_penalty": 1e12},
            {"kernel_width": 2.3e-308},
            {"kernel_width": 1e308},
            {"graph_width": 2.3e-308},
            {"graph_width": 1e308},
        ],
        ids=str,
    )
    def test_extreme_parameters(self, estimator, params):
        self._decisions(estimator, **params)
        self._decisions(estimator, np.repeat(X[:15], 2, axis=0), **params)


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


class TestReviewed:
    """Cases that a first reviewer stumbled over."""

    @pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
    @pytest.mark.parametrize("n_components", [None, 15])
    def test_negative_gamma_is_no_kernel(self, kernel, n_components):
        model = LapSVC(kernel=kernel, kernel_params={"gamma": -1.0}, n_components=n_components)
        with pytest.raises(ValueError, match="not positive semi-definite"):
            model.fit(X, Y)

    def test_unknown_kernel_parameter(self):
        with pytest.raises(TypeError, match=r"kernel='rbf' with kernel_params=.*gama"):
            LapSVC(kernel="rbf", kernel_params={"gama": 1.0}).fit(X, Y)

    def test_kernel_of_single_rows(self):
        with pytest.raises(ValueError, match=r"pairwise_kernels, metric=function"):
            LapSVC(kernel=lambda a, b: float(a @ b)).fit(X, Y)

    def test_width_of_a_precomputed_kernel(self):
        K = X @ X.T
        model = LapSVC(kernel="precomputed").fit(K, Y)
        with pytest.raises(ValueError, match=rf"between the new rows and all {len(X)} training"):
            model.predict(K[:, :5])

    def test_few_rows_without_a_graph(self):
        few, labels = X[:6], np.array([0, 1, 0, 1, -1, -1])
        assert LapSVC(manifold_penalty=0.0).fit(few, labels).transduction_.shape == (6,)
        with pytest.raises(ValueError, match="n_neighbors=8 is too large"):
            LapSVC().fit(few, labels)

    def test_unused_hessian_components(self):
        with pytest.raises(ValueError, match="hessian_components=3 with hessian='exact'"):
            cross_val_decisions(
                LapSVC(),
                X,
                Y,
                criterion="bif",
                holdout="points",
                criterion_params={"hessian_components": 3},
            )

    def test_whole_numbers_with_minus_one(self):
        y = np.arange(200.0) - 5.0
        with pytest.raises(ValueError, match="Say task='regression'"):
            list(SemiSupervisedKFold(5).split(y[:, None], y))
        folds = SemiSupervisedKFold(5, task="regression").split(y[:, None], y)
        assert sum(len(test) for _, test in folds) == 200

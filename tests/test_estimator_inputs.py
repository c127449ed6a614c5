"""Rows and labels in all the forms that users have give the same fit."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from fits import assert_same_fit, fitted, moons
from models import every_estimator
from onefit import LapRLSClassifier, LapRLSRegressor, LapSVC


@pytest.fixture(scope="module")
def expected():
    """Classes of all rows, from integer labels."""
    return LapSVC().fit(*moons()).transduction_


class TestSparseRows:
    @every_estimator
    @pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
    @pytest.mark.parametrize("kind", ["matrix", "array"])
    def test_equals_dense(self, estimator, layout, kind):
        X, y = moons()
        X = np.hstack([np.where(np.abs(X) < 0.3, 0.0, X), np.zeros((80, 3))])
        dense = fitted(estimator, X, y)
        as_sparse = getattr(sp, f"{layout}_{kind}")
        model = fitted(estimator, as_sparse(X), y)
        np.testing.assert_allclose(model.kernel_width_, dense.kernel_width_, rtol=1e-12)
        np.testing.assert_allclose(model.graph_width_, dense.graph_width_, rtol=1e-12)
        np.testing.assert_allclose(model._decisions(as_sparse(X)), dense._decisions(X), atol=1e-7)
        np.testing.assert_allclose(model._decisions(X), dense._decisions(X), atol=1e-7)
        np.testing.assert_allclose(dense._decisions(as_sparse(X)), dense._decisions(X), atol=1e-7)

    @pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "cosine", "poly"])
    @pytest.mark.parametrize("n_components", [None, 10])
    def test_other_kernels(self, kernel, n_components):
        X, y = moons()
        params = {"kernel": kernel, "n_components": n_components, "random_state": 0}
        dense = LapRLSClassifier(**params).fit(X, y)
        model = LapRLSClassifier(**params).fit(sp.csr_array(X), y)
        np.testing.assert_allclose(
            model.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-7
        )

    def test_callable_kernel_may_return_a_sparse_matrix(self):
        X, y = moons()
        linear = LapRLSClassifier(kernel="linear").fit(X, y)
        model = LapRLSClassifier(kernel=lambda A, B: A @ B.T).fit(sp.csr_array(X), y)
        np.testing.assert_allclose(
            model.decision_function(sp.csr_array(X)), linear.decision_function(X), atol=1e-9
        )


class TestPandas:
    X, y = moons()
    frame = pd.DataFrame(X, columns=["east", "north"])
    words = np.array(["no", "yes"])

    @pytest.mark.parametrize(
        "unlabelled", [None, np.nan, pd.NA, -1, "-1"], ids=["None", "NaN", "NA", "-1", "'-1'"]
    )
    @pytest.mark.parametrize("container", [list, np.array, pd.Series])
    def test_strings(self, unlabelled, container, expected):
        labels = [unlabelled if code < 0 else str(self.words[code]) for code in self.y]
        y = np.array(labels, dtype=object) if container is np.array else container(labels)
        model = LapSVC().fit(self.frame, y)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(model.transduction_, self.words[expected])
        np.testing.assert_array_equal(model.predict(self.frame), self.words[expected])

    @pytest.mark.parametrize("dtype", ["str", "string", "category", object])
    def test_string_types(self, dtype, expected):
        labels = [None if code < 0 else str(self.words[code]) for code in self.y]
        model = LapSVC().fit(self.frame, pd.Series(labels, dtype=dtype))
        np.testing.assert_array_equal(model.transduction_, self.words[expected])

    @pytest.mark.parametrize(
        "dtype, kind", [("Int64", "i"), ("Float64", "f"), ("boolean", "b"), (object, "i")]
    )
    def test_nullable_numbers(self, dtype, kind, expected):
        labels = [None if code < 0 else code for code in self.y]
        if dtype == "boolean":
            labels = [None if code < 0 else bool(code) for code in self.y]
        model = LapSVC().fit(self.frame, pd.Series(labels, dtype=dtype))
        assert model.classes_.dtype.kind == kind
        np.testing.assert_array_equal(model.transduction_, expected)

    def test_minus_one_in_nullable_and_categorical_integers(self, expected):
        for dtype in ("Int64", "Int8", "category"):
            model = LapSVC().fit(self.frame, pd.Series(self.y, dtype=dtype))
            np.testing.assert_array_equal(model.transduction_, expected)
            assert model.classes_.dtype.kind == "i"

    def test_unused_categories_are_no_classes(self):
        labels = pd.Series([None if code < 0 else str(self.words[code]) for code in self.y])
        y = pd.Series(pd.Categorical(labels, categories=["maybe", "no", "yes"]))
        assert LapSVC().fit(self.frame, y).classes_.tolist() == ["no", "yes"]

    @pytest.mark.parametrize("dtype", ["float64", "Float64", "Int64", object])
    def test_regression_targets(self, dtype):
        labels = [None if code < 0 else code for code in self.y]
        model = LapRLSRegressor().fit(self.frame, pd.Series(labels, dtype=dtype))
        expected = LapRLSRegressor().fit(self.X, np.where(self.y == -1, np.nan, self.y))
        np.testing.assert_allclose(model.transduction_, expected.transduction_, rtol=1e-9)

    def test_several_targets(self):
        y = np.where(self.y == -1, np.nan, self.y)
        Y = pd.DataFrame({"a": y, "b": 2 * y}).astype({"b": "Float64"})
        model = LapRLSRegressor().fit(self.frame, Y)
        np.testing.assert_allclose(model.predict(self.frame) @ [2.0, -1.0], 0.0, atol=1e-9)

    def test_index_is_not_used(self, expected):
        index = np.random.default_rng(0).permutation(80)
        model = LapSVC().fit(self.frame.set_index(index), pd.Series(self.y, index=index[::-1]))
        np.testing.assert_array_equal(model.transduction_, expected)

    @pytest.mark.parametrize("dtype", ["Int64", "Float64", "float32", "boolean", "category"])
    def test_column_types(self, dtype):
        column = pd.Series(np.arange(80) % 2)
        numbers = np.column_stack([self.X, column])
        model = LapRLSClassifier().fit(self.frame.assign(flag=column.astype(dtype)), self.y)
        expected = LapRLSClassifier().fit(numbers, self.y)
        np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-9)

    def test_feature_names(self):
        model = LapSVC().fit(self.frame, self.y)
        assert model.feature_names_in_.tolist() == ["east", "north"]
        assert model.n_features_in_ == 2
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(self.frame.rename(columns={"east": "west"}))
        with pytest.raises(ValueError, match="same order"):
            model.predict(self.frame[["north", "east"]])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(self.X)

    def test_sparse_columns(self, expected):
        frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(self.X), columns=["a", "b"])
        model = LapSVC().fit(frame, self.y)
        np.testing.assert_array_equal(model.predict(frame), expected)


class TestLabels:
    """What marks a row as unlabelled, apart from pandas."""

    X, y = moons()

    @pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64, object])
    def test_minus_one(self, dtype, expected):
        model = LapSVC().fit(self.X, self.y.astype(dtype))
        np.testing.assert_array_equal(model.transduction_, expected)

    def test_nan_in_float_labels(self, expected):
        model = LapSVC().fit(self.X, np.where(self.y == -1, np.nan, self.y))
        np.testing.assert_array_equal(model.transduction_, expected)

    @pytest.mark.parametrize("estimator", [LapSVC(), LapRLSRegressor()], ids=str)
    def test_masked(self, estimator):
        truth = np.random.default_rng(0).permutation(80) % 2
        y = np.ma.masked_array(truth, mask=self.y == -1)
        model = clone(estimator).fit(self.X, y)
        assert_same_fit(model, fitted(estimator, self.X, np.where(y.mask, -1, truth)), self.X)

    def test_numpy_strings(self):
        words = np.array(["no", "yes", "-1"])[self.y]
        for y in (words, words.astype(np.dtypes.StringDType())):
            model = LapSVC().fit(self.X, y)
            assert model.classes_.tolist() == ["no", "yes"]

    def test_truth_values(self):
        model = LapSVC().fit(self.X, [None if code < 0 else bool(code) for code in self.y])
        assert model.classes_.tolist() == [False, True]
        assert model.predict(self.X).dtype == bool

    def test_one_label_each_of_many_classes(self):
        """scikit-learn's reading of y would warn that these may be regression targets."""
        y = np.where(np.arange(80) < 30, np.arange(80), -1)
        assert len(LapRLSClassifier().fit(self.X, y).classes_) == 30

    def test_all_rows_labelled(self):
        truth = moons(n_labelled=80)[1]
        assert np.mean(LapSVC(kernel_width=0.2).fit(self.X, truth).predict(self.X) == truth) > 0.95

"""The bundled data against facts counted elsewhere, and the hiding of labels."""

import builtins

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefit.datasets import load_penguins, make_noisy_manifold, make_partially_labeled

# Counted from the file of the palmerpenguins package: 152, 68 and 124 rows, of which one
# Adelie and one Gentoo lack their measurements.
SPECIES_COUNTS = {"Adelie": 151, "Chinstrap": 68, "Gentoo": 123}
# Means of the 342 complete rows, computed from that file with pandas.
FEATURE_MEANS = {
    "bill_length_mm": 43.92193,
    "bill_depth_mm": 17.15117,
    "flipper_length_mm": 200.91520,
    "body_mass_g": 4201.75439,
}


class TestLoadPenguins:
    def test_counts_and_shapes(self):
        bunch = load_penguins()
        assert bunch.data.shape == (342, 4)
        assert bunch.data.dtype == np.float64
        assert bunch.target.dtype == np.int64
        assert bunch.frame is None
        names = bunch.target_names[bunch.target].tolist()
        assert {name: names.count(name) for name in SPECIES_COUNTS} == SPECIES_COUNTS

    def test_first_and_last_row(self):
        bunch = load_penguins()
        assert bunch.data[0].tolist() == [39.1, 18.7, 181.0, 3750.0]
        assert bunch.data[-1].tolist() == [50.2, 18.7, 198.0, 3775.0]
        assert bunch.target_names[bunch.target[-1]] == "Chinstrap"

    def test_feature_means(self):
        bunch = load_penguins()
        assert bunch.feature_names == list(FEATURE_MEANS)
        np.testing.assert_allclose(
            bunch.data.mean(axis=0), list(FEATURE_MEANS.values()), rtol=0, atol=1e-5
        )

    def test_nothing_missing(self):
        assert np.isfinite(load_penguins().data).all()

    def test_description_names_source_and_licence(self):
        description = load_penguins().DESCR
        assert "Gorman" in description
        assert "10.1371/journal.pone.0090081" in description
        assert "CC0" in description

    def test_return_X_y(self):
        bunch = load_penguins()
        X, y = load_penguins(return_X_y=True)
        np.testing.assert_array_equal(X, bunch.data)
        np.testing.assert_array_equal(y, bunch.target)

    def test_calls_do_not_share_arrays(self):
        X, _ = load_penguins(return_X_y=True)
        X[:] = 0.0
        assert load_penguins().data[0, 0] == 39.1

    def test_as_frame(self):
        bunch = load_penguins(as_frame=True)
        plain = load_penguins()
        assert isinstance(bunch.data, pd.DataFrame)
        assert isinstance(bunch.target, pd.Series)
        assert list(bunch.data.columns) == plain.feature_names
        assert list(bunch.frame.columns) == [*plain.feature_names, "species"]
        np.testing.assert_array_equal(bunch.data.to_numpy(), plain.data)
        np.testing.assert_array_equal(bunch.target.to_numpy(), plain.target)
        X, y = load_penguins(return_X_y=True, as_frame=True)
        assert X.equals(bunch.data)
        assert y.equals(bunch.target)

    def test_as_frame_without_pandas(self, monkeypatch):
        real_import = builtins.__import__

        def no_pandas(name, *args, **kwargs):
            if name == "pandas":
                raise ImportError(name)
            return real_import(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", no_pandas)
        with pytest.raises(ImportError, match=r"onefit\[pandas\]"):
            load_penguins(as_frame=True)


def class_counts(y):
    values, counts = np.unique(np.asarray(y)[np.asarray(y) != -1], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


class TestMakePartiallyLabeled:
    def test_kept_labels_are_the_true_ones(self):
        _, y = load_penguins(return_X_y=True)
        before = y.copy()
        partial = make_partially_labeled(y, n_labeled=40, random_state=1)
        kept = partial != -1
        assert kept.sum() == 40
        np.testing.assert_array_equal(partial[kept], y[kept])
        np.testing.assert_array_equal(y, before)
        assert partial is not y

    def test_proportional_shares(self):
        y = np.repeat([0, 1, 2], [50, 30, 20])
        partial = make_partially_labeled(y, n_labeled=10, random_state=0)
        assert class_counts(partial) == {0: 5, 1: 3, 2: 2}

    def test_rare_class_keeps_a_label(self):
        y = np.repeat([0, 1, 2], [997, 2, 1])
        for seed in range(20):
            partial = make_partially_labeled(y, n_labeled=3, random_state=seed)
            assert class_counts(partial) == {0: 1, 1: 1, 2: 1}

    def test_fewer_labels_than_classes(self):
        y = np.repeat(np.arange(5), 10)
        partial = make_partially_labeled(y, n_labeled=3, random_state=0)
        assert sorted(class_counts(partial).values()) == [1, 1, 1]
        with pytest.raises(ValueError, match="n_labeled=3 labels for 5 classes"):
            make_partially_labeled(y, n_labeled=3, stratify=True, random_state=0)

    def test_ties_between_classes_depend_on_the_seed(self):
        y = np.repeat(np.arange(5), 10)
        chosen = {
            tuple(class_counts(make_partially_labeled(y, n_labeled=2, random_state=seed)))
            for seed in range(30)
        }
        assert len(chosen) > 1

    def test_without_strata_every_subset_can_occur(self):
        y = np.array([0, 0, 0, 1])
        chosen = {
            tuple(
                np.flatnonzero(
                    make_partially_labeled(y, n_labeled=2, stratify=False, random_state=seed) != -1
                )
            )
            for seed in range(200)
        }
        assert len(chosen) == 6

    def test_every_row_is_kept_equally_often(self):
        y = np.repeat([0, 1], [6, 4])
        kept = sum(
            (make_partially_labeled(y, n_labeled=5, random_state=seed) != -1).astype(int)
            for seed in range(2000)
        )
        # Each row is kept with probability 1/2: the standard deviation of a count is 22.
        assert np.abs(kept - 1000).max() < 110

    def test_fraction(self):
        _, y = load_penguins(return_X_y=True)
        partial = make_partially_labeled(y, n_labeled=0.1, random_state=0)
        assert (partial != -1).sum() == 34

    def test_fraction_counts_labels_not_rows(self):
        y = np.array([0] * 10 + [1] * 10 + [-1] * 80)
        partial = make_partially_labeled(y, n_labeled=0.5, random_state=0)
        assert class_counts(partial) == {0: 5, 1: 5}
        assert (partial[20:] == -1).all()

    def test_all_labels_can_be_kept(self):
        y = np.array([0, 1, 2, 1])
        np.testing.assert_array_equal(make_partially_labeled(y, n_labeled=4), y)

    def test_same_seed_same_choice(self):
        _, y = load_penguins(return_X_y=True)
        first, again, other = (
            make_partially_labeled(y, n_labeled=30, random_state=seed) for seed in (3, 3, 4)
        )
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()

    def test_random_state_instance_moves_on(self):
        _, y = load_penguins(return_X_y=True)
        rng = np.random.RandomState(0)
        first = make_partially_labeled(y, n_labeled=30, random_state=rng)
        second = make_partially_labeled(y, n_labeled=30, random_state=rng)
        assert (first != second).any()

    @pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int64])
    def test_integer_like_dtypes(self, dtype):
        y = np.array([0, 1, 0, 1, 1, 0]).astype(dtype)
        partial = make_partially_labeled(y, n_labeled=2, random_state=0)
        assert partial.dtype.kind == "i"
        assert (partial == -1).sum() == 4
        assert class_counts(partial) == {0: 1, 1: 1}

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_real_values(self, dtype):
        y = np.linspace(-2, 2, 9).astype(dtype)
        partial = make_partially_labeled(y, n_labeled=4, random_state=0)
        assert partial.dtype == dtype
        kept = ~np.isnan(partial)
        assert kept.sum() == 4
        np.testing.assert_array_equal(partial[kept], y[kept])

    def test_several_outputs_are_hidden_together(self):
        y = np.arange(12.0).reshape(6, 2)
        partial = make_partially_labeled(y, n_labeled=2, random_state=0)
        hidden = np.isnan(partial)
        np.testing.assert_array_equal(hidden[:, 0], hidden[:, 1])
        assert hidden[:, 0].sum() == 4

    def test_strings(self):
        y = np.array(["no", "yes", "no", "yes", "no"])
        partial = make_partially_labeled(y, n_labeled=2, random_state=0)
        assert partial.dtype == object
        assert sorted(value for value in partial if value is not None) == ["no", "yes"]

    def test_missing_strings_stay_so(self):
        y = np.array(["a", None, "b", float("nan"), "a", pd.NA], dtype=object)
        partial = make_partially_labeled(y, n_labeled=3, random_state=0)
        assert partial.tolist() == ["a", None, "b", None, "a", None]

    def test_series_keeps_index_and_name(self):
        y = pd.Series([0, 1, 0, 1], index=list("wxyz"), name="kind")
        partial = make_partially_labeled(y, n_labeled=2, random_state=0)
        assert isinstance(partial, pd.Series)
        assert list(partial.index) == list("wxyz")
        assert partial.name == "kind"
        assert (partial == -1).sum() == 2

    def test_series_of_strings(self):
        y = pd.Series(["a", "b", "a", "b"])
        partial = make_partially_labeled(y, n_labeled=2, random_state=0)
        assert partial.dtype == object
        assert sum(value is None for value in partial) == 2

    def test_data_frame_of_real_values(self):
        y = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
        partial = make_partially_labeled(y, n_labeled=1, random_state=0)
        assert list(partial.columns) == ["a", "b"]
        assert partial.isna().all(axis=1).sum() == 2

    @given(
        counts=st.lists(st.integers(1, 30), min_size=1, max_size=6),
        share=st.floats(0, 1),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_shares_are_within_one_of_proportional(self, counts, share, seed):
        y = np.repeat(np.arange(len(counts)), counts)
        n_labeled = max(1, round(share * y.size))
        partial = make_partially_labeled(y, n_labeled=n_labeled, random_state=seed)
        kept = np.bincount(partial[partial != -1], minlength=len(counts))
        quotas = n_labeled * np.array(counts) / y.size
        assert kept.sum() == n_labeled
        assert (kept <= counts).all()
        if n_labeled >= len(counts):
            assert (kept >= 1).all()
        if (quotas >= 1).all():
            assert (np.abs(kept - quotas) < 1).all()


class TestErrors:
    y = np.array([0, 1, 0, 1])

    @pytest.mark.parametrize("n_labeled", [0, -3, 5])
    def test_number_out_of_range(self, n_labeled):
        with pytest.raises(ValueError, match=rf"n_labeled={n_labeled}: .* from 1 to 4"):
            make_partially_labeled(self.y, n_labeled=n_labeled)

    @pytest.mark.parametrize("n_labeled", [0.0, 1.0, 1.5, -0.1, float("nan")])
    def test_fraction_out_of_range(self, n_labeled):
        with pytest.raises(ValueError, match=rf"n_labeled={n_labeled}: .* between 0 and 1"):
            make_partially_labeled(self.y, n_labeled=n_labeled)

    def test_fraction_that_keeps_nothing(self):
        with pytest.raises(ValueError, match=r"keeps none: .* at least 0\.25"):
            make_partially_labeled(self.y, n_labeled=0.01)

    @pytest.mark.parametrize("n_labeled", [True, "3", None])
    def test_n_labeled_of_another_type(self, n_labeled):
        with pytest.raises(ValueError, match="expected an integer"):
            make_partially_labeled(self.y, n_labeled=n_labeled)

    @pytest.mark.parametrize("y", [[-1, -1], [None, None], [np.nan, np.nan]])
    def test_no_labels(self, y):
        with pytest.raises(ValueError, match="y has no labels"):
            make_partially_labeled(y, n_labeled=1)

    def test_minus_one_as_a_class(self):
        with pytest.raises(ValueError, match="-1 means unlabelled"):
            make_partially_labeled([-1, 1, 1, -1], n_labeled=2)

    def test_infinite_target(self):
        with pytest.raises(ValueError, match="infinite in row 1"):
            make_partially_labeled([0.5, np.inf], n_labeled=1)

    def test_half_missing_row(self):
        with pytest.raises(ValueError, match="some but not all outputs of row 0"):
            make_partially_labeled([[1.0, np.nan], [1.0, 2.0]], n_labeled=1)

    def test_classes_in_two_dimensions(self):
        with pytest.raises(ValueError, match="expected one dimension for classes"):
            make_partially_labeled([[0, 1], [1, 0]], n_labeled=1)

    def test_real_values_in_three_dimensions(self):
        with pytest.raises(ValueError, match=r"shape \(2, 2, 2\)"):
            make_partially_labeled(np.ones((2, 2, 2)), n_labeled=1)

    @pytest.mark.parametrize("y", [[], 3])
    def test_no_rows(self, y):
        with pytest.raises(ValueError, match="expected at least one row"):
            make_partially_labeled(y, n_labeled=1)

    def test_other_dtype(self):
        with pytest.raises(ValueError, match="dtype complex128"):
            make_partially_labeled([1j, 2j], n_labeled=1)

    def test_stratify_real_values(self):
        with pytest.raises(ValueError, match="stratify=True, but y holds floats"):
            make_partially_labeled([0.5, 1.5], n_labeled=1, stratify=True)

    def test_stratify_unknown(self):
        with pytest.raises(ValueError, match="stratify='yes'"):
            make_partially_labeled(self.y, n_labeled=2, stratify="yes")


class TestNoisyManifold:
    def test_rows_lie_near_the_sheet(self):
        X, y = make_noisy_manifold(2000, 20, noise=0.0, random_state=0)
        assert np.linalg.matrix_rank(X - X.mean(axis=0), tol=1e-9) == 3
        noisy, same = make_noisy_manifold(2000, 20, noise=0.1, random_state=0)
        np.testing.assert_array_equal(same, y)
        distance = np.linalg.norm(noisy - X, axis=1)
        assert 0.09 < np.sqrt(np.mean(distance**2)) < 0.11
        assert np.abs(y).max() <= 2.0

    @pytest.mark.parametrize("params", [{"n_features": 2}, {"n_samples": 0}, {"noise": -1.0}])
    def test_bad_parameters(self, params):
        with pytest.raises(ValueError, match=next(iter(params))):
            make_noisy_manifold(**params)

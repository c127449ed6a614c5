"""From tables to features and targets."""

import numpy as np
import pandas as pd
import pytest

from onefit.preparation import conform, feature_pipeline, prepare, read_target


def texts(**columns):
    return pd.DataFrame(columns, dtype=str)


def some_table(n=40):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"id-{i}" for i in range(n)],
            "row": [str(i) for i in range(n)],
            "size": [f"{v:.3f}" if v > -1 else "" for v in rng.normal(size=n)],
            "colour": rng.choice(["red", "green", "NA"], n),
            "when": [f"2024-01-{1 + i % 28:02d}" for i in range(n)],
            "same": ["7"] * n,
            "void": [""] * n,
            "kind": ["a", "b", "", ""] * (n // 4),
        },
        dtype=str,
    )


def test_columns_are_chosen_and_the_reasons_said():
    prepared = prepare(some_table(), "kind")
    assert prepared.kinds == {"size": "number", "colour": "category", "when": "date"}
    notes = "\n".join(prepared.notes)
    for words in (
        "40 rows: 20 labelled, 20 not",
        "task: classification (guessed",
        "classes: a 10, b 10",
        "dropped 'id': every text comes once",
        "dropped 'row': it counts the rows",
        "dropped 'same': it is constant",
        "dropped 'void': it is empty",
        "missing:",
    ):
        assert words in notes
    assert prepared.labelled.sum() == 20


def test_kept_and_dropped_columns():
    prepared = prepare(some_table(), "kind", keep=["id", "same"], drop=["size"])
    assert set(prepared.kinds) == {"id", "same", "colour", "when"}


def test_the_pipeline_is_what_it_says():
    prepared = prepare(some_table(), "kind")
    transformer = feature_pipeline(prepared.kinds)
    values = transformer.fit_transform(prepared.X)
    size = prepared.X["size"].fillna(prepared.X["size"].median())
    np.testing.assert_allclose(values[:, 0], (size - size.mean()) / size.std(ddof=0))
    encoded = values[:, -3:]
    names = prepared.X["colour"].fillna("(missing)")
    expected = np.column_stack([names == c for c in ("(missing)", "green", "red")])
    np.testing.assert_array_equal(encoded, expected)
    np.testing.assert_array_equal(
        values, feature_pipeline(prepared.kinds).fit_transform(prepared.X)
    )


def test_dates_are_days():
    kinds = {"d": "date"}
    days = conform(texts(d=["1970-01-02", "1970-01-01T12:00:00Z", ""]), kinds)["d"]
    np.testing.assert_array_equal(days, [1.0, 0.5, np.nan])
    stamps = pd.DataFrame({"d": pd.to_datetime(["1970-01-03", None])})
    np.testing.assert_array_equal(conform(stamps, kinds)["d"], [2.0, np.nan])


def test_later_tables_are_read_by_the_kinds_of_the_first():
    kinds = {"n": "number", "c": "category"}
    later = conform(texts(c=["1", "NA", " x "], n=["1e3", "inf", ""], more=["a", "b", "c"]), kinds)
    assert later.columns.tolist() == ["n", "c"]
    np.testing.assert_array_equal(later["n"], [1000.0, np.nan, np.nan])
    assert later["c"].tolist()[::2] == ["1", "x"]
    with pytest.raises(ValueError, match="'n' has 'abc' in row 2; expected a number"):
        conform(texts(n=["1", "abc"], c=["", ""]), kinds)
    with pytest.raises(ValueError, match="lacks 1 of the model's columns: 'c'"):
        conform(texts(n=["1"]), kinds)


def test_truth_values_and_declared_categories():
    frame = pd.DataFrame(
        {"flag": [True, False] * 10, "code": pd.Categorical(["01", "02"] * 10), "y": [0, 1] * 10}
    )
    prepared = prepare(frame, "y")
    assert prepared.kinds == {"flag": "category", "code": "category"}
    assert prepared.X["flag"].tolist()[:2] == ["True", "False"]
    assert "every row is labelled" in "\n".join(prepared.notes)


def test_unknown_and_rare_categories_can_be_predicted():
    names = [f"c{i % 30}" for i in range(90)]
    prepared = prepare(texts(c=names, y=["a", "b", ""] * 30), "y")
    assert any("30 categories" in note for note in prepared.notes)
    transformer = feature_pipeline(prepared.kinds).fit(prepared.X)
    assert transformer.transform(prepared.X).shape[1] == 20
    new = transformer.transform(conform(texts(c=["never seen"]), prepared.kinds))
    assert new.sum() == 1.0


@pytest.mark.parametrize(
    "cells, task",
    [
        (["a", "b", ""], "classification"),
        (["True", "False", ""], "classification"),
        (["0", "1", "2", "NA"], "classification"),
        (["1.0", "2.0", ""], "classification"),
        (["1.5", "2", ""], "regression"),
        ([str(i) for i in range(11)], "regression"),
        ([str(i) for i in range(10)] * 2, "classification"),
    ],
)
def test_task_is_guessed(cells, task):
    target = pd.Series(cells * 2, name="y", dtype=str)
    read = read_target(target)
    assert read.task == task
    assert "guessed" in read.notes[0]


def test_targets_are_marked():
    read = read_target(pd.Series(["3", "", "5", "3"], dtype=str, name="y"))
    assert read.y.tolist() == [3, -1, 5, 3]
    read = read_target(pd.Series(["a", "", "b", "a"], dtype=str, name="y"))
    assert read.y.tolist() == ["a", None, "b", "a"]
    read = read_target(pd.Series(["3", "", "5", "3"], dtype=str, name="y"), "regression")
    np.testing.assert_array_equal(read.y, [3, np.nan, 5, 3])


def test_minus_one_is_a_class_unless_told():
    target = pd.Series([1.0, -1.0, np.nan, 0.0, -1.0], name="y")
    read = read_target(target)
    assert read.y.tolist() == ["1", "class -1", None, "0", "class -1"]
    assert read.renamed == {"class -1": "-1"}
    assert any("--unlabeled=-1" in note for note in read.notes)
    read = read_target(pd.Series([1.0, -1.0, 0.0, 1.0], name="y"), unlabeled=["-1"])
    assert read.y.tolist() == [1, -1, 0, 1]
    assert read.renamed == {}


@pytest.mark.parametrize(
    "cells, options, message",
    [
        (["", "NA"], {}, "empty in all 2 rows"),
        (["a", "a", ""], {}, "one class only, 'a'"),
        (["a", "b", "c"], {}, "all different"),
        (["1", "x", "2"], {"task": "regression"}, "'x' in row 2; regression expects"),
        (["1", "inf", "2"], {"task": "regression"}, "finite numbers"),
    ],
)
def test_bad_targets(cells, options, message):
    with pytest.raises(ValueError, match=message):
        read_target(pd.Series(cells, dtype=str, name="y"), **options)


def test_bad_columns():
    with pytest.raises(ValueError, match="no column 'z'; the columns are 'a', 'y'"):
        prepare(texts(a=["1", "2"], y=["a", "b"]), "z")
    with pytest.raises(ValueError, match="no feature is left"):
        prepare(texts(a=["1"] * 4, y=["a", "b"] * 2), "y")


def test_infinite_numbers_are_said_to_be_missing():
    prepared = prepare(texts(a=["1", "inf", "2", "3"], y=["a", "b", "a", ""]), "y")
    assert any("infinite" in note for note in prepared.notes)
    assert prepared.X["a"].isna().sum() == 1

"""From a table to what an estimator takes: features, target, and a pipeline that is saved.

What a column is (a number, a date or a category) is decided once, when a model is selected; later
tables are read by that decision (:func:`conform`). Everything that is learnt from the data, such as
medians, scales and categories, is learnt by scikit-learn's transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from onefit.validation import LARGEST, SMALLEST, check_target_size

__all__ = ["MISSING", "TASKS", "Prepared", "conform", "feature_pipeline", "prepare"]

#: Text that stands for a missing value, after the removal of blanks around it.
MISSING = frozenset(
    {"", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None"}
)
#: What a target can be.
TASKS = ("classification", "regression")
_MAX_CATEGORIES = 20
#: Whole numbers are taken for classes up to this many different ones.
_FEW_NUMBERS = 10
#: Columns of that many different texts, none of which comes twice, are identifiers.
_FEWEST_IDENTIFIERS = 10
_DATE = r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
#: Numbers with a decimal comma, or with commas between thousands.
_WITH_COMMA = r"[-+]?(?:\d+,\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?:[eE][-+]?\d+)?"
_DAY = pd.Timedelta(days=1)
_EPOCH = pd.Timestamp("1970-01-01", tz="UTC")
_MINUS_ONE = "class -1"
_LARGEST_WHOLE = 2.0**53


@dataclass(frozen=True)
class Prepared:
    """Data for an estimator, and what was done to them.

    Parameters
    ----------
    X : DataFrame
        Features: floats, or texts with NaN where missing.
    y : array of shape (N,)
        Target: -1 or None (classes) or NaN (numbers) where unlabelled.
    task : str
        One of ``TASKS``.
    target : str
        Name of the target column.
    kinds : dict
        "number", "date" or "category" for every feature.
    notes : list of str
        What was found, guessed and dropped.
    renamed : dict
        How classes that y cannot hold as they are were written in the file.
    """

    X: pd.DataFrame
    y: np.ndarray[Any, Any]
    task: str
    target: str
    kinds: dict[str, str]
    notes: list[str]
    renamed: dict[str, str] = field(default_factory=dict)

    @property
    def labelled(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows have a label."""
        if self.y.dtype.kind == "i":
            return self.y != -1
        return pd.notna(self.y)


def prepare(
    frame: pd.DataFrame,
    target: str,
    *,
    task: str | None = None,
    unlabeled: Collection[str] = (),
    drop: Collection[str] = (),
    keep: Collection[str] = (),
) -> Prepared:
    """Split a table into features and target, and decide what they are.

    Parameters
    ----------
    frame : DataFrame
        Table as :mod:`onefit.tables` reads it.
    target : str
        Column to predict. Empty cells are unlabelled rows.
    task : str, optional
        One of ``TASKS``; guessed when None.
    unlabeled : collection of str
        Other contents of the target that mean that the label is not known.
    drop, keep : collections of str
        Columns to leave out, and columns to use even if they look useless.
    """
    _check_names(frame, [target, *drop, *keep])
    if target in {*drop, *keep}:
        raise ValueError(f"{target!r} is the target; name other columns to drop or to keep.")
    read = read_target(frame[target], task, unlabeled)
    features = frame.drop(columns=[target, *drop])
    kinds, dropped = _choose_columns(features, keep)
    if not kinds:
        raise ValueError(
            f"no feature is left beside the target {target!r} ({'; '.join(dropped) or 'none'}); "
            "expected at least one column that varies."
        )
    X = conform(features, kinds)
    prepared = Prepared(X, read.y, read.task, target, kinds, [], read.renamed)
    notes = [_count_rows(prepared), *read.notes, *_describe(prepared, features), *dropped]
    prepared.notes.extend(notes)
    return prepared


def _check_names(frame: pd.DataFrame, names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            shown = ", ".join(repr(str(column)) for column in frame.columns[:12])
            more = ", ..." if frame.shape[1] > 12 else ""
            raise ValueError(f"there is no column {name!r}; the columns are {shown}{more}.")


def feature_pipeline(kinds: Mapping[str, str]) -> ColumnTransformer:
    """Transformer of features: numbers imputed and standardised, categories one-hot.

    Parameters
    ----------
    kinds : mapping
        Kind of every feature.
    """
    numbers = [name for name, kind in kinds.items() if kind != "category"]
    categories = [name for name, kind in kinds.items() if kind == "category"]
    number_steps = Pipeline(
        [
            ("impute", SimpleImputer(strategy="median", add_indicator=True)),
            ("scale", StandardScaler()),
        ]
    )
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=_MAX_CATEGORIES, sparse_output=False
    )
    category_steps = Pipeline(
        [
            ("impute", SimpleImputer(strategy="constant", fill_value="(missing)")),
            ("encode", encoder),
        ]
    )
    parts = [("number", number_steps, numbers), ("category", category_steps, categories)]
    return ColumnTransformer([part for part in parts if part[2]], verbose_feature_names_out=False)


# Columns.


def conform(frame: pd.DataFrame, kinds: Mapping[str, str]) -> pd.DataFrame:
    """The features of a model from a table, each read as its kind.

    Parameters
    ----------
    frame : DataFrame
        Table; columns that are not features are ignored.
    kinds : mapping
        Kind of every feature.
    """
    absent = [name for name in kinds if name not in frame.columns]
    if absent:
        shown = ", ".join(map(repr, absent[:5])) + (", ..." if len(absent) > 5 else "")
        raise ValueError(f"the table lacks {len(absent)} of the model's columns: {shown}.")
    unknown = [name for name, kind in kinds.items() if kind not in tuple(_AS_KIND)]
    if unknown:
        raise ValueError(
            f"the kind of column {unknown[0]!r} is {kinds[unknown[0]]!r}; expected one of "
            f"{', '.join(_AS_KIND)}."
        )
    return pd.DataFrame({name: _AS_KIND[kind](frame[name]) for name, kind in kinds.items()})


def _is_text(column: pd.Series[Any]) -> bool:
    """Whether cells are texts (or objects) whose meaning is open."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return False
    return pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype)


def _known_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Cells as texts without blanks around them, None where they say nothing."""
    text = [None if pd.isna(cell) else str(cell).strip() for cell in column.astype(object)]
    known = [None if cell is None or cell in MISSING else cell for cell in text]
    return pd.Series(known, index=column.index, name=column.name, dtype=object)


def _as_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    if _is_text(column) or isinstance(column.dtype, pd.CategoricalDtype):
        column = _known_text(column)
        numbers = pd.to_numeric(column, errors="coerce")
        strange = numbers.isna() & column.notna() & (column.str.lower() != "nan")
        if strange.any():
            row = int(np.flatnonzero(strange)[0])
            raise ValueError(
                f"column {column.name!r} has {str(column.iloc[row])[:40]!r} in row "
                f"{column.index[row] + 1}; "
                "expected a number, or an empty cell where it is missing."
            )
        column = numbers
    with np.errstate(over="ignore"):  # of longer floats: infinite, as below
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    finite = np.where(np.isfinite(values), values, np.nan)
    large = np.flatnonzero(np.abs(finite) > LARGEST)
    if large.size:
        raise ValueError(
            f"column {column.name!r} has {finite[large[0]]:.3g} in row "
            f"{column.index[large[0]] + 1}; expected numbers up to {LARGEST:g} in size, whose "
            "squares do not overflow. Correct it, change the unit of the column, or leave it out."
        )
    return pd.Series(finite, index=column.index, name=column.name)


def _as_days(column: pd.Series[Any]) -> pd.Series[Any]:
    """Dates as days since 1970-01-01."""
    if _is_text(column) or isinstance(column.dtype, pd.CategoricalDtype):
        column = _known_text(column)
    try:
        times = pd.to_datetime(column, utc=True, format="ISO8601")
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {column.name!r} has no dates: {error}.") from error
    return ((times - _EPOCH) / _DAY).astype(np.float64)


def _as_categories(column: pd.Series[Any]) -> pd.Series[Any]:
    known = _known_text(column)
    return known.where(known.notna(), np.nan)


_AS_KIND: Mapping[str, Callable[[pd.Series[Any]], pd.Series[Any]]] = {
    "number": _as_numbers,
    "date": _as_days,
    "category": _as_categories,
}


def _kind_of(column: pd.Series[Any]) -> str:
    """Kind of a column; "" of one that is of no use to a model."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return "category"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date"
    if pd.api.types.is_numeric_dtype(dtype) and dtype.kind != "c":
        return "number"
    if not _is_text(column):
        return ""
    known = _known_text(column).dropna()
    is_number = pd.to_numeric(known, errors="coerce").notna()
    if is_number.all():
        return "number"
    others = known[~is_number]
    if others.str.fullmatch(_WITH_COMMA).all():
        raise ValueError(
            f"column {column.name!r} has numbers with commas, such as {others.iloc[0]!r}; write "
            "them with a decimal point and without separators of thousands, or leave the column "
            "out with --drop."
        )
    if known.str.fullmatch(_DATE).all() and _parses_as_dates(known):
        return "date"
    return "category"


def _parses_as_dates(known: pd.Series[Any]) -> bool:
    times = pd.to_datetime(known, utc=True, format="ISO8601", errors="coerce")
    return bool(times.notna().all())


def _choose_columns(
    features: pd.DataFrame, keep: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """Kinds of the columns to use, and a note on each that is not used."""
    kinds: dict[str, str] = {}
    notes: list[str] = []
    for name in map(str, features.columns):
        kind = _kind_of(features[name])
        reason = _reason_to_drop(features[name], kind)
        if reason and (name not in keep or not kind):
            notes.append(f"dropped {name!r}: {reason}")
        else:
            kinds[name] = kind
    return kinds, notes


def _reason_to_drop(column: pd.Series[Any], kind: str) -> str:
    if not kind:
        return f"values of type {column.dtype} are not understood"
    values = _AS_KIND[kind](column)
    if kind == "number" and 0.0 < values.max() - values.min() < SMALLEST:
        raise ValueError(
            f"column {column.name!r} has numbers that differ by no more than "
            f"{values.max() - values.min():.3g}; expected {SMALLEST:g} or more, so that their "
            f"variance is not 0. Multiply it by {LARGEST:g} or more, or leave it out with --drop."
        )
    n_known, n_different = int(values.notna().sum()), int(values.nunique())
    if n_known == 0:
        return "it is empty"
    if n_different == 1 and n_known == len(values):
        return "it is constant"
    is_unique = n_different == n_known >= _FEWEST_IDENTIFIERS
    if is_unique and kind == "category":
        return "every text comes once, like an identifier"
    if is_unique and kind == "number" and np.all(np.diff(values.to_numpy()) == 1.0):
        return "it counts the rows"
    return ""


# The target.


@dataclass(frozen=True)
class ReadTarget:
    """What a target column says."""

    y: np.ndarray[Any, Any]
    task: str
    notes: list[str]
    renamed: dict[str, str]


def read_target(
    column: pd.Series[Any], task: str | None = None, unlabeled: Collection[str] = ()
) -> ReadTarget:
    """Target and task from a column.

    Parameters
    ----------
    column : Series
        Target as read; empty where unlabelled.
    task : str, optional
        One of ``TASKS``; guessed when None.
    unlabeled : collection of str
        More contents that mean "not labelled".
    """
    text = _known_text(column)
    numbers = pd.to_numeric(text, errors="coerce")
    hidden = text.isna() | text.isin([str(word).strip() for word in unlabeled])
    for word in unlabeled:
        hidden |= numbers == pd.to_numeric(word, errors="coerce")
    text, numbers = text.mask(hidden, None), numbers.mask(hidden)
    if hidden.all():
        raise ValueError(
            f"the target {column.name!r} is empty in all {len(text)} rows; expected some labels."
        )
    is_numeric = _kind_of(column) == "number" and bool(numbers[~hidden].notna().all())
    task, note = (task, "as told") if task else _guess_task(numbers[~hidden], is_numeric)
    if task == "regression":
        y = _real_target(str(column.name), text, numbers)
        return ReadTarget(y, task, [f"task: {task} ({note})"], {})
    y, notes, renamed = _class_target(str(column.name), text, numbers, is_numeric)
    return ReadTarget(y, task, [f"task: {task} ({note})", *notes], renamed)


def _guess_task(numbers: pd.Series[Any], is_numeric: bool) -> tuple[str, str]:
    """Task, and the reason for it."""
    if not is_numeric:
        return "classification", "guessed: the target is not numeric"
    n_different = numbers.nunique()
    if (numbers % 1 != 0).any():
        return "regression", "guessed: the target has fractions"
    if n_different > _FEW_NUMBERS:
        return "regression", f"guessed: the target has {n_different} different whole numbers"
    return "classification", f"guessed: the target has {n_different} different whole numbers only"


def _real_target(name: str, text: pd.Series[Any], numbers: pd.Series[Any]) -> np.ndarray[Any, Any]:
    strange = text.notna() & ~np.isfinite(numbers.astype(np.float64))
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        raise ValueError(
            f"the target {name!r} has {str(text.iloc[row])[:40]!r} in row {row + 1}; regression "
            "expects finite numbers. Use --task classification for classes."
        )
    y = numbers.to_numpy(dtype=np.float64)
    check_target_size(y[~np.isnan(y)], f"the target {name!r}")
    return y


def _class_target(
    name: str, text: pd.Series[Any], numbers: pd.Series[Any], is_numeric: bool
) -> tuple[np.ndarray[Any, Any], list[str], dict[str, str]]:
    if is_numeric and _are_whole(numbers.dropna()):
        y = numbers.fillna(-1).to_numpy().astype(np.int64)
        # 1.0 and 1 are one class: both are written 1.
        names = [str(code) if known else None for code, known in zip(y, text.notna(), strict=True)]
        text = pd.Series(names, dtype=object)
    else:
        y = text.to_numpy(dtype=object)
    counts = text.value_counts()
    _check_classes(name, counts)
    notes = [f"classes: {_listed(counts)}"]
    rare = int((counts < 2).sum())
    if rare:
        notes.append(f"{rare} classes have one label only: no fold can test and train on them")
    if "-1" not in counts.index:
        return y, notes, {}
    # -1 marks unlabelled rows in Python: the class needs another name.
    notes.append("-1 is taken for a class; if it marks unlabelled rows, say --unlabeled=-1")
    names = [_MINUS_ONE if label == "-1" else label for label in text]
    return np.array(names, dtype=object), notes, {_MINUS_ONE: "-1"}


def _are_whole(numbers: pd.Series[Any]) -> bool:
    """Whether numbers are whole, and no two of them the same only by rounding."""
    return bool((numbers % 1 == 0).all() and (numbers.abs() < _LARGEST_WHOLE).all())


def _check_classes(name: str, counts: pd.Series[Any]) -> None:
    if len(counts) < 2:
        raise ValueError(
            f"the target {name!r} has one class only, {counts.index[0]!r}; expected two or more."
        )
    if counts.max() == 1:
        raise ValueError(
            f"the target {name!r} has {len(counts)} labels, all different; expected classes that "
            "come more than once, or numbers and --task regression."
        )


def _listed(counts: pd.Series[Any], most: int = 12) -> str:
    shown = ", ".join(f"{label} {count:,}" for label, count in counts.head(most).items())
    return shown + (f" and {len(counts) - most} more" if len(counts) > most else "")


# Notes.


def _count_rows(prepared: Prepared) -> str:
    n, labelled = len(prepared.y), int(prepared.labelled.sum())
    return f"{n:,} rows: {labelled:,} labelled, {n - labelled:,} not"


def _describe(prepared: Prepared, features: pd.DataFrame) -> list[str]:
    X = prepared.X
    kinds = list(prepared.kinds.values())
    names = {"number": "numeric", "category": "categorical", "date": "dates (days since 1970)"}
    counted = [f"{kinds.count(k)} {name}" for k, name in names.items() if k in kinds]
    notes = [f"features: {', '.join(counted)}"]
    if prepared.labelled.all():
        notes.append("every row is labelled: there are no unlabelled rows to learn from")
    missing = X.isna().sum()
    if missing.any():
        notes.append(
            f"missing: {int(missing.sum()):,} cells in {int((missing > 0).sum())} columns; "
            "numbers get the median and an indicator, categories one of their own"
        )
    duplicates = int(X.duplicated().sum())
    if duplicates:
        notes.append(f"duplicates: {duplicates:,} rows have the features of an earlier one")
    for name, kind in prepared.kinds.items():
        if kind == "category" and X[name].nunique() > _MAX_CATEGORIES:
            notes.append(
                f"{name!r} has {X[name].nunique():,} categories: the {_MAX_CATEGORIES - 1} most "
                "frequent are kept apart, the rest count as one"
            )
    infinite = [name for name in prepared.kinds if _has_infinity(features[name])]
    if infinite:
        notes.append(f"infinite numbers count as missing: in {', '.join(map(repr, infinite))}")
    return notes


def _has_infinity(column: pd.Series[Any]) -> bool:
    if column.dtype.kind == "f":
        return bool(np.isinf(column.to_numpy()).any())
    if not _is_text(column):
        return False
    return bool(np.isinf(pd.to_numeric(_known_text(column), errors="coerce")).any())

"""What ``y`` says: which rows are labelled, their targets, and the weight of each label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import column_or_1d

from onefit._typing import BoolArray, FloatArray, IntArray
from onefit.validation import check_number, check_target_size

__all__ = [
    "LabelWeights",
    "Targets",
    "check_sample_weight",
    "class_targets",
    "encode_classes",
    "regression_targets",
]

UNLABELED = -1
_NUMBERS_EXPECTED = "a regressor expects numbers, NaN where the target is unknown."
#: Weights further apart than this are no longer weights of one problem in double precision.
_WEIGHT_RANGE = 1e100


@dataclass(frozen=True)
class Targets:
    """Targets of the labelled rows.

    Parameters
    ----------
    labelled : array of shape (N,)
        Which rows carry a label.
    values : array of shape (l, q)
        What the loss sees: regression targets, or +-1 for each one-vs-rest problem.
    is_flat : bool
        Whether decision values are given as an array of shape (N,): there is one output, and it
        did not come as a column.
    codes : array of shape (l,) or None
        Class numbers; None for regression.
    classes : array or None
        Class names in the order of their numbers.
    """

    labelled: BoolArray
    values: FloatArray
    is_flat: bool
    codes: IntArray | None = None
    classes: np.ndarray[Any, Any] | None = None

    @property
    def y(self) -> np.ndarray[Any, Any]:
        """Targets of all rows as ``fit`` reads them: class names or None, values or NaN."""
        if self.codes is not None:
            names = np.full(self.labelled.shape, None, dtype=object)
            names[self.labelled] = self.class_names[self.codes].tolist()
            return names
        values = np.full((self.labelled.size, self.values.shape[1]), np.nan)
        values[self.labelled] = self.values
        return values[:, 0] if self.is_flat else values

    @property
    def class_names(self) -> np.ndarray[Any, Any]:
        """``classes`` of a classification."""
        if self.classes is None:
            raise ValueError("regression targets have no classes.")
        return self.classes


def encode_classes(y: Any) -> tuple[np.ndarray[Any, Any], IntArray]:
    """Class names, and the class number of every row (-1: unlabelled).

    Unlabelled are: -1 in numeric labels; -1, ``"-1"``, None and NaN in string or object labels;
    NaN in float labels.
    """
    y = column_or_1d(_as_label_array(y), warn=True)
    if y.dtype.kind in "OUST":
        hidden = np.array([_is_missing(label) for label in y.tolist()], dtype=bool)
        names = _uniform_names(y[~hidden].tolist())
    else:
        hidden = (y == UNLABELED) | (np.isnan(y) if y.dtype.kind == "f" else False)
        names = y[~hidden]
    _reject_infinite(names)
    _reject_continuous(names)
    classes, numbers = np.unique(names, return_inverse=True)
    codes = np.full(y.shape[0], UNLABELED, dtype=np.intp)
    codes[~hidden] = numbers
    return classes, codes


def class_targets(y: Any, weightless: BoolArray | None = None) -> Targets:
    """Targets of a classifier: +-1 for two classes, one column of +-1 for each of more.

    Rows that are ``weightless`` count as unlabelled.
    """
    classes, codes = encode_classes(y)
    if weightless is not None:
        codes[weightless] = UNLABELED
    labelled = codes != UNLABELED
    if not labelled.any():
        raise ValueError(
            f"y has no labelled row among {len(codes)}: every label is -1, None or NaN, which mark "
            "unlabelled rows. Expected at least two classes with a label each."
        )
    present, known = np.unique(codes[labelled], return_inverse=True)
    classes = classes[present]
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only, {classes.tolist()[0]!r}, in its {int(labelled.sum())} labelled "
            f"rows ({int((~labelled).sum())} rows are unlabelled); expected at least two classes. "
            "Note that -1 marks unlabelled rows: if your classes are -1 and +1, encode them "
            "otherwise, for instance as 0 and 1. A sample_weight of 0 hides a label too."
        )
    positive = np.arange(1, 2) if len(classes) == 2 else np.arange(len(classes))
    values = np.where(known[:, None] == positive, 1.0, -1.0)
    return Targets(labelled, values, values.shape[1] == 1, known.astype(np.intp), classes)


def regression_targets(y: Any, weightless: BoolArray | None = None) -> Targets:
    """Targets of a regressor: NaN marks an unlabelled row, in every output at once.

    Rows that are ``weightless`` count as unlabelled.
    """
    y = _as_float(y)
    if y.ndim not in (1, 2) or 0 in y.shape:
        raise ValueError(
            f"y has shape {y.shape}; expected (n_samples,), or (n_samples, n_outputs) with at "
            "least one output."
        )
    _reject_infinite(y)
    outputs = y[:, None] if y.ndim == 1 else y
    missing = np.isnan(outputs)
    partly = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if partly.size:
        raise ValueError(
            f"row {partly[0]} of y is NaN in some outputs only ({partly.size} such rows); expected "
            "all outputs known or all NaN. Fit one regressor for each output instead."
        )
    labelled = ~missing.any(axis=1)
    if weightless is not None:
        labelled &= ~weightless
    if not labelled.any():
        raise ValueError(
            f"y has no labelled row among {len(labelled)}: every target is NaN, which marks "
            "unlabelled rows. Expected at least one known target."
        )
    check_target_size(outputs[labelled])
    return Targets(labelled, outputs[labelled], y.ndim == 1)


def _checked_container(y: Any) -> Any:
    """``y`` with masked entries unlabelled; sparse matrices are refused."""
    if sp.issparse(y):
        raise TypeError("y is a sparse matrix; expected a dense array. Use y.toarray().")
    if isinstance(y, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(y)
        y = np.array(y.data, dtype=object)
        y[masked] = None
    return y


def _as_label_array(y: Any) -> Any:
    """Lists as arrays without the conversion of None, NaN or numbers among strings to strings."""
    y = _checked_container(y)
    if isinstance(y, list | tuple):
        has_strings = np.asarray(y).dtype.kind in "US"
        return np.array(y, dtype=object) if has_strings else np.asarray(y)
    # pandas' own types: as objects, lest integers and truth values become floats.
    is_extension = hasattr(y, "dtype") and not isinstance(y.dtype, np.dtype)
    return np.asarray(y, dtype=object) if is_extension else y


def _uniform_names(names: list[Any]) -> np.ndarray[Any, Any]:
    """Labels of one kind, all strings or all numbers, as an array."""
    for kind in (str, Real | np.bool_):
        if all(isinstance(name, kind) for name in names):
            return np.array(names)
    first = {type(name).__name__: name for name in reversed(names)}
    examples = " and ".join(f"{name!r} ({kind})" for kind, name in first.items())
    raise ValueError(
        f"Unknown label type: y has the labels {examples}; expected all strings or all integers, "
        "with -1, None or NaN where the label is unknown. Convert them, for instance to strings."
    )


def _reject_continuous(names: np.ndarray[Any, Any]) -> None:
    if names.dtype.kind not in "fiubUT":
        raise ValueError(
            f"Unknown label type: y has dtype {names.dtype}; expected strings or integers."
        )
    if names.dtype.kind != "f":
        return
    fractions = names[names != np.floor(names)]
    if fractions.size:
        raise ValueError(
            f"Unknown label type: continuous. y has the label {float(fractions[0])!r}; expected "
            "classes, as strings or integers. For numeric targets use LapRLSRegressor."
        )


def _as_float(y: Any) -> FloatArray:
    """``y`` as an array of floats; strings, dates and complex numbers are no targets."""
    y = np.asarray(_checked_container(y))
    if y.dtype.kind == "O":
        return np.array([_number(value) for value in y.flat], dtype=np.float64).reshape(y.shape)
    if y.dtype.kind not in "fiub":
        raise ValueError(f"y has dtype {y.dtype}; {_NUMBERS_EXPECTED}")
    with np.errstate(over="ignore"):  # of longer floats: infinite, which is refused
        return y.astype(np.float64)


def _number(value: Any) -> float:
    if _is_missing_number(value):
        return math.nan
    try:
        if not isinstance(value, str):
            return float(value)
    except OverflowError:  # an integer beyond the largest float
        return math.inf
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"y has the entry {value!r} of type {type(value).__name__}; {_NUMBERS_EXPECTED}"
    )


def _is_missing(label: Any) -> bool:
    """None, NaN, pandas.NA, -1 or "-1"."""
    return _is_missing_number(label) or bool(label == UNLABELED) or label == str(UNLABELED)


def _is_missing_number(value: Any) -> bool:
    # By name, because pandas is optional and its NA compares equal to nothing, itself included.
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    # NaN alone differs from itself; math.isnan would fail on integers beyond the largest float.
    return isinstance(value, Real) and bool(value != value)


def _reject_infinite(y: np.ndarray[Any, Any]) -> None:
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(
            f"Input y contains infinity or a value too large for {y.dtype!r} "
            f"({int(np.isinf(y).sum())} of {y.size} values); expected finite values, and NaN where "
            "the label is unknown. Replace them or mark them as unlabelled."
        )


@dataclass(frozen=True)
class LabelWeights:
    r"""Weights of the loss, :math:`v_i = s_i / \sum_j s_j`, for any subset of the labels.

    Parameters
    ----------
    sample : array of shape (l,)
        Positive weights of the labelled rows.
    codes : array of shape (l,) or None
        Their class numbers.
    class_weight : None, "balanced" or array of shape (n_classes,)
        ``"balanced"`` weighs each class inversely to its count among the kept labels, as a refit
        on these labels would.
    """

    sample: FloatArray
    codes: IntArray | None = None
    class_weight: str | FloatArray | None = None

    def normalized(self, kept: BoolArray | None = None) -> FloatArray:
        """Weights that sum to 1 over the ``kept`` labels, given for all of them.

        Rows that are not kept have the weight that their class would have: folds in which these
        vectors agree share a factorisation.
        """
        kept = np.ones(self.sample.shape, dtype=bool) if kept is None else kept
        weights = self.sample * self._by_class(kept)
        total = weights[kept].sum()
        return weights / total

    def _by_class(self, kept: BoolArray) -> FloatArray:
        if self.class_weight is None or self.codes is None:
            return np.ones(self.sample.shape)
        if isinstance(self.class_weight, str):
            counts = np.bincount(self.codes[kept], minlength=int(self.codes.max()) + 1)
            return (1.0 / np.maximum(counts, 1))[self.codes]
        return self.class_weight[self.codes]


def class_codes(decisions: FloatArray) -> IntArray:
    """Class numbers from decision values whose last axis runs over outputs."""
    if decisions.shape[-1] == 1:
        return (decisions[..., 0] > 0).astype(np.intp)
    return decisions.argmax(axis=-1)


def check_sample_weight(sample_weight: Any, n_rows: int) -> FloatArray:
    """Weights as an array of shape (N,), largest 1; a single number counts for all rows."""
    if np.ma.is_masked(sample_weight):
        raise ValueError(
            "sample_weight has masked entries; expected a number for each row. Use "
            "sample_weight.filled(0.0) if their labels shall not count."
        )
    try:
        with np.errstate(over="ignore"):  # of longer floats: infinite, which is refused
            weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"sample_weight has entries that are no numbers: {error}.") from None
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; expected ({n_rows},), one for each row."
        )
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if bad.size:
        raise ValueError(
            f"sample_weight[{bad[0]}] is {float(weights[bad[0]])!r} ({bad.size} such entries); "
            "expected finite weights >= 0. A weight of 0 hides the label of its row."
        )
    hint = "Use 0 for labels that shall not count."
    return _divided_by_largest(weights, "sample_weight has positive entries", hint)


def _divided_by_largest(weights: FloatArray, what: str, hint: str) -> FloatArray:
    """Weights >= 0 with 1 as the largest, which is the same problem; an error if they differ much.

    Sums and products of the weights themselves might overflow.
    """
    positive = weights[weights > 0]
    if not positive.size:
        return weights
    if positive.max() / _WEIGHT_RANGE > positive.min():
        raise ValueError(
            f"{what} from {positive.min():.3g} to {positive.max():.3g}; expected a range of less "
            f"than {_WEIGHT_RANGE:g}. {hint}"
        )
    return np.asarray(weights / positive.max())


def class_weight_array(
    class_weight: str | Mapping[Any, float] | None, classes: np.ndarray[Any, Any]
) -> str | FloatArray | None:
    """Validate ``class_weight`` and order it by class number; classes not named weigh 1."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return class_weight
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight={class_weight!r} is not understood; expected None, 'balanced' or a dict "
            "from class to positive weight."
        )
    names = classes.tolist()
    unknown = [name for name in class_weight if name not in names]
    if unknown:
        raise ValueError(
            f"class_weight names the class {unknown[0]!r}, which y does not have; its classes are "
            f"{names}. Remove it, or correct its name."
        )
    for name, weight in class_weight.items():
        check_number(f"class_weight[{name!r}]", weight)
    weights = np.array([float(class_weight.get(name, 1.0)) for name in names])
    hint = "Classes that are not named weigh 1."
    return _divided_by_largest(weights, "class_weight has weights", hint)

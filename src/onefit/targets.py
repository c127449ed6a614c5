"""What ``y`` says: which rows are labelled, their targets, and the weight of each label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from onefit._typing import BoolArray, FloatArray, IntArray

__all__ = [
    "LabelWeights",
    "Targets",
    "check_sample_weight",
    "class_targets",
    "encode_classes",
    "regression_targets",
]

UNLABELED = -1


@dataclass(frozen=True)
class Targets:
    """Targets of the labelled rows.

    Parameters
    ----------
    labelled : array of shape (N,)
        Which rows carry a label.
    values : array of shape (l, q)
        What the loss sees: regression targets, or +-1 for each one-vs-rest problem.
    codes : array of shape (l,) or None
        Class numbers; None for regression.
    classes : array or None
        Class names in the order of their numbers.
    """

    labelled: BoolArray
    values: FloatArray
    codes: IntArray | None = None
    classes: np.ndarray[Any, Any] | None = None


def encode_classes(y: Any) -> tuple[np.ndarray[Any, Any], IntArray]:
    """Class names, and the class number of every row (-1: unlabelled).

    Unlabelled are: -1 in numeric labels; -1, ``"-1"``, None and NaN in string or object labels;
    NaN in float labels.
    """
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "OUST":
        hidden = np.array([_is_missing(label) for label in y], dtype=bool)
        names = y[~hidden]
        if y.dtype.kind == "O" and names.size:
            # An object array of numbers is numeric; anything else is named by its strings.
            kinds = {type(name) for name in names.tolist()}
            names = np.array(names.tolist()) if len(kinds) == 1 else names.astype(str)
    else:
        _reject_infinite(y, "y")
        hidden = (y == UNLABELED) | (np.isnan(y) if y.dtype.kind == "f" else False)
        names = y[~hidden]
    if names.size:
        check_classification_targets(names)
    classes, numbers = np.unique(names, return_inverse=True)
    codes = np.full(y.shape[0], UNLABELED, dtype=np.intp)
    codes[~hidden] = numbers
    return classes, codes


def class_targets(y: Any) -> Targets:
    """Targets of a classifier: +-1 for two classes, one column of +-1 for each of more."""
    classes, codes = encode_classes(y)
    labelled = codes != UNLABELED
    if not labelled.any():
        raise ValueError(
            f"y has no labelled row among {len(codes)}: every label is -1, None or NaN, which mark "
            "unlabelled rows. Expected at least two classes with a label each."
        )
    if len(classes) < 2:
        raise ValueError(
            f"y has one class only, {classes[0]!r}, in its {int(labelled.sum())} labelled rows "
            f"({int((~labelled).sum())} rows are unlabelled); expected at least two classes. "
            "Note that -1 marks unlabelled rows: if your classes are -1 and +1, encode them "
            "otherwise, for instance as 0 and 1."
        )
    known = codes[labelled]
    if len(classes) == 2:
        values = (2.0 * known - 1.0)[:, None]
    else:
        values = np.where(known[:, None] == np.arange(len(classes)), 1.0, -1.0)
    return Targets(labelled, values, known, classes)


def regression_targets(y: Any) -> Targets:
    """Targets of a regressor: NaN marks an unlabelled row, in every output at once."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        y = _as_float(y)
    y = y.astype(np.float64)
    _reject_infinite(y, "y")
    outputs = y[:, None] if y.ndim == 1 else y
    missing = np.isnan(outputs)
    labelled = ~missing.any(axis=1)
    partly = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if partly.size:
        raise ValueError(
            f"row {partly[0]} of y is NaN in some outputs only ({partly.size} such rows); expected "
            "all outputs known or all NaN. Fit one regressor for each output instead."
        )
    if not labelled.any():
        raise ValueError(
            f"y has no labelled row among {len(labelled)}: every target is NaN, which marks "
            "unlabelled rows. Expected at least one known target."
        )
    return Targets(labelled, outputs[labelled])


def _as_float(y: np.ndarray[Any, Any]) -> FloatArray:
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"y has dtype {y.dtype} with entries that are no numbers; a regressor expects numbers, "
            "NaN where the target is unknown."
        ) from None


def _is_missing(label: Any) -> bool:
    if label is None or (isinstance(label, float) and np.isnan(label)):
        return True
    # pandas.NA compares to NA; identity with itself fails only for NaN-likes.
    if type(label).__name__ in {"NAType", "NaTType"}:
        return True
    return bool(label == UNLABELED) or label == str(UNLABELED)


def _reject_infinite(y: np.ndarray[Any, Any], name: str) -> None:
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(
            f"Input {name} contains infinity or a value too large for {y.dtype!r}; expected finite "
            "values, and NaN or -1 where the label is unknown."
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


def check_sample_weight(sample_weight: Any, n_rows: int) -> FloatArray:
    """Weights as an array of shape (N,); a single number counts for all rows."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; expected ({n_rows},), one for each row."
        )
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError("sample_weight has a negative, NaN or infinite entry; expected >= 0.")
    return weights


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
    unknown = [name for name in class_weight if name not in classes.tolist()]
    if unknown:
        raise ValueError(
            f"class_weight names the class {unknown[0]!r}, which y does not have; its classes are "
            f"{classes.tolist()}."
        )
    weights = np.array([float(class_weight.get(name, 1.0)) for name in classes.tolist()])
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ValueError(f"class_weight={dict(class_weight)!r}: expected positive finite weights.")
    return weights

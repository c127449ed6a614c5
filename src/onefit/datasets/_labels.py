"""Hiding labels, to turn a supervised data set into a semi-supervised one."""

from __future__ import annotations

import numbers
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

__all__ = ["make_partially_labeled"]


def make_partially_labeled(
    y: ArrayLike,
    *,
    n_labeled: int | float,
    stratify: bool | Literal["auto"] = "auto",
    random_state: int | np.random.RandomState | None = None,
) -> Any:
    """Hide all but ``n_labeled`` labels of a target, at random.

    The dtype of ``y`` says what a label is, and so what "unlabelled" looks like:

    ========================  ==============  ====================
    ``y``                     means           unlabelled becomes
    ========================  ==============  ====================
    integers, booleans        classes         ``-1``
    strings, other objects    classes         ``None``
    floats                    real values     ``NaN``
    ========================  ==============  ====================

    Rows that are unlabelled already stay so and do not count.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The target. Two dimensions are for real values only: a row is hidden as
        a whole.
    n_labeled : int or float
        How many labels to keep: an integer is their number, a float strictly
        between 0 and 1 the fraction (rounded) of the labels that ``y`` has.
    stratify : bool or "auto", default="auto"
        Whether to keep the classes in proportion. "auto" does so for classes,
        with at least one label of each class if ``n_labeled`` is no smaller
        than the number of classes, and not for real values. ``True`` insists:
        it is an error if a class would be left without a label.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice. Pass an integer for the same choice every time.

    Returns
    -------
    y_partial : ndarray, or Series or DataFrame if ``y`` is one
        A copy of ``y`` with labels hidden. Booleans and unsigned integers
        become ``int64``, strings become objects, to make room for the mark.

    See Also
    --------
    load_penguins : Real data to try this on.

    Examples
    --------
    >>> import numpy as np
    >>> from onefit.datasets import load_penguins, make_partially_labeled
    >>> X, y = load_penguins(return_X_y=True)
    >>> y_partial = make_partially_labeled(y, n_labeled=30, random_state=0)
    >>> np.unique(y_partial, return_counts=True)
    (array([-1,  0,  1,  2]), array([312,  13,   6,  11]))

    Real values are hidden as NaN, strings as None:

    >>> make_partially_labeled([0.5, 1.5, 2.5], n_labeled=1, random_state=0)
    array([nan, nan, 2.5])
    >>> make_partially_labeled(["a", "b", "a"], n_labeled=2, random_state=0)
    array([None, 'b', 'a'], dtype=object)
    """
    target = _as_target(y)
    candidates = np.flatnonzero(target.labeled)
    n_keep = _n_keep(n_labeled, candidates.size)
    rng = check_random_state(random_state)
    if _wants_strata(stratify, target.is_classes):
        codes = _class_codes(target.values[candidates])
        kept = candidates[_draw_stratified(codes, n_keep, rng, insist=stratify is True)]
    else:
        kept = candidates[rng.permutation(candidates.size)[:n_keep]]
    hidden = np.ones(target.labeled.size, dtype=bool)
    hidden[kept] = False
    partial = target.values.copy()
    partial[hidden] = target.mark
    return _like(partial, y)


class _Target(NamedTuple):
    """A target with what its dtype implies."""

    values: NDArray[Any]
    labeled: NDArray[np.bool_]
    mark: Any
    is_classes: bool


def _as_target(y: ArrayLike) -> _Target:
    """Recognise classes and real values, and which rows have a label."""
    values = np.asarray(y)
    if values.ndim == 0 or values.size == 0:
        msg = (
            f"y has shape {values.shape}: expected at least one row. "
            "Pass a one-dimensional array of labels."
        )
        raise ValueError(msg)
    kind = values.dtype.kind
    if kind == "f":
        return _real_target(values)
    if values.ndim != 1:
        msg = (
            f"y has shape {values.shape} and dtype {values.dtype}: expected one dimension for "
            "classes. Pass one column, or floats if the columns are real values."
        )
        raise ValueError(msg)
    if kind in "iub":
        return _integer_target(values)
    if kind in "UOT":
        objects = values.astype(object)
        labeled = np.array([not _is_missing(value) for value in objects], dtype=bool)
        return _Target(objects, labeled, None, True)
    msg = (
        f"y has dtype {values.dtype}: expected integers, booleans or strings for classes, or "
        "floats for real values. Convert y first."
    )
    raise ValueError(msg)


def _integer_target(values: NDArray[Any]) -> _Target:
    if values.dtype.kind in "ub":
        values = values.astype(np.int64)
    distinct = np.unique(values)
    if distinct.tolist() == [-1, 1]:
        msg = (
            "y holds only -1 and 1: expected classes coded by other values, because -1 means "
            "unlabelled here. Recode the classes, for example np.where(y == 1, 1, 0)."
        )
        raise ValueError(msg)
    return _Target(values, values != -1, -1, True)


def _real_target(values: NDArray[Any]) -> _Target:
    if values.ndim > 2:
        msg = (
            f"y has shape {values.shape}: expected one dimension, or two for several outputs. "
            "Reshape y to (n_samples, n_outputs)."
        )
        raise ValueError(msg)
    rows = values.reshape(len(values), -1)
    infinite = np.flatnonzero(np.isinf(rows).any(axis=1))
    if infinite.size:
        msg = (
            f"y is infinite in row {infinite[0]} ({infinite.size} such rows): expected finite "
            "values, or NaN for unlabelled rows. Remove these rows or mark them NaN."
        )
        raise ValueError(msg)
    missing = np.isnan(rows)
    partly = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if partly.size:
        msg = (
            f"y has NaN in some but not all outputs of row {partly[0]} ({partly.size} such "
            "rows): expected rows with all outputs or with none. Fit the outputs one by one, or "
            "mark these rows NaN throughout."
        )
        raise ValueError(msg)
    return _Target(values, ~missing.all(axis=1), np.nan, False)


def _is_missing(value: object) -> bool:
    """Whether an entry of an object array is None, NaN or pandas' NA."""
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float) and np.isnan(value)


def _n_keep(n_labeled: object, n_available: int) -> int:
    """Turn a number or a fraction into a number of labels, or say what is wrong."""
    if n_available == 0:
        msg = (
            "y has no labels: every row is unlabelled (-1 for integers, None for strings, NaN "
            "for floats). Expected at least one labelled row: pass the complete y."
        )
        raise ValueError(msg)
    if isinstance(n_labeled, numbers.Integral) and not isinstance(n_labeled, bool):
        n_keep = int(n_labeled)
        if not 1 <= n_keep <= n_available:
            msg = (
                f"n_labeled={n_keep}: expected a number from 1 to {n_available}, the number of "
                "labels that y has. For a fraction pass a float between 0 and 1."
            )
            raise ValueError(msg)
        return n_keep
    if isinstance(n_labeled, numbers.Real) and not isinstance(n_labeled, bool):
        fraction = float(n_labeled)
        if not 0.0 < fraction < 1.0:
            msg = (
                f"n_labeled={fraction}: expected a float strictly between 0 and 1 (a fraction "
                f"of the labels) or an integer from 1 to {n_available} (their number)."
            )
            raise ValueError(msg)
        n_keep = round(fraction * n_available)
        if n_keep == 0:
            msg = (
                f"n_labeled={fraction} of {n_available} labels keeps none: expected a fraction "
                f"of at least {1 / n_available:.3g}. Pass an integer to keep that many labels."
            )
            raise ValueError(msg)
        return n_keep
    msg = (
        f"n_labeled={n_labeled!r} is of type {type(n_labeled).__name__}: expected an integer "
        "(number of labels) or a float between 0 and 1 (fraction of the labels)."
    )
    raise ValueError(msg)


def _wants_strata(stratify: object, is_classes: bool) -> bool:
    if isinstance(stratify, str) and stratify == "auto":
        return is_classes
    if stratify is False:
        return False
    if stratify is True:
        if is_classes:
            return True
        msg = (
            "stratify=True, but y holds floats, which are real values here: expected classes. "
            "Convert y to integers or strings if it holds classes, else pass stratify=False."
        )
        raise ValueError(msg)
    msg = f"stratify={stratify!r}: expected True, False or 'auto'. Pass one of these."
    raise ValueError(msg)


def _class_codes(labels: NDArray[Any]) -> NDArray[np.intp]:
    """Number the classes in order of appearance (objects need not be sortable)."""
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(label, len(codes)) for label in labels], dtype=np.intp)


def _draw_stratified(
    codes: NDArray[np.intp], n_keep: int, rng: np.random.RandomState, *, insist: bool
) -> NDArray[np.intp]:
    """Draw positions so that each class has its proportional share."""
    counts = np.bincount(codes)
    if insist and n_keep < counts.size:
        msg = (
            f"n_labeled={n_keep} labels for {counts.size} classes: expected at least one label "
            "per class with stratify=True. Keep more labels, or pass stratify='auto'."
        )
        raise ValueError(msg)
    shares = _proportional_shares(counts, n_keep, rng)
    order = rng.permutation(codes.size)
    drawn = [order[codes[order] == code][:share] for code, share in enumerate(shares)]
    return np.concatenate(drawn)


def _proportional_shares(
    counts: NDArray[np.intp], n_keep: int, rng: np.random.RandomState
) -> NDArray[np.intp]:
    """Split ``n_keep`` by largest remainders, ties at random, one per class if it can be."""
    quotas = n_keep * counts / counts.sum()
    shares = np.floor(quotas).astype(np.intp)
    remainders = quotas - shares
    by_remainder = np.lexsort((rng.permutation(counts.size), -remainders))
    shares[by_remainder[: n_keep - shares.sum()]] += 1
    if n_keep >= counts.size:
        for code in np.flatnonzero(shares == 0):
            # The donor is the class most above its quota among those that can spare a label.
            excess = np.where(shares > 1, shares - quotas, -np.inf)
            shares[np.argmax(excess)] -= 1
            shares[code] = 1
    return shares


def _like(values: NDArray[Any], original: Any) -> Any:
    """Give pandas objects their index and names back."""
    if not hasattr(original, "iloc"):
        return values
    if values.ndim == 1 and hasattr(original, "name"):
        return type(original)(values, index=original.index, name=original.name, dtype=values.dtype)
    return type(original)(values, index=original.index, columns=original.columns)

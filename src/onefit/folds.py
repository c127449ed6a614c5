"""Partitions of labelled and unlabelled rows, and the folds that criteria work on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state, indexable

from onefit._typing import BoolArray, ByteArray, IntArray
from onefit.targets import UNLABELED, encode_classes

__all__ = ["Fold", "RepeatedSemiSupervisedKFold", "SemiSupervisedKFold", "check_folds"]

Task = Literal["auto", "classification", "regression"]
#: Whole numbers stored as floats are taken for class labels up to this many.
_MANY_CLASSES = 30


class SemiSupervisedKFold:
    r"""K folds that partition the labelled and the unlabelled rows separately.

    Fold i consists of labelled rows :math:`L_i` and unlabelled rows :math:`U_i`. ``split`` yields
    as training rows all but :math:`L_i \cup U_i` and as test rows :math:`L_i` alone, so that
    scikit-learn's own tools never score a row whose label is unknown. Classes are spread evenly
    over the folds; classes rarer than the number of folds are simply absent from some. Since no
    fold tests unlabelled rows, :func:`~sklearn.model_selection.cross_val_predict`, which wants a
    prediction for every row, refuses these folds; :func:`cross_val_decisions` takes its place.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds t, at most the number of labelled rows; that many gives leave-one-out.
    shuffle : bool, default=False
        Whether to shuffle rows before they are dealt to the folds. Without it rows are dealt in
        turn, in the order in which they come.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffle.
    task : {"auto", "classification", "regression"}, default="auto"
        How to read ``y``. In classification -1 (also None, and NaN) marks an unlabelled row; in
        regression NaN does. "auto" takes float targets with a NaN or a fraction for regression.

    Examples
    --------
    >>> import numpy as np
    >>> from onefit import SemiSupervisedKFold
    >>> y = np.array([0, 1, 0, 1, -1, -1, -1, -1])
    >>> for train, test in SemiSupervisedKFold(n_splits=2).split(np.zeros((8, 1)), y):
    ...     print(train, test)
    [2 3 5 7] [0 1]
    [0 1 4 6] [2 3]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        task: Task = "auto",
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.task = task

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_splits={self.n_splits}, shuffle={self.shuffle}, "
            f"random_state={self.random_state}, task={self.task!r})"
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X, y, groups : object
            Not used; there because scikit-learn's splitters have them.

        Returns
        -------
        int
        """
        return self.n_splits

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield (train, test) row numbers of every fold.

        Parameters
        ----------
        X : array-like of shape (N, n_features)
            Only its length is used.
        y : array-like of shape (N,) or (N, q)
            Targets, with unlabelled rows marked.
        groups : None
            Not used.

        Yields
        ------
        train, test : arrays of int
            Row numbers, labelled and unlabelled.
        """
        X, y = indexable(X, y)
        yield from self._split_strata(label_strata(y, self.task))

    def _split_strata(self, strata: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """As :meth:`split`, for class numbers that are -1 in unlabelled rows."""
        labelled = strata != UNLABELED
        self._check(int(labelled.sum()))
        rng = check_random_state(self.random_state) if self.shuffle else None
        fold_of = np.empty(strata.shape[0], dtype=np.int32)
        fold_of[labelled] = _deal(strata[labelled], self.n_splits, rng)
        fold_of[~labelled] = _deal(strata[~labelled], self.n_splits, rng)
        for i in range(self.n_splits):
            in_fold = fold_of == i
            yield np.flatnonzero(~in_fold), np.flatnonzero(in_fold & labelled)

    def _check(self, n_labelled: int) -> None:
        t = self.n_splits
        if not isinstance(t, Integral) or isinstance(t, bool) or t < 2:
            raise ValueError(f"n_splits={t!r}; expected an integer of at least 2.")
        if t > n_labelled:
            raise ValueError(
                f"n_splits={t} is more than the {n_labelled} labelled rows; every fold must hold "
                f"out at least one label. Use at most {n_labelled} folds (leave-one-out)."
            )


class RepeatedSemiSupervisedKFold:
    """:class:`SemiSupervisedKFold` repeated with other shuffles.

    Parameters
    ----------
    n_splits : int, default=5
        Folds of each repeat.
    n_repeats : int, default=10
        Number of repeats.
    random_state : int, RandomState instance or None, default=None
        Seed of all shuffles.
    task : {"auto", "classification", "regression"}, default="auto"
        As in :class:`SemiSupervisedKFold`.

    Examples
    --------
    >>> from onefit import RepeatedSemiSupervisedKFold
    >>> RepeatedSemiSupervisedKFold(n_splits=5, n_repeats=3).get_n_splits()
    15
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        n_repeats: int = 10,
        random_state: Any = None,
        task: Task = "auto",
    ) -> None:
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state
        self.task = task

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_splits={self.n_splits}, n_repeats={self.n_repeats}, "
            f"random_state={self.random_state}, task={self.task!r})"
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds over all repeats.

        Parameters
        ----------
        X, y, groups : object
            Not used; there because scikit-learn's splitters have them.

        Returns
        -------
        int
        """
        return self.n_splits * self.n_repeats

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield (train, test) row numbers of every fold of every repeat.

        Parameters
        ----------
        X : array-like of shape (N, n_features)
            Only its length is used.
        y : array-like of shape (N,) or (N, q)
            Targets, with unlabelled rows marked.
        groups : None
            Not used.

        Yields
        ------
        train, test : arrays of int
            Row numbers, labelled and unlabelled.
        """
        X, y = indexable(X, y)
        yield from self._split_strata(label_strata(y, self.task))

    def _split_strata(self, strata: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """As :meth:`split`, for class numbers that are -1 in unlabelled rows."""
        n = self.n_repeats
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n_repeats={n!r}; expected an integer of at least 1.")
        rng = check_random_state(self.random_state)
        for _ in range(n):
            seed = int(rng.randint(np.iinfo(np.int32).max))
            once = SemiSupervisedKFold(self.n_splits, shuffle=True, random_state=seed)
            yield from once._split_strata(strata)


def _deal(strata: IntArray, t: int, rng: np.random.RandomState | None) -> npt.NDArray[np.int32]:
    """Fold number of every row: rows of a stratum are dealt in turn, continuing over strata."""
    order = np.arange(strata.shape[0]) if rng is None else rng.permutation(strata.shape[0])
    if strata.size and strata.min() < strata.max():
        order = order[np.argsort(strata[order], kind="stable")]
    fold_of = np.empty(strata.shape[0], dtype=np.int32)
    fold_of[order] = np.arange(strata.shape[0], dtype=np.int32) % t
    return fold_of


def _looks_continuous(values: np.ndarray[Any, Any]) -> bool:
    """Several outputs, a fraction, or a NaN among floats: no class labels."""
    if values.ndim == 2 and values.shape[1] > 1:
        return True
    if values.dtype.kind == "O":
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            return False
        values = numbers[~np.isnan(numbers)]
    if values.dtype.kind != "f":
        return False
    if not np.all(values == np.floor(values)):
        return True
    if UNLABELED in values and np.unique(values).size > _MANY_CLASSES:
        raise ValueError(
            f"y has {np.unique(values).size} different whole numbers, stored as floats, among them "
            "-1: is that a target or the mark of unlabelled rows? Say task='regression' or "
            "task='classification'."
        )
    return False


def label_strata(y: Any, task: Task = "auto") -> IntArray:
    """Class numbers of the rows, 0 for any regression target, -1 where unlabelled."""
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task={task!r}; expected 'auto', 'classification' or 'regression'.")
    values = np.asarray(y)
    if task == "classification" or (task == "auto" and not _looks_continuous(values)):
        return encode_classes(y)[1]
    missing = np.isnan(values.astype(np.float64)).reshape(values.shape[0], -1).any(axis=1)
    return np.where(missing, UNLABELED, 0).astype(np.intp)


@dataclass(frozen=True)
class Fold:
    """One fold, as criteria see it. Rows are kept as bits: folds are many, and so may rows be.

    Parameters
    ----------
    kept : array of shape (ceil(N / 8),)
        Rows that stay when points are held out, as bits.
    test : array of shape (ceil(N / 8),)
        Rows it is tested on, unlabelled ones included, as bits.
    n_rows : int
        N.
    kept_labels : array of shape (l,)
        Which labels the fold trains on.
    test_labels : array of shape (l,)
        Which labels it is tested on.
    n_folds : float
        t, the number of folds of the partition it belongs to.
    """

    kept: ByteArray
    test: ByteArray
    n_rows: int
    kept_labels: BoolArray
    test_labels: BoolArray
    n_folds: float

    @property
    def kept_rows(self) -> IntArray:
        """Numbers of the rows that stay."""
        return self._numbers(self.kept, 1)

    @property
    def removed_rows(self) -> IntArray:
        """Rows that are held out with their points: S_i."""
        return self._numbers(self.kept, 0)

    @property
    def test_rows(self) -> IntArray:
        """Numbers of the rows it is tested on."""
        return self._numbers(self.test, 1)

    @cached_property
    def n_kept(self) -> int:
        """N', the number of rows that stay."""
        return int(np.unpackbits(self.kept).sum())

    def _numbers(self, bits: ByteArray, wanted: int) -> IntArray:
        return np.flatnonzero(np.unpackbits(bits, count=self.n_rows) == wanted)


def check_folds(splits: Iterable[tuple[Any, Any]], labelled: BoolArray) -> list[Fold]:
    """Folds of (train, test) pairs, checked.

    Parameters
    ----------
    splits : iterable of (train, test)
        Row numbers, or boolean masks.
    labelled : array of shape (N,)
        Which rows are labelled.
    """
    folds: list[Fold] = []
    for split in splits:
        try:
            train, test = split
        except (TypeError, ValueError):
            raise ValueError(
                f"cv gives {split!r}; expected pairs (train, test) of row numbers."
            ) from None
        folds.append(_checked_fold(len(folds), train, test, labelled))
    if not folds:
        raise ValueError("cv has no folds; expected at least one (train, test) pair.")
    t = _partition_size([fold.test_labels for fold in folds])
    return folds if t is None else [replace(fold, n_folds=t) for fold in folds]


def _checked_fold(i: int, train: Any, test: Any, labelled: BoolArray) -> Fold:
    """A fold by itself: t is the inverse of the share of labels that it holds out."""
    n = labelled.shape[0]
    train, test = _row_mask(train, n, "train"), _row_mask(test, n, "test")
    both = np.flatnonzero(train & test)
    if both.size:
        raise ValueError(
            f"fold {i} of cv has {both.size} rows in both train and test; a row is either trained "
            "on or held out."
        )
    kept, tested = train[labelled], test[labelled]
    if not kept.any():
        raise ValueError(f"fold {i} of cv trains on no labelled row; expected at least one.")
    if not tested.any():
        raise ValueError(
            f"fold {i} of cv holds out no labelled row, so it cannot be scored. Use "
            "SemiSupervisedKFold, which partitions the labelled rows by themselves."
        )
    share = float(tested.size / tested.sum())
    return Fold(np.packbits(train), np.packbits(test), n, kept, tested, share)


def _row_mask(rows: Any, n: int, name: str) -> BoolArray:
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"cv gives {name} rows of dtype {rows.dtype} and shape {rows.shape}; expected a "
            "one-dimensional array of row numbers."
        )
    if rows.size and (rows.min() < 0 or rows.max() >= n):
        raise ValueError(
            f"cv gives the {name} row {rows.max() if rows.max() >= n else rows.min()}; expected "
            f"row numbers from 0 to {n - 1}."
        )
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return mask


def _partition_size(tests: Sequence[BoolArray]) -> float | None:
    """Number of folds t when the test labels are one or more repeats of a partition, else None."""
    times = np.sum(tests, axis=0)
    if times.min() == times.max() > 0 and len(tests) % times.max() == 0:
        return len(tests) / int(times.max())
    return None

"""A finished search as a table over its parameters: what can be drawn of ``cv_results_``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from onefit._typing import FloatArray, IntArray
from onefit.search.candidates import split_pipeline
from onefit.search.results import score_names, split_scores

__all__ = ["Axis", "Surface", "describe_value", "search_surface"]

#: Parameters with more values than this, as drawn at random, are shown in bins.
_MOST_LEVELS = 24
_BINS = 12
_PENALTIES = ("ambient_penalty", "manifold_penalty")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """One parameter that varies in a search.

    Parameters
    ----------
    name : str
        Name in ``params``.
    label : str
        Name without the prefix of the pipeline.
    levels : tuple of str
        Its values in order, or bins of them, as text.
    codes : array of shape (n_candidates,)
        Level of every candidate.
    is_numeric : bool
        Whether the order of the levels means something.
    """

    name: str
    label: str
    levels: tuple[str, ...]
    codes: IntArray
    is_numeric: bool


@dataclass(frozen=True)
class Surface:
    """Scores of all candidates, with the parameters that vary as axes.

    Parameters
    ----------
    score : str
        Name of the score.
    mean, std : array of shape (n_candidates,)
        Over the folds.
    splits : array of shape (n_candidates, n_folds)
        Scores fold by fold.
    axes : tuple of Axis
        The two to draw first: the penalties where they vary.
    best : int
        The chosen candidate.
    """

    score: str
    mean: FloatArray
    std: FloatArray
    splits: FloatArray
    axes: tuple[Axis, ...]
    best: int

    def axis(self, name: str) -> Axis:
        """The axis of a parameter, named with or without its prefix."""
        for axis in self.axes:
            if name in (axis.name, axis.label):
                return axis
        raise ValueError(
            f"{name!r} does not vary by itself in this search; expected one of "
            f"{[axis.label for axis in self.axes]}."
        )

    def best_by_level(self, axis: Axis, among: Any = None) -> IntArray:
        """Best candidate at every level of an axis, -1 where there is none."""
        mean = np.where(np.isnan(self.mean), -np.inf, self.mean)
        found = np.full(len(axis.levels), -1, dtype=np.intp)
        for level in range(len(axis.levels)):
            here = axis.codes == level if among is None else (axis.codes == level) & among
            # Where the choice is as good as any, show the choice.
            if here.any():
                top = int(np.flatnonzero(here)[np.argmax(mean[here])])
                chosen = here[self.best] and mean[self.best] >= mean[top]
                found[level] = self.best if chosen else top
        return found

    def plane(self, rows: Axis, columns: Axis, fixed: Mapping[str, int]) -> IntArray:
        """Candidates over two axes, -1 where there is none; others at their ``fixed`` levels."""
        among = np.ones(self.mean.shape[0], dtype=bool)
        for axis in self.axes:
            if axis.name in fixed:
                among &= axis.codes == fixed[axis.name]
        return np.array(
            [
                self.best_by_level(columns, among & (rows.codes == level))
                for level in range(len(rows.levels))
            ]
        )


def search_surface(search: Any) -> Surface:
    """The surface of a fitted :class:`~onefit.ManifoldSearchCV`."""
    check_is_fitted(search, "cv_results_")
    if not hasattr(search, "best_index_"):
        raise ValueError(
            "the search has several scores and refit=False, so that nothing was chosen; expected "
            "a search with refit=True, or refit='name of a score'."
        )
    columns = search.cv_results_
    name = _score_key(search)
    prefix = split_pipeline(search.estimator)[2]
    return Surface(
        score=_score_label(search, name),
        mean=columns[f"mean_test_{name}"],
        std=columns[f"std_test_{name}"],
        splits=split_scores(columns, name),
        axes=_ordered(_varying_axes(columns, prefix)),
        best=int(search.best_index_),
    )


def _score_key(search: Any) -> str:
    if not search.multimetric_:
        return "score"
    if isinstance(search.refit, str):
        return search.refit
    return score_names(search.cv_results_)[0]


def _score_label(search: Any, name: str) -> str:
    if name != "score":
        return name
    if isinstance(search.scoring, str):
        return search.scoring.replace("_", " ")
    if callable(search.scoring):
        return str(getattr(search.scoring, "__name__", "score"))
    return "accuracy" if is_classifier(search.estimator) else "R²"


def _varying_axes(columns: Mapping[str, Any], prefix: str) -> list[Axis]:
    names = [key.removeprefix("param_") for key in columns if key.startswith("param_")]
    axes = [_axis(name, name.removeprefix(prefix), columns[f"param_{name}"]) for name in names]
    return _joined([axis for axis in axes if len(axis.levels) > 1])


def _joined(axes: list[Axis]) -> list[Axis]:
    """One axis for words that vary only together, as ``graph_weights`` with ``laplacian``."""
    kept: list[Axis] = []
    for axis in axes:
        twin = next((other for other in kept if _vary_together(axis, other)), None)
        if twin is not None:
            kept.remove(twin)
            other_level = dict(zip(axis.codes.tolist(), twin.codes.tolist(), strict=True))
            both = [f"{text}, {twin.levels[other_level[i]]}" for i, text in enumerate(axis.levels)]
            axis = replace(axis, levels=tuple(both))
        kept.append(axis)
    return kept


def _vary_together(one: Axis, other: Axis) -> bool:
    pairs = set(zip(one.codes.tolist(), other.codes.tolist(), strict=True))
    is_same = len(one.levels) == len(other.levels) == len(pairs)
    return is_same and not (one.is_numeric or other.is_numeric)


def _ordered(axes: list[Axis]) -> tuple[Axis, ...]:
    """Penalties first, then those with most levels, so that the first two make the best picture."""

    def rank(axis: Axis) -> tuple[int, int]:
        is_penalty = axis.label in _PENALTIES
        return (_PENALTIES.index(axis.label) if is_penalty else 2, -len(axis.levels))

    return tuple(sorted(axes, key=rank))


def _axis(name: str, label: str, column: Any) -> Axis:
    absent = np.ma.getmaskarray(column)
    values = list(column.data)
    numbers = [v for v, gone in zip(values, absent, strict=True) if _is_number(v) and not gone]
    if len(set(numbers)) > _MOST_LEVELS:
        values = _binned(values, np.array(sorted(set(numbers)), dtype=np.float64))
    keys = [_Absent if gone else _key(v) for v, gone in zip(values, absent, strict=True)]
    found = dict(zip(keys, values, strict=True))
    order = sorted(found, key=_sort_key)
    numeric = all(_is_number(key) for key in order)
    where = {key: i for i, key in enumerate(order)}
    texts = ["not set" if key is _Absent else describe_value(found[key]) for key in order]
    codes = np.array([where[key] for key in keys], dtype=np.intp)
    return Axis(name, label, tuple(_distinct(texts, [found[k] for k in order])), codes, numeric)


class _Absent:
    """Key of a parameter that a candidate does not have."""


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _key(value: Any) -> Any:
    """What makes two values the same level; what has no text of its own counts by identity."""
    if _is_number(value) or isinstance(value, str | bool) or value is None:
        return value
    try:
        return ("hash", hash(value), id(type(value)))
    except TypeError:
        return ("text", repr(value)) if isinstance(value, dict) else ("id", id(value))


def _sort_key(key: Any) -> tuple[int, float, str]:
    if _is_number(key):
        return (1, float(key), "")
    # What is off comes before what is on.
    return (0 if key is None or key is _Absent else 2, 0.0, str(key))


def _binned(values: Sequence[Any], distinct: FloatArray) -> list[Any]:
    """Middle of the bin of every number; geometric bins where all but zero is positive."""
    positive = distinct[distinct > 0]
    if distinct[0] < 0 or positive[-1] < 20 * positive[0]:
        edges = np.linspace(distinct[0], distinct[-1], _BINS + 1)
        middles = (edges[1:] + edges[:-1]) / 2
    else:
        edges = np.geomspace(positive[0], positive[-1], _BINS + 1)
        middles = np.sqrt(edges[1:] * edges[:-1])
    rounded = [float(f"{middle:.3g}") for middle in middles]

    def middle(value: Any) -> Any:
        if not _is_number(value) or (value == 0 and edges[0] > 0):
            return value
        return rounded[int(np.clip(np.searchsorted(edges, value, "right") - 1, 0, _BINS - 1))]

    return [middle(value) for value in values]


def _distinct(texts: Sequence[str], values: Sequence[Any]) -> list[str]:
    """Texts, with more digits or a number where they would be the same."""
    result: list[str] = []
    for text, value in zip(texts, values, strict=True):
        if texts.count(text) > 1:
            text = f"{value:.8g}" if _is_number(value) else f"{text} ({len(result) + 1})"
        result.append(text)
    return result


def describe_value(value: Any) -> str:
    """A parameter or number as short text: powers of ten as such, otherwise three digits."""
    if isinstance(value, str):
        return value
    if _is_number(value):
        return _describe_number(float(value))
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _describe_number(value: float) -> str:
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else ("∞" if value > 0 else "-∞")
    mantissa, exponent = f"{value:.2e}".split("e")
    mantissa, power = mantissa.rstrip("0").rstrip("."), int(exponent)
    is_power = mantissa in ("1", "-1")
    if -3 < power < 3 or (abs(power) == 3 and not is_power):
        return f"{value:.0f}" if power == 3 else f"{value:.3g}"
    ten = f"10{str(power).translate(_SUPERSCRIPTS)}"
    return mantissa.replace("1", ten) if is_power else f"{mantissa}×{ten}"
